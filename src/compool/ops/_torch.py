"""The kernels in plain torch operations, for every device without kernels of its own; the reference for those that
have them. Sums of half precision accumulate in float32.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.utils import softmax

from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._library import kernel


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    check_range(edge_index, ends.size(1))
    return ends[0].index_select(0, edge_index[0]) + ends[1].index_select(0, edge_index[1]) + bias


def score_backward(grad: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    return torch.stack([grad.new_zeros(num_nodes).index_add_(0, end, grad) for end in edge_index])


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    there = torch.arange(edge_index.size(1), device=ends.device) < row_ptr[-1]
    raw = (ends[0].index_select(0, edge_index[0]) + ends[1].index_select(0, edge_index[1])).where(there, -torch.inf)
    share: Tensor = softmax(raw, edge_index[1].long(), num_nodes=ends.size(1))
    return share.where(there, 0)


def softmax_ends_backward(grad: Tensor, share: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    (source, target), part = edge_index, grad * share
    into = grad.new_zeros(row_ptr.size(0) - 1).index_add_(0, target, part)
    return torch.zeros_like(into).index_add_(0, source, part - share * into.index_select(0, target))


def select(edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float) -> tuple[Tensor, Tensor]:
    check_range(edge_index, num_nodes)  # a GPU's score kernel leaves it to this
    if edge_score.isnan().any():
        raise nan_score(edge_score)
    counted = edge_index[0] != edge_index[1]
    first = _distinct(edge_index, num_nodes)
    if first is not None:
        counted &= first
    return counted & (edge_score > threshold), counted


def _distinct(edge_index: Tensor, num_nodes: int) -> Tensor | None:
    """Mask [E] of the edges that repeat no earlier one; None: all."""
    source, target = edge_index.long()
    key, order = torch.sort(source * num_nodes + target, stable=True)
    differs = key[1:] != key[:-1]
    if differs.all():
        return None
    return torch.ones_like(key, dtype=torch.bool).index_copy_(0, order[1:], differs)


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every node points at the smallest node it has heard of; each round hooks both ends of every edge, and what they
    point at, to the smaller of the two, then jumps. Rounds grow with the logarithm of the longest path.
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


def coarsen(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    check_graphs(batch, edge_index)
    merged, counted = kernel("select", edge_score)(edge_score, edge_index, num_nodes, threshold)
    cluster, first, alone = kernel("components", edge_index)(edge_index, merged, num_nodes)
    edges = kernel("connect", edge_index)(edge_index, cluster, first.size(0), self_loops, False)
    graph = torch.zeros_like(first) if batch is None else batch.index_select(0, first)
    return merged, counted, cluster, first, alone, edges, graph


def coarsen_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool, span: int
) -> tuple[Tensor, ...]:
    count, num_nodes = int(row_ptr[-1]), row_ptr.size(0) - 1
    scores = edge_score[:count].nan_to_num(torch.inf, torch.inf)  # NaN merges
    args = (scores, edge_index[:, :count], num_nodes, threshold, None, self_loops)
    few, _, cluster, members, alone, edges, _ = kernel("coarsen", edge_score)(*args)
    merged, first = torch.zeros_like(edge_score, dtype=torch.bool), torch.full_like(cluster, num_nodes)
    merged[:count], first[: members.size(0)] = few, members
    out, rows = torch.zeros_like(edge_index), torch.zeros_like(row_ptr)
    out[:, : edges.size(1)] = edges
    torch.cumsum(torch.bincount(edges[0], minlength=num_nodes), 0, out=rows[1:])
    return merged, cluster, first, alone, out, rows


def pool(
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    activation: str,
    threshold: float,
    self_loops: bool,
) -> tuple[Tensor, ...]:
    ends = (halves @ x.to(halves.dtype).t()).expand(2, -1)  # this way round: see score.py
    raw = kernel("score", x)(ends, edge_index, bias)
    edge_score = raw.tanh_() if activation == "tanh" else raw.sigmoid_()
    args = (edge_score, edge_index, x.size(0), threshold, batch, self_loops)
    merged, _, cluster, first, alone, edges, graph = kernel("coarsen", x)(*args)
    out, weight = kernel("merge", x)(x, edge_score, edge_index, merged, cluster, first, alone)
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
) -> tuple[Tensor, Tensor, Tensor]:
    grad_x, through = kernel("merge_backward", x)(grad, x, weight, edge_index, merged, cluster)
    if grad_score is not None:
        through += grad_score
    slope = 1 - edge_score * edge_score if activation == "tanh" else edge_score * (1 - edge_score)
    raw = through * slope
    ends = kernel("score_backward", x)(raw, edge_index, x.size(0))
    if halves.size(0) == 1:
        ends = ends.sum(0, keepdim=True)
    grad_x.addmm_(ends.t().to(x.dtype), halves.to(x.dtype))
    return grad_x, ends @ x.to(ends.dtype), raw.sum().view(1)


def merge(
    x: Tensor, edge_score: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor, first: Tensor, alone: Tensor
) -> tuple[Tensor, Tensor]:
    weight = edge_score.new_zeros(x.size(0)).index_add_(0, edge_index[0], edge_score.masked_fill(~merged, 0.0))
    weight.masked_fill_(alone, 1.0)
    out = weight.new_zeros(first.size(0), x.size(1))
    return out.index_add_(0, cluster, x * weight.unsqueeze(1)), weight


def merge_backward(
    grad: Tensor, x: Tensor, weight: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor
) -> tuple[Tensor, Tensor]:
    rows = grad.index_select(0, cluster).to(weight.dtype)
    grad_score = (rows * x).sum(1).index_select(0, edge_index[0]).masked_fill_(~merged, 0.0)
    return (rows * weight.unsqueeze(1)).to(x.dtype), grad_score


def spread(x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
    out = weight.new_zeros(num_rows, x.size(1))
    return out.index_add_(0, target, x.index_select(0, source) * weight.unsqueeze(1)).to(x.dtype)


def spread_backward(grad: Tensor, x: Tensor, weight: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    rows = grad.index_select(0, target).to(weight.dtype)
    grad_weight = (rows * x.index_select(0, source)).sum(1)
    grad_x = weight.new_zeros(x.shape).index_add_(0, source, rows * weight.unsqueeze(1))
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
    while left.numel():  # contract the edges that outrank all that they touch, drop those that they touch
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


def contract_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, span: int
) -> tuple[Tensor, ...]:
    count, num_nodes = int(row_ptr[-1]), row_ptr.size(0) - 1
    pairs = edge_index[:, :count]
    cluster, edges, _ = kernel("contract", edge_score)(edge_score[:count], pairs, num_nodes)
    nodes, number = torch.arange(num_nodes, device=cluster.device), int(cluster.max()) + 1 if num_nodes else 0
    least = torch.full_like(nodes[:number], num_nodes).scatter_reduce_(0, cluster, nodes, "amin")
    first = torch.cat([least.sort().values, torch.full_like(nodes[number:], num_nodes)])
    rank = torch.argsort(torch.argsort(least))
    chosen = torch.full_like(nodes, -1)
    chosen[rank[cluster[pairs[0, edges].long()]]] = edges
    cluster = rank[cluster]
    out, rows = torch.zeros_like(edge_index), torch.zeros_like(row_ptr)
    joined = kernel("connect", edge_index)(pairs, cluster, number, True, True)
    out[:, : joined.size(1)] = joined
    torch.cumsum(torch.bincount(joined[0], minlength=num_nodes), 0, out=rows[1:])
    return cluster, chosen, first, out, rows


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    every, ones = torch.arange(x.size(0), device=x.device), torch.ones_like(cluster, dtype=supernode_score.dtype)
    number = supernode_score.size(0)  # a row more, for nodes that are left out
    sums = spread(x, ones, every, cluster.clamp(max=number), number + 1)[:-1]
    return (sums * supernode_score.unsqueeze(1)).to(x.dtype)


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    every, cluster = torch.arange(x.size(0), device=x.device), cluster.clamp(max=supernode_score.size(0))
    grad, score = F.pad(grad, (0, 0, 0, 1)), F.pad(supernode_score, (0, 1))
    grad_x, grad_node = spread_backward(grad, x, score[cluster], every, cluster)
    return grad_x, torch.zeros_like(score).index_add_(0, cluster, grad_node)[:-1]


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    source, target = cluster[edge_index[0]], cluster[edge_index[1]]
    keep = source != target
    if self_loops:
        keep |= edge_index[0] != edge_index[1] if not input_loops else True
    scale = max(num_clusters, 1)
    key = torch.unique(source[keep] * scale + target[keep])
    return torch.stack([key // scale, key % scale]).to(edge_index.dtype)
