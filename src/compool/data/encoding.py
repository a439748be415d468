"""How a set of graphs becomes node features, written down so that other graphs get the same columns."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compool.data.features import FEATURE_KINDS, Features, Vocabulary, features
from compool.data.names import Names, renumber

if TYPE_CHECKING:
    from compool.data.graph_set import GraphSet


@dataclass(frozen=True)
class Encoding:
    """The features of a set, and what their columns stand for.

    Example:
        >>> from compool.data import communities
        >>> encoding = encoding_of(communities(9), "degree")
        >>> encoding.width, encoding.degrees
        (2, (4, 5))
    """

    kind: str
    """A kind of :func:`compool.data.features`, but ``"auto"``."""
    width: int
    """Columns F."""
    num_labels: int = 0
    """How many node labels there are; with the kind ``"labels"``, one column each."""
    num_edge_labels: int = 0
    degrees: tuple[int, ...] = ()
    """The known degrees, ascending; with the kind ``"degree"``, one column each."""
    labels: tuple[str, ...] = ()
    """The name of each node label; empty if they have none."""
    edge_labels: tuple[str, ...] = ()

    def encode(self, graphs: "GraphSet", names: Names = Names()) -> "tuple[GraphSet, Features]":  # noqa: B008
        """Other graphs with these features; their targets are set to 0.

        Args:
            graphs: the graphs.
            names: of their labels; without names, labels are compared by number.

        Raises:
            ValueError: if the graphs do not have these features; the message names the label, degree or number of
                attributes that does not fit.
        """
        labels, edge_labels = graphs.labels, graphs.edge_labels
        if self.kind == "labels":
            if labels is None:
                raise ValueError(f"{graphs.name} has no node labels, which the model's features are made of")
            labels = self._renumbered(graphs, labels, names.labels, self.labels, self.num_labels, "node label")
        else:
            labels = None
        if edge_labels is not None and self.num_edge_labels:
            parts = (names.edge_labels, self.edge_labels, self.num_edge_labels)
            edge_labels = self._renumbered(graphs, edge_labels, *parts, "edge label")
        else:
            edge_labels = None
        if self.kind == "attributes":
            self._require_attributes(graphs)
        if self.kind == "released" and (largest := int(graphs.degree.max(initial=0))) > max(self.degrees, default=0):
            known = f"the model's features have columns for degrees to {max(self.degrees, default=0)}"
            raise ValueError(f"{graphs.name} has a node of degree {largest}, which is unknown; {known}")
        known_values = Vocabulary(1, self.num_labels, self.num_edge_labels, np.array(self.degrees, np.int64))
        encoded = replace(
            graphs,
            y=np.zeros(len(graphs), np.int64),
            labels=labels,
            edge_labels=edge_labels,
            task="classification",
            inherited=known_values,
        )
        return encoded, features(encoded, self.kind)

    def _require_attributes(self, graphs: "GraphSet") -> None:
        given = 0 if graphs.attributes is None else graphs.attributes.shape[1]
        if given != self.width:
            which = f"; column {min(given, self.width)} is {'unknown' if given > self.width else 'missing'}"
            raise ValueError(f"{graphs.name} has {given} node attributes, but the model takes {self.width}{which}")

    @staticmethod
    def _renumbered(graphs: "GraphSet", *arguments: Any) -> Any:
        try:
            return renumber(*arguments)
        except ValueError as error:
            raise ValueError(f"{graphs.name}: {error}") from None

    def as_dict(self) -> dict[str, Any]:
        """The encoding for JSON; :func:`encoding_from_dict` reverses it."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


def encoding_of(graphs: "GraphSet", kind: str = "auto", names: Names = Names()) -> Encoding:  # noqa: B008
    """The encoding of a set's features.

    Args:
        graphs: the set.
        kind: see :func:`compool.data.features`.
        names: of its labels, if they are known.
    """
    chosen, known = features(graphs, kind), graphs.vocabulary
    sizes = (chosen.kind, chosen.width, known.num_labels, known.num_edge_labels)
    return Encoding(*sizes, tuple(known.degrees.tolist()), names.labels, names.edge_labels)


def encoding_from_dict(given: Any) -> Encoding:
    """The encoding that :meth:`Encoding.as_dict` described; a ValueError if it is something else.

    Example:
        >>> encoding_from_dict({"kind": "one", "width": 1}).kind
        'one'
    """
    if not isinstance(given, dict) or not given.keys() <= Encoding.__dataclass_fields__.keys():
        raise ValueError("the features must be an object with kind, width and what columns stand for")
    numbers = {name: given.get(name, 0) for name in ("width", "num_labels", "num_edge_labels")}
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
