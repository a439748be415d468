"""Checksums of stored runs: SQLite has none, and would read a flipped bit as another number."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from compool.study.columns import FLOAT_MAXIMA, INTEGER_RANGES, OPTIONAL_COLUMNS

CHECKSUM_COLUMN = "checksum"  # a column of the table, in addition to those of a run


def run_checksum(row: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that change with any column of a run, in the form in which SQLite stores it.

    Raises TypeError if a value does not have its column's type.

    Args:
        row: the columns of a run except the checksum itself; text as UTF-8.

    Example:
        >>> run_checksum({"dataset": b"NCI1", "replica": 3}), run_checksum({"dataset": b"NCI1", "replica": 2})
        ('cacf5f59e94598ff', 'c5848e2beace3f2b')
    """
    parts = []
    for name in sorted(row):
        content = _content(name, row[name])
        parts += [f"{name} {len(content)} ".encode(), content]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def is_intact(row: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a stored row matches its checksum.

    Args:
        row: the columns of a table, text as bytes.
        names: the columns of a run.
    """
    try:
        return bool(row[CHECKSUM_COLUMN] == run_checksum({name: row[name] for name in names}).encode())
    except TypeError:
        return False


def _content(name: str, value: Any) -> bytes:
    """The value of a column as bytes."""
    if value is None and name in OPTIONAL_COLUMNS:
        return b"NULL"
    if name in INTEGER_RANGES:
        if type(value) is int:
            return b"%d" % value
    elif name in FLOAT_MAXIMA:
        if type(value) is float:
            return repr(value).encode()
    elif type(value) is bytes:
        return value
    raise TypeError(f"{name} cannot be {value!r:.60}")
