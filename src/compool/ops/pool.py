"""All steps in one operator, forward and backward: the usual case, without the overhead of autograd between steps."""

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import has_kernels, is_transformed, operator, unknown_size
from compool.ops.budget import ratio_parts
from compool.ops.coarsen import coarsen, coarsen_selected
from compool.ops.components import Components, count_members
from compool.ops.merge import merge
from compool.ops.score import ACTIVATIONS, score_halves, scorer


def _shape(
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    term: Tensor | None,
    edge_index: Tensor,
    batch: Tensor | None,
    activation: str,
    threshold: float,
    self_loops: bool,
    ratio: float | None,
) -> tuple[Tensor, ...]:
    num_supernodes = unknown_size(1 if x.size(0) else 0)  # at least one, so that later operations may take a maximum
    out, weight = halves.new_empty(num_supernodes, x.size(1)), halves.new_empty(x.size(0))
    edge_score = halves.new_empty(edge_index.size(1))
    cluster = edge_index.new_empty(x.size(0), dtype=torch.long)
    graph = edge_index.new_empty(num_supernodes, dtype=torch.long if batch is None else batch.dtype)
    merged = torch.empty_like(edge_score, dtype=torch.bool)
    return out, edge_score, cluster, edge_index.new_empty(2, unknown_size()), graph, merged, weight


_pool = operator(
    "pool(Tensor x, Tensor halves, Tensor bias, Tensor? term, Tensor edge_index, Tensor? batch, str activation,"
    " float threshold, bool self_loops, float? ratio) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _shape,
    lambda kernels: kernels.pool,
)
_pool_backward = operator(
    "pool_backward(Tensor grad, Tensor? grad_score, Tensor x, Tensor halves, Tensor edge_index, Tensor edge_score,"
    " Tensor cluster, Tensor merged, Tensor weight, str activation, bool has_term) -> (Tensor, Tensor, Tensor, Tensor)",
    lambda grad, grad_score, x, halves, edge_index, edge_score, cluster, merged, weight, activation, has_term: (
        x.new_empty(x.shape),
        halves.new_empty(halves.shape),
        halves.new_empty(1),
        edge_score.new_empty(edge_score.shape if has_term else 0),
    ),
    lambda kernels: kernels.pool_backward,
)


class _Pool(torch.autograd.Function):
    """If `wide`, the sums keep the precision of the scores, because they will be divided."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        halves: Tensor,
        bias: Tensor,
        term: Tensor | None,
        edge_index: Tensor,
        batch: Tensor | None,
        activation: str,
        threshold: float,
        self_loops: bool,
        ratio: float | None,
        wide: bool,
    ) -> tuple[Tensor, ...]:
        outputs = _pool(x, halves, bias, term, edge_index, batch, activation, threshold, self_loops, ratio)
        out, edge_score, cluster, edges, graph, merged, weight = outputs
        ctx.activation = activation
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(cluster, edges, graph)
        ctx.save_for_backward(x, halves, bias, term, edge_index, edge_score, cluster, merged, weight)
        if not wide and out.dtype != x.dtype:  # when compiled, torch 2.11 loses the gradient of a no-op conversion
            out = out.to(x.dtype)
        return out, edge_score, cluster, edges, graph

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_score: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        x, halves, bias, term, edge_index, edge_score, cluster, merged, weight = ctx.saved_tensors
        if grad is None:
            grad = x.new_zeros(int(cluster.max()) + 1 if cluster.numel() else 0, x.size(1))
        if wants_graph():
            again = partial(_score_and_merge, edge_index, cluster, merged, ctx.activation, grad)
            inputs = (x, halves, bias) if term is None else (x, halves, bias, term)
            grads = gradients(again, inputs, (grad, grad_score))
            return *grads, *(None,) * (11 - len(grads))
        given = (grad, grad_score, x, halves, edge_index, edge_score, cluster, merged, weight)
        *grads, grad_term = _pool_backward(*given, ctx.activation, term is not None)
        return *grads, None if term is None else grad_term, *(None,) * 7


def _score_and_merge(
    edge_index: Tensor,
    cluster: Tensor,
    merged: Tensor,
    activation: str,
    like: Tensor,
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    term: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The features of the supernodes, with the size and dtype of `like`, and the scores, in plain torch operations, if
    the merged edges are known.
    """
    raw = score_halves(x, halves, bias, edge_index)
    edge_score = ACTIVATIONS[activation](raw if term is None else raw + term)
    size = count_members(cluster, like.size(0))
    parts = Components(cluster, first=size, alone=(size == 1)[cluster])  # of `first`, only the length counts here
    return merge(x, edge_score, edge_index, merged, parts, wide=True).to(like.dtype), edge_score


