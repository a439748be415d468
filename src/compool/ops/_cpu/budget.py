"""Budgets: a maximum spanning forest, edge by edge."""

import numpy as np
import torch
from torch import Tensor

from compool.ops._checks import check_graphs
from compool.ops._cpu.arrays import descending, ends_of
from compool.ops._cpu.loops import fast, find
from compool.ops._torch_budget import merges


def forest(
    edge_score: Tensor,
    edge_index: Tensor,
    candidate: Tensor,
    num_nodes: int,
    batch: Tensor | None,
    ratio: float,
    max_size: int,
) -> tuple[Tensor, Tensor]:
    check_graphs(batch, edge_index)
    score, mask = edge_score.contiguous(), candidate.contiguous().numpy()
    graph, allowed = merges(batch, ratio, num_nodes, score.device)
    accepted, last = torch.zeros(score.numel(), dtype=torch.bool), torch.full((num_nodes,), torch.inf).to(score.dtype)
    parent, size = np.arange(num_nodes), np.ones(num_nodes, np.int64)
    args = (descending(score), *ends_of(edge_index), mask, score.numpy(), graph.numpy(), allowed.numpy())
    _kruskal(*args, max_size, parent, size, accepted.numpy(), last.numpy())
    return accepted, last[graph[edge_index[0].long()]]


@fast
def _kruskal(order, source, target, candidate, score, graph, allowed, max_size, parent, size, accepted, last):  # type: ignore[no-untyped-def]
    """`allowed`, how often a graph may merge, counts down; `size` holds at roots."""
    for e in order:
        if not candidate[e]:
            continue
        home = graph[source[e]]
        if allowed[home] <= 0:
            continue
        u, v = find(parent, source[e]), find(parent, target[e])
        if u == v or size[u] + size[v] > max_size:
            continue
        if u > v:
            u, v = v, u
        parent[v] = u
        size[u] += size[v]
        allowed[home] -= 1
        accepted[e] = True
        last[home] = score[e]
