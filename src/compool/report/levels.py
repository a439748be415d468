"""Record how a trained network pools a graph, level by level."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compool import data, nn, ops
from compool.nn.diagnosis import evaluation_mode

MAX_DRAWN_NODES = 5000  # of a graph


@dataclass(frozen=True)
class Level:
    """The input of a pooling layer, and how the layer pools it."""

    x: Tensor
    """Features [N, d]."""
    edge_index: Tensor
    edge_score: Tensor
    cluster: Tensor
    """The supernode of each node [N]."""
    position: NDArray[np.float64]
    """The position of each node in drawings [N, 2]."""
    threshold: float
    """The layer's threshold; for a quantile or ratio, one that comes close to it."""
    weights: str
    """The weights of features: the scores of ``"merged"`` or of ``"all"`` edges, or the layer's `reduce` (``"sum"``,
    ``"mean"``, ``"graded"``).
    """
    is_budgeted: bool = False
    """Whether the layer merges by a quantile or ratio. No threshold may do the same, as scores may tie."""
    node_weight: Tensor | None = None
    """The weight of each node [N] in a layer with a budget; None if nodes are weighted in several supernodes."""

    @property
    def num_supernodes(self) -> int:
        """The number of supernodes."""
        return int(self.cluster.max()) + 1 if self.cluster.numel() else 0

    @property
    def has_threshold(self) -> bool:
        """Whether merging at the threshold gives the supernodes of the layer."""
        return torch.equal(self.hierarchy.at(self.threshold), self.cluster)

    @cached_property
    def hierarchy(self) -> ops.Hierarchy:
        """The merges at every threshold."""
        return ops.hierarchy(self.edge_index, self.edge_score, len(self.cluster))


@dataclass(frozen=True)
class InspectedGraph:
    """A graph, level by level, and what a network predicts for it."""

    dataset: str
    index: int
    verdict: str
    """What the network predicts, beside the target, in words."""
    given: Tensor
    """The features of the graph's nodes [N, F]."""
    levels: tuple[Level, ...]
    about: str
    """A description of the network."""
    label: int | None = None
    """The class of the graph; None for other tasks."""
    probabilities: tuple[float, ...] = ()
    """The predicted probability of each class; empty for other tasks."""


def inspect_graph(
    network: torch.nn.Module,
    graphs: data.GraphSet,
    index: int,
    features: data.Features | None = None,
    threshold: float | None = None,
    about: str = "",
) -> InspectedGraph:
    """Run a network on a graph, and record what its component pooling layers do.

    Args:
        network: a :class:`compool.nn.Network` with at least one ``P``.
        graphs: the data set.
        index: index of the graph.
        features: the features that the network was trained on; by default, those of the set.
        threshold: replaces the threshold, quantile or ratio of all pooling layers of the network.
        about: a description of the network.

    Example:
        >>> network = nn.Network("PCL", in_channels=4, hidden=8, num_classes=3)
        >>> graph = inspect_graph(network, data.communities(9), 0)
        >>> graph.levels[0].cluster.shape
        torch.Size([60])
    """
    pools = [module for module in network.modules() if isinstance(module, nn.ComponentPooling)]
    if not pools:
        raise ValueError("network must have a component pooling layer, got none")
    if any(pool.order == "random" for pool in pools):
        raise ValueError(
            "network merges edges in random order, not by score, so a drawing by scores would be wrong; choose another "
            "recipe"
        )
    if not 0 <= index < len(graphs):
        raise ValueError(f"index must lie in 0..{len(graphs) - 1}, the graphs of {graphs.name}; got {index}")
    if threshold is not None and not -1 <= threshold <= 1:
        raise ValueError(f"threshold must lie in -1..1, the range of tanh; got {threshold}")
    graph = graphs[index]
    nodes = slice(int(graphs.node_ptr[index]), int(graphs.node_ptr[index + 1]))
    if not graph.num_nodes:
        raise ValueError(f"graph {index} of {graphs.name} has no nodes to draw")
    if graph.num_nodes > MAX_DRAWN_NODES:
        raise ValueError(
            f"graph {index} of {graphs.name} has {graph.num_nodes} nodes; at most {MAX_DRAWN_NODES} can be drawn"
        )
    x = graph.x if features is None else torch.from_numpy(features.dense(nodes))
    width = cast(nn.Network, network).settings.in_channels
    if x.size(1) != width:
        raise ValueError(f"the network takes {width} features per node, but {graphs.name} has {x.size(1)}")

    pooled: list[tuple[Tensor, Tensor, nn.Pooled, Tensor | None]] = []

    def record(module: torch.nn.Module, given: tuple[Tensor, ...], out: nn.Pooled) -> None:
        pool = cast(nn.ComponentPooling, module)
        is_weighted = not math.isfinite(pool.threshold) and pool.weights == "merged"
        pooled.append((given[0], given[1], out, pool.assign(given[0], given[1]).weight if is_weighted else None))

    hooks = [pool.register_forward_hook(record) for pool in pools]
    saved_settings = [(pool.threshold, pool.quantile, pool.ratio) for pool in pools]
    if threshold is not None:
        for pool in pools:
            pool.threshold, pool.quantile, pool.ratio = threshold, None, None
    try:
        with evaluation_mode(network), torch.no_grad():
            logits = network(x.to(next(network.parameters()).dtype), graph.edge_index)[0]
    finally:
        thresholds = [pool.threshold for pool in pools]
        for pool, hook, settings in zip(pools, hooks, saved_settings, strict=True):
            hook.remove()
            pool.threshold, pool.quantile, pool.ratio = settings
    position = layout(graph.edge_index, int(graph.num_nodes))
    levels = []
    for pool, (x_in, edge_index, out, node_weight), limit in zip(pools, pooled, thresholds, strict=True):
        weights, is_budgeted = pool.weights if pool.reduce == "score" else pool.reduce, not math.isfinite(limit)
        scores = (out.edge_score, out.cluster)
        level = Level(x_in, edge_index, *scores, position, limit, weights, is_budgeted, node_weight)
        levels.append(replace(level, threshold=_threshold_of(level)) if is_budgeted else level)
        position = centres(position, out.cluster)
    verdict = describe_prediction(graphs.task, torch.as_tensor(graph.y), logits)
    inspected = InspectedGraph(graphs.name, index, verdict, x, tuple(levels), about)
    if graphs.task != "classification":
        return inspected
    return replace(inspected, label=int(graph.y), probabilities=_probabilities(logits))


