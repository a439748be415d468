"""The GPU kernels of distances between the ends of edges: see `kernels`. They ignore edges that are out of range; the
step that selects edges raises an error.
"""

import triton
import triton.language as tl

from compool.ops import _torch_similarity
from compool.ops._cuda.kernels import RANGE, UNSORTED, raise_flag, size_free

# Positions in `statistics`, after the D sums of squared differences over a batch's counted edges: the number of counted
# edges; the sums of d − 1 and of its square over these; the batch's weight in the running statistics; and the running
# variance before the batch
COUNT, SUM, SQUARES, STEP, BEFORE = (tl.constexpr(position) for position in range(5))
SCALARS = 5
_MOMENTUM, _TINY = tl.constexpr(_torch_similarity.MOMENTUM), tl.constexpr(_torch_similarity.TINY)
_NO_SHARE, _EPSILON = tl.constexpr(_torch_similarity.NO_SHARE), tl.constexpr(_torch_similarity.EPSILON)


@triton.jit
def _ends(e, edge_index, stride, E, N):
    """The ends of edges, and a mask of the edges that exist and are in range."""
    u = tl.load(edge_index + e, mask=e < E, other=-1).to(tl.int64)
    v = tl.load(edge_index + stride + e, mask=e < E, other=-1).to(tl.int64)
    return u, v, (u >= 0) & (u < N) & (v >= 0) & (v < N)


@triton.jit
def _differences(x, u, v, c, tile, D: tl.constexpr, dtype: tl.constexpr):
    row = tl.load(x + u[:, None] * D + c[None, :], mask=tile, other=0.0).to(dtype)
    other = tl.load(x + v[:, None] * D + c[None, :], mask=tile, other=0.0).to(dtype)
    return row - other


@triton.jit
def _add_by_group(sums, values, group, valid, c, D: tl.constexpr):
    """Add each group's rows of a tile to its row of `sums`; if edges are sorted, a tile has few groups."""
    low, end = _group_range(group, valid)
    for g in range(low, end):
        total = tl.sum(tl.where((valid & (group == g))[:, None], values, 0.0), 0)
        tl.atomic_add(sums + g * D + c, total, mask=c < D, sem="relaxed")


@triton.jit
def _group_range(group, valid):
    return tl.min(tl.where(valid, group, 1 << 31), 0), tl.max(tl.where(valid, group, -1), 0) + 1


