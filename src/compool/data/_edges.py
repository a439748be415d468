"""Convert edges in any order, with repeats and self-loops, to the arrays of a set."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Edges(NamedTuple):
    """The edges of a set of graphs."""

    edge_index: NDArray[np.int32]
    """Edges [2, E], sorted, each once, no self-loops, numbered within their graph."""
    edge_ptr: NDArray[np.int64]
    looped: NDArray[np.int64] | None
    """Nodes with a self-loop."""
    rows: NDArray[np.int64] | None
    """The index of each edge among the given edges, the first of repeated ones [E]; None unless requested."""


class OneDirectionError(ValueError):
    """An edge has no reverse."""

    def __init__(self, source: int, target: int) -> None:
        super().__init__(f"edge {(source, target)} has one direction only")
        self.edge = source, target


def order_edges(
    source: NDArray[np.int32], target: NDArray[np.int32], node_ptr: NDArray[np.int64], with_rows: bool = False
) -> Edges:
    """Sort edges, drop repeats and self-loops, and number nodes within their graph.

    Args:
        source: the first node of each edge, numbered over all graphs.
        target: the second node of each edge, in the same graph.
        node_ptr: the offsets of the graphs.
        with_rows: return the index of each edge among the given edges; takes longer.

    Example:
        >>> source, target = np.array([3, 2, 3, 0]), np.array([2, 3, 2, 0])
        >>> order_edges(source, target, np.array([0, 2, 4]), with_rows=True).rows.tolist()
        [1, 0]
    """
    from compool.data._loops import first_wrong  # imports numba, which is slow

    num_nodes = int(node_ptr[-1])
    key = source.astype(np.int64) * num_nodes + target
    order = np.argsort(key, kind="stable") if with_rows else None
    if order is not None:
        key = key[order]
    elif (key[1:] < key[:-1]).any():
        key.sort()  # np.unique takes a hundred times as long
    is_first = np.diff(key, prepend=-1) > 0
    key, rows = key[is_first], None if order is None else order[is_first]
    source, target = (key // num_nodes).astype(np.int32), (key % num_nodes).astype(np.int32)
    loop = source == target
    looped = source[loop].astype(np.int64) if loop.any() else None
    source, target, rows = source[~loop], target[~loop], None if rows is None else rows[~loop]
    sizes = np.diff(node_ptr)
    edge_ptr = np.searchsorted(source, node_ptr)  # sources ascend
    offset = np.repeat(node_ptr[:-1].astype(np.int32), np.diff(edge_ptr))
    source -= offset
    target -= offset
    # Edges are sorted now, so the only possible problem is an edge without its reverse
    wrong, graph, edge = first_wrong(node_ptr, edge_ptr, source, target, np.empty(int(sizes.max(initial=0)), np.int64))
    if wrong:
        raise OneDirectionError(int(node_ptr[graph] + source[edge]), int(node_ptr[graph] + target[edge]))
    return Edges(np.stack([source, target]), edge_ptr, looped, rows)
