"""CPU kernels with numba: what `_torch` computes, in a pass or two over the data.

Every function takes and returns tensors and equals its namesake in `_torch`. The loops compile when first used and are
cached on disk. Half precision is computed in float32 and rounded once, at the end.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops import _numba_kernels as kernels
from compool.ops._checks import check_range, nan_score


def _ready(t: Tensor) -> Tensor:
    """Contiguous and in the precision that the kernels compute in."""
    return t.contiguous() if t.dtype in (torch.float32, torch.float64) else t.float().contiguous()


def _empty_like(t: Tensor, rows: int) -> Tensor:
    """An uninitialised tensor with the dtype and columns of `t`.

    Allocated by numpy, which asks for huge pages: page faults took half the time of a large batch without.
    """
    return torch.from_numpy(np.empty((rows, *t.shape[1:]), t.numpy().dtype))


def _ends(edge_index: Tensor) -> tuple[np.ndarray, np.ndarray]:
    edges = edge_index.contiguous().numpy()
    return edges[0], edges[1]


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    check_range(edge_index, ends.size(1))
    out = ends.new_empty(edge_index.size(1))
    kernels.score(ends.contiguous().numpy(), *_ends(edge_index), bias.numpy(), out.numpy())
    return out


def score_backward(grad: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    ends = grad.new_zeros(2, num_nodes)
    kernels.score_backward(grad.contiguous().numpy(), *_ends(edge_index), ends.numpy())
    return ends


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    ready = _ready(ends)
    share = ready.new_zeros(edge_index.size(1))
    most, total = (np.empty(ends.size(1), share.numpy().dtype) for _ in range(2))
    kernels.softmax_ends(ready.numpy(), *_ends(edge_index), row_ptr.numpy(), most, total, share.numpy())
    return share.to(ends.dtype)


def softmax_ends_backward(grad: Tensor, share: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    ready = _ready(grad)
    out, into = (ready.new_zeros(row_ptr.size(0) - 1) for _ in range(2))
    args = (ready.numpy(), _ready(share).numpy(), *_ends(edge_index), row_ptr.numpy())
    kernels.softmax_ends_backward(*args, into.numpy(), out.numpy())
    return out.to(grad.dtype)


def select(edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float) -> tuple[Tensor, Tensor]:
    counted = torch.empty(edge_index.size(1), dtype=torch.bool)
    merged = torch.empty_like(counted)
    source, target = _ends(edge_index)
    if not kernels.distinct_sorted(source, target, counted.numpy()):
        order = np.empty(source.size, np.int64)
        start, seen = np.zeros(num_nodes + 1, np.int64), np.zeros(num_nodes, np.int64)
        kernels.distinct(source, target, start, order, seen, counted.numpy())
    score = edge_score.contiguous().numpy()
    if kernels.select(score, score.dtype.type(threshold), counted.numpy(), merged.numpy()):
        raise nan_score(edge_score)
    return merged, counted


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    cluster, first = torch.empty(2, num_nodes, dtype=torch.long)
    alone = torch.empty(num_nodes, dtype=torch.bool)
    parent = np.empty(num_nodes, np.int32 if num_nodes < 2**31 else np.int64)
    args = (merged.contiguous().numpy(), parent, cluster.numpy(), first.numpy(), alone.numpy())
    number = kernels.components(*_ends(edge_index), *args)
    return cluster, first[:number].clone(), alone


def merge(
    x: Tensor, edge_score: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor, first: Tensor, alone: Tensor
) -> tuple[Tensor, Tensor]:
    ready, weight = _ready(x), edge_score.new_zeros(x.size(0))
    out = _empty_like(ready, first.size(0))
    args = (
        edge_score.contiguous(),
        edge_index[0].contiguous(),
        merged.contiguous(),
        cluster,
        first,
        alone,
        weight,
        out,
    )
    kernels.merge(ready.numpy(), *(t.numpy() for t in args))
    return out, weight


def merge_backward(
    grad: Tensor, x: Tensor, weight: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor
) -> tuple[Tensor, Tensor]:
    ready = _ready(x)
    grad_x, grad_weight = _empty_like(ready, x.size(0)), torch.empty_like(weight)
    grad_score = weight.new_empty(edge_index.size(1))
    args = (_ready(grad), ready, weight, edge_index[0].contiguous(), merged.contiguous(), cluster)
    kernels.merge_backward(*(t.numpy() for t in (*args, grad_weight, grad_x, grad_score)))
    return grad_x.to(x.dtype), grad_score


def spread(x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
    ready = _ready(x)
    out = _empty_like(ready, num_rows).zero_()
    args = (ready, weight.contiguous(), source.contiguous(), target.contiguous(), out)
    kernels.spread(*(t.numpy() for t in args))
    return out.to(x.dtype)


def spread_backward(grad: Tensor, x: Tensor, weight: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    ready = _ready(x)
    grad_x, grad_weight = _empty_like(ready, x.size(0)).zero_(), torch.empty_like(weight)
    args = (_ready(grad), ready, weight.contiguous(), source.contiguous(), target.contiguous(), grad_x, grad_weight)
    kernels.spread_backward(*(t.numpy() for t in args))
    return grad_x.to(x.dtype), grad_weight


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    order = _descending(edge_score.contiguous())
    cluster, first = torch.full((num_nodes,), -1), torch.empty(num_nodes, dtype=torch.long)
    chosen = torch.empty(num_nodes, dtype=torch.long)
    args = (order, *_ends(edge_index), cluster.numpy(), chosen.numpy(), first.numpy())
    contracted, number = kernels.contract(*args)
    return cluster, chosen[:contracted].clone(), first[:number].clone()


def _descending(values: Tensor) -> NDArray[np.int64]:
    """The order of the values, highest first; of equal ones, the first first."""
    if values.dtype != torch.float32:
        return torch.argsort(values, descending=True, stable=True).numpy()
    # float32: one number has rank and index, as numpy sorts integers five times as fast as torch sorts with an index
    bits = (values + 0.0).numpy().view(np.int32).astype(np.int64)  # + 0.0: −0 and 0 are equal
    rank = np.where(bits < 0, bits & 0x7FFFFFFF, -1 - bits)
    return np.sort((rank << 32) | np.arange(len(rank))) & 0xFFFFFFFF


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    ready = _ready(x)
    out = _empty_like(ready, supernode_score.size(0))
    seen = np.zeros(out.size(0), np.uint8)
    kernels.merge_pairs(ready.numpy(), supernode_score.contiguous().numpy(), cluster.numpy(), seen, out.numpy())
    return out.to(x.dtype)


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    ready = _ready(x)
    grad_x, grad_score = _empty_like(ready, x.size(0)), torch.zeros_like(supernode_score)
    args = (_ready(grad), ready, supernode_score.contiguous(), cluster, grad_x, grad_score)
    kernels.merge_pairs_backward(*(t.numpy() for t in args))
    return grad_x.to(x.dtype), grad_score


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    source, target = _ends(edge_index)
    start, seen = np.zeros(num_clusters + 1, np.int64), np.zeros(num_clusters, np.int64)
    row, length = np.empty(source.size, source.dtype), np.empty(num_clusters, np.int64)
    loops = (self_loops, input_loops)
    total = kernels.connect_rows(source, target, cluster.numpy(), *loops, start, row, seen, length)
    out = edge_index.new_empty(2, total)
    kernels.connect_fill(start, row, length, out.numpy())
    return out
