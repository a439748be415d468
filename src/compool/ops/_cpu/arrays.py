"""Tensors as the arrays that loops take."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def ready(t: Tensor) -> Tensor:
    """Contiguous and in the precision that the loops compute in."""
    return t.contiguous() if t.dtype in (torch.float32, torch.float64) else t.float().contiguous()


def empty_like(t: Tensor, rows: int) -> Tensor:
    """An uninitialised tensor with the dtype and columns of `t`.

    Allocated by numpy, which asks for huge pages: page faults took half the time of a large batch without.
    """
    return torch.from_numpy(np.empty((rows, *t.shape[1:]), t.numpy().dtype))


def ends_of(edge_index: Tensor) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The sources and the targets of edges."""
    edges = edge_index.contiguous().numpy()
    return edges[0], edges[1]


def descending(values: Tensor) -> NDArray[np.int64]:
    """The order of the values, highest first; of equal ones, the first first."""
    if values.dtype != torch.float32:
        return torch.argsort(values, descending=True, stable=True).numpy()
    # float32: rank and index in one integer, as numpy sorts those five times as fast as torch sorts with an index
    bits = (values + 0.0).numpy().view(np.int32).astype(np.int64)  # + 0.0: −0 and 0 are equal
    rank = np.where(bits < 0, bits & 0x7FFFFFFF, -1 - bits)
    return np.sort((rank << 32) | np.arange(len(rank))) & 0xFFFFFFFF
