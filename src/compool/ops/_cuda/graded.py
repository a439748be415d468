"""Graded weights on a GPU: merges come one after another, so that the forest's edges, one per node at most, go to the
CPU and back.
"""

from torch import Tensor

from compool.ops._cpu import graded as _cpu


def merge_tree(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    children, size = _cpu.merge_tree(edge_index.cpu(), num_nodes)
    return children.to(edge_index.device), size.to(edge_index.device)


def graded_share(grade: Tensor, children: Tensor, size: Tensor, leaf: float) -> Tensor:
    return _cpu.graded_share(grade.cpu(), children.cpu(), size.cpu(), leaf).to(grade.device)


def graded_share_backward(grad: Tensor, children: Tensor, size: Tensor) -> Tensor:
    return _cpu.graded_share_backward(grad.cpu(), children.cpu(), size.cpu()).to(grad.device)
