"""Stacked layers that keep the nodes with the highest scores: see `pooling`."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from compool import ops
from compool.replicas import kernels
from compool.replicas.layers import StackedLinear, add, multiply, require_equal_settings, require_settings, stacked
from compool.replicas.union import Union


class _Select(Module):
    """R modules ``SelectTopK`` of PyG: scores nodes by projection onto a unit vector."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.weight = stacked(layer.weight for layer in layers)

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, d] to scores [N]."""
        direction = self.weight / self.weight.norm(dim=2, keepdim=True)
        return multiply(x, direction, union).squeeze(1).tanh()


class StackedTopKPooling(Module):
    """R layers :class:`torch_geometric.nn.TopKPooling`; nodes stay in order, and ties keep the first nodes."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self._select(layers)

    def _select(self, layers: Sequence[Any]) -> None:
        require_settings(layers, min_score=None, multiplier=1.0)
        require_settings([layer.select for layer in layers], act=torch.nn.Tanh)
        require_equal_settings(layers, "ratio")
        self.ratio = layers[0].ratio
        self.select = _Select([layer.select for layer in layers])

    def score(self, x: Tensor, union: Union) -> Tensor:
        """The score of each node [N]."""
        return cast(Tensor, self.select(x, union))

    def forward(self, x: Tensor, union: Union, key: Tensor | None = None) -> tuple[Tensor, Union]:
        """The features of the kept nodes, times their scores, and their union; `key` is not used."""
        score, graphs = self.score(x, union), union.graph_ptr.size(0) - 1
        # Rounded up in each graph, and computed in another precision
        max_nodes = int(self.ratio * 1.000001 * x.size(0)) + graphs + 1 if self.ratio < 1 else int(self.ratio) * graphs
        return _induced(x, score, union, _highest(score.detach(), union, self.ratio), max_nodes)


class StackedSAGPooling(StackedTopKPooling):
    """R layers :class:`torch_geometric.nn.SAGPooling` with a ``GraphConv``."""

    def __init__(self, layers: Sequence[Any]) -> None:
        Module.__init__(self)
        if not hasattr(layers[0].gnn, "lin_rel"):  # PyG's GraphConv has it, and so do its parameters in `initial`
            raise ValueError(f"SAGPooling must have GNN=GraphConv, got {type(layers[0].gnn).__name__}")
        names = ("lin_rel", "lin_root")
        self.gnn = torch.nn.ModuleDict(
            {name: StackedLinear([getattr(layer.gnn, name) for layer in layers]) for name in names}
        )
        self._select(layers)

    def score(self, x: Tensor, union: Union) -> Tensor:
        """The score of each node [N]."""
        neighbour, own = (cast(StackedLinear, self.gnn[name]) for name in ("lin_rel", "lin_root"))
        both = multiply(x, torch.cat([neighbour.weight, own.weight], 1), union)
        attention = kernels.propagate(both[:, :1].contiguous(), union.row_ptr, union.edge_index[1]) + both[:, 1:]
        return cast(Tensor, self.select(add(attention, cast(Tensor, neighbour.bias), union), union))


def _highest(score: Tensor, union: Union, ratio: float) -> Tensor:
    """Mask [N] of the highest-scoring nodes of each graph: a share `ratio`, rounded up, or from 1 on `ratio` nodes."""
    zeros, graph = score.new_zeros(score.size(0), dtype=torch.long), union.graph
    order = score.argsort(descending=True, stable=True)
    order = order[graph[order].argsort(stable=True)]  # by graph, then by score
    position = zeros.index_copy(0, order, torch.arange(score.size(0), device=score.device))
    start = union.graph_ptr[graph]
    sizes = union.graph_ptr.diff()
    num_kept = (sizes * float(ratio)).ceil() if ratio < 1 else torch.full_like(sizes, int(ratio))
    num_kept = torch.nn.functional.pad(num_kept, (0, 1))  # padding nodes belong to no graph and are not kept
    return position - start < num_kept[graph]


def _induced(x: Tensor, score: Tensor, union: Union, keep: Tensor, max_nodes: int) -> tuple[Tensor, Union]:
    """The features, times scores, and the union of the nodes in the mask `keep` [N], in order; at most `max_nodes`."""
    num_nodes, (source, target) = keep.size(0), union.edge_index.long()
    new_id = torch.cumsum(keep, 0) - 1
    stays = keep[source] & keep[target]
    if union.padded:
        stays &= union.is_edge
        capacity = min(max_nodes, num_nodes)
        to = torch.where(keep, new_id, capacity)
        nodes = torch.arange(num_nodes, device=x.device)
        first = new_id.new_full((capacity + 1,), num_nodes).index_copy(0, to, nodes)[:-1]
        filler = torch.arange(capacity, device=x.device)  # padding reads rows spread over `x`, times zero
        member = torch.where(first < num_nodes, first, filler)
        weight = torch.where(first < num_nodes, score.index_select(0, member), 0)
    else:
        first = member = keep.nonzero().squeeze(1)
        weight = score.index_select(0, member)
    x = ops.row_sum(x, weight, member, torch.arange(first.size(0), device=x.device), first.size(0))
    before = torch.nn.functional.pad(torch.cumsum(stays, 0), (1, 0))
    ends = torch.stack([new_id[source], new_id[target]]).to(union.edge_index.dtype)
    if union.padded:
        capacity = ends.size(1)
        to = torch.where(stays, before[1:] - 1, capacity)
        edges = ends.new_zeros(2, capacity + 1).index_copy(1, to, ends)[:, :-1]
    else:
        edges = ends[:, stays]
    rows = before[union.row_ptr[torch.nn.functional.pad(first, (0, 1), value=num_nodes)]]
    return x, union.coarse(edges, first, union.looped, rows)
