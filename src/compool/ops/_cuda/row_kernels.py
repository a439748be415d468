"""The GPU kernels that sum rows: see `kernels`."""

import triton
import triton.language as tl

from compool.ops._cuda.kernels import number_node, size_free


@triton.jit
def _add_rows(i, k, x, w, single, out, N, D: tl.constexpr, COLUMNS: tl.constexpr):
    """Add rows i, times w, to rows k. Rows that go to the tile's first target are summed before they are added."""
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, columns = i < N, c < D
    tile = inside[:, None] & columns[None, :]
    rows = w[:, None] * tl.load(x + i[:, None] * D + c[None, :], mask=tile, other=0.0).to(out.dtype.element_ty)
    to = out + k[:, None] * D + c[None, :]
    tl.store(to, rows, mask=tile & single[:, None])
    several = inside & (single == 0)
    none = 9223372036854775807
    leader = tl.min(tl.where(several, k, none), 0)
    led = several & (k == leader)
    total = tl.sum(tl.where(led[:, None], rows, 0.0), 0)
    tl.atomic_add(out + leader * D + c, total, mask=columns & (leader + 0 * c < none), sem="relaxed")
    tl.atomic_add(to, rows, mask=tile & (several & (led == 0))[:, None], sem="relaxed")


@size_free
def row_sum(
    x,
    weight,
    target,
    alone,
    out,
    N,
    D: tl.constexpr,
    HAS_ALONE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out[target[i]] += weight[i] · x[i]; `out` is initially zero. A row that is alone is stored, not added."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    single = inside & (i < 0)
    if HAS_ALONE:
        single = inside & (tl.load(alone + i, mask=inside, other=0) != 0)
    w = tl.load(weight + i, mask=inside, other=0.0)
    _add_rows(i, tl.load(target + i, mask=inside, other=0), x, w, single, out, N, D, COLUMNS)


@size_free
def number_and_merge(
    x, weight, alone, out, parent, rank, batch, cluster, first, graph, N, D: tl.constexpr,
    HAS_BATCH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`number_nodes`, and the weighted sum of each supernode's rows; the weight of a node that is alone becomes 1."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    if tl.program_id(1) == 0:
        number_node(i, parent, rank, batch, cluster, first, graph, N, HAS_BATCH)
    p = tl.load(parent + i, mask=i < N, other=0)
    k = tl.load(rank + p, mask=i < N, other=1).to(tl.int64) - 1
    inside = i < N
    single = inside & (tl.load(alone + i, mask=inside, other=0) != 0)
    w = tl.where(single, 1.0, tl.load(weight + i, mask=inside, other=0.0))
    if tl.program_id(1) == 0:
        tl.store(weight + i, w, mask=single)
    _add_rows(i, k, x, w, single, out, N, D, COLUMNS)


@size_free
def row_sum_backward(
    grad, x, weight, target, grad_x, grad_weight, N, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    w = tl.load(weight + i, mask=inside, other=0.0)
    k = tl.load(target + i, mask=inside, other=0)
    total = tl.zeros([ROWS], dtype=weight.dtype.element_ty)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        tile = inside[:, None] & (c < D)[None, :]
        g = tl.load(grad + k[:, None] * D + c[None, :], mask=tile, other=0.0).to(weight.dtype.element_ty)
        rows = tl.load(x + i[:, None] * D + c[None, :], mask=tile, other=0.0).to(weight.dtype.element_ty)
        total += tl.sum(g * rows, 1)
        tl.store(grad_x + i[:, None] * D + c[None, :], w[:, None] * g, mask=tile)
    tl.store(grad_weight + i, total, mask=inside)


@size_free
def gathered_row_sum(x, weight, source, target, out, E, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[target] += weight · x[source]; `out` is initially zero."""
    e = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = e < E
    w = tl.load(weight + e, mask=inside, other=0.0)
    inside = inside & (w != 0)
    u = tl.load(source + e, mask=inside, other=0).to(tl.int64)
    v = tl.load(target + e, mask=inside, other=0).to(tl.int64)
    tile = inside[:, None] & (c < D)[None, :]
    rows = w[:, None] * tl.load(x + u[:, None] * D + c[None, :], mask=tile, other=0.0).to(out.dtype.element_ty)
    tl.atomic_add(out + v[:, None] * D + c[None, :], rows, mask=tile, sem="relaxed")


@size_free
def gathered_row_sum_backward(
    grad, x, weight, source, target, grad_x, grad_weight, E, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """`grad_x` is initially zero."""
    e = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = e < E
    w = tl.load(weight + e, mask=inside, other=0.0)
    u = tl.load(source + e, mask=inside, other=0).to(tl.int64)
    v = tl.load(target + e, mask=inside, other=0).to(tl.int64)
    total = tl.zeros([ROWS], dtype=weight.dtype.element_ty)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        tile = inside[:, None] & (c < D)[None, :]
        g = tl.load(grad + v[:, None] * D + c[None, :], mask=tile, other=0.0).to(weight.dtype.element_ty)
        rows = tl.load(x + u[:, None] * D + c[None, :], mask=tile, other=0.0).to(weight.dtype.element_ty)
        total += tl.sum(g * rows, 1)
        moved = tile & (w != 0)[:, None]
        tl.atomic_add(grad_x + u[:, None] * D + c[None, :], w[:, None] * g, mask=moved, sem="relaxed")
    tl.store(grad_weight + e, total, mask=inside)


@size_free
def row_products(
    grad, x, cluster, out, ends, grad_halves, grad_bias, N, D: tl.constexpr, TWO: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """out[i] = grad[cluster[i]] · x[i]: the gradient of a node's weight. `ends`, `grad_halves` and `grad_bias` are set
    to zero, for the kernels that add to them.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    tl.store(ends + i, 0.0, mask=inside)
    if TWO:
        tl.store(ends + N + i, 0.0, mask=inside)
    if tl.program_id(0) == 0:
        tl.store(grad_bias, 0.0)
        for low in range(0, D, COLUMNS):
            c = low + tl.arange(0, COLUMNS)
            tl.store(grad_halves + c, 0.0, mask=c < D)
            if TWO:
                tl.store(grad_halves + D + c, 0.0, mask=c < D)
    k = tl.load(cluster + i, mask=inside, other=0)
    total = tl.zeros([ROWS], dtype=out.dtype.element_ty)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        tile = inside[:, None] & (c < D)[None, :]
        g = tl.load(grad + k[:, None] * D + c[None, :], mask=tile, other=0.0).to(out.dtype.element_ty)
        total += tl.sum(g * tl.load(x + i[:, None] * D + c[None, :], mask=tile, other=0.0).to(out.dtype.element_ty), 1)
    tl.store(out + i, total, mask=inside)


@size_free
def edges_backward(
    grad_weight, grad_score, score, merged, edge_index, stride, left, right, bias, raw, E,
    HAS_GRAD: tl.constexpr, SCORE: tl.constexpr, HAS_TERM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradients of the two ends, of the bias and, with HAS_TERM, of the `raw` scores, from the gradients of the
    weights and, with HAS_GRAD, of the scores.

    `left`, `right` and `bias` are initially zero.
    """
    e = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = e < E
    active = inside & (tl.load(merged + e, mask=inside, other=0) != 0)
    u = tl.load(edge_index + e, mask=inside, other=0)
    v = tl.load(edge_index + stride + e, mask=inside, other=0)
    g = tl.load(grad_weight + u, mask=active, other=0.0)
    if HAS_GRAD:
        g += tl.load(grad_score + e, mask=inside, other=0.0)
    s = tl.load(score + e, mask=inside, other=0.0)
    if SCORE == "tanh":
        g *= 1 - s * s
    elif SCORE == "sigmoid":
        g *= s * (1 - s)
    else:
        g = tl.where(tl.abs(s) < 1, g, 0.0)
    if HAS_TERM:
        tl.store(raw + e, g, mask=inside)
    some = inside & (g != 0)
    tl.atomic_add(left + u, g, mask=some, sem="relaxed")
    tl.atomic_add(right + v, g, mask=some, sem="relaxed")
    tl.atomic_add(bias, tl.sum(tl.where(inside, g, 0.0), 0), sem="relaxed")


@size_free
def nodes_backward(
    grad, x, weight, cluster, ends, halves, grad_x, grad_halves, N, TILES, PROGRAMS, D: tl.constexpr,
    TWO: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The gradients of `x`, through supernodes and scores, and of `halves`; `grad_halves` is initially zero."""
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = c < D
    dtype = ends.dtype.element_ty
    first = tl.load(halves + c, mask=columns, other=0.0)
    total = tl.zeros([COLUMNS], dtype=dtype)
    if TWO:
        second = tl.load(halves + D + c, mask=columns, other=0.0)
        other = tl.zeros([COLUMNS], dtype=dtype)
    for tile_number in range(tl.program_id(0), TILES, PROGRAMS):
        i = (tile_number * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = i < N
        tile = inside[:, None] & columns[None, :]
        offset = i[:, None] * D + c[None, :]
        k = tl.load(cluster + i, mask=inside, other=0)
        w = tl.load(weight + i, mask=inside, other=0.0)
        a = tl.load(ends + i, mask=inside, other=0.0)
        rows = tl.load(x + offset, mask=tile, other=0.0).to(dtype)
        g = tl.load(grad + k[:, None] * D + c[None, :], mask=tile, other=0.0).to(dtype)
        out = w[:, None] * g + a[:, None] * first[None, :]
        total += tl.sum(a[:, None] * rows, 0)
        if TWO:
            b = tl.load(ends + N + i, mask=inside, other=0.0)
            out += b[:, None] * second[None, :]
            other += tl.sum(b[:, None] * rows, 0)
        tl.store(grad_x + offset, out, mask=tile)
    tl.atomic_add(grad_halves + c, total, mask=columns, sem="relaxed")
    if TWO:
        tl.atomic_add(grad_halves + D + c, other, mask=columns, sem="relaxed")


@size_free
def pair_members(cluster, low, high, N, K, BLOCK: tl.constexpr):
    """The lower and the higher member of each pair, initially N and −1; both are the same node for a single node."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.load(cluster + i, mask=i < N, other=0)
    valid = (i < N) & (k < K)
    tl.atomic_min(low + k, i, mask=valid, sem="relaxed")
    tl.atomic_max(high + k, i, mask=valid, sem="relaxed")


@size_free
def merge_pairs(x, score, low, high, out, N, K, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sum of a supernode's one or two rows, times its score; zero where there is no supernode."""
    k = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, columns = k < K, c < D
    dtype = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    i = tl.load(low + k, mask=inside, other=N).to(tl.int64)
    j = tl.load(high + k, mask=inside, other=-1).to(tl.int64)
    valid = i < N
    two = valid & (i < j)
    rows = tl.load(x + i[:, None] * D + c[None, :], mask=valid[:, None] & columns[None, :], other=0.0).to(dtype)
    rows += tl.load(x + j[:, None] * D + c[None, :], mask=two[:, None] & columns[None, :], other=0.0).to(dtype)
    rows *= tl.load(score + k, mask=inside & valid, other=0.0).to(dtype)[:, None]
    offset = k[:, None] * D + c[None, :]
    tl.store(out + offset, rows.to(out.dtype.element_ty), mask=inside[:, None] & columns[None, :])


@size_free
def merge_pairs_backward(
    grad, x, score, cluster, grad_x, grad_score, N, K, D: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """`grad_score` is initially zero. At most two members add to each entry, so their order does not matter."""
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = i < N
    k = tl.load(cluster + i, mask=inside, other=0)
    valid = inside & (k < K)
    dtype = grad_score.dtype.element_ty
    s = tl.load(score + k, mask=valid, other=0.0).to(dtype)
    total = tl.zeros([ROWS], dtype=dtype)
    for low in range(0, D, COLUMNS):
        c = low + tl.arange(0, COLUMNS)
        columns = (c < D)[None, :]
        offset = i[:, None] * D + c[None, :]
        g = tl.load(grad + k[:, None] * D + c[None, :], mask=valid[:, None] & columns, other=0.0).to(dtype)
        total += tl.sum(g * tl.load(x + offset, mask=valid[:, None] & columns, other=0.0).to(dtype), 1)
        tl.store(grad_x + offset, (s[:, None] * g).to(grad_x.dtype.element_ty), mask=inside[:, None] & columns)
    tl.atomic_add(grad_score + k, total, mask=valid, sem="relaxed")
