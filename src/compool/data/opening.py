"""Open a set of graphs in a single file or folder, with the names of its classes and labels."""

from pathlib import Path

from compool.data._archive import Archive, DamagedError
from compool.data._parsing import parse
from compool.data._tu_files import read_names
from compool.data.graph_set import GraphSet
from compool.data.names import Names, names_from_json
from compool.data.tu import cache_folder, find_source


def names_of(name: str, data: Path | None = None) -> Names:
    """The names of classes and labels of a set; empty if they are unknown. Arguments as in :func:`load`.

    Example:
        >>> from compool.data import communities
        >>> communities(9).save(getfixture("tmp_path") / "nine.npz")
        >>> names_of("nine", getfixture("tmp_path")).classes
        ()
    """
    source = cache_folder() / f"{name}.npz" if data is None else find_source(name, data)
    if source.suffix != ".npz":
        return read_names(name, source)
    return names_from_json(GraphSet.notes(source).get("names", "")) if source.exists() else Names()


def open_graphs(path: Path) -> tuple[GraphSet, Names]:
    """The graphs of one file or folder, whose classes may be missing, and the names of their labels.

    Args:
        path: a file that :meth:`GraphSet.save` wrote, or a zip file or folder with the text files of one TU set.
    """
    if path.suffix == ".npz":
        graphs = GraphSet.open(path)[0]
        return graphs, graphs.names
    if path.is_dir():
        source = path / "raw" if (path / "raw").is_dir() else path
        edge_files = [file.name for file in sorted(source.glob("*_A.txt"))]
    elif path.is_file():
        source = path
        try:
            with Archive(path) as archive:
                edge_files = [member.rpartition("/")[2] for member in archive.members if member.endswith("_A.txt")]
        except DamagedError as error:
            raise ValueError(f"{path} is neither a zip file nor a saved set of graphs ({error})") from None
    else:
        raise FileNotFoundError(f"{path} does not exist")
    edge_files = [file for file in edge_files if not file.startswith(".")]  # macOS adds files such as ._NAME_A.txt
    if len(edge_files) != 1:
        available = ", ".join(file.removesuffix("_A.txt") for file in edge_files) or "none"
        raise ValueError(f"{path} must have the files of one data set, such as NAME_A.txt; it has {available}")
    name = edge_files[0].removesuffix("_A.txt")
    graphs = parse(name, source, has_targets=False)
    return graphs, graphs.names
