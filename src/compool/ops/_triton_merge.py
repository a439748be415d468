"""Sums of rows by Triton: see `_triton`."""

from typing import Any

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops import _triton_merge_kernels as kernels
from compool.ops._triton_launch import EDGES, NODES, launch, over, strided, tiles, wide


def merge(
    x: Tensor, edge_score: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor, first: Tensor, alone: Tensor
) -> tuple[Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.merge(x, edge_score, edge_index, merged, cluster, first, alone)
    weight = edge_score.new_zeros(x.size(0))
    edges, _ = strided(edge_index)
    number = edges.size(1)
    if number:
        args: tuple[Any, ...] = (edge_score.contiguous(), edges[0], merged.contiguous(), weight, number)
        launch(kernels.merge_weight, over(number, EDGES), *args, BLOCK=EDGES)
    out = weight.new_zeros(first.numel(), x.size(1))
    if out.numel():
        grid, tile = tiles(x.size(0), x)
        args = (x.contiguous(), weight, cluster, alone, out, x.size(0))
        launch(kernels.merge_rows, grid, *args, **tile)
    return out, weight


def merge_backward(
    grad: Tensor, x: Tensor, weight: Tensor, edge_index: Tensor, merged: Tensor, cluster: Tensor
) -> tuple[Tensor, Tensor]:
    grad_x, grad_weight = torch.empty(x.shape, dtype=x.dtype, device=x.device), torch.empty_like(weight)
    if x.size(0):
        grid, tile = tiles(x.size(0), x)
        args: tuple[Any, ...] = (grad.contiguous(), x.contiguous(), weight, cluster, grad_x, grad_weight, x.size(0))
        launch(kernels.merge_rows_backward, grid[:1], *args, **tile)
    edges, _ = strided(edge_index)
    grad_score = weight.new_empty(edges.size(1))
    if grad_score.numel():
        args = (grad_weight, edges[0], merged.contiguous(), grad_score, grad_score.numel())
        launch(kernels.gather_merged, over(grad_score.numel(), EDGES), *args, BLOCK=EDGES)
    return grad_x, grad_score


def merge_pairs(x: Tensor, supernode_score: Tensor, cluster: Tensor) -> Tensor:
    number, room = x.size(0), supernode_score.size(0)
    out = x.new_empty(room, x.size(1))
    if out.numel():
        low, high = (torch.full((room,), start, dtype=torch.int32, device=x.device) for start in (number, -1))
        if number:
            launch(kernels.pair_members, over(number, NODES), cluster, low, high, number, room, BLOCK=NODES)
        grid, tile = tiles(room, x)
        args = (x.contiguous(), supernode_score.contiguous(), low, high, out, number, room)
        launch(kernels.merge_pairs, grid, *args, **tile)
    return out


def merge_pairs_backward(grad: Tensor, x: Tensor, supernode_score: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor]:
    number, room = x.size(0), supernode_score.size(0)
    grad_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    grad_score = torch.zeros(room, dtype=wide(supernode_score), device=x.device)
    if number:
        grid, tile = tiles(number, x)
        args = (grad.contiguous(), x.contiguous(), supernode_score.contiguous(), cluster, grad_x, grad_score)
        launch(kernels.merge_pairs_backward, grid[:1], *args, number, room, **tile)
    return grad_x, grad_score.to(supernode_score.dtype)


def spread(x: Tensor, weight: Tensor, source: Tensor, target: Tensor, num_rows: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.spread(x, weight, source, target, num_rows)
    out = torch.zeros(num_rows, x.size(1), dtype=weight.dtype, device=x.device)
    number = source.numel()
    if number and x.size(1):
        grid, tile = tiles(number, x)
        args: tuple[Any, ...] = (x.contiguous(), weight.contiguous(), source.contiguous(), target.contiguous(), out)
        launch(kernels.spread, grid, *args, number, **tile)
    return out.to(x.dtype)


def spread_backward(grad: Tensor, x: Tensor, weight: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.spread_backward(grad, x, weight, source, target)
    grad_x, grad_weight = torch.zeros(x.shape, dtype=wide(x), device=x.device), torch.empty_like(weight)
    number = source.numel()
    if number:
        grid, tile = tiles(number, x)
        ends = (source.contiguous(), target.contiguous())
        args = (grad.contiguous(), x.contiguous(), weight.contiguous(), *ends, grad_x, grad_weight)
        launch(kernels.spread_backward, grid[:1], *args, number, **tile)
    return grad_x.to(x.dtype), grad_weight
