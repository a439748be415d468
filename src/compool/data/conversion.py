"""Convert PyG graphs to the flat arrays of a set, and back."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compool.data._checks import MAX_VALUES
from compool.data._edges import OneDirectionError, order_edges

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from compool.data.graph_set import GraphSet

_NAME = re.compile(r"[\w+-][\w.+-]*")


def check_name(name: str) -> str:
    """Check the name of a set, which is part of file names, and return it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a data set's name has letters, digits and . _ + - only; got {name!r}")
    return name


def name_of(graphs: Any, name: str | None) -> str:
    """The name of a set: the given one, that of a PyG dataset, or ``"graphs"``."""
    if name is not None:
        return check_name(name)
    own = getattr(graphs, "name", None)
    if isinstance(own, str) and _NAME.fullmatch(own):
        return own
    is_dataset = hasattr(type(graphs), "num_node_features") and hasattr(type(graphs), "index_select")
    return type(graphs).__name__ if is_dataset else "graphs"


class _Graph(NamedTuple):
    """One graph, as arrays."""

    num_nodes: int
    edge_index: NDArray[Any]
    x: NDArray[Any] | None
    edge_attr: NDArray[Any] | None
    y: NDArray[Any]


def arrays_of(graphs: Iterable[Any], to_undirected: bool = False) -> dict[str, Any]:
    """The fields of a :class:`~compool.data.GraphSet` of these graphs, except its name and task.

    Args:
        graphs: each a :class:`torch_geometric.data.Data`.
        to_undirected: add the missing direction of edges.
    """
    given = as_list(graphs)
    read = [_read(index, graph) for index, graph in enumerate(given)]
    node_ptr = np.concatenate([[0], np.cumsum([graph.num_nodes for graph in read])])
    num_edges = [graph.edge_index.shape[1] for graph in read]
    offset = np.repeat(node_ptr[:-1], num_edges)
    source, target = np.concatenate([graph.edge_index for graph in read], axis=1) + offset
    edge_attr = _joined("edge_attr", [graph.edge_attr for graph in read])
    rows = np.arange(len(source))
    if to_undirected:  # existing edges come first: of repeated edges, the first is kept
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
        rows = np.concatenate([rows, rows])
    try:
        edges = order_edges(source, target, node_ptr, with_rows=edge_attr is not None)
    except OneDirectionError as error:
        graph = int(np.searchsorted(node_ptr, error.edge[0], side="right")) - 1
        pair = tuple(int(node - node_ptr[graph]) for node in error.edge)
        raise ValueError(
            f"graph {graph} has the edge {pair} in one direction only; "
            "GraphSet.from_data(graphs, to_undirected=True) adds the other"
        ) from None
    labels, attributes = _labels_or_attributes(_joined("x", [graph.x for graph in read]))
    if edges.rows is not None and edge_attr is not None:
        edge_attr = edge_attr[rows[edges.rows]]
    edge_labels, edge_attributes = _labels_or_attributes(edge_attr)
    return {
        **{"node_ptr": node_ptr, "edge_ptr": edges.edge_ptr, "edge_index": edges.edge_index, "looped": edges.looped},
        **{"labels": labels, "attributes": attributes},
        **{"edge_labels": edge_labels, "edge_attributes": edge_attributes, "y": _targets([graph.y for graph in read])},
    }


def to_data(graphs: "GraphSet", index: int) -> "Data":
    """One graph of a set, for PyG."""
    import torch
    from torch_geometric.data import Data

    nodes = slice(graphs.node_ptr[index], graphs.node_ptr[index + 1])
    edges = slice(graphs.edge_ptr[index], graphs.edge_ptr[index + 1])
    edge_attr = {}
    if graphs.num_edge_features:
        parts = [part.dense(edges) for part in graphs.edge_features]
        edge_attr["edge_attr"] = torch.from_numpy(np.concatenate(parts, axis=1))
    return Data(
        x=torch.from_numpy(graphs.node_features.dense(nodes).copy()),  # changing the graph must not change the set
        edge_index=torch.from_numpy(graphs.edge_index[:, edges].astype(np.int64)),
        **edge_attr,
        y=torch.from_numpy(graphs.y[index : index + 1].copy()),
    )


