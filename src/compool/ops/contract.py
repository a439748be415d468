"""Edge contraction (Diehl 2019): pairs of nodes instead of components."""

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, is_transformed, wants_graph
from compool.ops._library import operator, unknown_size


def _shape(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = (num_nodes, unknown_size(), unknown_size(1 if num_nodes else 0))
    cluster, chosen, first = (edge_index.new_empty(size, dtype=torch.long) for size in sizes)
    return cluster, chosen, first


_contract = operator(
    "contract(Tensor edge_score, Tensor edge_index, SymInt num_nodes) -> (Tensor, Tensor, Tensor)", _shape
)


_contract_padded = operator(
    "contract_padded(Tensor edge_score, Tensor edge_index, Tensor row_ptr, Tensor graph_ptr, SymInt span)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda edge_score, edge_index, row_ptr, graph_ptr, span: (
        *(row_ptr.new_empty(row_ptr.size(0) - 1) for _ in range(3)),
        edge_index.new_empty(edge_index.shape),
        row_ptr.new_empty(row_ptr.shape),
    ),
)
_merge_pairs = operator(
    "merge_pairs(Tensor x, Tensor supernode_score, Tensor cluster) -> Tensor",
    lambda x, supernode_score, cluster: x.new_empty(supernode_score.size(0), x.size(1)),
)
_merge_pairs_backward = operator(
    "merge_pairs_backward(Tensor grad, Tensor x, Tensor supernode_score, Tensor cluster) -> (Tensor, Tensor)",
    lambda grad, x, supernode_score, cluster: (x.new_empty(x.shape), supernode_score.new_empty(supernode_score.shape)),
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


class PaddedContraction(NamedTuple):
    """The pairs and single nodes that result, by first member, in as much room as the nodes had."""

    cluster: Tensor
    """The supernode of each node [N]."""
    chosen: Tensor
    """The contracted edge of each supernode [N]; −1: none."""
    first: Tensor
    """The first member of each supernode [N]; N: no supernode."""
    edge_index: Tensor
    """Edges between supernodes [2, E], those inside them too, sorted, each once: the first ``row_ptr[-1]``."""
    row_ptr: Tensor
    """Supernode k has the edges ``row_ptr[k]:row_ptr[k + 1]``; [N + 1]."""


def contract_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, span: int | None = None
) -> PaddedContraction:
    """:func:`contract` and :func:`connect` on a graph with room for more: see :func:`coarsen_padded`.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E], sorted, each once; only the first ``row_ptr[-1]`` are edges.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        graph_ptr: graph g has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; no edge joins two graphs.
        span: the size of the largest graph, or more. A small one saves time on a GPU; one that is too small gives wrong
            edges.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> found = contract_padded(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.9]), edge_index, row_ptr, torch.tensor([0, 3]))
        >>> found.cluster, found.chosen, found.first
        (tensor([0, 1, 1, 2]), tensor([-1,  3, -1, -1]), tensor([0, 1, 3, 4]))
    """
    span = row_ptr.size(0) - 1 if span is None else span
    return PaddedContraction(*_contract_padded(edge_score.detach(), edge_index, row_ptr, graph_ptr, span))


def merge_padded_pairs(x: Tensor, edge_score: Tensor, parts: PaddedContraction, room: int | None = None) -> Tensor:
    """:func:`merge_pairs` of a padded graph: features [N, d], or those of the first `room` supernodes."""
    chosen = parts.chosen[:room]
    spread = torch.arange(chosen.size(0), device=x.device) % max(edge_score.size(0), 1)  # not all from one place
    score = edge_score.index_select(0, torch.where(chosen < 0, spread, chosen))
    return cast(Tensor, _MergePairs.apply(x, torch.where(chosen < 0, 1.0, score), parts.cluster))


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
    supernode_score = edge_score.new_ones(parts.number).index_put((pair,), edge_score[parts.chosen])
    merged = _torch.merge_pairs if is_transformed() else _MergePairs.apply
    return cast(Tensor, merged(x, supernode_score, parts.cluster)), supernode_score.to(x.dtype)


def _pairs(cluster: Tensor, x: Tensor, supernode_score: Tensor) -> tuple[Tensor]:
    """Merging pairs in plain torch operations."""
    return (_torch.merge_pairs(x, supernode_score, cluster),)


class _MergePairs(torch.autograd.Function):
    """Sum first, then multiply, as PyG does: so unpooling, which divides, gives back whole numbers.

    Supernodes for which there is no score are left out.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
        ctx.save_for_backward(x, supernode_score, cluster)
        return cast(Tensor, _merge_pairs(x, supernode_score, cluster))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, supernode_score, cluster = ctx.saved_tensors
        if wants_graph():
            return *gradients(partial(_pairs, cluster), (x, supernode_score), [grad]), None
        return *_merge_pairs_backward(grad, x, supernode_score, cluster), None
