"""Kernels as operators of the torch library `compool`: one name, one kernel module a device.

Registered operators can be traced: `torch.compile` and `torch.export` see their shapes and call them as they are.
"""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("compool", "DEF")

# COMPOOL_KERNELS=torch runs the plain torch operations on every device, to compare or to rule a kernel out.
only_torch = os.environ.get("COMPOOL_KERNELS") == "torch"


def _kernel(name: str, tensor: Tensor) -> Callable[..., Any]:
    """The kernel for where `tensor` lives; numba is imported when the first CPU kernel runs."""
    from compool.ops import _torch

    modules: list[ModuleType] = [_torch]
    if tensor.is_cpu and not only_torch:
        from compool.ops import _numba

        modules.insert(0, _numba)
    found: Callable[..., Any] = next(getattr(module, name) for module in modules if hasattr(module, name))
    return found


def operator(schema: str, shape: Callable[..., Any]) -> Callable[..., Any]:
    """Register the kernel that `schema` names; `shape` returns empty tensors of the shapes it would return."""
    name = schema.partition("(")[0]

    def run(*args: Any) -> Any:
        detached = (arg.detach() if isinstance(arg, Tensor) else arg for arg in args)  # numpy wants no gradients
        return _kernel(name, args[0])(*detached)

    _LIBRARY.define(schema)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"compool::{name}", shape, lib=_LIBRARY)
    overload: Callable[..., Any] = getattr(torch.ops.compool, name).default
    return overload


def unknown_size(least: int = 0) -> Any:
    """A size that only running the kernel tells, for `shape` functions."""
    return torch.library.get_ctx().new_dynamic_size(min=least)
