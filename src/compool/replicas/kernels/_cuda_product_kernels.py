"""The GPU kernels of matrix products per replica: see `_cuda_kernels`."""

import triton
import triton.language as tl

from compool.replicas.kernels._cuda_kernels import _activated, _tile, size_free


@triton.jit
def _split_tf32(value, PRECISION: tl.constexpr):
    """Split a float32 into the sum of two numbers with few bits, as tensor cores need; no split for "tf32"."""
    if PRECISION == "tf32":
        high, low = value, value
    else:
        high = ((value.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
        high = tl.where(value == value, high, float("nan"))  # NaN may round to infinity, or to −0
        low = value - high
    return high, low


@triton.jit
def _dot(left, high, low, total, PRECISION: tl.constexpr):
    """Add `left` times the sum of `high` and `low` to `total`, as precisely as in float32.

    Triton's own "tf32x3" splits both factors for every product; this splits a constant factor once before the loop.
    """
    if PRECISION == "tf32":
        total = tl.dot(left, high, total, input_precision="tf32")
    else:
        left_high, left_low = _split_tf32(left, PRECISION)
        small = tl.dot(left_low, high, input_precision="tf32")
        small = tl.dot(left_high, low, small, input_precision="tf32")
        small = tl.where(small == small, small, 0.0)  # the low bits of infinity are NaN; those of NaN are in `high`
        total = tl.dot(left_high, high, total + small, input_precision="tf32")
    return total


@size_free
def grouped_linear(
    x, weight, bias, onto, key, probability, ptr, out, N, S, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_ONTO: tl.constexpr, HAS_KEY: tl.constexpr, RELU: tl.constexpr,
    PRECISION: tl.constexpr, SEGMENTS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """CHUNK rows per program, ROWS at a time; a weight with at most INNER inputs is loaded only once."""
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, CHUNK, SEGMENTS)
    if start >= end:
        return
    end = tl.minimum(end, start + CHUNK)
    o = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    if start >= stop:  # rows of no replica
        for first in range(start, end, ROWS):
            i = (first + tl.arange(0, ROWS)).to(tl.int64)
            nothing = tl.zeros([ROWS, COLUMNS], dtype=out.dtype.element_ty)
            tl.store(out + i[:, None] * OUTPUTS + o[None, :], nothing, mask=(i < end)[:, None] & (o < OUTPUTS)[None, :])
        return
    k = tl.arange(0, INNER)
    columns = weight + segment.to(tl.int64) * INPUTS * OUTPUTS + k[:, None] + o[None, :] * INPUTS
    w = tl.load(columns, mask=(k < INPUTS)[:, None] & (o < OUTPUTS)[None, :], other=0.0)
    high, low = _split_tf32(w, PRECISION)
    for first in range(start, end, ROWS):
        i = (first + tl.arange(0, ROWS)).to(tl.int64)
        total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        for offset in tl.static_range(0, INPUTS, INNER):
            inside = offset + k < INPUTS
            rows = x + i[:, None] * INPUTS + offset + k[None, :]
            r = tl.load(rows, mask=(i < stop)[:, None] & inside[None, :], other=0.0)
            if offset == 0:
                total = _dot(r, high, low, total, PRECISION)
            else:
                w = tl.load(columns + offset, mask=inside[:, None] & (o < OUTPUTS)[None, :], other=0.0)
                more_high, more_low = _split_tf32(w, PRECISION)
                total = _dot(r, more_high, more_low, total, PRECISION)
        position = i[:, None] * OUTPUTS + o[None, :]
        if HAS_ONTO:
            valid = (i < stop)[:, None] & (o < OUTPUTS)[None, :]
            total += tl.load(onto + position, mask=valid, other=0.0).to(tl.float32)
        if HAS_BIAS:
            total += tl.load(bias + segment * OUTPUTS + o, mask=o < OUTPUTS, other=0.0).to(tl.float32)[None, :]
        row = i - tl.load(ptr + segment)
        total = _activated(total, row, o, segment, key, probability, OUTPUTS, RELU, HAS_KEY)
        total = tl.where((i < stop)[:, None], total, 0.0).to(out.dtype.element_ty)
        tl.store(out + position, total, mask=(i < end)[:, None] & (o < OUTPUTS)[None, :])


@size_free
def grouped_outer(
    left, right, ptr, out, sums, N, S, A: tl.constexpr, B: tl.constexpr, HAS_SUMS: tl.constexpr,
    PRECISION: tl.constexpr, SEGMENTS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
):  # fmt: skip
    """out[s] += leftᵀ right and sums[s] += the sum of left, over CHUNK rows; both are initially zero."""
    segment, start, end, stop = _tile(ptr, tl.program_id(0), N, S, CHUNK, SEGMENTS)
    if start >= stop:
        return
    end = tl.minimum(end, start + CHUNK)
    a = tl.program_id(1) * LEFT + tl.arange(0, LEFT)
    b = tl.program_id(2) * RIGHT + tl.arange(0, RIGHT)
    total = tl.zeros([LEFT, RIGHT], dtype=tl.float32)
    shares = tl.zeros([LEFT, ROWS], dtype=tl.float32)
    for low in range(start, end, ROWS):
        i = (low + tl.arange(0, ROWS)).to(tl.int64)
        left_rows = tl.load(left + a[:, None] + i[None, :] * A, mask=(a < A)[:, None] & (i < end)[None, :], other=0.0)
        right_rows = tl.load(right + i[:, None] * B + b[None, :], mask=(i < end)[:, None] & (b < B)[None, :], other=0.0)
        total = tl.dot(left_rows, right_rows, total, input_precision=PRECISION)
        if HAS_SUMS:
            shares += left_rows.to(tl.float32)
    to = out + segment.to(tl.int64) * A * B + a[:, None] * B + b[None, :]
    tl.atomic_add(to, total, mask=(a < A)[:, None] & (b < B)[None, :], sem="relaxed")
    if HAS_SUMS and tl.program_id(2) == 0:
        tl.atomic_add(sums + segment * A + a, tl.sum(shares, 1), mask=a < A, sem="relaxed")
