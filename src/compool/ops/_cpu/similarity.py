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
    distance = weight.new_empty(edge_index.size(1))
    _distance(ready(x).numpy(), *ends_of(edge_index), weight.contiguous().numpy(), _groups(x, group), distance.numpy())
    return distance


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None
) -> tuple[Tensor, Tensor]:
    rows, grad_weight = ready(x), torch.zeros_like(weight)
    grad_x = empty_like(rows, x.size(0)).zero_()
    _sum_differences(grad.contiguous().numpy(), rows.numpy(), *ends_of(edge_index), grad_x.numpy())
    given = (rows.numpy(), weight.contiguous().numpy(), _groups(x, group))
    _distance_backward(*given, grad_x.numpy(), grad_weight.numpy())
    return grad_x.to(x.dtype), grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    check_range(edge_index, x.size(0))
    rows = ready(x)
    sums, num_counted = rows.new_zeros(num_groups, x.size(1)), torch.zeros(num_groups, dtype=torch.long)
    given = (rows.numpy(), *ends_of(edge_index), counted.contiguous().numpy(), _groups(x, group))
    _moments(*given, sums.numpy(), num_counted.numpy())
    return sums / num_counted.clamp(min=1).unsqueeze(1)


def _groups(x: Tensor, group: Tensor | None) -> NDArray[np.int64]:
    """The group of each node."""
    return np.zeros(x.size(0), np.int64) if group is None else group.long().contiguous().numpy()


@fast
def _distance(x, source, target, weight, group, distance):
    for e in range(source.size):
        row, other, factor = x[source[e]], x[target[e]], weight[group[source[e]]]
        total = weight.dtype.type(0)
        for c in range(factor.size):
            difference = row[c] - other[c]
            total += factor[c] * difference * difference
        distance[e] = total


@fast
def _sum_differences(grad, x, source, target, sums):
    """Each row's sum of what its edges' gradients times differences are. With more arrays, it would not vectorise."""
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
def _moments(x, source, target, counted, group, sums, num_counted):
    for e in range(source.size):
        if counted[e]:
            row, other, total = x[source[e]], x[target[e]], sums[group[source[e]]]
            num_counted[group[source[e]]] += 1
            for c in range(total.size):
                difference = row[c] - other[c]
                total[c] += difference * difference
