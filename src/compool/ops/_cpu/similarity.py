"""Distances between the ends of edges, channel by channel, with no tensor as long as the edges and as wide as the
features.
"""

import numpy as np
import torch
from torch import Tensor

from compool.ops._checks import check_range
from compool.ops._cpu.arrays import empty_like, ends_of, ready
from compool.ops._cpu.loops import fast


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    check_range(edge_index, x.size(0))
    distance = weight.new_empty(edge_index.size(1))
    _distance(ready(x).numpy(), *ends_of(edge_index), weight.contiguous().numpy(), distance.numpy())
    return distance


def edge_distance_backward(grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    rows, grad_weight = ready(x), torch.zeros_like(weight)
    grad_x = empty_like(rows, x.size(0)).zero_()
    _sum_differences(grad.contiguous().numpy(), rows.numpy(), *ends_of(edge_index), grad_x.numpy())
    _distance_backward(rows.numpy(), weight.contiguous().numpy(), grad_x.numpy(), grad_weight.numpy())
    return grad_x.to(x.dtype), grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor) -> Tensor:
    check_range(edge_index, x.size(0))
    rows = ready(x)
    sums = np.zeros(x.size(1), rows.numpy().dtype)
    num_counted = _moments(rows.numpy(), *ends_of(edge_index), counted.contiguous().numpy(), sums)
    return torch.from_numpy(sums / max(num_counted, 1))


@fast
def _distance(x, source, target, weight, distance):
    for e in range(source.size):
        row, other = x[source[e]], x[target[e]]
        total = weight.dtype.type(0)
        for c in range(weight.size):
            difference = row[c] - other[c]
            total += weight[c] * difference * difference
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
def _distance_backward(x, weight, grad_x, grad_weight):
    """From these sums s_i: the gradient of x_i is 2 w s_i, and that of w is Σ x_i s_i. The s_i sum up to zero, so that
    what all rows have in common can be left out.
    """
    for i in range(x.shape[0]):
        row, sums = x[i], grad_x[i]
        for c in range(weight.size):
            grad_weight[c] += (row[c] - x[0, c]) * sums[c]
        for c in range(weight.size):
            sums[c] *= 2 * weight[c]


@fast
def _moments(x, source, target, counted, sums):
    num_counted = 0
    for e in range(source.size):
        if counted[e]:
            num_counted += 1
            row, other = x[source[e]], x[target[e]]
            for c in range(sums.size):
                difference = row[c] - other[c]
                sums[c] += difference * difference
    return num_counted
