"""Sums of weighted rows."""

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._cuda import row_kernels as kernels
from compool.ops._cuda.launch import NODES, launch, over, tiles, wide


def row_sum(
    x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor, num_rows: int, alone: Tensor | None
) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.row_sum(x, weight, source, target, num_rows, alone)
    out = weight.new_zeros(num_rows, x.size(1))
    count = target.numel()
    if count and out.numel():
        grid, tile = tiles(count, x)
        x, weight, target = x.contiguous(), weight.contiguous(), target.contiguous()
        if source is None:
            masked = {"HAS_ALONE": alone is not None}
            args = (x, weight, target, target if alone is None else alone, out, count)
            launch(kernels.row_sum, grid, *args, **masked, **tile)
        else:
            launch(kernels.gathered_row_sum, grid, x, weight, source.contiguous(), target, out, count, **tile)
    return out


def row_sum_backward(
    grad: Tensor, x: Tensor, weight: Tensor, source: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    if source is not None and torch.are_deterministic_algorithms_enabled():
        return _torch.row_sum_backward(grad, x, weight, source, target)
    grad_weight, count = torch.empty_like(weight), target.numel()
    grad, x, weight, target = grad.contiguous(), x.contiguous(), weight.contiguous(), target.contiguous()
    if source is None:
        grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    else:
        grad_x = torch.zeros(x.shape, dtype=wide(x), device=x.device)
    if count:
        grid, tile = tiles(count, x)
        rows = (grad, x, weight)
        if source is None:
            launch(kernels.row_sum_backward, grid[:1], *rows, target, grad_x, grad_weight, count, **tile)
        else:
            ends = (source.contiguous(), target)
            launch(kernels.gathered_row_sum_backward, grid[:1], *rows, *ends, grad_x, grad_weight, count, **tile)
    return grad_x.to(x.dtype), grad_weight


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    num_nodes, num_supernodes = x.size(0), supernode_score.size(0)
    out = x.new_empty(num_supernodes, x.size(1))
    if out.numel():
        low, high = (cluster.new_full((num_supernodes,), start, dtype=torch.int32) for start in (num_nodes, -1))
        sizes = (num_nodes, num_supernodes)
        if num_nodes:
            launch(kernels.pair_members, over(num_nodes, NODES), cluster, low, high, *sizes, BLOCK=NODES)
        grid, tile = tiles(num_supernodes, x)
        args = (x.contiguous(), supernode_score.contiguous(), low, high, out, *sizes)
        launch(kernels.merge_pairs, grid, *args, **tile)
    return out


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    num_nodes, num_supernodes = x.size(0), supernode_score.size(0)
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grad_score = torch.zeros(num_supernodes, dtype=wide(supernode_score), device=x.device)
    if num_nodes:
        grid, tile = tiles(num_nodes, x)
        args = (grad.contiguous(), x.contiguous(), supernode_score.contiguous(), cluster, grad_x, grad_score)
        launch(kernels.merge_pairs_backward, grid[:1], *args, num_nodes, num_supernodes, **tile)
    return grad_x, grad_score.to(supernode_score.dtype)
