"""The scheduling of blocks: the same loop for processes and clusters."""

import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

import torch

from compool.study import recipe_data, training
from compool.study.block import Block
from compool.study.runs import LOST_WORKER, Run
from compool.study.store import Store

_log = logging.getLogger(__name__)
RETRIES = 3  # of a block whose worker was lost


class WorkerLost(Exception):
    """The worker that trained a block was lost."""

    def __init__(self, reason: str, node: str = "") -> None:
        super().__init__(reason)
        self.node = node
        """The node of the worker, if known."""


def schedule(
    blocks: Sequence[Block],
    store: Store,
    submit: Callable[[Block, Sequence[str]], "Future[list[Run]]"],
    capacity: Callable[[], int],
    result: Callable[["Future[list[Run]]"], list[Run]] = Future.result,
) -> Generator[list[Run], None, None]:
    """Have blocks trained by workers, and store each when it is finished.

    A block that is too large for the memory of a GPU is halved. A block whose worker is lost is retried three times,
    and then stored as failed.

    Args:
        blocks: what to train.
        store: where to keep the runs.
        submit: starts a block, given the nodes where it was lost before.
        capacity: how many blocks may be trained at the same time; called whenever a block is finished.
        result: the runs of a finished future; raises :class:`WorkerLost` if its worker was lost.
    """
    todo: deque[tuple[Block, tuple[WorkerLost, ...]]] = deque((block, ()) for block in blocks)
    running: dict[Future[list[Run]], tuple[Block, tuple[WorkerLost, ...]]] = {}
    finished: SimpleQueue[Future[list[Run]]] = SimpleQueue()  # waiting does not slow down with more blocks
    while todo or running:
        while len(running) < capacity() and todo:
            block, losses = todo.popleft()
            future = submit(block, [loss.node for loss in losses])
            running[future] = (block, losses)
            future.add_done_callback(finished.put)
        future = finished.get()
        block, losses = running.pop(future)
        try:
            runs = result(future)
        except (MemoryError, torch.OutOfMemoryError):
            if len(block.replicas) == 1:
                raise
            todo.extendleft((half, ()) for half in reversed(block.halves()))
            continue
        except WorkerLost as loss:
            losses = (*losses, loss)
            if len(losses) <= RETRIES:
                _log.warning(
                    "%s: a worker was lost (%s); trying again, %d of %d", block.name, loss, len(losses), RETRIES
                )
                todo.appendleft((block, losses))
                continue
            reason = f"{LOST_WORKER} {len(losses)} times; the last time: {loss}"
            runs = training.failed_block(block, recipe_data.load_data(block.recipe, block.folder), reason)
        training.finish(block, runs, store)
        yield runs
