"""The steps one by one. Every function is equivalent to its namesake in `_torch`."""

import numpy as np
import torch
from torch import Tensor

from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._cpu import loops
from compool.ops._cpu.arrays import empty_like, ends_of, ready
from compool.ops._cpu.sort import descending


def node_ends(x: Tensor, halves: Tensor) -> Tensor:
    ends = halves.new_empty(halves.size(0), x.size(0))
    loops.node_ends(ready(x).numpy(), halves.contiguous().numpy(), ends.numpy())
    return ends


def node_ends_backward(grad: Tensor, x: Tensor, halves: Tensor, grad_x: Tensor) -> Tensor:
    total, grad_halves = ready(grad_x), torch.zeros_like(halves, memory_format=torch.contiguous_format)
    given = (grad.contiguous(), ready(x), halves.contiguous(), total, grad_halves)
    loops.node_ends_backward(*(t.numpy() for t in given))
    if total is not grad_x:
        grad_x.copy_(total)
    return grad_halves


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    check_range(edge_index, ends.size(1))
    out = ends.new_empty(edge_index.size(1))
    loops.score(ends.contiguous().numpy(), *ends_of(edge_index), bias.numpy(), out.numpy())
    return out


def sum_ends(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    ends = values.new_zeros(2, num_nodes)
    loops.sum_ends(values.contiguous().numpy(), *ends_of(edge_index), ends.numpy())
    return ends


def select(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None
) -> tuple[Tensor, Tensor]:
    check_range(edge_index, num_nodes)
    check_graphs(batch, edge_index)
    counted = edge_index.new_empty(edge_index.size(1), dtype=torch.bool)
    merged = torch.empty_like(counted)
    source, target = ends_of(edge_index)
    if not loops.distinct_sorted(source, target, counted.numpy()):
        order = np.empty(source.size, np.int64)
        start, seen = np.zeros(num_nodes + 1, np.int64), np.zeros(num_nodes, np.int64)
        loops.distinct(source, target, start, order, seen, counted.numpy())
    score = edge_score.contiguous().numpy()
    if loops.select(score, score.dtype.type(threshold), counted.numpy(), merged.numpy()):
        raise nan_score(edge_score)
    return merged, counted


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    cluster, first = edge_index.new_empty(2, num_nodes, dtype=torch.long)
    alone = edge_index.new_empty(num_nodes, dtype=torch.bool)
    parent = np.empty(num_nodes, np.int32 if num_nodes < 2**31 else np.int64)
    args = (merged.contiguous().numpy(), parent, cluster.numpy(), first.numpy(), alone.numpy())
    num_clusters = loops.components(*ends_of(edge_index), *args)
    return cluster, first[:num_clusters].clone(), alone


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    source, target = ends_of(edge_index)
    start, seen = np.zeros(num_clusters + 1, np.int64), np.zeros(num_clusters, np.int64)
    row, length = np.empty(source.size, source.dtype), np.empty(num_clusters, np.int64)
    flags = (self_loops, input_loops)
    total = loops.connect_rows(source, target, cluster.numpy(), *flags, start, row, seen, length)
    out = edge_index.new_empty(2, total)
    loops.connect_fill(start, row, length, out.numpy())
    return out


def row_sum(
    x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor, num_rows: int, alone: Tensor | None
) -> Tensor:
    rows = ready(x)
    out = empty_like(rows, num_rows).zero_()
    args = (rows.numpy(), weight.contiguous().numpy())
    if source is None:
        loops.row_sum(*args, target.contiguous().numpy(), out.numpy())
    else:
        loops.gathered_row_sum(*args, source.contiguous().numpy(), target.contiguous().numpy(), out.numpy())
    return out


def row_sum_backward(
    grad: Tensor, x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    rows = ready(x)
    grad_x, grad_weight = empty_like(rows, x.size(0)), torch.empty_like(weight)
    args = (ready(grad).numpy(), rows.numpy(), weight.contiguous().numpy())
    if source is None:
        loops.row_sum_backward(*args, target.contiguous().numpy(), grad_x.numpy(), grad_weight.numpy())
    else:
        ends = (source.contiguous().numpy(), target.contiguous().numpy())
        loops.gathered_row_sum_backward(*args, *ends, grad_x.zero_().numpy(), grad_weight.numpy())
    return grad_x.to(x.dtype), grad_weight


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    check_range(edge_index, num_nodes)
    order = descending(edge_score.contiguous())
    cluster = edge_index.new_full((num_nodes,), -1, dtype=torch.long)
    first, chosen = edge_index.new_empty(2, num_nodes, dtype=torch.long)
    args = (order, *ends_of(edge_index), cluster.numpy(), chosen.numpy(), first.numpy())
    num_contracted, num_clusters = loops.contract(*args)
    return cluster, chosen[:num_contracted].clone(), first[:num_clusters].clone()


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    rows = ready(x)
    out = empty_like(rows, supernode_score.size(0))
    seen = np.zeros(out.size(0), np.uint8)
    loops.merge_pairs(rows.numpy(), supernode_score.contiguous().numpy(), cluster.numpy(), seen, out.numpy())
    return out.to(x.dtype)


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    rows = ready(x)
    grad_x, grad_score = empty_like(rows, x.size(0)), torch.zeros_like(supernode_score)
    args = (ready(grad), rows, supernode_score.contiguous(), cluster, grad_x, grad_score)
    loops.merge_pairs_backward(*(t.numpy() for t in args))
    return grad_x.to(x.dtype), grad_score
