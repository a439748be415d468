"""Higher derivatives. Kernels compute outputs and first derivatives; for higher ones, autograd differentiates the same
step in plain torch operations.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def wants_graph() -> bool:
    """Whether the current backward pass must itself be differentiable (``create_graph=True``)."""
    return torch.is_grad_enabled() and not torch.compiler.is_compiling()


def gradients(
    function: Callable[..., tuple[Tensor, ...]], inputs: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs of `function`, given the gradients of its outputs; they are differentiable, too.

    Args:
        function: plain torch operations, from the inputs to a tuple of outputs.
        inputs: tensors of floats.
        grads: the gradient of each output; None means zero.
    """
    inputs = [tensor.view_as(tensor) for tensor in inputs]  # one input may depend on another; views cut these paths
    outputs = function(*inputs)
    pairs = [(output, grad) for output, grad in zip(outputs, grads, strict=True) if grad is not None]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if not pairs or not wanted:
        return (None,) * len(inputs)
    targets, given = zip(*pairs, strict=True)
    computed = iter(torch.autograd.grad(targets, wanted, given, create_graph=True, allow_unused=True))
    return tuple(next(computed) if tensor.requires_grad else None for tensor in inputs)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward pass to raise an error with ``create_graph=True``.

    With torch's decorator of the same name, `torch.autograd.grad` treats the second derivative as zero.
    """

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if wants_graph():
            raise RuntimeError(
                "the layers of compool.replicas have first derivatives only, but create_graph=True needs second "
                "derivatives; the layers of compool.nn have both"
            )
        return backward(ctx, *grads)

    return checked
