"""Parse the text files of a set in the TU layout."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool.data._edges import OneDirectionError, order_edges
from compool.data._text import read_floats, read_integers
from compool.data._tu_files import Read, open_files, read_names
from compool.data.graph_set import GraphSet
from compool.data.names import Names


def parse(name: str, source: Path, has_targets: bool = True) -> GraphSet:
    """Parse the text files of a set in a zip file or a folder. Without `has_targets`, missing classes are 0."""
    with open_files(name, source) as read:
        return _parse_files(name, read, has_targets, read_names(name, source))


def _parse_files(name: str, read: Read, has_targets: bool, names: Names) -> GraphSet:
    def column(suffix: str) -> NDArray[np.int32]:
        stream = read(suffix)
        if stream is None:
            raise FileNotFoundError(f"{name} has no {name}_{suffix}.txt")
        return read_integers(stream, f"{name}_{suffix}.txt")[:, 0]

    graph = column("graph_indicator") - 1
    _require_order(name, graph)
    y = _read_targets(name, read, None if has_targets else graph)
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
            f"{name}_A.txt, line {line + 1}: edge {numbers} is present in one direction only; is the file truncated?"
        ) from None
    if edges.rows is not None:
        edge_labels = None if edge_labels is None else edge_labels[edges.rows]
        edge_attributes = None if edge_attributes is None else edge_attributes[edges.rows]
    nodes, of_edges = (labels, attributes, edges.looped), (edge_labels, edge_attributes)
    return GraphSet(name, node_ptr, edges.edge_ptr, edges.edge_index, y, *nodes, *of_edges, names=names)


def _require_order(name: str, graph: NDArray[np.int32], gaps: bool = True) -> None:
    """Raise a ValueError unless the graph of each node ascends from 0. Gaps are graphs without nodes."""
    steps = np.diff(graph, prepend=0)
    wrong = steps < 0
    if not gaps:
        wrong |= steps > np.minimum(np.arange(len(steps)), 1)  # the first node belongs to the first graph
    if wrong.any():
        line = int(wrong.argmax()) + 1
        raise ValueError(f"{name}_graph_indicator.txt, line {line}: graphs must be numbered from 1, in order")


def _read_targets(name: str, read: Read, graph: NDArray[np.int32] | None) -> NDArray[Any]:
    """Classes, numbered in the order of their names; in sets without classes, the attributes of graphs. If there are
    neither, zeros for the graphs of the nodes, if given.
    """
    if (stream := read("graph_labels")) is not None:
        names = read_integers(stream, f"{name}_graph_labels.txt")[:, 0]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)
    if (stream := read("graph_attributes")) is None:
        if graph is not None:
            _require_order(name, graph, gaps=False)
            return np.zeros(graph.max(initial=-1) + 1, np.int64)
        raise FileNotFoundError(f"{name} has no {name}_graph_labels.txt")
    values = read_floats(stream, f"{name}_graph_attributes.txt")
    return values[:, 0] if values.shape[1] == 1 else values


def _read_features(
    name: str, read: Read, of: str, num_rows: int, other: str
) -> tuple[NDArray[np.int32] | None, NDArray[np.float32] | None]:
    """The labels and attributes of nodes or edges, if they have any; the file `other` determines how many there are."""
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
