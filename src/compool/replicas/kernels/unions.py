"""Batches from a set of graphs that lies flat in memory."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from compool.ops._dispatch import unknown_size
from compool.replicas.kernels._dispatch import operator


def _shape(
    which: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: Any, edges: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, edges = (unknown_size() if size == -1 else size for size in (nodes, edges))
    sizes = (which.size(0) + 1, nodes, nodes + 1)
    graph_ptr, node, rows = (node_ptr.new_empty(size) for size in sizes)
    return graph_ptr, node, rows, edge_index.new_empty(2, edges)


_gather_graphs = operator(
    "gather_graphs(Tensor which, Tensor node_ptr, Tensor edge_ptr, Tensor row_ptr, Tensor edge_index, SymInt nodes,"
    " SymInt edges) -> (Tensor, Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.gather_graphs,
)


class Gathered(NamedTuple):
    """Some graphs of a set, one after another, as one graph."""

    graph_ptr: Tensor
    """The g-th of them has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; [B + 1]."""
    node: Tensor
    """Which node of the set each node is [N]; one more than the last where there is none."""
    row_ptr: Tensor
    """Node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1]."""
    edge_index: Tensor
    """Edges [2, E]; (0, 0) where there is none."""


def gather_graphs(
    which: Tensor,
    node_ptr: Tensor,
    edge_ptr: Tensor,
    row_ptr: Tensor,
    edge_index: Tensor,
    capacity: tuple[int, int] | None = None,
) -> Gathered:
    """Put graphs of a set together.

    Args:
        which: the graphs [B]; −1 stands for none.
        node_ptr: graph g of the set has the nodes ``node_ptr[g]:node_ptr[g + 1]``.
        edge_ptr: and the edges ``edge_ptr[g]:edge_ptr[g + 1]``.
        row_ptr: node i of the set has the edges ``row_ptr[i]:row_ptr[i + 1]``.
        edge_index: the edges of the set, numbered within their graph.
        capacity: numbers of nodes and edges to pad to; by default, as many as there are. On a GPU it is not checked
            that they suffice, as no size comes to the host.

    Example:
        >>> node_ptr, edge_ptr = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 2])  # an edge, and a node
        >>> row_ptr, edge_index = torch.tensor([0, 1, 2, 2]), torch.tensor([[0, 1], [1, 0]])
        >>> found = gather_graphs(torch.tensor([1, 0, 0]), node_ptr, edge_ptr, row_ptr, edge_index)
        >>> found.graph_ptr, found.node
        (tensor([0, 1, 3, 5]), tensor([2, 0, 1, 0, 1]))
        >>> found.edge_index
        tensor([[1, 2, 3, 4],
                [2, 1, 4, 3]])
    """
    nodes, edges = (-1, -1) if capacity is None else capacity
    return Gathered(*_gather_graphs(which, node_ptr, edge_ptr, row_ptr, edge_index, nodes, edges))


def checked_capacity(which: Tensor, node_ptr: Tensor, edge_ptr: Tensor, nodes: int, edges: int) -> tuple[int, int]:
    """The capacity for the nodes and edges of graphs: as given, if it suffices; −1: what they need.

    Example:
        >>> checked_capacity(torch.tensor([1, 1]), torch.tensor([0, 2, 5]), torch.tensor([0, 2, 6]), -1, -1)
        (6, 8)
    """
    need = [int(segment_sizes(ptr, which).sum()) for ptr in (node_ptr, edge_ptr)]
    capacity = [there if size == -1 else size for there, size in zip(need, (nodes, edges), strict=True)]
    if need[0] > capacity[0] or need[1] > capacity[1]:
        given = f"{capacity[0]} and {capacity[1]}"
        raise ValueError(f"the graphs have {need[0]} nodes and {need[1]} edges, more than the capacity of {given}")
    return capacity[0], capacity[1]


def segment_sizes(ptr: Tensor, which: Tensor) -> Tensor:
    """How large segments are; 0 for −1.

    Example:
        >>> segment_sizes(torch.tensor([0, 3, 5]), torch.tensor([1, -1, 0]))
        tensor([2, 0, 3])
    """
    return torch.where(which >= 0, ptr[which + 1] - ptr[which], 0)
