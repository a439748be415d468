"""CPU kernels of replicas' layers with numba: see `_numba`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops import _numba_layer_kernels as kernels
from compool.ops._numba import _empty_like, _ready
from compool.ops.gather import checked_room


def _rows(like: Tensor, number: int, ptr: Tensor) -> Tensor:
    """Room for rows of segments; those of none are zeros."""
    out = _empty_like(like, number)
    out[int(ptr[-1]) :].zero_()
    return out


def gather_graphs(
    which: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: int, edges: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, edges = checked_room(which, node_ptr, edge_ptr, nodes, edges)
    graph_ptr = torch.empty(which.size(0) + 1, dtype=torch.long)
    node, rows = _empty_like(node_ptr, nodes), _empty_like(node_ptr, nodes + 1)
    out = torch.from_numpy(np.zeros((2, edges), edge_index.numpy().dtype))
    given = (which.contiguous(), node_ptr, edge_ptr, row_ptr, edge_index, graph_ptr, node, rows, out)
    kernels.gather_graphs(*(t.numpy() for t in given))
    return graph_ptr, node, rows, out


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    ready = _ready(x)
    out = _empty_like(ready, ptr.size(0) - 1)
    kernels.segment_sum(ready.numpy(), ptr.numpy(), out.numpy())
    return out.to(x.dtype)


def segment_repeat(x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    ready = _ready(x)
    out = _rows(ready, num_rows, ptr)
    kernels.segment_repeat(ready.numpy(), ptr.numpy(), out.numpy())
    return out.to(x.dtype)


def segment_norm(
    x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    ready = _ready(x)
    out = _rows(ready, x.size(0), ptr)
    mean, variance = (_empty_like(ready, ptr.size(0) - 1) for _ in range(2))
    args = (ready, _ready(weight), _ready(bias), ptr, out, mean, variance)
    kernels.segment_norm(*(t.numpy() for t in args), eps, relu)
    return out.to(x.dtype), mean.to(x.dtype), variance.to(x.dtype)


def segment_norm_backward(
    grad: Tensor,
    x: Tensor,
    out: Tensor,
    weight: Tensor,
    mean: Tensor,
    variance: Tensor,
    ptr: Tensor,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    ready = _ready(x)
    grad_x = _rows(ready, x.size(0), ptr)
    grad_weight, grad_bias = (_empty_like(ready, ptr.size(0) - 1) for _ in range(2))
    args = (
        _ready(grad),
        ready,
        *(_ready(t) for t in (out, weight, mean, variance)),
        ptr,
        grad_x,
        grad_weight,
        grad_bias,
    )
    kernels.segment_norm_backward(*(t.numpy() for t in args), eps, relu)
    return grad_x.to(x.dtype), grad_weight.to(x.dtype), grad_bias.to(x.dtype)


def propagate(
    x: Tensor, row_ptr: Tensor, neighbour: Tensor, left: Tensor | None, right: Tensor | None, own: Tensor | None
) -> Tensor:
    ready = _ready(x)
    out = _empty_like(ready, x.size(0))
    one = ready.new_ones(1)  # a factor of one row is the same for all
    factors = [one if left is None else left, one if right is None else right, 0 * one if own is None else own]
    args = (ready, row_ptr, neighbour, *(factor.contiguous() for factor in factors), out)
    kernels.propagate(*(t.numpy() for t in args))
    return out.to(x.dtype)


def drop(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    ready = _ready(x)
    out = _rows(ready, x.size(0), ptr)
    kernels.drop(ready.numpy(), ptr.numpy(), _halves(key), probability.numpy(), out.numpy())
    return out.to(x.dtype)


def _halves(key: Tensor) -> NDArray[np.uint32]:
    return key.contiguous().numpy().view(np.uint32).reshape(-1, 2)


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    ready = _ready(x)
    out = _rows(ready, x.size(0), ptr)
    shift = ready.new_zeros(1, x.size(1)) if bias is None else _ready(bias)
    if key is None:
        kernels.activate(ready.numpy(), shift.numpy(), ptr.numpy(), out.numpy())
    else:
        args = (ready, shift, ptr, probability, out)
        kernels.activate_and_drop(*(t.numpy() for t in args), _halves(key))
    return out.to(x.dtype)


def activate_backward(grad: Tensor, out: Tensor, ptr: Tensor, probability: Tensor | None) -> tuple[Tensor, Tensor]:
    ready = _ready(grad)
    grad_x, grad_bias = _rows(ready, grad.size(0), ptr), _empty_like(ready, ptr.size(0) - 1)
    drop = ready.new_zeros(1) if probability is None else probability
    kernels.activate_backward(*(t.numpy() for t in (ready, _ready(out), ptr, drop, grad_x, grad_bias)))
    return grad_x.to(grad.dtype), grad_bias.to(grad.dtype)
