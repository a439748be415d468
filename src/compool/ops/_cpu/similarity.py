"""Distances between the ends of edges, channel by channel, without a tensor [E, d]."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._checks import check_range
from compool.ops._cpu.arrays import ends_of, ready
from compool.ops._cpu.loops import fast

BLOCK = 2**17  # bytes that are read ahead at once; a core's private cache holds several such blocks


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
    check_range(edge_index, x.size(0))
    ends, distance = ends_of(edge_index), weight.new_empty(edge_index.size(1))
    _, reverse = _reversed(*ends, x.size(0))
    given = (ready(x).numpy(), *ends, reverse, weight.contiguous().numpy(), _groups(x, group))
    _distance(*given, distance.numpy())
    return distance


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None, grad_x: Tensor
) -> Tensor:
    total, grad_weight, ends = ready(grad_x), torch.zeros_like(weight), ends_of(edge_index)
    start, reverse = _reversed(*ends, x.size(0))
    given = (grad.contiguous().numpy(), ready(x).numpy(), weight.contiguous().numpy(), _groups(x, group))
    if start.size:
        _backward_by_rows(*given, start, ends[1], reverse, total.numpy(), grad_weight.numpy())
    else:
        _backward_by_edges(*given, *ends, total.numpy(), grad_weight.numpy())
    if total is not grad_x:
        grad_x.copy_(total)
    return grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    check_range(edge_index, x.size(0))
    rows, ends = ready(x), ends_of(edge_index)
    _, reverse = _reversed(*ends, x.size(0))
    sums, num_counted = rows.new_zeros(num_groups, x.size(1)), rows.new_zeros(num_groups, dtype=torch.long)
    given = (rows.numpy(), *ends, reverse, counted.contiguous().numpy(), _groups(x, group))
    _moments(*given, sums.numpy(), num_counted.numpy())
    return sums / num_counted.clamp(min=1).unsqueeze(1)


def _groups(x: Tensor, group: Tensor | None) -> NDArray[np.int64]:
    """The group of each node."""
    return np.zeros(x.size(0), np.int64) if group is None else group.long().contiguous().numpy()


def _reversed(
    source: NDArray[np.integer], target: NDArray[np.integer], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The start of each node's edges [N + 1] and the position of each edge's reverse [E], for edges that are sorted,
    distinct and in both directions. For other edges, the first is empty, and each edge is its own reverse.
    """
    start, reverse = np.zeros(num_nodes + 1, np.int64), np.empty(source.size, np.int64)
    if _find_reversed(source, target, start, np.empty(num_nodes, np.int64), reverse):
        return start, reverse
    return np.empty(0, np.int64), np.arange(source.size)


@fast
def _find_reversed(source, target, start, next_of_row, reverse):
    """Fill `start` and `reverse`; returns False unless edges are sorted, distinct and in both directions. Sources
    ascend, so the edges into a node come in the order of its own edges.
    """
    for e in range(1, source.size):
        if source[e] < source[e - 1] or (source[e] == source[e - 1] and target[e] <= target[e - 1]):
            return False
    for u in source:
        start[u + 1] += 1
    for u in range(next_of_row.size):
        start[u + 1] += start[u]
        next_of_row[u] = start[u]
    for e in range(source.size):
        u, v = source[e], target[e]
        other = next_of_row[v]
        if other == start[v + 1] or target[other] != u:
            return False
        reverse[e] = other
        next_of_row[v] += 1
    return True


