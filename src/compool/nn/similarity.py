"""Scores for edges by the similarity of their ends."""

import torch
from torch import Tensor

from compool.ops._checks import check_inputs, check_range
from compool.ops.similarity import observe, standards, term_and_pass


class Similarity(torch.nn.Module):
    r"""The similarity of an edge's ends, relative to other edges: a term that is added to the edge's raw score.

    .. math:: -\frac{d_{ij} - 1}{s}, \qquad d_{ij} = \sum_c p_c \frac{(x_{ic} - x_{jc})^2}{m_c}, \qquad
        p = \mathrm{softmax}(l)

    :math:`m_c` is the mean over edges of the squared differences in channel :math:`c`, and :math:`s` is the standard
    deviation of :math:`d` over edges. So the term has mean 0 and standard deviation 1 over edges, whatever the scale of
    each channel, and only the learned logits :math:`l` decide which channels matter. Both statistics are running
    statistics without gradients; in training, each batch updates them before it is scored. Training and evaluation
    compute the same function of them, so in evaluation, a graph's scores do not depend on the rest of its batch.

    The term weights channels one by one, so it only helps where single channels carry meaning: a rotation of the
    features mixes them.

    Args:
        in_channels: size of each node's features.

    Example:
        >>> similarity = Similarity(2)
        >>> x, edge_index = torch.tensor([[0.0, 1.0], [0.0, 2.0], [9.0, 1.0]]), torch.tensor([[0, 1], [1, 2]])
        >>> similarity(x, edge_index)
        tensor([ 1.0000, -1.0000], grad_fn=<_TermBackward>)
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
        """Give all channels equal weight, and reset the running statistics."""
        torch.nn.init.zeros_(self.logit)
        self.mean.fill_(1.0)
        self.variance.fill_(1.0)
        self.num_batches_tracked.zero_()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The term of each edge [E], in float32 or wider."""
        check_inputs(x, edge_index, None, None, self.logit.size(0), None, self.logit)
        if not torch.compiler.is_compiling():
            check_range(edge_index, x.size(0))
        return self.term_and_pass(x, edge_index)[0]

    def term_and_pass(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """The term of each edge, and the `x` that all later steps must use: see `ops.similarity.distance_and_pass`."""
        if self.training:
            term, by = observe(x, edge_index, self.logit, self.mean, self.variance, self.num_batches_tracked)
            return term_and_pass(x, edge_index, self.logit, by, term)
        dtype = torch.promote_types(x.dtype, torch.float32)
        by = standards(self.logit.to(dtype), self.mean.to(dtype), self.variance.to(dtype))
        return term_and_pass(x, edge_index, self.logit, by)
