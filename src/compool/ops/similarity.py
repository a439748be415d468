"""Step 1 by similarity: how far apart the features of an edge's ends are."""

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._autograd import gradients, wants_graph
from compool.ops._dispatch import is_transformed, operator

_distance = operator(
    "edge_distance(Tensor x, Tensor edge_index, Tensor weight) -> Tensor",
    lambda x, edge_index, weight: weight.new_empty(edge_index.size(1)),
    lambda kernels: kernels.edge_distance,
)
_distance_backward = operator(
    "edge_distance_backward(Tensor grad, Tensor x, Tensor edge_index, Tensor weight) -> (Tensor, Tensor)",
    lambda grad, x, edge_index, weight: (x.new_empty(x.shape), weight.new_empty(weight.shape)),
    lambda kernels: kernels.edge_distance_backward,
)
_moments = operator(
    "edge_moments(Tensor x, Tensor edge_index, Tensor counted) -> Tensor",
    lambda x, edge_index, counted: x.new_empty(x.size(1), dtype=torch.promote_types(x.dtype, torch.float32)),
    lambda kernels: kernels.edge_moments,
)


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, edge_index, weight)
        return cast(Tensor, _distance(x, edge_index, weight))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, edge_index, weight = ctx.saved_tensors
        if wants_graph():
            grad_x, grad_weight = gradients(partial(_reference, edge_index), (x, weight), [grad])
        else:
            grad_x, grad_weight = _distance_backward(grad, x, edge_index, weight)
        return grad_x, None, grad_weight


def _reference(edge_index: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor]:
    return (_torch.edge_distance(x, edge_index, weight),)


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    r"""The weighted squared distance between the ends of each edge: :math:`\sum_c w_c (x_{ic} - x_{jc})^2`.

    O(E·d) time, and no E × d tensor.

    Args:
        x: node features [N, d].
        edge_index: edges [2, E].
        weight: :math:`w` [d], of float32 or better.

    Returns:
        Distances [E], of the dtype of `weight`.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_distance(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 0.5]))
        tensor([9., 8.])
    """
    if is_transformed():
        return _torch.edge_distance(x, edge_index, weight)
    return cast(Tensor, _Distance.apply(x, edge_index, weight))


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor) -> Tensor:
    r"""The mean of :math:`(x_{ic} - x_{jc})^2` over the edges in the mask `counted`, by channel [d]; no gradient.

    Example:
        >>> x = torch.tensor([[0.0, 1.0], [3.0, 1.0], [3.0, 5.0]])
        >>> edge_moments(x, torch.tensor([[0, 1], [1, 2]]), torch.tensor([True, True]))
        tensor([4.5000, 8.0000])
    """
    return cast(Tensor, _moments(x.detach(), edge_index, counted))
