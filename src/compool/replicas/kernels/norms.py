"""Batch norm of many replicas at once, with statistics over each replica's rows."""

from typing import Any

import torch
from torch import Tensor

from compool.ops._autograd import once_differentiable
from compool.replicas.kernels._dispatch import operator

_norm = operator(
    "segment_norm(Tensor x, Tensor weight, Tensor bias, Tensor ptr, float eps, bool relu) -> (Tensor, Tensor, Tensor)",
    lambda x, weight, *rest: (x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape)),
    lambda kernels: kernels.segment_norm,
)
_norm_backward = operator(
    "segment_norm_backward(Tensor grad, Tensor x, Tensor out, Tensor weight, Tensor mean, Tensor variance, Tensor ptr,"
    " float eps, bool relu) -> (Tensor, Tensor, Tensor)",
    lambda grad, x, out, weight, *rest: (
        x.new_empty(x.shape),
        weight.new_empty(weight.shape),
        weight.new_empty(weight.shape),
    ),
    lambda kernels: kernels.segment_norm_backward,
)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float, relu: bool
    ) -> tuple[Tensor, ...]:
        out, mean, variance = _norm(x, weight, bias, ptr, eps, relu)
        ctx.save_for_backward(x, out, weight, mean, variance, ptr)
        ctx.mark_non_differentiable(mean, variance)
        ctx.eps, ctx.relu = eps, relu
        return out, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        return *_norm_backward(grad, *ctx.saved_tensors, ctx.eps, ctx.relu), None, None, None


def segment_norm(
    x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float = 1e-5, relu: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Normalise the columns of each replica: :math:`y = w (x - \bar x) / \sqrt{\mathrm{Var}(x) + \epsilon} + b`.

    Args:
        x: features [N, d].
        weight: :math:`w` of each replica [R, d].
        bias: :math:`b` of each replica [R, d].
        ptr: replica r has the rows ``ptr[r]:ptr[r + 1]``; [R + 1].
        eps: :math:`\epsilon`.
        relu: whether to apply ReLU to the result.

    Returns:
        The result [N, d], and the mean and the (biased) variance of each replica's rows [R, d].

    Example:
        >>> x, weight = torch.tensor([[1.0], [3.0], [7.0]]), torch.ones(2, 1)
        >>> out, mean, variance = segment_norm(x, weight, 0 * weight, torch.tensor([0, 2, 3]), eps=0.0001)
        >>> mean.squeeze(1), variance.squeeze(1)
        (tensor([2., 7.]), tensor([1., 0.]))
    """
    out, mean, variance = _Norm.apply(x, weight, bias, ptr, eps, relu)
    return out, mean, variance
