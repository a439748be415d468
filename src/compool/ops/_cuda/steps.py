"""The steps one by one. Every function is equivalent to its namesake in `_torch`."""

import struct

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._cuda import kernels
from compool.ops._cuda import launch as launching
from compool.ops._cuda.launch import EDGES, HOOKS, NODES, check_nodes, launch, over, power, strided


def threshold_bits(value: float) -> tuple[int, int]:
    """The two halves of a float64 as integers, because a kernel takes a float argument as float32."""
    high, low = struct.unpack(">ii", struct.pack(">d", value))
    return high, low


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    out = ends.new_empty(edge_index.size(1))
    edges, stride = strided(edge_index)
    if out.numel():
        left, right = (end.contiguous() for end in ends)
        grid = over(out.numel(), EDGES)
        launch(kernels.score, grid, left, right, edges, stride, bias, out, out.numel(), ends.size(1), BLOCK=EDGES)
    return out


def sum_ends(values: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.sum_ends(values, edge_index, num_nodes)
    ends = values.new_zeros(2, num_nodes)
    edges, stride = strided(edge_index)
    if values.numel():
        args = (values.contiguous(), edges, stride, ends[0], ends[1], values.numel())
        launch(kernels.sum_ends, over(values.numel(), EDGES), *args, BLOCK=EDGES)
    return ends


def start_alone(num_nodes: int, batch: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """`parent` and `alone` for nodes that are components by themselves, and `flags`."""
    check_nodes(num_nodes)
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone = torch.empty(num_nodes, dtype=torch.bool, device=device)
    if num_nodes:
        given = parent if batch is None else batch.contiguous()
        args = (parent, alone, given, flags, num_nodes)
        launch(kernels.start, over(num_nodes, NODES), *args, HAS_BATCH=batch is not None, BLOCK=NODES)
    return parent, alone, flags


def rank_roots(parent: Tensor, alone: Tensor) -> Tensor:
    """Point every node at its root; returns the rank of each root, from 1."""
    is_root = torch.empty_like(parent)
    if parent.numel():
        launch(kernels.flatten, over(parent.numel(), NODES), parent, is_root, alone, parent.numel(), BLOCK=NODES)
    return torch.cumsum(is_root, 0, dtype=torch.int32)


def numbered(parent: Tensor, rank: Tensor, num_components: int, batch: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The component of each node, and the first member and the graph of each component."""
    cluster = torch.empty_like(parent, dtype=torch.long)
    first = cluster.new_empty(num_components)
    graph = torch.empty_like(first, dtype=torch.long if batch is None else batch.dtype)
    if num_components:
        given = parent if batch is None else batch.contiguous()
        args = (parent, rank, given, cluster, first, graph, parent.numel())
        launch(kernels.number_nodes, over(parent.numel(), NODES), *args, HAS_BATCH=batch is not None, BLOCK=NODES)
    return cluster, first, graph


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    parent, alone, flags = start_alone(num_nodes, None, edge_index.device)
    edges, stride = strided(edge_index)
    num_edges = edges.size(1)
    if num_edges:
        args = (edges, stride, merged.contiguous(), parent, flags, num_edges, num_nodes)
        launch(kernels.hook, over(num_edges, HOOKS), *args, BLOCK=HOOKS)
    rank = rank_roots(parent, alone)
    if num_nodes:
        flags[kernels.NUMBER.value] = rank[-1]
    message = flags.tolist()
    if message[kernels.RANGE.value]:
        check_range(edge_index, num_nodes)
    cluster, first, _ = numbered(parent, rank, message[kernels.NUMBER.value], None)
    return cluster, first, alone


def insert_pairs(
    edge_index: Tensor,
    num_nodes: int,
    parent: Tensor | None,
    rank: Tensor,
    num_supernodes: int,
    flags: Tensor,
    *loops: bool,
) -> tuple[Tensor, Tensor]:
    """Keys and short keys of the distinct pairs of supernodes that edges join, in any order; `flags` gets their number.

    `num_supernodes` is not used if `parent` is given; `loops` are the options `self_loops` and `input_loops`.
    """
    edges, stride = strided(edge_index)
    count = edges.size(1)
    size = min(power(2 * count), launching.TABLE)
    table = torch.zeros(size, dtype=torch.long, device=edges.device)
    keys, short_keys = table.new_empty(min(count, size)), flags.new_empty(min(count, size))
    if num_nodes:
        to = (table, size - 1, keys, short_keys, flags, count, num_nodes, num_supernodes)
        options = {"PARENT": parent is not None, "SELF_LOOPS": loops[0], "INPUT_LOOPS": loops[1], "BLOCK": EDGES}
        launch(
            kernels.insert_edges,
            over(max(count, 1), EDGES),
            edges,
            stride,
            rank if parent is None else parent,
            rank,
            *to,
            **options,
        )
    return keys, short_keys


def sorted_edges(keys: tuple[Tensor, Tensor], num_supernodes: int, count: int, dtype: torch.dtype) -> Tensor:
    """The edges between supernodes [2, count], sorted, decoded from the first `count` keys."""
    out = torch.empty(2, count, dtype=dtype, device=keys[0].device)
    if count:
        short = num_supernodes * num_supernodes < 2**31
        ordered = keys[short][:count].sort().values
        args = (ordered, out, count, count, num_supernodes)
        launch(kernels.split_keys, over(count, EDGES), *args, SHORT=short, BLOCK=EDGES)
    return out


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=cluster.device)
    keys = insert_pairs(edge_index, cluster.numel(), None, cluster, num_clusters, flags, self_loops, input_loops)
    message = flags.tolist()
    if message[kernels.FULL.value]:
        return _torch.connect(edge_index, cluster, num_clusters, self_loops, input_loops)
    return sorted_edges(keys, num_clusters, message[kernels.EDGES.value], edge_index.dtype)


def select_and_hook(
    edge_score: Tensor,
    edge_index: Tensor,
    threshold: float,
    batch: Tensor | None,
    parent: Tensor,
    flags: Tensor,
    limit: Tensor | None = None,
    hook: bool = True,
) -> tuple[Tensor, Tensor]:
    """Masks of the edges that merge and that count; with `hook`, the ends of merged edges are united in `parent`."""
    edges, stride = strided(edge_index)
    num_edges = edges.size(1)
    fresh = torch.empty if limit is None else torch.zeros
    merged, counted = (fresh(num_edges, dtype=torch.bool, device=edges.device) for _ in range(2))
    if num_edges:
        given = edge_score.contiguous()
        graphs = parent if batch is None else batch.contiguous()
        to = (graphs, merged, counted, parent, given, flags, flags if limit is None else limit)
        args = (given, given, given, given, given, *threshold_bits(threshold), edges, stride, *to)
        options = {"SCORE": "given", "HAS_TERM": False, "WEIGH": False}
        options |= {"HAS_BATCH": batch is not None, "LIMITED": limit is not None}
        sizes = (num_edges, parent.numel())
        launch(kernels.select_and_hook, over(num_edges, HOOKS), *args, *sizes, **options, HOOK=hook, BLOCK=HOOKS)
    return merged, counted


def select(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None
) -> tuple[Tensor, Tensor]:
    parent, _, flags = start_alone(num_nodes, batch, edge_index.device)
    merged, counted = select_and_hook(edge_score, edge_index, threshold, batch, parent, flags, hook=False)
    message = flags.tolist()
    raise_flagged(message, edge_score, edge_index, num_nodes, batch)
    first = _torch.distinct(edge_index, num_nodes) if message[kernels.UNSORTED.value] else None
    if first is not None:
        merged, counted = merged & first, counted & first
    return merged, counted


def raise_flagged(
    message: list[int], edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None
) -> None:
    """Raise the errors that the flags report."""
    if message[kernels.RANGE.value]:
        check_range(edge_index, num_nodes)
    if message[kernels.NAN.value]:
        raise nan_score(edge_score)
    if message[kernels.BATCH.value] or message[kernels.CROSSING.value]:
        check_graphs(batch, edge_index)


def coarsen(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    parent, alone, flags = start_alone(num_nodes, batch, edge_index.device)
    merged, counted = select_and_hook(edge_score, edge_index, threshold, batch, parent, flags)
    rank = rank_roots(parent, alone)
    keys = insert_pairs(edge_index, num_nodes, parent, rank, 1, flags, self_loops, False)
    message = flags.tolist()  # the only synchronisation
    raise_flagged(message, edge_score, edge_index, num_nodes, batch)
    if message[kernels.UNSORTED.value] and _torch.distinct(edge_index, num_nodes) is not None:
        # Repeated edges: the plain operations drop them
        return _torch.KERNELS.coarsen(edge_score, edge_index, num_nodes, threshold, batch, self_loops)
    cluster, first, graph = numbered(parent, rank, message[kernels.NUMBER.value], batch)
    out = connected(keys, message, edge_index, cluster, first.numel(), self_loops)
    return merged, counted, cluster, first, alone, out, graph


def connected(
    keys: tuple[Tensor, Tensor],
    message: list[int],
    edge_index: Tensor,
    cluster: Tensor,
    num_supernodes: int,
    self_loops: bool,
) -> Tensor:
    if message[kernels.FULL.value]:
        return _torch.connect(edge_index, cluster, num_supernodes, self_loops, False)
    return sorted_edges(keys, num_supernodes, message[kernels.EDGES.value], edge_index.dtype)


def fold_key(key: Tensor, index: Tensor | None, plus: int) -> Tensor:
    per_key = index is not None and index.shape == key.shape
    if not key.numel() or (index is not None and index.dim() and not per_key):  # a table of keys by indices is rare
        return _torch.fold_key(key, index, plus)
    key = key.contiguous()
    out = torch.empty_like(key)
    given = (key, key if index is None else index.contiguous(), out, plus, key.numel())
    flags = {"HAS_INDEX": index is not None, "PER_KEY": per_key}
    launch(kernels.fold_key, over(key.numel(), 128), *given, **flags, BLOCK=128)
    return out
