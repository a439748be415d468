"""Batches of graphs from a set that is stored in flat arrays."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from compool.ops._dispatch import unknown_size
from compool.replicas.kernels._dispatch import operator


def _shape(
    graph_ids: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: Any, edges: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, edges = (unknown_size() if size == -1 else size for size in (nodes, edges))
    sizes = (graph_ids.size(0) + 1, nodes, nodes + 1)
    graph_ptr, node, rows = (node_ptr.new_empty(size) for size in sizes)
    return graph_ptr, node, rows, edge_index.new_empty(2, edges)


_gather_graphs = operator(
    "gather_graphs(Tensor graph_ids, Tensor node_ptr, Tensor edge_ptr, Tensor row_ptr, Tensor edge_index, SymInt nodes,"
    " SymInt edges) -> (Tensor, Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.gather_graphs,
)


class Gathered(NamedTuple):
    """Graphs of a set, one after another, as a single graph."""

    graph_ptr: Tensor
    """The g-th graph has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; [B + 1]."""
    node: Tensor
    """The index of each node in the set [N]; for padding, the number of nodes of the set."""
    row_ptr: Tensor
    """Node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1]."""
    edge_index: Tensor
    """Edges [2, E], padded with (0, 0)."""


def gather_graphs(
    graph_ids: Tensor,
    node_ptr: Tensor,
    edge_ptr: Tensor,
    row_ptr: Tensor,
    edge_index: Tensor,
    capacity: tuple[int, int] | None = None,
) -> Gathered:
    """Join graphs of a set to a single graph.

    Args:
        graph_ids: the graphs [B]; −1 means no graph.
        node_ptr: graph g of the set has the nodes ``node_ptr[g]:node_ptr[g + 1]``.
        edge_ptr: graph g of the set has the edges ``edge_ptr[g]:edge_ptr[g + 1]``.
        row_ptr: node i of the set has the edges ``row_ptr[i]:row_ptr[i + 1]``.
        edge_index: the edges of the set [2, E], with nodes numbered within their graph.
        capacity: numbers of nodes and edges to pad to; by default, no padding. On a GPU, it is not checked that they
            suffice, because no size is copied to the host.

    Example:
        >>> node_ptr, edge_ptr = torch.tensor([0, 2, 3]), torch.tensor([0, 2, 2])  # an edge, and a node
        >>> row_ptr, edge_index = torch.tensor([0, 1, 2, 2]), torch.tensor([[0, 1], [1, 0]])
        >>> joined = gather_graphs(torch.tensor([1, 0, 0]), node_ptr, edge_ptr, row_ptr, edge_index)
        >>> joined.graph_ptr, joined.node
        (tensor([0, 1, 3, 5]), tensor([2, 0, 1, 0, 1]))
        >>> joined.edge_index
        tensor([[1, 2, 3, 4],
                [2, 1, 4, 3]])
    """
    nodes, edges = (-1, -1) if capacity is None else capacity
    return Gathered(*_gather_graphs(graph_ids, node_ptr, edge_ptr, row_ptr, edge_index, nodes, edges))


def checked_capacity(graph_ids: Tensor, node_ptr: Tensor, edge_ptr: Tensor, nodes: int, edges: int) -> tuple[int, int]:
    """The capacity for the nodes and edges of graphs: as given, or for −1 what the graphs need. Raises a ValueError if
    it does not suffice.

    Example:
        >>> checked_capacity(torch.tensor([1, 1]), torch.tensor([0, 2, 5]), torch.tensor([0, 2, 6]), -1, -1)
        (6, 8)
    """
    sizes = [int(segment_sizes(ptr, graph_ids).sum()) for ptr in (node_ptr, edge_ptr)]
    capacity = [needed if size == -1 else size for needed, size in zip(sizes, (nodes, edges), strict=True)]
    if sizes[0] > capacity[0] or sizes[1] > capacity[1]:
        given = f"{capacity[0]} and {capacity[1]}"
        raise ValueError(f"the graphs have {sizes[0]} nodes and {sizes[1]} edges, more than the capacity of {given}")
    return capacity[0], capacity[1]


def segment_sizes(ptr: Tensor, segments: Tensor) -> Tensor:
    """The sizes of the chosen segments; 0 for −1.

    Example:
        >>> segment_sizes(torch.tensor([0, 3, 5]), torch.tensor([1, -1, 0]))
        tensor([2, 0, 3])
    """
    return torch.where(segments >= 0, ptr[segments + 1] - ptr[segments], 0)


def row_segment(ptr: Tensor, num_rows: int) -> Tensor:
    """The segment of each row; rows after the last segment belong to an extra segment."""
    sizes = torch.diff(ptr, append=ptr.new_full((1,), num_rows))
    return torch.repeat_interleave(sizes, output_size=num_rows)
