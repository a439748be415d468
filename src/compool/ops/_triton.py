"""GPU kernels with Triton: what `_torch` computes, in few launches, and with one message from the device at most.

Every function takes and returns tensors and equals its namesake in `_torch`. Floats are summed in an order that changes
from run to run, unless `torch.use_deterministic_algorithms` asks for one that does not: then the plain operations sum.
Half precision is summed in float32 and rounded once, at the end.
"""

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops import _triton_kernels as kernels
from compool.ops._checks import check_range, check_sorted, nan_score

_EDGES = 512  # a program
_HOOKS = 128  # where programs loop until the last edge is done
_NODES = 512
_PROGRAMS = 1024  # that add to the same few sums
_TABLE = 2**26  # entries of the largest hash table, 512 MiB


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


_compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def _launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Run ``kernel[grid](*args, **constants)``; after the first time without Triton's own bookkeeping.

    22 µs come down to 13 so. A compiled kernel is good for the same dtypes,
    alignments and constants. Numbers among `args` are not specialised on, and below 2³¹.
    """
    kinds = tuple((arg.dtype, arg.data_ptr() & 15) if isinstance(arg, Tensor) else None for arg in args)
    key = (id(kernel), args[0].device.index, kinds, tuple(constants.items()))
    if key in _compiled:
        compiled, rest = _compiled[key]
        compiled[(*grid, 1, 1)[:3]](*args, *rest)
        return
    compiled = kernel[grid](*args, **constants)
    if compiled is not None:  # the interpreter compiles nothing
        _compiled[key] = compiled, tuple(constants[name] for name in kernel.arg_names[len(args) :])


def _over(number: int, block: int) -> tuple[int]:
    return (-(-number // block),)


def _power(number: int) -> int:
    """The least power of two that is not smaller; Triton's own function for it takes microseconds."""
    return 1 << max(number - 1, 0).bit_length()


