"""The text files of a set in the TU layout, in a zip file or a folder."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compool.data._archive import Archive, DamagedError
from compool.data._text import Stream, read_integers
from compool.data.names import Names, value_names

_SUFFIXES = (
    *("A", "graph_indicator", "graph_labels", "graph_attributes"),
    *("node_labels", "node_attributes", "edge_labels", "edge_attributes"),
)
Read = Callable[[str], Stream | None]  # of a suffix such as "A": the bytes of NAME_A.txt, or None


@contextmanager
def open_files(name: str, source: Path) -> Iterator[Read]:
    """The text files of a set in a zip file or a folder."""
    if source.is_dir():
        with ExitStack() as opened:

            def read(suffix: str) -> Stream | None:
                path = source / f"{name}_{suffix}.txt"
                return opened.enter_context(path.open("rb")) if path.is_file() else None

            yield read
        return
    try:
        with Archive(source) as archive:
            paths = {path.rpartition("/")[2]: path for path in archive.members}
            wanted = {suffix: paths[f"{name}_{suffix}.txt"] for suffix in _SUFFIXES if f"{name}_{suffix}.txt" in paths}
            archive.require_size(wanted.values())
            yield lambda suffix: archive.open(wanted[suffix]) if suffix in wanted else None
    except DamagedError as error:
        raise ValueError(f"{source} is truncated or damaged: {error}") from None


def read_names(name: str, source: Path) -> Names:
    """The names of classes and labels in the text files of a set."""

    def names_in(suffix: str) -> tuple[str, ...]:
        stream, one_column = read(suffix), suffix == "graph_labels"
        if stream is None:
            return ()
        rows = read_integers(stream, f"{name}_{suffix}.txt", **{} if one_column else {"columns": None})
        return value_names(rows[:, :1] if one_column else rows)

    with open_files(name, source) as read:
        return Names(*(names_in(suffix) for suffix in ("graph_labels", "node_labels", "edge_labels")))
