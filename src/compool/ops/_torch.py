"""The steps in plain torch operations: the reference, and the fallback for devices without kernels. Sums of half
precision accumulate in float32.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._dispatch import Kernels
from compool.ops._torch_budget import capped_forest, forest, ratio, top
from compool.ops._torch_graded import graded_share, graded_share_backward, merge_tree
from compool.ops._torch_similarity import edge_distance, edge_distance_backward, edge_moments, observe


def node_ends(x: Tensor, halves: Tensor) -> Tensor:
    return halves @ x.to(halves.dtype).t()


def node_ends_backward(grad: Tensor, x: Tensor, halves: Tensor, grad_x: Tensor) -> Tensor:
    """Adds to the gradient of `x`, and returns that of `halves`."""
    grad_x.addmm_(grad.t().to(x.dtype), halves.to(x.dtype))
    return grad @ x.to(grad.dtype)


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    check_range(edge_index, ends.size(1))
    return ends[0].index_select(0, edge_index[0]) + ends[1].index_select(0, edge_index[1]) + bias


def sum_ends(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    return torch.stack([values.new_zeros(num_nodes).index_add_(0, end, values) for end in edge_index])


def select(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None
) -> tuple[Tensor, Tensor]:
    check_range(edge_index, num_nodes)  # the score kernel on a GPU does not check it
    if edge_score.isnan().any():
        raise nan_score(edge_score)
    check_graphs(batch, edge_index)
    counted = edge_index[0] != edge_index[1]
    first = distinct(edge_index, num_nodes)
    if first is not None:
        counted &= first
    return counted & (edge_score > threshold), counted


def distinct(edge_index: Tensor, num_nodes: int) -> Tensor | None:
    """Mask [E] of the edges that do not repeat an earlier one; None if no edge does."""
    source, target = edge_index.long()
    key, order = torch.sort(source * num_nodes + target, stable=True)
    differs = key[1:] != key[:-1]
    if differs.all():
        return None
    return torch.ones_like(key, dtype=torch.bool).index_copy_(0, order[1:], differs)


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every node points at the smallest node of its component that it knows. Each round hooks both ends of every edge,
    and the nodes they point at, to the smaller of these two nodes, and then follows pointers once. The number of rounds
    grows with the logarithm of the longest path.
    """
    source, target = edge_index.long()[:, merged]
    nodes = torch.arange(num_nodes, device=edge_index.device)
    root = nodes
    while True:
        a, b = root[source], root[target]
        low = torch.minimum(a, b)
        hooked = root.clone()
        for end in (a, b, source, target):
            hooked.scatter_reduce_(0, end, low, "amin")
        hooked = hooked[hooked]
        if torch.equal(hooked, root):
            break
        root = hooked
    is_root = root == nodes
    cluster = (is_root.cumsum(0) - 1)[root]
    first = is_root.nonzero().squeeze(1)
    return cluster, first, (torch.bincount(cluster, minlength=first.size(0)) == 1)[cluster]


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    source, target = cluster[edge_index[0]], cluster[edge_index[1]]
    keep = source != target
    if self_loops:
        keep |= edge_index[0] != edge_index[1] if not input_loops else True
    scale = max(num_clusters, 1)
    key = torch.unique(source[keep] * scale + target[keep])
    return torch.stack([key // scale, key % scale]).to(edge_index.dtype)


def coarsen(
    select: Callable[..., tuple[Tensor, Tensor]],
    components: Callable[..., tuple[Tensor, Tensor, Tensor]],
    connect: Callable[..., Tensor],
    edge_score: Tensor,
    edge_index: Tensor,
    num_nodes: int,
    threshold: float,
    batch: Tensor | None,
    self_loops: bool,
) -> tuple[Tensor, ...]:
    """Three steps in one, by the kernels of each."""
    merged, counted = select(edge_score, edge_index, num_nodes, threshold, batch)
    cluster, first, alone = components(edge_index, merged, num_nodes)
    edges = connect(edge_index, cluster, first.size(0), self_loops, False)
    graph = torch.zeros_like(first) if batch is None else batch.index_select(0, first)
    return merged, counted, cluster, first, alone, edges, graph


def row_sum(
    x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor, num_rows: int, alone: Tensor | None
) -> Tensor:
    rows = x if source is None else x.index_select(0, source)
    return weight.new_zeros(num_rows, x.size(1)).index_add_(0, target, rows * weight.unsqueeze(1))


def row_sum_backward(
    grad: Tensor, x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    rows = grad.index_select(0, target).to(weight.dtype)
    members = x if source is None else x.index_select(0, source)
    grad_x, grad_weight = rows * weight.unsqueeze(1), (rows * members).sum(1)
    if source is not None:
        grad_x = weight.new_zeros(x.shape).index_add_(0, source, grad_x)
    return grad_x.to(x.dtype), grad_weight


def contract(edge_score: Tensor, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    check_range(edge_index, num_nodes)
    source, target = edge_index.long()
    order = torch.argsort(edge_score, descending=True, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(rank.size(0), device=rank.device)
    free = torch.ones(num_nodes, dtype=torch.bool, device=rank.device)
    chosen = torch.zeros_like(rank, dtype=torch.bool)
    left = torch.arange(rank.size(0), device=rank.device)
    while left.numel():  # contract the edges that outrank all edges they touch, and drop the edges they touch
        mine, u, v = rank[left], source[left], target[left]
        best = torch.full_like(free, rank.size(0), dtype=torch.long)
        best.scatter_reduce_(0, u, mine, "amin").scatter_reduce_(0, v, mine, "amin")
        now = (best[u] == mine) & (best[v] == mine)
        chosen[left[now]] = True
        free[u[now]] = False
        free[v[now]] = False
        left = left[free[u] & free[v]]
    edges = order[chosen[order]]
    alone = free.nonzero().squeeze(1)
    first = torch.cat([source[edges], alone])
    numbers = torch.arange(first.size(0), device=rank.device)
    cluster = torch.empty(num_nodes, dtype=torch.long, device=rank.device)
    cluster[target[edges]] = numbers[: edges.size(0)]
    cluster[first] = numbers
    return cluster, edges, first


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    num_pairs = supernode_score.size(0)  # one more row collects the nodes that are left out
    sums = supernode_score.new_zeros(num_pairs + 1, x.size(1))
    sums = sums.index_add_(0, cluster.clamp(max=num_pairs), x.to(sums.dtype))[:-1]
    return (sums * supernode_score.unsqueeze(1)).to(x.dtype)


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    cluster = cluster.clamp(max=supernode_score.size(0))
    grad, score = F.pad(grad, (0, 0, 0, 1)), F.pad(supernode_score, (0, 1))
    rows = grad.index_select(0, cluster).to(score.dtype)
    grad_score = torch.zeros_like(score).index_add_(0, cluster, (rows * x).sum(1))[:-1]
    return (rows * score[cluster].unsqueeze(1)).to(x.dtype), grad_score


def fold_key(key: Tensor, index: Tensor | None, plus: int) -> Tensor:
    bits = key * -4417276706812531889 + (plus + 1)
    bits = (bits if index is None else bits + index) * -7046029254386353131  # odd; then SplitMix64's finaliser
    bits = (bits ^ ((bits >> 30) & 0x3FFFFFFFF)) * -4658895280553007687
    bits = (bits ^ ((bits >> 27) & 0x1FFFFFFFFF)) * -7723592293110705685
    return bits ^ ((bits >> 31) & 0x1FFFFFFFF)


KERNELS = Kernels(
    node_ends=node_ends,
    node_ends_backward=node_ends_backward,
    score=score,
    sum_ends=sum_ends,
    select=select,
    components=components,
    connect=connect,
    coarsen=partial(coarsen, select, components, connect),
    row_sum=row_sum,
    row_sum_backward=row_sum_backward,
    top=top,
    ratio=ratio,
    forest=forest,
    capped_forest=capped_forest,
    contract=contract,
    edge_distance=edge_distance,
    edge_distance_backward=edge_distance_backward,
    edge_moments=edge_moments,
    observe=partial(observe, select, edge_moments, edge_distance),
    merge_tree=merge_tree,
    graded_share=graded_share,
    graded_share_backward=graded_share_backward,
    merge_pairs=merge_pairs,
    merge_pairs_backward=merge_pairs_backward,
    fold_key=fold_key,
)
