"""The learnable part of component pooling: a linear score of every edge."""

from collections.abc import Callable

import torch
from torch import Tensor

from compool import ops
from compool.nn._settings import Score, activation
from compool.ops.score import score_and_pass


class EdgeScorer(torch.nn.Module):
    """Base of the layers that score edges: :math:`S_{ij} = σ(ψ(x_i, x_j, e_{ij}) + b)`."""

    def __init__(self, in_channels: int, score: Score, symmetric: bool, edge_dim: int | None) -> None:
        super().__init__()
        if in_channels < 1:
            raise ValueError(f"in_channels must be at least 1, got {in_channels}")
        if edge_dim is not None and edge_dim < 1:
            raise ValueError(f"edge_dim must be at least 1, got {edge_dim}")
        activation(score)  # or an error
        self.in_channels, self.score, self.symmetric, self.edge_dim = in_channels, score, symmetric, edge_dim
        self.lin = torch.nn.Linear(2 * in_channels, 1)
        self.lin_edge = None if edge_dim is None else torch.nn.Linear(edge_dim, 1, bias=False)
        if edge_dim is not None:
            self.reset_parameters()

    @property
    def activation(self) -> Callable[[Tensor], Tensor]:
        r"""The function :math:`\sigma`."""
        return activation(self.score)

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.lin.reset_parameters()
        if self.lin_edge is not None:  # as one linear layer over the features of both ends and of the edge
            bound = (2 * self.in_channels + self.lin_edge.in_features) ** -0.5
            for parameter in (*self.lin.parameters(), *self.lin_edge.parameters()):
                torch.nn.init.uniform_(parameter, -bound, bound)

    def _score(
        self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """The scores, and the `x` that merging must use."""
        term = None
        if self.lin_edge is not None and edge_attr is not None:
            term = ops.score_edges(edge_attr, edge_index, self.lin_edge.weight, x.size(0), self.symmetric)
        scorer = (self.lin.weight, self.lin.bias, self.activation)
        return score_and_pass(x, edge_index, *scorer, dropout, self.symmetric, term)
