"""Select graphs of a set by an index, and their rows of flat arrays."""

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    from compool.data.graph_set import GraphSet

    Index = slice | Sequence[int] | Sequence[bool] | NDArray[Any] | Tensor
    """An index that gives a subset; a single whole number gives a graph."""


def single_id(index: Any, graphs: "GraphSet") -> int | None:
    """The graph of an index that is a whole number, counted from the end if negative; None for any other index."""
    num_dimensions: int = getattr(index, "ndim", 0)
    if isinstance(index, bool | np.bool_) or num_dimensions:
        return None
    try:
        position = operator.index(index)
    except TypeError:
        return None
    if not -len(graphs) <= position < len(graphs):
        raise IndexError(f"{graphs.name} has graphs 0..{len(graphs) - 1}, got {position}")
    return position % len(graphs)


def graph_ids(index: "int | Index", graphs: "GraphSet") -> NDArray[np.int64]:
    """The graphs that a slice, list, mask, array or tensor selects.

    As in PyG, the ends of a slice may be fractions: ``graphs[:0.8]``.

    Example:
        >>> from compool.data import communities
        >>> graph_ids(slice(0.5, None), communities(4)).tolist(), graph_ids([-1, 0], communities(4)).tolist()
        ([2, 3], [3, 0])
    """
    num_graphs = len(graphs)
    if isinstance(index, slice):
        start, stop = (round(end * num_graphs) if isinstance(end, float) else end for end in (index.start, index.stop))
        return np.arange(num_graphs)[start : stop : index.step]
    to_cpu: Any = getattr(index, "cpu", None)  # of tensors
    array = np.asarray(index if to_cpu is None else to_cpu()).reshape(-1)
    if array.dtype.kind == "b":
        if len(array) != num_graphs:
            raise IndexError(f"a mask must have one entry per graph, {num_graphs}; got {len(array)}")
        return np.flatnonzero(array)
    if array.dtype.kind not in "iu" and array.size:
        kind = type(index).__name__
        raise IndexError(
            f"an index must be a whole number, slice, or list, mask or tensor of them; got {kind} {index!r}"
        )
    ids = array.astype(np.int64)
    if ids.size and not -num_graphs <= ids.min() <= ids.max() < num_graphs:
        wrong = ids.min() if ids.min() < -num_graphs else ids.max()
        raise IndexError(f"{graphs.name} has graphs 0..{num_graphs - 1}, got {wrong}")
    return ids % num_graphs


def taken_rows(ptr: NDArray[np.int64], ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of some graphs, graph by graph, and the offsets of these graphs.

    Example:
        >>> [part.tolist() for part in taken_rows(np.array([0, 2, 5]), np.array([1, 0]))]
        [[2, 3, 4, 0, 1], [0, 3, 5]]
    """
    sizes = np.diff(ptr)[ids]
    taken_ptr = np.concatenate([[0], np.cumsum(sizes)])
    return np.arange(taken_ptr[-1]) + np.repeat(ptr[ids] - taken_ptr[:-1], sizes), taken_ptr


def take(graphs: "GraphSet", ids: NDArray[np.int64]) -> dict[str, Any]:
    """The fields of a subset, which inherits the vocabulary of its set."""
    if not len(ids):
        raise IndexError(f"a subset of {graphs.name} must have at least one graph, got none")
    nodes, node_ptr = taken_rows(graphs.node_ptr, ids)
    edges, edge_ptr = taken_rows(graphs.edge_ptr, ids)
    looped = None
    if graphs.looped is not None:
        has_loop = np.bincount(graphs.looped, minlength=graphs.num_nodes) > 0
        looped = np.flatnonzero(has_loop[nodes])
    rows = {"labels": nodes, "attributes": nodes, "edge_labels": edges, "edge_attributes": edges}
    arrays = {name: getattr(graphs, name) for name in rows}
    return {
        **{name: None if array is None else array[rows[name]] for name, array in arrays.items()},
        **{"name": graphs.name, "node_ptr": node_ptr, "edge_ptr": edge_ptr, "edge_index": graphs.edge_index[:, edges]},
        **{"y": graphs.y[ids], "looped": looped, "task": graphs.task, "inherited": graphs.vocabulary},
        **{"edges_in_checksum": graphs.edges_in_checksum, "names": graphs.names},
    }
