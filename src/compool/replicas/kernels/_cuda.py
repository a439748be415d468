"""The operations of stacked layers on a GPU, with Triton. No size is copied to the host."""

import torch
from torch import Tensor

from compool.ops._cuda.launch import launch, over, power, strided, wide
from compool.replicas.kernels import _cuda_kernels as kernels
from compool.replicas.kernels import _cuda_norm_kernels as norm
from compool.replicas.kernels import _cuda_product_kernels as products
from compool.replicas.kernels import _torch
from compool.replicas.kernels._cuda_padded import (
    coarsen_padded,
    contract_padded,
    forest_padded,
    softmax_ends,
    softmax_ends_backward,
)
from compool.replicas.kernels._dispatch import ReplicaKernels
from compool.replicas.kernels.unions import segment_sizes


def _precision() -> str:
    """The precision of float32 products: one TF32 pass if torch allows it, else three, as exact as float32."""
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "tf32x3"


def _needs_reference(x: Tensor) -> bool:
    """Whether torch must compute the product: for sums in a fixed order, and for float64, which has no kernel."""
    return x.dtype == torch.float64 or torch.are_deterministic_algorithms_enabled()


def _segments(ptr: Tensor) -> int:
    """A block size for the segments of `ptr` and the padding segment."""
    return power(ptr.size(0))


