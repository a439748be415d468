"""Unions for tests, and the same graphs as batches of PyG, replica by replica."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch

from compool.data import Features, GraphSet, communities
from compool.replicas import Graphs, Union


class Batches(NamedTuple):
    x: Tensor
    union: Union
    singles: list[Batch]


def graph_set(count: int = 12, seed: int = 0) -> GraphSet:
    """Random graphs of 0 to 9 nodes, some without edges."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 10, count)
    edges = []
    for size in sizes:
        matrix = np.triu(random.random((size, size)) < 0.35, 1)
        edges.append(np.stack(np.nonzero(matrix | matrix.T)).astype(np.int32))
    node_ptr, edge_ptr = (np.concatenate([[0], np.cumsum(n)]) for n in (sizes, [e.shape[1] for e in edges]))
    attributes = random.normal(size=(node_ptr[-1], 5)).astype(np.float32)
    labels = random.integers(0, 4, node_ptr[-1]).astype(np.int32)
    return GraphSet("RANDOM", node_ptr, edge_ptr, np.concatenate(edges, 1), np.arange(count) % 2, labels, attributes)


def batches(graphs: GraphSet, features: Features, which: list[list[int]], key: Tensor | None = None) -> Batches:
    """Float64 throughout, so that one can compare closely; −1 stands for no graph."""
    x, union = Graphs(graphs, features, dtype=torch.float64).union(torch.tensor(which), key)
    singles = []
    for row in which:
        data = [graphs[index] for index in row if index >= 0]
        for one, index in zip(data, (index for index in row if index >= 0), strict=True):
            nodes = slice(graphs.node_ptr[index], graphs.node_ptr[index + 1])
            one.x = torch.from_numpy(features.dense(nodes)).double()
        singles.append(Batch.from_data_list(data))
    return Batches(x, union, singles)


__all__ = ["Batches", "batches", "communities", "graph_set"]
