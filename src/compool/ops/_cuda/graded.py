"""Graded weights on a GPU: one program per tree of merges, because the merges of a tree are sequential.

Without `tree_ptr`, there may be one large tree: then the forest's edges, at most one per node, are processed on the
CPU.
"""

import torch
from torch import Tensor

from compool.ops._cpu import graded as _cpu
from compool.ops._cuda import graded_kernels as kernels
from compool.ops._cuda.launch import launch

_ONE_BY_ONE = {"num_warps": 1, "num_stages": 1}


def merge_tree(edge_index: Tensor, num_nodes: int, tree_ptr: Tensor | None) -> tuple[Tensor, Tensor]:
    if tree_ptr is None:
        children, size = _cpu.merge_tree(edge_index.cpu(), num_nodes, None)
        return children.to(edge_index.device), size.to(edge_index.device)
    ends, num_edges = edge_index.long().contiguous(), edge_index.size(1)
    children, size = torch.zeros_like(ends), ends.new_ones(num_nodes + num_edges)
    if num_edges:
        root = torch.arange(num_nodes, device=ends.device)
        given = (ends, tree_ptr, root, root.clone(), children, size, num_nodes, num_edges)
        launch(kernels.merge_tree, (tree_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return children, size


def graded_share(grade: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None, leaf: float) -> Tensor:
    if tree_ptr is None:
        return _cpu.graded_share(grade.cpu(), children.cpu(), size.cpu(), None, leaf).to(grade.device)
    num_edges = grade.numel()
    num_nodes = size.numel() - num_edges
    begin = torch.cat([grade.new_full((num_nodes,), leaf), grade]).double()  # a part exists below its own grade
    share = begin / size  # as if the part were the root of its tree
    if num_edges:
        given = (begin, children, size, tree_ptr, share, num_nodes, num_edges)
        launch(kernels.graded_share, (tree_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return share[:num_nodes].to(grade.dtype)


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor, tree_ptr: Tensor | None) -> Tensor:
    if tree_ptr is None:
        return _cpu.graded_share_backward(grad.cpu(), children.cpu(), size.cpu(), None).to(grad.device)
    num_nodes, num_edges = grad.numel(), children.size(1)
    grad_grade = grad.new_zeros(num_edges)
    if num_edges:
        total = torch.cat([grad, grad_grade]).double()
        given = (total, children, size, tree_ptr, grad_grade, num_nodes, num_edges)
        launch(kernels.graded_share_backward, (tree_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return grad_grade
