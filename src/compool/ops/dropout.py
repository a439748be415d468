"""Random masks from keys: which numbers are dropped depends on a replica's key and on nothing else in the batch."""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.ops._library import operator

_fold = operator(
    "fold_key(Tensor key, Tensor? number, SymInt plus) -> Tensor",
    lambda key, number, plus: key.new_empty(
        key.shape if number is None else torch.broadcast_shapes(key.shape, number.shape)
    ),
)
_drop = operator(
    "drop(Tensor x, Tensor ptr, Tensor key, Tensor probability) -> Tensor",
    lambda x, *rest: x.new_empty(x.shape),
)
_activate = operator(
    "activate(Tensor x, Tensor? bias, Tensor ptr, Tensor? key, Tensor probability) -> Tensor",
    lambda x, *rest: x.new_empty(x.shape),
)
activate_backward = operator(
    "activate_backward(Tensor grad, Tensor out, Tensor ptr, Tensor? probability) -> (Tensor, Tensor)",
    lambda grad, out, ptr, probability: (grad.new_empty(grad.shape), grad.new_empty(ptr.size(0) - 1, grad.size(1))),
)


def fold(key: Tensor, number: int | Tensor) -> Tensor:
    """Keys for the `number`-th use of each key: as good as new ones, and always the same.

    Example:
        >>> key = torch.tensor([1, 2])
        >>> fold(key, 0).tolist() == fold(key, 0).tolist() != fold(key, 1).tolist()
        True
    """
    given = (number, 0) if isinstance(number, Tensor) else (None, number)
    return cast(Tensor, _fold(key, *given))


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *how: Tensor) -> Tensor:
        ctx.save_for_backward(*how)
        return cast(Tensor, _drop(x, *how))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _drop(grad, *ctx.saved_tensors), None, None, None  # the same mask again, not stored


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
    """Set numbers to zero with a replica's probability p; the others grow by 1 / (1 − p).

    Args:
        x: features [N, d].
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1].
        key: the random key of each replica, int64 [R].
        probability: of each replica [R], float32.

    Example:
        >>> x, ptr = torch.ones(4, 1), torch.tensor([0, 2, 4])
        >>> dropout(x, ptr, torch.tensor([7, 7]), torch.tensor([0.0, 0.5])).squeeze(1)
        tensor([1., 1., 0., 2.])
    """
    return cast(Tensor, _Drop.apply(x, ptr, key, probability))


def drop_pairs(raw: Tensor, edge_index: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    """Dropout of numbers on edges [E] that treats (i, j) and (j, i) alike.

    Args:
        raw: a number an edge [E].
        edge_index: edges [2, E].
        key: the random key of each edge, int64 [E] or [1].
        probability: of each edge, float32 [E] or [1].

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> drop_pairs(torch.ones(4), edge_index, torch.tensor([4]), torch.tensor([0.5]))
        tensor([2., 0., 2., 0.])
    """
    bits = fold(fold(key, edge_index.amin(0).long()), edge_index.amax(0).long())
    kept = ((bits >> 40) & 0xFFFFFF).float() * 2.0**-24 >= probability
    return raw * (kept / (1 - probability.to(raw.dtype)))


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    """Add each replica's bias, then ReLU, then :func:`dropout`, in one pass; without a key, no dropout.

    Args:
        x: features [N, d].
        bias: [R, d], or None.
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1].
        key: the random key of each replica, int64 [R], or None.
        probability: of each replica [R], float32.

    Example:
        >>> x, ptr = torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 1, 2])
        >>> activate(x, torch.tensor([[0.5], [2.0]]), ptr, None, torch.zeros(2))
        tensor([[0.],
                [3.]])
    """
    return cast(Tensor, _Activate.apply(x, bias, ptr, key, probability))
