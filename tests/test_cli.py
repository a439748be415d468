import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from compool.cli import app
from tests.data.test_tu import write

run = CliRunner()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COMPOOL_DATA", raising=False)


def test_datasets(tmp_path: Path) -> None:
    write(tmp_path / "data")
    write(tmp_path / "data", "NCI1")
    write(tmp_path / "data", "BROKEN", A="1, 2\n")
    result = run.invoke(app, ["datasets", "--data", str(tmp_path / "data"), "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert rows["TINY"]["found"]["graphs"] == 3
    assert rows["TINY"]["paper"] is None
    assert rows["NCI1"]["found"]["graphs"] != rows["NCI1"]["paper"]["graphs"] == 4110
    assert "one direction only" in rows["BROKEN"]["error"]
    assert rows["COLLAB"]["found"] is None
    table = run.invoke(app, ["datasets", "--data", str(tmp_path / "data")])
    assert "3 (4,110)" in table.stdout
    assert "not here" in table.stdout


def test_a_folder_that_is_not_there() -> None:
    result = run.invoke(app, ["datasets", "--data", "/no/such/folder"])
    assert result.exit_code == 2
    assert result.stderr.strip() == "compool: --data /no/such/folder is no folder"


def test_recipes() -> None:
    result = run.invoke(app, ["recipes", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert len(rows) == 54  # three methods, eight sets and the communities, two recipes
    assert {row["parameters"] for row in rows if row["dataset"] == "PROTEINS"} == {802, 156_291, 2_742}
    table = run.invoke(app, ["recipes", "--method", "gin", "--recipe", "paper"], env={"COLUMNS": "200"})
    assert "65,638" in table.stdout
    assert "component" not in table.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "magic"], "compool: --method must be one of component, edgepool, gin; got 'magic'"),
        (["--recipe", "slow"], "compool: there is no recipe 'slow'; there are fast, paper"),
    ],
)
def test_recipes_that_are_not_there(arguments: list[str], message: str) -> None:
    result = run.invoke(app, ["recipes", *arguments])
    assert result.exit_code == 2
    assert result.stderr.strip() == message


def test_help_imports_nothing_heavy() -> None:
    command = "import sys; from compool.cli import app; assert 'torch' not in sys.modules"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", command], check=True, env=os.environ)
    assert time.perf_counter() - start < 3  # under half a second on an idle machine
