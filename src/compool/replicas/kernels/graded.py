"""Graded weights in padded graphs: see :func:`compool.ops.graded_weight`. No size depends on what merges."""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.replicas.kernels._dispatch import operator
from compool.replicas.kernels.padded import forest_padded

_merge_trees = operator(
    "merge_trees(Tensor ends, Tensor forest_ptr) -> (Tensor, Tensor)",
    lambda ends, forest_ptr: (torch.empty_like(ends), ends.new_empty(2 * ends.size(1))),
    lambda kernels: kernels.merge_trees,
)
_share = operator(
    "graded_share_padded(Tensor grade, Tensor children, Tensor size, Tensor forest_ptr) -> Tensor",
    lambda grade, *rest: torch.empty_like(grade),
    lambda kernels: kernels.graded_share_padded,
)
_share_backward = operator(
    "graded_share_padded_backward(Tensor grad, Tensor children, Tensor size, Tensor forest_ptr) -> Tensor",
    lambda grad, *rest: torch.empty_like(grad),
    lambda kernels: kernels.graded_share_padded_backward,
)


class _Share(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grade: Tensor, children: Tensor, size: Tensor, forest_ptr: Tensor) -> Tensor:
        ctx.save_for_backward(children, size, forest_ptr)
        return cast(Tensor, _share(grade, children, size, forest_ptr))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _share_backward(grad, *ctx.saved_tensors), None, None, None


def graded_weight_padded(
    grade: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, merged: Tensor, span: int | None = None
) -> Tensor:
    """How much each node counts in its supernode [N]; see :func:`compool.ops.graded_weight`.

    Nothing is copied to the host. On a GPU, graphs are gone through side by side, each merge by merge.

    Args:
        grade: the grade of each edge [E]; from 1 on, an edge merges fully.
        edge_index: edges [2, E], sorted; only the first ``row_ptr[-1]`` are edges, and those after them are self-loops.
        row_ptr: node i has the edges ``row_ptr[i]:row_ptr[i + 1]``; [N + 1].
        graph_ptr: graph g has the nodes ``graph_ptr[g]:graph_ptr[g + 1]``; no edge joins two graphs.
        merged: mask [E] of the edges that merge, those of a grade above 0.
        span: the size of the largest graph, or more.

    Example:
        >>> edge_index, row_ptr = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 2, 1, 0]]), torch.tensor([0, 1, 3, 4, 4])
        >>> grade, graph_ptr = torch.tensor([0.5, 0.5, 1.0, 1.0, 0.9]), torch.tensor([0, 3])
        >>> graded_weight_padded(grade, edge_index, row_ptr, graph_ptr, grade > 0)
        tensor([0.6667, 0.4167, 0.4167, 1.0000])
    """
    num_edges, num_graphs = grade.size(0), graph_ptr.size(0) - 1
    forest = forest_padded(grade, edge_index, row_ptr, span)
    forest = torch.where(F.pad(merged, (0, 1))[forest], forest, num_edges)  # one after the last stands for no edge
    source, target = F.pad(edge_index.long(), (0, 1), value=row_ptr.size(0) - 1)
    graph = torch.searchsorted(graph_ptr, source[forest], right=True) - 1
    graph, order = graph.masked_fill(forest == num_edges, num_graphs).sort(stable=True)  # by graph, then by grade
    forest = forest[order]
    forest_ptr = torch.searchsorted(graph, torch.arange(num_graphs + 1, device=graph.device))
    children, size = _merge_trees(torch.stack([source[forest], target[forest]]), forest_ptr)
    return cast(Tensor, _Share.apply(F.pad(grade, (0, 1))[forest].clamp(0.0, 1.0), children, size, forest_ptr))
