"""Kernels as operators of the torch library `compool`: one name, one kernel module a device.

Registered operators can be traced: `torch.compile` and `torch.export` see their shapes and call them as they are.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import torch
from torch import Tensor
from torch._compile import _disable_dynamo

from compool.ops._autograd import is_transformed

_LIBRARY = torch.library.Library("compool", "DEF")

# COMPOOL_KERNELS=torch runs the plain torch operations on every device, to compare or to rule a kernel out.
only_torch = os.environ.get("COMPOOL_KERNELS") == "torch"


PLAIN = ("_torch", "_torch_layers", "_torch_budget")
_NUMBA = ("_numba", "_numba_layers", "_numba_budget")
_TRITON = ("_triton", "_triton_merge", "_triton_padded", "_triton_layers")
KERNELS = {"cpu": _NUMBA, "cuda": _TRITON if find_spec("triton") else ()}


@cache
def _find(name: str, device: str) -> Callable[..., Any]:
    """The first module that has the kernel; modules are imported when the first kernel of their device runs."""
    for module in (*KERNELS.get(device, ()), *PLAIN):
        found = getattr(import_module(f"compool.ops.{module}"), name, None)
        if found is not None:
            return cast(Callable[..., Any], found)
    raise AttributeError(f"no module has a kernel {name}")


def kernel(name: str, tensor: Tensor) -> Callable[..., Any]:
    """The kernel for where `tensor` lives, or the plain one."""
    return _find(name, "plain" if only_torch else tensor.device.type)


def _current(tensor: Tensor) -> AbstractContextManager[Any]:
    """Make the GPU where `tensor` lives the current one, where it is another: kernels run on the current one."""
    elsewhere = tensor.is_cuda and tensor.get_device() != torch.cuda.current_device()
    return torch.cuda.device(tensor.device) if elsewhere else nullcontext()


def operator(schema: str, shape: Callable[..., Any]) -> Callable[..., Any]:
    """Register the kernel that `schema` names; `shape` returns empty tensors of the shapes it would return."""
    name = schema.partition("(")[0]

    def run(*args: Any) -> Any:
        detached = (arg.detach() if isinstance(arg, Tensor) and arg.requires_grad else arg for arg in args)
        with _current(args[0]):
            return kernel(name, args[0])(*detached)  # detached, as numpy wants no gradients

    def call(*args: Any) -> Any:
        """The operator when something traces, else the kernel at once: the dispatcher takes 25 µs to call Python."""
        traced = torch.compiler.is_compiling() or type(args[0]) not in (Tensor, torch.nn.Parameter) or is_transformed()
        return overload(*args) if traced else run(*args)

    _LIBRARY.define(schema)
    _LIBRARY.impl(name, _disable_dynamo(run), "CompositeExplicitAutograd")  # or it would trace the kernels
    torch.library.register_fake(f"compool::{name}", shape, lib=_LIBRARY)
    overload: Callable[..., Any] = getattr(torch.ops.compool, name).default
    return call


def unknown_size(least: int = 0) -> Any:
    """A size that only running the kernel tells, for `shape` functions."""
    return torch.library.get_ctx().new_dynamic_size(min=least)
