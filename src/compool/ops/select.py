"""Step 2: which edges count, and which of them merge their ends."""

from typing import cast

import torch
from torch import Tensor

from compool.ops._library import operator

_distinct = operator(
    "distinct(Tensor edge_index, SymInt num_nodes) -> Tensor",
    lambda edge_index, num_nodes: edge_index.new_empty(edge_index.size(1), dtype=torch.bool),
)
_select = operator(
    "select(Tensor edge_score, Tensor counted, float threshold) -> Tensor",
    lambda edge_score, counted, threshold: torch.empty_like(edge_score, dtype=torch.bool),
)


def distinct(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Tell which edges count: all but self-loops and repeats of an earlier edge.

    Returns:
        A mask [E].

    Example:
        >>> distinct(torch.tensor([[0, 0, 1, 1], [1, 1, 0, 1]]), num_nodes=2)
        tensor([ True, False,  True, False])
    """
    return cast(Tensor, _distinct(edge_index, num_nodes))


def select(edge_score: Tensor, threshold: float, counted: Tensor | None = None) -> Tensor:
    r"""Select the edges to merge, :math:`\mathcal{E}_m = \{(i, j) \mid S_{ij} > t\}` (Eq. 2).

    Args:
        edge_score: scores [E]. A score that is NaN is an error.
        threshold: :math:`t`.
        counted: mask [E] of the edges that count (see :func:`distinct`); all by default.

    Returns:
        A mask [E].

    Example:
        >>> select(torch.tensor([0.5, 0.0, -0.5]), threshold=0.0)
        tensor([ True, False, False])
    """
    if counted is None:
        counted = torch.ones_like(edge_score, dtype=torch.bool)
    return cast(Tensor, _select(edge_score.detach(), counted, threshold))
