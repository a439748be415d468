"""Data sets in the TU layout (https://chrsmrrs.github.io/datasets), from wherever they are."""

import difflib
import json
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool.data._edges import OneDirectionError, order_edges
from compool.data._text import read_floats, read_integers
from compool.data._tu_files import Read, open_files, read_names
from compool.data.conversion import check_name
from compool.data.graph_set import GraphSet
from compool.data.paper import TU_NAMES

_log = logging.getLogger(__name__)
_READER = "reader 2;"  # changes when more of the files is read: what an older version cached is then parsed again


def load(name: str, data: Path | str | None = None, variant: str = "paper", check_edges: bool = True) -> GraphSet:
    """Load a set by name: of the TU collection, or one that :meth:`GraphSet.save` wrote.

    ``"PROTEINS"`` is the paper's set, as in studies: the TU set PROTEINS_full, whose nodes have 29 attributes. The TU
    set of that very name, whose nodes have one, is ``load("PROTEINS", variant="tu")``.

    It is parsed once and cached in a file, ``NAME.npz``, in the folder that the variable ``COMPOOL_CACHE`` names, or
    ``~/.cache/compool``. That file can be copied elsewhere and replaces the set there. A damaged cache file is rebuilt;
    a cache folder that cannot be written to causes a warning.

    A zip file that unpacks to more than 4 GiB, or to more than 256 MiB and 200 times its own size, is refused, unless
    the variable ``COMPOOL_MAX_UNPACKED_MB`` allows as much.

    Args:
        name: for instance ``"NCI1"``.
        data: a folder with ``NAME.npz``, ``NAME.zip``, a folder ``NAME`` with the text files, or PyG's ``NAME/raw``. By
            default, what the cache has, or else PyG downloads it.
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
        raise FileNotFoundError(f"{error}; {given} means {name} here, variant='tu' loads {given} itself") from None


def _load(name: str, data: Path | str | None, check_edges: bool) -> GraphSet:
    cached = cache_folder() / f"{name}.npz"
    if data is None:
        if os.path.exists(cached):  # Path.exists raises where the folder must not be read
            graphs, about = GraphSet.open(cached, check_edges)
            if not about.get("source", _READER).startswith(_READER):
                _log.warning(
                    "%s is from an earlier version, without edge labels: delete it, or name the folder of %s once, "
                    "to read them",
                    cached,
                    name,
                )
            return graphs
        with tempfile.TemporaryDirectory(prefix="compool-") as folder:
            return _cached(name, _download(name, Path(folder)), cached, check_edges)
    return _cached(name, find_source(name, Path(data)), cached, check_edges)


def _cached(name: str, source: Path, cached: Path, check_edges: bool) -> GraphSet:
    """The set at `source`: from the cache if that was made from it, else parsed into the cache."""
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
        graphs.save(cached, source=_signature(source), names=read_names(graphs.name, source).as_json())
    except OSError as error:  # the data are worth more
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
    """Where parsed sets are kept."""
    return Path(os.environ.get("COMPOOL_CACHE") or Path.home() / ".cache" / "compool")


def find_source(name: str, data: Path) -> Path:
    """The file or folder below `data` that holds the set."""
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
    known = {known_name.lower(): known_name for known_name in available(data)}
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = f"; did you mean {known[near[0]]}?" if near else ""
    raise FileNotFoundError(
        f"no data set {name} in {data}: expected {name}.zip, {name}.npz or {name}/{name}_A.txt there{hint}"
    )


def available(data: Path) -> list[str]:
    """The names of the sets below a folder."""
    names = {path.stem for path in data.glob("*.zip")} | {path.stem for path in data.glob("*.npz")}
    for pattern in ("*_A.txt", "*/*_A.txt", "*/raw/*_A.txt"):
        names |= {path.name.removesuffix("_A.txt") for path in data.glob(pattern)}
    return sorted(names)


def _download(name: str, folder: Path) -> Path:
    from torch_geometric.datasets import TUDataset

    try:
        TUDataset(str(folder), name)
    except Exception as error:  # PyG, its downloader and the network raise many types
        raise FileNotFoundError(
            f"{name} is not in the cache and could not be downloaded ({type(error).__name__}: {error}); "
            "name a folder that has it"
        ) from None
    return folder / name / "raw"


def _signature(source: Path) -> str:
    files = sorted(source.glob("*.txt")) if source.is_dir() else [source]
    return _READER + ";".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)


def parse(name: str, source: Path, has_targets: bool = True) -> GraphSet:
    """Parse the text files of a set in a zip file or a folder. Without `has_targets`, classes may be missing: all 0."""
    with open_files(name, source) as read:
        return _parse_files(name, read, has_targets)


def _parse_files(name: str, read: Read, has_targets: bool) -> GraphSet:
    def column(suffix: str) -> NDArray[np.int32]:
        stream = read(suffix)
        if stream is None:
            raise FileNotFoundError(f"{name} has no {name}_{suffix}.txt")
        return read_integers(stream, f"{name}_{suffix}.txt")[:, 0]

    graph = column("graph_indicator") - 1
    wrong = np.flatnonzero(np.diff(graph, prepend=graph[:1]) < 0)
    if len(wrong) or (len(graph) and graph[0] < 0):
        line = int(wrong[0]) + 1 if len(wrong) else 1
        raise ValueError(f"{name}_graph_indicator.txt, line {line}: graphs must be numbered from 1, in order")
    y = _read_targets(name, read, None if has_targets else graph.max(initial=-1) + 1)
    if len(graph) == 0 or graph[-1] >= len(y):
        num_graphs = int(graph[-1]) + 1 if len(graph) else 0
        kind = "graph_attributes" if y.dtype.kind == "f" else "graph_labels"
        raise ValueError(
            f"{name}_{kind}.txt has {len(y)} lines, but {name}_graph_indicator.txt has {num_graphs} graphs"
        )
    node_ptr = np.concatenate([[0], np.cumsum(np.bincount(graph, minlength=len(y)))])
    pairs = _read_pairs(name, read, graph)
    labels, attributes = _read_features(name, read, "node", len(graph), f"{name}_graph_indicator.txt")
    edge_labels, edge_attributes = _read_features(name, read, "edge", len(pairs), f"{name}_A.txt")
    has_edge_features = edge_labels is not None or edge_attributes is not None
    try:
        edges = order_edges(pairs[:, 0], pairs[:, 1], node_ptr, with_rows=has_edge_features)
    except OneDirectionError as error:
        line = int((pairs == error.edge).all(1).argmax())
        numbers = tuple(node + 1 for node in error.edge)
        raise ValueError(
            f"{name}_A.txt, line {line + 1}: edge {numbers} is there in one direction only; is the file cut off?"
        ) from None
    if edges.rows is not None:
        edge_labels = None if edge_labels is None else edge_labels[edges.rows]
        edge_attributes = None if edge_attributes is None else edge_attributes[edges.rows]
    nodes = (labels, attributes, edges.looped)
    return GraphSet(name, node_ptr, edges.edge_ptr, edges.edge_index, y, *nodes, edge_labels, edge_attributes)


def _read_targets(name: str, read: Read, num_graphs: int | None) -> NDArray[Any]:
    """Classes, in the order of their names; or, in sets that have none, the attributes of graphs. If there are neither,
    `num_graphs` zeros.
    """
    if (stream := read("graph_labels")) is not None:
        names = read_integers(stream, f"{name}_graph_labels.txt")[:, 0]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)
    if (stream := read("graph_attributes")) is None:
        if num_graphs is not None:
            return np.zeros(num_graphs, np.int64)
        raise FileNotFoundError(f"{name} has no {name}_graph_labels.txt")
    values = read_floats(stream, f"{name}_graph_attributes.txt")
    return values[:, 0] if values.shape[1] == 1 else values


def _read_features(
    name: str, read: Read, of: str, num_rows: int, other: str
) -> tuple[NDArray[np.int32] | None, NDArray[np.float32] | None]:
    """The labels and attributes of nodes or edges, if they have any; the file `other` says how many there are."""
    labels = attributes = None
    if (stream := read(f"{of}_labels")) is not None:
        rows = read_integers(stream, f"{name}_{of}_labels.txt", columns=None)
        _require_rows(f"{name}_{of}_labels.txt", rows, num_rows, other)
        labels = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)
    if (stream := read(f"{of}_attributes")) is not None:
        attributes = read_floats(stream, f"{name}_{of}_attributes.txt")
        _require_rows(f"{name}_{of}_attributes.txt", attributes, num_rows, other)
    return labels, attributes


def _require_rows(file: str, rows: NDArray[np.generic], num_rows: int, other: str) -> None:
    if len(rows) != num_rows:
        raise ValueError(f"{file} has {len(rows)} lines, but {other} has {num_rows}")


def _read_pairs(name: str, read: Read, graph: NDArray[np.int32]) -> NDArray[np.int32]:
    """The edges in the order of the file [E, 2], from node 0."""
    file, num_nodes = f"{name}_A.txt", len(graph)
    stream = read("A")
    if stream is None:
        raise FileNotFoundError(f"{name} has no {file}")
    pairs = read_integers(stream, file, columns=2)
    pairs -= 1
    outside = (pairs < 0).any(1) | (pairs >= num_nodes).any(1)
    if outside.any():
        line = int(outside.argmax())
        raise ValueError(
            f"{file}, line {line + 1}: nodes are 1..{num_nodes}, found {tuple((pairs[line] + 1).tolist())}"
        )
    across = graph[pairs[:, 0]] != graph[pairs[:, 1]]
    if across.any():
        line = int(across.argmax())
        first, second = (int(graph[node]) + 1 for node in pairs[line])
        raise ValueError(f"{file}, line {line + 1}: its nodes are in different graphs, {first} and {second}")
    return pairs
