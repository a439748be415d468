"""Runs as CSV, with every column, and back."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TextIO

from compool.study.store import JSON, Run

_NUMBERS = {"seed": int, "replica": int, "parameters": int, "block": int, "epoch": int} | {
    "test": float,
    "validation": float,
    "seconds": float,
}
_MAY_BE_EMPTY = ("epoch", "test", "validation")
_NESTED = {"settings": dict, "kept": list, "versions": dict, "curves": dict}


def write_csv(runs: Iterable[Run], file: TextIO, curves: bool = True) -> None:
    """Write runs, a line each; what is nested as JSON."""
    names = [field.name for field in fields(Run) if curves or field.name != "curves"]
    writer = csv.DictWriter(file, names, extrasaction="ignore")
    writer.writeheader()
    for run in runs:
        row = vars(run)
        writer.writerow(row | {name: json.dumps(row[name], separators=(",", ":")) for name in JSON})


def read_csv(path: Path) -> list[Run]:
    """The runs of a file that :func:`write_csv` made; ``.gz`` is unpacked. Curves may be missing.

    Example:
        >>> path = getfixture("tmp_path") / "runs.csv"
        >>> with path.open("w") as file:
        ...     write_csv([], file)
        >>> read_csv(path)
        []
    """
    csv.field_size_limit(2**30)
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8", newline="") as file
        ):
            reader = csv.DictReader(file, strict=True)
            needed = {field.name for field in fields(Run) if field.default is MISSING} - {"curves"}
            known = {field.name for field in fields(Run)}
            found = set(reader.fieldnames or ())
            if not needed <= found <= known:
                wrong = ", ".join(sorted((needed - found) | (found - known)))
                raise ValueError(f"{path} is no export of runs: columns missing or unknown: {wrong}")
            return [_run(row, path, reader.line_num) for row in reader]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _run(row: dict[str, Any], path: Path, line: int) -> Run:
    try:
        values = {name: json.loads(text) if name in JSON else text for name, text in row.items()}
        for name, kind in _NUMBERS.items():
            if not values[name] and name not in _MAY_BE_EMPTY:
                raise ValueError(f"{name} is empty")
            values[name] = kind(values[name]) if values[name] else None
        for name, nested in _NESTED.items():
            if name in values and not isinstance(values[name], nested):
                raise ValueError(f"{name} is {row[name]}")
        return Run(**{"curves": {}} | values)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}, line {line}: {error}") from None
