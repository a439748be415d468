"""What `--data` names: a folder of sets, a saved set, or a function that makes a set."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from compool.cli._app import stop

if TYPE_CHECKING:
    from compool.data import GraphSet


class Source(NamedTuple):
    """Where data sets are."""

    folder: Path | None
    """None: the cache, or a download."""
    name: str | None = None
    """The data set, if `--data` names a single one."""

    def datasets(self, names: list[str] | None, default: str) -> list[str]:
        """The data sets of a command: those that it names, or the single one, or a default."""
        if self.name is None or not names:
            return names or [self.name or default]
        if names != [self.name]:
            raise stop(f"--data gives the data set {self.name}; name that or none, got {' '.join(names)}")
        return names


def find_data(data: Path | None) -> Source:
    """The folder and the data set that `--data` names.

    It is a folder; or a file ``NAME.npz`` that :meth:`GraphSet.save` wrote; or ``FILE.py:FUNCTION`` or
    ``MODULE:FUNCTION``, where the function returns a list of :class:`torch_geometric.data.Data`, a dataset of PyG or a
    :class:`GraphSet`. What a function returns is saved in the cache, where processes find it.
    """
    if data is None:
        return Source(None)
    if data.suffix == ".npz":
        if not data.is_file():
            raise stop(f"--data {data} does not exist")
        return Source(data.parent, data.stem)
    if ":" in str(data) and not data.exists():
        return _saved(_call(str(data)))
    return Source(data)


def _saved(graphs: "GraphSet") -> Source:
    """A folder of the cache that holds nothing but this set, under the name by which recipes look for it."""
    from compool.data.paper import TU_NAMES
    from compool.data.tu import cache_folder

    folder = cache_folder() / "own" / f"{graphs.checksum}{graphs.edge_checksum}"
    path = folder / f"{TU_NAMES.get(graphs.name, graphs.name)}.npz"
    if not path.exists():
        graphs.save(path)
    return Source(folder, graphs.name)


def _call(reference: str) -> "GraphSet":
    """The set that the function of a reference returns. Errors in its code come with their traceback."""
    from compool.data import GraphSet

    location, _, name = reference.rpartition(":")
    function = _function(reference, location, name)
    graphs = _own_code(reference, function)
    try:
        return GraphSet.from_data(graphs, name if isinstance(graphs, list | tuple) else None)
    except ValueError as error:
        raise stop(f"--data {reference}: {error}") from None


def _function(reference: str, location: str, name: str) -> Callable[[], Any]:
    is_file = location.endswith(".py")
    if not location or not name.isidentifier():
        raise stop(f"--data must be a folder, a file NAME.npz, FILE.py:FUNCTION or MODULE:FUNCTION; got {reference!r}")
    if is_file and not Path(location).is_file():
        raise stop(f"--data {reference}: {location} does not exist")
    sys.path.insert(0, str(Path(location).absolute().parent if is_file else Path.cwd()))  # as beside a script
    if not is_file and not _exists(location):
        raise stop(f"--data {reference}: there is no Python module {location}; a file is written FILE.py:FUNCTION")
    module = _own_code(reference, lambda: _file_module(location) if is_file else importlib.import_module(location))
    function = getattr(module, name, None)
    if function is None:
        raise stop(f"--data {reference}: {location} has no function {name}")
    if not callable(function):
        raise stop(f"--data {reference}: {name} must be a function, got {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _file_module(location: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"own_{Path(location).stem}", location)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # data classes look their module up
    spec.loader.exec_module(module)
    return module


def _own_code(reference: str, function: Callable[[], Any]) -> Any:
    """Call code of the user's own: its errors are shown with the part of the traceback that is theirs."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        typer.echo("".join(traceback.format_exception(type(error), error, _own_part(error.__traceback__))), err=True)
        raise stop(f"--data {reference}: {type(error).__name__}: {error}".splitlines()[0]) from None


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is neither ours nor of the import system."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] in (
        "compool",
        "importlib",
    ):
        trace = trace.tb_next
    return trace
