"""Random numbers from keys: the same key and index always give the same number."""

from typing import cast

import torch
from torch import Tensor

from compool.ops._dispatch import operator

_fold = operator(
    "fold_key(Tensor key, Tensor? index, SymInt plus) -> Tensor",
    lambda key, index, plus: key.new_empty(
        key.shape if index is None else torch.broadcast_shapes(key.shape, index.shape)
    ),
    lambda kernels: kernels.fold_key,
)


def fold(key: Tensor, index: int | Tensor) -> Tensor:
    """Keys for the `index`-th use of each key: statistically independent, and always the same.

    Example:
        >>> key = torch.tensor([1, 2])
        >>> fold(key, 0).tolist() == fold(key, 0).tolist() != fold(key, 1).tolist()
        True
    """
    given = (index, 0) if isinstance(index, Tensor) else (None, index)
    return cast(Tensor, _fold(key, *given))


def random_scores(ends: Tensor, graph: Tensor, key: Tensor) -> Tensor:
    """A random number between −1 and 1 per edge [E], float32; (i, j) and (j, i) get the same number.

    It depends on the key, on all edges of the edge's graph, and on the edge. No tensor's size depends on values.

    Args:
        ends: edges [2, E], with nodes numbered within their graph.
        graph: the graph of each edge [E].
        key: the random key of each graph, int64 [G].

    Example:
        >>> ends, graph = torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]), torch.tensor([0, 0, 1, 1])
        >>> first, second, third, _ = random_scores(ends, graph, torch.tensor([7, 8])).tolist()
        >>> first == second != third
        True
    """
    pair = fold(ends.amin(0).long(), ends.amax(0).long())
    edges_of_graph = torch.zeros_like(key).index_add(0, graph, pair)  # wraps; a sum does not depend on the order
    bits = fold(fold(key, edges_of_graph).index_select(0, graph), pair)
    return ((bits >> 40) & 0xFFFFFF).float() * 2.0**-23 - 1


def drop_pairs(raw: Tensor, edge_index: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    """Dropout of edge values [E] that treats (i, j) and (j, i) alike.

    Args:
        raw: the value of each edge [E].
        edge_index: edges [2, E].
        key: the random key of each edge, int64 [E] or [1].
        probability: the dropout probability of each edge, float32 [E] or [1].

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> drop_pairs(torch.ones(4), edge_index, torch.tensor([4]), torch.tensor([0.5]))
        tensor([2., 0., 2., 0.])
    """
    bits = fold(fold(key, edge_index.amin(0).long()), edge_index.amax(0).long())
    kept = ((bits >> 40) & 0xFFFFFF).float() * 2.0**-24 >= probability
    return raw * (kept / (1 - probability.to(raw.dtype)))
