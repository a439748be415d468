"""Node and edge features, by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compool.data import _checks

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet

FEATURE_KINDS = ("auto", "attributes", "labels", "degree", "one", "released")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The classes, labels and degrees of a set, which determine one-hot columns; subsets inherit it."""

    num_classes: int
    """0 if the set has no classes."""
    num_labels: int
    num_edge_labels: int
    degrees: NDArray[np.int64]
    """The distinct degrees, ascending."""


def vocabulary_of(graphs: "GraphSet") -> Vocabulary:
    """The vocabulary of the graphs of a set.

    Example:
        >>> from compool.data import communities
        >>> vocabulary_of(communities(9)).degrees.tolist()
        [4, 5]
    """
    return Vocabulary(
        int(graphs.y.max()) + 1 if graphs.task == "classification" else 0,
        num_labels(graphs.labels),
        num_labels(graphs.edge_labels),
        np.unique(graphs.degree),
    )


def check_known(
    name: str,
    known: Vocabulary,
    classes: NDArray[np.int64] | None,
    labels: NDArray[np.int32] | None,
    edge_labels: NDArray[np.int32] | None,
) -> None:
    """Raise a ValueError if the set of this name has a class or label that is not in a vocabulary."""
    present: dict[str, tuple[NDArray[Any] | None, int]] = {
        "class": (classes, known.num_classes),
        "node label": (labels, known.num_labels),
        "edge label": (edge_labels, known.num_edge_labels),
    }
    for word, (values, size) in present.items():
        if values is not None and values.size and int(values.max()) >= size:
            raise ValueError(f"{name} has {word} {int(values.max())}, but known are 0..{size - 1}")


def num_labels(labels: NDArray[np.int32] | None) -> int:
    """The number of labels, 0 without labels."""
    return 0 if labels is None else int(labels.max(initial=0)) + 1


@dataclass(frozen=True, eq=False)
class Features:
    """Features of all nodes of a set. One-hot features are stored sparsely, as the column of each node's 1."""

    kind: str
    width: int
    """The number of columns F."""
    column: NDArray[np.int64] | None = None
    """The column of each node's 1 [N], if the features are one-hot."""
    values: NDArray[np.float32] | None = None
    """The features [N, F], if they are not one-hot."""

    def __post_init__(self) -> None:
        """Check the arrays: columns are indices into a network's weights."""
        if (self.column is None) == (self.values is None):
            raise ValueError("features must have either column or values")
        if self.column is not None:
            column = _checks.integers("column", self.column, np.int64, "[N]")
            _checks.check_indices("column", column, self.width, f"the {self.width} columns of width")
            object.__setattr__(self, "column", column)
        else:
            values = _checks.floats("values", self.values, "[N, F]")
            if values.shape[1] != self.width:
                raise ValueError(f"values must have {self.width} columns, as width says; got {values.shape[1]}")
            object.__setattr__(self, "values", values)

    def dense(self, nodes: slice) -> NDArray[np.float32]:
        """The features of some nodes as a matrix."""
        if self.values is not None:
            return self.values[nodes]
        assert self.column is not None
        column = self.column[nodes]
        out = np.zeros((len(column), self.width), np.float32)
        out[np.arange(len(column)), column] = 1
        return out


def features(graphs: "GraphSet", kind: str = "auto") -> Features:
    """Choose the node features of a set.

    Args:
        graphs: the set.
        kind: ``"attributes"``: unchanged; ``"labels"``: one-hot; ``"degree"``: one-hot over the distinct degrees of
            the set; ``"one"``: a single 1; ``"released"``: one-hot over 4 · degree, as in the paper's code, where
            three of four columns are empty; ``"auto"``: the first of attributes, labels and degree that the set has.

    Returns:
        The features; their `kind` is the one that ``"auto"`` chose.

    Example:
        >>> from compool.data import communities
        >>> chosen = features(communities(9))
        >>> chosen.kind, chosen.width
        ('labels', 4)
    """
    if kind not in FEATURE_KINDS:
        raise ValueError(f"features must be one of {', '.join(FEATURE_KINDS)}; got {kind!r}")
    if kind == "auto":
        kind = "attributes" if graphs.attributes is not None else "labels" if graphs.labels is not None else "degree"
    if kind == "attributes":
        if graphs.attributes is None:
            raise ValueError(f"{graphs.name} has no node attributes; choose other features")
        return Features(kind, graphs.attributes.shape[1], values=graphs.attributes)
    if kind == "labels":
        if graphs.labels is None:
            raise ValueError(f"{graphs.name} has no node labels; choose other features")
        return Features(kind, graphs.vocabulary.num_labels, graphs.labels.astype(np.int64))
    if kind == "degree":
        degrees = graphs.vocabulary.degrees
        return Features(kind, len(degrees), _known_columns(graphs, degrees))
    if kind == "released":
        return Features(kind, 4 * int(graphs.vocabulary.degrees.max(initial=0)) + 1, 4 * graphs.degree)
    return Features(kind, 1, np.zeros(graphs.num_nodes, np.int64))


def _known_columns(graphs: "GraphSet", degrees: NDArray[np.int64]) -> NDArray[np.int64]:
    """The position of each node's degree among the known ones."""
    unknown = np.setdiff1d(graphs.degree, degrees)
    if unknown.size:
        span = f" from {degrees[0]} to {degrees[-1]}" if len(degrees) else ""
        known = f"known {len(degrees)} degrees{span}"
        raise ValueError(f"{graphs.name} has a node of degree {unknown[0]}, which is not among the {known}")
    return np.searchsorted(degrees, graphs.degree)


def edge_features(graphs: "GraphSet") -> list[Features]:
    """The edge features of a set, as PyG has them: attributes, then labels, one-hot; empty if it has neither.

    Example:
        >>> from compool.data import communities
        >>> edge_features(communities(9))
        []
    """
    parts = []
    if graphs.edge_attributes is not None:
        parts.append(Features("attributes", graphs.edge_attributes.shape[1], values=graphs.edge_attributes))
    if graphs.edge_labels is not None:
        parts.append(Features("labels", graphs.vocabulary.num_edge_labels, graphs.edge_labels.astype(np.int64)))
    return parts
