"""Random masks from keys: a replica's mask depends on its key only, not on the rest of the batch."""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.replicas.kernels._dispatch import operator

_drop = operator(
    "drop(Tensor x, Tensor ptr, Tensor key, Tensor probability) -> Tensor",
    lambda x, *rest: x.new_empty(x.shape),
    lambda kernels: kernels.drop,
)
_activate = operator(
    "activate(Tensor x, Tensor? bias, Tensor ptr, Tensor? key, Tensor probability) -> Tensor",
    lambda x, *rest: x.new_empty(x.shape),
    lambda kernels: kernels.activate,
)
activate_backward = operator(
    "activate_backward(Tensor grad, Tensor out, Tensor ptr, Tensor? probability) -> (Tensor, Tensor)",
    lambda grad, out, ptr, probability: (grad.new_empty(grad.shape), grad.new_empty(ptr.size(0) - 1, grad.size(1))),
    lambda kernels: kernels.activate_backward,
)


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *options: Tensor) -> Tensor:
        ctx.save_for_backward(*options)
        return cast(Tensor, _drop(x, *options))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _drop(grad, *ctx.saved_tensors), None, None, None  # recomputes the mask instead of storing it


class _Activate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor
    ) -> Tensor:
        out = _activate(x, bias, ptr, key, probability)
        ctx.save_for_backward(out, ptr, None if key is None else probability)
        return cast(Tensor, out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_bias = activate_backward(grad, *ctx.saved_tensors)
        return grad_x, grad_bias if ctx.needs_input_grad[1] else None, None, None, None


def dropout(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    """Set values to zero with each replica's probability p, and scale the others by 1 / (1 − p).

    Args:
        x: features [N, d].
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1].
        key: the random key of each replica, int64 [R].
        probability: the dropout probability of each replica, float32 [R].

    Example:
        >>> x, ptr = torch.ones(4, 1), torch.tensor([0, 2, 4])
        >>> dropout(x, ptr, torch.tensor([7, 7]), torch.tensor([0.0, 0.5])).squeeze(1)
        tensor([1., 1., 0., 2.])
    """
    return cast(Tensor, _Drop.apply(x, ptr, key, probability))


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    """Add each replica's bias and apply ReLU and :func:`dropout` in one pass.

    Args:
        x: features [N, d].
        bias: the bias of each replica [R, d], or None.
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1].
        key: the random key of each replica, int64 [R]; None for no dropout.
        probability: the dropout probability of each replica, float32 [R].

    Example:
        >>> x, ptr = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1, 2])
        >>> activate(x, torch.tensor([[0.5], [2.0]]), ptr, None, torch.zeros(2))
        tensor([[0.],
                [3.]])
    """
    return cast(Tensor, _Activate.apply(x, bias, ptr, key, probability))
