"""Baselines for component pooling on Color-connectivity: networks of PyG's layers for ``compool run``.

Message passing has the settings of the benchmark (Rampášek and Wolf 2021): residual layers with layer norm, 32 channels
and a mean readout. Pooling networks have the layers, ratios and readouts of PyG's own examples, with the same width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import (
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    GraphUNet,
    SAGPooling,
    TopKPooling,
    global_max_pool,
    global_mean_pool,
)

from compool.nn import EdgePooling


def perceptron(hidden: int, out: int) -> nn.Sequential:
    """Two linear layers."""
    return nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, out))


class GCN(nn.Module):
    """Residual message-passing layers with layer norm, and a mean over nodes."""

    depth = 4
    self_loops = True  # added here: PyG's layers would add them with dynamic sizes, which CUDA graphs forbid

    def __init__(self, in_channels: int, num_classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, hidden)
        self.layers = nn.ModuleList(self.layer(hidden) for _ in range(self.depth))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(self.depth))
        self.head = perceptron(hidden, num_classes)

    def layer(self, hidden: int) -> nn.Module:
        """A layer of message passing."""
        return GCNConv(hidden, hidden, add_self_loops=False)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """The logits of each graph [graphs, classes]."""
        if self.self_loops:
            edge_index = torch.cat([edge_index, torch.arange(x.size(0), device=x.device).expand(2, -1)], 1)
        x = self.first(x)
        for level, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = x + norm(layer(x, edge_index)).relu()
            x = self.between(level, x, batch, batch_size)
        return self.head(global_mean_pool(x, batch, batch_size))

    def between(self, level: int, x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """Update features after a layer."""
        return x


class GAT(GCN):
    """Attention with four heads in place of GCN."""

    def layer(self, hidden: int) -> nn.Module:
        """A layer of message passing."""
        return GATConv(hidden, hidden // 4, heads=4, add_self_loops=False)


class GIN4(GCN):
    """Four GIN layers."""

    self_loops = False

    def layer(self, hidden: int) -> nn.Module:
        """A layer of message passing."""
        return GINConv(perceptron(hidden, hidden))


class GIN8(GIN4):
    """Eight GIN layers."""

    depth = 8


class GIN16(GIN4):
    """Sixteen GIN layers."""

    depth = 16


class VirtualNode(GIN4):
    """GIN with a virtual node: after each layer it collects the mean of all nodes and sends its own state back."""

    def __init__(self, in_channels: int, num_classes: int, hidden: int = 32) -> None:
        super().__init__(in_channels, num_classes, hidden)
        self.virtual = nn.ModuleList(perceptron(hidden, hidden) for _ in range(self.depth - 1))

    def between(self, level: int, x: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """Add the state of the virtual node to all nodes."""
        if level == len(self.virtual):
            return x
        return x + self.virtual[level](global_mean_pool(x, batch, batch_size))[batch]


class TopK(nn.Module):
    """Three rounds of message passing and pooling; mean and maximum of each level, summed, as in PyG's example."""

    def __init__(self, in_channels: int, num_classes: int, hidden: int = 32) -> None:
        super().__init__()
        widths = (in_channels, hidden, hidden)
        self.layers = nn.ModuleList(GraphConv(width, hidden) for width in widths)
        self.pools = nn.ModuleList(self.pool(hidden) for _ in widths)
        self.head = perceptron(2 * hidden, num_classes)

    def pool(self, hidden: int) -> nn.Module:
        """A pooling layer."""
        return TopKPooling(hidden, ratio=0.8)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """The logits of each graph [graphs, classes]."""
        levels = []
        for layer, pool in zip(self.layers, self.pools, strict=True):
            x, edge_index, batch = self.coarse(pool, layer(x, edge_index).relu(), edge_index, batch)
            levels.append(torch.cat([global_mean_pool(x, batch, batch_size), global_max_pool(x, batch, batch_size)], 1))
        return self.head(sum(levels))

    def coarse(self, pool: nn.Module, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The coarse graph: features, edges, batch."""
        x, edge_index, _, batch, *_ = pool(x, edge_index, batch=batch)
        return x, edge_index, batch


class SAG(TopK):
    """Self-attention pooling."""

    def pool(self, hidden: int) -> nn.Module:
        """A pooling layer."""
        return SAGPooling(hidden, ratio=0.8)


class EdgePool(TopK):
    """Edge pooling: compool's, which is equivalent to PyG's but faster."""

    def pool(self, hidden: int) -> nn.Module:
        """A pooling layer."""
        return EdgePooling(hidden)

    def coarse(self, pool: nn.Module, x: Tensor, edge_index: Tensor, batch: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The coarse graph: features, edges, batch."""
        x, edge_index, batch, _ = pool(x, edge_index, batch)
        return x, edge_index, batch


class UNet(nn.Module):
    """PyG's graph U-Net, three levels deep, and a mean over nodes."""

    def __init__(self, in_channels: int, num_classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.body = GraphUNet(in_channels, hidden, hidden, depth=3, pool_ratios=0.5)
        self.head = perceptron(hidden, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, batch_size: int) -> Tensor:
        """The logits of each graph [graphs, classes]."""
        return self.head(global_mean_pool(F.relu(self.body(x, edge_index, batch)), batch, batch_size))
