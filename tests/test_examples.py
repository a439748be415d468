"""The examples run, and say what is missing."""

import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_expressiveness(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "out.json"
    small = ("--sets", "wl_pairs", "--pairs", "20", "--seeds", "1", "--epochs", "1")
    run("expressiveness.py", *small, "--poolings", "TopKPooling", "--json", str(out), monkeypatch=monkeypatch)
    assert "TopKPooling" in capsys.readouterr().out
    assert '"wl_pairs"' in out.read_text()


def test_thresholds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run("thresholds.py", "--out", str(tmp_path), monkeypatch=monkeypatch)
    assert "threshold 0.4: 19 of 34 nodes are left" in capsys.readouterr().out
    assert (tmp_path / "thresholds.png").stat().st_size > 10_000


def test_color_connectivity(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small = ("--graphs", "600", "--epochs", "8", "--no-gin")
    run("color_connectivity.py", *small, "--out", str(tmp_path / "islands.png"), monkeypatch=monkeypatch)
    assert "component pooling: 100.0% on 16 × 16" in capsys.readouterr().out
    assert (tmp_path / "islands.png").stat().st_size > 10_000


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb, which is not a dependency")
def test_weights_and_biases(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the real package, offline."""
    small = ("--project", "pooling", "--offline", "--replicas", "1", "--epochs", "2")
    run("weights_and_biases.py", *small, "--store", str(tmp_path / "study.sqlite"), monkeypatch=monkeypatch)
    assert "1 runs stored" in capsys.readouterr().out
    assert len(list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))) == 1


@pytest.mark.skipif(find_spec("wandb") is not None, reason="wandb is installed")
def test_weights_and_biases_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run("weights_and_biases.py", "--project", "pooling", monkeypatch=monkeypatch)
    assert capsys.readouterr().err.endswith("error: this example needs the package wandb: pip install wandb\n")


def test_plain_pyg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("plain_pyg.py", "--graphs", "600", monkeypatch=monkeypatch)
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "GraphSet('communities', 600 graphs, 4 features (labels), 3 classes)"
    last = float(out[-1].removeprefix("epoch 30: test accuracy ").removesuffix("%"))
    assert last >= 90  # a third by chance


def test_lightning() -> None:
    """In a process of its own: what Lightning warns about is not ours."""
    installed = find_spec("lightning") is not None
    arguments = [str(EXAMPLES / "lightning_training.py"), "--graphs", "90", "--epochs", "2"]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=300)
    if not installed:
        assert done.stderr == "this example needs Lightning: pip install lightning\n"
        pytest.skip("needs Lightning")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("test accuracy ")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("node_classification.py", ["--data", "nowhere"], "has no Cora: expected ind.cora.x and its companions there"),
        ("node_classification.py", [], "name the folder that has Planetoid/ind.cora.x"),
        ("expressiveness.py", [], "name the folder that has EXP.zip and CEXP.zip"),
        ("expressiveness.py", ["--data", "nowhere"], "nowhere does not exist; it should have EXP.zip"),
        ("readouts.py", ["--data", "nowhere"], "nowhere does not exist; it should have MUTAG.zip"),
        ("plain_pyg.py", ["--data", "nowhere", "--set", "MUTAG"], "nowhere does not exist; it should have MUTAG.zip"),
        ("thresholds.py", ["--data", "nowhere", "--set", "MUTAG"], "nowhere does not exist; it should have MUTAG.zip"),
    ],
)
def test_missing_data_is_one_line(
    name: str,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("COMPOOL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run(name, *arguments, monkeypatch=monkeypatch)
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]
    assert "Traceback" not in error
