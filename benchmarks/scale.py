"""The overhead of a cluster: Ray compared with processes; store and scheduler with 100,000 blocks and 1,000 GPUs.

    python benchmarks/scale.py engines     # 200 blocks of about a second, two workers, in --rounds that take turns
    python benchmarks/scale.py small       # blocks of a few hundredths of a second: the overhead of one
    python benchmarks/scale.py store       # 100,000 blocks through the scheduler into a store, on a simulated cluster
    python benchmarks/scale.py             # all three; --json PATH writes the numbers

Start-up is excluded: time is measured from the end of the sixth block, when all workers have trained, to the end of the
last. The simulated cluster has no network and no GPUs: durations of blocks are random, the driver takes its CPU time on
this machine, plus some for waiting for the disk and for Ray.
"""

import argparse
import heapq
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from compool import data, study
from compool.integrations import ray as cluster
from compool.study.block import Block
from compool.study.planning import missing_blocks
from compool.study.schedule import schedule
from compool.study.store import Run, Store

WORKERS, FIRST = 2, 6
GRAPHS = 99
console = Console(width=120)


def blocks_of(number: int, epochs: int, folder: Path) -> list[Block]:
    recipe = study.recipe("component", "SMALL", epochs=epochs, hidden=16)
    return [Block(recipe, 0, (replica,), folder) for replica in range(number)]


def seconds_of(run: Callable[..., Any], blocks: Sequence[Block], store: Path) -> dict[str, float]:
    """Seconds per block after the sixth, the seconds of training, and the CPU seconds of this process."""
    ends, driver, trained = [], [], []
    for (one,) in run(blocks, store, WORKERS):
        ends.append(time.perf_counter())
        driver.append(time.process_time())
        trained.append(one.seconds)
    wall, own = ((times[-1] - times[FIRST - 1]) / (len(blocks) - FIRST) for times in (ends, driver))
    return {"wall": wall, "total": wall * len(blocks), "trained": mean(trained[FIRST:]), "driver": own}


def compare(number: int, epochs: int, rounds: int, folder: Path) -> dict[str, list[dict[str, float]]]:
    """Processes and Ray in turns, in alternating order."""
    found: dict[str, list[dict[str, float]]] = {"processes": [], "Ray": []}
    for turn in range(rounds):
        for engine in ("processes", "Ray")[:: -1 if turn % 2 else 1]:
            with tempfile.TemporaryDirectory() as temporary, console.status(f"{engine}, round {turn + 1}"):
                blocks, store = blocks_of(number, epochs, folder), Path(temporary) / "study.sqlite"
                if engine == "processes":
                    found[engine].append(seconds_of(study.execute, blocks, store))
                else:
                    with cluster.connected_cluster("local", WORKERS):
                        found[engine].append(seconds_of(cluster.execute, blocks, store))
    return found


