import csv
import gzip
import re
from dataclasses import replace
from pathlib import Path

import pytest

from compool.study import Store
from compool.study.export import read_csv, write_csv
from tests.study.test_store import example as run


def test_there_and_back(tmp_path: Path) -> None:
    runs = [run(0), replace(run(1), status="failed", test=None, epoch=None, validation=None, reason='"NaN", they said')]
    for name in ("runs.csv", "runs.csv.gz"):
        path = tmp_path / name
        with gzip.open(path, "wt", newline="") if name.endswith("gz") else path.open("w", newline="") as file:
            write_csv(runs, file)
        assert read_csv(path) == runs
    Store(tmp_path / "study.sqlite").add(read_csv(path))
    assert list(Store(tmp_path / "study.sqlite").runs()) == runs


def test_without_curves(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        write_csv([run(0)], file, curves=False)
    assert read_csv(path) == [replace(run(0), curves={})]


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        write_csv([run(0), run(1)], file)
    text = path.read_text()
    path.write_text(text.replace("replica", "copy", 1))
    with pytest.raises(ValueError, match="columns missing or unknown: copy, replica"):
        read_csv(path)
    path.write_text(text[:-80])  # cut off
    with pytest.raises(ValueError, match=r"runs.csv, line 3|cannot be read"):
        read_csv(path)
    packed = tmp_path / "runs.csv.gz"
    packed.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(ValueError, match=r"runs.csv.gz cannot be read"):
        read_csv(packed)
    flipped = bytearray(gzip.compress(text.encode()))
    flipped[40] ^= 255
    packed.write_bytes(flipped)
    with pytest.raises(ValueError, match=r"runs.csv.gz cannot be read"):
        read_csv(packed)
    with pytest.raises(ValueError, match="cannot be read"):
        read_csv(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("column", "value"), [("kept", "5"), ("settings", "[]"), ("curves", "[1]"), ("parameters", "")]
)
def test_columns_of_another_kind(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        write_csv([run(0)], file)
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row | {column: value})
    with pytest.raises(ValueError, match=f"runs.csv, line 2: {column} is {re.escape(value) or 'empty'}"):
        read_csv(path)