def as_list(graphs: Any) -> list[Any]:
    """The graphs as a list; a ValueError for a single graph, a batch or an empty list."""
    of_type, kind = type(graphs), type(graphs).__name__  # not of the object: datasets forward attributes of Data
    if hasattr(of_type, "to_data_list"):
        raise ValueError(f"graphs must be a list of Data or a dataset, got one {kind}; use its to_data_list()")
    if hasattr(of_type, "edge_index") or hasattr(of_type, "node_types"):
        raise ValueError(f"graphs must be a list of Data or a dataset, got one {kind}; put it in a list")
    if isinstance(graphs, str | dict) or not (hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")):
        raise ValueError(f"graphs must be a list of torch_geometric.data.Data or a dataset, got {kind}")
    listed = list(graphs)
    if not listed:
        raise ValueError("graphs must have at least one graph, got none")
    return listed


def _read(index: int, graph: Any) -> _Graph:
    """One graph as arrays, each checked by itself."""

    def wrong(problem: str) -> ValueError:
        return ValueError(f"graph {index} {problem}")

    kind = type(graph).__name__
    if hasattr(graph, "node_types"):
        raise wrong(f"is a {kind}: graphs must have one type of node and edge; its to_homogeneous() makes one")
    if not hasattr(graph, "edge_index"):
        raise wrong(f"is a {kind}, but must be a torch_geometric.data.Data")
    if getattr(graph, "batch", None) is not None:
        raise wrong(f"is a {kind} of several graphs; use its to_data_list()")
    if graph.edge_index is None:
        raise wrong("has no edge_index; without edges it is torch.empty(2, 0, dtype=torch.long)")
    x, edge_attr, y = (_array(graph, name) for name in ("x", "edge_attr", "y"))
    edge_index = _array(graph, "edge_index")
    assert edge_index is not None
    if edge_index.ndim != 2 or len(edge_index) != 2 or edge_index.dtype.kind not in "iu":
        raise wrong(f"must have whole numbers [2, E] as edge_index, got {edge_index.dtype} {list(edge_index.shape)}")
    num_nodes = graph.num_nodes if x is None else len(x) if x.ndim else 0
    if num_nodes is None:
        raise wrong("has neither x nor num_nodes")
    if x is not None and x.ndim not in (1, 2):
        raise wrong(f"must have x [nodes, features], got {list(x.shape)}")
    if edge_attr is not None and (edge_attr.ndim not in (1, 2) or len(edge_attr) != edge_index.shape[1]):
        raise wrong(f"must have edge_attr [{edge_index.shape[1]}, features], got {list(edge_attr.shape)}")
    if edge_index.size and not 0 <= edge_index.min() <= edge_index.max() < num_nodes:
        outside = edge_index.min() if edge_index.min() < 0 else edge_index.max()
        raise wrong(f"has nodes 0..{num_nodes - 1}, but an edge of node {outside}")
    if y is None:
        raise wrong("has no y: set a class, numbers or labels to predict; if you only predict, set y=0")
    if y.dtype.kind not in "biuf":
        raise wrong(f"must have numbers as y, got {y.dtype}")
    if y.ndim > 2 or (y.ndim and len(y) != 1):
        raise wrong(f"must have one y, of shape [1], or [1, T] for several targets; got {list(y.shape)}")
    for name, values in (("x", x), ("edge_attr", edge_attr)):
        if values is None:
            continue
        if values.dtype.kind not in "biuf":
            raise wrong(f"must have numbers as {name}, got {values.dtype}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise wrong(f"has NaN or infinite values in {name}; fill them in, or leave the graph out")
        if values.shape[1:] == (0,):
            raise wrong(f"has {name} without columns; leave {name} out" + " for one-hot degrees" * (name == "x"))
        outside = values[(values < 0) | (values >= MAX_VALUES)]
        if len(outside) and _are_labels(values):
            kind, most = "node" if name == "x" else "edge", f"{MAX_VALUES - 1:,}"
            raise ValueError(
                f"graph {index}: {name} is one column of whole numbers, so it is read as {kind} labels, which must be "
                f"0..{most}; got {outside[0]}. Use {name}.float() for a number"
            )
    return _Graph(int(num_nodes), edge_index.astype(np.int64, copy=False), x, edge_attr, y)


def _array(graph: Any, name: str) -> NDArray[Any] | None:
    """An attribute of a graph, a tensor, number or list, as an array."""
    value = getattr(graph, name, None)
    if value is None:
        return None
    if hasattr(value, "detach"):
        value = value.detach().cpu().to_dense()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def _joined(name: str, parts: list[NDArray[Any] | None]) -> NDArray[Any] | None:
    """The rows of all graphs, which must have the same columns; None if no graph has any."""
    shapes = [None if part is None else part.shape[1:] for part in parts]
    different = next((index for index, shape in enumerate(shapes) if shape != shapes[0]), None)
    if different is not None:
        first, other = (_columns(shapes[index]) for index in (0, different))
        raise ValueError(f"graph {different} has {other} in {name}, but graph 0 has {first}; all must have the same")
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present else None


def _columns(shape: tuple[int, ...] | None) -> str:
    return "nothing" if shape is None else f"{shape[0]} columns" if shape else "single numbers"


def _labels_or_attributes(values: NDArray[Any] | None) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Whole numbers in one column are labels; anything else is a matrix of attributes."""
    if values is None:
        return None, None
    if _are_labels(values):
        return values.reshape(-1), None
    return None, values.reshape(len(values), -1 if values.ndim == 1 else values.shape[1]).astype(np.float32)


def _are_labels(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" and values.shape[1:] in ((), (1,))


def _targets(values: list[NDArray[Any]]) -> NDArray[Any]:
    """The targets of all graphs: [G], or [G, T] if they are [1, T]."""
    shapes = [value.shape[1:] if value.ndim == 2 else () for value in values]
    different = next((index for index, shape in enumerate(shapes) if shape != shapes[0]), None)
    if different is not None:
        other, first = ([1, *shapes[index]] for index in (different, 0))
        raise ValueError(f"graph {different} has y of shape {other}, graph 0 {first}; NaN stands for a missing target")
    return np.concatenate([value.reshape(1, *shape) for value, shape in zip(values, shapes, strict=True)])
