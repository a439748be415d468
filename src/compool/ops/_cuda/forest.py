"""Maximum spanning forests on a GPU, without sorting the edges."""

import torch
from torch import Tensor

from compool.ops._checks import check_forest_size, check_range, nan_weight
from compool.ops._cuda import forest_kernels as kernels
from compool.ops._cuda.kernels import NAN, NUMBER, RANGE
from compool.ops._cuda.launch import EDGES, NODES, launch, over, strided

_ROUNDS = 34  # each round at least halves the number of components that still have an edge


def forest(weight: Tensor, edge_index: Tensor, candidate: Tensor | None, num_nodes: int) -> Tensor:
    """Borůvka's algorithm: in each round, every component chooses its best edge, by atomics, and edges inside
    components are dropped. The first two rounds read all edges, later rounds a list of the remaining ones; each of
    these rounds waits for the length of its list.
    """
    check_forest_size(weight.numel(), num_nodes)
    (edges, stride), device = strided(edge_index), edge_index.device
    if not edges.size(1) or not num_nodes:
        check_range(edge_index, num_nodes)
        return torch.empty(0, dtype=torch.long, device=device)
    if weight.dtype in (torch.float16, torch.bfloat16):
        weight = weight.float()
    elif not weight.is_floating_point() and weight.dtype != torch.int64:
        weight = weight.int()
    weight, wide = weight.contiguous(), weight.element_size() == 8
    mask = edges if candidate is None else candidate.contiguous()

    flags = torch.zeros(_ROUNDS, 4, dtype=torch.int32, device=device)  # flags in row 0, then edges left per round
    parent = torch.arange(num_nodes, dtype=torch.int32, device=device)
    above = torch.empty_like(parent)
    best = torch.full((num_nodes,), kernels.NO_OFFER.value, dtype=torch.long, device=device)
    position = torch.full_like(parent, kernels.NO_POSITION.value) if wide else parent
    chosen = torch.empty_like(best)
    listed, left, step = [parent, parent], edges.size(1), 0
    while left:
        if step in (1, 2):  # the first round that writes a list, and the first that reads one
            listed[step % 2] = parent.new_empty(left)
        options = {"LISTED": step > 1, "MASKED": candidate is not None, "WIDE": wide, "BLOCK": EDGES}
        given = (weight, edges, stride, mask, parent, best, position, listed[(step + 1) % 2], listed[step % 2])
        to = (flags[step + 1], flags, left, num_nodes)
        launch(kernels.offer_edges, over(left, EDGES), *given, *to, KEEP=step > 0, TIES=False, **options)
        if wide:
            launch(kernels.offer_edges, over(left, EDGES), *given, *to, KEEP=False, TIES=True, **options)
        nodes = (edges, stride, parent, best, position, above, chosen, flags, num_nodes)
        launch(kernels.hook_best, over(num_nodes, NODES), *nodes, WIDE=wide, BLOCK=NODES)
        launch(kernels.settle, over(num_nodes, NODES), above, best, position, num_nodes, WIDE=wide, BLOCK=NODES)
        parent, above = above, parent
        if step > 0:
            counts = flags.tolist()
            left = counts[step + 1][0]
        step += 1
    if counts[0][RANGE.value]:
        check_range(edge_index, num_nodes)
    if counts[0][NAN.value]:
        raise nan_weight(weight)
    chosen = chosen[: counts[0][NUMBER.value]].sort().values
    if not wide:
        return chosen & 0x7FFFFFFF
    order = (weight[chosen] + 0).argsort(descending=True, stable=True)  # + 0 turns −0 into 0
    return chosen[order]