@size_free
def edge_distance(
    x, edge_index, stride, weight, group, distance, E, N, GROUPED: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    e = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    u, v, valid = _ends(e, edge_index, stride, E, N)
    dtype = weight.dtype.element_ty
    total = tl.zeros([ROWS], dtype=dtype)
    row = u * 0
    if GROUPED:
        row = tl.load(group + u, mask=valid, other=0)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        tile = valid[:, None] & (c < D)[None, :]
        difference = _differences(x, u, v, c, tile, D, dtype)
        w = tl.load(weight + row[:, None] * D + c[None, :], mask=tile, other=0.0)
        total += tl.sum(w * difference * difference, 1)
    tl.store(distance + e, total, mask=e < E)


@size_free
def edge_distance_backward(
    grad, x, edge_index, stride, weight, group, grad_x, grad_weight, E, N, TILES, PROGRAMS,
    GROUPED: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Adds to `grad_x`; `grad_weight` is initially zero."""
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    dtype = weight.dtype.element_ty
    total = tl.zeros([COLUMNS], dtype=dtype)
    for tile_number in range(tl.program_id(0), TILES, PROGRAMS):
        e = (tile_number * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        u, v, valid = _ends(e, edge_index, stride, E, N)
        tile = valid[:, None] & (c < D)[None, :]
        difference = _differences(x, u, v, c, tile, D, dtype)
        share = tl.load(grad + e, mask=valid, other=0.0)[:, None] * difference
        row = u * 0
        if GROUPED:
            row = tl.load(group + u, mask=valid, other=0)
            _add_by_group(grad_weight, share * difference, row, valid, c, D)
        else:
            total += tl.sum(share * difference, 0)
        share = 2.0 * share * tl.load(weight + row[:, None] * D + c[None, :], mask=tile, other=0.0)
        tl.atomic_add(grad_x + u[:, None] * D + c[None, :], share, mask=tile, sem="relaxed")
        tl.atomic_add(grad_x + v[:, None] * D + c[None, :], -share, mask=tile, sem="relaxed")
    if not GROUPED:
        tl.atomic_add(grad_weight + c, total, mask=c < D, sem="relaxed")


@size_free
def edge_moments(
    x, edge_index, stride, counted, group, sums, num_counted, E, N, TILES, PROGRAMS,
    GROUPED: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sums of squared differences over the counted edges; if GROUPED, also the number of these edges, in
    `num_counted`. All are initially zero.
    """
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    dtype = sums.dtype.element_ty
    total = tl.zeros([COLUMNS], dtype=dtype)
    for tile_number in range(tl.program_id(0), TILES, PROGRAMS):
        e = (tile_number * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        u, v, valid = _ends(e, edge_index, stride, E, N)
        valid = valid & (tl.load(counted + e, mask=e < E, other=0) != 0)
        tile = valid[:, None] & (c < D)[None, :]
        difference = _differences(x, u, v, c, tile, D, dtype)
        if GROUPED:
            row = tl.load(group + u, mask=valid, other=0)
            _add_by_group(sums, difference * difference, row, valid, c, D)
            low, end = _group_range(row, valid)
            for g in range(low, end):
                count = tl.sum((valid & (row == g)).to(tl.int64), 0)
                tl.atomic_add(num_counted + g, count, mask=tl.program_id(1) == 0, sem="relaxed")
        else:
            total += tl.sum(difference * difference, 0)
    if not GROUPED:
        tl.atomic_add(sums + c, total, mask=c < D, sem="relaxed")


@size_free
def count_edges(edge_index, stride, counted, statistics, flags, E, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """Which edges count, if they are strictly sorted: all except self-loops."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    later = inside & (e > 0)
    u, v, valid = _ends(e, edge_index, stride, E, N)
    before_u = tl.load(edge_index + e - 1, mask=later, other=-1)
    before_v = tl.load(edge_index + stride + e - 1, mask=later, other=-1)
    raise_flag(flags, RANGE, inside & (valid == 0))
    raise_flag(flags, UNSORTED, later & ((u < before_u) | ((u == before_u) & (v <= before_v))))
    counts = valid & (u != v)
    tl.store(counted + e, counts, mask=inside)
    tl.atomic_add(statistics + D + COUNT, tl.sum(counts.to(statistics.dtype.element_ty), 0), sem="relaxed")


@size_free
def update_mean(
    statistics, logit, mean, variance, num_batches, share, weight, D: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Update the running mean of each channel, and compute its share and weight."""
    c = tl.arange(0, COLUMNS)
    inside = c < D
    dtype = statistics.dtype.element_ty
    count = tl.load(statistics + D + COUNT)
    before = tl.load(mean + c, mask=inside, other=1.0).to(dtype)
    latest = tl.load(statistics + c, mask=inside, other=1.0) / tl.maximum(count, 1.0)
    latest = latest.to(mean.dtype.element_ty).to(dtype)  # may overflow in half precision
    all_finite = tl.min((tl.abs(latest) < float("inf")).to(tl.int32), 0)  # NaN is not
    counts = (count > 0) & (all_finite == 1)
    batches = tl.load(num_batches) + counts.to(tl.int64)
    tl.store(num_batches, batches)
    step = tl.maximum(1.0 / tl.maximum(batches, 1).to(dtype), _MOMENTUM)
    step = tl.where(counts, step, 0.0).to(dtype)
    tl.store(statistics + D + STEP, step)
    tl.store(statistics + D + BEFORE, tl.load(variance).to(dtype))
    after = (before + step * (tl.where(counts, latest, before) - before)).to(mean.dtype.element_ty)
    tl.store(mean + c, after, mask=inside)
    constant = after.to(dtype) <= _TINY
    logits = tl.where(constant, _NO_SHARE, tl.load(logit + c, mask=inside, other=0.0).to(dtype))
    logits = tl.where(inside, logits, -float("inf"))
    shares = tl.exp(logits - tl.max(logits, 0))
    shares /= tl.sum(shares, 0)
    tl.store(share + c, shares, mask=inside)
    tl.store(weight + c, shares / tl.where(constant, 1.0, after.to(dtype)), mask=inside)


@size_free
def sum_distances(distance, counted, statistics, E, TILES, PROGRAMS, D: tl.constexpr, BLOCK: tl.constexpr):
    """The sums of d − 1 and of its square over the counted edges."""
    dtype = statistics.dtype.element_ty
    total = tl.zeros([BLOCK], dtype=dtype)
    squares = tl.zeros([BLOCK], dtype=dtype)
    for block in range(tl.program_id(0), TILES, PROGRAMS):
        e = (block * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
        counts = (e < E) & (tl.load(counted + e, mask=e < E, other=0) != 0)
        centred = tl.where(counts, tl.load(distance + e, mask=counts, other=1.0) - 1.0, 0.0)
        total += centred
        squares += centred * centred
    tl.atomic_add(statistics + D + SUM, tl.sum(total, 0), sem="relaxed")
    tl.atomic_add(statistics + D + SQUARES, tl.sum(squares, 0), sem="relaxed")


@size_free
def standardise(statistics, variance, scale, distance, E, D: tl.constexpr, BLOCK: tl.constexpr):
    """Update the running variance of distances, compute the factor of d − 1, and replace distances by terms."""
    dtype = statistics.dtype.element_ty
    count = tl.maximum(tl.load(statistics + D + COUNT), 1.0)
    mean = tl.load(statistics + D + SUM) / count
    latest = tl.load(statistics + D + SQUARES) / count - mean * mean
    latest = latest.to(variance.dtype.element_ty).to(dtype)  # may overflow in half precision
    before = tl.load(statistics + D + BEFORE)
    latest = tl.where(tl.abs(latest) < float("inf"), tl.maximum(latest, 0.0), before)  # NaN is not
    after = (before + tl.load(statistics + D + STEP) * (latest - before)).to(variance.dtype.element_ty)
    factor = -1.0 / tl.sqrt(after.to(dtype) + _EPSILON)
    if tl.program_id(0) == 0:
        tl.store(variance, after)
        tl.store(scale, factor)
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(distance + e, (tl.load(distance + e, mask=e < E, other=0.0) - 1.0) * factor, mask=e < E)
