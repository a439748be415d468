"""Spanning forests and budgets in plain torch operations: see `_torch`."""

import torch
from torch import Tensor

from compool.ops._checks import check_range, nan_weight
from compool.ops._dispatch import kernels_for


def least(share: float, size: Tensor) -> Tensor:
    """⌈share · size⌉, robust to rounding: 0.07 · 100 gives 7, not 8."""
    return torch.ceil(share * size.double() - 1e-6).long()


def top(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, batch: Tensor | None, quantile: float) -> Tensor:
    """The edges [E] that score above the lowest scores of their graph, whose number the quantile gives. The first node
    of a graph represents the graph.
    """
    if not candidate.numel():
        return candidate.clone()
    source = edge_index[0]
    graph = torch.zeros_like(source) if batch is None else torch.searchsorted(batch, batch)[source]
    size = torch.zeros(1 if batch is None else batch.size(0), dtype=torch.long, device=source.device)
    size.index_add_(0, graph, candidate.long())
    num_lowest = least(quantile, size)
    order = torch.argsort(edge_score, stable=True)
    edge_graph = graph.masked_fill(~candidate, size.size(0))  # edges that are no candidates come last
    order = order[torch.argsort(edge_graph[order], stable=True)]  # by graph, then by score
    highest_low = size.cumsum(0) - size + num_lowest - 1
    limit = edge_score[order[highest_low.clamp(0, order.size(0) - 1)]]
    return candidate & ((num_lowest == 0)[graph] | (edge_score > limit[graph]))


def forest(weight: Tensor, edge_index: Tensor, candidate: Tensor | None, num_nodes: int) -> Tensor:
    check_range(edge_index, num_nodes)
    if weight.isnan().any():
        raise nan_weight(weight)
    order = torch.argsort(weight, descending=True, stable=True)
    accepted = _accept(order, edge_index, candidate, num_nodes, num_nodes)
    return order[accepted[order]]


def capped_forest(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, num_nodes: int, max_size: int) -> Tensor:
    order = torch.argsort(edge_score, descending=True, stable=True)
    return _accept(order, edge_index, candidate, num_nodes, max_size)


def _accept(order: Tensor, edge_index: Tensor, candidate: Tensor | None, num_nodes: int, max_size: int) -> Tensor:
    """In each round, every component accepts its best edge (Borůvka). With a bound on sizes, only edges that are the
    best of both their components are accepted: no later edge can change whether they fit.
    """
    (source, target), num_edges = edge_index.long(), order.size(0)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(num_edges, device=rank.device)
    accepted = torch.zeros_like(order, dtype=torch.bool)
    cluster = torch.arange(num_nodes, device=rank.device)
    left = order if candidate is None else candidate.nonzero().squeeze(1)
    while left.numel():
        size = torch.bincount(cluster, minlength=num_nodes)
        u, v = cluster[source[left]], cluster[target[left]]
        fits = (u != v) & (size[u] + size[v] <= max_size)
        left, u, v = left[fits], u[fits], v[fits]
        mine = rank[left]
        best = torch.full_like(cluster, num_edges)
        best.scatter_reduce_(0, u, mine, "amin").scatter_reduce_(0, v, mine, "amin")
        for_source, for_target = best[u] == mine, best[v] == mine
        chosen = for_source | for_target if max_size >= num_nodes else for_source & for_target
        accepted[left[chosen]] = True
        cluster, _, _ = kernels_for(edge_index).components(edge_index, accepted, num_nodes)
    return accepted


def ratio(
    edge_score: Tensor, edge_index: Tensor, counted: Tensor, num_nodes: int, batch: Tensor | None, share: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    kernels = kernels_for(edge_index)
    edges = kernels.forest(edge_score, edge_index, counted, num_nodes)
    ends, kept, limit = highest(edges, edge_score, edge_index, num_nodes, batch, share)
    cluster, first, alone = kernels.components(ends, kept, num_nodes)
    merged = counted & (cluster[edge_index[0]] == cluster[edge_index[1]]) & (edge_score >= limit)
    return merged, cluster, first, alone


def highest(
    edges: Tensor, edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None, share: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of a forest's edges [2, F]; the mask of those that merge [F], so that this share of each graph's nodes
    is left; and for each edge of the graph [E], the score of the last edge that merges in the same graph.
    """
    ends = edge_index.index_select(1, edges)
    graph, kept = first_of_each_graph(ends[0], num_nodes, batch, share)
    last = torch.full((num_nodes,), torch.inf, dtype=edge_score.dtype, device=edges.device)
    last.scatter_reduce_(0, graph[ends[0]], edge_score[edges].masked_fill(~kept, torch.inf), "amin")
    return ends, kept, last[graph[edge_index[0]]]


def first_of_each_graph(source: Tensor, num_nodes: int, batch: Tensor | None, share: float) -> tuple[Tensor, Tensor]:
    """The first node of each node's graph [N], which represents the graph; and the mask of the edges of a forest,
    highest first, that must merge [F] so that this share of each graph's nodes is left.
    """
    if batch is None:
        batch = torch.zeros(num_nodes, dtype=torch.long, device=source.device)
    graph = torch.searchsorted(batch, batch)
    size = torch.searchsorted(batch, batch, right=True) - graph
    edge_graph, order = torch.sort(graph[source], stable=True)
    position = torch.arange(edge_graph.size(0), device=edge_graph.device) - torch.searchsorted(edge_graph, edge_graph)
    kept = torch.zeros_like(edge_graph, dtype=torch.bool)
    kept[order] = position < (size - least(share, size))[edge_graph]
    return graph, kept
