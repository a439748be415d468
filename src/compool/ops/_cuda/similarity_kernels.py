"""The GPU kernels of distances between the ends of edges: see `kernels`. An edge out of range counts as none: the step
that selects edges raises.
"""

import triton
import triton.language as tl

from compool.ops._cuda.kernels import size_free


@triton.jit
def _ends(e, edge_index, stride, E, N):
    """The ends of edges, and which of them there are."""
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
    """Add each group's rows of a tile to its row of `sums`; of sorted edges, tiles have few."""
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
    """Adds to `grad_x`; `grad_weight` comes in as zeros."""
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
    """The sums of squared differences over the edges that count, and with groups how many these are; all come in as
    zeros.
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
