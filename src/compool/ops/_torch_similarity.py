"""Distances between the ends of edges, and their running statistics, in plain torch operations: see `similarity`."""

from collections.abc import Callable

import torch
from torch import Tensor

from compool.ops._checks import check_range

MOMENTUM = 0.05  # of running statistics, from the 20th batch on
TINY = 1e-30  # a channel with a mean difference up to this is constant, and gets no share
NO_SHARE = -1e30  # the logit of constant channels; finite, so that softmax gives no NaN if all channels are constant
EPSILON = 1e-6


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
    weight = weight.index_select(0, _group_of_edges(edge_index, group))
    return (_squared_differences(x, edge_index, weight.dtype) * weight).sum(1)


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None, grad_x: Tensor
) -> Tensor:
    """Adds to `grad_x`."""
    rows, of_edge = x.to(weight.dtype), _group_of_edges(edge_index, group)
    share = grad.unsqueeze(1) * (rows[edge_index[0]] - rows[edge_index[1]])
    grad_weight = torch.zeros_like(weight)
    grad_weight.index_add_(0, of_edge, share * (rows[edge_index[0]] - rows[edge_index[1]]))
    share = 2 * share * weight[of_edge]
    grad_x += torch.zeros_like(rows).index_add_(0, edge_index[0], share).index_add_(0, edge_index[1], -share)
    return grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    mask, of_edge = counted.to(torch.promote_types(x.dtype, torch.float32)), _group_of_edges(edge_index, group)
    squares = _squared_differences(x, edge_index, mask.dtype) * mask.unsqueeze(1)
    sums = mask.new_zeros(num_groups, x.size(1)).index_add_(0, of_edge, squares)
    return sums / mask.new_zeros(num_groups).index_add_(0, of_edge, mask).clamp(min=1).unsqueeze(1)


def _group_of_edges(edge_index: Tensor, group: Tensor | None) -> Tensor:
    return torch.zeros_like(edge_index[0]) if group is None else group[edge_index[0]]


def _squared_differences(x: Tensor, edge_index: Tensor, dtype: torch.dtype) -> Tensor:
    x = x.to(dtype)
    return (x[edge_index[0]] - x[edge_index[1]]).square()


def channel_shares(logit: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """The share of each channel, p, and the factor of its squared differences, p / m.

    Constant channels have no share, unless all channels are constant.
    """
    is_constant = mean <= TINY
    share = logit.masked_fill(is_constant, NO_SHARE).softmax(-1)
    return share, share / mean.masked_fill(is_constant, 1.0)


def momentum(num_batches: Tensor) -> Tensor:
    """The weight of the latest batch in running statistics, which are means over all batches at first, then moving
    averages.
    """
    return num_batches.clamp(min=1).double().reciprocal().clamp(min=MOMENTUM)


def negative_scale(variance: Tensor) -> Tensor:
    """The factor of d − 1."""
    return -(variance + EPSILON).rsqrt()


def observe(
    select: Callable[..., tuple[Tensor, Tensor]],
    moments: Callable[..., Tensor],
    distance: Callable[..., Tensor],
    x: Tensor,
    edge_index: Tensor,
    logit: Tensor,
    mean: Tensor,
    variance: Tensor,
    num_batches: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`similarity.observe`, by the kernels of three other steps."""
    check_range(edge_index, x.size(0))
    dtype = torch.promote_types(x.dtype, torch.float32)
    _, counted = select(x.new_zeros(edge_index.size(1), dtype=dtype), edge_index, x.size(0), 0.0, None)
    latest = moments(x, edge_index, counted, None, 1)[0].to(mean.dtype)
    counts = counted.any() & latest.isfinite().all()  # a batch without edges, or with NaN or infinity, changes nothing
    num_batches += counts
    step = momentum(num_batches).to(mean.dtype) * counts
    mean.lerp_(torch.where(counts, latest, mean), step)
    share, weight = channel_shares(logit.to(dtype), mean.to(dtype))
    distances = distance(x, edge_index, weight.unsqueeze(0), None)
    latest = _variance(distances, counted).to(variance.dtype)
    variance.lerp_(torch.where(latest.isfinite(), latest, variance), step)
    scale = negative_scale(variance.to(dtype))
    return (distances - 1) * scale, share, weight, scale


def _variance(distance: Tensor, counted: Tensor) -> Tensor:
    """The variance of the distances in the mask `counted` [1]."""
    mask = counted.to(distance.dtype)
    total = mask.sum().clamp(min=1)
    centred = (distance - distance.dot(mask) / total) * mask
    return (centred.dot(centred) / total).view(1)
