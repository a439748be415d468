"""Train blocks as tasks on a Ray cluster, with a single store. Ray is imported when it is used."""

import logging
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from compool.data import GraphSet
from compool.replicas.trainer import Curves
from compool.study import recipe_data, training
from compool.study.block import Block
from compool.study.own_network import OwnNetworkError
from compool.study.resources import Resources, require_workers
from compool.study.schedule import WorkerLost, schedule
from compool.study.store import Run, Store
from compool.study.training import OnEpoch
from compool.study.workers import from_rows, last_rows

_log = logging.getLogger(__name__)
MESSAGE_INTERVAL = 0.5  # seconds between reads of the queue, and the minimum between messages of a task
MAX_MESSAGE_RATE = 200.0  # messages per second from all tasks together
SURVEY_INTERVAL = 10.0  # seconds between queries of the cluster's size
# Ray reads these when it is imported: no log messages from nodes, no usage statistics, no deprecation warning
RAY_SETTINGS = {
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


@contextmanager
def connected_cluster(address: str, workers: int | None = None) -> Iterator[None]:
    """Connect to a Ray cluster, and disconnect at the end of the context.

    Args:
        address: the address of its head, as for ``ray.init``, or ``"local"``: a temporary cluster on this machine.
        workers: how many CPUs a local cluster offers; by default, all.
    """
    require_workers(workers)
    os.environ |= RAY_SETTINGS
    try:
        import ray
    except ImportError:
        raise RuntimeError("--ray needs Ray: pip install -c constraints.txt '.[ray]'") from None
    local_options: dict[str, Any] = {"num_cpus": workers, "include_dashboard": False} if address == "local" else {}
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        if host and port.isdigit():  # Ray would retry for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **local_options)
    except (RuntimeError, ValueError, OSError, OverflowError) as error:
        raise RuntimeError(f"--ray {address}: cannot reach a Ray cluster there ({_last_line(error)})") from None
    try:
        yield
    finally:
        ray.shutdown()


def cluster_resources(device: str = "auto", workers: int | None = None) -> Resources:
    """The resources of the cluster, for :func:`compool.study.plan`."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [(node["NodeID"], node["Resources"]) for node in ray.nodes() if node["Alive"]]
    cpus, gpus = (int(sum(has.get(kind, 0) for _, has in nodes)) for kind in ("CPU", "GPU"))
    if device == "auto":
        device = "cuda" if gpus else "cpu"
    if device not in ("cpu", "cuda") or (device == "cuda" and not gpus):
        raise ValueError(f"device must be cpu, cuda or auto, and available in the cluster; got {device}")
    if not cpus:
        raise ValueError("the Ray cluster has no CPU for tasks")
    if device == "cpu":
        memory = min(int(has["memory"] / has["CPU"]) for _, has in nodes if "CPU" in has)
        return Resources(device, workers or cpus, memory, checkpoints=False)
    ask = ray.remote(num_cpus=0, num_gpus=0.01)(_gpu_memory)
    strategies = [NodeAffinitySchedulingStrategy(node, soft=False) for node, has in nodes if "GPU" in has]
    memory = min(ray.get([ask.options(scheduling_strategy=strategy).remote() for strategy in strategies]))
    return Resources(device, workers or gpus, int(memory * gpu_share(workers, gpus)), checkpoints=False)


def gpu_share(workers: int | None, gpus: int) -> float:
    """The share of a GPU per worker: 1, unless there are more workers than GPUs.

    Example:
        >>> gpu_share(None, 8), gpu_share(8, 8), gpu_share(9, 8), gpu_share(32, 8)
        (1.0, 1.0, 0.5, 0.25)
    """
    return 1 / -(-(workers or 1) // gpus)


def execute(
    blocks: Sequence[Block], store: Path, workers: int | None = None, on_epoch: OnEpoch | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks as tasks of the cluster, and store each when it is finished, in this process.

    A task takes one CPU; for a GPU block also one GPU, or a share of it if there are more workers than GPUs. A data set
    is sent to each node once. If the caller stops early, tasks are cancelled: stored blocks are kept, others are lost.

    Args:
        blocks: what to train.
        store: the study's file.
        workers: number of blocks to train at the same time; by default one per GPU, or one per CPU.
        on_epoch: called after epochs, at most twice a second per block.
    """
    import ray
    from ray.util.queue import Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    needs: dict[str, float] = {"CPU": 1}
    if blocks[0].device == "cuda":
        needs["GPU"] = gpu_share(workers, int(ray.cluster_resources()["GPU"]))
    # Ray gives each GPU task its own process, since a process that has used a GPU cannot switch to another
    work = ray.remote(max_retries=0, num_cpus=1, num_gpus=needs.get("GPU", 0))(_train_task)
    driver = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": driver})
    sets: dict[tuple[str, Path | None], Any] = {}
    tasks: dict[Future[list[Run]], tuple[int, Any]] = {}

    def submit(block: Block, avoid: Sequence[str]) -> "Future[list[Run]]":
        if block.source not in sets:
            sets[block.source] = ray.put(recipe_data.load_data(block.recipe, block.folder))
        task, key = work, mailbox.expect(block)
        if any(avoid) and (others := _others(ray.nodes(), avoid, needs)):  # soft: if it is lost, too, any will do
            task = work.options(scheduling_strategy=NodeAffinitySchedulingStrategy(others[0], soft=True))
        interval = max(MESSAGE_INTERVAL, capacity() / MAX_MESSAGE_RATE)
        reference = task.remote(block, sets[block.source], key, queue, interval)
        future: Future[list[Run]] = reference.future()
        tasks[future] = (key, reference)
        return future

    def result(future: "Future[list[Run]]") -> list[Run]:
        key, _ = tasks.pop(future)
        try:
            return future.result()
        except ray.exceptions.RayTaskError as error:  # raised by the training itself
            if isinstance(error.cause, MemoryError | torch.OutOfMemoryError | OwnNetworkError):
                raise error.cause from None
            node = mailbox.node(key) or "a node"
            raise RuntimeError(f"{mailbox.blocks[key].name} on {node}: {_last_line(error.cause)}") from error
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.OutOfMemoryError) and len(mailbox.blocks[key].replicas) > 1:
                raise MemoryError from None  # Ray killed the task before the machine ran out of memory
            node = mailbox.node(key)
            raise WorkerLost(f"{type(error).__name__} on node {node or 'unknown'}", node) from None

    capacity = _cluster_capacity(workers, needs)
    with _Mailbox(queue, on_epoch) as mailbox:
        try:
            yield from schedule(blocks, Store(store), submit, capacity, result)
        finally:
            for _, reference in tasks.values():
                ray.cancel(reference, force=True)


