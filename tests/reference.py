"""The oracle: the paper's equations, word for word, with dense matrices. Slow; read it beside the paper."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Dense(NamedTuple):
    x: Tensor
    edge_index: Tensor
    cluster: Tensor
    score: Tensor  # S [N, N], zero where there is no edge


def adjacency(edge_index: Tensor, num_nodes: int) -> Tensor:
    """A: self-loops dropped, an edge listed twice is there once."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    matrix[edge_index[0], edge_index[1]] = True
    return matrix & ~torch.eye(num_nodes, dtype=torch.bool)


def weak_components(matrix: Tensor) -> Tensor:
    """Walk from each node that has no label yet, in order, over edges of either direction."""
    linked = matrix | matrix.t()
    label = [-1] * len(matrix)
    number = 0
    for start in range(len(matrix)):
        if label[start] >= 0:
            continue
        todo = [start]
        while todo:
            node = todo.pop()
            label[node] = number
            todo += [other for other in range(len(matrix)) if linked[node, other] and label[other] < 0]
        number += 1
    return torch.tensor(label, dtype=torch.long)


def pool(
    x: Tensor,
    edge_index: Tensor,
    weight: Tensor,
    bias: Tensor,
    activation: Callable[[Tensor], Tensor] = torch.tanh,
    threshold: float = 0.0,
    weights: str = "merged",
    symmetric: bool = False,
    self_loops: bool = False,
) -> Dense:
    """Component pooling by Eq. 1–5; `weights`, `symmetric` and `self_loops` as in ComponentPooling."""
    num_nodes, channels = x.shape
    present = adjacency(edge_index, num_nodes)

    # Eq. 1: S_ij = σ(ψ(x_i, x_j) + b) from the concatenated features of the two ends
    left = x.unsqueeze(1).expand(num_nodes, num_nodes, channels)
    right = x.unsqueeze(0).expand(num_nodes, num_nodes, channels)
    raw = (torch.cat([left, right], dim=-1) @ weight.view(-1)) + bias
    if symmetric:
        raw = (raw + raw.t()) / 2
    score = activation(raw) * present

    merged = (activation(raw) > threshold) & present  # Eq. 2
    cluster = weak_components(merged)
    number = int(cluster.max()) + 1 if num_nodes else 0
    assignment = torch.zeros(num_nodes, number, dtype=x.dtype)  # C
    assignment[torch.arange(num_nodes), cluster] = 1

    untouched = ~(merged.any(0) | merged.any(1))
    mixing = score * merged if weights == "merged" else score
    mixing = mixing + torch.diag(untouched.to(x.dtype))  # Eq. 3: W

    pooled = (mixing @ assignment).t() @ x  # Eq. 4: X' = (W C)ᵀ X
    adjacent = (assignment.t() @ present.to(x.dtype) @ assignment).clamp(max=1)  # A' = min(Cᵀ A C, 1)
    if not self_loops:
        adjacent = adjacent * (1 - torch.eye(number, dtype=x.dtype))
    return Dense(pooled, adjacent.nonzero().t().contiguous(), cluster, score)  # Eq. 5
