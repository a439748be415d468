"""Pooling of padded graphs on a GPU; nothing is copied to the host."""

import torch
from torch import Tensor

from compool.ops._cuda import forest_kernels, kernels
from compool.ops._cuda.launch import EDGES, NODES, launch, over, strided, wide
from compool.ops._cuda.steps import rank_roots, select_and_hook, start_alone
from compool.replicas.kernels import _cuda_padded_kernels as padded
from compool.replicas.kernels import _torch


def coarsen_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool, span: int
) -> tuple[Tensor, ...]:
    num_nodes = row_ptr.numel() - 1
    if not num_nodes:
        return _torch.coarsen_padded(edge_score, edge_index, row_ptr, threshold, self_loops, span)
    parent, alone, flags = start_alone(num_nodes, None, edge_index.device)
    merged = select_and_hook(edge_score, edge_index, threshold, None, parent, flags, row_ptr[-1:])[0]
    cluster, first = _numbered_padded(parent, rank_roots(parent, alone))
    edges, rows = _connected(edge_index, cluster, row_ptr[-1:], span, self_loops)
    return merged, cluster, first, alone, edges, rows


def _numbered_padded(parent: Tensor, rank: Tensor) -> tuple[Tensor, Tensor]:
    """The component of each node, and the first member of each component, padded with N."""
    num_nodes, cluster = parent.numel(), torch.empty_like(parent, dtype=torch.long)
    first, graph = torch.full_like(cluster, num_nodes), torch.empty_like(cluster)
    args = (parent, rank, parent, cluster, first, graph, num_nodes)
    launch(kernels.number_nodes, over(num_nodes, NODES), *args, HAS_BATCH=False, BLOCK=NODES)
    return cluster, first


def _rows(num_nodes: int) -> tuple[tuple[int], dict[str, int]]:
    """The grid and the tile of a kernel over nodes and their edges; wide, as nodes with many edges take longest."""
    return over(num_nodes, 16), {"ROWS": 16, "WIDE": 64}


