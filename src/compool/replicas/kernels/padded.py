"""Pooling of padded graphs. Sizes never change and nothing is copied to the host, so a CUDA graph can capture it."""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from compool.ops import Components
from compool.ops._autograd import once_differentiable
from compool.ops.contract import scale_pairs
from compool.replicas.kernels._dispatch import operator


def _padded_shape(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool, span: int
) -> tuple[Tensor, ...]:
    merged = edge_score.new_empty(edge_score.shape, dtype=torch.bool)
    cluster = row_ptr.new_empty(row_ptr.size(0) - 1)
    edges, rows = edge_index.new_empty(edge_index.shape), row_ptr.new_empty(row_ptr.shape)
    return merged, cluster, torch.empty_like(cluster), torch.empty_like(cluster, dtype=torch.bool), edges, rows


_coarsen_padded = operator(
    "coarsen_padded(Tensor edge_score, Tensor edge_index, Tensor row_ptr, float threshold, bool self_loops,"
    " SymInt span) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _padded_shape,
    lambda kernels: kernels.coarsen_padded,
)


def row_pointer(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The start of each node's edges [N + 1], where edges are sorted by source. Nothing is copied to the host.

    Example:
        >>> row_pointer(torch.tensor([[0, 0, 2], [1, 2, 0]]), num_nodes=3)
        tensor([0, 2, 2, 3])
    """
    nodes = torch.arange(num_nodes + 1, device=edge_index.device, dtype=edge_index.dtype)
    return torch.searchsorted(edge_index[0].contiguous(), nodes)


class PaddedCoarse(NamedTuple):
    """The coarse graph, padded to the size of the fine graph."""

    merged: Tensor
    """Mask [E] of the edges whose ends become one supernode."""
    parts: Components
    """The supernodes; :attr:`~Components.first` is padded with N."""
    edge_index: Tensor
    """Edges between supernodes [2, E], sorted, without repeats; zeros after the first ``row_ptr[-1]``."""
    row_ptr: Tensor
    """Supernode k has the edges ``row_ptr[k]:row_ptr[k + 1]``; [N + 1]."""


def coarsen_padded(
    edge_score: Tensor,
    edge_index: Tensor,
    row_ptr: Tensor,
    threshold: float = 0.0,
    self_loops: bool = False,
    span: int | None = None,
) -> PaddedCoarse:
    """:func:`coarsen` of a padded graph into one of the same size: no size depends on the merged edges.

    Nothing is copied to the host, so a CUDA graph can capture this. Padding nodes have no edges and come last; they
    become the last supernodes. An edge with a NaN score merges its ends, so that NaN shows in their weights, because a
    captured graph cannot raise an error.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E], sorted, without repeats or self-loops; only the first ``row_ptr[-1]`` are edges.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        threshold: merge the edges that score above it.
        self_loops: keep the edges inside supernodes as self-loops.
        span: an upper bound on the distance of the indices of two connected nodes, such as the size of the largest
            graph if nodes are sorted by graph. A small span saves time on a GPU; one that is too small gives wrong
            edges.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0, 0], [1, 0, 2, 1, 0, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> edge_score = torch.tensor([0.5, -0.5, -0.5, -0.5, 0.9, 0.9])
        >>> coarse = coarsen_padded(edge_score, edge_index, row_ptr)
        >>> coarse.parts.cluster, coarse.parts.first, coarse.row_ptr
        (tensor([0, 0, 1, 2]), tensor([0, 2, 3, 4]), tensor([0, 1, 2, 2, 2]))
    """
    merged, cluster, first, alone, edges, rows = _coarsen_padded(
        edge_score.detach(), edge_index, row_ptr, threshold, self_loops, row_ptr.size(0) - 1 if span is None else span
    )
    return PaddedCoarse(merged, Components(cluster, first, alone), edges, rows)


_forest_padded = operator(
    "forest_padded(Tensor edge_score, Tensor edge_index, Tensor row_ptr, SymInt span) -> Tensor",
    lambda edge_score, edge_index, row_ptr, span: row_ptr.new_empty(row_ptr.size(0) - 1),
    lambda kernels: kernels.forest_padded,
)


def forest_padded(edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, span: int | None = None) -> Tensor:
    """:func:`spanning_forest` of a padded graph: positions of edges, highest scores first, padded with −1 [N].

    Nothing is copied to the host. A NaN score counts as the highest.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E]; only the first ``row_ptr[-1]`` are edges, the rest is padding with self-loops.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        span: an upper bound on the number of nodes per component. A small span saves time on a GPU; one that is too
            small gives an incomplete forest.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> forest_padded(torch.tensor([0.1, 0.2, 0.3, 0.1, 0.9]), edge_index, row_ptr)
        tensor([ 2,  1, -1, -1])
    """
    span = row_ptr.size(0) - 1 if span is None else span
    return cast(Tensor, _forest_padded(edge_score.detach(), edge_index, row_ptr, span))


_softmax_ends = operator(
    "softmax_ends(Tensor ends, Tensor edge_index, Tensor row_ptr) -> Tensor",
    lambda ends, edge_index, row_ptr: ends.new_empty(edge_index.size(1)),
    lambda kernels: kernels.softmax_ends,
)
_softmax_ends_backward = operator(
    "softmax_ends_backward(Tensor grad, Tensor share, Tensor edge_index, Tensor row_ptr) -> Tensor",
    lambda grad, share, edge_index, row_ptr: grad.new_empty(row_ptr.size(0) - 1),
    lambda kernels: kernels.softmax_ends_backward,
)


class _SoftmaxEnds(torch.autograd.Function):
    """A target adds the same number to all its incoming edges, so the gradient of this number is zero."""

    @staticmethod
    def forward(ctx: Any, ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
        share = cast(Tensor, _softmax_ends(ends, edge_index, row_ptr))
        ctx.save_for_backward(share, edge_index, row_ptr)
        return share

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        source = _softmax_ends_backward(grad, *ctx.saved_tensors)
        return torch.stack([source, torch.zeros_like(source)]), None, None


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    """The softmax of :func:`~compool.ops.gather_ends` over the edges into each node.

    The graph must be undirected: a node's incoming edges are then the reverse of its outgoing edges, which are
    consecutive.

    Args:
        ends: what a node adds to the scores of its outgoing and of its incoming edges [2, N].
        edge_index: edges [2, E], both directions, sorted; only the first ``row_ptr[-1]`` are edges, padding gets 0.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].

    Example:
        >>> ends = torch.tensor([[1.0, 2.0, 1.0], [0.0, 0.0, 5.0]])  # a path 0 – 1 – 2
        >>> softmax_ends(ends, torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([0, 1, 3, 4]))
        tensor([0.5000, 1.0000, 1.0000, 0.5000])
    """
    return cast(Tensor, _SoftmaxEnds.apply(ends, edge_index, row_ptr))


_contract_padded = operator(
    "contract_padded(Tensor edge_score, Tensor edge_index, Tensor row_ptr, Tensor graph_ptr, SymInt span)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda edge_score, edge_index, row_ptr, graph_ptr, span: (
        *(row_ptr.new_empty(row_ptr.size(0) - 1) for _ in range(3)),
        edge_index.new_empty(edge_index.shape),
        row_ptr.new_empty(row_ptr.shape),
    ),
    lambda kernels: kernels.contract_padded,
)


class PaddedContraction(NamedTuple):
    """The pairs and single nodes after contraction, numbered by first member and padded to the number of nodes."""

    cluster: Tensor
    """The supernode of each node [N]."""
    chosen: Tensor
    """The contracted edge of each supernode [N]; −1 if there is none."""
    first: Tensor
    """The first member of each supernode [N], padded with N."""
    edge_index: Tensor
    """Edges between and inside supernodes [2, E], sorted, without repeats; zeros after the first ``row_ptr[-1]``."""
    row_ptr: Tensor
    """Supernode k has the edges ``row_ptr[k]:row_ptr[k + 1]``; [N + 1]."""


def contract_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, span: int | None = None
) -> PaddedContraction:
    """:func:`contract` and :func:`connect` on a padded graph: see :func:`coarsen_padded`.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E], sorted, without repeats; only the first ``row_ptr[-1]`` are edges.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        graph_ptr: graph g has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; no edge joins two graphs.
        span: an upper bound on the number of nodes per graph. A small span saves time on a GPU; one that is too small
            gives wrong edges.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> pairs = contract_padded(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.9]), edge_index, row_ptr, torch.tensor([0, 3]))
        >>> pairs.cluster, pairs.chosen, pairs.first
        (tensor([0, 1, 1, 2]), tensor([-1,  3, -1, -1]), tensor([0, 1, 3, 4]))
    """
    span = row_ptr.size(0) - 1 if span is None else span
    return PaddedContraction(*_contract_padded(edge_score.detach(), edge_index, row_ptr, graph_ptr, span))


def merge_padded_pairs(x: Tensor, edge_score: Tensor, parts: PaddedContraction, capacity: int | None = None) -> Tensor:
    """:func:`merge_pairs` of a padded graph: features [N, d], or [capacity, d] with a `capacity` for supernodes."""
    chosen = parts.chosen[:capacity]
    filler = torch.arange(chosen.size(0), device=x.device) % max(edge_score.size(0), 1)  # spreads reads over memory
    score = edge_score.index_select(0, torch.where(chosen < 0, filler, chosen))
    return scale_pairs(x, torch.where(chosen < 0, 1.0, score), parts.cluster)
