"""The allowed values of each column of a run, and how they are written in CSV files."""

import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

JSON_COLUMNS: dict[str, type] = {
    "settings": dict,
    "kept": list,
    "versions": dict,
    "curves": dict,
    "metrics": dict,
}  # columns of nested values, and what they hold
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # spreadsheets treat text that starts with these as a formula
MAX_REPLICAS = 10**7
_EPOCH_CURVES = ("loss", "validation", "validation_loss", "test", "kept")  # curves with one entry per epoch
INTEGER_RANGES = {
    "seed": (0, 2**63 - 1),
    "replica": (0, MAX_REPLICAS - 1),
    "epoch": (1, 10**9),
    "parameters": (1, 2**63 - 1),
    "block": (1, 2**31 - 1),
    "train_graphs": (0, 2**31 - 1),
    "test_graphs": (0, 2**31 - 1),
}
FLOAT_MAXIMA = {"test": 1e30, "validation": 1e30, "seconds": 1e12}  # from 0 to these; a metric may be an error
OPTIONAL_COLUMNS = ("epoch", "test", "validation")
_NOT_EMPTY = ("dataset", "method", "recipe", "recipe_checksum", "split_checksum")


def escape_cell(text: str) -> str:
    """Escape a text for CSV, so that spreadsheets do not treat it as a formula; :func:`unescape_cell` reverses it.

    Example:
        >>> escape_cell("=1+1"), escape_cell("NCI1"), escape_cell("'s")
        ("'=1+1", 'NCI1', "''s")
    """
    return f"'{text}" if text.startswith((*FORMULA_STARTS, "'")) else text


def unescape_cell(cell: str) -> str:
    """The text of a cell that :func:`escape_cell` made.

    Example:
        >>> unescape_cell("'=1+1"), unescape_cell("NCI1"), unescape_cell("''s")
        ('=1+1', 'NCI1', "'s")
    """
    return cell.removeprefix("'")


def parse_column(name: str, text: str) -> Any:
    """Parse the value of a column. Raises a ValueError that says what is allowed if no run can have this value.

    Example:
        >>> parse_column("test", "0.75"), parse_column("kept", "[0.5]"), parse_column("epoch", "")
        (0.75, [0.5], None)
        >>> parse_column("test", "inf")
        Traceback (most recent call last):
        ValueError: test is inf, but must be a number from 0 to 1e+30
    """
    if name in INTEGER_RANGES or name in FLOAT_MAXIMA:
        return _parse_number(name, text)
    if name in JSON_COLUMNS:
        return _parse_nested(name, text)
    if not text and name in _NOT_EMPTY:
        raise ValueError(f"{name} is empty")
    if name == "status" and text not in ("done", "failed"):
        raise _column_error(name, text, "done or failed")
    if name == "finished":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise _column_error(name, text, "a date and time such as 2026-11-15T12:00:00+00:00") from None
    return text


def _parse_number(name: str, text: str) -> int | float | None:
    if not text:
        if name in OPTIONAL_COLUMNS:
            return None
        raise ValueError(f"{name} is empty")
    kind, (low, high) = (int, INTEGER_RANGES[name]) if name in INTEGER_RANGES else (float, (0, FLOAT_MAXIMA[name]))
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise _column_error(name, text, f"a {'whole ' if kind is int else ''}number from {low} to {high:g}")
    return value


def _parse_nested(name: str, text: str) -> Any:
    allowed, allows = _NESTED[name]
    try:
        value = json.loads(text, parse_constant=_reject_constant)  # NaN and Infinity are not JSON
        text.encode(), json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate cannot be encoded
    except (ValueError, RecursionError):
        raise _column_error(name, text, f"JSON: {allowed}") from None
    if not isinstance(value, JSON_COLUMNS[name]) or not allows(value):
        raise _column_error(name, text, allowed)
    return value


def _are_settings(value: dict[str, Any]) -> bool:
    return all(setting is None or isinstance(setting, str | bool) or _finite(setting) for setting in value.values())


def _are_shares(value: list[Any]) -> bool:
    return all(_finite(share) and 0 <= share <= 1 for share in value)


def _are_metrics(value: dict[str, Any]) -> bool:
    names_are_text = all(isinstance(value.get(name, ""), str) for name in ("task", "chosen"))
    parts = [value.get(part, {}) for part in ("validation", "test", "details")]
    if not names_are_text or not all(isinstance(part, dict) for part in parts):
        return False
    rows = [
        row if isinstance(row, list) else [row] for part in parts for entry in part.values() for row in _rows(entry)
    ]
    return all(number is None or _finite(number) for row in rows for number in row)


def _rows(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else [entry]


def _are_versions(value: dict[str, Any]) -> bool:
    return all(isinstance(version, str) for version in value.values())


def _are_curves(value: dict[str, Any]) -> bool:
    if not all(isinstance(curve, list) for curve in value.values()):
        return False
    for name, curve in value.items():
        entries = curve
        if name == "kept":
            if not all(isinstance(levels, list) for levels in curve):
                return False
            entries = [share for levels in curve for share in levels]
        if not all(entry is None or _finite(entry) for entry in entries):
            return False
    lengths = {len(value[name]) for name in _EPOCH_CURVES if value.get(name)}
    complete = not value.get("validation") or bool(value.get("test") and "kept" in value)
    return len(lengths) <= 1 and complete


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # False for NaN, too


def _reject_constant(constant: str) -> None:
    raise ValueError(constant)


def _column_error(name: str, text: str, allowed: str) -> ValueError:
    excerpt = text if len(text) <= 60 else f"{text[:57]}..."
    return ValueError(f"{name} is {excerpt or 'empty'}, but must be {allowed}")


_NESTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "settings": ("an object of text, numbers, true, false and null", _are_settings),
    "kept": ("a list of numbers from 0 to 1", _are_shares),
    "versions": ("an object of text", _are_versions),
    "curves": ("an object of lists of numbers, one entry per epoch", _are_curves),
    "metrics": ("an object with objects of numbers: validation, test and details", _are_metrics),
}
