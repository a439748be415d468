"""The GPU kernels of batch norm per replica: see `_cuda_kernels`."""

import triton.language as tl

from compool.replicas.kernels._cuda_kernels import _tile, size_free


@size_free
def norm_sums(
    x, grad, result, mean, scale, ptr, sums, weighted_sums, N, S, D: tl.constexpr, WHAT: tl.constexpr,
    RELU: tl.constexpr, SEGMENTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sums over each segment, initially zero. WHAT selects the summands: "rows", "squares" of centred rows, or "grads",
    the gradients of the result and these gradients times the normalised rows.
    """
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, ROWS, SEGMENTS)
    if start >= stop:
        return
    i = (start + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = c < D
    tile = (i < end)[:, None] & columns[None, :]
    position = i[:, None] * D + c[None, :]
    rows = tl.load(x + position, mask=tile, other=0.0)
    to = segment * D + c
    if WHAT != "rows":
        rows = tl.where(tile, rows - tl.load(mean + to, mask=columns, other=0.0)[None, :], 0.0)
    if WHAT == "rows":
        tl.atomic_add(sums + to, tl.sum(rows, 0), mask=columns, sem="relaxed")
    elif WHAT == "squares":
        tl.atomic_add(sums + to, tl.sum(rows * rows, 0), mask=columns, sem="relaxed")
    else:
        g = tl.load(grad + position, mask=tile, other=0.0)
        if RELU:
            g = tl.where(tl.load(result + position, mask=tile, other=0.0) > 0, g, 0.0)
        rows *= tl.load(scale + to, mask=columns, other=0.0)[None, :]
        tl.atomic_add(sums + to, tl.sum(g, 0), mask=columns, sem="relaxed")
        tl.atomic_add(weighted_sums + to, tl.sum(g * rows, 0), mask=columns, sem="relaxed")


@size_free
def norm_rows(
    x, grad, result, mean, scale, weight, shift, weighted_mean, ptr, out, N, S, D: tl.constexpr, BACKWARD: tl.constexpr,
    RELU: tl.constexpr, SEGMENTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """(x − mean) · scale · weight + shift. BACKWARD: the gradient of x; `shift` and `weighted_mean` are then the two
    sums of gradients from `norm_sums`, divided by the number of rows.
    """
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, ROWS, SEGMENTS)
    if start >= end:
        return
    i = (start + tl.arange(0, ROWS)).to(tl.int64)
    c = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    columns = c < D
    tile = (i < stop)[:, None] & columns[None, :]
    position = i[:, None] * D + c[None, :]
    of = segment * D + c
    s = tl.load(scale + of, mask=columns, other=0.0)[None, :]
    w = tl.load(weight + of, mask=columns, other=0.0)[None, :]
    a = tl.load(shift + of, mask=columns, other=0.0)[None, :]
    value = (tl.load(x + position, mask=tile, other=0.0) - tl.load(mean + of, mask=columns, other=0.0)[None, :]) * s
    if BACKWARD:
        g = tl.load(grad + position, mask=tile, other=0.0)
        if RELU:
            g = tl.where(tl.load(result + position, mask=tile, other=0.0) > 0, g, 0.0)
        value = (g - a - value * tl.load(weighted_mean + of, mask=columns, other=0.0)[None, :]) * w * s
    else:
        value = value * w + a
        if RELU:
            value = tl.where(value > 0, value, tl.where(value != value, value, 0.0))
    value = tl.where(tile, value, 0.0)
    tl.store(out + position, value, mask=(i < end)[:, None] & columns[None, :])
