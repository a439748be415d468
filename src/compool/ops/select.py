"""Step 2: the edges that count, and those among them that merge their ends."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from compool.ops._dispatch import operator


def _shape(edge_score: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    merged = edge_score.new_empty(edge_score.shape, dtype=torch.bool)
    return merged, merged.clone()


_select = operator(
    "select(Tensor edge_score, Tensor edge_index, SymInt num_nodes, float threshold, Tensor? batch)"
    " -> (Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.select,
)


class Selection(NamedTuple):
    """The edges that merge, and the edges that count."""

    merged: Tensor
    """Mask [E] of the edges whose ends become one supernode."""
    counted: Tensor
    """Mask [E] of the edges that count: no self-loop, no repeat of an earlier edge."""


def select(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float = 0.0, batch: Tensor | None = None
) -> Selection:
    r"""Select the edges to merge, :math:`\mathcal{E}_m = \{(i, j) \mid S_{ij} > t\}` (Eq. 2).

    Self-loops do not count. Of an edge that is listed twice, only the first counts. A NaN score is an error.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        threshold: :math:`t`.
        batch: the graph of each node [N]; must be sorted, and no edge may join two graphs, which is checked.

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 1]])
        >>> select(torch.tensor([0.5, 0.5, 0.0, 0.9]), edge_index, num_nodes=2)
        Selection(merged=tensor([ True, False, False, False]), counted=tensor([ True, False,  True, False]))
    """
    return Selection(*_select(edge_score.detach(), edge_index, num_nodes, threshold, batch))
