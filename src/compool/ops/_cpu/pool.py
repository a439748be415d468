"""All steps in one: the usual path through the layer on a CPU."""

import numpy as np
import torch
from torch import Tensor

from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._cpu import budget, loops
from compool.ops._cpu.arrays import empty_like, ends_of, ready
from compool.ops.score import activate_, slope


def pool(
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    term: Tensor | None,
    edge_index: Tensor,
    batch: Tensor | None,
    activation: str,
    threshold: float,
    self_loops: bool,
    ratio: float | None,
) -> tuple[Tensor, ...]:
    num_nodes, num_edges = x.size(0), edge_index.size(1)
    source, target = ends_of(edge_index)
    graphs = np.empty(0, np.int64) if batch is None else batch.contiguous().numpy()
    if not loops.edges_fit(source, target, num_nodes, graphs):
        check_range(edge_index, num_nodes)
        check_graphs(batch, edge_index)

    # Eq. 1: S_ij = σ(ψ(x_i, x_j) + b). ψ is a sum of one number per end
    rows, edge_score = ready(x), halves.new_empty(num_edges)
    ends = np.empty((halves.size(0), num_nodes), edge_score.numpy().dtype)
    loops.node_ends(rows.numpy(), halves.contiguous().numpy(), ends)
    loops.score(ends[[0, -1]], source, target, bias.numpy(), edge_score.numpy())
    edge_score = activate_(edge_score if term is None else edge_score.add_(term), activation)

    # Eq. 2: the counted edges with S_ij > t; with a ratio, t depends on the graph
    counted, merged = np.empty(num_edges, np.bool_), edge_index.new_empty(num_edges, dtype=torch.bool)
    if not loops.distinct_sorted(source, target, counted):
        order, start, seen = np.empty(num_edges, np.int64), np.zeros(num_nodes + 1, np.int64), np.zeros(num_nodes, int)
        loops.distinct(source, target, start, order, seen, counted)
    score = edge_score.numpy()
    if loops.select(score, score.dtype.type(threshold), counted, merged.numpy()):
        raise nan_score(edge_score)

    # Their connected components
    if ratio is None:
        cluster, first = edge_index.new_empty(2, num_nodes, dtype=torch.long)
        parent = np.empty(num_nodes, np.int32 if num_nodes < 2**31 else np.int64)
        alone = edge_index.new_empty(num_nodes, dtype=torch.bool)
        members = (parent, cluster.numpy(), first.numpy(), alone.numpy())
        first = first[: loops.components(source, target, merged.numpy(), *members)]
    else:
        given = (edge_score, edge_index, torch.from_numpy(counted), num_nodes, batch, ratio)
        merged, cluster, first, alone = budget.ratio(*given)
    num_clusters = first.size(0)
    graph = torch.zeros_like(first) if batch is None else batch.index_select(0, first)

    # Eq. 3 and 4: x'_k = Σ w_i x_i over the members i of k, with w_i = Σ S_ij over merged edges
    weight = halves.new_zeros(num_nodes)
    out = empty_like(rows, num_clusters)
    args = (rows.numpy(), score, source, merged.numpy(), cluster.numpy(), first.numpy(), alone.numpy())
    loops.merge(*args, weight.numpy(), out.numpy())

    # Eq. 4: A'_kl = 1 where an edge joins members of k and l
    start, seen = np.zeros(num_clusters + 1, np.int64), np.zeros(num_clusters, np.int64)
    row, length = np.empty(num_edges, source.dtype), np.empty(num_clusters, np.int64)
    total = loops.connect_rows(source, target, cluster.numpy(), self_loops, False, start, row, seen, length)
    edges = edge_index.new_empty(2, total)
    loops.connect_fill(start, row, length, edges.numpy())
    return out, edge_score, cluster, edges, graph, merged, weight


def pool_backward(
    grad: Tensor,
    grad_score: Tensor | None,
    x: Tensor,
    halves: Tensor,
    edge_index: Tensor,
    edge_score: Tensor,
    cluster: Tensor,
    merged: Tensor,
    weight: Tensor,
    activation: str,
    has_term: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows, (source, target) = ready(x), ends_of(edge_index)
    grad_x, grad_weight, grad_raw = empty_like(rows, x.size(0)), torch.empty_like(weight), torch.empty_like(edge_score)
    given = (ready(grad), rows, weight, cluster, grad_x, grad_weight)
    loops.row_sum_backward(*(t.numpy() for t in given))
    loops.gather_merged(grad_weight.numpy(), source, merged.numpy(), grad_raw.numpy())
    if grad_score is not None:
        grad_raw += grad_score
    grad_raw *= slope(edge_score, activation)
    ends = weight.new_zeros(2, x.size(0))
    loops.sum_ends(grad_raw.numpy(), source, target, ends.numpy())
    if halves.size(0) == 1:
        ends = ends.sum(0, keepdim=True)
    grad_halves = torch.zeros_like(halves, memory_format=torch.contiguous_format)
    both = (halves.contiguous(), grad_x, grad_halves)
    loops.node_ends_backward(ends.numpy(), rows.numpy(), *(t.numpy() for t in both))
    return grad_x.to(x.dtype), grad_halves, grad_raw.sum().view(1), grad_raw if has_term else grad_raw.new_empty(0)
