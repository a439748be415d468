import csv
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compool.cli import app
from compool.report.collection import collect
from compool.report.formats import as_csv
from compool.report.tables import accuracy
from compool.study import Store
from compool.study.columns import JSON_COLUMNS
from compool.study.csv_files import read_csv, write_csv
from compool.study.runs import COLUMNS
from tests.study.test_store import example as run


def test_there_and_back(tmp_path: Path) -> None:
    runs = [run(0), replace(run(1), status="failed", test=None, epoch=None, validation=None, reason='"NaN", they said')]
    runs[1].curves["kept"][1] = [None]  # it failed in the second epoch
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
    with pytest.raises(ValueError, match="missing or unknown columns: copy, replica"):
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


def changed(path: Path, column: str, value: str) -> None:
    """Two exported runs, the second of which has another value in a column."""
    with path.open("w", newline="") as file:
        write_csv([run(0), run(1)], file)
    with path.open(newline="") as file:
        first, second = csv.DictReader(file)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, first)
        writer.writeheader()
        writer.writerows([first, second | {column: value}])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("kept", value) for value in ("5", "[null]", "[1.5]", "[NaN]", '["0.5"]', "[true]", "[")),
        *(("settings", value) for value in ("[]", '{"lr":[1]}', '{"lr":Infinity}', '{"lr":"\\ud800"}')),
        *(("curves", value) for value in ("[1]", '{"loss":5}', '{"loss":["x"]}', '{"kept":[0.5]}', '{"loss":[1e999]}')),
        *(("curves", value) for value in ('{"loss":[1,2],"test":[1]}', '{"validation":[1]}', "[" * 10**4)),
        *(("versions", value) for value in ('{"compool":5}', "null", "")),
        *(("parameters", value) for value in ("", "0", "2.5", str(2**63))),
        *(("replica", value) for value in ("-1", "50000000", "x")),
        *(("seed", value) for value in ("-1", str(2**64))),
        *((name, value) for name in ("test", "validation") for value in ("inf", "nan", "-0.1", "1.01", "much")),
        *(("seconds", value) for value in ("", "nan", "-1")),
        *(("epoch", "0"), ("block", "0"), ("status", "lost"), ("finished", "yesterday"), ("dataset", "")),
        *((name, "-1") for name in ("train_graphs", "test_graphs")),
        *(
            ("metrics", value)
            for value in ("[]", '{"chosen":5}', '{"test":5}', '{"test":{"f1":"x"}}', '{"details":[]}')
        ),
    ],
)
def test_columns_of_another_kind(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "runs.csv"
    changed(path, column, value)
    shown = re.escape(value[:57]) or "empty"
    with pytest.raises(ValueError, match=f"runs.csv, line 3: {column} is {shown}") as error:
        read_csv(path)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250 + len(str(path))
    result = CliRunner().invoke(app, ["add", str(path), "--store", str(tmp_path / "study.sqlite")])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not (tmp_path / "study.sqlite").exists()  # not even the first


def test_lines_with_cells_too_many_or_too_few(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="") as file:
        write_csv([run(0)], file)
    text = path.read_text().rstrip("\r\n")
    path.write_text(f"{text},more,cells\n")
    with pytest.raises(ValueError, match=r"runs.csv, line 2: there are 2 more cells than columns"):
        read_csv(path)
    path.write_text(text.rsplit(",", 4)[0])
    with pytest.raises(ValueError, match=r"runs.csv, line 2: train_graphs is missing: the line ends before it"):
        read_csv(path)


def test_no_text_is_a_formula(tmp_path: Path) -> None:
    """And all of it comes back as it was; of files from before text was guarded, too."""
    path, texts = tmp_path / "runs.csv", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "'", "''=1", "plain", "it's"]
    runs = [run(at, dataset=text, method=text, recipe=text, reason=text, node=text) for at, text in enumerate(texts)]
    with path.open("w", newline="") as file:
        write_csv(runs, file)
    assert read_csv(path) == runs
    with path.open(newline="") as file:
        assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for row in csv.reader(file) for cell in row)
    old = [field for field in COLUMNS if "data" not in field or field == "dataset"]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(old)
        values = vars(run(0, dataset="'quoted'"))
        writer.writerow([json.dumps(values[name]) if name in JSON_COLUMNS else values[name] for name in old])
    assert read_csv(path) == [run(0, dataset="'quoted'")]


def test_no_text_of_a_table_is_a_formula() -> None:
    table = accuracy(collect([run(0, dataset="=1+1", recipe="@x")]))
    assert as_csv(table).splitlines()[1].startswith("'=1+1,'@x,component,")
