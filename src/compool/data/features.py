"""Node features, by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from compool.data import _checks

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet

FEATURE_KINDS = ("auto", "attributes", "labels", "degree", "one", "released")


@dataclass(frozen=True, eq=False)
class Features:
    """Features of all nodes of a set. One-hot features are stored as the column of each node's 1, never dense."""

    kind: str
    width: int
    """Columns F."""
    column: NDArray[np.int64] | None = None
    """The column of each node's 1 [N], if the features are one-hot."""
    values: NDArray[np.float32] | None = None
    """The features [N, F], if they are not."""

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
        kind: ``"attributes"``: as they are; ``"labels"``: one-hot; ``"degree"``: one-hot over the distinct degrees of
            the set; ``"one"``: a single 1; ``"released"``: one-hot over 4 · degree, as the paper's code has it, so that
            three of four columns are empty; ``"auto"``: the first of attributes, labels and degree that the set has.

    Example:
        >>> from compool.data import communities
        >>> features(communities(9), "labels").width
        4
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
        return Features(kind, int(graphs.labels.max(initial=0)) + 1, graphs.labels.astype(np.int64))
    if kind == "degree":
        distinct, column = np.unique(graphs.degree, return_inverse=True)
        return Features(kind, len(distinct), column)
    if kind == "released":
        return Features(kind, 4 * int(graphs.degree.max(initial=0)) + 1, 4 * graphs.degree)
    return Features(kind, 1, np.zeros(graphs.num_nodes, np.int64))
