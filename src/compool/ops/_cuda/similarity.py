"""Distances between the ends of edges."""

import torch
from torch import Tensor

from compool.ops import _torch, _torch_similarity
from compool.ops._checks import check_range
from compool.ops._cuda import similarity_kernels as kernels
from compool.ops._cuda.kernels import RANGE, SIZE, UNSORTED
from compool.ops._cuda.launch import EDGES, PROGRAMS, launch, over, power, strided, tiles, wide
from compool.ops._cuda.steps import select


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
        return _torch_similarity.edge_distance_backward(grad, x, edge_index, weight, group, grad_x)
    (edges, stride), grad_weight = strided(edge_index), torch.zeros_like(weight)
    total = grad_x.to(weight.dtype).contiguous()  # `grad_x` itself, except in half precision
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
        return _torch_similarity.edge_moments(x, edge_index, counted, group, num_groups)
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


def observe(
    x: Tensor, edge_index: Tensor, logit: Tensor, mean: Tensor, variance: Tensor, num_batches: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    num_edges, channels = edge_index.size(1), x.size(1)
    if torch.are_deterministic_algorithms_enabled() or not num_edges:
        steps = (select, edge_moments, edge_distance)
        return _torch_similarity.observe(*steps, x, edge_index, logit, mean, variance, num_batches)
    (edges, stride), x = strided(edge_index), x.contiguous()
    statistics = torch.zeros(channels + kernels.SCALARS + SIZE, dtype=wide(x), device=x.device)
    flags = statistics[-SIZE:].view(torch.int32)
    counted = torch.empty(num_edges, dtype=torch.bool, device=x.device)
    counting = (edges, stride, counted, statistics, flags, num_edges, x.size(0))
    launch(kernels.count_edges, over(num_edges, EDGES), *counting, D=channels, BLOCK=EDGES)
    message = flags.tolist()
    if message[RANGE.value]:
        check_range(edge_index, x.size(0))
    if message[UNSORTED.value]:
        first = _torch.distinct(edge_index, x.size(0))
        if first is not None:
            counted &= first
            statistics[channels] = counted.sum()
    (num_tiles, columns), tile = tiles(num_edges, x)
    programs = min(num_tiles, PROGRAMS)
    given = (x, edges, stride, counted, edges, statistics, flags, num_edges, x.size(0), num_tiles, programs)
    launch(kernels.edge_moments, (programs, columns), *given, GROUPED=False, **tile)
    share, weight = statistics.new_empty(channels), statistics.new_empty(channels)
    scale, width = statistics.new_empty(1), {"D": channels, "COLUMNS": power(channels)}
    launch(kernels.update_mean, (1,), statistics, logit, mean, variance, num_batches, share, weight, **width)
    distance = edge_distance(x, edge_index, weight, None)
    num_blocks = over(num_edges, EDGES)[0]
    programs = min(num_blocks, PROGRAMS)
    summed = (distance, counted, statistics, num_edges, num_blocks, programs)
    launch(kernels.sum_distances, (programs,), *summed, D=channels, BLOCK=EDGES)
    launch(
        kernels.standardise, (num_blocks,), statistics, variance, scale, distance, num_edges, D=channels, BLOCK=EDGES
    )
    return distance, share, weight, scale  # the distances have become terms in place


def _groups(edges: Tensor, group: Tensor | None) -> tuple[Tensor, dict[str, bool]]:
    """The group of each node, and whether there are groups."""
    return edges if group is None else group.long().contiguous(), {"GROUPED": group is not None}
