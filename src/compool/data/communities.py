"""Generated graphs whose class only shows once their communities are found."""

import numpy as np
from numpy.typing import NDArray

from compool.data.graph_set import GraphSet

CLASSES = (2, 3, 4)  # communities
NUM_COLOURS = 3
CONNECTORS = 12  # per graph; each links two communities by two edges to each
NUM_MEMBERS = (48, 60, 72)  # nodes in communities; multiples of every class, and of the 4 · CONNECTORS linked nodes
INNER_DEGREE = 4


def communities(num_graphs: int = 1200, seed: int = 0, noise: float = 0.1) -> GraphSet:
    """Generate graphs of planted communities; the class is how many a graph has: 2, 3 or 4.

    A community is a random 4-regular graph. Communities form a ring, linked through connector nodes alone. Node count,
    edge count and degree histogram have the same distribution in every class. A node's label is a colour:
    communities have random colours, which repeat, a share of nodes shows a wrong one, and connectors have a colour of
    their own, the last. So colours alone do not determine the class, but merging everything except connectors does.

    Args:
        num_graphs: how many; every nine in a row hold each class with each size once.
        seed: graph i depends on (seed, i) alone.
        noise: probability with which a node shows a random colour.

    Example:
        >>> graphs = communities(9)
        >>> graphs.y.tolist()
        [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> graphs[0]
        Data(x=[60, 4], edge_index=[2, 288], y=[1])
    """
    if num_graphs < 1:
        raise ValueError(f"num_graphs must be at least 1, got {num_graphs}")
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must lie in 0..1, got {noise}")
    y = np.arange(num_graphs) % len(CLASSES)
    size = np.array(NUM_MEMBERS)[np.arange(num_graphs) // len(CLASSES) % len(NUM_MEMBERS)]
    colours, edges = [], []
    for index in range(num_graphs):
        generator = np.random.default_rng((seed, index))
        colour, edge_index = _draw_graph(generator, CLASSES[y[index]], int(size[index]), noise)
        colours.append(colour)
        edges.append(edge_index)
    return GraphSet(
        name="communities",
        node_ptr=np.cumsum([0, *map(len, colours)]),
        edge_ptr=np.cumsum([0, *(edge_index.shape[1] for edge_index in edges)]),
        edge_index=np.concatenate(edges, axis=1).astype(np.int32),
        y=y.astype(np.int64),
        labels=np.concatenate(colours).astype(np.int32),
    )


def _draw_graph(
    generator: np.random.Generator, num_communities: int, size: int, noise: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The colours and edges of a graph with `num_communities` communities of `size` nodes in total, and connectors."""
    members = np.arange(size).reshape(num_communities, -1)
    pairs = [_regular(generator, group) for group in members]

    # Connector c links communities c and c + 1 by two edges each; no community node has more than one.
    linked = [list(generator.permutation(group)) for group in members]
    for connector in range(CONNECTORS):
        for community in (connector, connector, connector + 1, connector + 1):
            pairs.append(np.array([[size + connector, linked[community % num_communities].pop()]]))

    colour = np.repeat(generator.integers(NUM_COLOURS, size=num_communities), size // num_communities)
    wrong = generator.random(size) < noise
    colour = np.where(wrong, generator.integers(NUM_COLOURS, size=size), colour)
    colour = np.concatenate([colour, np.full(CONNECTORS, NUM_COLOURS)])

    shuffle = generator.permutation(len(colour))
    edge_index = shuffle[np.concatenate(pairs)].T
    edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    order = np.lexsort((edge_index[1], edge_index[0]))
    return colour[np.argsort(shuffle)], edge_index[:, order]


def _regular(generator: np.random.Generator, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The edges [E, 2] of a connected random regular graph: circles through all nodes, drawn until no edge repeats."""
    while True:
        circles = [generator.permutation(nodes) for _ in range(INNER_DEGREE // 2)]
        pairs = np.concatenate([np.stack([circle, np.roll(circle, 1)], axis=1) for circle in circles])
        if len(np.unique(np.sort(pairs, axis=1), axis=0)) == len(pairs):
            return pairs
