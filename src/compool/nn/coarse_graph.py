"""Pooling that returns only the coarse graph, for :class:`torch_geometric.nn.Sequential`."""

import torch
from torch import Tensor


class CoarseGraph(torch.nn.Module):
    """Return only the coarse graph of a pooling layer, without the values that unpooling needs.

    :class:`torch_geometric.nn.Sequential` needs a name for every value that a layer returns. This module returns only
    those that the next layer takes: features, edges and batch vector, and edge features if they are given.

    Args:
        pool: a :class:`~compool.ComponentPooling`, or any layer that returns features, edges and batch vector first.

    Example:
        >>> from torch_geometric.nn import GCNConv, Sequential, global_mean_pool
        >>> from compool import ComponentPooling
        >>> network = Sequential("x, edge_index, batch", [
        ...     (GCNConv(16, 32), "x, edge_index -> x"),
        ...     torch.nn.ReLU(),
        ...     (CoarseGraph(ComponentPooling(32)), "x, edge_index, batch -> x, edge_index, batch"),
        ...     (GCNConv(32, 32), "x, edge_index -> x"),
        ...     (global_mean_pool, "x, batch -> x"),
        ...     torch.nn.Linear(32, 3),
        ... ])
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
        >>> network(x, edge_index, torch.tensor([0, 0, 1, 1])).shape
        torch.Size([2, 3])
    """

    def __init__(self, pool: torch.nn.Module) -> None:
        super().__init__()
        self.pool = pool

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """The features, edges and batch vector of the coarse graph, and edge features if they are given."""
        given = (x, edge_index, batch) if edge_attr is None else (x, edge_index, batch, edge_attr)
        out = self.pool(*given)
        if isinstance(out, Tensor):
            kind = type(self.pool).__name__
            raise ValueError(f"pool must return features, edges and batch vector first, but {kind} returns a tensor")
        return tuple(out[:3]) if edge_attr is None else (out.x, out.edge_index, out.batch, out.edge_attr)
