"""The maximum spanning forest of a graph, which gives the components at all thresholds."""

from typing import Any

import torch
from torch import Tensor

from compool.ops._checks import check_edge_index, check_edge_weight, check_num_nodes
from compool.ops._dispatch import operator, unknown_size


def _shape(weight: Tensor, *_: Any) -> Tensor:
    return weight.new_empty(unknown_size(), dtype=torch.long)


forest = operator(
    "forest(Tensor weight, Tensor edge_index, Tensor? candidate, SymInt num_nodes) -> Tensor",
    _shape,
    lambda kernels: kernels.forest,
)


def spanning_forest(edge_index: Tensor, weight: Tensor, num_nodes: int | None = None) -> Tensor:
    """Find the maximum spanning forest of a graph; the direction of edges is ignored.

    The forest has one tree of maximum total weight per connected component. For any threshold, the forest's edges above
    it connect the same nodes as all edges above it.

    Ties go to the edge that is listed first, so the result is unique and the same on every device. Of the two
    directions of an edge, the one with the larger weight counts. Self-loops are never chosen.

    Args:
        edge_index: edges [2, E], int32 or int64; fewer than 2³¹ edges and nodes.
        weight: the weight of each edge [E], floats or integers. Infinities are allowed, NaN is an error.
        num_nodes: number of nodes N; by default one more than the highest index in `edge_index`.

    Returns:
        The positions of the chosen edges [F], int64: highest weight first, then by position.

    Raises:
        ValueError: if a weight is NaN, `edge_index` is out of range, or the graph is too large.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 2]])  # a triangle and a tail
        >>> spanning_forest(edge_index, torch.tensor([0.2, 0.9, 0.4, 0.1]))
        tensor([1, 2, 3])
    """
    check_edge_index(edge_index)
    check_edge_weight(weight, edge_index)
    positions: Tensor = forest(weight.detach(), edge_index, None, check_num_nodes(num_nodes, edge_index))
    return positions
