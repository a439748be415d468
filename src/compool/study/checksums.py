"""Checksums of stored runs: SQLite has none, and would read a flipped bit as another number."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from compool.study.columns import FLOAT_MAXIMA, INTEGER_RANGES, OPTIONAL_COLUMNS

CHECKSUM_COLUMN = "checksum"  # of the table, beside those of a run; empty in rows that an older version added


def run_checksum(row: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that change with any column of a run, in the form in which SQLite stores it.

    Columns that are empty text or 0 are left out, so that a new column with such a default leaves the checksums of old
    runs as they are. A value of a type that its column cannot have is a TypeError.

    Args:
        row: the columns of a run but for the checksum itself; text as UTF-8.

    Example:
        >>> run_checksum({"dataset": b"NCI1", "replica": 3}), run_checksum({"dataset": b"NCI1", "replica": 2})
        ('cacf5f59e94598ff', 'c5848e2beace3f2b')
    """
    parts = []
    for name in sorted(row):
        content = _content(name, row[name])
        if content:
            parts += [f"{name} {len(content)} ".encode(), content]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def is_intact(row: Mapping[str, Any], names: Iterable[str]) -> bool:
    """Whether a stored row matches its checksum; for a row without a checksum, whether its types are those of a run.

    Args:
        row: the columns of a table, text as bytes.
        names: the columns of a run.
    """
    try:
        return row[CHECKSUM_COLUMN] in (b"", run_checksum({name: row[name] for name in names}).encode())
    except TypeError:
        return False


def _content(name: str, value: Any) -> bytes:
    """The value of a column as bytes; empty for the default."""
    if value is None and name in OPTIONAL_COLUMNS:
        return b"NULL"
    if name in INTEGER_RANGES:
        if type(value) is int:
            return b"%d" % value if value else b""
    elif name in FLOAT_MAXIMA:
        if type(value) is float:
            return repr(value).encode() if value else b""
    elif type(value) is bytes:
        return value
    raise TypeError(f"{name} cannot be {value!r:.60}")