class _Mailbox:
    """The queue in which tasks report their node and progress; a thread reads it."""

    def __init__(self, queue: Any, on_epoch: OnEpoch | None) -> None:
        self.queue, self.on_epoch = queue, on_epoch
        self.blocks: list[Block] = []
        self.nodes: dict[int, str] = {}
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)

    def expect(self, block: Block) -> int:
        """Register a task, and return the key for its messages."""
        self.blocks.append(block)
        return len(self.blocks) - 1

    def node(self, key: int) -> str:
        """The node that a task runs on; empty if it has not started."""
        self._read()
        return self.nodes.get(key, "")

    def __enter__(self) -> "_Mailbox":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self._read()
        self.queue.shutdown(force=True)

    def _listen(self) -> None:
        while not self.over.wait(MESSAGE_INTERVAL):
            self._read()

    def _read(self) -> None:
        import ray

        with self.lock, suppress(ray.exceptions.RayError):
            for key, node, epoch, rows in self.queue.get_nowait_batch(self.queue.size()):
                self.nodes[key] = node
                try:
                    if epoch and self.on_epoch is not None:
                        self.on_epoch(self.blocks[key], epoch, from_rows(rows))
                except Exception:  # tasks continue, and their messages must be read
                    _log.exception("reporting an epoch failed")


def _train_task(block: Block, graphs: GraphSet, key: int, queue: Any, interval: float) -> list[Run]:
    """Train a block as a Ray task, and report progress every `interval` seconds."""
    import ray

    context = ray.get_runtime_context()
    node, gpus = context.get_node_id(), context.get_accelerator_ids().get("GPU", [])
    queue.put((key, node, 0, []))  # waits until it has arrived, so that the node is known if the worker is lost
    torch.set_num_threads(1)
    sent = time.monotonic()

    def on_epoch(block: Block, epoch: int, curves: Curves) -> None:
        nonlocal sent
        message = (key, node, epoch, last_rows(curves))
        if epoch == block.recipe.epochs:
            queue.put(message)  # messages arrive in order: all of them before the result
        elif time.monotonic() - sent > interval:
            sent = time.monotonic()
            queue.actor.put_nowait.remote(message)  # does not wait

    name = " ".join([platform.node(), node[:12], *(f"GPU {gpu}" for gpu in gpus)])
    return [replace(run, node=name) for run in training.train_block(block, on_epoch, graphs)]


def _others(nodes: Sequence[dict[str, Any]], avoid: Sequence[str], needs: dict[str, float]) -> list[str]:
    """The nodes that have the resources and are not in `avoid`."""
    able = [
        node for node in nodes if node["Alive"] and all(node["Resources"].get(kind, 0) >= needs[kind] for kind in needs)
    ]
    return [node["NodeID"] for node in able if node["NodeID"] not in avoid]


def _cluster_capacity(workers: int | None, needs: dict[str, float]) -> Callable[[], int]:
    """How many blocks may be trained at the same time: `workers`, or what the cluster can train now if that is less.

    Never more: for a waiting task, Ray starts a worker, stops it a second later because it has nothing to do, and
    starts the next one. Each loads its libraries, which makes training take twice as long.
    """
    import ray

    num_blocks, surveyed = 0, -SURVEY_INTERVAL

    def capacity() -> int:
        nonlocal num_blocks, surveyed
        if time.monotonic() - surveyed >= SURVEY_INTERVAL:
            surveyed, resources = time.monotonic(), ray.cluster_resources()
            slots = int(min(resources.get(kind, 0) / amount for kind, amount in needs.items()))
            num_blocks = max(1, slots if workers is None else min(workers, slots))
        return num_blocks

    return capacity


def _gpu_memory() -> int:
    return torch.cuda.mem_get_info()[0]


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1].strip()}" if lines else type(error).__name__
