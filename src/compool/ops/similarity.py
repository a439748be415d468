"""Step 1 by similarity: the distance between the features of an edge's ends."""

from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from compool.ops import _torch_similarity
from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import is_transformed, operator

_distance = operator(
    "edge_distance(Tensor x, Tensor edge_index, Tensor weight, Tensor? group) -> Tensor",
    lambda x, edge_index, weight, group: weight.new_empty(edge_index.size(1)),
    lambda kernels: kernels.edge_distance,
)
_distance_backward = operator(
    "edge_distance_backward(Tensor grad, Tensor x, Tensor edge_index, Tensor weight, Tensor? group, Tensor(a!) grad_x)"
    " -> Tensor",
    lambda grad, x, edge_index, weight, group, grad_x: weight.new_empty(weight.shape),
    lambda kernels: kernels.edge_distance_backward,
)
_moments = operator(
    "edge_moments(Tensor x, Tensor edge_index, Tensor counted, Tensor? group, SymInt num_groups) -> Tensor",
    lambda x, edge_index, counted, group, num_groups: x.new_empty(
        num_groups, x.size(1), dtype=torch.promote_types(x.dtype, torch.float32)
    ),
    lambda kernels: kernels.edge_moments,
)
_observe = operator(
    "observe(Tensor x, Tensor edge_index, Tensor logit, Tensor(a!) mean, Tensor(b!) variance, Tensor(c!) num_batches)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    lambda x, edge_index, logit, *_: tuple(
        x.new_empty(size, dtype=torch.promote_types(x.dtype, torch.float32))
        for size in (edge_index.size(1), logit.size(0), logit.size(0), 1)
    ),
    lambda kernels: kernels.observe,
)


class _Distance(torch.autograd.Function):
    """The distances, and `x` passed through, so that gradients of `x` are added in one tensor: see `score._Score`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, edge_index, weight, group)
        ctx.set_materialize_grads(False)
        return cast(Tensor, _distance(x, edge_index, weight, group)), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_x: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return grad_x, None, None, None
        x, edge_index, weight, group = ctx.saved_tensors
        if wants_graph():
            again = partial(_distance_and_pass, edge_index, group)
            grad_x, grad_weight = gradients(again, (x, weight), (grad, grad_x))
        else:
            grad_x = torch.zeros_like(x) if grad_x is None else grad_x
            grad_weight = _distance_backward(grad, x, edge_index, weight, group, grad_x)
        return grad_x, None, grad_weight, None


def _distance_and_pass(edge_index: Tensor, group: Tensor | None, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return _torch_similarity.edge_distance(x, edge_index, weight, group), x.view_as(x)


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None = None) -> Tensor:
    r"""The weighted squared distance between the ends of each edge: :math:`\sum_c w_c (x_{ic} - x_{jc})^2`.

    O(E·d) time, without a tensor [E, d].

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        weight: :math:`w` [d], in float32 or wider; with groups, one row per group [G, d].
        group: the group of each node [N]; no edge joins two groups.

    Returns:
        Distances [E], in the dtype of `weight`.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_distance(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 0.5]))
        tensor([9., 8.])
    """
    return distance_and_pass(x, edge_index, weight, group)[0]


def distance_and_pass(
    x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """:func:`edge_distance`, and the `x` that all later steps must use, so that its gradients are added in one tensor.

    The gradient of the returned `x` must come from an operator that newly allocates it, as merging does, because this
    function adds to it in place.
    """
    weight = weight.view(-1, x.size(1))
    if is_transformed():
        return _torch_similarity.edge_distance(x, edge_index, weight, group), x
    distance, through = _Distance.apply(x, edge_index, weight, group)
    return distance, through if x.requires_grad else x


def edge_moments(
    x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None = None, num_groups: int = 1
) -> Tensor:
    r"""The mean of :math:`(x_{ic} - x_{jc})^2` over the edges in the mask `counted`, per channel [d]; has no gradient.

    With groups of nodes [N], the mean over each group's edges [num_groups, d]; zero for groups without edges.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_moments(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([True, True]))
        tensor([4.5000, 8.0000])
    """
    moments: Tensor = _moments(x.detach(), edge_index, counted, group, num_groups)
    return moments if group is not None else moments.squeeze(0)


class Standards(NamedTuple):
    """The factors by which distances are computed and standardised."""

    share: Tensor
    """The share of each channel [d], :math:`p`."""
    weight: Tensor
    """The factor of the squared differences of each channel [d], :math:`p / m`."""
    scale: Tensor
    """The factor of :math:`d - 1` [1], :math:`-1 / s`."""


class _Term(torch.autograd.Function):
    """The terms, and `x` passed through, so that gradients of `x` are added in one tensor: see `score._Score`."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        logit: Tensor,
        edge_index: Tensor,
        share: Tensor,
        weight: Tensor,
        scale: Tensor,
        term: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, logit, edge_index, share, weight, scale)
        ctx.set_materialize_grads(False)
        if term is not None:
            return term.view_as(term), x.view_as(x)
        return (_distance(x, edge_index, weight.unsqueeze(0), None) - 1) * scale, x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_x: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return grad_x, *(None,) * 6
        x, logit, edge_index, share, weight, scale = ctx.saved_tensors
        if wants_graph():
            again = partial(_plain_term, edge_index, Standards(share, weight, scale))
            return *gradients(again, (x, logit), (grad, grad_x)), *(None,) * 5
        grad_x = torch.zeros_like(x) if grad_x is None else grad_x
        weight = weight.unsqueeze(0)
        by_channel = (weight * _distance_backward(grad * scale, x, edge_index, weight, None, grad_x)).squeeze(0)
        grad_logit = torch.addcmul(by_channel, share, by_channel.sum(), value=-1)
        return grad_x, grad_logit.to(logit.dtype), *(None,) * 5


