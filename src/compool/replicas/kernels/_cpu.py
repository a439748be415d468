"""The operations of stacked layers on the CPU, with numba."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._cpu.arrays import empty_like, ends_of, ready
from compool.replicas.kernels import _cpu_loops as loops
from compool.replicas.kernels import _torch
from compool.replicas.kernels.unions import checked_capacity


def _rows(like: Tensor, num_rows: int, ptr: Tensor) -> Tensor:
    """An uninitialised tensor for rows of segments; rows outside of all segments are zero."""
    out = empty_like(like, num_rows)
    out[int(ptr[-1]) :].zero_()
    return out


def gather_graphs(
    graph_ids: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: int, edges: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, edges = checked_capacity(graph_ids, node_ptr, edge_ptr, nodes, edges)
    graph_ptr = torch.empty(graph_ids.size(0) + 1, dtype=torch.long)
    node, rows = empty_like(node_ptr, nodes), empty_like(node_ptr, nodes + 1)
    out = torch.from_numpy(np.zeros((2, edges), edge_index.numpy().dtype))
    arrays = (graph_ids.contiguous(), node_ptr, edge_ptr, row_ptr, edge_index, graph_ptr, node, rows, out)
    loops.gather_graphs(*(t.numpy() for t in arrays))
    return graph_ptr, node, rows, out


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    rows = ready(x)
    out = empty_like(rows, ptr.size(0) - 1)
    loops.segment_sum(rows.numpy(), ptr.numpy(), out.numpy())
    return out.to(x.dtype)


def segment_repeat(x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    rows = ready(x)
    out = _rows(rows, num_rows, ptr)
    loops.segment_repeat(rows.numpy(), ptr.numpy(), out.numpy())
    return out.to(x.dtype)


def segment_norm(
    x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    rows = ready(x)
    out = _rows(rows, x.size(0), ptr)
    mean, variance = (empty_like(rows, ptr.size(0) - 1) for _ in range(2))
    args = (rows, ready(weight), ready(bias), ptr, out, mean, variance)
    loops.segment_norm(*(t.numpy() for t in args), eps, relu)
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
    rows = ready(x)
    grad_x = _rows(rows, x.size(0), ptr)
    grad_weight, grad_bias = (empty_like(rows, ptr.size(0) - 1) for _ in range(2))
    args = (
        ready(grad),
        rows,
        *(ready(t) for t in (out, weight, mean, variance)),
        ptr,
        grad_x,
        grad_weight,
        grad_bias,
    )
    loops.segment_norm_backward(*(t.numpy() for t in args), eps, relu)
    return grad_x.to(x.dtype), grad_weight.to(x.dtype), grad_bias.to(x.dtype)


def propagate(
    x: Tensor, row_ptr: Tensor, neighbour: Tensor, left: Tensor | None, right: Tensor | None, own: Tensor | None
) -> Tensor:
    rows = ready(x)
    out = empty_like(rows, x.size(0))
    ones = rows.new_ones(1)  # a factor of length 1 applies to all nodes
    factors = [ones if left is None else left, ones if right is None else right, 0 * ones if own is None else own]
    args = (rows, row_ptr, neighbour, *(factor.contiguous() for factor in factors), out)
    loops.propagate(*(t.numpy() for t in args))
    return out.to(x.dtype)


def drop(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    rows = ready(x)
    out = _rows(rows, x.size(0), ptr)
    loops.drop(rows.numpy(), ptr.numpy(), _halves(key), probability.numpy(), out.numpy())
    return out.to(x.dtype)


def _halves(key: Tensor) -> NDArray[np.uint32]:
    return key.contiguous().numpy().view(np.uint32).reshape(-1, 2)


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    rows = ready(x)
    out = _rows(rows, x.size(0), ptr)
    shift = rows.new_zeros(1, x.size(1)) if bias is None else ready(bias)
    if key is None:
        loops.activate(rows.numpy(), shift.numpy(), ptr.numpy(), out.numpy())
    else:
        args = (rows, shift, ptr, probability, out)
        loops.activate_and_drop(*(t.numpy() for t in args), _halves(key))
    return out.to(x.dtype)


def activate_backward(grad: Tensor, out: Tensor, ptr: Tensor, probability: Tensor | None) -> tuple[Tensor, Tensor]:
    rows = ready(grad)
    grad_x, grad_bias = _rows(rows, grad.size(0), ptr), empty_like(rows, ptr.size(0) - 1)
    drop = rows.new_zeros(1) if probability is None else probability
    loops.activate_backward(*(t.numpy() for t in (rows, ready(out), ptr, drop, grad_x, grad_bias)))
    return grad_x.to(grad.dtype), grad_bias.to(grad.dtype)


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    rows = ready(ends)
    share = rows.new_zeros(edge_index.size(1))
    largest, total = (np.empty(ends.size(1), share.numpy().dtype) for _ in range(2))
    loops.softmax_ends(rows.numpy(), *ends_of(edge_index), row_ptr.numpy(), largest, total, share.numpy())
    return share.to(ends.dtype)


def softmax_ends_backward(grad: Tensor, share: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    rows = ready(grad)
    out, into = (rows.new_zeros(row_ptr.size(0) - 1) for _ in range(2))
    args = (rows.numpy(), ready(share).numpy(), *ends_of(edge_index), row_ptr.numpy())
    loops.softmax_ends_backward(*args, into.numpy(), out.numpy())
    return out.to(grad.dtype)


KERNELS = _torch.KERNELS._replace(
    gather_graphs=gather_graphs,
    segment_sum=segment_sum,
    segment_repeat=segment_repeat,
    segment_norm=segment_norm,
    segment_norm_backward=segment_norm_backward,
    propagate=propagate,
    drop=drop,
    activate=activate,
    activate_backward=activate_backward,
    softmax_ends=softmax_ends,
    softmax_ends_backward=softmax_ends_backward,
)
