"""A learnable readout: pools each graph to one vector, weighted by edge scores."""

import torch
from torch import Tensor

from compool import ops
from compool.nn._scorer import EdgeScorer, Scorer
from compool.nn._settings import Score, non_default, score_name
from compool.ops._checks import check_crossing, check_graph_ids, check_inputs, check_range


class GlobalComponentPooling(EdgeScorer):
    r"""The paper's learnable global pooling: each graph becomes one supernode.

    All edges of a graph merge, whatever their scores, so Eq. 3 and 4 reduce the graph to one vector:

    .. math:: x'_g = \sum_{i \in g} w_i x_i, \quad w_i = \sum_{(i, j) \in \mathcal{E}} S_{ij}, \quad
        w_i = 1 \text{ if no edge touches } i.

    A disconnected graph becomes one vector, too. Time and memory are linear in nodes and edges.

    Args:
        in_channels: size of each node's features.
        score: the function :math:`\sigma` of a raw score: ``"tanh"``, ``"sigmoid"``, ``"hardtanh"``, or a callable
            from raw scores [E] to scores [E]; by default hardtanh for the similarity scorer, else tanh.
        symmetric: use one score for both directions of an edge, from the mean of the two raw scores.
        reduce: ``"sum"`` as above, or ``"mean"``, which divides by the number of nodes.
        edge_dim: size of each edge's features, which then enter the score.
        scorer: as in :class:`~compool.ComponentPooling`.

    Example:
        >>> readout = GlobalComponentPooling(16)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> readout(x, edge_index, batch=torch.tensor([0, 0, 1, 1])).shape
        torch.Size([2, 16])
    """

    def __init__(
        self,
        in_channels: int,
        score: Score | None = None,
        symmetric: bool = False,
        reduce: str = "sum",
        edge_dim: int | None = None,
        scorer: Scorer = "linear",
    ) -> None:
        if scorer == "random":
            raise ValueError("scorer='random' has no effect here, as all edges merge; choose 'linear' or 'similarity'")
        super().__init__(in_channels, score, symmetric, edge_dim, scorer)
        if reduce not in ("sum", "mean"):
            raise ValueError(f"reduce must be 'sum' or 'mean', got {reduce!r}")
        self.reduce = reduce

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """One vector per graph [graphs, in_channels].

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E]; both directions for undirected edges. Self-loops and repeated edges are ignored.
            batch: the graph of each node [N]; by default all nodes belong to one graph.
            edge_attr: features of the edges [E, edge_dim], if the layer has an `edge_dim`.
            batch_size: number of graphs; needed if the last graphs may have no nodes.
        """
        check_inputs(x, edge_index, batch, edge_attr, self.in_channels, self.edge_dim, self._weight(x))
        num_nodes = x.size(0)
        if batch is None:
            batch = torch.zeros(num_nodes, dtype=torch.long, device=x.device)
            batch_size = 1 if batch_size is None else batch_size
        batch_size = check_graph_ids(batch, batch_size)
        # Reading the edges would synchronise with a GPU
        if batch_size > 1 and not torch.compiler.is_compiling() and not x.is_cuda:
            check_range(edge_index, num_nodes)
            check_crossing(batch, edge_index)

        edge_score, x = self._score(x, edge_index, edge_attr)
        counted = ops.select(edge_score, edge_index, num_nodes, -torch.inf).counted
        weight, _ = ops.sum_ends(edge_score * counted, edge_index, num_nodes)
        touched = ops.sum_ends(counted.to(weight.dtype), edge_index, num_nodes).sum(0) > 0
        weight, graph = weight.masked_fill(~touched, 1.0), batch.long()  # Eq. 3
        if self.reduce == "mean":  # divide before summing: the sum may overflow in half precision
            weight = weight / ops.count_members(graph, batch_size)[graph]
        return ops.row_sum(x, weight, None, graph, batch_size)  # Eq. 4

    def __repr__(self) -> str:
        settings = {
            "symmetric": (self.symmetric, False),
            "reduce": (self.reduce, "sum"),
            "edge_dim": (self.edge_dim, None),
            "scorer": (self.scorer_name, "linear"),
        }
        shown = ", ".join([str(self.in_channels), f"score={score_name(self.score)}", *non_default(settings)])
        return f"{type(self).__name__}({shown})"
