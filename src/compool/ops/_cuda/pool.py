"""All steps in one: the usual path through the layer on a GPU, with few launches and one synchronisation."""

import struct

import torch
from torch import Tensor

from compool.ops._cuda import kernels, row_kernels
from compool.ops._cuda import launch as launching
from compool.ops._cuda.forest import forest
from compool.ops._cuda.launch import EDGES, HOOKS, NODES, PROGRAMS, check_nodes, launch, over, strided, tiles
from compool.ops._cuda.steps import raise_flagged, score
from compool.ops._torch import connect, distinct
from compool.ops._torch_budget import highest
from compool.ops.score import activate_


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
    (edges, stride), x = strided(edge_index), x.contiguous()
    num_nodes, num_edges, device = x.size(0), edges.size(1), x.device
    check_nodes(num_nodes)
    graphs, batched = (edges, False) if batch is None else (batch.contiguous(), True)
    grid, tile = tiles(num_nodes, x)
    by_node, by_edge = (-(-num_nodes // NODES),), (-(-num_edges // EDGES) or 1,)

    # What each end of an edge adds to its score; every node is a component by itself
    size = min(1 << max(2 * num_edges - 1, 0).bit_length(), launching.TABLE)
    table = torch.zeros(size + kernels.SIZE // 2, dtype=torch.long, device=device)
    flags = table[size:].view(torch.int32)
    parent, is_root = torch.empty(2, num_nodes, dtype=torch.int32, device=device)
    alone, merged = (torch.empty(length, dtype=torch.bool, device=device) for length in (num_nodes, num_edges))
    ends, weight = halves.new_empty(halves.size(0), num_nodes), halves.new_empty(num_nodes)
    nodes = (x, halves.contiguous(), ends, weight, parent, alone, graphs, flags, num_nodes)
    launch(kernels.start_and_project, grid[:1], *nodes, TWO=halves.size(0) == 2, HAS_BATCH=batched, **tile)

    counted = merged if ratio is None else torch.empty_like(merged)
    # Eq. 1 to 3: the scores, the edges with S_ij > t, their components, and w_i = Σ S_ij over them
    edge_score, mode = halves.new_empty(num_edges), activation
    if halves.dtype != torch.float32:  # the kernel's own activations have float32 precision
        raw = score(ends.expand(2, -1), edge_index, bias)
        edge_score, mode = activate_(raw if term is None else raw.add_(term), activation), "given"
    if num_edges:
        bits = struct.unpack(">ii", struct.pack(">d", threshold))  # a kernel takes a float as float32
        own = edge_score if term is None else term.contiguous()
        given = (edge_score, ends[0], ends[-1], bias, own, *bits, edges, stride, graphs)
        to = (merged, counted, parent, weight, flags, flags, num_edges, num_nodes)
        options = {"SCORE": mode, "HAS_TERM": term is not None, "HAS_BATCH": batched, "LIMITED": False, "BLOCK": HOOKS}
        options |= {"WEIGH": ratio is None, "HOOK": ratio is None}
        launch(kernels.select_and_hook, (-(-num_edges // HOOKS),), *given, *to, **options)
    if ratio is not None:  # a threshold that depends on the graph
        raise_flagged(flags.tolist(), edge_score, edge_index, num_nodes, batch)
        chosen = forest(edge_score, edge_index, None, num_nodes)
        tree, kept, limit = highest(chosen, edge_score, edge_index, num_nodes, batch, ratio)
        if chosen.numel():
            hooked = (tree, chosen.numel(), kept, parent, flags, chosen.numel(), num_nodes)
            launch(kernels.hook, over(chosen.numel(), HOOKS), *hooked, BLOCK=HOOKS)
    launch(kernels.flatten, by_node, parent, is_root, alone, num_nodes, BLOCK=NODES)
    if ratio is not None:
        torch.eq(parent[edge_index[0]], parent[edge_index[1]], out=merged)
        merged &= counted & (edge_score >= limit)
        weight.index_add_(0, edge_index[0], edge_score * merged)
    rank = torch.cumsum(is_root, 0, dtype=torch.int32)

    # Eq. 4: the pairs of supernodes that edges join
    keys, short_keys = table.new_empty(min(num_edges, size)), flags.new_empty(min(num_edges, size))
    joined = (edges, stride, parent, rank, table, size - 1, keys, short_keys, flags, num_edges, num_nodes, 1)
    options = {"PARENT": True, "SELF_LOOPS": self_loops, "INPUT_LOOPS": False, "BLOCK": EDGES}
    launch(kernels.insert_edges, by_edge, *joined, **options)

    num_clusters, num_pairs, *wrong = flags.tolist()  # the only synchronisation
    if any(wrong):
        raise_flagged([num_clusters, num_pairs, *wrong], edge_score, edge_index, num_nodes, batch)
        fresh = distinct(edge_index, num_nodes)
        if fresh is not None:  # repeats have equal scores: components do not change, but weights must not count them
            merged &= fresh
            weight = torch.zeros_like(weight).index_add_(0, edge_index[0], edge_score * merged)

    # Eq. 4: x'_k = Σ w_i x_i over the members i of k
    out = halves.new_zeros(num_clusters, x.size(1))
    cluster, first = parent.new_empty(num_nodes, dtype=torch.long), parent.new_empty(num_clusters, dtype=torch.long)
    graph = torch.empty_like(first) if batch is None else batch.new_empty(num_clusters)
    rows = (x, weight, alone, out, parent, rank, graphs, cluster, first, graph, num_nodes)
    launch(row_kernels.number_and_merge, grid, *rows, HAS_BATCH=batched, **tile)

    if wrong[kernels.FULL.value - 2]:
        coarse_edges = connect(edge_index, cluster, num_clusters, self_loops, False)
    else:
        short = num_clusters * num_clusters < 2**31
        ordered = (short_keys if short else keys)[:num_pairs].sort().values
        coarse_edges = torch.empty(2, num_pairs, dtype=edge_index.dtype, device=device)
        if num_pairs:
            split = (ordered, coarse_edges, num_pairs, num_pairs, num_clusters)
            launch(kernels.split_keys, (-(-num_pairs // EDGES),), *split, SHORT=short, BLOCK=EDGES)
    return out, edge_score, cluster, coarse_edges, graph, merged, weight


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
    grad, x, halves = grad.contiguous(), x.contiguous(), halves.contiguous()
    (edges, stride), num_nodes, rows = strided(edge_index), x.size(0), halves.size(0)
    num_edges = edges.size(1)
    ends, grad_halves, grad_bias = weight.new_empty(rows, num_nodes), torch.empty_like(halves), halves.new_empty(1)
    grad_raw = weight.new_empty(num_edges if has_term else 0)
    grid, tile = tiles(num_nodes, x)
    two, grad_weight = {"TWO": rows == 2}, torch.empty_like(weight)
    given = (grad, x, cluster, grad_weight, ends, grad_halves, grad_bias, num_nodes)
    launch(row_kernels.row_products, grid[:1], *given, **two, **tile)
    if num_edges:
        scores = (edge_score if grad_score is None else grad_score.contiguous(), edge_score, merged)
        to = (ends[0], ends[-1], grad_bias, grad_raw, num_edges)
        options = {"HAS_GRAD": grad_score is not None, "SCORE": activation, "HAS_TERM": has_term, "BLOCK": EDGES}
        launch(row_kernels.edges_backward, over(num_edges, EDGES), grad_weight, *scores, edges, stride, *to, **options)
    grad_x = torch.empty_like(x)
    programs = min(grid[0], PROGRAMS)
    nodes = (grad, x, weight, cluster, ends, halves, grad_x, grad_halves, num_nodes, grid[0], programs)
    launch(row_kernels.nodes_backward, (programs, grid[1]), *nodes, **two, **tile)
    return grad_x, grad_halves, grad_bias, grad_raw
