"""Edge contraction (Diehl 2019): pairs of nodes instead of components."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._library import operator, unknown_size


def _shape(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (num_nodes, unknown_size(), unknown_size())
    cluster, chosen, first = (edge_index.new_empty(size, dtype=torch.long) for size in sizes)
    return cluster, chosen, first


_contract = operator(
    "contract(Tensor edge_score, Tensor edge_index, SymInt num_nodes) -> (Tensor, Tensor, Tensor)", _shape
)


class Contraction(NamedTuple):
    """Which edges were contracted, and the pairs and single nodes that result."""

    cluster: Tensor
    """The supernode of each node [N]: pairs in the order of their edges' scores, then the other nodes."""
    chosen: Tensor
    """The contracted edges [M], highest score first: edge m made supernode m."""
    first: Tensor
    """One member of each supernode [K]."""

    @property
    def number(self) -> int:
        """How many supernodes there are, K."""
        return self.first.size(0)


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> Contraction:
    """Contract edges by descending score, each unless one of its nodes is already in a contracted edge.

    Of equal scores, the edge that is listed first goes first. A self-loop that is contracted leaves its node alone.
    Edges that outrank all edges they touch can be contracted at once: that gives the same result, in few rounds.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> contract(torch.tensor([0.2, 0.9, 0.1]), edge_index, num_nodes=4)
        Contraction(cluster=tensor([1, 0, 0, 2]), chosen=tensor([1]), first=tensor([1, 0, 3]))
    """
    return Contraction(*_contract(edge_score.detach(), edge_index, num_nodes))
