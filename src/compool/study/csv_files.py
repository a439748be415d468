"""Write runs with every column as CSV, and read them."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TextIO

from compool.study.columns import JSON_COLUMNS, escape_cell, parse_column, unescape_cell
from compool.study.metrics import METRICS, chosen_metric
from compool.study.runs import COLUMNS, TEXT_COLUMNS, Run

_ESCAPED_SINCE = "data_checksum"  # text is not escaped in files that are too old to have this column


def write_csv(runs: Iterable[Run], file: TextIO, curves: bool = True) -> None:
    """Write runs, one per line; nested values as JSON, text escaped by :func:`escape_cell`."""
    names = [name for name in COLUMNS if curves or name != "curves"]
    writer = csv.DictWriter(file, names, extrasaction="ignore")
    writer.writeheader()
    for run in runs:
        row = vars(run)
        nested = {name: json.dumps(row[name], separators=(",", ":")) for name in JSON_COLUMNS}
        writer.writerow(row | nested | {name: escape_cell(row[name]) for name in TEXT_COLUMNS})


def read_csv(path: Path) -> list[Run]:
    """The runs of a file that :func:`write_csv` made; ``.gz`` is decompressed. Curves may be missing.

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
            needed = {
                field.name for field in fields(Run) if field.default is MISSING and field.default_factory is MISSING
            } - {"curves"}
            known = set(COLUMNS)
            names = set(reader.fieldnames or ())
            if not needed <= names <= known:
                wrong = ", ".join(sorted((needed - names) | (names - known)))
                raise ValueError(f"{path} is not an export of runs; missing or unknown columns: {wrong}")
            is_escaped = _ESCAPED_SINCE in names
            return [_run(row, path, reader.line_num, is_escaped) for row in reader]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _run(row: dict[str | Any, Any], path: Path, line: int, is_escaped: bool) -> Run:
    try:
        if None in row:
            raise ValueError(f"there are {len(row[None])} more cells than columns")
        values: dict[str, Any] = {"curves": {}}
        for name, text in row.items():
            if text is None:
                raise ValueError(f"{name} is missing: the line ends before it")
            values[name] = parse_column(name, unescape_cell(text) if is_escaped and name in TEXT_COLUMNS else text)
        run = Run(**values)
        for name in ("test", "validation") if METRICS[chosen_metric(run.metrics)].higher else ():
            if (values.get(name) or 0.0) > 1:
                raise ValueError(f"{name} is {values[name]:g}, but must be a number from 0 to 1")
        return run
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}") from None
