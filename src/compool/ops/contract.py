"""Edge contraction (Diehl 2019): pairs of nodes instead of components."""

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import is_transformed, operator, unknown_size


def _shape(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (num_nodes, unknown_size(), unknown_size(1 if num_nodes else 0))
    cluster, chosen, first = (edge_index.new_empty(size, dtype=torch.long) for size in sizes)
    return cluster, chosen, first


_contract = operator(
    "contract(Tensor edge_score, Tensor edge_index, SymInt num_nodes) -> (Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.contract,
)


_merge_pairs = operator(
    "merge_pairs(Tensor x, Tensor supernode_score, Tensor cluster) -> Tensor",
    lambda x, supernode_score, cluster: x.new_empty(supernode_score.size(0), x.size(1)),
    lambda kernels: kernels.merge_pairs,
)
_merge_pairs_backward = operator(
    "merge_pairs_backward(Tensor grad, Tensor x, Tensor supernode_score, Tensor cluster) -> (Tensor, Tensor)",
    lambda grad, x, supernode_score, cluster: (x.new_empty(x.shape), supernode_score.new_empty(supernode_score.shape)),
    lambda kernels: kernels.merge_pairs_backward,
)


class Contraction(NamedTuple):
    """The contracted edges, and the pairs and single nodes that result."""

    cluster: Tensor
    """The supernode of each node [N]: pairs numbered by descending score, then single nodes; or by first member."""
    chosen: Tensor
    """The contracted edges [M], highest score first."""
    first: Tensor
    """One member of each supernode [K]."""

    @property
    def num_supernodes(self) -> int:
        """The number of supernodes, K."""
        return self.first.size(0)


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int, by_first: bool = False) -> Contraction:
    """Contract edges in descending order of score, skipping edges with an end in a contracted edge.

    Ties go to the edge that is listed first. A contracted self-loop leaves its node single. Edges that outrank all
    edges they touch can be contracted at once, which gives the same result in few rounds.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        num_nodes: number of nodes N.
        by_first: number supernodes by their first members instead of by score.

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
    """The features of the supernodes [K, d] and their scores [K]. Features are the sum of the members' features, times
    the score of the contracted edge.

    A node that stays single has score 1.

    Example:
        >>> edge_index, edge_score = torch.tensor([[0], [1]]), torch.tensor([0.5])
        >>> parts = contract(edge_score, edge_index, num_nodes=3)
        >>> merge_pairs(torch.tensor([[1.0], [3.0], [5.0]]), edge_score, edge_index, parts)
        (tensor([[2.],
                [5.]]), tensor([0.5000, 1.0000]))
    """
    pair = parts.cluster[edge_index[0, parts.chosen]]
    supernode_score = edge_score.new_ones(parts.num_supernodes).index_put((pair,), edge_score[parts.chosen])
    return scale_pairs(x, supernode_score, parts.cluster), supernode_score.to(x.dtype)


class _ScalePairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
        ctx.save_for_backward(x, supernode_score, cluster)
        return cast(Tensor, _merge_pairs(x, supernode_score, cluster))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, supernode_score, cluster = ctx.saved_tensors
        if wants_graph():
            return *gradients(partial(_plain_pairs, cluster), (x, supernode_score), [grad]), None
        return *_merge_pairs_backward(grad, x, supernode_score, cluster), None


def _plain_pairs(cluster: Tensor, x: Tensor, supernode_score: Tensor) -> tuple[Tensor]:
    """Merge pairs in plain torch operations."""
    return (_torch.merge_pairs(x, supernode_score, cluster),)


def scale_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    """The sum of each supernode's one or two rows of `x`, times its score [K, d].

    Sums first and then multiplies, as PyG does: this way, unpooling, which divides, restores whole numbers exactly.
    Nodes whose supernode has no score are left out.
    """
    if is_transformed():
        return _torch.merge_pairs(x, supernode_score, cluster)
    return cast(Tensor, _ScalePairs.apply(x, supernode_score, cluster))