def softmax_ends(ends: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    num_nodes, (edges, stride), dtype = ends.size(1), strided(edge_index), ends.dtype
    ends = ends.to(wide(ends)).contiguous()
    share = ends.new_empty(edges.size(1))
    if share.numel():
        largest, total = ends.new_empty(2, num_nodes)
        grid, tile = _rows(num_nodes)
        launch(padded.softmax_rows, grid, ends, row_ptr, edges[1], largest, total, num_nodes, **tile)
        args = (ends, edges, stride, largest, total, share, row_ptr[-1:], num_nodes, edges.size(1))
        launch(padded.softmax_edges, over(edges.size(1), EDGES), *args, BLOCK=EDGES)
    return share.to(dtype)


def softmax_ends_backward(grad: Tensor, share: Tensor, edge_index: Tensor, row_ptr: Tensor) -> Tensor:
    if torch.are_deterministic_algorithms_enabled() or not grad.numel():
        return _torch.softmax_ends_backward(grad, share, edge_index, row_ptr)
    num_nodes, (edges, stride), dtype = row_ptr.numel() - 1, strided(edge_index), grad.dtype
    grad, share = (t.to(wide(t)).contiguous() for t in (grad, share))
    into, out = grad.new_zeros(num_nodes), grad.new_empty(num_nodes)
    args = (grad, share, edges, stride, into, row_ptr[-1:], edges.size(1))
    launch(padded.softmax_into, over(edges.size(1), EDGES), *args, BLOCK=EDGES)
    grid, tile = _rows(num_nodes)
    launch(padded.softmax_out, grid, grad, share, row_ptr, edges[1], into, out, num_nodes, **tile)
    return out.to(dtype)


def forest_padded(edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, span: int) -> Tensor:
    """Borůvka's algorithm as in `ops._cuda.forest`, with as many rounds as the largest graph may need, each over all
    edges.
    """
    num_nodes, num_edges = row_ptr.numel() - 1, edge_index.size(1)
    if edge_score.dtype != torch.float32 or not num_nodes or not num_edges:
        return _torch.forest_padded(edge_score, edge_index, row_ptr, span)
    (edges, stride), score = strided(edge_index), edge_score.contiguous()
    flags = torch.zeros(2, kernels.SIZE, dtype=torch.int32, device=edges.device)
    parent = torch.arange(num_nodes, dtype=torch.int32, device=edges.device)
    above, best = torch.empty_like(parent), row_ptr.new_full((num_nodes,), forest_kernels.NO_OFFER.value)
    chosen = best.clone()
    options = {"LISTED": False, "KEEP": False, "MASKED": False, "WIDE": False, "TIES": False, "BLOCK": EDGES}
    over_nodes, per_node = over(num_nodes, NODES), {"WIDE": False, "BLOCK": NODES}
    for _ in range((span - 1).bit_length()):  # each halves the number of components that still have an edge
        given = (score, edges, stride, edges, parent, best, parent, parent, parent, flags[1], flags[0])
        launch(forest_kernels.offer_edges, over(num_edges, EDGES), *given, num_edges, num_nodes, **options)
        nodes = (edges, stride, parent, best, parent, above, chosen, flags[0], num_nodes)
        launch(forest_kernels.hook_best, over_nodes, *nodes, **per_node)
        launch(forest_kernels.settle, over_nodes, above, best, parent, num_nodes, **per_node)
        parent, above = above, parent
    chosen = chosen.sort().values
    return torch.where(chosen == forest_kernels.NO_OFFER.value, -1, chosen & 0x7FFFFFFF)


def contract_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, graph_ptr: Tensor, span: int
) -> tuple[Tensor, ...]:
    num_nodes, num_edges = row_ptr.numel() - 1, edge_index.size(1)
    if edge_score.dtype != torch.float32 or not num_nodes or not num_edges:
        return _torch.contract_padded(edge_score, edge_index, row_ptr, graph_ptr, span)
    edges, stride = strided(edge_index)
    grid, graph_ptr = (graph_ptr.numel() - 1,), graph_ptr.contiguous()
    keys, edge_of = row_ptr.new_full((num_edges,), 2**63 - 1), torch.full_like(row_ptr[:-1], -1, dtype=torch.int32)
    launch(padded.contraction_keys, grid, edge_score.contiguous(), row_ptr, graph_ptr, keys, BLOCK=EDGES)
    order = keys.sort(stable=True).indices
    # The largest graph takes longest: if graphs are dense, use few large blocks; otherwise, most graphs are one block
    block, warps = (2048, 4) if num_edges >= 16 * num_nodes else (512, 1)
    launch(padded.contract, grid, order, edges, stride, row_ptr, graph_ptr, edge_of, BLOCK=block, num_warps=warps)
    nodes = torch.arange(num_nodes, dtype=torch.int32, device=edges.device)
    edge_or_filler = torch.where(edge_of < 0, nodes % num_edges, edge_of)  # spreads unused reads over memory
    ends = edges.index_select(1, edge_or_filler)
    root = torch.where(edge_of < 0, nodes, ends.amin(0).int())
    cluster, first = _numbered_padded(root, torch.cumsum(root == nodes, 0, dtype=torch.int32))
    chosen = torch.where(first < num_nodes, edge_of[first.clamp(max=num_nodes - 1)], -1).long()
    return cluster, chosen, first, *_connected(edge_index, cluster, row_ptr[-1:], span, True, True)


def _connected(
    edge_index: Tensor, root: Tensor, limit: Tensor, span: int, self_loops: bool, input_loops: bool = False
) -> tuple[Tensor, Tensor]:
    """The edges between roots, sorted, without repeats, padded with zeros; and the start of each row.

    Edges are sorted by 32-bit keys if these suffice, which takes half the time.
    """
    edges, stride = strided(edge_index)
    num_edges, num_nodes = edges.size(1), root.numel()
    out, rows = torch.zeros_like(edges), root.new_zeros(num_nodes + 1)
    if num_edges:
        bits = max(span, 1).bit_length() + 1  # for the distance of two roots that an edge joins
        bits, dtype = (bits, torch.int32) if num_nodes << bits < 2**31 else (32, torch.int64)
        keys, none, short = root.new_empty(num_edges, dtype=dtype), {"NONE": torch.iinfo(dtype).max}, {"BITS": bits}
        grid, block = over(num_edges, EDGES), {"BLOCK": EDGES}
        loops = {"SELF_LOOPS": self_loops, "INPUT_LOOPS": input_loops}
        launch(padded.pair_keys, grid, edges, stride, root, keys, limit, num_edges, **none, **short, **loops, **block)
        keys = keys.sort().values
        is_first = torch.empty_like(keys, dtype=torch.int32)
        launch(padded.first_of_runs, grid, keys, is_first, num_edges, **none, **block)
        rank = torch.cumsum(is_first, 0, dtype=torch.int32)
        launch(padded.place_edges, grid, keys, rank, out, num_edges, num_edges, **short, **block)
        steps = {"STEPS": num_edges.bit_length() + 1, "BLOCK": NODES}
        launch(padded.row_starts, over(num_nodes + 1, NODES), keys, rank, rows, num_edges, num_nodes, **short, **steps)
    return out, rows
