"""The value of `--data`: a folder of data sets, a saved set, or a function that returns a set."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compool.cli._app import stop

if TYPE_CHECKING:
    from compool.data import GraphSet


class Source(NamedTuple):
    """The location of data sets."""

    folder: Path | None
    """None: the cache, or a download."""
    name: str | None = None
    """The data set, if `--data` names a single one."""
    is_asked: bool = False
    """Whether `--data` is on the command line, rather than in the environment as ``COMPOOL_DATA``."""
    is_file: bool = False
    """Whether `--data` is a file."""

    def datasets(self, names: list[str] | None, default: str) -> list[str]:
        """The data sets of a command: those that it names, the single one, or the default."""
        from compool.data.paper import TU_NAMES

        option = "--data" if self.is_asked else "COMPOOL_DATA"
        if self.is_file and self.name in TU_NAMES:
            meant = f"{self.name} stands for {TU_NAMES[self.name]} in studies"
            raise stop(f"{option} gives a file named {self.name}, but {meant}; rename the file to use your own set")
        if self.is_asked and self.folder is not None and self.name is None and not names:
            from compool.data.tu import available

            if not self.folder.is_dir():
                raise stop(f"--data {self.folder} does not exist")
            known = available(self.folder)
            listed = f"; it has {', '.join(known[:8])}{', …' if len(known) > 8 else ''}" if known else ""
            raise stop(f"--data {self.folder} is a folder of data sets: name one before --data{listed}")
        if self.name is None or not names:
            return names or [self.name or default]
        if names != [self.name]:
            advice = "do not name others" if self.is_asked else "unset it to use others"
            raise stop(f"{option} gives the data set {self.name}; {advice}, got {' '.join(names)}")
        return names


def find_data(data: Path | None) -> Source:
    """The folder and the data set that `--data` names.

    It is a folder; a file, ``NAME.npz`` written by :meth:`GraphSet.save` or ``NAME.zip`` from the TU collection; or a
    function, ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``, that returns a list of :class:`torch_geometric.data.Data`, a
    PyG dataset or a :class:`GraphSet`. The returned graphs are saved in the cache, where worker processes find them.
    """
    if data is None:
        return Source(None)
    is_asked = not is_in_environment(data)
    if data.suffix in (".npz", ".zip") and not data.is_dir():
        if not data.is_file():
            raise stop(f"--data {data} does not exist")
        return Source(data.parent, data.stem, is_asked, is_file=True)
    if is_function(data):
        return _saved(_set_of(str(data)), is_asked)
    if data.is_file():
        raise stop(f"--data {data} must be a folder, a .zip or .npz file, or FILE.py:FUNCTION that returns PyG graphs")
    return Source(data, is_asked=is_asked)


def is_in_environment(data: Path) -> bool:
    """Whether `--data` is the value of the environment variable ``COMPOOL_DATA``."""
    return str(data) == os.environ.get("COMPOOL_DATA")


def _saved(graphs: "GraphSet", is_asked: bool) -> Source:
    """A cache folder that holds only this set, under the name that recipes use for it."""
    from compool.data.paper import TU_NAMES
    from compool.data.tu import cache_folder

    folder = cache_folder() / "own" / f"{graphs.checksum}{graphs.edge_checksum}"
    path = folder / f"{TU_NAMES.get(graphs.name, graphs.name)}.npz"
    if not path.exists():
        graphs.save(path)
    return Source(folder, graphs.name, is_asked)


def is_function(data: Path) -> bool:
    """Whether `--data` is a function, ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``."""
    return ":" in str(data) and not data.exists()


def graphs_of(reference: str) -> Any:
    """The graphs that the function of a reference returns: a set, or a list of PyG graphs."""
    from compool.data import GraphSet
    from compool.data.conversion import as_list

    graphs = _call(reference)
    try:
        return graphs if isinstance(graphs, GraphSet) else as_list(graphs)
    except ValueError as error:
        raise stop(f"--data {reference}: {error}") from None


def _set_of(reference: str) -> "GraphSet":
    """The graphs that the function of a reference returns, as a set."""
    from compool.data import GraphSet

    graphs = _call(reference)
    try:
        named = isinstance(graphs, GraphSet) or hasattr(type(graphs), "index_select")  # a PyG dataset
        return GraphSet.from_data(graphs, None if named else reference.rpartition(":")[2])
    except ValueError as error:
        raise stop(f"--data {reference}: {error}") from None


def _call(reference: str) -> Any:
    """What the function of a reference returns. Errors in its code are shown with their traceback."""
    from compool.study.own_network import importable, load_module, own_code, read_source

    location, _, name = reference.rpartition(":")
    function = getattr(load_module(reference, read_source(reference, "--data")), name, None)
    if not callable(function):
        raise stop(f"--data {reference}: {location} has no function {name}")
    with own_code(reference), importable(reference):
        return function()
