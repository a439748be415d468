"""The GPU kernels behind `_cuda`.

A program handles a tile of rows of a single replica, given by `_tile`. Rows that belong to no replica form an extra
segment and become zero. Values of one replica never enter products of another replica, not even times zero, so that NaN
does not spread.
"""

import triton
import triton.language as tl

size_free = triton.jit(do_not_specialize=["N", "E", "S", "plus", "stride"])


@triton.jit
def _tile(ptr, tile, N, S, ROWS: tl.constexpr, SEGMENTS: tl.constexpr):
    """The position of a tile, where each segment is cut into tiles of ROWS: its segment, its first row, the end of the
    segment, and the end of the valid rows. For rows of no segment, the last two are the end of the padding and 0, and
    the segment is the last one.
    """
    s = tl.arange(0, SEGMENTS)
    low = tl.load(ptr + s, mask=s <= S, other=0).to(tl.int32)
    high = tl.where(s == S, N, tl.load(ptr + s + 1, mask=s < S, other=0).to(tl.int32))
    tiles = tl.where(s <= S, (high - low + ROWS - 1) // ROWS, 0)
    before = tl.cumsum(tiles, 0) - tiles
    contains = (before <= tile) & (tile < before + tiles)
    start = tl.sum(tl.where(contains, low + (tile - before) * ROWS, 0), 0)
    end = tl.sum(tl.where(contains, high, 0), 0)
    segment = tl.sum(tl.where(contains, s, 0), 0)
    return tl.minimum(segment, S - 1), start, end, tl.where(segment < S, end, 0)


@size_free
def gather_graphs(
    graph_ids, node_ptr, edge_ptr, row_ptr, edge_index, stride, graph_ptr, edge_start, node, rows, out, N, E,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One program per graph; `node`, `rows` and `out` are initially filled with padding."""
    slot = tl.program_id(0)
    graph = tl.load(graph_ids + slot)
    if graph < 0:
        return
    offsets = tl.arange(0, BLOCK)
    shift, begin = tl.load(graph_ptr + slot), tl.load(edge_start + slot)
    low, high = tl.load(node_ptr + graph), tl.load(node_ptr + graph + 1)
    first, last = tl.load(edge_ptr + graph), tl.load(edge_ptr + graph + 1)
    for start in range(low, high, BLOCK):
        i = start + offsets
        position = shift + i - low
        inside = (i < high) & (position < N)
        tl.store(node + position, i, mask=inside)
        tl.store(rows + position, tl.load(row_ptr + i, mask=inside, other=0) - first + begin, mask=inside)
    for start in range(first, last, BLOCK):
        e = start + offsets
        position = begin + e - first
        inside = (e < last) & (position < E)
        tl.store(out + position, tl.load(edge_index + e, mask=inside, other=0) + shift, mask=inside)
        tl.store(out + E + position, tl.load(edge_index + stride + e, mask=inside, other=0) + shift, mask=inside)


@size_free
def propagate(
    x, row_ptr, neighbour, left, right, own, out, N, D: tl.constexpr, HAS_LEFT: tl.constexpr, HAS_RIGHT: tl.constexpr,
    HAS_OWN: tl.constexpr, FEW: tl.constexpr, ROWS: tl.constexpr, EDGES: tl.constexpr, LONG: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """The first programs process the rows with more than FEW neighbours, which take longest, each among LONG rows. The
    other programs process ROWS rows in parallel. FEW is a multiple of 4.
    """
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = (N + LONG - 1) // LONG
    if tl.program_id(0) < first:
        _long_rows(
            x, row_ptr, neighbour, left, right, own, out, tl.program_id(0) * LONG, c, N, D, HAS_LEFT, HAS_RIGHT,
            HAS_OWN, FEW, EDGES, LONG, COLUMNS,
        )  # fmt: skip
        return
    i = (tl.program_id(0) - first) * ROWS + tl.arange(0, ROWS)
    columns = c < D
    dtype = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    e = tl.load(row_ptr + i, mask=i < N, other=0)
    end = tl.load(row_ptr + i + 1, mask=i < N, other=0)
    inside = (i < N) & (end - e <= FEW)
    end = tl.where(inside, end, e)
    total = tl.zeros([ROWS, COLUMNS], dtype=dtype)
    for offset in range(0, tl.max(end - e, 0), 4):
        for step in tl.static_range(4):
            valid = e + (offset + step) < end
            j = tl.load(neighbour + e + (offset + step), mask=valid, other=0).to(tl.int64)
            part = tl.load(x + j[:, None] * D + c[None, :], mask=valid[:, None] & columns[None, :], other=0.0).to(dtype)
            if HAS_RIGHT:
                part *= tl.load(right + j, mask=valid, other=0.0)[:, None]
            total += part
    position = i.to(tl.int64)[:, None] * D + c[None, :]
    tile = inside[:, None] & columns[None, :]
    if HAS_LEFT:
        total *= tl.load(left + i, mask=inside, other=0.0)[:, None]
    if HAS_OWN:
        row = tl.load(x + position, mask=tile, other=0.0).to(dtype)
        total += tl.load(own + i, mask=inside, other=0.0)[:, None] * row
    tl.store(out + position, total.to(out.dtype.element_ty), mask=tile)


@triton.jit
def _long_rows(
    x, row_ptr, neighbour, left, right, own, out, start, c, N, D: tl.constexpr, HAS_LEFT: tl.constexpr,
    HAS_RIGHT: tl.constexpr, HAS_OWN: tl.constexpr, FEW: tl.constexpr, EDGES: tl.constexpr, LONG: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """`propagate` for the long rows among LONG rows, one after another, EDGES neighbours at a time."""
    i = start + tl.arange(0, LONG)
    columns = c < D
    dtype = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    degree = tl.load(row_ptr + i + 1, mask=i < N, other=0) - tl.load(row_ptr + i, mask=i < N, other=0)
    rest = tl.where(degree > FEW, i, N)
    row = tl.min(rest, 0)
    while row < N:
        end = tl.load(row_ptr + row + 1)
        e = tl.load(row_ptr + row) + tl.arange(0, EDGES)
        j = tl.load(neighbour + e, mask=e < end, other=0).to(tl.int64)
        parts = tl.zeros([EDGES, COLUMNS], dtype=dtype)
        for low in range(tl.load(row_ptr + row), end, EDGES):
            current, valid = j, low + tl.arange(0, EDGES) < end
            e += EDGES
            j = tl.load(neighbour + e, mask=e < end, other=0).to(tl.int64)  # prefetch while rows are loaded
            tile = valid[:, None] & columns[None, :]
            part = tl.load(x + current[:, None] * D + c[None, :], mask=tile, other=0.0).to(dtype)
            if HAS_RIGHT:
                part *= tl.load(right + current, mask=valid, other=0.0)[:, None]
            parts += part
        total = tl.sum(parts, 0)
        position = row.to(tl.int64) * D + c
        if HAS_LEFT:
            total *= tl.load(left + row)
        if HAS_OWN:
            total += tl.load(own + row) * tl.load(x + position, mask=columns, other=0.0).to(dtype)
        tl.store(out + position, total.to(out.dtype.element_ty), mask=columns)
        rest = tl.where(rest == row, N, rest)
        row = tl.min(rest, 0)


@triton.jit
def _mix32(bits):
    """The finaliser of MurmurHash3."""
    bits = (bits ^ (bits >> 16)) * 0x85EBCA6B
    bits = (bits ^ (bits >> 13)) * 0xC2B2AE35
    return bits ^ (bits >> 16)


@triton.jit
def _kept(position, key, probability):
    """Mask of the positions of a replica that are not dropped, by a hash of the key and the position."""
    low = key.to(tl.uint32)
    high = (key >> 32).to(tl.uint32)
    bits = _mix32(_mix32(position.to(tl.uint32) ^ low) ^ high)
    return (bits >> 8).to(tl.float32) * 5.9604644775390625e-08 >= probability


@triton.jit
def _activated(value, row, column, segment, key, probability, D, RELU: tl.constexpr, HAS_KEY: tl.constexpr):
    """ReLU and dropout of the values in these rows and columns of a replica."""
    if RELU:
        value = tl.where(value > 0, value, tl.where(value != value, value, 0.0))
    if HAS_KEY:
        p = tl.load(probability + segment)
        kept = _kept(row[:, None] * D + column[None, :], tl.load(key + segment), p)
        value = tl.where(kept, value / (1 - p.to(value.dtype)), 0.0)
    return value


@size_free
def activate(
    x, bias, ptr, key, probability, out, N, S, D: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_KEY: tl.constexpr,
    RELU: tl.constexpr, SEGMENTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, ROWS, SEGMENTS)
    if start >= end:
        return
    i = (start + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = c < D
    real = (i < stop)[:, None] & columns[None, :]
    dtype = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    value = tl.load(x + i[:, None] * D + c[None, :], mask=real, other=0.0).to(dtype)
    if HAS_BIAS:
        value += tl.load(bias + segment * D + c, mask=columns, other=0.0).to(dtype)[None, :]
    value = _activated(value, i - tl.load(ptr + segment), c, segment, key, probability, D, RELU, HAS_KEY)
    value = tl.where(real, value, 0.0).to(out.dtype.element_ty)
    tl.store(out + i[:, None] * D + c[None, :], value, mask=(i < end)[:, None] & columns[None, :])


@size_free
def activate_backward(
    grad, result, ptr, probability, grad_x, grad_bias, N, S, D: tl.constexpr, DROPS: tl.constexpr,
    SEGMENTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`grad_bias` is initially zero."""
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, ROWS, SEGMENTS)
    if start >= end:
        return
    i = (start + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = c < D
    real = (i < stop)[:, None] & columns[None, :]
    dtype = grad_bias.dtype.element_ty
    position = i[:, None] * D + c[None, :]
    active = tl.load(result + position, mask=real, other=0.0) > 0
    value = tl.where(active, tl.load(grad + position, mask=real, other=0.0).to(dtype), 0.0)
    if DROPS:
        value = value / (1 - tl.load(probability + segment).to(dtype))
    tl.store(grad_x + position, value.to(grad_x.dtype.element_ty), mask=(i < end)[:, None] & columns[None, :])
    if start < stop:
        tl.atomic_add(grad_bias + segment * D + c, tl.sum(value, 0), mask=columns, sem="relaxed")


@size_free
def segment_sum(x, ptr, out, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One program per segment, so segments should be short."""
    segment = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    dtype = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    start = tl.load(ptr + segment)
    end = tl.load(ptr + segment + 1)
    total = tl.zeros([COLUMNS], dtype=dtype)
    for low in range(start, end, ROWS):
        i = low + tl.arange(0, ROWS)
        tile = (i < end)[:, None] & (c < D)[None, :]
        total += tl.sum(tl.load(x + i.to(tl.int64)[:, None] * D + c[None, :], mask=tile, other=0.0).to(dtype), 0)
    tl.store(out + segment * D + c, total.to(out.dtype.element_ty), mask=c < D)


@size_free
def segment_repeat(x, ptr, out, N, S, D: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each row finds its segment by bisection: the last segment that begins at or before the row."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    low = tl.zeros([ROWS], dtype=tl.int32)
    high = tl.zeros([ROWS], dtype=tl.int32) + S
    for _ in range(STEPS):
        middle = (low + high + 1) // 2
        after = tl.load(ptr + middle, mask=low < high, other=0) <= i
        low, high = tl.where(after, middle, low), tl.where(after, high, middle - 1)
    tile = (low < S)[:, None] & (c < D)[None, :]
    rows = tl.load(x + low.to(tl.int64)[:, None] * D + c[None, :], mask=tile, other=0.0)
    tl.store(out + i.to(tl.int64)[:, None] * D + c[None, :], rows, mask=(i < N)[:, None] & (c < D)[None, :])
