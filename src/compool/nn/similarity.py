"""The score of an edge by how alike its ends are."""

import torch
from torch import Tensor

from compool import ops
from compool.ops.similarity import distance_and_pass

MOMENTUM = 0.05  # of running statistics, once there have been as many batches
TINY = 1e-30  # a channel whose ends never differ says nothing
NO_SHARE = -1e30  # a logit; of channels that all have it, each gets the same share, and there is no NaN
EPSILON = 1e-6


class Similarity(torch.nn.Module):
    r"""How much more alike the ends of an edge are than those of others: what it adds to the edge's raw score.

    .. math:: -\frac{d_{ij} - 1}{s}, \qquad d_{ij} = \sum_c p_c \frac{(x_{ic} - x_{jc})^2}{m_c}, \qquad
        p = \mathrm{softmax}(l)

    :math:`m_c` is the mean of channel :math:`c`'s squared differences over edges and :math:`s` the standard deviation
    of :math:`d` over edges. So the result has mean 0 and standard deviation 1 over edges, whatever the scale of each
    channel: the learned logits :math:`l` alone say which channels matter. Both are running statistics, without
    gradients, updated in training: training and evaluation compute the same function, and a graph's scores do not
    depend on what else is in its batch.

    Channels that count must be there: a rotation of the features mixes them. Pool where channels have a meaning.

    Args:
        in_channels: size of each node's features.

    Example:
        >>> similarity = Similarity(2)
        >>> x, edge_index = torch.tensor([[0.0, 1.0], [0.0, 2.0], [9.0, 1.0]]), torch.tensor([[0, 1], [1, 2]])
        >>> similarity(x, edge_index)
        tensor([ 1.0000, -1.0000], grad_fn=<MulBackward0>)
    """

    mean: Tensor
    variance: Tensor
    num_batches_tracked: Tensor

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.logit = torch.nn.Parameter(torch.zeros(in_channels))
        self.register_buffer("mean", torch.ones(in_channels))
        self.register_buffer("variance", torch.ones(1))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long))

    def reset_parameters(self) -> None:
        """Weigh all channels alike, and forget the running statistics."""
        torch.nn.init.zeros_(self.logit)
        self.mean.fill_(1.0)
        self.variance.fill_(1.0)
        self.num_batches_tracked.zero_()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The term of each edge [E], of float32 or better."""
        return self.term_and_pass(x, edge_index)[0]

    def term_and_pass(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """The term of each edge, and the `x` that what follows must use: see `ops.similarity.distance_and_pass`."""
        dtype = torch.promote_types(x.dtype, torch.float32)
        if not self.training:
            distance, x = distance_and_pass(x, edge_index, self._weight(dtype))
        else:
            counted = ops.select(x.new_zeros(edge_index.size(1), dtype=dtype), edge_index, x.size(0), 0.0).counted
            has_edges = counted.any()  # a batch without edges changes nothing
            self.num_batches_tracked += has_edges
            share = moving_share(self.num_batches_tracked).to(self.mean.dtype) * has_edges
            self.mean.lerp_(ops.edge_moments(x, edge_index, counted).to(self.mean.dtype), share)
            distance, x = distance_and_pass(x, edge_index, self._weight(dtype))
            self.variance.lerp_(_variance(distance.detach(), counted).to(self.variance.dtype), share)
        return (1 - distance) * (self.variance.to(dtype) + EPSILON).rsqrt(), x

    def _weight(self, dtype: torch.dtype) -> Tensor:
        """What the squared differences of each channel are multiplied by [d]."""
        return channel_weight(self.logit.to(dtype), self.mean.to(dtype))


def moving_share(num_batches: Tensor) -> Tensor:
    """How much the latest batch counts in running statistics: means over all batches at first, then moving averages."""
    return num_batches.clamp(min=1).reciprocal().clamp(min=MOMENTUM)


def channel_weight(logit: Tensor, mean: Tensor) -> Tensor:
    """What squared differences are multiplied by, p / m; channels whose ends never differ have no share in p, unless
    none ever does.
    """
    is_constant = mean <= TINY
    return logit.masked_fill(is_constant, NO_SHARE).softmax(-1) / mean.masked_fill(is_constant, 1.0)


def _variance(distance: Tensor, counted: Tensor) -> Tensor:
    """The variance of the distances in a mask [1]."""
    mask = counted.to(distance.dtype)
    total = mask.sum().clamp(min=1)
    centred = (distance - distance.dot(mask) / total) * mask
    return (centred.dot(centred) / total).view(1)
