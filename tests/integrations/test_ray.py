"""A real Ray cluster of two nodes on this machine, beside a head that trains nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from compool import study
from compool.cli import app
from compool.data import communities
from compool.integrations import ray as cluster
from compool.integrations.ray import _others
from compool.study.own_network import OwnNetworkError
from tests.study.test_own_network import NET

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install -c constraints.txt '.[ray]'")


class Nodes:
    """A cluster."""

    def __init__(self) -> None:
        os.environ |= cluster.RAY_SETTINGS
        from ray.cluster_utils import Cluster

        quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
        head = {"num_cpus": 0, "include_dashboard": False, "_system_config": quick}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.nodes = [self.cluster.add_node(num_cpus=1) for _ in range(2)]
        self.address: str = self.cluster.address

    def kill(self, at: int) -> str:
        """Kill a node's processes; its name."""
        node = self.nodes.pop(at)
        self.cluster.remove_node(node, allow_graceful=False)
        return str(node.node_id)

    def training(self) -> list[int]:
        """Which nodes train something now."""
        found = []
        for at, node in enumerate(self.nodes):
            (raylet,) = node.all_processes["raylet"]
            if any(works(process) for process in psutil.Process(raylet.process.pid).children()):
                found.append(at)
        return found

    def add(self) -> None:
        """Have two again."""
        while len(self.nodes) < 2:
            self.nodes.append(self.cluster.add_node(num_cpus=1))


