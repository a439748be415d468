"""A description of the node features of a set, so that other graphs get the same columns."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compool.data.features import FEATURE_KINDS, Features, Vocabulary, features
from compool.data.names import Names, renumber

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet


@dataclass(frozen=True)
class Encoding:
    """The features of a set, and the meaning of their columns.

    Example:
        >>> from compool.data import communities
        >>> encoding = encoding_of(communities(9), "degree")
        >>> encoding.width, encoding.degrees
        (2, (4, 5))
    """

    kind: str
    """A kind of :func:`compool.data.features`, except ``"auto"``."""
    width: int
    """The number of columns F."""
    num_labels: int = 0
    """The number of node labels; with the kind ``"labels"``, one column each."""
    num_edge_labels: int = 0
    num_edge_attributes: int = 0
    degrees: tuple[int, ...] = ()
    """The known degrees, ascending; with the kind ``"degree"``, one column each."""
    labels: tuple[str, ...] = ()
    """The name of each node label; empty if they have none."""
    edge_labels: tuple[str, ...] = ()

    @property
    def edge_width(self) -> int:
        """Columns of edge features: attributes, then labels."""
        return self.num_edge_attributes + self.num_edge_labels

    def encode(
        self,
        graphs: "GraphSet",
        names: Names | None = None,
        with_edges: bool = False,
    ) -> "tuple[GraphSet, Features]":
        """Encode other graphs with these features; their targets are set to 0.

        Args:
            graphs: the graphs.
            names: the names of their labels; by default, those of the set. If neither side has names, labels are
                compared by number.
            with_edges: whether to encode edge features, too; otherwise edges get none.

        Raises:
            ValueError: if the graphs do not have these features; the message names the label, degree or number of
                attributes that does not fit.
        """
        labels = edge_labels = edge_attributes = None
        names = graphs.names if names is None else names
        if self.kind == "labels":
            parts = (graphs.labels, names.labels, self.labels, self.num_labels)
            labels = _renumbered(graphs, "node label", *parts)
        if self.kind == "attributes":
            _require_columns(graphs, "node", graphs.attributes, self.width)
        if with_edges and self.num_edge_labels:
            if graphs.edge_labels is None and graphs.edge_attributes is not None and not self.num_edge_attributes:
                _require_columns(graphs, "edge", graphs.edge_attributes, self.edge_width)
            parts = (graphs.edge_labels, names.edge_labels, self.edge_labels, self.num_edge_labels)
            edge_labels = _renumbered(graphs, "edge label", *parts)
        if with_edges and self.num_edge_attributes:
            _require_columns(graphs, "edge", graphs.edge_attributes, self.num_edge_attributes)
            edge_attributes = graphs.edge_attributes
        if self.kind == "released" and (largest := int(graphs.degree.max(initial=0))) > max(self.degrees, default=0):
            known = f"the model's features have columns for degrees to {max(self.degrees, default=0)}"
            raise ValueError(f"{graphs.name} has a node of degree {largest}, which is unknown; {known}")
        encoded = replace(
            graphs,
            y=np.zeros(len(graphs), np.int64),
            labels=labels,
            edge_labels=edge_labels,
            edge_attributes=edge_attributes,
            task="classification",
            inherited=Vocabulary(1, self.num_labels, self.num_edge_labels, np.array(self.degrees, np.int64)),
            names=Names(),
        )
        return encoded, features(encoded, self.kind)

    def as_given(self, graphs: "GraphSet") -> "Encoding":
        """The encoding of graphs whose attributes already are these columns, such as PyG's one-hot features."""
        encoding = self
        if self.kind != "attributes" and _is_one_hot(graphs.attributes, self.width):
            encoding = replace(encoding, kind="attributes")
        edges = graphs.edge_attributes
        if (
            edges is not None
            and edges.shape[1] == self.edge_width
            and _is_one_hot(edges[:, self.num_edge_attributes :], self.num_edge_labels)
        ):
            encoding = replace(encoding, num_edge_labels=0, num_edge_attributes=self.edge_width)
        return encoding

    def as_dict(self) -> dict[str, Any]:
        """The encoding for JSON; :func:`encoding_from_dict` reverses it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def _is_one_hot(values: NDArray[np.float32] | None, width: int) -> bool:
    """Whether each row has a single 1 among this many columns, and 0 elsewhere."""
    if values is None or values.shape[1] != width:
        return False
    return bool((((values == 0) | (values == 1)).all(1) & (values.sum(1) == 1)).all())


def _require_columns(graphs: "GraphSet", of: str, values: Any, width: int) -> None:
    given = 0 if values is None else values.shape[1]
    if given != width:
        which = f"column {min(given, width)} is {'unknown' if given > width else 'missing'}"
        raise ValueError(f"{graphs.name} has {given} {of} attributes, but the model takes {width}; {which}")


def _renumbered(
    graphs: "GraphSet", what: str, values: Any, names: tuple[str, ...], known: tuple[str, ...], num_known: int
) -> Any:
    if values is None:
        raise ValueError(f"{graphs.name} has no {what}s, which the model's features are made of")
    try:
        return renumber(values, names, known, num_known, what)
    except ValueError as error:
        raise ValueError(f"{graphs.name}: {error}") from None


def encoding_of(graphs: "GraphSet", kind: str = "auto", names: Names = Names()) -> Encoding:  # noqa: B008
    """The encoding of a set's features.

    Args:
        graphs: the set.
        kind: see :func:`compool.data.features`.
        names: the names of its labels, if known.
    """
    chosen, known = features(graphs, kind), graphs.vocabulary
    num_edge_attributes = 0 if graphs.edge_attributes is None else graphs.edge_attributes.shape[1]
    sizes = (chosen.kind, chosen.width, known.num_labels, known.num_edge_labels, num_edge_attributes)
    return Encoding(*sizes, tuple(known.degrees.tolist()), names.labels, names.edge_labels)


def encoding_from_dict(given: Any) -> Encoding:
    """The encoding that :meth:`Encoding.as_dict` described; a ValueError if it is something else.

    Example:
        >>> encoding_from_dict({"kind": "one", "width": 1}).kind
        'one'
    """
    if not isinstance(given, dict) or not given.keys() <= Encoding.__dataclass_fields__.keys():
        raise ValueError("the features must be an object with kind, width and what columns stand for")
    numbers = {name: given.get(name, 0) for name in ("width", "num_labels", "num_edge_labels", "num_edge_attributes")}
    for name, value in numbers.items():
        if type(value) is not int or not 0 <= value < 2**31:
            raise ValueError(f"{name} of the features must be a whole number, got {value!r:.60}")
    if given.get("kind") not in FEATURE_KINDS[1:]:
        raise ValueError(f"kind of the features must be one of {', '.join(FEATURE_KINDS[1:])}")
    degrees = _listed(given, "degrees", int)
    if sorted(set(degrees)) != list(degrees):
        raise ValueError("degrees of the features must ascend")
    labels, edge_labels = (_listed(given, name, str) for name in ("labels", "edge_labels"))
    return Encoding(kind=given["kind"], degrees=degrees, labels=labels, edge_labels=edge_labels, **numbers)


def _listed(given: dict[str, Any], name: str, kind: type) -> tuple[Any, ...]:
    values = given.get(name, [])
    if not isinstance(values, list) or not all(type(value) is kind for value in values):
        raise ValueError(f"{name} of the features must be a list of {'text' if kind is str else 'whole numbers'}")
    return tuple(values)
