"""Kernels as operators of the torch library `compool`: one table of kernels per device type.

Registered operators can be traced: `torch.compile` and `torch.export` know their shapes and treat them as opaque calls.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

_LIBRARY = torch.library.Library("compool", "DEF")
_HAS_TRITON = find_spec("triton") is not None

# COMPOOL_KERNELS=torch runs plain torch operations on every device, for comparison or to rule out a kernel bug.
only_torch = os.environ.get("COMPOOL_KERNELS") == "torch"


class Kernels(NamedTuple):
    """The functions that compute the operator's steps on one device type. Each takes and returns tensors."""

    node_ends: Callable[..., Tensor]
    node_ends_backward: Callable[..., Tensor]
    score: Callable[..., Tensor]
    sum_ends: Callable[..., Tensor]
    select: Callable[..., tuple[Tensor, Tensor]]
    components: Callable[..., tuple[Tensor, Tensor, Tensor]]
    connect: Callable[..., Tensor]
    coarsen: Callable[..., tuple[Tensor, ...]]
    row_sum: Callable[..., Tensor]
    row_sum_backward: Callable[..., tuple[Tensor, Tensor]]
    top: Callable[..., Tensor]
    ratio: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
    forest: Callable[..., Tensor]
    capped_forest: Callable[..., Tensor]
    contract: Callable[..., tuple[Tensor, Tensor, Tensor]]
    edge_distance: Callable[..., Tensor]
    edge_distance_backward: Callable[..., Tensor]
    edge_moments: Callable[..., Tensor]
    observe: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]
    merge_tree: Callable[..., tuple[Tensor, Tensor]]
    graded_share: Callable[..., Tensor]
    graded_share_backward: Callable[..., Tensor]
    merge_pairs: Callable[..., Tensor]
    merge_pairs_backward: Callable[..., tuple[Tensor, Tensor]]
    fold_key: Callable[..., Tensor]
    pool: Callable[..., tuple[Tensor, ...]] | None = None
    """All steps in one; None if the device runs them one by one."""
    pool_backward: Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]] | None = None


def is_transformed() -> bool:
    """Whether a transform of `torch.func` is active: its tensors hold no data that a kernel could read."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def has_kernels(tensor: Tensor) -> bool:
    """Whether the device of `tensor` has kernels beyond plain torch operations."""
    return not only_torch and (tensor.device.type == "cpu" or (tensor.device.type == "cuda" and _HAS_TRITON))


def kernels_for(tensor: Tensor) -> Kernels:
    """The kernels for the device of `tensor`; their modules are imported on first use."""
    if not has_kernels(tensor):
        from compool.ops._torch import KERNELS
    elif tensor.is_cuda:
        from compool.ops._cuda import KERNELS
    else:
        from compool.ops._cpu import KERNELS
    return KERNELS


def operator(
    schema: str,
    shape: Callable[..., Any],
    kernel: Callable[[Any], Callable[..., Any] | None],
    tables: Callable[[Tensor], Any] = kernels_for,
) -> Callable[..., Any]:
    """Register an operator.

    Args:
        schema: the operator's name, arguments and results.
        shape: returns empty tensors of the operator's output shapes.
        kernel: takes the operator's kernel from the table of a device.
        tables: returns the table for the device of a tensor.
    """
    name = schema.partition("(")[0]

    def run(*args: Any) -> Any:
        # Detached, because numpy does not accept tensors that require gradients
        detached = (arg.detach() if isinstance(arg, Tensor) and arg.requires_grad else arg for arg in args)
        with _undisturbed(args[0]):
            return kernel(tables(args[0]))(*detached)  # type: ignore[misc]

    def call(*args: Any) -> Any:
        """Call the operator when tracing, else the kernel directly: the dispatcher takes 25 µs to call Python."""
        traced = torch.compiler.is_compiling() or type(args[0]) not in (Tensor, torch.nn.Parameter) or is_transformed()
        return overload(*args) if traced else run(*args)

    _LIBRARY.define(schema)
    _LIBRARY.impl(name, _disable_dynamo(run), "CompositeExplicitAutograd")  # or it would trace the kernels
    torch.library.register_fake(f"compool::{name}", shape, lib=_LIBRARY)
    overload: Callable[..., Any] = getattr(torch.ops.compool, name).default
    return call


def _undisturbed(tensor: Tensor) -> AbstractContextManager[Any]:
    """A context without autocast, in which the GPU of `tensor` is the current device, on which kernels run."""
    kind = tensor.device.type
    cast = torch.is_autocast_enabled(kind)
    moved = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    if not cast and not moved:  # the usual case: entering contexts takes longer than these checks
        return nullcontext()
    stack = ExitStack()
    if cast:
        stack.enter_context(torch.autocast(kind, enabled=False))
    if moved:
        stack.enter_context(torch.cuda.device(tensor.device))
    return stack


def unknown_size(least: int = 0) -> Any:
    """A size that is only known after the kernel has run, for `shape` functions."""
    return torch.library.get_ctx().new_dynamic_size(min=least)