def engines(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """How much longer a study takes with Ray."""
    graphs = data.load("SMALL", folder)
    study.train_block(blocks_of(1, 2, folder)[0], graphs=graphs)  # compiles
    start = time.perf_counter()
    study.train_block(blocks_of(1, 20, folder)[0], graphs=graphs)
    epochs = round(20 / (time.perf_counter() - start))
    found = compare(args.blocks, epochs, args.rounds, folder)
    table = Table("", title=f"{args.blocks} blocks of {epochs} epochs, {WORKERS} workers, {args.rounds} rounds")
    for heading in ("seconds, each round", "of them training", "ratio of medians", "ratio, each round"):
        table.add_column(heading, justify="right")
    for engine, rows in found.items():
        totals = [row["total"] for row in rows]
        ratios = [row["total"] / other["total"] for row, other in zip(rows, found["processes"], strict=True)]
        table.add_row(
            engine,
            " ".join(f"{total:.1f}" for total in totals),
            f"{mean(row['trained'] / row['wall'] / WORKERS for row in rows):.0%}",
            f"{median(totals) / median(row['total'] for row in found['processes']):.3f}",
            " ".join(f"{ratio:.3f}" for ratio in ratios),
        )
    console.print(table)
    return {"epochs": epochs, "blocks": args.blocks, **found}


def small(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The overhead of a block: worker time that is not training."""
    found = compare(args.small, 1, args.rounds, folder)
    table = Table("", title=f"{args.small} blocks of one epoch, {WORKERS} workers, medians of {args.rounds} rounds")
    headings = (
        "ms training",
        "ms overhead per block",
        "ms of driver CPU",
        "blocks per second",
        "5 % overhead at",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for engine, rows in found.items():
        trained, wall, own = (median(row[name] for row in rows) for name in ("trained", "wall", "driver"))
        overhead = WORKERS * wall - trained
        milliseconds = [f"{1e3 * one:.1f}" for one in (trained, overhead, own)]
        table.add_row(engine, *milliseconds, f"{1 / wall:.0f}", f"{20 * overhead:.2f} s")
    console.print(table)
    return found


class Simulated:
    """A cluster with a virtual clock. Per block, the driver takes `more` seconds plus its measured time or `costs`."""

    def __init__(
        self, slots: int, durations: Sequence[float], more: float, costs: Sequence[float] | None = None
    ) -> None:
        self.slots, self.durations, self.more, self.costs = slots, durations, more, costs
        self.training: list[tuple[float, int, Block, Future[list[Run]]]] = []
        self.submitted = self.finished = 0
        self.driver = self.end = 0.0  # the driver's clock; the end of the last block
        self.spent: list[float] = []  # CPU seconds of the driver on each block
        self.turn = time.process_time()

    def submit(self, block: Block, avoid: Sequence[str]) -> "Future[list[Run]]":
        """Start a block; the scheduler never submits more blocks than there are slots."""
        future: Future[list[Run]] = Future()
        end = self.driver + self.durations[self.submitted]
        self.submitted += 1
        heapq.heappush(self.training, (end, self.submitted, block, future))
        return future

    def most(self) -> int:
        """The number of slots; the scheduler asks for it before it waits, and then the next block ends."""
        full = self.submitted - self.finished == self.slots or self.submitted == len(self.durations)
        if full and self.training:
            took = time.process_time() - self.turn if self.costs is None else self.costs[self.finished]
            self.spent.append(took)
            self.driver += took + self.more
            self.end, _, block, future = heapq.heappop(self.training)
            self.finished += 1
            self.driver = max(self.driver, self.end)
            runs = [template(block, replica) for replica in block.replicas] if self.costs is None else []
            self.turn = time.process_time()
            future.set_result(runs)
        return self.slots

    @property
    def busy(self) -> float:
        """The share of time that slots spend training."""
        return sum(self.durations) / self.slots / self.end


class Nowhere:
    """A store that keeps nothing, for simulations with a known cost of storing."""

    def add(self, runs: Sequence[Run]) -> None:
        """Discard the runs."""


EPOCHS = 200
_random = random.Random(0)
_curve = [round(_random.random(), 6) for _ in range(EPOCHS)]


def template(block: Block, replica: int) -> Run:
    """A run as large as those of 200 epochs and two pooling layers."""
    curves: dict[str, list[Any]] = dict.fromkeys(("loss", "validation", "validation_loss", "test"), _curve)
    return Run(
        dataset=block.recipe.dataset,
        method=block.recipe.method,
        recipe=block.recipe.name,
        recipe_checksum=block.recipe.checksum,
        settings=asdict(block.recipe),
        seed=block.seed,
        replica=replica,
        split_checksum="0123456789abcdef",
        status="done",
        test=0.75,
        validation=0.75,
        epoch=EPOCHS,
        kept=[0.5, 0.25],
        parameters=block.recipe.parameters or 0,
        seconds=1.5,
        block=len(block.replicas),
        device="NVIDIA H200",
        versions={"compool": "0.1.0", "torch": torch.__version__, "python": "3.11"},
        finished="2026-01-01T00:00:00+00:00",
        curves=curves | {"kept": [[one, one] for one in _curve]},
    )


def store(args: argparse.Namespace, _: Path) -> dict[str, Any]:
    """The scheduler with 100,000 blocks on a simulated cluster, and the store that it fills."""
    recipes = [one for one in study.recipes() if one.name == "fast"]
    each = -(-args.runs // len(recipes))
    blocks = [Block(one, 0, (replica,)) for one in recipes for replica in range(each)][: args.runs]
    draw = random.Random(1)
    shape = [draw.uniform(0.5, 1.5) for _ in blocks]
    found: dict[str, Any] = {"runs": len(blocks), "slots": args.slots, "busy": {}}
    with tempfile.TemporaryDirectory() as temporary:
        path = (args.scratch or Path(temporary)) / "filled.sqlite"
        opened = Store(path)
        simulated = Simulated(args.slots, [30 * one for one in shape], 0.0)
        with console.status("the scheduler, and the store"):
            for _ in schedule(blocks, opened, simulated.submit, simulated.most):
                pass
        assert sum(len(opened.replicas(one.dataset, one.method, one.checksum, 0)) for one in recipes) == len(blocks)
        parts = [simulated.spent[at : at + len(blocks) // 4] for at in range(0, len(blocks), len(blocks) // 4)]
        found["driver_ms"] = {"median": [1e3 * median(part) for part in parts], "mean": 1e3 * mean(simulated.spent)}
        found["megabytes"] = path.stat().st_size / 1e6
        if args.scratch:
            opened = Store(Path(shutil.move(path, Path(temporary) / path.name)))
        found["driver_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        with console.status("the store"):
            found["store_ms"] = store_times(opened, recipes, each)
    for more in (0.0, 0.005, 0.02):
        for seconds in (30, 10, 3, 1):
            lasting = Simulated(args.slots, [seconds * one for one in shape], more, simulated.spent)
            for _ in schedule(blocks, Nowhere(), lasting.submit, lasting.most):  # type: ignore[arg-type]
                pass
            found["busy"].setdefault(f"{1e3 * more:.0f} ms", {})[seconds] = lasting.busy
    print_store(found)
    return found


def store_times(opened: Store, recipes: Sequence[study.Recipe], each: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of eleven calls each, sorted: wall-clock time and CPU time."""
    recipe = recipes[0]

    def times(call: Callable[[int], Any]) -> dict[str, list[float]]:
        taken = []
        for turn in range(11):
            start, own = time.perf_counter(), time.process_time()
            call(turn)
            taken.append((1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - own)))
        return {name: sorted(column) for name, column in zip(("clock", "cpu"), zip(*taken, strict=True), strict=True)}

    found = {}
    for size in (1, 10, 100):
        some = Block(recipe, 0, tuple(range(size)))
        made = [[replace(template(some, at), seed=100 * size + turn) for at in some.replicas] for turn in range(11)]
        found[f"add a block of {size}"] = times(lambda turn, made=made: opened.add(made[turn]))  # type: ignore[misc]
    found["missing of one recipe"] = times(lambda _: missing_blocks(opened, [recipe], each + 100, 0, 10, None, "cpu"))
    found[f"missing of all {len(recipes)} recipes"] = times(
        lambda _: [missing_blocks(opened, [one], each + 100, 0, 10, None, "cpu") for one in recipes]
    )
    return found


def print_store(found: dict[str, Any]) -> None:
    table = Table(
        "",
        "ms, median",
        "ms, worst of 11",
        "ms of CPU, median",
        title=f"a store of {found['runs']:,} runs of {EPOCHS} epochs",
    )
    for name, times in found["store_ms"].items():
        numbers = (median(times["clock"]), times["clock"][-1], median(times["cpu"]))
        table.add_row(name, *(f"{number:.1f}" for number in numbers))
    console.print(table)
    quarters = " ".join(f"{one:.2f}" for one in found["driver_ms"]["median"])
    console.print(
        f"{found['megabytes']:,.0f} MB; the driver took {found['driver_ms']['mean']:.2f} ms per block (medians of the "
        f"quarters: {quarters}) and at most {found['driver_megabytes']:,.0f} MB"
    )
    title = f"{found['slots']:,} GPUs, {found['runs']:,} blocks: share of the time that they train"
    table = Table("the driver takes, beside its CPU time, for a block", title=title)
    for seconds in (30, 10, 3, 1):
        table.add_column(f"blocks of {seconds} s", justify="right")
    for more, shares in found["busy"].items():
        table.add_row(more, *(f"{share:.1%}" for share in shares.values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    questions = {"engines": engines, "small": small, "store": store}
    parser.add_argument("questions", nargs="*", default=list(questions), metavar="|".join(questions))
    parser.add_argument("--blocks", type=int, default=200, help="blocks of about a second")
    parser.add_argument("--small", type=int, default=400, help="blocks of one epoch")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of processes and Ray in turns")
    parser.add_argument("--runs", type=int, default=100_000, help="runs in the store")
    parser.add_argument("--slots", type=int, default=1_000, help="GPUs of the simulated cluster")
    parser.add_argument("--scratch", type=Path, help="folder to fill the store in, for example in memory")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        data.communities(GRAPHS).save(Path(temporary) / "SMALL.npz")
        for name in args.questions:
            found[name] = questions[name](args, Path(temporary))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
