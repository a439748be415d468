"""Distances between the ends of edges."""

import torch
from torch import Tensor

from compool.ops import _torch
from compool.ops._cuda import similarity_kernels as kernels
from compool.ops._cuda.launch import PROGRAMS, launch, strided, tiles, wide


def edge_distance(x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None) -> Tensor:
    (edges, stride), distance = strided(edge_index), weight.new_empty(edge_index.size(1))
    if distance.numel():
        grid, tile = tiles(distance.numel(), x)
        groups, grouped = _groups(edges, group)
        given = (x.contiguous(), edges, stride, weight.contiguous(), groups, distance, distance.numel(), x.size(0))
        launch(kernels.edge_distance, grid[:1], *given, **grouped, **tile)
    return distance


def edge_distance_backward(
    grad: Tensor, x: Tensor, edge_index: Tensor, weight: Tensor, group: Tensor | None, grad_x: Tensor
) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.edge_distance_backward(grad, x, edge_index, weight, group, grad_x)
    (edges, stride), grad_weight = strided(edge_index), torch.zeros_like(weight)
    total = grad_x.to(weight.dtype).contiguous()  # itself, but for half precision
    if grad.numel():
        (num_tiles, columns), tile = tiles(grad.numel(), x)
        programs = min(num_tiles, PROGRAMS)
        groups, grouped = _groups(edges, group)
        given = (grad.contiguous(), x.contiguous(), edges, stride, weight.contiguous(), groups, total, grad_weight)
        sizes = (grad.numel(), x.size(0), num_tiles, programs)
        launch(kernels.edge_distance_backward, (programs, columns), *given, *sizes, **grouped, **tile)
    if total is not grad_x:
        grad_x.copy_(total)
    return grad_weight


def edge_moments(x: Tensor, edge_index: Tensor, counted: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    if torch.are_deterministic_algorithms_enabled():
        return _torch.edge_moments(x, edge_index, counted, group, num_groups)
    (edges, stride), sums = strided(edge_index), torch.zeros(num_groups, x.size(1), dtype=wide(x), device=x.device)
    num_counted, num_edges = torch.zeros(num_groups, dtype=torch.long, device=x.device), edge_index.size(1)
    if num_edges:
        (num_tiles, columns), tile = tiles(num_edges, x)
        programs = min(num_tiles, PROGRAMS)
        groups, grouped = _groups(edges, group)
        given = (x.contiguous(), edges, stride, counted.contiguous(), groups, sums, num_counted)
        sizes = (num_edges, x.size(0), num_tiles, programs)
        launch(kernels.edge_moments, (programs, columns), *given, *sizes, **grouped, **tile)
    return sums / (counted.sum() if group is None else num_counted.unsqueeze(1)).clamp(min=1)


def _groups(edges: Tensor, group: Tensor | None) -> tuple[Tensor, dict[str, bool]]:
    """The group of each node, and whether there are groups."""
    return edges if group is None else group.long().contiguous(), {"GROUPED": group is not None}
