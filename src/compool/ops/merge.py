"""Step 4: the features of the supernodes."""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, is_transformed, wants_graph
from compool.ops._library import operator
from compool.ops.components import Components, count_members

_merge = operator(
    "merge(Tensor x, Tensor edge_score, Tensor edge_index, Tensor merged, Tensor cluster, Tensor first, Tensor alone)"
    " -> (Tensor, Tensor)",
    lambda x, edge_score, edge_index, merged, cluster, first, alone: (
        edge_score.new_empty(first.size(0), x.size(1)),
        edge_score.new_empty(x.size(0)),
    ),
)
_merge_backward = operator(
    "merge_backward(Tensor grad, Tensor x, Tensor weight, Tensor edge_index, Tensor merged, Tensor cluster)"
    " -> (Tensor, Tensor)",
    lambda grad, x, weight, edge_index, merged, cluster: (
        x.new_empty(x.shape),
        weight.new_empty(edge_index.size(1)),
    ),
)
_spread = operator(
    "spread(Tensor x, Tensor weight, Tensor source, Tensor target, SymInt num_rows) -> Tensor",
    lambda x, weight, source, target, num_rows: x.new_empty(num_rows, x.size(1)),
)
_spread_backward = operator(
    "spread_backward(Tensor grad, Tensor x, Tensor weight, Tensor source, Tensor target) -> (Tensor, Tensor)",
    lambda grad, x, weight, source, target: (x.new_empty(x.shape), weight.new_empty(weight.shape)),
)


class _Merge(torch.autograd.Function):
    """The sums, in the precision of the scores if they are to be `wide`, as what follows will divide them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, edge_score: Tensor, wide: bool, edge_index: Tensor, merged: Tensor, *parts: Tensor
    ) -> Tensor:
        out, weight = _merge(x, edge_score, edge_index, merged, *parts)
        ctx.save_for_backward(x, edge_score, weight, edge_index, merged, *parts)
        return cast(Tensor, out if wide else out.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, edge_score, weight, edge_index, merged, *parts = ctx.saved_tensors
        if wants_graph():
            again = partial(_sums, edge_index, merged, parts, grad.dtype)
            return *gradients(again, (x, edge_score), [grad]), *[None] * 6
        return *_merge_backward(grad, x, weight, edge_index, merged, parts[0]), *[None] * 6


def _sums(
    edge_index: Tensor, merged: Tensor, parts: list[Tensor], dtype: torch.dtype, x: Tensor, edge_score: Tensor
) -> tuple[Tensor]:
    """Merging in plain torch operations."""
    return (_torch.merge(x, edge_score, edge_index, merged, *parts)[0].to(dtype),)


class _Spread(torch.autograd.Function):
    """out[target] += weight · x[source], edge by edge, with no E × d tensor either way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
        ctx.save_for_backward(x, weight, source, target)
        return cast(Tensor, _spread(x, weight, source, target, num_rows))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, source, target = ctx.saved_tensors
        if wants_graph():
            again = partial(_spread_rows, source, target, grad.size(0))
            return *gradients(again, (x, weight), [grad]), None, None, None
        if not ctx.needs_input_grad[1]:
            return _spread(grad, weight, target, source, x.size(0)), None, None, None, None
        return *_spread_backward(grad, x, weight, source, target), None, None, None


def _spread_rows(source: Tensor, target: Tensor, num_rows: int, x: Tensor, weight: Tensor) -> tuple[Tensor]:
    """Spreading in plain torch operations."""
    return (_torch.spread(x, weight, source, target, num_rows),)


