"""Color-connectivity's baselines in C++: values and gradients of PyG's layers, and training that resumes."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from compool.data import color_connectivity

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks' folder on the path, as when its scripts run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("network", ["GCN", "GIN4", "GIN8", "GAT", "VirtualNode"])
@pytest.mark.parametrize("topology", ["grid-5", "minnesota"])  # 25 and 2,642 nodes, neither a multiple of 8
@pytest.mark.usefixtures("benchmarks")
def test_matches_pyg(network: str, topology: str) -> None:
    import connectivity_networks
    from message_passing_cpu import CompiledStack, check

    torch.manual_seed(0)
    modules = [getattr(connectivity_networks, network)(2, 2) for _ in range(2)]
    with torch.no_grad():
        for module in modules:
            for weight in module.parameters():
                weight += 0.1 * torch.randn_like(weight)  # PyG's biases are 0 at first
    stack = CompiledStack(modules, color_connectivity(topology, 8))  # compares with PyG
    with torch.no_grad():
        stack.values[1, -1] += 0.01
    with pytest.raises(AssertionError, match="not close"):
        check(modules, stack)


@pytest.mark.usefixtures("benchmarks")
def test_the_form_for_a_gpu_computes_the_same() -> None:
    import connectivity_networks
    from message_passing_cpu import CompiledStack
    from message_passing_gpu import Stack

    graphs, ids = color_connectivity("grid-6", 40), torch.arange(10).expand(2, -1)
    for network in (connectivity_networks.GCN, connectivity_networks.GAT, connectivity_networks.VirtualNode):
        torch.manual_seed(0)
        modules = [network(2, 2) for _ in range(2)]
        stacked, compiled = Stack(modules, graphs, "cpu"), CompiledStack(modules, graphs)
        torch.testing.assert_close(stacked.logits(ids), compiled.logits(ids), rtol=1e-4, atol=1e-5)
        stacked.losses(ids).sum().backward()
        compiled.backward(ids)
        gradients = torch.cat([weight.grad.flatten(1) for weight in stacked.weights], 1)
        torch.testing.assert_close(gradients, compiled.values.grad, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("benchmarks")
def test_folds_are_trained_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import connectivity

    out = tmp_path / "gin.json"

    def run(*arguments: str) -> Any:
        small = ["--topology", "grid-4", "--count", "80", "--epochs", "2", "--methods", "GIN4", "--out", str(out)]
        monkeypatch.setattr(sys, "argv", ["connectivity.py", *small, *arguments])
        connectivity.main()
        (row,) = json.loads(out.read_text())
        return row

    first, second = run("--folds", "1", "--sides", "5"), run("--folds", "2", "--sides", "5")
    assert len(second["test"]) == len(second["validation"]) == len(second["sides"]["5"]) == 2
    assert second["test"][0] == first["test"][0]
    assert second["seconds"] > first["seconds"]
    with pytest.raises(SystemExit, match=r"gin.json has GIN4 with other --sides \(5\)"):
        run("--folds", "3", "--sides", "6")
    connectivity.write(first | {"method": "GCN"}, out)  # another process, which has not seen the second fold
    assert [(row["method"], len(row["test"])) for row in connectivity.read(out)] == [("GIN4", 2), ("GCN", 1)]


@pytest.mark.usefixtures("benchmarks")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--folds", "11"], "--folds must be from 1 to 10, got 11"),
        (["--epochs", "0"], "--epochs must be from 1 to 1000000, got 0"),
        (["--count", "30"], "--count must be from 64 to 1000000, got 30"),
        (["--device", "cuda", "--count", "105"], "on a GPU, --count must be a multiple of 10, got 105"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import connectivity

    monkeypatch.setattr(sys, "argv", ["connectivity.py", *arguments])
    with pytest.raises(SystemExit, match="2"):
        connectivity.main()
    assert capsys.readouterr().err.splitlines()[-1].endswith(message)


@pytest.mark.usefixtures("benchmarks")
def test_the_library_does_not_change_arithmetic() -> None:
    """Subnormal numbers are not flushed to zero."""
    import message_passing_cpu

    message_passing_cpu.compiled()
    assert (torch.tensor([1e-40]) * 1).item() > 0