def works(process: psutil.Process) -> bool:
    """Whether a process is one of Ray's that trains a block."""
    try:
        return "ray::_train_task" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    found = Nodes()
    yield found
    found.cluster.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred generated graphs, as a file."""
    path = tmp_path_factory.mktemp("data")
    communities(99).save(path / "SMALL.npz")
    return path


def recipe(method: str = "component", **changes: Any) -> study.Recipe:
    return study.recipe(method, "SMALL", **{"epochs": 2, "hidden": 4} | changes)


def numbers(path: Path) -> list[study.Run]:
    """What was stored, without where and when."""
    return [replace(run, node="", seconds=0.0, finished="") for run in study.Store(path).runs()]


@needs_ray
def test_the_same_numbers_everywhere(nodes: Nodes, folder: Path, tmp_path: Path) -> None:
    recipes = [recipe(method) for method in study.METHODS]
    here, processes, ray = (tmp_path / name for name in ("here", "processes", "ray"))
    blocks = study.plan(recipes, 3, 5, here, folder, study.local_resources("cpu"), 2)
    list(study.execute(blocks, here, workers=1))
    list(study.execute(blocks, processes, workers=2))
    seen: dict[tuple[str, tuple[int, ...]], int] = {}

    def report(block: study.Block, epoch: int, curves: Any) -> None:
        assert len(curves.loss[-1]) == len(block.replicas)
        seen[block.recipe.method, block.replicas] = epoch

    with cluster.connected_cluster(nodes.address):
        assert cluster.cluster_resources("auto", None)[:2] == ("cpu", 2)
        with pytest.raises(ValueError, match="and available in the cluster; got cuda"):
            cluster.cluster_resources("cuda", None)
        assert study.plan(recipes, 3, 5, here, folder, cluster.cluster_resources("cpu"), 2) == []
        list(cluster.execute(blocks, ray, on_epoch=report))
    assert len(numbers(here)) == 9
    assert numbers(here) == numbers(processes) == numbers(ray)
    assert len({run.weights_checksum for run in numbers(ray)}) == 9
    assert seen == {(block.recipe.method, block.replicas): 2 for block in blocks}
    assert {run.node.split()[-1] for run in study.Store(ray).runs()} <= {node.node_id[:12] for node in nodes.nodes}


@needs_ray
def test_a_node_is_killed(nodes: Nodes, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocks = [study.Block(recipe(epochs=200), 0, (replica,), folder) for replica in range(2)]
    killed: list[str] = []

    def kill(block: study.Block, epoch: int, curves: Any) -> None:  # while the block trains
        if not killed:
            killed.append(nodes.kill(nodes.training()[0]))

    with cluster.connected_cluster(nodes.address):
        list(cluster.execute(blocks, tmp_path / "ray", on_epoch=kill))
    nodes.add()
    runs = list(study.Store(tmp_path / "ray").runs())
    assert [(run.replica, run.status) for run in runs] == [(0, "done"), (1, "done")]
    assert f"a worker was lost (NodeDiedError on node {killed[0]})" in caplog.text
    assert not any(run.node.endswith(killed[0][:12]) for run in runs)


@needs_ray
def test_a_block_whose_worker_is_lost_each_time(
    nodes: Nodes, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A training that would take hours, and whose process is killed when it reports."""
    endless = study.Block(recipe(epochs=10**6), 0, (0, 1), folder)

    def kill(*_: Any) -> None:
        for process in psutil.Process().children(recursive=True):  # of this test's nodes, not of other clusters here
            if works(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    with cluster.connected_cluster(nodes.address):
        (runs,) = cluster.execute([endless], tmp_path / "ray", on_epoch=kill)
    assert list(study.Store(tmp_path / "ray").runs()) == runs
    assert [(run.replica, run.status) for run in runs] == [(0, "failed"), (1, "failed")]
    assert runs[0].reason.startswith("its worker was lost 4 times; the last time: WorkerCrashedError on node ")
    lost = [message.split("node ")[1].split(")")[0] for message in caplog.messages]
    assert lost[0] != lost[1]  # elsewhere
    assert {*lost} == {node.node_id for node in nodes.nodes}


@contextmanager
def driver(nodes: Nodes, folder: Path, store: Path) -> Iterator["subprocess.Popen[str]"]:
    settings = folder / "long.toml"
    settings.write_text("hidden = 4\nepochs = 20\n")
    command = [sys.executable, "-c", "from compool.cli import app; app()", "run", "SMALL", "--method", "component"]
    command += ["--recipe", str(settings), "--data", str(folder), "--store", str(store), "--replicas", "10", "--block"]
    command += ["1", "--ray", nodes.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def until_stored(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    return next(line for line in process.stderr if " stored, " in line)


@needs_ray
def test_the_driver_is_stopped_and_killed_and_started_again(nodes: Nodes, folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "ray"
    with driver(nodes, folder, store) as process:
        until_stored(process)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("compool: stopped; finished blocks are in ")
    assert "Traceback" not in errors
    assert nothing_trains(nodes)
    with driver(nodes, folder, store) as process:
        until_stored(process)  # and killed
    first = {run.replica: run for run in study.Store(store).runs()}
    assert 2 <= len(first) < 10
    with driver(nodes, folder, store) as process:
        out, errors = process.communicate(timeout=300)
    assert process.returncode == 0
    assert f"{10 - len(first)} runs to train in {10 - len(first)} blocks, {len(first)} already in" in out
    runs = {run.replica: run for run in study.Store(store).runs()}
    assert sorted(runs) == list(range(10))
    assert first.items() <= runs.items()
    assert all("SMALL" in line for line in errors.splitlines())  # Ray says nothing


def nothing_trains(nodes: Nodes) -> bool:
    import ray

    end = time.monotonic() + 60
    with cluster.connected_cluster(nodes.address):
        while ray.available_resources().get("CPU") != 2 and time.monotonic() < end:
            time.sleep(0.2)
        return bool(ray.available_resources().get("CPU") == 2)


@needs_ray
def test_an_error_in_a_task_is_one_line(nodes: Nodes, folder: Path, tmp_path: Path) -> None:
    """Device cuda is nowhere: torch says so on the worker."""
    wrong = study.Block(recipe(), 0, (0,), folder, device="cpu:1:2")
    with (
        cluster.connected_cluster(nodes.address),
        pytest.raises(RuntimeError, match=r"SMALL component on [0-9a-f]+: Runtime"),
    ):
        list(cluster.execute([wrong], tmp_path / "ray"))


@needs_ray
def test_a_network_of_ones_own(nodes: Nodes, folder: Path, tmp_path: Path) -> None:
    """Its text travels with the blocks; the nodes need no file. Errors in it come back with their traceback."""
    file = tmp_path / "mine.py"
    file.write_text(NET)
    blocks = study.plan([recipe(f"{file}:Net")], 2, 5, tmp_path / "here", folder, study.local_resources("cpu"))
    list(study.execute(blocks, tmp_path / "here", workers=1))
    file.write_text(NET.replace("x = self.conv", "assert not self.training\n        x = self.conv"))
    broken = study.plan([recipe(f"{file}:Net")], 1, 5, tmp_path / "here", folder, study.local_resources("cpu"))
    file.unlink()
    with cluster.connected_cluster(nodes.address):
        list(cluster.execute(blocks, tmp_path / "ray"))
        with pytest.raises(OwnNetworkError, match=r"mine\.py:Net: AssertionError") as caught:
            list(cluster.execute(broken, tmp_path / "ray"))
    assert "assert not self.training" in caught.value.trace
    assert len(numbers(tmp_path / "here")) == 2
    assert numbers(tmp_path / "here") == numbers(tmp_path / "ray")


@needs_ray
def test_no_cluster_there() -> None:
    result = CliRunner().invoke(app, ["run", "--ray", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert result.stderr.strip() == (
        "compool: --ray 127.0.0.1:1: cannot reach a Ray cluster there "
        "(ConnectionRefusedError: [Errno 111] Connection refused)"
    )


@pytest.mark.parametrize("workers", ["0", "-1"])
def test_workers_are_checked_before_ray_is_started(workers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(app, ["run", "--ray", "local", "--workers", workers])
    assert result.exit_code == 2
    assert result.stderr == f"compool: workers must be at least 1, got {workers}\n"


def test_kill_stops_the_command_although_ray_has_a_handler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The handler after connecting; `test_run_is_stopped` tests what it does."""

    @contextmanager
    def connected_cluster(address: str, workers: int | None = None) -> Iterator[None]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray replaces the handler
        yield

    monkeypatch.setattr(cluster, "connected_cluster", connected_cluster)
    monkeypatch.setattr(cluster, "cluster_resources", study.local_resources)
    before = signal.getsignal(signal.SIGTERM)
    try:
        command = ["run", "--method", "gin", "--ray", "local", "--dry-run", "--store", str(tmp_path / "study.sqlite")]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.stderr
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(app, ["run", "--ray", "local"])
    assert result.exit_code == 2
    assert result.stderr.strip() == "compool: --ray needs Ray: pip install -c constraints.txt '.[ray]'"


@needs_ray
def test_a_report_that_fails_does_not_end_the_listener(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in its thread, nor for the messages that come with it, nor for those that come later."""

    class Messages:
        def __init__(self) -> None:
            self.waiting: list[Any] = []

        def size(self) -> int:
            return len(self.waiting)

        def get_nowait_batch(self, number: int) -> list[Any]:
            taken, self.waiting = self.waiting[:number], self.waiting[number:]
            return taken

        def shutdown(self, force: bool) -> None:
            """There is no actor to end."""

    monkeypatch.setattr(cluster, "MESSAGE_INTERVAL", 0.01)
    queue, seen = Messages(), []
    rows: list[list[Any]] = [[], [], [], [], []]

    def report(block: study.Block, epoch: int, curves: Any) -> None:
        seen.append((block.replicas, epoch))
        if epoch == 1:
            raise OSError("no terminal")

    with cluster._Mailbox(queue, report) as mailbox:
        first, second = (mailbox.expect(study.Block(recipe(), 0, (replica,))) for replica in range(2))
        queue.waiting = [(first, "a", 1, rows), (second, "b", 1, rows)]
        wait_for(lambda: len(seen) == 2)
        queue.waiting = [(first, "a", 2, rows)]
        wait_for(lambda: len(seen) == 3)
        assert mailbox.thread.is_alive()
        queue.waiting = [(second, "c", 1, rows)]
        assert mailbox.node(second) == "c"  # and not in the thread that asks
    assert seen == [((0,), 1), ((1,), 1), ((0,), 2), ((1,), 1)]
    assert caplog.messages == ["reporting an epoch failed"] * 3


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_other_nodes() -> None:
    def node(name: str, alive: bool = True, **resources: float) -> dict[str, Any]:
        return {"NodeID": name, "Alive": alive, "Resources": resources}

    nodes = [node("a", CPU=4), node("b", CPU=4, GPU=1), node("c", False, CPU=4), node("d"), node("e", CPU=1)]
    assert _others(nodes, ["a"], {"CPU": 1}) == ["b", "e"]
    assert _others(nodes, ["a", "b"], {"CPU": 1, "GPU": 0.5}) == []
