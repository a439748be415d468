"""Dense layers of many replicas at once: each replica has its own consecutive rows and its own weights.

Rows after the last replica's are padding, whose result is zero.
"""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.replicas.kernels._dispatch import operator
from compool.replicas.kernels.dropout import activate_backward

_linear = operator(
    "grouped_linear(Tensor x, Tensor weight, Tensor? bias, Tensor ptr) -> Tensor",
    lambda x, weight, bias, ptr: x.new_empty(x.size(0), weight.size(1)),
    lambda kernels: kernels.grouped_linear,
)
_linear_activate = operator(
    "linear_activate(Tensor x, Tensor weight, Tensor? onto, Tensor bias, Tensor ptr, Tensor? key, Tensor probability)"
    " -> Tensor",
    lambda x, weight, *rest: x.new_empty(x.size(0), weight.size(1)),
    lambda kernels: kernels.linear_activate,
)
_outer = operator(
    "grouped_outer(Tensor left, Tensor right, Tensor ptr, bool has_sums) -> (Tensor, Tensor)",
    lambda left, right, ptr, has_sums: (
        left.new_empty(ptr.size(0) - 1, left.size(1), right.size(1)),
        left.new_empty(ptr.size(0) - 1 if has_sums else 0, left.size(1)),
    ),
    lambda kernels: kernels.grouped_outer,
)
_sum = operator(
    "segment_sum(Tensor x, Tensor ptr) -> Tensor",
    lambda x, ptr: x.new_empty(ptr.size(0) - 1, x.size(1)),
    lambda kernels: kernels.segment_sum,
)
_repeat = operator(
    "segment_repeat(Tensor x, Tensor ptr, SymInt num_rows) -> Tensor",
    lambda x, ptr, num_rows: x.new_empty(num_rows, x.size(1)),
    lambda kernels: kernels.segment_repeat,
)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, ptr)
        return cast(Tensor, _linear(x, weight, bias, ptr))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, ptr = ctx.saved_tensors
        grad_x = _linear(grad, weight.transpose(1, 2), None, ptr) if ctx.needs_input_grad[0] else None
        has_bias = ctx.needs_input_grad[2]
        grad_weight, grad_bias = _outer(grad, x, ptr, has_bias)
        return grad_x, grad_weight, grad_bias if has_bias else None, None


class _LinearActivate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, onto: Tensor | None, *rest: Tensor | None) -> Tensor:
        out = _linear_activate(x, weight, onto, *rest)
        _, ptr, key, probability = rest
        ctx.save_for_backward(x, weight, out, ptr, None if key is None else probability)
        return cast(Tensor, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, out, ptr, probability = ctx.saved_tensors
        grad, grad_bias = activate_backward(grad, out, ptr, probability)
        grad_x = _linear(grad, weight.transpose(1, 2), None, ptr) if ctx.needs_input_grad[0] else None
        grad_weight, _ = _outer(grad, x, ptr, False)
        return grad_x, grad_weight, grad if ctx.needs_input_grad[2] else None, grad_bias, None, None, None


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor) -> Tensor:
        ctx.save_for_backward(ptr)
        ctx.num_rows = x.size(0)
        return cast(Tensor, _sum(x, ptr))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _repeat(grad, *ctx.saved_tensors, ctx.num_rows), None


class _Repeat(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
        ctx.save_for_backward(ptr)
        return cast(Tensor, _repeat(x, ptr, num_rows))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _sum(grad, *ctx.saved_tensors), None, None


def grouped_linear(x: Tensor, weight: Tensor, ptr: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply the rows of each replica by its own weight, and add its own bias.

    Args:
        x: features [N, i].
        weight: one weight per replica [R, o, i], each as in :class:`torch.nn.Linear`.
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1]. Rows that belong to no replica become zero.
        bias: one bias per replica [R, o], or None.

    Returns:
        Features [N, o].

    Example:
        >>> x, weight = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[[1.0]], [[10.0]]])
        >>> grouped_linear(x, weight, torch.tensor([0, 2, 3])).squeeze(1)
        tensor([ 1.,  2., 30.])
    """
    return cast(Tensor, _Linear.apply(x, weight, bias, ptr))


def linear_activate(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    ptr: Tensor,
    key: Tensor | None,
    probability: Tensor,
    onto: Tensor | None = None,
) -> Tensor:
    """:func:`grouped_linear`, added to `onto` if given, and :func:`activate`, in one pass over the result.

    Args:
        x: features [N, i].
        weight: one weight per replica [R, o, i].
        bias: one bias per replica [R, o].
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1]. Rows that belong to no replica become zero.
        key: the random key of each replica, int64 [R]; None for no dropout.
        probability: the dropout probability of each replica, float32 [R].
        onto: features to which the product is added [N, o], or None.

    Example:
        >>> x, weight = torch.tensor([[1.0], [2.0]]), torch.tensor([[[1.0]], [[10.0]]])
        >>> linear_activate(x, weight, torch.tensor([[-2.0], [3.0]]), torch.tensor([0, 1, 2]), None, torch.zeros(2))
        tensor([[ 0.],
                [23.]])
    """
    return cast(Tensor, _LinearActivate.apply(x, weight, onto, bias, ptr, key, probability))


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    """Sum the rows of each segment: row s of the result is the sum of the rows ``ptr[s]:ptr[s + 1]``.

    Example:
        >>> segment_sum(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 2, 2, 3])).squeeze(1)
        tensor([3., 0., 3.])
    """
    return cast(Tensor, _Sum.apply(x, ptr))


def segment_repeat(x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    """Give every row of a segment the segment's row of `x`; the transpose of :func:`segment_sum`.

    Example:
        >>> segment_repeat(torch.tensor([[5.0], [6.0]]), torch.tensor([0, 2, 3]), num_rows=3).squeeze(1)
        tensor([5., 5., 6.])
    """
    return cast(Tensor, _Repeat.apply(x, ptr, num_rows))
