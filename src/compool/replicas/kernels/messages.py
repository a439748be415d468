"""Message passing over an undirected graph in compressed rows."""

from typing import Any, cast

import torch
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.replicas.kernels._dispatch import operator

_propagate = operator(
    "propagate(Tensor x, Tensor row_ptr, Tensor neighbour, Tensor? left, Tensor? right, Tensor? own) -> Tensor",
    lambda x, *rest: x.new_empty(x.shape),
    lambda kernels: kernels.propagate,
)


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        row_ptr: Tensor,
        neighbour: Tensor,
        left: Tensor | None,
        right: Tensor | None,
        own: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(row_ptr, neighbour, left, right, own)
        return cast(Tensor, _propagate(x, row_ptr, neighbour, left, right, own))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        row_ptr, neighbour, left, right, own = ctx.saved_tensors  # Aᵀ = A: only the two factors are swapped
        return _propagate(grad, row_ptr, neighbour, right, left, own), None, None, None, None, None


def propagate(
    x: Tensor,
    row_ptr: Tensor,
    neighbour: Tensor,
    left: Tensor | None = None,
    right: Tensor | None = None,
    own: Tensor | None = None,
) -> Tensor:
    r"""Sum the features of each node's neighbours: :math:`x'_i = l_i \sum_{j \in N(i)} r_j x_j + o_i x_i`.

    The graph must be undirected, :math:`A = A^\top`: the backward pass relies on it. The factors have no gradient.

    Args:
        x: features [N, d].
        row_ptr: node i has the neighbours ``neighbour[row_ptr[i]:row_ptr[i + 1]]``; [N + 1].
        neighbour: the neighbours of all nodes, one node after another [E].
        left: the factors :math:`l` [N], by default 1.
        right: the factors :math:`r` [N], by default 1.
        own: the factors :math:`o` [N], by default 0.

    Example:
        >>> x = torch.tensor([[1.0], [10.0], [100.0]])  # a path 0 – 1 – 2
        >>> propagate(x, torch.tensor([0, 1, 3, 4]), torch.tensor([1, 0, 2, 1])).squeeze(1)
        tensor([ 10., 101.,  10.])
    """
    return cast(Tensor, _Propagate.apply(x, row_ptr, neighbour, left, right, own))
