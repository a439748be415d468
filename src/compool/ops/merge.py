"""Step 4: the features of the supernodes."""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import is_transformed, operator
from compool.ops.components import Components, count_members
from compool.ops.score import sum_ends

_row_sum = operator(
    "row_sum(Tensor x, Tensor weight, Tensor? source, Tensor target, SymInt num_rows, Tensor? alone) -> Tensor",
    lambda x, weight, source, target, num_rows, alone: weight.new_empty(num_rows, x.size(1)),
    lambda kernels: kernels.row_sum,
)
_row_sum_backward = operator(
    "row_sum_backward(Tensor grad, Tensor x, Tensor weight, Tensor? source, Tensor target) -> (Tensor, Tensor)",
    lambda grad, x, weight, source, target: (x.new_empty(x.shape), weight.new_empty(weight.shape)),
    lambda kernels: kernels.row_sum_backward,
)


class _RowSum(torch.autograd.Function):
    """Weighted row sums, in the precision of the weights if `wide`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        source: Tensor | None,
        target: Tensor,
        num_rows: int,
        alone: Tensor | None,
        wide: bool,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, source, target)
        out = _row_sum(x, weight, source, target, num_rows, alone)
        return cast(Tensor, out if wide or out.dtype == x.dtype else out.to(x.dtype))  # see pool.py

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, source, target = ctx.saved_tensors
        if wants_graph():
            return *gradients(partial(_plain_row_sum, source, target, grad), (x, weight), [grad]), *(None,) * 5
        if ctx.needs_input_grad[1] or source is None:
            return *_row_sum_backward(grad, x, weight, source, target), *(None,) * 5
        return _row_sum(grad, weight, target, source, x.size(0), None).to(x.dtype), *(None,) * 6


def _plain_row_sum(source: Tensor | None, target: Tensor, like: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor]:
    """Row sums in plain torch operations, with the number of rows and the dtype of `like`."""
    return (_torch.row_sum(x, weight, source, target, like.size(0), None).to(like.dtype),)


def row_sum(
    x: Tensor,
    weight: Tensor,
    source: Tensor | None,
    target: Tensor,
    num_rows: int,
    alone: Tensor | None = None,
    wide: bool = False,
) -> Tensor:
    """Sum weighted rows of `x`: ``out[target] += weight * x[source]``, without a tensor [M, d].

    Args:
        x: rows [N, d].
        weight: the weight of each summand [M], float32 or wider.
        source: the row of `x` to add [M]; None adds each row once, in order.
        target: the row of the result to which it is added [M].
        num_rows: number of rows of the result.
        alone: mask [M] of the summands that are the only one of their target, if known; saves time on a GPU.
        wide: return sums in the dtype of `weight` instead of the dtype of `x`.

    Example:
        >>> x, weight = torch.tensor([[1.0], [10.0]]), torch.tensor([1.0, 2.0, 3.0])
        >>> row_sum(x, weight, torch.tensor([0, 1, 1]), torch.tensor([0, 0, 2]), num_rows=3)
        tensor([[21.],
                [ 0.],
                [30.]])
    """
    if is_transformed():
        out = _torch.row_sum(x, weight, source, target, num_rows, alone)
        return out if wide else out.to(x.dtype)
    return cast(Tensor, _RowSum.apply(x, weight, source, target, num_rows, alone, wide))


def node_weight(edge_score: Tensor, edge_index: Tensor, merged: Tensor, parts: Components) -> Tensor:
    r"""The weight of each node in its supernode [N]: :math:`w_i = \sum_{(i, j) \in \mathcal{E}_m} S_{ij}`, or 1 for a
    node that no merged edge touches (Eq. 3).

    Example:
        >>> from compool.ops import components
        >>> edge_index, merged = torch.tensor([[0, 1], [1, 0]]), torch.tensor([True, True])
        >>> node_weight(torch.tensor([0.5, 0.2]), edge_index, merged, components(edge_index, merged, num_nodes=3))
        tensor([0.5000, 0.2000, 1.0000])
    """
    sums = sum_ends(edge_score * merged, edge_index, parts.cluster.size(0))[0]
    return sums.masked_fill(parts.alone, 1.0)


def merge(
    x: Tensor,
    edge_score: Tensor,
    edge_index: Tensor,
    merged: Tensor,
    parts: Components,
    per_member: bool = False,
    wide: bool = False,
) -> Tensor:
    r"""Sum the features of each component's nodes, each weighted by the scores of its outgoing merged edges.

    :math:`X' = (W C)^\top X` (Eq. 4) with :math:`W` of Eq. 3. Each row of :math:`W` only reaches its own component, so

    .. math:: w_i = \sum_{(i, j) \in \mathcal{E}_m} S_{ij}, \quad w_i = 1 \text{ if no merged edge touches } i,
        \quad x'_k = \sum_{i \in k} w_i x_i.

    A node with only incoming merged edges has weight 0; see :func:`node_weight`. Forward and backward take O(N·d + E)
    time.

    Args:
        x: node features [N, d].
        edge_score: scores [E].
        edge_index: edges [2, E].
        merged: mask [E] of the merged edges.
        parts: the components of the merged edges.
        per_member: divide each sum by the number of members, before it is rounded to the dtype of `x`.
        wide: return sums in the precision of the scores, which is float32 or wider.

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
    weight = node_weight(edge_score, edge_index, merged, parts)
    out = row_sum(x, weight, None, parts.cluster, parts.num_supernodes, parts.alone, wide or per_member)
    if per_member:
        out = out / count_members(parts.cluster, parts.num_supernodes).unsqueeze(1)
    return out if wide else out.to(x.dtype)


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

    Here :math:`W` also holds the scores of edges that do not merge: they carry features from one supernode to another,
    with negative weights where scores are negative. O(N·d + E·d) time, without a tensor [E, d] on the CPU.

    Args:
        x: node features [N, d].
        edge_score: scores [E].
        edge_index: edges [2, E].
        counted: mask [E] of the edges that count (see :func:`~compool.ops.select`), or None if all do.
        parts: the components of the merged edges.
        per_member: divide each sum by the number of members.

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
    # Nodes without merged edges add themselves. On a GPU, all nodes do, most with weight 0, so that the size is known
    if x.is_cuda:
        own, share = torch.arange(x.size(0), device=x.device), parts.alone.to(weight.dtype)
    else:
        own = parts.alone.nonzero().squeeze(1)
        share = weight.new_ones(own.size(0))
    source, target = (torch.cat([end.long(), own]) for end in edge_index)
    weight, target = torch.cat([weight, share]), parts.cluster[target]
    if per_member:
        weight = weight / count_members(parts.cluster, parts.num_supernodes)[target]
    return row_sum(x, weight, source, target, parts.num_supernodes)
