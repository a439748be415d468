"""The GPU kernels of padded graphs, whose sizes never change: see `_cuda_kernels`."""

import triton.language as tl

from compool.ops._cuda.kernels import size_free


@size_free
def pair_keys(
    edge_index, stride, root, keys, limit, E, NONE: tl.constexpr, BITS: tl.constexpr, SELF_LOOPS: tl.constexpr,
    INPUT_LOOPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Keys that sort edges by the roots they join: the source, and in the last BITS the distance to the target, which
    is less than 2^(BITS − 1) either way. NONE, the largest number, marks edges that are dropped.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_edge = (e < E) & (e < tl.load(limit))
    u = tl.load(edge_index + e, mask=is_edge, other=0)
    v = tl.load(edge_index + stride + e, mask=is_edge, other=0)
    k = tl.load(root + u, mask=is_edge, other=0).to(tl.int64)
    m = tl.load(root + v, mask=is_edge, other=0).to(tl.int64)
    keep = is_edge & (k != m)
    if SELF_LOOPS:
        keep = is_edge & (INPUT_LOOPS | (k != m) | (u != v))
    key = (k << BITS) + (m - k) + (1 << (BITS - 1))
    tl.store(keys + e, tl.where(keep, key, NONE).to(keys.dtype.element_ty), mask=e < E)


@size_free
def first_of_runs(keys, is_first, E, NONE: tl.constexpr, BLOCK: tl.constexpr):
    """1 for each sorted key that differs from the one before it, 0 for repeats and for NONE."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + e, mask=e < E, other=0)
    before = tl.load(keys + e - 1, mask=(e < E) & (e > 0), other=-1)
    tl.store(is_first + e, ((key != before) & (key != NONE)).to(tl.int32), mask=e < E)


@size_free
def place_edges(keys, rank, out, stride, E, BITS: tl.constexpr, BLOCK: tl.constexpr):
    """Write each distinct key to its position among the edges [2, E]; `rank` counts them, from 1."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys + e, mask=e < E, other=0).to(tl.int64)
    position = tl.load(rank + e, mask=e < E, other=0) - 1
    before = tl.load(rank + e - 1, mask=(e < E) & (e > 0), other=0) - 1
    fresh = (e < E) & (position != before)
    source = key >> BITS
    tl.store(out + position, source, mask=fresh)
    tl.store(out + stride + position, source + (key & ((1 << BITS) - 1)) - (1 << (BITS - 1)), mask=fresh)


@size_free
def row_starts(keys, rank, row_ptr, E, N, BITS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """The start of each row's edges [N + 1]: the rank before the first sorted key of that row, by bisection."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i <= N
    low = tl.zeros([BLOCK], dtype=tl.int64)
    high = tl.zeros([BLOCK], dtype=tl.int64) + E
    for _ in range(STEPS):
        middle = (low + high) // 2
        smaller = tl.load(keys + middle, mask=inside & (low < high), other=0) < (i << BITS)
        low = tl.where(smaller & (low < high), middle + 1, low)
        high = tl.where(smaller, high, middle)
    start = tl.load(rank + low - 1, mask=inside & (low > 0), other=0)
    tl.store(row_ptr + i, start.to(tl.int64), mask=inside)


@size_free
def softmax_rows(ends, row_ptr, neighbour, largest, total, N, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """For the edges into each node, which are the reverse of its outgoing edges: the largest raw score, and the sum of
    exponentials of raw scores minus the largest.
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    start = tl.load(row_ptr + i, mask=inside, other=0)
    end = tl.load(row_ptr + i + 1, mask=inside, other=0)
    own = tl.load(ends + N + i, mask=inside, other=0.0)
    high = tl.full([ROWS], -3e38, dtype=ends.dtype.element_ty)  # not −∞, because ∞ − ∞ is NaN
    sums = tl.zeros([ROWS], dtype=ends.dtype.element_ty)
    for offset in range(0, tl.max(end - start, 0), WIDE):
        e = start[:, None] + offset + tl.arange(0, WIDE)[None, :]
        is_edge = e < end[:, None]
        j = tl.load(neighbour + e, mask=is_edge, other=0)
        raw = tl.where(is_edge, tl.load(ends + j, mask=is_edge, other=0.0) + own[:, None], -3e38)
        before, high = high, tl.maximum(high, tl.max(raw, 1))
        parts = tl.where(is_edge, tl.exp(raw - high[:, None]), 0.0)
        sums = sums * tl.exp(before - high) + tl.sum(parts, 1)
    tl.store(largest + i, high, mask=inside)
    tl.store(total + i, sums, mask=inside)


@size_free
def softmax_edges(ends, edge_index, stride, largest, total, share, limit, N, E, BLOCK: tl.constexpr):
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_edge = (e < E) & (e < tl.load(limit))
    u = tl.load(edge_index + e, mask=is_edge, other=0)
    v = tl.load(edge_index + stride + e, mask=is_edge, other=0)
    raw = tl.load(ends + u, mask=is_edge, other=0.0) + tl.load(ends + N + v, mask=is_edge, other=0.0)
    value = tl.exp(raw - tl.load(largest + v, mask=is_edge, other=0.0))
    value /= tl.load(total + v, mask=is_edge, other=1.0) + 1e-16  # as in PyG
    tl.store(share + e, tl.where(is_edge, value, 0.0), mask=e < E)


@size_free
def softmax_into(grad, share, edge_index, stride, into, limit, E, BLOCK: tl.constexpr):
    """The sum of gradient times share over the edges into each node, initially zero; few edges have a gradient."""
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_edge = (e < E) & (e < tl.load(limit))
    g = tl.load(grad + e, mask=is_edge, other=0.0)
    has_grad = is_edge & (g != 0)
    v = tl.load(edge_index + stride + e, mask=has_grad, other=0)
    tl.atomic_add(into + v, g * tl.load(share + e, mask=has_grad, other=0.0), mask=has_grad, sem="relaxed")


@size_free
def softmax_out(grad, share, row_ptr, neighbour, into, out, N, ROWS: tl.constexpr, WIDE: tl.constexpr):
    """The gradient of what each node adds to its outgoing edges."""
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    start = tl.load(row_ptr + i, mask=inside, other=0)
    end = tl.load(row_ptr + i + 1, mask=inside, other=0)
    sums = tl.zeros([ROWS], dtype=grad.dtype.element_ty)
    for offset in range(0, tl.max(end - start, 0), WIDE):
        e = start[:, None] + offset + tl.arange(0, WIDE)[None, :]
        is_edge = e < end[:, None]
        j = tl.load(neighbour + e, mask=is_edge, other=0)
        g = tl.load(grad + e, mask=is_edge, other=0.0) - tl.load(into + j, mask=is_edge, other=0.0)
        sums += tl.sum(g * tl.load(share + e, mask=is_edge, other=0.0), 1)
    tl.store(out + i, sums, mask=inside)


@size_free
def contraction_keys(score, row_ptr, graph_ptr, keys, BLOCK: tl.constexpr):
    """One program per graph: keys that sort edges by graph, then by descending score."""
    graph = tl.program_id(0)
    start = tl.load(row_ptr + tl.load(graph_ptr + graph))
    end = tl.load(row_ptr + tl.load(graph_ptr + graph + 1))
    for low in range(start, end, BLOCK):
        e = low + tl.arange(0, BLOCK)
        s = tl.load(score + e, mask=e < end, other=0.0)
        bits = tl.where(s == 0, 0.0, s).to(tl.int32, bitcast=True)  # −0 and 0 are equal
        rank = tl.where(bits < 0, bits & 0x7FFFFFFF, -1 - bits).to(tl.int64) + 0x80000000
        tl.store(keys + e, (graph.to(tl.int64) << 32) | rank, mask=e < end)


@size_free
def contract(order, edge_index, stride, row_ptr, graph_ptr, edge_of, BLOCK: tl.constexpr):
    """One program per graph: contract its edges in order, skipping edges with an end that is already contracted.

    `edge_of`, the contracted edge of each node, is initially −1. Most edges of a dense graph are skipped, a block at a
    time; within a block, the first free edge is contracted until none is left.
    """
    graph = tl.program_id(0)
    node = tl.load(graph_ptr + graph)
    start, end = tl.load(row_ptr + node), tl.load(row_ptr + tl.load(graph_ptr + graph + 1))
    offsets = tl.arange(0, BLOCK)
    for low in range(start, end, BLOCK):
        inside = low + offsets < end
        e = tl.load(order + low + offsets, mask=inside, other=0)
        u = tl.load(edge_index + e, mask=inside, other=0)
        v = tl.load(edge_index + stride + e, mask=inside, other=0)
        free = inside & (tl.load(edge_of + u, mask=inside, other=0) < 0)
        free = free & (tl.load(edge_of + v, mask=inside, other=0) < 0)
        first = tl.min(tl.where(free, offsets, BLOCK), 0)
        while first < BLOCK:
            is_chosen = offsets == first
            ends = tl.sum(tl.where(is_chosen, ((u - node).to(tl.int64) << 32) | (v - node), 0), 0)
            source, target = (ends >> 32) + node, (ends & 0xFFFFFFFF) + node
            tl.store(edge_of + u, e.to(tl.int32), mask=is_chosen)
            tl.store(edge_of + v, e.to(tl.int32), mask=is_chosen)
            free = free & (u != source) & (u != target) & (v != source) & (v != target)
            first = tl.min(tl.where(free, offsets, BLOCK), 0)
        tl.debug_barrier()
