"""Tensors as numpy arrays for the loops."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def ready(t: Tensor) -> Tensor:
    """The tensor, contiguous and in a precision that the loops support: float32 or float64."""
    return t.contiguous() if t.dtype in (torch.float32, torch.float64) else t.float().contiguous()


def empty_like(t: Tensor, rows: int) -> Tensor:
    """An uninitialised tensor with this many rows and the dtype and columns of `t`.

    Allocated by numpy, which requests huge pages: without them, page faults took half the time of a large batch.
    """
    return torch.from_numpy(np.empty((rows, *t.shape[1:]), t.numpy().dtype))


def ends_of(edge_index: Tensor) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """The sources and the targets of edges."""
    edges = edge_index.contiguous().numpy()
    return edges[0], edges[1]
