"""Maximum spanning forests, by Borůvka's rounds or, where sizes are bounded, edge by edge."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool.ops._checks import check_range, nan_weight
from compool.ops._cpu.arrays import ends_of
from compool.ops._cpu.loops import fast, find
from compool.ops._cpu.sort import ascending, descending, order_key

_NONE = np.int64(2**63 - 1)


def forest(weight: Tensor, edge_index: Tensor, candidate: Tensor | None, num_nodes: int) -> Tensor:
    """In each round every component takes its best edge; then edges inside components are dropped, and the others go
    on between components.
    """
    check_range(edge_index, num_nodes)
    if weight.isnan().any():
        raise nan_weight(weight)
    source, target = ends_of(edge_index)
    number, key = source.size, _short_key(weight)
    mask = np.ones(number, np.bool_) if candidate is None else candidate.contiguous().numpy()
    chosen, best = np.zeros(number, np.bool_), np.full(num_nodes, _NONE)
    parent, label = np.arange(num_nodes, dtype=np.int32), np.empty(num_nodes, np.int32)
    ends, position = (np.empty(number, np.int32), np.empty(number, np.int32)), np.empty(number, np.int32)

    _offer(source, target, mask, key, best)
    _hook(source, target, np.empty(0, np.int32), best, parent, chosen)
    parts = _relabel(parent, label, best)
    left = _contract_first(source, target, mask, key, label, best, *ends, position)
    while left:
        _hook(*ends, position, best[:parts], parent, chosen)
        parts = _relabel(parent[:parts], label, best)
        left = _contract(*ends, position, left, key, label, best)
    return torch.from_numpy(ascending(key, np.flatnonzero(chosen)))


def _short_key(weight: Tensor) -> NDArray[np.int32]:
    """`order_key` in 32 bits; those of 64-bit weights are their ranks."""
    key = order_key(weight)
    if key.itemsize == 8:
        order = ascending(key, np.arange(key.size))
        key = np.empty(key.size, np.int32)
        key[order] = np.arange(key.size, dtype=np.int32)
    return key


@fast
def _offer(source, target, mask, key, best):  # type: ignore[no-untyped-def]
    """The `best` edge of each node: the least key, of equal ones the first. Keys are in no order that a branch on them
    could predict, so there is none.
    """
    for e in range(source.size):
        u, v = source[e], target[e]
        offer = ((np.int64(key[e]) << 32) | e) if mask[e] & (u != v) else _NONE
        best[u] = min(best[u], offer)
        best[v] = min(best[v], offer)


@fast
def _contract_first(source, target, mask, key, label, best, to_source, to_target, position):  # type: ignore[no-untyped-def]
    """The edges in a mask that join two parts, their positions, how many there are, and the `best` of each part."""
    m = 0
    for e in range(source.size):
        u, v = label[source[e]], label[target[e]]
        keep = mask[e] & (u != v)
        to_source[m], to_target[m], position[m] = u, v, e
        offer = ((np.int64(key[e]) << 32) | m) if keep else _NONE
        best[u] = min(best[u], offer)
        best[v] = min(best[v], offer)
        m += keep
    return m


@fast
def _contract(source, target, position, number, key, label, best):  # type: ignore[no-untyped-def]
    """The same once more, in place."""
    m = 0
    for i in range(number):
        u, v, e = label[source[i]], label[target[i]], position[i]
        keep = u != v
        source[m], target[m], position[m] = u, v, e
        offer = ((np.int64(key[e]) << 32) | m) if keep else _NONE
        best[u] = min(best[u], offer)
        best[v] = min(best[v], offer)
        m += keep
    return m


@fast
def _hook(source, target, position, best, parent, chosen):  # type: ignore[no-untyped-def]
    """Choose the best edge of each part, and unite its ends. Without positions, edges are where they always were."""
    for offer in best:
        if offer != _NONE:
            i = offer & 0xFFFFFFFF
            u, v = find(parent, source[i]), find(parent, target[i])
            if u != v:  # else it is the best edge of both its ends
                parent[max(u, v)] = min(u, v)
                chosen[position[i] if position.size else i] = True


@fast
def _relabel(parent, label, best):  # type: ignore[no-untyped-def]
    """Number the parts, whose roots are their smallest members; all are again by themselves, without a best edge."""
    number = 0
    for u in range(parent.size):
        if parent[u] == u:
            label[u] = number
            number += 1
        else:
            label[u] = label[parent[u]]
    for part in range(number):
        parent[part], best[part] = part, _NONE
    return number


def capped_forest(edge_score: Tensor, edge_index: Tensor, candidate: Tensor, num_nodes: int, max_size: int) -> Tensor:
    accepted = torch.zeros(edge_score.numel(), dtype=torch.bool)
    parent, size = np.arange(num_nodes), np.ones(num_nodes, np.int64)
    args = (descending(edge_score), *ends_of(edge_index), candidate.contiguous().numpy())
    _kruskal(*args, max_size, parent, size, accepted.numpy())
    return accepted


@fast
def _kruskal(order, source, target, candidate, max_size, parent, size, accepted):  # type: ignore[no-untyped-def]
    """`size` holds at roots."""
    for e in order:
        if not candidate[e]:
            continue
        u, v = find(parent, source[e]), find(parent, target[e])
        if u != v and size[u] + size[v] <= max_size:
            u, v = min(u, v), max(u, v)
            parent[v] = u
            size[u] += size[v]
            accepted[e] = True
