"""Generated graphs whose class only shows in their communities."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compool.data.graph_set import GraphSet

CLASSES = (2, 3, 4)  # communities
COUNTS = (2, 3, 4, 6)  # communities, if their number is to be predicted
NUM_COLOURS = 3
CONNECTORS = 12  # per graph; each links two communities by two edges to each
NUM_MEMBERS = (48, 60, 72)  # nodes in communities; multiples of every count, and of the 4 · CONNECTORS linked nodes
INNER_DEGREE = 4


def communities(num_graphs: int = 1200, seed: int = 0, noise: float = 0.1) -> GraphSet:
    """Generate graphs of planted communities; the class is the number of communities: 2, 3 or 4.

    A community is a random 4-regular graph. Communities form a ring, linked only through connector nodes. Node count,
    edge count and degree histogram have the same distribution in every class. A node's label is a colour:
    communities have random colours, which may repeat, some nodes have a wrong colour, and connectors have a separate
    colour, the last. So colours alone do not determine the class, but merging everything except connectors does.

    Args:
        num_graphs: number of graphs; every nine in a row have each class with each size once.
        seed: graph i depends only on (seed, i).
        noise: probability with which a node shows a random colour.

    Example:
        >>> graphs = communities(9)
        >>> graphs.y.tolist()
        [0, 1, 2, 0, 1, 2, 0, 1, 2]
        >>> graphs[0]
        Data(x=[60, 4], edge_index=[2, 288], y=[1])
    """
    graphs = _draw(num_graphs, seed, noise, CLASSES)
    return _graph_set("communities", np.arange(num_graphs) % len(CLASSES), graphs)


def community_count(num_graphs: int = 1200, seed: int = 0, noise: float = 0.1) -> GraphSet:
    """Generate graphs of planted communities, with the number of communities as target: 2, 3, 4 or 6, as a float.

    Args:
        num_graphs: number of graphs; every twelve in a row have each number with each size once.
        seed: graph i depends only on (seed, i).
        noise: probability with which a node shows a random colour.

    Example:
        >>> graphs = community_count(12)
        >>> graphs.task, graphs.y[:5].tolist()
        ('regression', [2.0, 3.0, 4.0, 6.0, 2.0])
    """
    graphs = _draw(num_graphs, seed, noise, COUNTS)
    return _graph_set("community-count", np.array([len(graph.colours) for graph in graphs], np.float32), graphs)


def community_labels(num_graphs: int = 1200, seed: int = 0, noise: float = 0.1, missing: float = 0.2) -> GraphSet:
    """Generate graphs of planted communities with five labels each, some of them missing.

    The labels are: more than two communities; more than three; a community of colour 0; of colour 1; of colour 2. The
    first two require counting the communities, the others can be read from the nodes' colours.

    Args:
        num_graphs: number of graphs, which are those of :func:`community_count`.
        seed: graph i and its missing labels depend only on (seed, i).
        noise: probability with which a node shows a random colour.
        missing: probability with which a label is missing (NaN).

    Example:
        >>> graphs = community_labels(12)
        >>> graphs.task, graphs.y[:2].tolist()
        ('multilabel', [[0.0, 0.0, 1.0, 1.0, nan], [1.0, 0.0, 0.0, 1.0, 0.0]])
    """
    _check_share("missing", missing)
    graphs = _draw(num_graphs, seed, noise, COUNTS)
    rows = []
    for index, graph in enumerate(graphs):
        count, colours = len(graph.colours), graph.colours.tolist()
        row = np.array([count > 2, count > 3, *(colour in colours for colour in range(NUM_COLOURS))], np.float32)
        is_missing = np.random.default_rng((seed, index, 1)).random(len(row)) < missing
        rows.append(np.where(is_missing, np.nan, row))
    return _graph_set("community-labels", np.stack(rows), graphs)


class _Graph(NamedTuple):
    """One generated graph."""

    colour: NDArray[np.int64]
    """The colour that each node shows."""
    edge_index: NDArray[np.int64]
    colours: NDArray[np.int64]
    """The colour of each community."""


def _draw(num_graphs: int, seed: int, noise: float, counts: Sequence[int]) -> list[_Graph]:
    """Graphs that cycle through the numbers of communities and the sizes."""
    if num_graphs < 1:
        raise ValueError(f"num_graphs must be at least 1, got {num_graphs}")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number, at least 0; got {seed}")
    _check_share("noise", noise)
    size = np.array(NUM_MEMBERS)[np.arange(num_graphs) // len(counts) % len(NUM_MEMBERS)]
    return [
        _draw_graph(np.random.default_rng((seed, index)), counts[index % len(counts)], int(size[index]), noise)
        for index in range(num_graphs)
    ]


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in 0..1, got {value}")


def _graph_set(name: str, y: NDArray[Any], graphs: list[_Graph]) -> GraphSet:
    return GraphSet(
        name=name,
        node_ptr=np.cumsum([0, *(len(graph.colour) for graph in graphs)]),
        edge_ptr=np.cumsum([0, *(graph.edge_index.shape[1] for graph in graphs)]),
        edge_index=np.concatenate([graph.edge_index for graph in graphs], axis=1).astype(np.int32),
        y=y,
        labels=np.concatenate([graph.colour for graph in graphs]).astype(np.int32),
    )


def _draw_graph(generator: np.random.Generator, num_communities: int, size: int, noise: float) -> _Graph:
    """A graph with `num_communities` communities of `size` nodes in total, and connectors."""
    members = np.arange(size).reshape(num_communities, -1)
    pairs = [_regular(generator, group) for group in members]

    # Connector c links communities c and c + 1 by two edges each; no community node has more than one.
    linked = [generator.permutation(group).tolist() for group in members]
    links = [
        (size + connector, linked[community % num_communities].pop())
        for connector in range(CONNECTORS)
        for community in (connector, connector, connector + 1, connector + 1)
    ]
    pairs.append(np.array(links))

    colours = generator.integers(NUM_COLOURS, size=num_communities)
    colour = np.repeat(colours, size // num_communities)
    wrong = generator.random(size) < noise
    colour = np.where(wrong, generator.integers(NUM_COLOURS, size=size), colour)
    colour = np.concatenate([colour, np.full(CONNECTORS, NUM_COLOURS)])

    shuffle = generator.permutation(len(colour))
    edge_index = shuffle[np.concatenate(pairs)].T
    edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    order = np.lexsort((edge_index[1], edge_index[0]))
    return _Graph(colour[np.argsort(shuffle)], edge_index[:, order], colours)


def _regular(generator: np.random.Generator, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The edges [E, 2] of a connected random regular graph: circles through all nodes, drawn until no edge repeats."""
    previous = np.arange(-1, len(nodes) - 1)
    while True:  # nine draws on average: an integer per edge and a Python set find repeats faster than np.unique
        circles = np.stack([generator.permutation(nodes) for _ in range(INNER_DEGREE // 2)])
        before = circles[:, previous]
        edge_ids = np.minimum(circles, before) * (nodes[-1] + 1) + np.maximum(circles, before)
        if len(set(edge_ids.ravel().tolist())) == edge_ids.size:
            return np.stack([circles, before], axis=-1).reshape(-1, 2)
