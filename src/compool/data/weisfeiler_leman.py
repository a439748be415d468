"""The Weisfeiler–Leman test (1-WL), and generated pairs of graphs that it distinguishes."""

import numpy as np
from numpy.typing import NDArray

from compool.data.graph_set import GraphSet

TAILS, LENGTH = 5, 5  # tails per graph and nodes per tail; the second or third node of a tail is marked
CORE_SIZES = (12, 24)  # nodes besides the tails


def wl_classes(graphs: GraphSet, rounds: int | None = None) -> NDArray[np.int64]:
    """Give each graph of a set a class id; two graphs share it if 1-WL cannot distinguish them.

    Args:
        graphs: the set; node labels are the first colours, if there are any.
        rounds: number of rounds of refinement; by default until no colour splits.

    Returns:
        One class id per graph [G].

    Example:
        >>> wl_classes(wl_pairs(2), rounds=1).tolist(), wl_classes(wl_pairs(2), rounds=2).tolist()
        ([0, 0, 1, 1], [0, 1, 2, 3])
    """
    offset = np.repeat(graphs.node_ptr[:-1], np.diff(graphs.edge_ptr))
    source, target = graphs.edge_index + offset
    neighbours = np.split(target, np.cumsum(np.bincount(source, minlength=graphs.num_nodes))[:-1])
    colour = np.zeros(graphs.num_nodes, np.int64) if graphs.labels is None else graphs.labels.astype(np.int64)
    num_colours, num_rounds = len(set(colour.tolist())), 0
    while rounds is None or num_rounds < rounds:
        names: dict[tuple[int, ...], int] = {}
        signatures = (
            (own, *np.sort(colour[others]).tolist()) for own, others in zip(colour.tolist(), neighbours, strict=True)
        )
        colour = np.array([names.setdefault(name, len(names)) for name in signatures], np.int64)
        num_rounds += 1
        if len(names) == num_colours:
            break
        num_colours = len(names)
    parts = np.split(colour, graphs.node_ptr[1:-1])
    kinds: dict[tuple[int, ...], int] = {}
    return np.array([kinds.setdefault(tuple(np.sort(part).tolist()), len(kinds)) for part in parts], np.int64)


def wl_pairs(num_pairs: int = 600, seed: int = 0) -> GraphSet:
    """Generate pairs of graphs that two rounds of 1-WL distinguish and a single round does not.

    Each graph is random and has five tails: paths of five nodes. In each tail, the label marks the second or the third
    node. The class is the more frequent kind of tail. The graphs of a pair differ only in the counts of the
    two kinds, which are swapped. A classifier must therefore see the whole graph; the labels and degrees of
    nodes and of their neighbours are the same in both.

    Args:
        num_pairs: number of pairs; graphs 2i and 2i + 1 are a pair, of class 0 and 1.
        seed: pair i depends only on (seed, i).

    Example:
        >>> graphs = wl_pairs(3)
        >>> graphs.y.tolist()
        [0, 1, 0, 1, 0, 1]
        >>> graphs[0].num_nodes == graphs[1].num_nodes, graphs[0].num_edges == graphs[1].num_edges
        (True, True)
    """
    if num_pairs < 1:
        raise ValueError(f"num_pairs must be at least 1, got {num_pairs}")
    labels, edges = [], []
    for index in range(num_pairs):
        generator = np.random.default_rng((seed, index))
        pairs, tails = _tailed(generator)
        seconds = int(generator.integers(TAILS // 2 + 1, TAILS + 1))
        for num_seconds in (seconds, TAILS - seconds):
            label = np.zeros(tails.max() + 1, np.int64)
            position = np.where(np.arange(TAILS) < num_seconds, 1, 2)
            label[tails[np.arange(TAILS), position]] = 1
            shuffle = generator.permutation(len(label))
            edge_index = shuffle[np.concatenate([pairs, pairs[:, ::-1]])].T
            labels.append(label[np.argsort(shuffle)])
            edges.append(edge_index[:, np.lexsort((edge_index[1], edge_index[0]))])
    return GraphSet(
        name="wl_pairs",
        node_ptr=np.cumsum([0, *map(len, labels)]),
        edge_ptr=np.cumsum([0, *(edge_index.shape[1] for edge_index in edges)]),
        edge_index=np.concatenate(edges, axis=1).astype(np.int32),
        y=np.arange(2 * num_pairs, dtype=np.int64) % 2,
        labels=np.concatenate(labels).astype(np.int32),
    )


def _tailed(generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The edges [E, 2], one direction, of a connected random graph with tails, and the nodes of each tail."""
    size = int(generator.integers(CORE_SIZES[0], CORE_SIZES[1] + 1))
    tree = [(int(generator.integers(node)), node) for node in range(1, size)]
    more = [
        tuple(sorted(pair)) for pair in generator.integers(size, size=(size // 2, 2)).tolist() if pair[0] != pair[1]
    ]
    inner = np.array(sorted({*tree, *more}), np.int64)
    tails = size + np.arange(TAILS * LENGTH).reshape(TAILS, LENGTH)
    anchors = generator.choice(size, TAILS, replace=False)
    chains = np.concatenate([anchors[:, None], tails], axis=1)
    outer = np.stack([chains[:, :-1].ravel(), chains[:, 1:].ravel()], axis=1)
    return np.concatenate([inner, outer]), tails
