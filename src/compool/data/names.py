"""The names of classes and labels in the files of a data set; a set itself numbers them from 0."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Names(NamedTuple):
    """The name of each class, node label and edge label, in the order of their numbers; empty if there are none."""

    classes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    edge_labels: tuple[str, ...] = ()

    def as_json(self) -> str:
        """The names as text; :func:`names_from_json` reverses it."""
        return json.dumps(self._asdict())


def names_from_json(text: str) -> Names:
    """The names in a text that :meth:`Names.as_json` made; none if it is something else.

    Example:
        >>> names_from_json(Names(("-1", "1"), ("C", "N")).as_json())
        Names(classes=('-1', '1'), labels=('C', 'N'), edge_labels=())
    """
    try:
        given = json.loads(text)
        return Names(*(tuple(str(name) for name in given[field]) for field in Names._fields))
    except (ValueError, LookupError, TypeError):
        return Names()


def value_names(rows: NDArray[Any]) -> tuple[str, ...]:
    """The distinct rows of a file in order, each as text.

    Example:
        >>> value_names(np.array([[3, 1], [2, 0], [3, 1]]))
        ('2 0', '3 1')
    """
    return tuple(" ".join(map(str, row)) for row in np.unique(rows, axis=0).tolist())


def renumber(
    values: NDArray[np.int32], names: tuple[str, ...], known: tuple[str, ...], num_known: int, what: str
) -> NDArray[np.int32]:
    """Labels with the numbers that another set gives to the same names.

    Args:
        values: labels, as indices into `names`.
        names: their names; empty if they are plain numbers.
        known: the names of the other set; empty if they are plain numbers.
        num_known: how many labels the other set has.
        what: ``"node label"`` or ``"edge label"``, for messages.

    Raises:
        ValueError: if a label has no counterpart; the message names it.

    Example:
        >>> renumber(np.array([0, 1, 0], np.int32), ("O", "C"), ("C", "N", "O"), 3, "node label").tolist()
        [2, 0, 2]
    """
    present = np.unique(values).tolist()
    if names and present and present[-1] >= len(names):
        raise ValueError(
            f"there are {len(names)} names for {what}s, but a {what} is {present[-1]}; give names that fit"
        )
    if names and known:
        unknown = [names[label] for label in present if names[label] not in known]
        table = np.array([known.index(name) if name in known else -1 for name in names], np.int32)
    else:
        if names and not _are_numbers(names):
            raise ValueError(f"the model has no names for its {what}s; export it again with --data")
        if known and not _are_numbers(known):
            raise ValueError(
                f"the {what}s have no names, but the model's are {_shortened(known)}; "
                "give the folder or zip file of the set, or what compool.data.load returns"
            )
        unknown = [str(label) for label in present if label >= num_known]
        table = np.arange(max(present, default=0) + 1, dtype=np.int32)
    if unknown:
        listed = _shortened(known or map(str, range(num_known)))
        raise ValueError(f"{what} {unknown[0]} is unknown; the model's features have columns for {listed}")
    return table[values]


def _are_numbers(names: tuple[str, ...]) -> bool:
    return names == tuple(map(str, range(len(names))))


def _shortened(names: Iterable[str], most: int = 12) -> str:
    listed = list(names)
    return ", ".join(listed) if len(listed) <= most else f"{', '.join(listed[:most])} and {len(listed) - most} more"
