"""Budgets in plain torch operations: see `_torch`."""

import torch
from torch import Tensor

from compool.ops._checks import check_graphs
from compool.ops._dispatch import kernels_for


def least(share: float, size: Tensor) -> Tensor:
    """⌈share · size⌉, where 0.07 · 100 is 7 and not a bit more."""
    return torch.ceil(share * size.double() - 1e-6).long()


def top(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, batch: Tensor | None, quantile: float) -> Tensor:
    check_graphs(batch, edge_index)
    source = edge_index[0]
    graph = torch.zeros_like(source) if batch is None else batch[source]
    graph = graph.long().masked_fill(~candidate, -1)
    order = torch.argsort(edge_score, stable=True)
    order = order[torch.argsort(graph[order], stable=True)]  # by graph, then by score
    graph, score = graph[order].contiguous(), edge_score[order]
    place = torch.arange(order.size(0), device=order.device)
    start = torch.searchsorted(graph, graph)
    size = torch.searchsorted(graph, graph, right=True) - start
    repeat = torch.zeros_like(candidate)
    repeat[1:] = (score[1:] == score[:-1]) & (graph[1:] == graph[:-1])
    lower = place.masked_fill(repeat, 0).cummax(0).values - start  # how many of the graph's edges score lower
    merged = torch.empty_like(candidate)
    merged[order] = (graph >= 0) & (lower >= least(quantile, size))
    return merged


def forest(
    edge_score: Tensor,
    edge_index: Tensor,
    candidate: Tensor,
    num_nodes: int,
    batch: Tensor | None,
    ratio: float,
    max_size: int,
) -> tuple[Tensor, Tensor]:
    """Each round, a component takes its best edge (Borůvka). With a bound on sizes, only an edge that is the best of
    both of its components: nothing that is still to come can then change whether it fits.
    """
    check_graphs(batch, edge_index)
    source, target = edge_index.long()
    number = source.size(0)
    order = torch.argsort(edge_score, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(number, device=rank.device)
    accepted = torch.zeros_like(candidate)
    cluster = torch.arange(num_nodes, device=rank.device)
    left = candidate.nonzero().squeeze(1)
    while left.numel():
        size = torch.bincount(cluster, minlength=num_nodes)
        u, v = cluster[source[left]], cluster[target[left]]
        fits = (u != v) & (size[u] + size[v] <= max_size)
        left, u, v = left[fits], u[fits], v[fits]
        mine = rank[left]
        best = torch.full_like(cluster, number)
        best.scatter_reduce_(0, u, mine, "amin").scatter_reduce_(0, v, mine, "amin")
        one, two = best[u] == mine, best[v] == mine
        accepted[left[one | two if max_size >= num_nodes else one & two]] = True
        cluster, _, _ = kernels_for(edge_index).components(edge_index, accepted, num_nodes)
    return _first_of_each_graph(accepted, order, edge_score, source, batch, ratio, num_nodes)


def _first_of_each_graph(
    accepted: Tensor,
    order: Tensor,
    edge_score: Tensor,
    source: Tensor,
    batch: Tensor | None,
    ratio: float,
    num_nodes: int,
) -> tuple[Tensor, Tensor]:
    """As many accepted edges of each graph as its ratio allows, highest first, and the score of the last of them."""
    graph, allowed = merges(batch, ratio, num_nodes, order.device)
    edges = order[accepted[order]]
    home = graph[source[edges]]
    edges = edges[torch.argsort(home, stable=True)]
    home = graph[source[edges]].contiguous()
    place = torch.arange(edges.size(0), device=edges.device) - torch.searchsorted(home, home)
    kept = place < allowed[home]
    edges, home = edges[kept], home[kept]
    last = torch.full((num_nodes,), torch.inf, dtype=edge_score.dtype, device=edges.device)
    last.scatter_reduce_(0, home, edge_score[edges], "amin")
    return torch.zeros_like(accepted).index_fill_(0, edges, True), last[graph[source]]


def merges(batch: Tensor | None, ratio: float, num_nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The first node of each node's graph [N], which stands for the graph, and there how often it may merge [N]."""
    if batch is None:
        batch = torch.zeros(num_nodes, dtype=torch.long, device=device)
    first = torch.searchsorted(batch, batch)
    size = torch.searchsorted(batch, batch, right=True) - first
    return first, size - least(ratio, size)
