"""Distances between the ends of edges, channel by channel, with no tensor as long as the edges and as wide as the
features.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._checks import check_range
from compool.ops._cpu.arrays import empty_like, ends_of, ready
from compool.ops._cpu.loops import fast


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
    check_range(edge_index, x.size(0))
    ends, distance = ends_of(edge_index), weight.new_empty(edge_index.size(1))
    _, reverse = _reversed(*ends, x.size(0))
    weighed = (weight.contiguous().numpy(), _groups(x, group))
    _distance(ready(x).numpy(), *ends, reverse, *weighed, distance.numpy())
    return distance


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None
) -> tuple[Tensor, Tensor]:
    rows, grad_weight, ends = ready(x), torch.zeros_like(weight), ends_of(edge_index)
    grad_x, of_edges = empty_like(rows, x.size(0)), grad.contiguous().numpy()
    start, reverse = _reversed(*ends, x.size(0))
    if start.size:
        _sum_by_rows(of_edges, rows.numpy(), start, ends[1], reverse, grad_x.numpy())
    else:
        _sum_by_edges(of_edges, rows.numpy(), *ends, grad_x.zero_().numpy())
    given = (rows.numpy(), weight.contiguous().numpy(), _groups(x, group))
    _distance_backward(*given, grad_x.numpy(), grad_weight.numpy())
    return grad_x.to(x.dtype), grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    check_range(edge_index, x.size(0))
    rows, ends = ready(x), ends_of(edge_index)
    _, reverse = _reversed(*ends, x.size(0))
    sums, num_counted = rows.new_zeros(num_groups, x.size(1)), torch.zeros(num_groups, dtype=torch.long)
    given = (rows.numpy(), *ends, reverse, counted.contiguous().numpy(), _groups(x, group))
    _moments(*given, sums.numpy(), num_counted.numpy())
    return sums / num_counted.clamp(min=1).unsqueeze(1)


def _groups(x: Tensor, group: Tensor | None) -> NDArray[np.int64]:
    """The group of each node."""
    return np.zeros(x.size(0), np.int64) if group is None else group.long().contiguous().numpy()


def _reversed(
    source: NDArray[np.integer], target: NDArray[np.integer], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of a graph whose edges are sorted, each once and in both directions: where the edges of each node begin [N + 1],
    and where the reverse of each edge is [E]. Of any other graph: nothing, and each edge as its own reverse.
    """
    start, reverse = np.zeros(num_nodes + 1, np.int64), np.empty(source.size, np.int64)
    if _find_reversed(source, target, start, np.empty(num_nodes, np.int64), reverse):
        return start, reverse
    return np.empty(0, np.int64), np.arange(source.size)


@fast
def _find_reversed(source, target, start, next_of_row, reverse):
    """Sources ascend, so that the edges into a node come in the order of its own edges."""
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
def _distance(x, source, target, reverse, weight, group, distance):
    """Both directions of an edge are as long."""
    for e in range(source.size):
        if reverse[e] < e:
            continue
        row, other, factor = x[source[e]], x[target[e]], weight[group[source[e]]]
        total = weight.dtype.type(0)
        for c in range(factor.size):
            difference = row[c] - other[c]
            total += factor[c] * difference * difference
        distance[e] = total
        distance[reverse[e]] = total


@fast
def _sum_by_rows(grad, x, start, target, reverse, sums):
    """Each row's sum of its edges' gradients times differences, both directions of an edge together."""
    for i in range(x.shape[0]):
        row, total = x[i], sums[i]
        if start[i] == start[i + 1]:
            total[:] = 0
        for e in range(start[i], start[i + 1]):
            other, of_pair = x[target[e]], grad[e] + grad[reverse[e]]
            if e == start[i]:
                for c in range(row.size):
                    total[c] = of_pair * (row[c] - other[c])
            else:
                for c in range(row.size):
                    total[c] += of_pair * (row[c] - other[c])


@fast
def _sum_by_edges(grad, x, source, target, sums):
    """The same for edges in any order. With more arrays, it would not vectorise."""
    for e in range(source.size):
        row, other = x[source[e]], x[target[e]]
        sum_row, sum_other, of_edge = sums[source[e]], sums[target[e]], grad[e]
        for c in range(row.size):
            share = of_edge * (row[c] - other[c])
            sum_row[c] += share
            sum_other[c] -= share


@fast
def _distance_backward(x, weight, group, grad_x, grad_weight):
    """From these sums s_i: the gradient of x_i is 2 w s_i, and that of w is Σ x_i s_i. The s_i of a group sum up to
    zero, so that what its rows have in common can be left out.
    """
    first = np.full(weight.shape[0], -1)
    for i in range(x.shape[0]):
        if first[group[i]] < 0:
            first[group[i]] = i
        row, sums, factor, of_group = x[i], grad_x[i], weight[group[i]], grad_weight[group[i]]
        common = x[first[group[i]]]
        for c in range(row.size):
            of_group[c] += (row[c] - common[c]) * sums[c]
        for c in range(row.size):
            sums[c] *= 2 * factor[c]


@fast
def _moments(x, source, target, reverse, counted, group, sums, num_counted):
    """Sums are collected in an array of their own until the group changes: no other can overlap with it."""
    total, current = np.zeros(x.shape[1], x.dtype), 0
    for e in range(source.size):
        times = int(counted[e]) + (int(counted[reverse[e]]) if reverse[e] != e else 0)
        if reverse[e] < e or not times:
            continue
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
