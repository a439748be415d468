"""The results of pooling."""

from typing import NamedTuple

import torch
from torch import Tensor

from compool import ops
from compool.ops._checks import check_graph_ids


class Fine(NamedTuple):
    """The graph before pooling, with new features."""

    x: Tensor
    """Features of the nodes [N, …]."""
    edge_index: Tensor
    """Edges of the input [2, E]."""
    batch: Tensor
    """The graph of each node [N]."""
    edge_attr: Tensor | None
    """Features of the input's edges [E, …], or None."""


class Assigned(NamedTuple):
    """The supernode of each node, and the node's weight in it."""

    cluster: Tensor
    """The supernode of each node [N]."""
    weight: Tensor
    """The weight of each node in its supernode [N]."""
    num_supernodes: int
    """The number of supernodes, K."""
    edge_score: Tensor
    """The score of each edge [E]."""


class Pooled(NamedTuple):
    """The result of pooling: the coarse graph, and how the input maps to it."""

    x: Tensor
    """Features of the supernodes [K, d]."""
    edge_index: Tensor
    """Edges between supernodes [2, E'], sorted, without repeats."""
    batch: Tensor
    """The graph of each supernode [K], sorted."""
    cluster: Tensor
    """The supernode of each node [N]: 0..K−1, numbered by first member."""
    edge_score: Tensor
    """The score of each edge of the input [E]."""
    edge_attr: Tensor | None
    """Features of the edges between supernodes [E', …], or None if the input had none."""
    fine_edge_index: Tensor
    """The edges of the input [2, E]."""
    fine_edge_attr: Tensor | None
    """Features of the edges of the input [E, …], or None."""

    @property
    def kept(self) -> float:
        """The share of nodes kept, over all graphs; 1 if there are no nodes."""
        return self.x.size(0) / self.cluster.size(0) if self.cluster.size(0) else 1.0

    def kept_per_graph(self, batch_size: int | None = None) -> Tensor:
        """The share of nodes kept in each graph [graphs]; 1 for a graph without nodes.

        Args:
            batch_size: number of graphs; needed if the last graphs may have no nodes.

        Example:
            >>> import torch
            >>> from compool import ComponentPooling
            >>> x, edge_index = torch.ones(4, 2), torch.tensor([[0, 1], [1, 0]])
            >>> out = ComponentPooling(2, scorer="similarity")(x, edge_index, torch.tensor([0, 0, 1, 1]))
            >>> out.kept, out.kept_per_graph()
            (0.75, tensor([0.5000, 1.0000]))
        """
        nodes = self.batch.index_select(0, self.cluster)
        batch_size = check_graph_ids(nodes, batch_size)
        supernodes, nodes = (torch.bincount(ids, minlength=batch_size) for ids in (self.batch, nodes))
        return torch.where(nodes > 0, supernodes / nodes.clamp(min=1), 1.0)

    def unpool(self, x: Tensor) -> Tensor:
        """Give every node [N, …] the features `x` [K, …] of its supernode."""
        if x.dim() == 0 or x.size(0) != self.x.size(0):
            raise ValueError(f"x must have {self.x.size(0)} rows, one per supernode; got {list(x.shape)}")
        return ops.lift(x, self.cluster)

    def restore(self, x: Tensor) -> Fine:
        """The graph before pooling with features from :meth:`unpool`: edges, edge features and batch vector as given.

        Example:
            >>> import torch
            >>> from compool import ComponentPooling
            >>> out = ComponentPooling(16)(torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
            >>> out.restore(out.x).edge_index.tolist()
            [[0, 1, 2, 3], [1, 0, 3, 2]]
        """
        return Fine(self.unpool(x), self.fine_edge_index, self.unpool(self.batch), self.fine_edge_attr)

    def hierarchy(self) -> ops.Hierarchy:
        """The merges at all thresholds, from the scores of the input's edges; see :func:`compool.hierarchy`.

        An edge that is listed more than once counts with its highest score, whereas pooling uses the first.

        Example:
            >>> import torch
            >>> from compool import ComponentPooling
            >>> out = ComponentPooling(16)(torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
            >>> out.hierarchy().at(0.0).tolist() == out.cluster.tolist()
            True
        """
        batch = self.batch.index_select(0, self.cluster)
        return ops.hierarchy(self.fine_edge_index, self.edge_score, self.cluster.size(0), batch)
