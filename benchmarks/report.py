"""Time to write the report of a whole study, and the size of its page.

    python benchmarks/report.py                                # eight data sets, three methods, 100 runs, 200 epochs
    python benchmarks/report.py --runs 10 --out out/made       # smaller, and kept to look at

The runs are synthetic: normal accuracies around the paper's numbers, and curves that rise to them. Only their number
matters.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from compool.data import paper
from compool.report.write import write_report
from compool.study import METHODS, Run, Store, recipe


def made_up(runs: int, epochs: int) -> Iterator[list[Run]]:
    """The runs of each method on each data set."""
    random = np.random.default_rng(0)
    for dataset, reported in paper.REPORTED.items():
        for method in METHODS:
            chosen = recipe(method, dataset, epochs=epochs)
            mean, std, *_ = reported.get(method, paper.Reported(60.0, 4.0, 0))
            levels = chosen.layers.count("P") + chosen.layers.count("E")
            yield [one_run(chosen, replica, random, mean / 100, std / 100, levels) for replica in range(runs)]


def one_run(chosen: Any, replica: int, random: np.random.Generator, mean: float, std: float, levels: int) -> Run:
    epochs = np.arange(1, chosen.epochs + 1)
    rise = 1 - np.exp(-epochs / 25)
    end = float(np.clip(random.normal(mean, std), 0, 1))
    test, validation = (np.round(end * (0.5 + 0.5 * rise) + random.normal(0, 0.01, len(epochs)), 6) for _ in range(2))
    kept = np.round(np.clip(1 - rise[:, None] * random.uniform(0.3, 0.6, levels).cumsum()[None], 0.02, 1), 6)
    loss = np.round(2 * np.exp(-epochs / 60) + random.uniform(0, 0.1, len(epochs)), 6)
    best = int(validation.argmax())
    return Run(
        dataset=chosen.dataset,
        method=chosen.method,
        recipe=chosen.name,
        recipe_checksum=chosen.checksum,
        settings=asdict(chosen),
        seed=0,
        replica=replica,
        split_checksum=f"{replica:016x}",
        status="done",
        test=float(test[best]),
        validation=float(validation[best]),
        epoch=best + 1,
        kept=kept[best].tolist(),
        parameters=chosen.parameters,
        seconds=float(random.uniform(5, 6)),
        block=100,
        device="made up",
        versions={"compool": "0.1.0", "torch": "2.13.0"},
        finished="2026-01-01T00:00:00+00:00",
        curves={"loss": loss.tolist(), "validation": validation.tolist(), "test": test.tolist(), "kept": kept.tolist()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="runs of each method on each data set (default: 100)")
    parser.add_argument("--epochs", type=int, default=200, help="epochs of each run (default: 200)")
    parser.add_argument("--out", type=Path, help="keep store and report in this folder")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.out or Path(temporary)
        store = Store(folder / "made-up.sqlite")
        start = time.perf_counter()
        for block in made_up(args.runs, args.epochs):
            store.add(block)
        made = time.perf_counter()
        study, page = write_report(store.path)
        end = time.perf_counter()
        files = [path for path in page.parent.rglob("*") if path.is_file()]
        found = {
            "runs": study.num_runs,
            "seconds_to_make_up": round(made - start, 1),
            "seconds": round(end - made, 1),
            "page_megabytes": round(page.stat().st_size / 1e6, 2),
            "files": len(files),
            "report_megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1),
        }
    print(json.dumps(found, indent=1))
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
