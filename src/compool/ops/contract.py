"""Edge contraction (Diehl 2019): pairs of nodes instead of components."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool.ops._library import operator, unknown_size
from compool.ops.merge import spread


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
    """The supernode of each node [N]: pairs in the order of their edges' scores, then the other nodes; or by first
    member."""
    chosen: Tensor
    """The contracted edges [M], highest score first."""
    first: Tensor
    """One member of each supernode [K]."""

    @property
    def number(self) -> int:
        """How many supernodes there are, K."""
        return self.first.size(0)


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int, by_first: bool = False) -> Contraction:
    """Contract edges by descending score, each unless one of its nodes is already in a contracted edge.

    Of equal scores, the edge that is listed first goes first. A self-loop that is contracted leaves its node alone.
    Edges that outrank all edges they touch can be contracted at once: that gives the same result, in few rounds.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        by_first: number supernodes by their first members, not by score.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
        >>> contract(torch.tensor([0.2, 0.9, 0.1]), edge_index, num_nodes=4)
        Contraction(cluster=tensor([1, 0, 0, 2]), chosen=tensor([1]), first=tensor([1, 0, 3]))
        >>> contract(torch.tensor([0.2, 0.9, 0.1]), edge_index, num_nodes=4, by_first=True).cluster
        tensor([0, 1, 1, 2])
    """
    cluster, chosen, first = _contract(edge_score.detach(), edge_index, num_nodes)
    if by_first:
        first = torch.cat([edge_index[:, chosen].amin(0).long(), first[chosen.size(0) :]])
        first, order = first.sort()
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(order.size(0), device=order.device))
        cluster = rank[cluster]
    return Contraction(cluster, chosen, first)


def merge_pairs(x: Tensor, edge_score: Tensor, edge_index: Tensor, parts: Contraction) -> tuple[Tensor, Tensor]:
    """The features of the supernodes [K, d], their members' sum times the score of their edge, and these scores [K].

    A node that stays alone has score 1.

    Example:
        >>> edge_index, edge_score = torch.tensor([[0], [1]]), torch.tensor([0.5])
        >>> parts = contract(edge_score, edge_index, num_nodes=3)
        >>> merge_pairs(torch.tensor([[1.0], [3.0], [5.0]]), edge_score, edge_index, parts)
        (tensor([[2.],
                [5.]]), tensor([0.5000, 1.0000]))
    """
    pair = parts.cluster[edge_index[0, parts.chosen]]
    supernode_score = edge_score.new_ones(parts.number).index_put((pair,), edge_score[parts.chosen]).to(x.dtype)
    every = torch.arange(x.size(0), device=x.device)
    sums = spread(x, torch.ones_like(every, dtype=edge_score.dtype), every, parts.cluster, parts.number)
    return sums * supernode_score.unsqueeze(1), supernode_score