def _tiles(x: Tensor, ptr: Tensor, size: int = 8192) -> tuple[tuple[int, int], dict[str, int]]:
    """The grid and the tile of a kernel over rows and columns, such that no tile has rows of two segments."""
    columns = min(power(x.size(1)), 128)
    rows = max(16, size // columns)
    tile = {"D": x.size(1), "SEGMENTS": _segments(ptr), "ROWS": rows, "COLUMNS": columns}
    return (x.size(0) // rows + ptr.size(0), *over(x.size(1), columns)), tile


def gather_graphs(
    graph_ids: Tensor, node_ptr: Tensor, edge_ptr: Tensor, row_ptr: Tensor, edge_index: Tensor, nodes: int, edges: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    pointers = (torch.cumsum(segment_sizes(ptr, graph_ids), 0) for ptr in (node_ptr, edge_ptr))
    graph_ptr, edge_start = (torch.nn.functional.pad(pointer, (1, 0)) for pointer in pointers)
    if nodes == -1:
        nodes, edges = torch.stack([graph_ptr[-1], edge_start[-1]]).tolist()
    node = node_ptr.new_full((nodes,), row_ptr.size(0) - 1)
    rows, out = edge_start[-1:].repeat(nodes + 1), edge_index.new_zeros(2, edges)
    if graph_ids.numel():
        source = (graph_ids.contiguous(), node_ptr, edge_ptr, row_ptr, *strided(edge_index))
        to = (graph_ptr, edge_start, node, rows, out)
        launch(kernels.gather_graphs, (graph_ids.numel(),), *source, *to, nodes, edges, BLOCK=1024)
    return graph_ptr, node, rows, out


def grouped_linear(x: Tensor, weight: Tensor, bias: Tensor | None, ptr: Tensor) -> Tensor:
    return _torch.grouped_linear(x, weight, bias, ptr) if _needs_reference(x) else _linear(x, weight, bias, ptr)


def linear_activate(
    x: Tensor,
    weight: Tensor,
    onto: Tensor | None,
    bias: Tensor,
    ptr: Tensor,
    key: Tensor | None,
    probability: Tensor,
) -> Tensor:
    if _needs_reference(x):
        return _torch.linear_activate(x, weight, onto, bias, ptr, key, probability)
    return _linear(x, weight, bias, ptr, onto, key, probability, relu=True)


def _linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    ptr: Tensor,
    onto: Tensor | None = None,
    key: Tensor | None = None,
    probability: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    num_rows, inputs, outputs = *x.shape, weight.size(1)
    out = x.new_empty(num_rows, outputs)
    if not out.numel():
        return out
    weight = weight.contiguous()  # products with a transposed weight took a third longer
    inner, columns = min(max(power(inputs), 16), 128), min(max(power(outputs), 16), 64)
    chunk, tile = 512, {"ROWS": 64, "INNER": inner, "COLUMNS": columns, "num_warps": 4, "num_stages": 2}
    extra = (ptr if given is None else given.contiguous() for given in (bias, onto, key, probability))
    args = (x.contiguous(), weight, *extra, ptr, out, num_rows, ptr.size(0) - 1)
    has = {"HAS_BIAS": bias is not None, "HAS_ONTO": onto is not None, "HAS_KEY": key is not None, "RELU": relu}
    precision = _precision() if x.dtype == torch.float32 else "tf32"  # half precision does not use this setting
    shape = {"INPUTS": inputs, "OUTPUTS": outputs, "SEGMENTS": _segments(ptr), "CHUNK": chunk}
    grid = (num_rows // chunk + ptr.size(0), *over(outputs, columns))
    launch(products.grouped_linear, grid, *args, PRECISION=precision, **has, **shape, **tile)
    return out


def grouped_outer(left: Tensor, right: Tensor, ptr: Tensor, has_sums: bool) -> tuple[Tensor, Tensor]:
    if _needs_reference(left):
        return _torch.grouped_outer(left, right, ptr, has_sums)
    segments, num_rows, a, b = ptr.size(0) - 1, left.size(0), left.size(1), right.size(1)
    both = torch.zeros(segments * a * (b + has_sums), dtype=torch.float32, device=left.device)
    out, sums = both[: segments * a * b].view(segments, a, b), both[segments * a * b :].view(-1, a)
    if out.numel() and num_rows:
        chunk, tall, narrow = 1024, min(max(power(a), 16), 128), min(max(power(b), 16), 64)
        args = (left.contiguous(), right.contiguous(), ptr, out, sums, num_rows, segments)
        tile = {"SEGMENTS": _segments(ptr), "CHUNK": chunk, "ROWS": 32, "LEFT": tall, "RIGHT": narrow}
        tile["num_warps"] = 8 if tall == 128 else 4
        grid = (num_rows // chunk + ptr.size(0), *over(a, tall), *over(b, narrow))
        launch(products.grouped_outer, grid, *args, A=a, B=b, HAS_SUMS=has_sums, PRECISION=_precision(), **tile)
    return out.to(left.dtype), sums.to(left.dtype)


def propagate(
    x: Tensor, row_ptr: Tensor, neighbour: Tensor, left: Tensor | None, right: Tensor | None, own: Tensor | None
) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if out.numel():
        columns = min(power(x.size(1)), 128)
        few = 512 if neighbour.size(0) >= 16 * x.size(0) else 16  # if most rows are long, their lengths are similar
        factors = (x if factor is None else factor.contiguous() for factor in (left, right, own))
        has = {"HAS_LEFT": left is not None, "HAS_RIGHT": right is not None, "HAS_OWN": own is not None}
        # Triton 3.6 cannot compile the kernel for 16 to 64 rows; a thread holds four numbers of a row
        rows, warps = (8, min(columns // 16, 4)) if columns >= 16 else (128, 4)
        edges = min(max(16, 1024 * warps // columns), 256)  # long and short rows share the registers
        tile = {"FEW": few, "ROWS": rows, "EDGES": edges, "LONG": 32, "COLUMNS": columns}
        grid = (over(x.size(0), 32)[0] + over(x.size(0), rows)[0], *over(x.size(1), columns))
        given = (x, row_ptr, neighbour.contiguous(), *factors, out, x.size(0))
        launch(kernels.propagate, grid, *given, D=x.size(1), **has, **tile, num_warps=warps)
    return out


def _activated(
    x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor, relu: bool
) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    if out.numel():
        grid, tile = _tiles(x, ptr)
        has = {"HAS_BIAS": bias is not None, "HAS_KEY": key is not None, "RELU": relu}
        given = (x, x if bias is None else bias.contiguous(), ptr, ptr if key is None else key, probability, out)
        launch(kernels.activate, grid, *given, x.size(0), ptr.size(0) - 1, **has, **tile)
    return out


def drop(x: Tensor, ptr: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    return _activated(x, None, ptr, key, probability, relu=False)


def activate(x: Tensor, bias: Tensor | None, ptr: Tensor, key: Tensor | None, probability: Tensor) -> Tensor:
    return _activated(x, bias, ptr, key, probability, relu=True)


def activate_backward(grad: Tensor, out: Tensor, ptr: Tensor, probability: Tensor | None) -> tuple[Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.activate_backward(grad, out, ptr, probability)
    grad = grad.contiguous()
    grad_x = torch.empty_like(grad)
    grad_bias = torch.zeros(ptr.size(0) - 1, grad.size(1), dtype=wide(grad), device=grad.device)
    if grad_x.numel():
        grid, tile = _tiles(grad, ptr)
        given = (grad, out.contiguous(), ptr, grad_bias if probability is None else probability, grad_x, grad_bias)
        sizes = (grad.size(0), ptr.size(0) - 1)
        launch(kernels.activate_backward, grid, *given, *sizes, DROPS=probability is not None, **tile)
    return grad_x, grad_bias.to(grad.dtype)


def _columns(x: Tensor) -> dict[str, int]:
    columns = min(power(x.size(1)), 128)
    return {"D": x.size(1), "ROWS": max(1, 4096 // columns), "COLUMNS": columns}


def segment_sum(x: Tensor, ptr: Tensor) -> Tensor:
    out = x.new_empty(ptr.size(0) - 1, x.size(1))
    if out.numel():
        tile = _columns(x)
        if tile["COLUMNS"] == 128 and x.size(0) >= 128 * out.size(0):  # long segments: they dominate the time
            tile |= {"ROWS": 128, "num_warps": 8}
        grid = (out.size(0), *over(x.size(1), tile["COLUMNS"]))
        launch(kernels.segment_sum, grid, x.contiguous(), ptr, out, **tile)
    return out


def segment_repeat(x: Tensor, ptr: Tensor, num_rows: int) -> Tensor:
    out = x.new_empty(num_rows, x.size(1))
    if out.numel():
        tile, steps = _columns(x), ptr.size(0).bit_length()
        grid = (*over(num_rows, tile["ROWS"]), *over(x.size(1), tile["COLUMNS"]))
        launch(kernels.segment_repeat, grid, x.contiguous(), ptr, out, num_rows, ptr.size(0) - 1, STEPS=steps, **tile)
    return out


def segment_norm(
    x: Tensor, weight: Tensor, bias: Tensor, ptr: Tensor, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled() or x.dtype not in (torch.float32, torch.float64) or not x.numel():
        return _torch.segment_norm(x, weight, bias, ptr, eps, relu)
    x = x.contiguous()
    num_rows = ptr.diff().clamp(min=1).unsqueeze(1)
    mean, variance = torch.zeros_like(weight), torch.zeros_like(weight)
    grid, tile = _tiles(x, ptr)
    sizes = {"RELU": relu, **tile}
    given = (x, x, x, mean, mean, ptr)
    args = (x.size(0), ptr.size(0) - 1)
    launch(norm.norm_sums, grid, *given, mean, mean, *args, WHAT="rows", **sizes)
    mean /= num_rows
    launch(norm.norm_sums, grid, *given, variance, variance, *args, WHAT="squares", **sizes)
    variance /= num_rows
    out, scale = torch.empty_like(x), (variance + eps).rsqrt_()
    w, b = weight.contiguous(), bias.contiguous()
    launch(norm.norm_rows, grid, x, x, x, mean, scale, w, b, b, ptr, out, *args, BACKWARD=False, **sizes)
    return out, mean, variance


def segment_norm_backward(
    grad: Tensor,
    x: Tensor,
    out: Tensor,
    weight: Tensor,
    mean: Tensor,
    variance: Tensor,
    ptr: Tensor,
    eps: float,
    relu: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled() or x.dtype not in (torch.float32, torch.float64) or not x.numel():
        return _torch.segment_norm_backward(grad, x, out, weight, mean, variance, ptr, eps, relu)
    grad, x, out, mean = (t.contiguous() for t in (grad, x, out, mean))
    scale, num_rows = (variance + eps).rsqrt_().contiguous(), ptr.diff().clamp(min=1).unsqueeze(1)
    grad_bias, grad_weight = torch.zeros_like(mean), torch.zeros_like(mean)
    grid, tile = _tiles(x, ptr)
    sizes = {"RELU": relu, **tile}
    args = (x.size(0), ptr.size(0) - 1)
    given = (x, grad, out, mean, scale)
    launch(norm.norm_sums, grid, *given, ptr, grad_bias, grad_weight, *args, WHAT="grads", **sizes)
    grad_x = torch.empty_like(x)
    means = (grad_bias / num_rows, grad_weight / num_rows)
    launch(norm.norm_rows, grid, *given, weight.contiguous(), *means, ptr, grad_x, *args, BACKWARD=True, **sizes)
    return grad_x, grad_weight, grad_bias


KERNELS = ReplicaKernels(
    gather_graphs=gather_graphs,
    grouped_linear=grouped_linear,
    linear_activate=linear_activate,
    grouped_outer=grouped_outer,
    segment_sum=segment_sum,
    segment_repeat=segment_repeat,
    segment_norm=segment_norm,
    segment_norm_backward=segment_norm_backward,
    propagate=propagate,
    drop=drop,
    activate=activate,
    activate_backward=activate_backward,
    softmax_ends=softmax_ends,
    softmax_ends_backward=softmax_ends_backward,
    coarsen_padded=coarsen_padded,
    forest_padded=forest_padded,
    contract_padded=contract_padded,
)