class PoolOutput(NamedTuple):
    """The coarse graph, and how the input maps to it."""

    x: Tensor
    """Features of the supernodes [K, d]."""
    edge_score: Tensor
    """The score of each edge of the input [E]."""
    cluster: Tensor
    """The supernode of each node [N]."""
    edge_index: Tensor
    """Edges between supernodes [2, E']."""
    batch: Tensor
    """The graph of each supernode [K]."""


def pool(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor,
    bias: Tensor,
    batch: Tensor | None = None,
    activation: str = "tanh",
    threshold: float = 0.0,
    symmetric: bool = False,
    self_loops: bool = False,
    per_member: bool = False,
    ratio: float | None = None,
    term: Tensor | None = None,
) -> PoolOutput:
    """:func:`score`, :func:`coarsen` and :func:`merge` in one, forward and backward.

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        weight: the scorer's linear map [1, 2d].
        bias: the scorer's bias [1].
        batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
        activation: ``"tanh"``, ``"sigmoid"`` or ``"hardtanh"``.
        threshold: merge the edges that score above it.
        symmetric: score both directions of an edge by the mean of their raw scores.
        self_loops: keep the edges inside supernodes as self-loops.
        per_member: divide the features of each supernode by the number of its members.
        ratio: merge as :func:`select_ratio` does, instead of by a threshold.
        term: a term added to the raw score of each edge [E]; repeats of an edge must have equal terms.

    Example:
        >>> x, edge_index = torch.tensor([[1.0], [10.0], [5.0]]), torch.tensor([[0, 1], [1, 0]])
        >>> pooled = pool(x, edge_index, torch.tensor([[1.0, 0.0]]), torch.tensor([0.0]))
        >>> pooled.cluster, pooled.x
        (tensor([0, 0, 1]), tensor([[10.7616],
                [ 5.0000]]))
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r}")
    halves, bias = scorer(x, weight, bias, symmetric)
    if not _is_fused(x):
        raw = score_halves(x, halves, bias, edge_index)
        edge_score = ACTIVATIONS[activation](raw if term is None else raw + term)
        if ratio is None:
            coarse = coarsen(edge_score, edge_index, x.size(0), threshold, batch, self_loops)
        else:
            selection, parts = ratio_parts(edge_score, edge_index, x.size(0), ratio, batch)
            coarse = coarsen_selected(selection, edge_index, x.size(0), batch, self_loops, parts)
        out = merge(x, edge_score, edge_index, coarse.merged, coarse.parts, per_member)
        return PoolOutput(out, edge_score, coarse.parts.cluster, coarse.edge_index, coarse.batch)
    settings = (activation, threshold, self_loops, ratio, per_member)
    out, edge_score, cluster, edges, graph = _Pool.apply(x, halves, bias, term, edge_index, batch, *settings)
    if per_member:
        out = (out / count_members(cluster, out.size(0)).unsqueeze(1)).to(x.dtype)
    return PoolOutput(out, edge_score, cluster, edges, graph)


def _is_fused(x: Tensor) -> bool:
    """Whether one kernel does all steps; on a GPU, it sums in no fixed order."""
    steps = x.is_cuda and (torch.are_deterministic_algorithms_enabled() or not x.numel())
    return has_kernels(x) and not steps and not is_transformed()
