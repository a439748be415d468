"""The tables of the kernels that train replicas: see `compool.ops._dispatch`."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from torch import Tensor

from compool.ops import _dispatch


class ReplicaKernels(NamedTuple):
    """The functions that compute stacked layers on one device type."""

    gather_graphs: Callable[..., tuple[Tensor, ...]]
    grouped_linear: Callable[..., Tensor]
    linear_activate: Callable[..., Tensor]
    grouped_outer: Callable[..., tuple[Tensor, Tensor]]
    segment_sum: Callable[..., Tensor]
    segment_repeat: Callable[..., Tensor]
    segment_norm: Callable[..., tuple[Tensor, ...]]
    segment_norm_backward: Callable[..., tuple[Tensor, ...]]
    propagate: Callable[..., Tensor]
    drop: Callable[..., Tensor]
    activate: Callable[..., Tensor]
    activate_backward: Callable[..., tuple[Tensor, Tensor]]
    softmax_ends: Callable[..., Tensor]
    softmax_ends_backward: Callable[..., Tensor]
    coarsen_padded: Callable[..., tuple[Tensor, ...]]
    forest_padded: Callable[..., Tensor]
    contract_padded: Callable[..., tuple[Tensor, ...]]


def kernels_for(tensor: Tensor) -> ReplicaKernels:
    """The kernels for the device of `tensor`; their modules are imported on first use."""
    if not _dispatch.has_kernels(tensor):
        from compool.replicas.kernels._torch import KERNELS
    elif tensor.is_cuda:
        from compool.replicas.kernels._cuda import KERNELS
    else:
        from compool.replicas.kernels._cpu import KERNELS
    return KERNELS


operator = partial(_dispatch.operator, tables=kernels_for)