def spread(x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
    """Sum weighted rows of `x`: ``out[target] += weight * x[source]``, with no tensor as long as `source` and as wide
    as `x`.

    Example:
        >>> x, weight = torch.tensor([[1.0], [10.0]]), torch.tensor([1.0, 2.0, 3.0])
        >>> spread(x, weight, torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2]), num_rows=3)
        tensor([[21.],
                [ 0.],
                [30.]])
    """
    if is_transformed():
        return _torch.spread(x, weight, source, target, num_rows)
    return cast(Tensor, _Spread.apply(x, weight, source, target, num_rows))


def merge(
    x: Tensor,
    edge_score: Tensor,
    edge_index: Tensor,
    merged: Tensor,
    parts: Components,
    per_member: bool = False,
) -> Tensor:
    r"""Sum the features of each component, a node weighted by the scores of its merged edges.

    :math:`X' = (W C)^\top X` (Eq. 4) with :math:`W` of Eq. 3. Each row of :math:`W` only reaches its own component, so

    .. math:: w_i = \sum_{(i, j) \in \mathcal{E}_m} S_{ij}, \quad w_i = 1 \text{ if no merged edge touches } i,
        \quad x'_k = \sum_{i \in k} w_i x_i.

    A node that only an incoming edge merges has weight 0. Forward and backward are O(N·d + E).

    Args:
        x: node features [N, d].
        edge_score: scores [E].
        edge_index: edges [2, E].
        merged: mask [E] of the merged edges.
        parts: their components.
        per_member: divide each sum by the number of its members, before it is rounded to the dtype of `x`.

    Returns:
        The features of the supernodes [K, d].

    Example:
        >>> from compool.ops import components
        >>> edge_index, merged = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, True])
        >>> x, edge_score = torch.tensor([[1.0], [10.0], [5.0]]), torch.tensor([0.5, 0.2])
        >>> merge(x, edge_score, edge_index, merged, components(edge_index, merged, num_nodes=3))
        tensor([[2.5000],
                [5.0000]])
    """
    if is_transformed():
        out = _torch.merge(x, edge_score, edge_index, merged, *parts)[0]
    else:
        out = _Merge.apply(x, edge_score, per_member, edge_index, merged, *parts)
    if per_member:
        out = out / count_members(parts.cluster, parts.number).unsqueeze(1)
    return out.to(x.dtype)


def merge_all(
    x: Tensor,
    edge_score: Tensor,
    edge_index: Tensor,
    counted: Tensor | None,
    parts: Components,
    per_member: bool = False,
) -> Tensor:
    r"""Sum the features of each component with the scores of *all* edges, as the paper's released code and PyG do.

    .. math:: x'_k = \sum_{(i, j) \in \mathcal{E},\, j \in k} S_{ij} x_i + \sum_{i \in k \text{ untouched}} x_i

    Here :math:`W` holds the scores of edges that were not merged too: they carry features from one supernode to
    another, with negative weights where scores are negative. O(N·d + E·d) time, no E × d tensor on the CPU.

    Args:
        x: node features [N, d].
        edge_score: scores [E].
        edge_index: edges [2, E].
        counted: mask [E] of the edges that count (see :func:`~compool.ops.select`), or None if all do.
        parts: the components of the merged edges.
        per_member: divide each sum by the number of its members.

    Returns:
        The features of the supernodes [K, d].

    Example:
        >>> from compool.ops import components
        >>> edge_index, merged = torch.tensor([[0, 1], [1, 0]]), torch.tensor([False, False])
        >>> x, edge_score = torch.tensor([[1.0], [10.0]]), torch.tensor([-0.5, -0.5])
        >>> merge_all(x, edge_score, edge_index, None, components(edge_index, merged, num_nodes=2))
        tensor([[-4.0000],
                [ 9.5000]])
    """
    weight = edge_score if counted is None else edge_score * counted
    # A node that no merged edge touches adds itself; on a GPU every node does, most with weight 0, to know the size
    if x.is_cuda:
        own, share = torch.arange(x.size(0), device=x.device), parts.alone.to(weight.dtype)
    else:
        own = parts.alone.nonzero().squeeze(1)
        share = weight.new_ones(own.size(0))
    source, target = (torch.cat([end.long(), own]) for end in edge_index)
    weight, target = torch.cat([weight, share]), parts.cluster[target]
    if per_member:
        weight = weight / count_members(parts.cluster, parts.number)[target]
    return spread(x, weight, source, target, parts.number)
