"""Derivatives beyond the first. Kernels compute outputs and first derivatives; where more is asked for, autograd goes
through the same step in plain torch operations.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def wants_graph() -> bool:
    """In a backward pass: whether it is to be differentiated in turn (``create_graph=True``)."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def gradients(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradient of each input, given those of the outputs of `function`; it can be differentiated again.

    Args:
        function: plain torch operations, from the inputs to a tuple of outputs.
        inputs: tensors of floats.
        grads: the gradient of each output; None: zero.
    """
    inputs = [tensor.view_as(tensor) for tensor in inputs]  # an input may depend on another: not through these
    outputs = function(*inputs)
    pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not pairs or not wanted:
        return (None,) * len(inputs)
    targets, given = zip(*pairs, strict=True)
    computed = iter(torch.autograd.grad(targets, wanted, given, create_graph=True, allow_unused=True))
    return tuple(next(computed) if tensor.requires_grad else None for tensor in inputs)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass that raises when it is asked for a graph of its own.

    torch's decorator of this name lets `torch.autograd.grad` take the second derivative for zero.
    """

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if wants_graph():
            raise RuntimeError(
                "the layers of compool.replicas have first derivatives only, but create_graph=True asks for second "
                "ones; those of compool.nn have both"
            )
        return backward(ctx, *grads)

    return checked
