"""Distances between the ends of edges."""

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._cuda import similarity_kernels as kernels
from compool.ops._cuda.launch import PROGRAMS, launch, strided, tiles, wide


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
    if group is not None:
        return _torch.edge_distance(x, edge_index, weight, group)
    (edges, stride), distance = strided(edge_index), weight.new_empty(edge_index.size(1))
    if distance.numel():
        grid, tile = tiles(distance.numel(), x)
        given = (x.contiguous(), edges, stride, weight.contiguous(), distance, distance.numel(), x.size(0))
        launch(kernels.edge_distance, grid[:1], *given, **tile)
    return distance


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None
) -> tuple[Tensor, Tensor]:
    if group is not None or torch.are_deterministic_algorithms_enabled():
        return _torch.edge_distance_backward(grad, x, edge_index, weight, group)
    (edges, stride), grad_weight = strided(edge_index), torch.zeros_like(weight)
    grad_x = torch.zeros(x.shape, dtype=weight.dtype, device=x.device)
    if grad.numel():
        (num_tiles, columns), tile = tiles(grad.numel(), x)
        programs = min(num_tiles, PROGRAMS)
        given = (grad.contiguous(), x.contiguous(), edges, stride, weight.contiguous(), grad_x, grad_weight)
        sizes = (grad.numel(), x.size(0), num_tiles, programs)
        launch(kernels.edge_distance_backward, (programs, columns), *given, *sizes, **tile)
    return grad_x.to(x.dtype), grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    if group is not None or torch.are_deterministic_algorithms_enabled():
        return _torch.edge_moments(x, edge_index, counted, group, num_groups)
    (edges, stride), sums = strided(edge_index), torch.zeros(x.size(1), dtype=wide(x), device=x.device)
    num_edges = edge_index.size(1)
    if num_edges:
        (num_tiles, columns), tile = tiles(num_edges, x)
        programs = min(num_tiles, PROGRAMS)
        given = (x.contiguous(), edges, stride, counted.contiguous(), sums, num_edges, x.size(0), num_tiles, programs)
        launch(kernels.edge_moments, (programs, columns), *given, **tile)
    return (sums / counted.sum().clamp(min=1)).unsqueeze(0)
