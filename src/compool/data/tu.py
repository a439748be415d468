"""Find, load and cache data sets in the TU layout (https://chrsmrrs.github.io/datasets)."""

import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from compool._words import did_you_mean
from compool.data._parsing import parse
from compool.data.conversion import check_name
from compool.data.generated import GENERATED_NAMES
from compool.data.graph_set import GraphSet
from compool.data.paper import TABLE_1, TU_NAMES

_log = logging.getLogger(__name__)
_READER = "reader 2;"  # changes when more of the files is read; sets cached by older versions are then parsed again


def load(name: str, data: Path | str | None = None, variant: str = "paper", check_edges: bool = True) -> GraphSet:
    """Load a set by name, from the TU collection or from a file that :meth:`GraphSet.save` wrote.

    ``"PROTEINS"`` is the paper's set, as in studies: the TU set PROTEINS_full, whose nodes have 29 attributes. The TU
    set PROTEINS itself, whose nodes have one, is ``load("PROTEINS", variant="tu")``.

    It is parsed once and cached as ``NAME.npz`` in the folder given by the environment variable ``COMPOOL_CACHE``, or
    in ``~/.cache/compool``. This file can be copied elsewhere and used instead of the set. A damaged cache
    file is rebuilt if `data` is given; a cache folder that cannot be written to causes a warning.

    A zip file that unpacks to more than 4 GiB, or to more than 256 MiB and 200 times its own size, is rejected, unless
    the environment variable ``COMPOOL_MAX_UNPACKED_MB`` allows its size.

    Args:
        name: for example ``"NCI1"``.
        data: ``NAME.npz`` or ``NAME.zip``; or a folder with one of these, with a folder ``NAME`` of text files, or with
            PyG's ``NAME/raw``. By default, the set in the cache, or PyG downloads it.
        variant: ``"paper"``: the set that the paper gives this name; ``"tu"``: the TU collection.
        check_edges: as in :meth:`GraphSet.open`.

    Example:
        >>> from compool.data import communities
        >>> communities(9).save(getfixture("tmp_path") / "communities.npz")
        >>> load("communities", getfixture("tmp_path"))
        GraphSet('communities', 9 graphs, 4 features (labels), 3 classes)
    """
    if variant not in ("paper", "tu"):
        raise ValueError(f"variant must be 'paper' or 'tu', got {variant!r}")
    given, name = check_name(name), TU_NAMES.get(name, name) if variant == "paper" else name
    try:
        return _load(name, data, check_edges)
    except FileNotFoundError as error:
        if given == name:
            raise
        raise FileNotFoundError(f"{error}; {given} stands for {name}; variant='tu' loads {given} itself") from None


def _load(name: str, data: Path | str | None, check_edges: bool) -> GraphSet:
    cached = cache_folder() / f"{name}.npz"
    if data is None:
        if os.path.exists(cached):  # Path.exists raises if the folder must not be read
            graphs, about = GraphSet.open(cached, check_edges)
            if not about.get("source", _READER).startswith(_READER):
                _log.warning(
                    "%s was cached by an earlier version, without edge labels; to read them, delete it, or give the "
                    "folder of %s once",
                    cached,
                    name,
                )
            return graphs
        with tempfile.TemporaryDirectory(prefix="compool-") as folder:
            return _cached(name, _download(name, Path(folder)), cached, check_edges)
    return _cached(name, find_source(name, Path(data)), cached, check_edges)


def _cached(name: str, source: Path, cached: Path, check_edges: bool) -> GraphSet:
    """The set at `source`: from the cache if it was made from this source, otherwise parsed and cached."""
    if source.suffix == ".npz":
        return GraphSet.open(source, check_edges)[0]
    signature = _signature(source)
    try:
        graphs, about = GraphSet.open(cached, check_edges)
        if about.get("source") == signature:
            return graphs
    except (ValueError, OSError):
        pass  # missing, of another format, or damaged: rebuilt from the source
    graphs = parse(name, source)
    _save(graphs, cached, source)
    return graphs


def _save(graphs: GraphSet, cached: Path, source: Path) -> None:
    try:
        graphs.save(cached, source=_signature(source))
    except OSError as error:  # a failure to cache must not stop the command
        _log.warning("%s cannot be written (%s): %s is parsed again next time", cached, error, source)


def summary(name: str, data: Path | None = None) -> dict[str, Any]:
    """The :attr:`GraphSet.summary` of a set; if it is cached, without reading the graphs. Arguments as in :func:`load`.

    Example:
        >>> from compool.data import communities
        >>> communities(9).save(getfixture("tmp_path") / "nine.npz")
        >>> summary("nine", getfixture("tmp_path"))["graphs"]
        9
    """
    cached = cache_folder() / f"{name}.npz"
    source = cached if data is None else find_source(name, data)
    try:
        notes = GraphSet.notes(source if source.suffix == ".npz" else cached)
        if "summary" in notes and (source.suffix == ".npz" or notes.get("source") == _signature(source)):
            return dict(json.loads(notes["summary"]))
    except (ValueError, OSError):
        pass  # not cached, or damaged
    return load(name, data, "tu").summary


def cache_folder() -> Path:
    """The folder of cached sets."""
    return Path(os.environ.get("COMPOOL_CACHE") or Path.home() / ".cache" / "compool")


def find_source(name: str, data: Path) -> Path:
    """The file or folder that holds the set: below `data`, or `data` itself."""
    if data.is_file():
        if data.name not in (f"{name}.npz", f"{name}.zip"):
            raise FileNotFoundError(f"{data} is neither {name}.zip nor {name}.npz; give one of these, or a folder")
        return data
    for path in (data / f"{name}.npz", data / f"{name}.zip"):
        if path.is_file():
            return path
    for folder in (data / name / "raw", data / name, data):
        if (folder / f"{name}_A.txt").is_file():
            return folder
    if not data.is_dir():
        raise FileNotFoundError(
            f"Folder {data} does not exist; it should have {name}.zip, {name}.npz or {name}/{name}_A.txt"
        )
    hint = did_you_mean(name, (*available(data), *GENERATED_NAMES))
    raise FileNotFoundError(
        f"no data set {name} in {data}: expected {name}.zip, {name}.npz or {name}/{name}_A.txt there{hint}"
    )


def available(data: Path) -> list[str]:
    """The names of the sets below a folder."""
    names = {path.stem for path in data.glob("*.zip")} | {path.stem for path in data.glob("*.npz")}
    for pattern in ("*_A.txt", "*/*_A.txt", "*/raw/*_A.txt"):
        names |= {path.name.removesuffix("_A.txt") for path in data.glob(pattern)}
    return sorted(name for name in names if not name.startswith("."))  # macOS adds files such as ._NAME_A.txt


def _download(name: str, folder: Path) -> Path:
    from torch_geometric.datasets import TUDataset

    try:
        TUDataset(str(folder), name)
    except Exception as error:  # PyG, its downloader and the network raise many types
        hint = did_you_mean(name, (*available(cache_folder()), *TABLE_1, *TU_NAMES, *GENERATED_NAMES))
        raise FileNotFoundError(
            f"{name} is not in the cache and could not be downloaded ({type(error).__name__}: {error}); "
            f"give a folder that has it, or FILE.py:FUNCTION if a function makes it{hint}"
        ) from None
    return folder / name / "raw"


def _signature(source: Path) -> str:
    files = sorted(source.glob("*.txt")) if source.is_dir() else [source]
    return _READER + ";".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
