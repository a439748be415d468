"""Fault injection: bad arguments, damaged files, killed processes.

    python benchmarks/faults.py calls                        # 10,000 generated bad calls of layers and functions
    python benchmarks/faults.py calls --boundscheck          # the same, with the bounds of compiled loops checked
    python benchmarks/faults.py calls --only 1234            # one of them, by its seed
    python benchmarks/faults.py calls --ops --count 3000     # calls of the unchecked steps in compool.ops
    python benchmarks/faults.py flips                        # 1,000 single bit flips in each kind of file
    python benchmarks/faults.py kills                        # 100 studies, each killed at random times

`calls`: a call must end in a sensible exception or a correct result, never in a crash of the interpreter, a hang, or
more than a gigabyte of memory. Results of kernels are compared with the plain torch operations. `flips`: a damaged file
must be detected, rebuilt, or give equal results. `kills`: a study that is killed and rerun must lose nothing and end
with the same runs to the bit. The exit status is 1 if anything failed.
"""

import sys

sys.path[0] += "/fault_parts"

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

_BOUNDSCHECK = "--boundscheck" in sys.argv
if _BOUNDSCHECK:  # before numba is imported; its cache does not distinguish checked loops
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    os.environ["NUMBA_CACHE_DIR"] = str(Path(tempfile.gettempdir()) / f"compool-boundscheck-{os.getuid()}")

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console(width=160)


class Progress:
    """A progress line on the terminal; without threads, as children are forked."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.failed, self.began = total, 0, 0, time.monotonic()

    def step(self, failed: bool) -> None:
        """Count one more."""
        self.count, self.failed = self.count + 1, self.failed + failed
        seconds = time.monotonic() - self.began
        text = f"{self.count:,} of {self.total:,}, {self.failed:,} failed, {seconds:.0f} s"
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text}\x1b[K" + ("\n" if self.count == self.total else ""))
        elif self.count % max(1, self.total // 10) == 0:
            sys.stderr.write(f"{text}\n")


def run_calls(args: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    import calls

    if args.only is not None:
        for _, outcome in calls.run([args.only], args.ops, args.timeout):
            console.print_json(json.dumps(outcome))
            return outcome["kind"] in calls.FAULTS, outcome
    calls.warm_up(args.ops)
    count = args.count or 10_000
    first = args.seed * 1_000_000
    progress, outcomes = Progress(count), []
    for seed, outcome in calls.run(range(first, first + count), args.ops, args.timeout):
        outcomes.append((seed, outcome))
        progress.step(outcome["kind"] in calls.FAULTS)
    counts = calls.counts(outcomes)
    kinds = ("result", "error", *calls.FAULTS)
    table = Table("", title=f"{count:,} calls, seed {args.seed}" + (", bounds checked" if _BOUNDSCHECK else ""))
    for kind in kinds:
        table.add_column(kind, justify="right")
    for target, found in sorted(counts.items()):
        table.add_row(target, *(f"{found[kind]:,}" if found[kind] else "" for kind in kinds))
    total = {kind: sum(found[kind] for found in counts.values()) for kind in kinds}
    table.add_row("all", *(f"{number:,}" for number in total.values()), style="bold")
    console.print(table)
    faults = calls.distinct(outcomes)
    if faults:
        listed = Table("target", "kind", "calls", "seed", "error", "where", "what was bad", title="distinct faults")
        for fault in faults:
            row = (fault.target, fault.kind, str(len(fault.seeds)), str(fault.seeds[0]))
            listed.add_row(*row, *map(escape, (fault.error, fault.where, fault.example[:200])))
        console.print(listed)
    return bool(faults), {"calls": counts, "faults": [vars(fault) for fault in faults]}


def run_flips(args: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    import flips

    count = args.count or 1000
    progress, counts = Progress(count * len(flips.FILES)), {name: Counter[str]() for name in flips.FILES}
    distinct: dict[tuple[str, str, str], list[str]] = {}
    for name, seed, outcome in flips.run(count, args.seed, args.timeout):
        kind = outcome["kind"]
        counts[name][kind] += 1
        if kind in flips.FAULTS:
            error = outcome.get("error", "read as other contents")
            distinct.setdefault((name, kind, error.partition(":")[0]), []).append(
                f"{seed}: {outcome['notes']}; {error}"
            )
        progress.step(kind in flips.FAULTS)
    table = Table("", title=f"{count:,} single bit flips in each file, seed {args.seed}")
    for kind in flips.KINDS:
        table.add_column(kind, justify="right")
    for name, found in counts.items():
        table.add_row(name, *(f"{found[kind]:,}" if found[kind] else "" for kind in flips.KINDS))
    console.print(table)
    if distinct:
        listed = Table("file", "kind", "flips", "first", title="distinct faults")
        for (name, kind, _), examples in distinct.items():
            listed.add_row(name, kind, f"{len(examples):,}", escape(examples[0]))
        console.print(listed)
    failed = any(found[kind] for found in counts.values() for kind in flips.FAULTS)
    return failed, {"flips": counts, "faults": [[*key, *examples[:5]] for key, examples in distinct.items()]}


def run_kills(args: argparse.Namespace) -> tuple[bool, dict[str, Any]]:
    import kills

    count = args.count or 100
    progress, total = Progress(count), Counter[str]()
    noted: dict[int, dict[str, int]] = {}  # studies in which something was wrong, by seed
    for seed, counts in kills.run(count, args.seed):
        total += counts
        if wrong := {name: counts[name] for name in (*kills.FAULTS, *kills.NOTED) if counts[name]}:
            noted[seed] = wrong
        progress.step(any(counts[fault] for fault in kills.FAULTS))
    table = Table(title=f"{count:,} studies killed and rerun, seed {args.seed}")
    names = ("studies", "kills", "kills with runs stored", "resumed blocks", *kills.FAULTS, *kills.NOTED)
    for name in names:
        table.add_column(name, justify="right")
    table.add_row(*(f"{total[name]:,}" for name in names))
    console.print(table)
    for seed, wrong in noted.items():
        console.print(f"seed {seed}: {', '.join(f'{name} {number}' for name, number in wrong.items())}")
    return any(total[fault] for fault in kills.FAULTS), {"kills": total, "noted": noted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["calls", "flips", "kills"])
    parser.add_argument("--count", type=int, help="calls, bit flips of each kind of file, or studies")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--boundscheck", action="store_true", help="calls: check the bounds of compiled loops")
    parser.add_argument("--ops", action="store_true", help="calls: call the unchecked steps in compool.ops instead")
    parser.add_argument("--only", type=int, metavar="SEED", help="calls: make only this one, and print its outcome")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for one call")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    failed, found = {"calls": run_calls, "flips": run_flips, "kills": run_kills}[args.part](args)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(found, indent=1))
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
