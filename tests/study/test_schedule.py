from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from compool import study
from compool.data import communities
from compool.study.block import Block
from compool.study.schedule import WorkerLost, schedule
from compool.study.store import Run, Store
from tests.study.test_store import example

RECIPE = study.recipe("component", "communities")


def block(*replicas: int) -> Block:
    return Block(RECIPE, 0, replicas)


def done(outcome: list[Run] | BaseException) -> "Future[list[Run]]":
    future: Future[list[Run]] = Future()
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


def test_a_block_that_does_not_fit_is_halved(tmp_path: Path) -> None:
    tried: list[tuple[int, ...]] = []

    def submit(block: Block, avoid: Sequence[str]) -> "Future[list[Run]]":
        tried.append(block.replicas)
        fits = len(block.replicas) < 3
        return done([example(replica) for replica in block.replicas] if fits else MemoryError())

    store = Store(tmp_path / "study.sqlite")
    stored = list(schedule([block(0, 1, 2, 3, 4), block(9)], store, submit, lambda: 1))
    assert tried == [(0, 1, 2, 3, 4), (0, 1), (2, 3, 4), (2,), (3, 4), (9,)]
    assert [len(runs) for runs in stored] == [2, 1, 2, 1]
    with pytest.raises(MemoryError):
        list(schedule([block(5)], store, lambda block, _: done(MemoryError()), lambda: 1))


def test_a_block_that_is_lost_is_tried_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    avoided: list[list[str]] = []

    def submit(block: Block, avoid: Sequence[str]) -> "Future[list[Run]]":
        avoided.append(list(avoid))
        return done([example(0)] if len(avoid) == 3 else WorkerLost("no answer", f"node {len(avoid)}"))

    store = Store(tmp_path / "study.sqlite")
    ((run,),) = schedule([block(0)], store, submit, lambda: 1)
    assert run.status == "done"
    assert avoided == [[], ["node 0"], ["node 0", "node 1"], ["node 0", "node 1", "node 2"]]
    assert caplog.messages[-1] == "communities component: a worker was lost (no answer); trying again, 3 of 3"


def test_a_block_that_is_lost_four_times_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = communities(99)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: graphs)
    store = Store(tmp_path / "study.sqlite")
    ((one, two),) = schedule([block(4, 7)], store, lambda block, _: done(WorkerLost("no answer")), lambda: 1)
    assert (one.status, one.test, one.replica, two.replica) == ("failed", None, 4, 7)
    assert one.reason == "its worker was lost 4 times; the last time: no answer"
    assert one.parameters == sum(parameter.numel() for parameter in RECIPE.network().parameters())
    (trained, _) = study.train_block(Block(study.recipe("component", "communities", epochs=1), 0, (4, 7)))
    assert one.split_checksum == trained.split_checksum != two.split_checksum
    assert list(store.runs()) == [one, two]


def test_no_more_are_under_way_than_asked(tmp_path: Path) -> None:
    """The first future is done only when a third block would be one too many."""
    waiting: list[Future[list[Run]]] = []
    most: list[int] = []

    def submit(block: Block, avoid: Sequence[str]) -> "Future[list[Run]]":
        waiting.append(Future())
        return waiting[-1]

    def room() -> int:
        most.append(len(waiting))
        if len(waiting) == 2 or len(most) > 6:
            waiting.pop(0).set_result([example(len(most))])
        return 2

    stored = list(schedule([block(replica) for replica in range(4)], Store(tmp_path / "s"), submit, room))
    assert len(stored) == 4
    assert max(most) == 2
