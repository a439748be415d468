"""Launches of GPU kernels, and their grids."""

from typing import Any

import torch
from torch import Tensor

EDGES = 512  # per program
HOOKS = 128  # edges per program in kernels that loop until the last edge is done
NODES = 512  # per program
PROGRAMS = 1024  # at most, in kernels whose programs all add to the same few sums
TABLE = 2**26  # entries of the largest hash table, 512 MiB

_compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Run ``kernel[grid](*args, **constants)``; from the second time on without Triton's own bookkeeping.

    A compiled kernel is reused for the same dtypes, alignments and constants. It gets addresses instead of tensors,
    because its launcher would look up the address of each tensor again. Numbers among `args` must be below 2³¹; kernels
    are not specialised on them.
    """
    device = args[0].get_device()
    key: list[Any] = [id(kernel), device, *constants.items()]
    values = []
    for arg in args:
        if isinstance(arg, Tensor):
            if arg.get_device() != device:
                raise ValueError(f"tensors must be on one device, got {args[0].device} and {arg.device}")
            address = arg.data_ptr()
            key.append((arg.dtype, address & 15))
            values.append(address)
        else:
            values.append(arg)
    cached = _compiled.get(tuple(key))
    if cached is None:
        compiled = kernel[grid](*args, **constants)
        if compiled is not None:  # the interpreter compiles nothing
            _compiled[tuple(key)] = compiled, tuple(constants[name] for name in kernel.arg_names[len(args) :])
        return
    compiled, rest = cached
    x, y, z = (*grid, 1, 1)[:3]
    stream = torch._C._cuda_getCurrentRawStream(device)
    compiled.run(x, y, z, stream, compiled.function, compiled.packed_metadata, None, None, None, *values, *rest)


def over(count: int, block: int) -> tuple[int]:
    return (-(-count // block),)


def power(count: int) -> int:
    """The least power of two that is at least `count`; Triton's own function for this takes microseconds."""
    return 1 << max(count - 1, 0).bit_length()


def tiles(rows: int, x: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid and the tile of a kernel over rows and channels."""
    channels = x.size(1)
    columns = min(1 << max(channels - 1, 0).bit_length(), 128)  # `power` and `over` in place: few calls per step
    tile = {"D": channels, "ROWS": max(1, 2048 // columns), "COLUMNS": columns}
    return (-(-rows // tile["ROWS"]), -(-channels // columns)), tile


def strided(edge_index: Tensor) -> tuple[Tensor, int]:
    """The edges in a layout that kernels can read, and the offset from their sources to their targets."""
    if edge_index.size(1) >= 2**31:
        raise ValueError(f"edge_index has {edge_index.size(1)} edges; the GPU kernels take fewer than 2³¹")
    if edge_index.stride(1) != 1 or edge_index.stride(0) >= 2**31:
        edge_index = edge_index.contiguous()
    return edge_index, edge_index.stride(0)


def check_nodes(num_nodes: int) -> None:
    if num_nodes >= 2**31:
        raise ValueError(f"x has {num_nodes} nodes; the GPU kernels take fewer than 2³¹")
