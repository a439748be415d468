"""Graphs for tests: hypothesis strategies, and the shapes that break kernels."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor


class Graph(NamedTuple):
    x: Tensor
    edge_index: Tensor
    batch: Tensor


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 9, max_graphs: int = 3, channels: int = 3) -> Graph:
    """A batch of small graphs: directed or not, with repeats, self-loops, isolated nodes, no edges, no nodes."""
    sources: list[int] = []
    targets: list[int] = []
    sizes = draw(st.lists(st.integers(0, max_nodes), min_size=1, max_size=max_graphs))
    undirected = draw(st.booleans())
    offset = 0
    for size in sizes:
        node = st.integers(0, max(size - 1, 0))
        for i, j in draw(st.lists(st.tuples(node, node), max_size=2 * size)):
            sources += [offset + i, offset + j] if undirected else [offset + i]
            targets += [offset + j, offset + i] if undirected else [offset + j]
        offset += size
    edge_index = torch.tensor([sources, targets], dtype=torch.long)
    if draw(st.booleans()):
        edge_index = edge_index[:, torch.argsort(edge_index[0] * (offset + 1) + edge_index[1])]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    x = torch.randn(offset, channels, generator=generator, dtype=torch.float64)
    batch = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    return Graph(x, edge_index, batch)


def path(num_nodes: int) -> Tensor:
    nodes = torch.arange(num_nodes - 1)
    return torch.stack([nodes, nodes + 1])


def star(num_nodes: int) -> Tensor:
    leaves = torch.arange(num_nodes - 1)
    return torch.stack([leaves, torch.full_like(leaves, num_nodes - 1)])


def clique(num_nodes: int) -> Tensor:
    return torch.ones(num_nodes, num_nodes).triu(1).nonzero().t().contiguous()


def random_graph(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(num_nodes, (2, num_edges), generator=generator)


def inside(edge_index: Tensor, batch: Tensor) -> Tensor:
    """The edges that join no two graphs."""
    return edge_index[:, batch[edge_index[0]] == batch[edge_index[1]]]


def batch_around(edge_index: Tensor, num_nodes: int) -> Tensor:
    """A sorted batch vector of as many graphs as there can be without an edge between two."""
    ends = edge_index.cpu().long()
    farthest = torch.arange(num_nodes).scatter_reduce(0, ends.amin(0), ends.amax(0), "amax").cummax(0).values
    starts = torch.arange(num_nodes) > torch.cat([torch.zeros(1).long(), farthest])[:num_nodes]
    return starts.long().cumsum(0).to(edge_index.device)


SHAPES = {
    "path": (1000, path(1000)),
    "path, shuffled": (1000, torch.randperm(1000, generator=torch.Generator().manual_seed(1))[path(1000)]),
    "path, backwards": (1000, path(1000).flip(0, 1)),
    "star": (500, star(500)),
    "clique": (40, clique(40)),
    "sparse": (2000, random_graph(2000, 1500)),
    "dense": (300, random_graph(300, 5000)),
    "no edges": (1000, torch.empty(2, 0, dtype=torch.long)),
    "no nodes": (0, torch.empty(2, 0, dtype=torch.long)),
}


def flat_set() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A path, no nodes, a node without edges, and a clique: where their nodes, edges and rows begin, and the edges."""
    edges = [torch.cat([one, one.flip(0)], 1).unique(dim=1) for one in (path(3), path(1), path(1), clique(5))]
    nodes, number = torch.tensor([3, 0, 1, 5]), torch.tensor([one.size(1) for one in edges])
    degree = torch.cat([torch.bincount(one[0], minlength=int(n)) for one, n in zip(edges, nodes, strict=True)])
    pointers = (torch.cat([torch.zeros_like(n[:1]), n.cumsum(0)]) for n in (nodes, number, degree))
    return *pointers, torch.cat(edges, 1).int()
