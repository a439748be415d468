"""Random scores for edges, as a control."""

import torch
from torch import Tensor

from compool import ops
from compool.ops._checks import check_batch, check_edge_index, check_range


class RandomScore(torch.nn.Module):
    r"""A random score for each undirected edge, uniform between −1 and 1, that never changes.

    The score is a hash of a seed, of all edges of the graph, and of the indices of the edge's two nodes in the graph.
    So a graph is always pooled in the same way, in training and in evaluation, whatever else is in its batch, as by a
    trained layer: only the learning is missing. New scores in each step would also augment the data. The seed is drawn
    together with the weights of a network, and saved with them, so runs have different seeds.

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
        """Draw a new seed."""
        self.seed.random_(2**62)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """The score of each edge [E], in float32 or wider."""
        if batch is None:
            batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
        if not torch.compiler.is_compiling():
            check_edge_index(edge_index)
            check_range(edge_index, x.size(0))
            check_batch(batch, edge_index, x.size(0))
        batch = batch.contiguous()
        first, num_graphs = torch.searchsorted(batch, batch), x.size(0)  # a graph has a node, or no edge
        graph = first.index_select(0, edge_index[0])
        scores = ops.random_scores(edge_index - graph, graph, self.seed.expand(num_graphs))
        return scores.to(torch.promote_types(x.dtype, torch.float32))
