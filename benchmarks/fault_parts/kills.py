"""Kill studies at random times and rerun them: no finished run may be lost, and the runs must be the same."""

import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import studies

from compool import study

KILLS = 4  # of one study, at most
REPLICAS, BLOCK, EPOCHS = 4, 2, 6
FAULTS = ("lost", "different", "unreadable", "failed")
NOTED = ("left over",)  # files left beside the store at the end; harmless
Key = tuple[str, int]


def plan(store: Path) -> list[study.Block]:
    """The blocks that a study lacks."""
    recipes = [studies.recipe(method, epochs=EPOCHS) for method in ("component", "gin")]
    return study.plan(recipes, REPLICAS, 0, store, resources=study.local_resources("cpu"), size=BLOCK)


def run_to_end(store: Path) -> None:
    """Train the blocks that a study lacks."""
    with studies.small():
        list(study.execute(plan(store), store, workers=1))


def start(store: Path) -> int:
    """Run a study to its end in a child process; returns its process id."""
    child = os.fork()
    if child:
        return child
    try:
        run_to_end(store)
        os._exit(0)
    except BaseException as error:
        os.write(2, f"\n{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def stored(store: Path) -> dict[Key, dict[str, Any]]:
    """The runs of a store, by method and replica."""
    if not store.exists():
        return {}
    return {(run["method"], run["replica"]): run for run in studies.comparable(list(study.Store(store).runs()))}


def undisturbed(folder: Path) -> tuple[dict[Key, dict[str, Any]], float]:
    """The runs of a study that is not killed, and how many seconds it takes."""
    store, began = folder / "study.sqlite", time.monotonic()
    _, status = os.waitpid(start(store), 0)
    seconds = time.monotonic() - began
    if status:
        raise RuntimeError("the undisturbed study failed")
    return stored(store), seconds


def disturbed(folder: Path, seed: int, wanted: dict[Key, dict[str, Any]], seconds: float) -> Counter[str]:
    """Kill and rerun one study; returns counts of events."""
    generator, store, counts = random.Random(seed), folder / "study.sqlite", Counter[str](studies=1)
    before: dict[Key, dict[str, Any]] = {}
    for attempt in range(KILLS + 1):
        if attempt:
            with studies.small():
                counts["resumed blocks"] += sum(block.epochs_done > 0 for block in plan(store))
        child = start(store)
        if attempt < KILLS:
            time.sleep(generator.uniform(0, 1.1 * seconds))
            finished, status = os.waitpid(child, os.WNOHANG)
            if not finished:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
        else:
            _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        counts["kills"] += killed
        counts["failed"] += status != 0 and not killed
        try:
            now = stored(store)
        except ValueError:
            counts["unreadable"] += 1
            return counts
        counts["kills with runs stored"] += killed and bool(now)
        counts["lost"] += sum(key not in now for key in before)
        counts["different"] += sum(run != wanted.get(key) for key, run in now.items() if key not in before)
        before = now
        if not killed:
            break
    counts["lost"] += sum(key not in before for key in wanted)
    counts["left over"] += sum(path.is_file() and path != store for path in folder.rglob("*"))
    return counts


def run(count: int, seed: int) -> Iterator[tuple[int, Counter[str]]]:
    """Yield the seed of each study, and its counts of events."""
    with tempfile.TemporaryDirectory(prefix="compool-") as folder:
        run_to_end(Path(folder) / "study.sqlite")  # compiles, so that kills hit training rather than compilation
    with tempfile.TemporaryDirectory(prefix="compool-") as folder:
        wanted, seconds = undisturbed(Path(folder))
    for study_seed in range(seed * 1_000_000, seed * 1_000_000 + count):
        with tempfile.TemporaryDirectory(prefix="compool-") as folder:
            yield study_seed, disturbed(Path(folder), study_seed, wanted, seconds)
