"""Budgets of component pooling in padded unions: no size depends on what merges. See `compool.ops.budget`."""

import torch
import torch.nn.functional as F
from torch import Tensor

from compool import ops
from compool.ops._torch_budget import least
from compool.replicas import kernels
from compool.replicas.union import Union


def coarsen_by_quantile(
    edge_score: Tensor, union: Union, quantile: float, self_loops: bool = False
) -> kernels.PaddedCoarse:
    """Merge the edges that :func:`~compool.ops.select_quantile` selects in each graph."""
    edge_index = union.edge_index
    args = (edge_score, edge_index, union.num_nodes, quantile, union.graph, union.counted)
    return _coarsen(ops.select_quantile(*args).merged, union, self_loops)


def coarsen_by_ratio(edge_score: Tensor, union: Union, ratio: float, self_loops: bool = False) -> kernels.PaddedCoarse:
    """Merge the edges that :func:`~compool.ops.select_ratio` selects in each graph."""
    edge_index, num_edges = union.edge_index, union.edge_index.size(1)
    num_graphs = union.graph_ptr.size(0) - 1
    forest = kernels.forest_padded(edge_score, edge_index, union.row_ptr, union.largest)
    forest = torch.where(forest < 0, num_edges, forest)  # the index num_edges means no edge
    score, graph = (
        F.pad(values, (0, 1), value=none)
        for values, none in ((edge_score.detach(), torch.inf), (union.edge_graph, num_graphs))
    )
    graph_of, order = graph[forest].sort(stable=True)  # by graph, then by score
    forest = forest[order]
    rank = torch.arange(forest.size(0), device=forest.device) - torch.searchsorted(graph_of, graph_of)
    size = union.graph_ptr.diff()
    kept = rank < F.pad(size - least(ratio, size), (0, 1))[graph_of]
    forest = torch.where(kept, forest, num_edges)
    last = score.new_full((num_graphs + 1,), torch.inf).scatter_reduce(0, graph_of, score[forest], "amin")
    selected = torch.zeros_like(score, dtype=torch.bool).index_fill_(0, forest, True)[:num_edges]
    coarse = _coarsen(selected, union, self_loops)
    source, target = coarse.parts.cluster[edge_index.long()]
    merged = union.counted & (source == target) & (edge_score >= last[union.edge_graph])
    return coarse._replace(merged=merged)


def _coarsen(selected: Tensor, union: Union, self_loops: bool) -> kernels.PaddedCoarse:
    return kernels.coarsen_padded(selected.float(), union.edge_index, union.row_ptr, 0.5, self_loops, union.largest)
