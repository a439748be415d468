"""Blocks on several processes of this machine, one store."""

import multiprocessing
import os
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch

from compool.replicas.trainer import Curves
from compool.study import run
from compool.study.run import Block, Report
from compool.study.store import Run, Store

_queue: "Queue[Any] | None" = None  # of a worker: where it reports epochs


def execute(
    blocks: Sequence[Block], store: Path, workers: int | None = None, report: Report | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks here, or on several processes, and store each when it is finished."""
    number = min(workers or run.default_workers(blocks[0].device), len(blocks))
    if number == 1:
        return run.run_here(blocks, Store(store), report)
    return run_on_workers(blocks, Store(store), number, report)


def run_on_workers(
    blocks: Sequence[Block], store: Store, workers: int, report: Report | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks on `workers` processes, and store each when it is finished, in this one.

    A block that is too large for the memory is halved. When the caller stops early, the processes are killed: what
    they were training is lost, what is stored is not.
    """
    context = multiprocessing.get_context("spawn")
    queue: Queue[Any] = context.Queue()
    listener = threading.Thread(target=_listen, args=(queue, report), daemon=True)
    listener.start()
    threads = max(1, torch.get_num_threads() // workers)
    pool = ProcessPoolExecutor(workers, context, initializer=_start, initargs=(queue, threads))
    try:
        todo: dict[Future[list[Run]], Block] = {pool.submit(_work, block): block for block in blocks}
        while todo:
            finished, _ = wait(todo, return_when=FIRST_COMPLETED)
            for future in finished:
                block = todo.pop(future)
                try:
                    runs = future.result()
                except (MemoryError, torch.OutOfMemoryError):
                    if len(block.replicas) == 1:
                        raise
                    todo |= {pool.submit(_work, half): half for half in block.halves()}
                    continue
                store.add(runs)
                yield runs
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)
        queue.put(None)
        listener.join(timeout=5)


def _start(queue: "Queue[Any]", threads: int) -> None:
    global _queue
    _queue = queue
    torch.set_num_threads(threads)
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()


def _die_with(parent: int) -> None:
    """End this process when the one that started it was killed, and nobody waits for its results."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(block: Block) -> list[Run]:
    return run.train_block(block, _tell)


def _tell(block: Block, epoch: int, curves: Curves) -> None:
    """Send the last row of each curve."""
    assert _queue is not None
    last = Curves(*(getattr(curves, name)[-1:] for name in ("loss", "validation", "test", "kept")))
    arrays = [[row.numpy() for row in getattr(last, name)] for name in ("loss", "validation", "test", "kept")]
    _queue.put((block, epoch, arrays))


def _listen(queue: "Queue[Any]", report: Report | None) -> None:
    while (message := queue.get()) is not None:
        block, epoch, arrays = message
        if report is not None:
            report(block, epoch, Curves(*([torch.from_numpy(row) for row in rows] for rows in arrays)))
