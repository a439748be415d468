"""What all figures share: style, colours, names, files."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from compool._files import atomic_write
from compool.report.results import ORDER

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
)  # the colour-blind see them, too
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "font.size": 9,
    "pdf.fonttype": 42,
}


def canvas(width: float, height: float, columns: int = 1, lines: int = 1) -> tuple["Figure", Any]:
    """A figure, and its panels."""
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")  # without pyplot: nothing global, nothing to close
    return figure, figure.subplots(lines, columns)


def colour_of(method: str) -> str:
    """The same in every figure."""
    return COLOURS[place_of(method)]


def place_of(method: str) -> int:
    """Which of the colours it is; that of ``"none"`` for methods that are not known."""
    return ORDER.index(method if method in ORDER else "none")


def shown_as(name: str) -> str:
    """A name as a figure takes it: not too long, and a dollar sign starts no formula."""
    return (name if len(name) <= 32 else f"{name[:31]}…").replace("$", r"\$")


def plain(name: str) -> str:
    """A name as part of a file's name.

    Example:
        >>> plain("REDDIT-BINARY (paper)"), plain("../../etc")
        ('REDDIT-BINARY-paper', 'etc')
    """
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_") else "-" for letter in name)
    return "-".join(part for part in kept.split("-") if part)[:80] or "unnamed"


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF; there is no half-written file at any time."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        write(figure, path)
        figure.set_layout_engine("none")  # the first file laid it out, which takes half of the time
    return paths


def write(figure: "Figure", path: Path) -> None:
    """Write a figure in the format that the path's ending names."""
    about = {"Software": None} if path.suffix == ".png" else {"CreationDate": None} if path.suffix == ".pdf" else None
    with atomic_write(path) as partial:
        figure.savefig(partial, dpi=150, metadata=about)
