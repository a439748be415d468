"""Graded weights in padded graphs on a GPU: one program per graph, as its merges come one after another."""

import torch
from torch import Tensor

from compool.ops._cuda.launch import launch
from compool.replicas.kernels import _cuda_graded_kernels as kernels

_ONE_BY_ONE = {"num_warps": 1, "num_stages": 1}


def merge_trees(ends: Tensor, forest_ptr: Tensor) -> tuple[Tensor, Tensor]:
    num_nodes = ends.size(1)
    children, size = torch.zeros_like(ends), ends.new_ones(2 * num_nodes)
    root = torch.arange(num_nodes, device=ends.device)
    given = (ends.contiguous(), forest_ptr, root, root.clone(), children, size, num_nodes)
    if num_nodes:
        launch(kernels.merge_trees, (forest_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return children, size


def graded_share_padded(grade: Tensor, children: Tensor, size: Tensor, forest_ptr: Tensor) -> Tensor:
    begin = torch.cat([torch.ones_like(grade), grade]).double()  # a part is there below its own grade
    share = begin / size  # as if it were the last of its tree
    if grade.numel():
        given = (begin, children, size, forest_ptr, share, grade.numel())
        launch(kernels.graded_share, (forest_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return share[: grade.numel()].to(grade.dtype)


def graded_share_padded_backward(grad: Tensor, children: Tensor, size: Tensor, forest_ptr: Tensor) -> Tensor:
    total, grad_grade = torch.cat([grad, torch.zeros_like(grad)]).double(), torch.zeros_like(grad)
    if grad.numel():
        given = (total, children, size, forest_ptr, grad_grade, grad.numel())
        launch(kernels.graded_share_backward, (forest_ptr.numel() - 1,), *given, **_ONE_BY_ONE)
    return grad_grade
