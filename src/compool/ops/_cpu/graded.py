"""Graded weights: the merges of a forest as a tree, and sums along its branches."""

import numpy as np
import torch
from torch import Tensor

from compool.ops._cpu.arrays import ends_of
from compool.ops._cpu.loops import exact, find


def merge_tree(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    source, target = ends_of(edge_index)
    children = torch.empty(2, source.size, dtype=torch.long)
    size = torch.ones(num_nodes + source.size, dtype=torch.long)
    _merge_tree(source, target, np.arange(num_nodes), np.arange(num_nodes), *children.numpy(), size.numpy())
    return children, size


def graded_share(grade: Tensor, children: Tensor, size: Tensor, leaf: float) -> Tensor:
    share = np.empty(size.size(0))
    _share(grade.contiguous().numpy(), *children.numpy(), size.numpy(), leaf, share)
    return torch.from_numpy(share[: size.size(0) - grade.size(0)]).to(grade.dtype)


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor) -> Tensor:
    total, grad_grade = np.empty(size.size(0)), torch.empty(children.size(1), dtype=grad.dtype)
    _share_backward(grad.contiguous().numpy(), *children.numpy(), size.numpy(), total, grad_grade.numpy())
    return grad_grade


@exact
def _merge_tree(source, target, parent, part, low, high, size):
    num_nodes = parent.size
    for f in range(source.size):
        u, v = find(parent, source[f]), find(parent, target[f])
        if u > v:
            u, v = v, u
        low[f], high[f] = part[u], part[v]
        size[num_nodes + f] = size[part[u]] + size[part[v]]
        parent[v], part[u] = u, num_nodes + f


@exact
def _share(grade, low, high, size, leaf, share):
    num_nodes = size.size - grade.size
    for part in range(size.size):  # as if it were the last of its tree
        share[part] = (leaf if part < num_nodes else grade[part - num_nodes]) / size[part]
    for f in range(grade.size - 1, -1, -1):
        for part in (low[f], high[f]):
            begin = leaf if part < num_nodes else grade[part - num_nodes]
            share[part] = share[num_nodes + f] + (begin - grade[f]) / size[part]


@exact
def _share_backward(grad, low, high, size, total, grad_grade):
    num_nodes = grad.size
    for node in range(num_nodes):
        total[node] = grad[node]
    for f in range(low.size):
        a, b = low[f], high[f]
        total[num_nodes + f] = total[a] + total[b]
        grad_grade[f] = total[num_nodes + f] / size[num_nodes + f] - total[a] / size[a] - total[b] / size[b]
