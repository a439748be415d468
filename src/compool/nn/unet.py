"""A graph U-Net with component pooling, for node-level tasks."""

from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import GCNConv

from compool.nn._settings import check_dropout
from compool.nn.component_pooling import ComponentPooling
from compool.nn.pooled import Pooled
from compool.ops._checks import check_inputs


class ComponentUNet(torch.nn.Module):
    r"""Convolve and pool `depth` times, then as often unpool, add the features from before pooling, and convolve.

    The paper's adaptation of the graph U-Net (`Gao and Ji 2019 <https://arxiv.org/abs/1905.05178>`_): unpooling gives
    each node the features of its supernode and restores the edges. Pooling keeps components connected, so the second
    power of the adjacency matrix is not needed.

    Args:
        in_channels: size of each node's features.
        hidden_channels: number of hidden channels.
        out_channels: size of each node's output.
        depth: number of pooling layers.
        dropout: probability of dropout after each convolution except the last.
        skip: ``"sum"`` to add the features from before pooling, or ``"cat"`` to concatenate them.
        conv: makes a convolution from its input and output channels; the convolution takes features and edges.
        pooling: settings of :class:`~compool.ComponentPooling`, such as ``ratio=0.5``.

    Example:
        >>> network = ComponentUNet(16, 32, 7, depth=2, ratio=0.5)
        >>> x, edge_index = torch.randn(4, 16), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> network(x, edge_index).shape
        torch.Size([4, 7])
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        depth: int = 2,
        dropout: float = 0.0,
        skip: str = "sum",
        conv: Callable[[int, int], torch.nn.Module] = GCNConv,
        **pooling: Any,
    ) -> None:
        super().__init__()
        if not isinstance(depth, int) or depth < 1:
            raise ValueError(f"depth must be a whole number, at least 1; got {depth!r}")
        check_dropout(dropout)
        if skip not in ("sum", "cat"):
            raise ValueError(f"skip must be 'sum' or 'cat', got {skip!r}")
        if "edge_dim" in pooling:
            raise ValueError("edge_dim must be None: the convolutions take no edge features")
        self.in_channels, self.depth, self.dropout, self.skip = in_channels, depth, dropout, skip
        down = [in_channels] + [hidden_channels] * depth
        joined = hidden_channels * (2 if skip == "cat" else 1)
        up = [hidden_channels] * (depth - 1) + [out_channels]
        self.down = torch.nn.ModuleList(conv(width, hidden_channels) for width in down)
        self.pools = torch.nn.ModuleList(MeanComponentPooling(hidden_channels, **pooling) for _ in range(depth))
        self.up = torch.nn.ModuleList(conv(joined, width) for width in up)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None) -> Tensor:
        """The output for each node [N, out_channels].

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E], both directions.
            batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
        """
        first = cast(ComponentPooling, self.pools[0])
        weight = first._weight(x)  # not from parameters(), which is empty in data-parallel replicas
        check_inputs(x, edge_index, batch, None, self.in_channels, None, weight)
        x = self._convolve(self.down[0], x, edge_index)
        levels: list[tuple[Tensor, Pooled]] = []
        for pool, conv in zip(self.pools, self.down[1:], strict=True):
            pooled = pool(x, edge_index, batch)
            levels.append((x, pooled))
            edge_index, batch = pooled.edge_index, pooled.batch
            x = self._convolve(conv, pooled.x, edge_index)
        for level, (conv, (before, pooled)) in enumerate(zip(self.up, reversed(levels), strict=True), 1):
            fine = pooled.restore(x)
            x = before + fine.x if self.skip == "sum" else torch.cat([before, fine.x], dim=1)
            x = conv(x, fine.edge_index) if level == self.depth else self._convolve(conv, x, fine.edge_index)
        return x

    def _convolve(self, conv: torch.nn.Module, x: Tensor, edge_index: Tensor) -> Tensor:
        return F.dropout(conv(x, edge_index).relu(), self.dropout, self.training)


class MeanComponentPooling(ComponentPooling):
    """Component pooling that divides each sum by the number of members.

    Sums over large supernodes would drown out what the skip connection adds to them.
    """

    _per_member = True
