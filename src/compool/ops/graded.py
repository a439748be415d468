"""Step 4, graded: features that change continuously with the scores."""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops._dispatch import operator
from compool.ops.forest import forest

_merge_tree = operator(
    "merge_tree(Tensor edge_index, SymInt num_nodes) -> (Tensor, Tensor)",
    lambda edge_index, num_nodes: (
        edge_index.new_empty(2, edge_index.size(1), dtype=torch.long),
        edge_index.new_empty(num_nodes + edge_index.size(1), dtype=torch.long),
    ),
    lambda kernels: kernels.merge_tree,
)
_share = operator(
    "graded_share(Tensor grade, Tensor children, Tensor size, float leaf) -> Tensor",
    lambda grade, children, size, leaf: grade.new_empty(size.size(0) - grade.size(0)),
    lambda kernels: kernels.graded_share,
)
_share_backward = operator(
    "graded_share_backward(Tensor grad, Tensor children, Tensor size) -> Tensor",
    lambda grad, children, size: grad.new_empty(children.size(1)),
    lambda kernels: kernels.graded_share_backward,
)


class _Share(torch.autograd.Function):
    """Linear in the grades: its derivative does not depend on them, and the derivative of that is itself again."""

    @staticmethod
    def forward(ctx: Any, grade: Tensor, children: Tensor, size: Tensor, leaf: float) -> Tensor:
        ctx.save_for_backward(children, size)
        return cast(Tensor, _share(grade, children, size, leaf))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _ShareBackward.apply(grad, *ctx.saved_tensors), None, None, None


class _ShareBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor, children: Tensor, size: Tensor) -> Tensor:
        ctx.save_for_backward(children, size)
        return cast(Tensor, _share_backward(grad, children, size))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Share.apply(grad, *ctx.saved_tensors, 0.0), None, None


def graded_weight(
    edge_score: Tensor, edge_index: Tensor, merged: Tensor, num_nodes: int, threshold: float = 0.0, top: float = 1.0
) -> Tensor:
    r"""How much each node counts in its supernode [N], so that sums of features are continuous in the scores.

    A merged edge has the grade :math:`g = (S - t) / (s - t)`, from 0 at the threshold :math:`t` to 1 at the score
    :math:`s`, the `top`, and above. At a level :math:`\theta`, the edges of a grade above :math:`\theta` merge:
    :math:`C_\theta(i)` is the component of node :math:`i`. The weight is the mean of its share in it over all levels,

    .. math:: w_i = \int_0^1 \frac{d\theta}{|C_\theta(i)|}.

    Where all merged edges have grade 1, supernodes are means of their members. Where an edge crosses the threshold, no
    weight changes abruptly. Only the edges of the maximum spanning forest count, and get gradients.

    Args:
        edge_score: scores [E].
        edge_index: edges [2, E].
        merged: mask [E] of the edges that score above the threshold.
        num_nodes: number of nodes N.
        threshold: :math:`t`.
        top: :math:`s`, from which on an edge merges fully.

    Example:
        >>> edge_index, edge_score = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0.5, 1.0])
        >>> graded_weight(edge_score, edge_index, edge_score > 0, num_nodes=3)  # 1 and 2 merge fully, 0 joins by half
        tensor([0.6667, 0.4167, 0.4167])
    """
    positions = forest(edge_score.detach(), edge_index, merged, num_nodes)
    grade = ((edge_score.index_select(0, positions) - threshold) / (top - threshold)).clamp(0.0, 1.0)
    children, size = _merge_tree(edge_index.index_select(1, positions), num_nodes)
    return cast(Tensor, _Share.apply(grade, children, size, 1.0))
