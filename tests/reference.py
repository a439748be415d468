"""The oracle: the paper's equations, word for word, with dense matrices. Slow; read it beside the paper."""

import math
from collections.abc import Callable, Iterator
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


def quantile_merged(score: Tensor, present: Tensor, batch: Tensor, quantile: float) -> Tensor:
    """An edge merges if at least the share `quantile` of its graph's edges scores lower."""
    merged = torch.zeros_like(present)
    for graph in set(batch.tolist()):
        inside = (batch == graph).unsqueeze(1) & present
        scores = score[inside]
        for i, j in inside.nonzero().tolist():
            lower = int((scores < score[i, j]).sum())
            merged[i, j] = lower >= quantile * len(scores) - 1e-6
    return merged


def _kruskal(score: Tensor, edges: list[tuple[int, int]], num_nodes: int) -> Iterator[tuple[int, int, list[set[int]]]]:
    """The edges by descending score, of equal ones the first first, and the supernodes so far; the caller unites."""
    parts = [{node} for node in range(num_nodes)]
    for i, j in sorted(edges, key=lambda edge: -score[edge].item()):  # a stable sort
        yield i, j, parts


def _unite(parts: list[set[int]], i: int, j: int) -> None:
    union = parts[i] | parts[j]
    for node in union:
        parts[node] = union


def ratio_merged(score: Tensor, edges: list[tuple[int, int]], batch: Tensor, ratio: float) -> Tensor:
    """Unite by descending score until ⌈ratio · nodes⌉ supernodes are left in a graph; the edges that merge are those
    inside supernodes that score at least as much as the last edge that united two.
    """
    merged = torch.zeros(len(batch), len(batch), dtype=torch.bool)
    for graph in set(batch.tolist()):
        number = size = int((batch == graph).sum())
        inside = [edge for edge in edges if batch[edge[0]] == graph]
        last, parts = math.inf, [{node} for node in range(len(batch))]
        for i, j, parts in _kruskal(score, inside, len(batch)):
            if parts[i] is not parts[j] and number > math.ceil(ratio * size - 1e-6):
                _unite(parts, i, j)
                number, last = number - 1, score[i, j].item()
        for i, j in inside:
            merged[i, j] = parts[i] is parts[j] and score[i, j] >= last
    return merged


def max_size_merged(
    score: Tensor, edges: list[tuple[int, int]], num_nodes: int, bound: int, threshold: float
) -> Tensor:
    """Of the edges above the threshold, unite by descending score where the union has at most `bound` nodes."""
    merged = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    for i, j, parts in _kruskal(score, [edge for edge in edges if score[edge] > threshold], num_nodes):
        if len(parts[i] | parts[j]) <= bound:
            _unite(parts, i, j)
            merged[i, j] = True
    return merged


def first_listed(edge_index: Tensor) -> dict[tuple[int, int], int]:
    """Where each edge that counts is listed first."""
    place: dict[tuple[int, int], int] = {}
    for at, edge in enumerate(zip(*edge_index.tolist(), strict=True)):
        if edge[0] != edge[1]:
            place.setdefault(edge, at)
    return place


def edge_terms(term: Tensor, edge_index: Tensor, present: Tensor, symmetric: bool) -> Tensor:
    """What edges add to raw scores [N, N]; symmetric: the mean of both directions where both are there."""
    matrix = torch.zeros(present.shape, dtype=term.dtype)
    for edge, at in first_listed(edge_index).items():
        matrix[edge] = term[at]
    return torch.where(present & present.t(), (matrix + matrix.t()) / 2, matrix) if symmetric else matrix


def coarse_features(edge_attr: Tensor, edge_index: Tensor, cluster: Tensor, coarse: Tensor, reduce: str) -> Tensor:
    """For each edge between supernodes, go through all edges and gather those that it stands for."""
    rows = []
    for k, m in zip(*coarse.tolist(), strict=True):
        group = [edge_attr[at] for (i, j), at in first_listed(edge_index).items() if (cluster[i], cluster[j]) == (k, m)]
        stack = torch.stack(group)
        rows.append({"sum": stack.sum(0), "mean": stack.mean(0), "max": stack.amax(0)}[reduce])
    return torch.stack(rows) if rows else edge_attr[:0]


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
    batch: Tensor | None = None,
    quantile: float | None = None,
    ratio: float | None = None,
    max_size: int | None = None,
    edge_attr: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Dense:
    """Component pooling by Eq. 1–5; the options as in ComponentPooling."""
    num_nodes, channels = x.shape
    present = adjacency(edge_index, num_nodes)

    # Eq. 1: S_ij = σ(ψ(x_i, x_j) + b) from the concatenated features of the two ends
    left = x.unsqueeze(1).expand(num_nodes, num_nodes, channels)
    right = x.unsqueeze(0).expand(num_nodes, num_nodes, channels)
    raw = (torch.cat([left, right], dim=-1) @ weight.view(-1)) + bias
    if symmetric:
        raw = (raw + raw.t()) / 2
    if edge_attr is not None and edge_weight is not None:
        raw = raw + edge_terms(edge_attr @ edge_weight.view(-1), edge_index, present, symmetric)
    score = activation(raw) * present

    merged = (activation(raw) > threshold) & present  # Eq. 2
    batch = torch.zeros(num_nodes, dtype=torch.long) if batch is None else batch
    edges = list(first_listed(edge_index))
    if quantile is not None:
        merged = quantile_merged(score.detach(), present, batch, quantile)
    if ratio is not None:
        merged = ratio_merged(score.detach(), edges, batch, ratio)
    if max_size is not None:
        merged = max_size_merged(score.detach(), edges, num_nodes, max_size, threshold)
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
