"""Train blocks on several processes of this machine, with a single store."""

import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import fields
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from compool.data import GraphSet
from compool.replicas.trainer import Curves
from compool.study import checkpoint, recipe_data, training
from compool.study.block import Block
from compool.study.resources import local_resources
from compool.study.schedule import schedule
from compool.study.store import Run, Store
from compool.study.training import OnEpoch

_log = logging.getLogger(__name__)
_queue: "Queue[Any] | None" = None  # in a worker: where it sends epochs
_loaded: tuple[tuple[str, Path | None], GraphSet] | None = None  # in a worker: the data set of its last block


def execute(
    blocks: Sequence[Block], store: Path, workers: int | None = None, on_epoch: OnEpoch | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks in this process or on several, and store each when it is finished.

    Checkpoints whose runs are all stored are removed first.
    """
    opened = Store(store)
    checkpoint.remove_stored(checkpoint.folder_of(store), opened)
    if not blocks:
        return training.train_here((), opened)
    processes = min(workers or local_resources(blocks[0].device).workers, len(blocks))
    if processes == 1:
        return training.train_here(blocks, opened, on_epoch)
    return train_on_workers(blocks, opened, processes, on_epoch)


def train_on_workers(
    blocks: Sequence[Block], store: Store, workers: int, on_epoch: OnEpoch | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks on `workers` processes, and store each block in this process when it is finished.

    A block that is too large for the memory of a GPU is halved. When the caller stops early, the processes are killed:
    blocks that trained long enough have a checkpoint.
    """
    context = multiprocessing.get_context("spawn")
    queue: Queue[Any] = context.Queue()
    stopped = threading.Event()
    listener = threading.Thread(target=_listen, args=(queue, on_epoch, stopped), daemon=True)
    listener.start()
    threads = max(1, torch.get_num_threads() // workers)
    pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(queue, threads, os.getpid()))
    try:
        yield from schedule(blocks, store, lambda block, _: pool.submit(_train_block, block), lambda: 2 * workers)
    except BrokenProcessPool:
        raise RuntimeError(
            "a worker was killed, perhaps because memory ran out; finished blocks are stored; try fewer --workers or a "
            "smaller --block"
        ) from None
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
        stopped.set()  # not through the queue: a terminated worker may hold its lock forever
        listener.join(timeout=5)


def _start_worker(queue: "Queue[Any]", threads: int, parent: int) -> None:
    global _queue
    _queue = queue
    torch.set_num_threads(threads)
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    """End this process when its parent is gone, as nobody waits for its results."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _train_block(block: Block) -> list[Run]:
    global _loaded
    if _loaded is None or _loaded[0] != block.source:
        _loaded = block.source, recipe_data.load_data(block.recipe, block.folder)
    return training.train_block(block, _send_epoch, _loaded[1])


def _send_epoch(block: Block, epoch: int, curves: Curves) -> None:
    assert _queue is not None
    _queue.put((block, epoch, last_rows(curves)))


def last_rows(curves: Curves) -> list[list[Any]]:
    """The last row of each curve, as arrays, for sending; :func:`from_rows` reverses it."""
    return [[row.numpy() for row in getattr(curves, field.name)[-1:]] for field in fields(Curves)]


def from_rows(rows: list[list[Any]]) -> Curves:
    """The curves of one epoch, from :func:`last_rows`."""
    return Curves(*([torch.tensor(row) for row in curve] for curve in rows))


def _listen(queue: "Queue[Any]", on_epoch: OnEpoch | None, stopped: threading.Event) -> None:
    while True:
        try:
            block, epoch, rows = queue.get(timeout=0.1)
        except Empty:
            if stopped.is_set():
                return
            continue
        try:
            if on_epoch is not None:
                on_epoch(block, epoch, from_rows(rows))
        except Exception:  # training continues without it
            _log.exception("reporting an epoch failed")