@fast
def _rows_ahead(x):
    """How many rows are read ahead at once."""
    return max(1, BLOCK // max(1, x.shape[1] * x.itemsize))


@fast
def _read(x, begin, end):
    """Read rows in order, which is fast, so that the rows that edges then jump between are in the cache. Returns their
    sum, because the compiler would drop an unused result.
    """
    total = x.dtype.type(0)
    for i in range(begin, min(end, x.shape[0])):
        row = x[i]
        for c in range(row.size):
            total += row[c]
    return total


@fast
def _distance(x, source, target, reverse, weight, group, distance):
    """Both directions of an edge have the same distance, so it is computed once."""
    ahead, read, seen = _rows_ahead(x), 0, x.dtype.type(0)
    for e in range(source.size):
        if reverse[e] < e:
            continue
        if source[e] + ahead >= read:
            seen += _read(x, read, source[e] + 2 * ahead)
            read = source[e] + 2 * ahead
        row, other, factor = x[source[e]], x[target[e]], weight[group[source[e]]]
        total = weight.dtype.type(0)
        for c in range(factor.size):
            difference = row[c] - other[c]
            total += factor[c] * difference * difference
        distance[e] = total
        distance[reverse[e]] = total
    return seen


@fast
def _backward_by_rows(grad, x, weight, group, start, target, reverse, grad_x, grad_weight):
    """Let s_i be the sum over row i's edges, in both directions, of gradients times differences. Then the gradient of
    row i is 2 w s_i, and that of w is Σ x_i s_i. The s_i of a group sum to zero, so a common offset can be subtracted
    from its rows x_i.
    """
    sums, first = np.empty(x.shape[1], x.dtype), np.full(weight.shape[0], -1)
    two = x.dtype.type(2)  # an integer would make it float64
    ahead, read, seen = _rows_ahead(x), 0, x.dtype.type(0)
    for i in range(x.shape[0]):
        if i + ahead >= read:
            seen += _read(x, read, i + 2 * ahead) + _read(grad_x, i, i + ahead)
            read = i + 2 * ahead
        if start[i] == start[i + 1]:
            continue
        row = x[i]
        sums[:] = 0
        for e in range(start[i], start[i + 1]):
            other, of_pair = x[target[e]], grad[e] + grad[reverse[e]]
            for c in range(row.size):
                sums[c] += of_pair * (row[c] - other[c])
        if first[group[i]] < 0:
            first[group[i]] = i
        common, factor, of_group, out = x[first[group[i]]], weight[group[i]], grad_weight[group[i]], grad_x[i]
        for c in range(row.size):
            of_group[c] += (row[c] - common[c]) * sums[c]
        for c in range(row.size):
            out[c] += two * factor[c] * sums[c]
    return seen


@fast
def _backward_by_edges(grad, x, weight, group, source, target, grad_x, grad_weight):
    """`_backward_by_rows` for edges in any order."""
    difference, two = np.empty(x.shape[1], x.dtype), x.dtype.type(2)
    for e in range(source.size):
        row, other, of_edge = x[source[e]], x[target[e]], grad[e]
        factor, of_group = weight[group[source[e]]], grad_weight[group[source[e]]]
        for c in range(row.size):
            difference[c] = row[c] - other[c]
        for c in range(row.size):
            of_group[c] += of_edge * difference[c] * difference[c]
        for c in range(row.size):
            difference[c] *= two * of_edge * factor[c]
        of_row, of_other = grad_x[source[e]], grad_x[target[e]]
        for c in range(row.size):
            of_row[c] += difference[c]
        for c in range(row.size):
            of_other[c] -= difference[c]


@fast
def _moments(x, source, target, reverse, counted, group, sums, num_counted):
    """Sums are collected in a separate array until the group changes: no other array can overlap with it."""
    total, current = np.zeros(x.shape[1], x.dtype), 0
    ahead, read, seen = _rows_ahead(x), 0, x.dtype.type(0)
    for e in range(source.size):
        times = int(counted[e]) + (int(counted[reverse[e]]) if reverse[e] != e else 0)
        if reverse[e] < e or not times:
            continue
        if source[e] + ahead >= read:
            seen += _read(x, read, source[e] + 2 * ahead)
            read = source[e] + 2 * ahead
        if group[source[e]] != current:
            sums[current] += total
            total[:] = 0
            current = group[source[e]]
        num_counted[current] += times
        row, other, factor = x[source[e]], x[target[e]], x.dtype.type(times)  # an integer would make it float64
        for c in range(total.size):
            difference = row[c] - other[c]
            total[c] += factor * (difference * difference)
    if sums.shape[0]:
        sums[current] += total
    return seen
