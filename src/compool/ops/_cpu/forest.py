"""Maximum spanning forests, by Borůvka's algorithm."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._checks import check_forest_size, check_range, nan_weight
from compool.ops._cpu import forest_loops as loops
from compool.ops._cpu.arrays import ends_of
from compool.ops._cpu.sort import ascending, order_key


def forest(weight: Tensor, edge_index: Tensor, candidate: Tensor | None, num_nodes: int) -> Tensor:
    """In each round, every component chooses its best edge; then edges inside the new components are dropped, and the
    rest are relabelled.
    """
    check_forest_size(weight.numel(), num_nodes)
    check_range(edge_index, num_nodes)
    if weight.isnan().any():
        raise nan_weight(weight)
    source, target = ends_of(edge_index)
    num_edges, key = source.size, _short_key(weight)
    mask = np.ones(num_edges, np.bool_) if candidate is None else candidate.contiguous().numpy()
    chosen, best = np.zeros(num_edges, np.bool_), np.full(num_nodes, loops.NONE)
    parent, label = np.arange(num_nodes, dtype=np.int32), np.empty(num_nodes, np.int32)
    ends, position = (np.empty(num_edges, np.int32), np.empty(num_edges, np.int32)), np.empty(num_edges, np.int32)

    loops.offer(source, target, mask, key, best)
    loops.hook(source, target, np.empty(0, np.int32), best, parent, chosen)
    parts = loops.relabel(parent, label, best)
    left = loops.contract_first(source, target, mask, key, label, best, *ends, position)
    while left:
        loops.hook(*ends, position, best[:parts], parent, chosen)
        parts = loops.relabel(parent[:parts], label, best)
        left = loops.contract(*ends, position, left, key, label, best)
    return torch.from_numpy(ascending(key, np.flatnonzero(chosen)))


def _short_key(weight: Tensor) -> NDArray[np.int32]:
    """`order_key` in 32 bits; keys that need 64 bits are replaced by their ranks."""
    if weight.dtype == torch.int64 and weight.numel():
        low, high = (int(end) for end in weight.aminmax())
        weight = weight.int() if low >= -(2**31) and high < 2**31 else weight
    key = order_key(weight)
    if key.itemsize == 8:
        order = ascending(key)
        key = np.empty(key.size, np.int32)
        key[order] = np.arange(key.size, dtype=np.int32)
    return key
