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
