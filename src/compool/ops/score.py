"""Step 1: a score for every edge."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, wants_graph
from compool.ops._checks import check_activated
from compool.ops._dispatch import is_transformed, operator
from compool.ops.random import drop_pairs

_node_ends = operator(
    "node_ends(Tensor x, Tensor halves) -> Tensor",
    lambda x, halves: halves.new_empty(halves.size(0), x.size(0)),
    lambda kernels: kernels.node_ends,
)
_node_ends_backward = operator(
    "node_ends_backward(Tensor grad, Tensor x, Tensor halves, Tensor(a!) grad_x) -> Tensor",
    lambda grad, x, halves, grad_x: halves.new_empty(halves.shape),
    lambda kernels: kernels.node_ends_backward,
)
_score = operator(
    "score(Tensor ends, Tensor edge_index, Tensor bias) -> Tensor",
    lambda ends, edge_index, bias: ends.new_empty(edge_index.size(1)),
    lambda kernels: kernels.score,
)
_sum_ends = operator(
    "sum_ends(Tensor values, Tensor edge_index, SymInt num_nodes) -> Tensor",
    lambda values, edge_index, num_nodes: values.new_empty(2, num_nodes),
    lambda kernels: kernels.sum_ends,
)


def _sigmoid(raw: Tensor) -> Tensor:
    """The logistic function. The result of torch's depends on memory positions: directions of an edge would differ."""
    return raw.neg().clamp(max=88).exp().add(1).reciprocal()  # infinity would have a gradient of NaN


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "sigmoid": _sigmoid, "hardtanh": F.hardtanh}


class _SumEnds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
        ctx.save_for_backward(edge_index)
        return cast(Tensor, _sum_ends(values, edge_index, num_nodes))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (edge_index,) = ctx.saved_tensors
        return gather_ends(grad, edge_index), None, None


class _GatherEnds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ends: Tensor, edge_index: Tensor) -> Tensor:
        ctx.save_for_backward(edge_index)
        ctx.num_nodes = ends.size(1)
        return cast(Tensor, _score(ends, edge_index, ends.new_zeros(1)))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (edge_index,) = ctx.saved_tensors
        return sum_ends(grad, edge_index, ctx.num_nodes), None


def gather_ends(ends: Tensor, edge_index: Tensor) -> Tensor:
    """The sum of the values of each edge's two ends [E]: ``ends[0, source] + ends[1, target]``.

    Example:
        >>> gather_ends(torch.tensor([[1.0, 2.0], [10.0, 20.0]]), torch.tensor([[0, 1], [1, 0]]))
        tensor([21., 12.])
    """
    if is_transformed():
        return _torch.score(ends, edge_index, ends.new_zeros(1))
    return cast(Tensor, _GatherEnds.apply(ends, edge_index))


