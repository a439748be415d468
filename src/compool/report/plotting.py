"""Style, colours, labels and files of all figures."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compool._files import atomic_write
from compool.report.results import METHOD_ORDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#999999",
    "#e69f00",
    "#56b4e9",
    "#cc79a7",
    "#332288",
)  # safe for colour-blind readers
COLUMN = 3.3  # inches: the width of a column in print
LINE_STYLES = ("-", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 0.6)))  # to distinguish methods in greyscale
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "font.size": 7,
    "axes.titlesize": 7,
    "figure.titlesize": 8,
    "axes.linewidth": 0.6,
    "pdf.fonttype": 42,
}


def canvas(width: float, height: float, columns: int = 1, lines: int = 1) -> tuple["Figure", Any]:
    """A new figure, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")  # without pyplot: nothing global, nothing to close
    return figure, figure.subplots(lines, columns)


def colour_of(method: str) -> str:
    """The colour of a method, the same in every figure."""
    return COLOURS[colour_index(method)]


def colour_index(method: str) -> int:
    """The index of a method's colour; unknown methods have that of ``"none"``."""
    return METHOD_ORDER.index(method if method in METHOD_ORDER else "none")


def line_style(method: str) -> Any:
    """The dashes of a method's lines, the same in every figure."""
    return LINE_STYLES[colour_index(method) % len(LINE_STYLES)]


def label(name: str) -> str:
    """A name as text in a figure: shortened, and with dollar signs escaped."""
    return (name if len(name) <= 32 else f"{name[:31]}…").replace("$", r"\$")


def file_name(name: str) -> str:
    """A name as part of a file's name.

    Example:
        >>> file_name("REDDIT-BINARY (paper)"), file_name("../../etc")
        ('REDDIT-BINARY-paper', 'etc')
    """
    letters = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in name)
    return "-".join(part for part in letters.split("-") if part)[:80] or "unnamed"


def file_names(names: Iterable[str]) -> list[str]:
    """Each name as part of a file's name, numbered if it occurs again, for example because it was cut.

    Example:
        >>> file_names(["NCI1 (paper)", "NCI1", "NCI1, paper"])
        ['NCI1-paper', 'NCI1', 'NCI1-paper-2']
    """
    unique: list[str] = []
    for name in map(file_name, names):
        numbered = (name, *(f"{name}-{number}" for number in range(2, len(unique) + 2)))
        unique.append(next(candidate for candidate in numbered if candidate not in unique))
    return unique


def save_figure(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF, each file completely or not at all."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        write_figure(figure, path)
        figure.set_layout_engine("none")  # keeps the layout of the first file, which takes half of the time
    return paths


def write_figure(figure: "Figure", path: Path) -> None:
    """Write a figure in the format given by the suffix of `path`."""
    about = {"Software": None} if path.suffix == ".png" else {"CreationDate": None} if path.suffix == ".pdf" else None
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=300, metadata=about)
