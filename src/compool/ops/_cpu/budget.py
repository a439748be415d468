"""Budgets. Every function is equivalent to its namesake in `_torch_budget`."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._cpu import budget_loops as loops
from compool.ops._cpu.arrays import ends_of
from compool.ops._cpu.forest import forest
from compool.ops._cpu.sort import descending
from compool.ops._cpu.steps import components
from compool.ops._torch_budget import least


def top(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, batch: Tensor | None, quantile: float) -> Tensor:
    """The edges [E] that score above the lowest scores of their graph, whose number the quantile gives."""
    num_nodes = int(edge_index.max()) + 1 if batch is None and edge_index.numel() else 0
    source, score, mask = ends_of(edge_index)[0], edge_score.contiguous().numpy(), candidate.contiguous().numpy()
    graph, _ = _graphs(batch, num_nodes if batch is None else batch.numel())
    size = np.zeros_like(graph)
    loops.count_edges(source, mask, graph, size)
    num_lowest, limit, merged = (
        least(quantile, torch.from_numpy(size)).numpy(),
        np.empty(graph.size, score.dtype),
        torch.empty_like(candidate),
    )
    loops.lowest(descending(edge_score), source, score, mask, graph, num_lowest.copy(), limit)
    loops.merge_above(source, score, mask, graph, num_lowest, limit, merged.numpy())
    return merged


def ratio(
    edge_score: Tensor, edge_index: Tensor, counted: Tensor, num_nodes: int, batch: Tensor | None, share: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    edges = forest(edge_score, edge_index, counted, num_nodes).numpy()
    (source, target), score = ends_of(edge_index), edge_score.contiguous().numpy()
    graph, size = _graphs(batch, num_nodes)
    allowed = size - least(share, torch.from_numpy(size)).numpy()
    merged, last = torch.zeros_like(counted), np.full(num_nodes, np.inf, score.dtype)
    loops.keep_highest(edges, source, score, graph, allowed, merged.numpy(), last)
    cluster, first, alone = components(edge_index, merged, num_nodes)
    args = (source, target, score, counted.contiguous().numpy(), cluster.numpy(), graph, last)
    loops.merge_inside(*args, merged.numpy())
    return merged, cluster, first, alone


def capped_forest(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, num_nodes: int, max_size: int) -> Tensor:
    accepted = edge_score.new_zeros(edge_score.numel(), dtype=torch.bool)
    parent, size = np.arange(num_nodes), np.ones(num_nodes, np.int64)
    args = (descending(edge_score), *ends_of(edge_index), candidate.contiguous().numpy())
    loops.kruskal(*args, max_size, parent, size, accepted.numpy())
    return accepted


def _graphs(batch: Tensor | None, num_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first node of each node's graph [N], which represents the graph; and at this node the graph's size [N]."""
    graph, size = np.empty(num_nodes, np.int64), np.zeros(num_nodes, np.int64)
    loops.graphs(np.empty(0, np.int64) if batch is None else batch.contiguous().numpy(), graph, size)
    return graph, size