def describe_prediction(task: str, target: Tensor, logits: Tensor) -> str:
    """What a network predicts for a graph, beside its target, in words.

    Example:
        >>> describe_prediction("classification", torch.tensor([1]), torch.tensor([-0.3]))
        'true class 1, predicted 0 (wrong)'
        >>> describe_prediction("regression", torch.tensor([1.25, -2.0]), torch.tensor([1.5, 0.0]))
        'target 1.25, -2; predicted 1.5, 0'
        >>> describe_prediction("multilabel", torch.tensor([1.0, 0.0, float("nan")]), torch.tensor([2.0, 1.0, -1.0]))
        'true labels 0; predicted 0, 1; unknown 2'
    """
    if task == "classification":
        label, guess = int(target), int(logits.argmax()) if logits.numel() > 1 else int(logits.item() > 0)
        return f"true class {label}, predicted {guess} ({'correct' if label == guess else 'wrong'})"
    targets, values = target.flatten().tolist(), logits.flatten().tolist()
    if task == "regression":
        known, predicted = (", ".join(f"{value:.4g}" for value in numbers) for numbers in (targets, values))
        return f"target {known}; predicted {predicted}"
    columns = range(len(targets))
    true, predicted, unknown = (
        ", ".join(str(column) for column in columns if holds(column)) or "none"
        for holds in (
            lambda column: targets[column] == 1,
            lambda column: values[column] > 0,
            lambda column: math.isnan(targets[column]),
        )
    )
    return f"true labels {true}; predicted {predicted}" + ("" if unknown == "none" else f"; unknown {unknown}")


def _probabilities(logits: Tensor) -> tuple[float, ...]:
    """The probability of each class; a single logit is that of class 1."""
    logits = logits.double().flatten()
    return tuple((torch.cat([-logits / 2, logits / 2]) if logits.numel() == 1 else logits).softmax(0).tolist())


def _threshold_of(level: Level) -> float:
    """The threshold that a quantile or ratio comes to: between the last merged score of the forest and the next. If
    these tie, none does.
    """
    scores, num_merges = [1.0, *level.hierarchy.score.tolist(), -1.0], len(level.cluster) - level.num_supernodes
    return float(scores[num_merges] + scores[num_merges + 1]) / 2


def centres(position: NDArray[np.float64], cluster: Tensor) -> NDArray[np.float64]:
    """The positions of supernodes: the means of their members' positions.

    Example:
        >>> centres(np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), torch.tensor([0, 0, 1])).tolist()
        [[0.5, 0.0], [5.0, 5.0]]
    """
    labels = cluster.numpy()
    size = np.bincount(labels)
    return np.stack([np.bincount(labels, position[:, axis]) / size for axis in range(2)], 1)


def layout(edge_index: Tensor, num_nodes: int) -> NDArray[np.float64]:
    """The positions of nodes [N, 2], in 0..1: each component by its distances, components side by side in rows.

    Example:
        >>> layout(torch.tensor([[0, 1], [1, 0]]), 3).shape
        (3, 2)
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edge_index.t().tolist())
    parts = sorted(nx.connected_components(graph), key=lambda part: (-len(part), min(part)))
    position = np.zeros((num_nodes, 2))
    max_width = np.sqrt(1.5 * sum(len(part) for part in parts))  # width of a row, in units of a node
    across = down = height = 0.0
    for part in parts:
        side = np.sqrt(len(part))
        if across and across + side > max_width:
            across, down, height = 0.0, down + height, 0.0
        members = sorted(part)
        subgraph = graph.subgraph(members)
        if len(members) == 1:
            coordinates = {members[0]: np.zeros(2)}
        elif len(members) <= 250:  # cubic in time
            coordinates = nx.kamada_kawai_layout(subgraph)
        else:
            coordinates = nx.spring_layout(subgraph, seed=0, iterations=50)
        positions = np.array([coordinates[member] for member in members])
        low, high = positions.min(0), positions.max(0)
        positions = (positions - (low + high) / 2) / max(float((high - low).max()), 1e-9) * 0.85 * side
        position[members] = positions + np.array([across + side / 2, down + side / 2])
        across, height = across + side + 0.5, max(height, side + 0.5)
    if num_nodes == 0:
        return position
    low, high = position.min(0), position.max(0)
    return np.asarray((position - low) / max(float((high - low).max()), 1e-9))
