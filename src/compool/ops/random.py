"""Random numbers from keys: the same key and the same use always give the same number."""

from typing import cast

import torch
from torch import Tensor

from compool.ops._dispatch import operator

_fold = operator(
    "fold_key(Tensor key, Tensor? number, SymInt plus) -> Tensor",
    lambda key, number, plus: key.new_empty(
        key.shape if number is None else torch.broadcast_shapes(key.shape, number.shape)
    ),
    lambda kernels: kernels.fold_key,
)


def fold(key: Tensor, number: int | Tensor) -> Tensor:
    """Keys for the `number`-th use of each key: as good as new ones, and always the same.

    Example:
        >>> key = torch.tensor([1, 2])
        >>> fold(key, 0).tolist() == fold(key, 0).tolist() != fold(key, 1).tolist()
        True
    """
    given = (number, 0) if isinstance(number, Tensor) else (None, number)
    return cast(Tensor, _fold(key, *given))


def drop_pairs(raw: Tensor, edge_index: Tensor, key: Tensor, probability: Tensor) -> Tensor:
    """Dropout of numbers on edges [E] that treats (i, j) and (j, i) alike.

    Args:
        raw: a number an edge [E].
        edge_index: edges [2, E].
        key: the random key of each edge, int64 [E] or [1].
        probability: of each edge, float32 [E] or [1].

    Example:
        >>> edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        >>> drop_pairs(torch.ones(4), edge_index, torch.tensor([4]), torch.tensor([0.5]))
        tensor([2., 0., 2., 0.])
    """
    bits = fold(fold(key, edge_index.amin(0).long()), edge_index.amax(0).long())
    kept = ((bits >> 40) & 0xFFFFFF).float() * 2.0**-24 >= probability
    return raw * (kept / (1 - probability.to(raw.dtype)))
