"""Step 1 by similarity: how far apart the features of an edge's ends are."""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import is_transformed, operator

_distance = operator(
    "edge_distance(Tensor x, Tensor edge_index, Tensor weight, Tensor? group) -> Tensor",
    lambda x, edge_index, weight, group: weight.new_empty(edge_index.size(1)),
    lambda kernels: kernels.edge_distance,
)
_distance_backward = operator(
    "edge_distance_backward(Tensor grad, Tensor x, Tensor edge_index, Tensor weight, Tensor? group)"
    " -> (Tensor, Tensor)",
    lambda grad, x, edge_index, weight, group: (x.new_empty(x.shape), weight.new_empty(weight.shape)),
    lambda kernels: kernels.edge_distance_backward,
)
_moments = operator(
    "edge_moments(Tensor x, Tensor edge_index, Tensor counted, Tensor? group, SymInt num_groups) -> Tensor",
    lambda x, edge_index, counted, group, num_groups: x.new_empty(
        num_groups, x.size(1), dtype=torch.promote_types(x.dtype, torch.float32)
    ),
    lambda kernels: kernels.edge_moments,
)


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, edge_index, weight, group)
        return cast(Tensor, _distance(x, edge_index, weight, group))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, edge_index, weight, group = ctx.saved_tensors
        if wants_graph():
            grad_x, grad_weight = gradients(partial(_reference, edge_index, group), (x, weight), [grad])
        else:
            grad_x, grad_weight = _distance_backward(grad, x, edge_index, weight, group)
        return grad_x, None, grad_weight, None


def _reference(edge_index: Tensor, group: Tensor | None, x: Tensor, weight: Tensor) -> tuple[Tensor]:
    return (_torch.edge_distance(x, edge_index, weight, group),)


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None = None) -> Tensor:
    r"""The weighted squared distance between the ends of each edge: :math:`\sum_c w_c (x_{ic} - x_{jc})^2`.

    O(E·d) time, and no E × d tensor.

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        weight: :math:`w` [d], of float32 or better; with groups, one row for each [G, d].
        group: the group of each node [N]; no edge joins two of them.

    Returns:
        Distances [E], of the dtype of `weight`.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_distance(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 0.5]))
        tensor([9., 8.])
    """
    weight = weight.view(-1, x.size(1))
    if is_transformed():
        return _torch.edge_distance(x, edge_index, weight, group)
    return cast(Tensor, _Distance.apply(x, edge_index, weight, group))


def edge_moments(
    x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None = None, num_groups: int = 1
) -> Tensor:
    r"""The mean of :math:`(x_{ic} - x_{jc})^2` over the edges in the mask `counted`, by channel [d]; no gradient.

    With groups of nodes [N], the mean over each group's edges [num_groups, d]; zeros where there are none.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_moments(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([True, True]))
        tensor([4.5000, 8.0000])
    """
    moments: Tensor = _moments(x.detach(), edge_index, counted, group, num_groups)
    return moments if group is not None else moments.squeeze(0)
