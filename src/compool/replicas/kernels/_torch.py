"""The operations of stacked layers in plain torch operations: the reference."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops import _dispatch
from compool.replicas.kernels._dispatch import ReplicaKernels, kernels_for
from compool.replicas.kernels.unions import checked_capacity, row_segment, segment_sizes


def gather_graphs(
    graph_ids: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: int, edges: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    nodes, edges = checked_capacity(graph_ids, node_ptr, edge_ptr, nodes, edges)
    graph_ptr, _, node = _gather(node_ptr, graph_ids, nodes)
    _, graph, edge = _gather(edge_ptr, graph_ids, edges)
    shift = F.pad(graph_ptr[:-1], (0, 1)).to(edge_index.dtype)  # padding counts as an extra graph
    out = F.pad(edge_index, (0, 1))[:, edge]
    degree = F.pad(row_ptr.diff(), (0, 1))
    return graph_ptr, node, F.pad(torch.cumsum(degree[node], 0), (1, 0)), out + shift[graph]


def _gather(ptr: Tensor, segments: Tensor, capacity: int) -> tuple[Tensor, Tensor, Tensor]:
    """The start of each chosen segment in the result, and the segment and the source element at each position.

    The result has `capacity` positions. Padding is an extra segment, whose elements are the end of the source.
    """
    offset = F.pad(torch.cumsum(segment_sizes(ptr, segments), 0), (1, 0))
    segment = torch.repeat_interleave(torch.diff(offset, append=offset.new_full((1,), capacity)), output_size=capacity)
    position = torch.arange(segment.size(0), device=ptr.device)
    element = position + F.pad(ptr[segments] - offset[:-1], (0, 1))[segment]
    return offset, segment, torch.where(position < offset[-1], element, ptr[-1])


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, ptr: Tensor) -> Tensor:
    out = x.new_zeros(x.size(0), weight.size(1))
    for replica, (low, high) in enumerate(_segments(ptr)):
        if bias is None:
            torch.mm(x[low:high], weight[replica].t(), out=out[low:high])
        else:
            torch.addmm(bias[replica], x[low:high], weight[replica].t(), out=out[low:high])
    return out


def linear_activate(
    x: Tensor,
    weight: Tensor,
    onto: Tensor | None,
    bias: Tensor,
    ptr: Tensor,
    key: Tensor | None,
    probability: Tensor,
) -> Tensor:
    out = grouped_linear(x, weight, None, ptr)
    if onto is not None:
        out += onto
    return kernels_for(x).activate(out, bias, ptr, key, probability)


def grouped_outer(left: Tensor, right: Tensor, ptr: Tensor, has_sums: bool) -> tuple[Tensor, Tensor]:
    out = left.new_empty(ptr.size(0) - 1, left.size(1), right.size(1))
    for (low, high), product in zip(_segments(ptr), out, strict=True):
        torch.mm(left[low:high].t(), right[low:high], out=product)
    return out, segment_sum(left, ptr) if has_sums else left.new_empty(0, left.size(1))


def _segments(ptr: Tensor) -> list[tuple[int, int]]:
    return list(pairwise(ptr.tolist()))


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    out = x.new_zeros(ptr.size(0), x.size(1), dtype=wide)
    return out.index_add_(0, row_segment(ptr, x.size(0)), x.to(wide))[:-1].to(x.dtype)


def segment_repeat(x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    return F.pad(x, (0, 0, 0, 1)).index_select(0, row_segment(ptr, num_rows))


def segment_norm(
    x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    def each(values: Tensor) -> Tensor:
        return segment_repeat(values, ptr, x.size(0))

    num_rows = ptr.diff().clamp(min=1).unsqueeze(1)
    mean = segment_sum(x, ptr) / num_rows
    centred = x - each(mean)
    variance = segment_sum(centred * centred, ptr) / num_rows
    out = centred * each(weight * (variance + eps).rsqrt()) + each(bias)
    return out.relu() if relu else out, mean, variance


def segment_norm_backward(
    grad: Tensor,
    x: Tensor,
    out: Tensor,
    weight: Tensor,
    mean: Tensor,
    variance: Tensor,
    ptr: Tensor,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    def each(values: Tensor) -> Tensor:
        return segment_repeat(values, ptr, x.size(0))

    num_rows = ptr.diff().clamp(min=1).unsqueeze(1)
    if relu:
        grad = grad * (out > 0)
    scale = (variance + eps).rsqrt()
    normal = (x - each(mean)) * each(scale)
    grad_bias, grad_weight = segment_sum(grad, ptr), segment_sum(grad * normal, ptr)
    centred = grad - each(grad_bias / num_rows) - normal * each(grad_weight / num_rows)
    return centred * each(weight * scale), grad_weight, grad_bias


def propagate(
    x: Tensor, row_ptr: Tensor, neighbour: Tensor, left: Tensor | None, right: Tensor | None, own: Tensor | None
) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    out = x.new_zeros(x.shape, dtype=wide)
    messages = x.to(wide) if right is None else x * right.unsqueeze(1)
    target = row_segment(row_ptr, neighbour.size(0))  # entries after the last row are padding
    out = torch.cat([out, out[:1]]).index_add_(0, target, messages.index_select(0, neighbour))[:-1]
    if left is not None:
        out *= left.unsqueeze(1)
    if own is not None:
        out += x * own.unsqueeze(1)
    return out.to(x.dtype)


def _keep(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    """1 / (1 − p) for kept values, 0 for dropped ones, by a hash of the key and the position in the replica."""

    def each(values: Tensor) -> Tensor:
        return segment_repeat(values.unsqueeze(1), ptr, x.size(0))

    row = torch.arange(x.size(0), device=x.device).unsqueeze(1) - each(ptr[:-1])
    index = row * x.size(1) + torch.arange(x.size(1), device=x.device)
    low, high = (each(half) for half in (key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF))
    bits = _mix32(_mix32(index & 0xFFFFFFFF ^ low) ^ high)
    kept = (bits >> 8).float() * 2.0**-24 >= each(probability)
    return kept / (1 - each(probability.to(x.dtype)))


def _mix32(bits: Tensor) -> Tensor:
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B & 0xFFFFFFFF  # the finaliser of MurmurHash3
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return bits ^ (bits >> 16)


def drop(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    return x * _keep(x, ptr, key, probability)


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    out = (x if bias is None else x + segment_repeat(bias, ptr, x.size(0))).relu()
    return out if key is None else out * _keep(x, ptr, key, probability)


def activate_backward(grad: Tensor, out: Tensor, ptr: Tensor, probability: Tensor | None) -> tuple[Tensor, Tensor]:
    grad_x = grad.to(torch.promote_types(grad.dtype, torch.float32)) * (out > 0)
    if probability is not None:
        grad_x /= 1 - segment_repeat(probability.to(grad_x.dtype).unsqueeze(1), ptr, grad.size(0))
    return grad_x.to(grad.dtype), segment_sum(grad_x, ptr).to(grad.dtype)


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    is_edge = torch.arange(edge_index.size(1), device=ends.device) < row_ptr[-1]
    raw = (ends[0].index_select(0, edge_index[0]) + ends[1].index_select(0, edge_index[1])).where(is_edge, -torch.inf)
    from torch_geometric.utils import softmax  # imported here, as it takes seconds and is rarely needed

    share: Tensor = softmax(raw, edge_index[1].long(), num_nodes=ends.size(1))
    return share.where(is_edge, 0)


def softmax_ends_backward(grad: Tensor, share: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    (source, target), part = edge_index, grad * share
    into = grad.new_zeros(row_ptr.size(0) - 1).index_add_(0, target, part)
    return torch.zeros_like(into).index_add_(0, source, part - share * into.index_select(0, target))


def coarsen_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool, span: int
) -> tuple[Tensor, ...]:
    count, num_nodes = int(row_ptr[-1]), row_ptr.size(0) - 1
    scores = edge_score[:count].nan_to_num(torch.inf, torch.inf)  # NaN merges
    args = (scores, edge_index[:, :count], num_nodes, threshold, None, self_loops)
    selected, _, cluster, members, alone, edges, _ = _dispatch.kernels_for(edge_score).coarsen(*args)
    merged, first = torch.zeros_like(edge_score, dtype=torch.bool), torch.full_like(cluster, num_nodes)
    merged[:count], first[: members.size(0)] = selected, members
    out, rows = torch.zeros_like(edge_index), torch.zeros_like(row_ptr)
    out[:, : edges.size(1)] = edges
    torch.cumsum(torch.bincount(edges[0], minlength=num_nodes), 0, out=rows[1:])
    return merged, cluster, first, alone, out, rows


def forest_padded(edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, span: int) -> Tensor:
    count, num_nodes = int(row_ptr[-1]), row_ptr.size(0) - 1
    scores = edge_score[:count].nan_to_num(torch.inf, torch.inf, -torch.inf)
    edges = _dispatch.kernels_for(edge_score).forest(scores, edge_index[:, :count], None, num_nodes)
    return F.pad(edges, (0, num_nodes - edges.size(0)), value=-1)


def contract_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, span: int
) -> tuple[Tensor, ...]:
    count, num_nodes = int(row_ptr[-1]), row_ptr.size(0) - 1
    pairs = edge_index[:, :count]
    cluster, edges, _ = _dispatch.kernels_for(edge_score).contract(edge_score[:count], pairs, num_nodes)
    nodes, num_supernodes = torch.arange(num_nodes, device=cluster.device), int(cluster.max()) + 1 if num_nodes else 0
    least = torch.full_like(nodes[:num_supernodes], num_nodes).scatter_reduce_(0, cluster, nodes, "amin")
    first = torch.cat([least.sort().values, torch.full_like(nodes[num_supernodes:], num_nodes)])
    rank = torch.argsort(torch.argsort(least))
    chosen = torch.full_like(nodes, -1)
    chosen[rank[cluster[pairs[0, edges].long()]]] = edges
    cluster = rank[cluster]
    out, rows = torch.zeros_like(edge_index), torch.zeros_like(row_ptr)
    joined = _dispatch.kernels_for(edge_index).connect(pairs, cluster, num_supernodes, True, True)
    out[:, : joined.size(1)] = joined
    torch.cumsum(torch.bincount(joined[0], minlength=num_nodes), 0, out=rows[1:])
    return cluster, chosen, first, out, rows


KERNELS = ReplicaKernels(
    gather_graphs=gather_graphs,
    grouped_linear=grouped_linear,
    linear_activate=linear_activate,
    grouped_outer=grouped_outer,
    segment_sum=segment_sum,
    segment_repeat=segment_repeat,
    segment_norm=segment_norm,
    segment_norm_backward=segment_norm_backward,
    propagate=propagate,
    drop=drop,
    activate=activate,
    activate_backward=activate_backward,
    softmax_ends=softmax_ends,
    softmax_ends_backward=softmax_ends_backward,
    coarsen_padded=coarsen_padded,
    forest_padded=forest_padded,
    contract_padded=contract_padded,
)