def sum_ends(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    """The sums of the values of each node's outgoing and incoming edges [2, N]; the transpose of :func:`gather_ends`.

    Example:
        >>> sum_ends(torch.tensor([1.0, 2.0]), torch.tensor([[0, 0], [1, 2]]), num_nodes=3)
        tensor([[3., 0., 0.],
                [0., 1., 2.]])
    """
    if is_transformed():
        return _torch.sum_ends(values, edge_index, num_nodes)
    return cast(Tensor, _SumEnds.apply(values, edge_index, num_nodes))


def full_precision(x: Tensor) -> AbstractContextManager[Any]:
    """A context that disables autocast if it is enabled; entering it takes longer than this check."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def scorer(x: Tensor, weight: Tensor, bias: Tensor, symmetric: bool) -> tuple[Tensor, Tensor]:
    """The weights of the source's and the target's features [2, d], or one row for both [1, d] if symmetric, and the
    bias, in float32 or wider.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    halves = weight.view(2, -1).to(dtype)
    return halves.mean(0, keepdim=True) if symmetric else halves, bias.to(dtype)


def activate_(raw: Tensor, activation: str) -> Tensor:
    """Apply the activation in place."""
    if activation == "tanh":
        return raw.tanh_()
    if activation == "sigmoid":
        return raw.neg_().clamp_(max=88).exp_().add_(1).reciprocal_()  # as `_sigmoid`
    return raw.clamp_(-1, 1)


def slope(edge_score: Tensor, activation: str) -> Tensor:
    """The derivative of the scores with respect to the raw scores."""
    if activation == "tanh":
        return 1 - edge_score * edge_score
    return edge_score * (1 - edge_score) if activation == "sigmoid" else (edge_score.abs() < 1).to(edge_score.dtype)


def score_halves(x: Tensor, halves: Tensor, bias: Tensor, edge_index: Tensor) -> Tensor:
    """The raw scores in plain torch operations."""
    with full_precision(x):
        ends = (halves @ x.to(halves.dtype).t()).expand(2, -1)
    return _torch.score(ends, edge_index, bias)


def _score_and_pass(edge_index: Tensor, x: Tensor, halves: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return score_halves(x, halves, bias, edge_index), x.view_as(x)


class _Score(torch.autograd.Function):
    """The raw scores, and `x` passed through.

    Operations that use the returned `x` send their gradient here, where the gradient through the scores is added in
    place: one tensor [N, d] less than if autograd added the two. The gradient must come from an operator that newly
    allocates it, as merging does.

    `halves` holds the weights of the source's and the target's features [2, d], or one row for both. `halves` and
    `bias` have the dtype of the scores.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, halves: Tensor, bias: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, halves, bias, edge_index)
        ctx.set_materialize_grads(False)
        # What a node adds to the scores of its outgoing and of its incoming edges [2, N]. The bias is added last, so
        # that both directions of an edge give equal sums to the bit: a + b = b + a.
        ends = _node_ends(x, halves).expand(2, -1)
        return _score(ends, edge_index, bias), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_x: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return grad_x, None, None, None
        x, halves, bias, edge_index = ctx.saved_tensors
        if wants_graph():
            return *gradients(partial(_score_and_pass, edge_index), (x, halves, bias), (grad, grad_x)), None
        ends = _sum_ends(grad, edge_index, x.size(0))
        if halves.size(0) == 1:
            ends = ends.sum(0, keepdim=True)
        if ctx.needs_input_grad[0]:
            grad_x = torch.zeros_like(x) if grad_x is None else grad_x
            grad_halves = _node_ends_backward(ends, x, halves, grad_x)
        else:
            with full_precision(x):
                grad_halves = ends @ x.to(ends.dtype)
        return grad_x, grad_halves, grad.sum().view(1), None


def score(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor,
    bias: Tensor,
    activation: Callable[[Tensor], Tensor] = torch.tanh,
    dropout: float = 0.0,
    symmetric: bool = False,
    edge_term: Tensor | None = None,
) -> Tensor:
    r"""Score every edge by its two end nodes: :math:`S_{ij} = \sigma(\psi(x_i, x_j) + b)` (Eq. 1).

    :math:`\psi` is linear in the concatenated features, so it is a sum of one number per end. This takes O(N·d + E)
    time, without a tensor [E, 2d]. Scores of half-precision features are float32.

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        weight: the linear map :math:`\psi`, [1, 2d].
        bias: :math:`b`, [1].
        activation: :math:`\sigma`.
        dropout: probability with which a raw score is set to zero; the other raw scores are scaled by
            1 / (1 − dropout).
        symmetric: score both directions of an edge by the mean of their raw scores; dropout drops both or neither.
        edge_term: a term added to the raw score of each edge [E]; see :func:`score_edges`.

    Returns:
        Scores [E].

    Example:
        >>> x = torch.tensor([[1.0], [2.0]])
        >>> weight = torch.tensor([[1.0, -1.0]])
        >>> score(x, torch.tensor([[0, 1], [1, 0]]), weight, torch.tensor([0.5]), activation=lambda raw: raw)
        tensor([-0.5000,  1.5000])
    """
    return score_and_pass(x, edge_index, weight, bias, activation, dropout, symmetric, edge_term)[0]


def score_and_pass(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor,
    bias: Tensor,
    activation: Callable[[Tensor], Tensor] = torch.tanh,
    dropout: float = 0.0,
    symmetric: bool = False,
    edge_term: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`score`, and the `x` that merging must use, so that its two gradients are added in one tensor."""
    halves, bias = scorer(x, weight, bias, symmetric)
    if is_transformed():
        raw, through = score_halves(x, halves, bias, edge_index), x
    else:
        raw, through = _Score.apply(x, halves, bias, edge_index)
    if edge_term is not None:
        raw = raw + edge_term
    if dropout > 0:
        raw = _drop(raw, edge_index, dropout, symmetric)
    edge_score = activation(raw)
    check_activated(edge_score, raw)
    return edge_score.to(halves.dtype), through if x.requires_grad else x


def _drop(raw: Tensor, edge_index: Tensor, dropout: float, symmetric: bool) -> Tensor:
    if not symmetric:
        return F.dropout(raw, dropout)
    seed = torch.randint(2**62, (1,), device=raw.device)
    return drop_pairs(raw, edge_index, seed, torch.full((1,), dropout, device=raw.device))