def _tiles(rows: int, x: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid and the tile of a kernel over rows and channels."""
    columns = min(_power(x.size(1)), 128)
    tile = {"D": x.size(1), "ROWS": max(1, 2048 // columns), "COLUMNS": columns}
    return (*_over(rows, tile["ROWS"]), *_over(x.size(1), columns)), tile


def _edges(edge_index: Tensor) -> tuple[Tensor, int]:
    """The edges, and how far their targets are from their sources."""
    if edge_index.size(1) >= 2**31:
        raise ValueError(f"edge_index has {edge_index.size(1)} edges; the GPU kernels take fewer than 2³¹")
    if edge_index.stride(1) != 1 or edge_index.stride(0) >= 2**31:
        edge_index = edge_index.contiguous()
    return edge_index, edge_index.stride(0)


def _check_nodes(num_nodes: int) -> None:
    if num_nodes >= 2**31:
        raise ValueError(f"x has {num_nodes} nodes; the GPU kernels take fewer than 2³¹")


@lru_cache(maxsize=256)
def _number(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A number where kernels read it in full: as an argument it would be a float32."""
    return torch.tensor([value], dtype=dtype, device=device)


def score(ends: Tensor, edge_index: Tensor, bias: Tensor) -> Tensor:
    out = ends.new_empty(edge_index.size(1))
    edges, stride = _edges(edge_index)
    if out.numel():
        left, right = (end.contiguous() for end in ends)
        grid = _over(out.numel(), _EDGES)
        _launch(kernels.score, grid, left, right, edges, stride, bias, out, out.numel(), ends.size(1), BLOCK=_EDGES)
    return out


def score_backward(grad: Tensor, edge_index: Tensor, num_nodes: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.score_backward(grad, edge_index, num_nodes)
    ends = grad.new_zeros(2, num_nodes)
    edges, stride = _edges(edge_index)
    if grad.numel():
        args = (grad.contiguous(), edges, stride, ends[0], ends[1], grad.numel())
        _launch(kernels.score_backward, _over(grad.numel(), _EDGES), *args, BLOCK=_EDGES)
    return ends


def _start(num_nodes: int, batch: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes as components by themselves, which of them are, and flags."""
    _check_nodes(num_nodes)
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone = torch.empty(num_nodes, dtype=torch.bool, device=device)
    if num_nodes:
        given = parent if batch is None else batch.contiguous()
        args = (parent, alone, given, flags, num_nodes)
        _launch(kernels.start, _over(num_nodes, _NODES), *args, HAS_BATCH=batch is not None, BLOCK=_NODES)
    return parent, alone, flags


def _rank(parent: Tensor, alone: Tensor) -> Tensor:
    """Point every node at its root; the number of each root, from 1."""
    is_root = torch.empty_like(parent)
    if parent.numel():
        _launch(kernels.flatten, _over(parent.numel(), _NODES), parent, is_root, alone, parent.numel(), BLOCK=_NODES)
    return torch.cumsum(is_root, 0, dtype=torch.int32)


def _numbered(parent: Tensor, rank: Tensor, number: int, batch: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The component of each node, the first member of each component, and its graph."""
    cluster = torch.empty_like(parent, dtype=torch.long)
    first = cluster.new_empty(number)
    graph = torch.empty_like(first, dtype=torch.long if batch is None else batch.dtype)
    if number:
        given = parent if batch is None else batch.contiguous()
        args = (parent, rank, given, cluster, first, graph, parent.numel())
        _launch(kernels.number, _over(parent.numel(), _NODES), *args, HAS_BATCH=batch is not None, BLOCK=_NODES)
    return cluster, first, graph


def components(edge_index: Tensor, merged: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    parent, alone, flags = _start(num_nodes, None, edge_index.device)
    edges, stride = _edges(edge_index)
    number = edges.size(1)
    if number:
        args = (edges, stride, merged.contiguous(), parent, flags, number, num_nodes)
        _launch(kernels.hook, _over(number, _HOOKS), *args, BLOCK=_HOOKS)
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
    edges, stride = _edges(edge_index)
    count = edges.size(1)
    size = min(_power(2 * count), _TABLE)
    table = torch.zeros(size, dtype=torch.long, device=edges.device)
    keys, short_keys = table.new_empty(min(count, size)), flags.new_empty(min(count, size))
    if num_nodes:
        to = (table, size - 1, keys, short_keys, flags, count, num_nodes, number)
        options = {"PARENT": parent is not None, "SELF_LOOPS": loops[0], "INPUT_LOOPS": loops[1], "BLOCK": _EDGES}
        _launch(
            kernels.insert_edges,
            _over(max(count, 1), _EDGES),
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
        _launch(kernels.split_keys, _over(count, _EDGES), ordered, out, count, count, number, SHORT=short, BLOCK=_EDGES)
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
    parent: Tensor,
    flags: Tensor,
    limit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Which edges merge, and which count; hooks the parents."""
    edges, stride = _edges(edge_index)
    number = edges.size(1)
    fresh = torch.empty if limit is None else torch.zeros
    merged, counted = (fresh(number, dtype=torch.bool, device=edges.device) for _ in range(2))
    if number:
        given = edge_score.contiguous()
        bound = _number(threshold, given.dtype, edges.device)
        to = (merged, counted, parent, given, flags, flags if limit is None else limit)
        args = (given, given, given, given, bound, edges, stride, *to)
        options = {"SCORE": "given", "WEIGH": False, "LIMITED": limit is not None, "BLOCK": _HOOKS}
        _launch(kernels.select_and_hook, _over(number, _HOOKS), *args, number, parent.numel(), **options)
    return merged, counted


def _score_select_and_hook(
    ends: Tensor,
    bias: Tensor,
    edge_index: Tensor,
    activation: str,
    threshold: float,
    parent: Tensor,
    weight: Tensor,
    flags: Tensor,
    limit: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The scores, and which edges merge; hooks the parents, and adds up the weights."""
    edges, stride = _edges(edge_index)
    number = edges.size(1)
    merged = (torch.empty if limit is None else torch.zeros)(number, dtype=torch.bool, device=edges.device)
    left, right = ends[0], ends[-1]
    if ends.dtype == torch.float32:
        edge_score, how = ends.new_empty(number), activation
    else:  # the kernel's own functions are good for float32
        raw = score(ends.expand(2, -1), edge_index, bias)
        edge_score, how = raw.tanh_() if activation == "tanh" else raw.sigmoid_(), "given"
    if number:
        bound = _number(threshold, ends.dtype, edges.device)
        given = (edge_score, left, right, bias, bound, edges, stride)
        to = (merged, merged, parent, weight, flags, flags if limit is None else limit)
        options = {"SCORE": how, "WEIGH": True, "LIMITED": limit is not None, "BLOCK": _HOOKS}
        _launch(kernels.select_and_hook, _over(number, _HOOKS), *given, *to, number, parent.numel(), **options)
    return edge_score, merged


def _check(found: list[int], edge_score: Tensor, edge_index: Tensor, num_nodes: int, batch: Tensor | None) -> None:
    """Errors, as the flags report them."""
    if found[kernels.RANGE.value]:
        check_range(edge_index, num_nodes)
    if found[kernels.NAN.value]:
        raise nan_score(edge_score)
    if found[kernels.BATCH.value]:
        check_sorted(batch)


def coarsen(
    edge_score: Tensor, edge_index: Tensor, num_nodes: int, threshold: float, batch: Tensor | None, self_loops: bool
) -> tuple[Tensor, ...]:
    parent, alone, flags = _start(num_nodes, batch, edge_index.device)
    merged, counted = _select_and_hook(edge_score, edge_index, threshold, parent, flags)
    rank = _rank(parent, alone)
    keys = _insert(edge_index, num_nodes, parent, rank, 1, flags, self_loops, False)
    found = flags.tolist()  # the one message from the device
    _check(found, edge_score, edge_index, num_nodes, batch)
    if found[kernels.UNSORTED.value]:  # repeats may hide: a sort finds them, then step by step
        return _torch.coarsen(edge_score, edge_index, num_nodes, threshold, batch, self_loops)
    cluster, first, graph = _numbered(parent, rank, found[kernels.NUMBER.value], batch)
    out = _connected(keys, found, edge_index, cluster, first.numel(), self_loops)
    return merged, counted, cluster, first, alone, out, graph


def coarsen_padded(
    edge_score: Tensor, edge_index: Tensor, row_ptr: Tensor, threshold: float, self_loops: bool
) -> tuple[Tensor, ...]:
    num_nodes = row_ptr.numel() - 1
    if not num_nodes:
        return _torch.coarsen_padded(edge_score, edge_index, row_ptr, threshold, self_loops)
    parent, alone, flags = _start(num_nodes, None, edge_index.device)
    merged = _select_and_hook(edge_score, edge_index, threshold, parent, flags, row_ptr[-1:])[0]
    rank = _rank(parent, alone)
    cluster = torch.empty_like(parent, dtype=torch.long)
    first, graph = torch.full_like(cluster, num_nodes), torch.empty_like(cluster)
    args = (parent, rank, parent, cluster, first, graph, num_nodes)
    _launch(kernels.number, _over(num_nodes, _NODES), *args, HAS_BATCH=False, BLOCK=_NODES)
    edges, rows = _connected_in_place(edge_index, cluster, row_ptr[-1:], self_loops)
    return merged, cluster, first, alone, edges, rows


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
    _check_nodes(num_nodes)
    device, batched = x.device, {"HAS_BATCH": batch is not None}
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone = torch.empty(num_nodes, dtype=torch.bool, device=device)
    ends, weight = halves.new_empty(halves.size(0), num_nodes), halves.new_empty(num_nodes)
    graphs = parent if batch is None else batch.contiguous()
    grid, tile = _tiles(num_nodes, x)
    start = (x, halves.contiguous(), ends, weight, parent, alone, graphs, flags, num_nodes)
    _launch(kernels.start_and_project, grid[:1], *start, TWO=halves.size(0) == 2, HAS_LIVE=False, **batched, **tile)
    hooking = (activation, threshold, parent, weight, flags)
    edge_score, merged = _score_select_and_hook(ends, bias, edge_index, *hooking)
    rank = _rank(parent, alone)
    keys = _insert(edge_index, num_nodes, parent, rank, 1, flags, self_loops, False)
    found = flags.tolist()  # the one message from the device
    _check(found, edge_score, edge_index, num_nodes, batch)
    if found[kernels.UNSORTED.value]:  # repeats may hide: a sort finds them, then step by step
        return _torch.pool(*args)
    number = found[kernels.NUMBER.value]
    out = halves.new_zeros(number, x.size(1))
    cluster, first = parent.new_empty(num_nodes, dtype=torch.long), parent.new_empty(number, dtype=torch.long)
    graph = torch.empty_like(first) if batch is None else batch.new_empty(number)
    merge_args = (x, weight, alone, out, parent, rank, graphs, cluster, first, graph, num_nodes)
    _launch(kernels.number_and_merge, grid, *merge_args, **batched, **tile)
    edges = _connected(keys, found, edge_index, cluster, number, self_loops)
    return out.to(x.dtype), edge_score, cluster, edges, graph, merged, weight


def pool_in_place(
    x: Tensor,
    halves: Tensor,
    bias: Tensor,
    edge_index: Tensor,
    row_ptr: Tensor,
    live: Tensor,
    activation: str,
    threshold: float,
    self_loops: bool,
) -> tuple[Tensor, ...]:
    num_nodes, x = x.size(0), x.contiguous()
    if torch.are_deterministic_algorithms_enabled() or not x.numel():
        args = (x, halves, bias, edge_index, row_ptr, live, activation, threshold, self_loops)
        return _torch.pool_in_place(*args)
    _check_nodes(num_nodes)
    device, limit = x.device, row_ptr[-1:]
    flags = torch.zeros(kernels.SIZE, dtype=torch.int32, device=device)
    parent = torch.empty(num_nodes, dtype=torch.int32, device=device)
    alone, is_root = torch.empty_like(live), torch.empty_like(parent)
    ends, weight = halves.new_empty(halves.size(0), num_nodes), halves.new_empty(num_nodes)
    grid, tile = _tiles(num_nodes, x)
    start = (x, halves.contiguous(), ends, weight, parent, alone, live.contiguous(), flags, num_nodes)
    _launch(
        kernels.start_and_project, grid[:1], *start, TWO=halves.size(0) == 2, HAS_BATCH=False, HAS_LIVE=True, **tile
    )
    hooking = (activation, threshold, parent, weight, flags, limit)
    edge_score, merged = _score_select_and_hook(ends, bias, edge_index, *hooking)
    _launch(kernels.flatten, _over(num_nodes, _NODES), parent, is_root, alone, num_nodes, BLOCK=_NODES)
    root = parent.long()
    out = halves.new_zeros(x.shape)
    _launch(kernels.merge_rows, grid, x, weight, root, alone, out, x.size(0), **tile)
    edges, rows = _connected_in_place(edge_index, root, limit, self_loops)
    return out.to(x.dtype), edge_score, root, edges, rows, live & is_root.bool(), flags, merged, weight


def _connected_in_place(edge_index: Tensor, root: Tensor, limit: Tensor, self_loops: bool) -> tuple[Tensor, Tensor]:
    """The edges between roots, sorted, each once, and where each row's begin; what follows them is zero."""
    edges, stride = _edges(edge_index)
    number, num_nodes = edges.size(1), root.numel()
    out, rows = torch.zeros_like(edges), root.new_zeros(num_nodes + 1)
    if number:
        keys = root.new_empty(number)
        grid, block = _over(number, _EDGES), {"BLOCK": _EDGES}
        _launch(kernels.pair_keys, grid, edges, stride, root, keys, limit, number, SELF_LOOPS=self_loops, **block)
        keys = keys.sort().values
        is_first = torch.empty_like(keys, dtype=torch.int32)
        _launch(kernels.first_of_runs, grid, keys, is_first, number, **block)
        rank = torch.cumsum(is_first, 0, dtype=torch.int32)
        _launch(kernels.place_edges, grid, keys, rank, out, number, number, **block)
        steps = {"STEPS": number.bit_length() + 1, "BLOCK": _NODES}
        _launch(kernels.row_starts, _over(num_nodes + 1, _NODES), keys, rank, rows, number, num_nodes, **steps)
    return out, rows


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
    given = (grad, grad_score, x, halves, edge_index, edge_score, cluster, merged, weight)
    if torch.are_deterministic_algorithms_enabled() or not x.numel():
        return _torch.pool_backward(*given, activation)
    return _backward(*given, activation, None)


def pool_in_place_backward(
    grad: Tensor,
    grad_score: Tensor | None,
    x: Tensor,
    halves: Tensor,
    edge_index: Tensor,
    edge_score: Tensor,
    root: Tensor,
    merged: Tensor,
    weight: Tensor,
    row_ptr: Tensor,
    activation: str,
) -> tuple[Tensor, Tensor, Tensor]:
    given = (grad, grad_score, x, halves, edge_index, edge_score, root, merged, weight)
    if torch.are_deterministic_algorithms_enabled() or not x.numel():
        return _torch.pool_in_place_backward(*given, row_ptr, activation)
    return _backward(*given, activation, row_ptr[-1:])


def _backward(
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
    limit: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    grad, x, halves = grad.contiguous(), x.contiguous(), halves.contiguous()
    num_nodes, channels = x.shape
    rows = halves.size(0)
    ends, grad_halves, grad_bias = (halves.new_zeros(size) for size in ((rows, num_nodes), (rows, channels), (1,)))
    grid, tile = _tiles(num_nodes, x)
    grad_weight = torch.empty_like(weight)
    _launch(kernels.row_products, grid[:1], grad, x, cluster, grad_weight, x.size(0), **tile)
    edges, stride = _edges(edge_index)
    number = edges.size(1)
    if number:
        scores = (edge_score if grad_score is None else grad_score.contiguous(), edge_score, merged)
        to = (ends[0], ends[-1], grad_bias, edges if limit is None else limit, number)
        options = {"HAS_GRAD": grad_score is not None, "TANH": activation == "tanh", "LIMITED": limit is not None}
        grid_edges = _over(number, _EDGES)
        _launch(kernels.edges_backward, grid_edges, grad_weight, *scores, edges, stride, *to, **options, BLOCK=_EDGES)
    grad_x = torch.empty_like(x)
    programs = min(grid[0], _PROGRAMS)
    given = (grad, x, weight, cluster, ends, halves, grad_x, grad_halves, num_nodes, grid[0], programs)
    _launch(kernels.nodes_backward, (programs, grid[1]), *given, TWO=rows == 2, **tile)
    return grad_x, grad_halves, grad_bias


def merge(
    x: Tensor, edge_score: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor, first: Tensor, alone: Tensor
) -> tuple[Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.merge(x, edge_score, edge_index, merged, cluster, first, alone)
    weight = edge_score.new_zeros(x.size(0))
    edges, _ = _edges(edge_index)
    number = edges.size(1)
    if number:
        args: tuple[Any, ...] = (edge_score.contiguous(), edges[0], merged.contiguous(), weight, number)
        _launch(kernels.merge_weight, _over(number, _EDGES), *args, BLOCK=_EDGES)
    out = weight.new_zeros(first.numel(), x.size(1))
    if out.numel():
        grid, tile = _tiles(x.size(0), x)
        args = (x.contiguous(), weight, cluster, alone, out, x.size(0))
        _launch(kernels.merge_rows, grid, *args, **tile)
    return out.to(x.dtype), weight


def merge_backward(
    grad: Tensor, x: Tensor, weight: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor
) -> tuple[Tensor, Tensor]:
    grad_x, grad_weight = torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty_like(weight)
    if x.size(0):
        grid, tile = _tiles(x.size(0), x)
        args: tuple[Any, ...] = (grad.contiguous(), x.contiguous(), weight, cluster, grad_x, grad_weight, x.size(0))
        _launch(kernels.merge_rows_backward, grid[:1], *args, **tile)
    edges, _ = _edges(edge_index)
    grad_score = weight.new_empty(edges.size(1))
    if grad_score.numel():
        args = (grad_weight, edges[0], merged.contiguous(), grad_score, grad_score.numel())
        _launch(kernels.gather_merged, _over(grad_score.numel(), _EDGES), *args, BLOCK=_EDGES)
    return grad_x, grad_score


def spread(x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.spread(x, weight, source, target, num_rows)
    out = torch.zeros(num_rows, x.size(1), dtype=weight.dtype, device=x.device)
    number = source.numel()
    if number and x.size(1):
        grid, tile = _tiles(number, x)
        args: tuple[Any, ...] = (x.contiguous(), weight.contiguous(), source.contiguous(), target.contiguous(), out)
        _launch(kernels.spread, grid, *args, number, **tile)
    return out.to(x.dtype)


def spread_backward(grad: Tensor, x: Tensor, weight: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.spread_backward(grad, x, weight, source, target)
    grad_x, grad_weight = torch.zeros(x.shape, dtype=_wide(x), device=x.device), torch.empty_like(weight)
    number = source.numel()
    if number:
        grid, tile = _tiles(number, x)
        ends = (source.contiguous(), target.contiguous())
        args = (grad.contiguous(), x.contiguous(), weight.contiguous(), *ends, grad_x, grad_weight)
        _launch(kernels.spread_backward, grid[:1], *args, number, **tile)
    return grad_x.to(x.dtype), grad_weight
