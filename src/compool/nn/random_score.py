"""Scores of edges drawn at random: a control."""

import torch
from torch import Tensor

from compool import ops
from compool.ops._checks import check_graphs, check_range


class RandomScore(torch.nn.Module):
    r"""A random score for each undirected edge, uniform between −1 and 1, which never changes.

    It is a hash of a seed, of all edges of the graph, and of the two nodes as they are numbered in their graph. So a
    graph is always pooled in the same way, in training and evaluation and whatever else is in its batch, as a trained
    layer would: only what is learned is missing. New scores in each step would be an augmentation of the data besides.
    The seed is drawn with the weights of a network, and saved with them: runs differ in it.

    Example:
        >>> score = RandomScore()
        >>> x, edge_index = torch.randn(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> first, second, *_ = score(x, edge_index)
        >>> bool(first == second)
        True
    """

    seed: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seed", torch.zeros((), dtype=torch.long))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw another seed."""
        self.seed.random_(2**62)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """The score of each edge [E], of float32 or better."""
        if batch is None:
            batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
        if not torch.compiler.is_compiling():
            check_range(edge_index, x.size(0))
            check_graphs(batch, edge_index)
        batch = batch.contiguous()
        first, num_graphs = torch.searchsorted(batch, batch), x.size(0)  # a graph has a node, or no edge
        graph = first.index_select(0, edge_index[0])
        scores = ops.random_scores(edge_index - graph, graph, self.seed.expand(num_graphs))
        return scores.to(torch.promote_types(x.dtype, torch.float32))