def _plain_term(edge_index: Tensor, standards: Standards, x: Tensor, logit: Tensor) -> tuple[Tensor, Tensor]:
    """The terms as differentiable functions of `x` and the logits, in plain torch operations."""
    share, weight, scale = standards
    change = (logit - logit.detach()).to(share.dtype)  # zero, but with a gradient
    factor = torch.where(share > 0, weight / share, 0)
    weight = (share.log() + change).softmax(-1) * factor
    return (_torch_similarity.edge_distance(x, edge_index, weight.unsqueeze(0), None) - 1) * scale, x.view_as(x)


def standards(logit: Tensor, mean: Tensor, variance: Tensor) -> Standards:
    """The factors given by the channels' logits and the running statistics, in the dtype of `variance`."""
    shares = _torch_similarity.channel_shares(logit.detach(), mean)
    return Standards(*shares, _torch_similarity.negative_scale(variance))


def observe(
    x: Tensor, edge_index: Tensor, logit: Tensor, mean: Tensor, variance: Tensor, num_batches: Tensor
) -> tuple[Tensor, Standards]:
    """Update the running statistics of a :class:`~compool.nn.Similarity` in place from a batch.

    Returns:
        The term of each edge [E] and the factors of distances, both by the new statistics.
    """
    term, *by = _observe(x.detach(), edge_index, logit.detach(), mean, variance, num_batches)
    return term, Standards(*by)


def term_and_pass(
    x: Tensor, edge_index: Tensor, logit: Tensor, by: Standards, term: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The term of each edge [E], :math:`-(d_{ij} - 1) / s`, and `x` as in :func:`distance_and_pass`.

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        logit: the logits from which `by` was computed [d]; they get a gradient.
        by: the factors of distances.
        term: the terms, if they are already known.
    """
    if is_transformed():
        return _plain_term(edge_index, by, x, logit)[0], x
    term, through = _Term.apply(x, logit, edge_index, *by, term)
    return term, through if x.requires_grad else x
