import io
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from compool.replicas.trainer import Curves
from compool.study.block import Block
from compool.study.progress import Progress
from compool.study.recipe_files import recipe
from tests.study.test_store import example

BLOCK = Block(recipe("gin", "communities", epochs=10), 0, (0, 1))
SEEN = Curves(loss=[torch.tensor([0.5, 0.7])], validation=[torch.tensor([0.25, 0.75])], kept=[torch.zeros(2, 0)])


def test_time_left_is_without_the_first_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("compool.study.progress.time.monotonic", lambda: now[0])
    console = Console(file=io.StringIO())
    with Progress([BLOCK], console) as progress:
        for epoch, seconds in ((1, 100.0), (2, 105.0), (4, 121.0)):  # the first compiles kernels
            now[0] = seconds
            progress.epoch(BLOCK, epoch, SEEN)
    (first, second) = console.file.getvalue().splitlines()
    assert first == "communities gin: 2 replicas, epoch 2/10, loss 0.600, validation 50.0%, 40 s left"
    assert second.endswith("epoch 4/10, loss 0.600, validation 50.0%, 42 s left")


def test_time_left_of_blocks_that_started_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch of the second block is not progress since the first block's."""
    now = [0.0]
    monkeypatch.setattr("compool.study.progress.time.monotonic", lambda: now[0])
    other, console = replace(BLOCK, replicas=(2, 3)), Console(file=io.StringIO())
    with Progress([BLOCK, other], console) as progress:
        for epoch in range(1, 7):
            for block, seconds in ((BLOCK, 12.0 * epoch), (other, 12.0 * epoch + 0.3)):
                now[0] = seconds
                progress.epoch(block, epoch, SEEN)
    estimates = [float(line.split()[-3]) for line in console.file.getvalue().splitlines()]
    left = [12.0 * (10 - epoch) for epoch in range(2, 7)]
    assert all(actual < estimate < 2.2 * actual for estimate, actual in zip(estimates, left, strict=True))
    assert estimates[-1] < 1.3 * left[-1]  # the other block's current epoch counts ever less


def test_a_block_that_goes_on_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of before count as done, but not towards the speed; and if it begins anew after all, they are to do."""
    now = [0.0]
    monkeypatch.setattr("compool.study.progress.time.monotonic", lambda: now[0])
    block, console = replace(BLOCK, epochs_done=6), Console(file=io.StringIO())
    with Progress([block], console) as progress:
        assert progress.bar.tasks[0].completed == progress.done == 12
        for epoch, seconds in ((7, 20.0), (8, 31.0)):
            now[0] = seconds
            progress.epoch(block, epoch, SEEN)
        progress.epoch(block, 1, SEEN)
        assert progress.done == 2
    assert console.file.getvalue().endswith("epoch 8/10, loss 0.600, validation 50.0%, 22 s left\n")


@pytest.mark.parametrize(("width", "long"), [(80, False), (160, True)])
def test_a_narrow_terminal_has_room_for_the_bar(width: int, long: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width)
    with Progress([BLOCK], console) as progress:
        progress.epoch(BLOCK, 5, SEEN)
        shown = progress.bar.tasks[0].description
    assert shown.startswith("communities gin")
    assert "epoch 5/10" in shown
    assert ("validation" in shown) == long
    assert "50%" in console.file.getvalue()


@pytest.mark.parametrize(
    ("recipes", "tests", "expected"),
    [
        (
            ("fast lr=0.1", "fast lr=0.2"),
            (0.45, 0.3),
            "gin, 2 recipes: 2 runs stored, test accuracy 30.0% to 45.0%, 3 s",
        ),
        (("fast lr=0.1", "fast lr=0.2"), (0.3, 0.3), "gin, 2 recipes: 2 runs stored, test accuracy 30.0%, 3 s"),
        (("fast", "fast"), (0.45, 0.3), "gin: 2 replicas stored, test accuracy 37.5%, 3 s"),
    ],
)
def test_runs_of_several_recipes_have_no_mean(recipes: list[str], tests: list[float], expected: str) -> None:
    runs = [example(0, method="gin", recipe=name, test=test) for name, test in zip(recipes, tests, strict=True)]
    console = Console(file=io.StringIO(), width=200)
    Progress([BLOCK], console).finished(runs)
    assert console.file.getvalue() == f"NCI1 {expected}\n"


def test_failed_runs_do_not_count() -> None:
    failed = example(1, status="failed", test=0.25, reason="its loss was NaN")
    console = Console(file=io.StringIO(), width=200)
    Progress([BLOCK], console).finished([failed, example(0)])
    assert "2 replicas stored, test accuracy 75.0%" in console.file.getvalue()
    Progress([BLOCK], console).finished([replace(failed, settings={"metric": "roc_auc"})])
    assert "replica 1 stored, no ROC AUC, 2 s, 1 failed" in console.file.getvalue()
    nan = float("nan")
    curves = Curves(
        loss=[torch.tensor([nan, 0.5])], validation=[torch.tensor([nan, 0.75])], kept=[torch.tensor([[nan], [0.5]])]
    )
    shown = Console(file=io.StringIO(), force_terminal=True, width=160)
    with Progress([BLOCK], shown) as progress:
        progress.epoch(BLOCK, 5, curves)
        assert progress.bar.tasks[0].description.endswith("loss 0.500, validation 75.0%, kept 50%")


def test_a_failed_run_says_why() -> None:
    written = io.StringIO()
    failed = example(1, status="failed", test=None, reason="its loss was NaN")
    Progress([BLOCK], Console(file=written, width=200)).finished([example(0), failed])
    text = written.getvalue().strip()
    assert "2 replicas stored, test accuracy 75.0%" in text
    assert text.endswith("1 failed: its loss was NaN")
