"""Graded weights: the merges of a forest as a tree, and sums along its branches. See `_torch_graded`."""

import numpy as np
import torch
from torch import Tensor

from compool.ops._cpu.arrays import ends_of
from compool.ops._cpu.loops import exact, find
from compool.ops._torch_graded import num_merges


def merge_tree(edge_index: Tensor, num_nodes: int, tree_ptr: Tensor | None) -> tuple[Tensor, Tensor]:
    source, target = ends_of(edge_index)
    count, children = num_merges(source.size, tree_ptr), edge_index.new_zeros(2, source.size, dtype=torch.long)
    size = edge_index.new_ones(num_nodes + source.size, dtype=torch.long)
    given = (source[:count], target[:count], np.arange(num_nodes), np.arange(num_nodes))
    _merge_tree(*given, *children.numpy(), size.numpy())
    return children, size


def graded_share(grade: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None, leaf: float) -> Tensor:
    num_nodes, count = size.size(0) - grade.size(0), num_merges(grade.size(0), tree_ptr)
    share = np.empty(num_nodes + count)
    given = (grade.contiguous().numpy()[:count], *children.numpy(), size.numpy()[: num_nodes + count])
    _share(*given, leaf, share)
    return torch.from_numpy(share[:num_nodes]).to(grade.dtype)


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None) -> Tensor:
    count = num_merges(children.size(1), tree_ptr)
    total, grad_grade = np.empty(grad.size(0) + count), grad.new_zeros(children.size(1))
    given = (grad.contiguous().numpy(), *children.numpy()[:, :count], size.numpy(), total, grad_grade.numpy())
    _share_backward(*given)
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
    for part in range(size.size):  # as if the part were the root of its tree
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
