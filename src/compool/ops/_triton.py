"""GPU kernels with Triton: what `_torch` computes, in few launches, and with one message from the device at most.

Every function takes and returns tensors and equals its namesake in `_torch`. Floats are summed in an order that changes
from run to run, unless `torch.use_deterministic_algorithms` asks for one that does not: then the plain operations sum.
Half precision is summed in float32 and rounded once, at the end.
"""

import struct

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops import _triton_kernels as kernels
from compool.ops import _triton_merge_kernels as merging
from compool.ops._checks import check_graphs, check_range, nan_score
from compool.ops._triton_launch import EDGES, HOOKS, NODES, PROGRAMS, check_nodes, launch, over, power, strided, tiles

TABLE = 2**26  # entries of the largest hash table, 512 MiB


def _bits(value: float) -> tuple[int, int]:
    """The two halves of a float64, as integers: as a number, an argument of a kernel would be a float32."""
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


def score_backward(grad: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.score_backward(grad, edge_index, num_nodes)
    ends = grad.new_zeros(2, num_nodes)
    edges, stride = strided(edge_index)
    if grad.numel():
        args = (grad.contiguous(), edges, stride, ends[0], ends[1], grad.numel())
        launch(kernels.score_backward, over(grad.numel(), EDGES), *args, BLOCK=EDGES)
    return ends


def _start(num_nodes: int, batch: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes as components by themselves, which of them are, and flags."""
    check_nodes(num_nodes)
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone = torch.empty(num_nodes, dtype=torch.bool, device=device)
    if num_nodes:
        given = parent if batch is None else batch.contiguous()
        args = (parent, alone, given, flags, num_nodes)
        launch(kernels.start, over(num_nodes, NODES), *args, HAS_BATCH=batch is not None, BLOCK=NODES)
    return parent, alone, flags


def _rank(parent: Tensor, alone: Tensor) -> Tensor:
    """Point every node at its root; the number of each root, from 1."""
    is_root = torch.empty_like(parent)
    if parent.numel():
        launch(kernels.flatten, over(parent.numel(), NODES), parent, is_root, alone, parent.numel(), BLOCK=NODES)
    return torch.cumsum(is_root, 0, dtype=torch.int32)


def _numbered(parent: Tensor, rank: Tensor, number: int, batch: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The component of each node, the first member of each component, and its graph."""
    cluster = torch.empty_like(parent, dtype=torch.long)
    first = cluster.new_empty(number)
    graph = torch.empty_like(first, dtype=torch.long if batch is None else batch.dtype)
    if number:
        given = parent if batch is None else batch.contiguous()
        args = (parent, rank, given, cluster, first, graph, parent.numel())
        launch(kernels.number, over(parent.numel(), NODES), *args, HAS_BATCH=batch is not None, BLOCK=NODES)
    return cluster, first, graph


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    parent, alone, flags = _start(num_nodes, None, edge_index.device)
    edges, stride = strided(edge_index)
    number = edges.size(1)
    if number:
        args = (edges, stride, merged.contiguous(), parent, flags, number, num_nodes)
        launch(kernels.hook, over(number, HOOKS), *args, BLOCK=HOOKS)
    rank = _rank(parent, alone)
    if num_nodes:
        flags[kernels.NUMBER.value] = rank[-1]
    found = flags.tolist()
    if found[kernels.RANGE.value]:
        check_range(edge_index, num_nodes)
    cluster, first, _ = _numbered(parent, rank, found[kernels.NUMBER.value], None)
    return cluster, first, alone


def _insert(
    edge_index: Tensor, num_nodes: int, parent: Tensor | None, rank: Tensor, number: int, flags: Tensor, *loops: bool
) -> tuple[Tensor, Tensor]:
    """Keys of the distinct pairs of supernodes that edges join, in any order, and short ones; how many, say the flags.

    `number` of supernodes, if it is known; else there are parents.
    """
    edges, stride = strided(edge_index)
    count = edges.size(1)
    size = min(power(2 * count), TABLE)
    table = torch.zeros(size, dtype=torch.long, device=edges.device)
    keys, short_keys = table.new_empty(min(count, size)), flags.new_empty(min(count, size))
    if num_nodes:
        to = (table, size - 1, keys, short_keys, flags, count, num_nodes, number)
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


def _sorted_edges(keys: tuple[Tensor, Tensor], number: int, count: int, dtype: torch.dtype) -> Tensor:
    """The edges between `number` supernodes that `count` keys stand for."""
    out = torch.empty(2, count, dtype=dtype, device=keys[0].device)
    if count:
        short = number * number < 2**31
        ordered = keys[short][:count].sort().values
        launch(kernels.split_keys, over(count, EDGES), ordered, out, count, count, number, SHORT=short, BLOCK=EDGES)
    return out


def connect(edge_index: Tensor, cluster: Tensor, num_clusters: int, self_loops: bool, input_loops: bool) -> Tensor:
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=cluster.device)
    keys = _insert(edge_index, cluster.numel(), None, cluster, num_clusters, flags, self_loops, input_loops)
    found = flags.tolist()
    if found[kernels.FULL.value]:
        return _torch.connect(edge_index, cluster, num_clusters, self_loops, input_loops)
    return _sorted_edges(keys, num_clusters, found[kernels.EDGES.value], edge_index.dtype)


def _select_and_hook(
    edge_score: Tensor,
    edge_index: Tensor,
    threshold: float,
    batch: Tensor | None,
    parent: Tensor,
    flags: Tensor,
    limit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Which edges merge, and which count; hooks the parents."""
    edges, stride = strided(edge_index)
    number = edges.size(1)
    fresh = torch.empty if limit is None else torch.zeros
    merged, counted = (fresh(number, dtype=torch.bool, device=edges.device) for _ in range(2))
    if number:
        given = edge_score.contiguous()
        graphs = parent if batch is None else batch.contiguous()
        to = (graphs, merged, counted, parent, given, flags, flags if limit is None else limit)
        args = (given, given, given, given, *_bits(threshold), edges, stride, *to)
        options = {"SCORE": "given", "WEIGH": False, "HAS_BATCH": batch is not None, "LIMITED": limit is not None}
        launch(kernels.select_and_hook, over(number, HOOKS), *args, number, parent.numel(), **options, BLOCK=HOOKS)
    return merged, counted


def _score_select_and_hook(
    ends: Tensor,
    bias: Tensor,
    edge_index: Tensor,
    activation: str,
    threshold: float,
    batch: Tensor | None,
    parent: Tensor,
    weight: Tensor,
    flags: Tensor,
) -> tuple[Tensor, Tensor]:
    """The scores, and which edges merge; hooks the parents, and adds up the weights."""
    edges, stride = strided(edge_index)
    number = edges.size(1)
    merged = torch.empty(number, dtype=torch.bool, device=edges.device)
    left, right = ends[0], ends[-1]
    if ends.dtype == torch.float32:
        edge_score, how = ends.new_empty(number), activation
    else:  # the kernel's own functions are good for float32
        raw = score(ends.expand(2, -1), edge_index, bias)
        edge_score, how = raw.tanh_() if activation == "tanh" else raw.sigmoid_(), "given"
    if number:
        graphs = parent if batch is None else batch.contiguous()
        given = (edge_score, left, right, bias, *_bits(threshold), edges, stride, graphs)
        to = (merged, merged, parent, weight, flags, flags)
        options = {"SCORE": how, "WEIGH": True, "HAS_BATCH": batch is not None, "LIMITED": False, "BLOCK": HOOKS}
        launch(kernels.select_and_hook, over(number, HOOKS), *given, *to, number, parent.numel(), **options)
    return edge_score, merged


def _check(found: list[int], edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> None:
    """Errors, as the flags report them."""
    if found[kernels.RANGE.value]:
        check_range(edge_index, num_nodes)
    if found[kernels.NAN.value]:
        raise nan_score(edge_score)
    if found[kernels.BATCH.value] or found[kernels.CROSSING.value]:
        check_graphs(batch, edge_index)


def coarsen(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    parent, alone, flags = _start(num_nodes, batch, edge_index.device)
    merged, counted = _select_and_hook(edge_score, edge_index, threshold, batch, parent, flags)
    rank = _rank(parent, alone)
    keys = _insert(edge_index, num_nodes, parent, rank, 1, flags, self_loops, False)
    found = flags.tolist()  # the one message from the device
    _check(found, edge_score, edge_index, num_nodes, batch)
    if found[kernels.UNSORTED.value] and _torch._distinct(edge_index, num_nodes) is not None:
        return _torch.coarsen(edge_score, edge_index, num_nodes, threshold, batch, self_loops)  # of repeats, the first
    cluster, first, graph = _numbered(parent, rank, found[kernels.NUMBER.value], batch)
    out = _connected(keys, found, edge_index, cluster, first.numel(), self_loops)
    return merged, counted, cluster, first, alone, out, graph


def _connected(
    keys: tuple[Tensor, Tensor],
    found: list[int],
    edge_index: Tensor,
    cluster: Tensor,
    number: int,
    self_loops: bool,
) -> Tensor:
    if found[kernels.FULL.value]:
        return _torch.connect(edge_index, cluster, number, self_loops, False)
    return _sorted_edges(keys, number, found[kernels.EDGES.value], edge_index.dtype)


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
    args = (x, halves, bias, edge_index, batch, activation, threshold, self_loops)
    num_nodes, x = x.size(0), x.contiguous()
    if torch.are_deterministic_algorithms_enabled() or not x.numel():
        return _torch.pool(*args)
    check_nodes(num_nodes)
    device, batched = x.device, {"HAS_BATCH": batch is not None}
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone = torch.empty(num_nodes, dtype=torch.bool, device=device)
    ends, weight = halves.new_empty(halves.size(0), num_nodes), halves.new_empty(num_nodes)
    graphs = parent if batch is None else batch.contiguous()
    grid, tile = tiles(num_nodes, x)
    start = (x, halves.contiguous(), ends, weight, parent, alone, graphs, flags, num_nodes)
    launch(kernels.start_and_project, grid[:1], *start, TWO=halves.size(0) == 2, **batched, **tile)
    hooking = (activation, threshold, batch, parent, weight, flags)
    edge_score, merged = _score_select_and_hook(ends, bias, edge_index, *hooking)
    rank = _rank(parent, alone)
    keys = _insert(edge_index, num_nodes, parent, rank, 1, flags, self_loops, False)
    found = flags.tolist()  # the one message from the device
    _check(found, edge_score, edge_index, num_nodes, batch)
    if found[kernels.UNSORTED.value]:
        counted = _torch._distinct(edge_index, num_nodes)
        if counted is not None:  # repeats score alike: they join nothing else, but must not be weighed twice
            merged &= counted
            weight = torch.zeros_like(weight).index_add_(0, edge_index[0], edge_score * merged)
    number = found[kernels.NUMBER.value]
    out = halves.new_zeros(number, x.size(1))
    cluster, first = parent.new_empty(num_nodes, dtype=torch.long), parent.new_empty(number, dtype=torch.long)
    graph = torch.empty_like(first) if batch is None else batch.new_empty(number)
    merge_args = (x, weight, alone, out, parent, rank, graphs, cluster, first, graph, num_nodes)
    launch(merging.number_and_merge, grid, *merge_args, **batched, **tile)
    edges = _connected(keys, found, edge_index, cluster, number, self_loops)
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
    if torch.are_deterministic_algorithms_enabled() or not x.numel():
        return _torch.pool_backward(
            grad, grad_score, x, halves, edge_index, edge_score, cluster, merged, weight, activation
        )
    grad, x, halves = grad.contiguous(), x.contiguous(), halves.contiguous()
    num_nodes, channels = x.shape
    rows = halves.size(0)
    ends, grad_halves, grad_bias = (halves.new_zeros(size) for size in ((rows, num_nodes), (rows, channels), (1,)))
    grid, tile = tiles(num_nodes, x)
    grad_weight = torch.empty_like(weight)
    launch(merging.row_products, grid[:1], grad, x, cluster, grad_weight, x.size(0), **tile)
    edges, stride = strided(edge_index)
    number = edges.size(1)
    if number:
        scores = (edge_score if grad_score is None else grad_score.contiguous(), edge_score, merged)
        to = (ends[0], ends[-1], grad_bias, number)
        options = {"HAS_GRAD": grad_score is not None, "TANH": activation == "tanh"}
        grid_edges = over(number, EDGES)
        launch(merging.edges_backward, grid_edges, grad_weight, *scores, edges, stride, *to, **options, BLOCK=EDGES)
    grad_x = torch.empty_like(x)
    programs = min(grid[0], PROGRAMS)
    given = (grad, x, weight, cluster, ends, halves, grad_x, grad_halves, num_nodes, grid[0], programs)
    launch(merging.nodes_backward, (programs, grid[1]), *given, TWO=rows == 2, **tile)
    return grad_x, grad_halves, grad_bias
