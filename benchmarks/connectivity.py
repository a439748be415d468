"""Color-connectivity by message passing: the benchmark's baselines.

    python benchmarks/connectivity.py --folds 1 --epochs 5 --methods GCN          # a quick look
    python benchmarks/connectivity.py --methods GIN8 --out out/gin8.json          # ten folds, one after the other
    python benchmarks/connectivity.py --device cuda --out out/connectivity.json   # all of it, on a GPU

All graphs of a set have the same edges, which makes training fast. On a CPU, `message_passing.cpp` computes one graph
at a time, and folds are trained one after the other; rerun the same command to resume with the next fold. On a GPU, all
folds are trained together, and a step is one CUDA graph; each fold is trained as if alone, with its own initial weights
and batch order, and an optimizer that works element by element. A check before training compares the networks with
PyG's.

Networks are those of `connectivity_networks.py`, settings those of the benchmark (Rampášek and Wolf 2021): Adam with a
learning rate of 0.001, batches of 32, 200 epochs. The epoch with the best validation accuracy is tested.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import connectivity_networks as networks
import torch
from message_passing_cpu import CompiledStack
from message_passing_gpu import Stack
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor

from compool._files import atomic_write
from compool.data import GraphSet, color_connectivity, split
from compool.data.splits import NUM_FOLDS
from compool.replicas.captured import Captured, copy_into

BATCH, LR = 32, 1e-3
COUNT, COUNTS = 15_000, {"minnesota": 6_000}  # colourings of a topology, and of those that have another number
Row = dict[str, Any]
METHODS: dict[str, type[networks.GCN]] = {
    network.__name__: network
    for network in (networks.GCN, networks.GIN4, networks.GIN8, networks.GIN16, networks.GAT, networks.VirtualNode)
}


def parts(ids: Tensor, most: int) -> tuple[Tensor, ...]:
    """Split ids [R, n] into equal parts of at most `most` columns."""
    size = next(size for size in range(min(most, ids.size(1)), 0, -1) if ids.size(1) % size == 0)
    return ids.split(size, dim=1)


def train(method: str, graphs: GraphSet, folds: range, epochs: int, device: str, on_epoch: Callable[[], None]) -> Any:
    """Train a method on folds; returns the stack with the weights of the picked epochs, and accuracies."""
    torch.manual_seed(folds[0])
    modules = [METHODS[method](2, 2) for _ in folds]
    stack = Stack(modules, graphs, device) if device == "cuda" else CompiledStack(modules, graphs)
    weights = stack.weights
    optimizer = torch.optim.Adam(weights, LR, fused=True, capturable=device == "cuda")
    splits = [split(graphs, fold, kind="folds") for fold in folds]
    training, validation, testing = (
        torch.stack([torch.from_numpy(getattr(each, part)) for each in splits]).to(device)
        for part in ("train", "validation", "test")
    )

    def step(ids: Tensor) -> None:
        stack.backward(ids)
        optimizer.step()

    example_ids = parts(validation, 100)[0]
    run_step: Callable[[Tensor], Any] = step
    run_correct: Callable[[Tensor], Tensor] = stack.correct
    if device == "cuda":
        step(training[:, :BATCH])  # creates the optimizer's state
        moments = [tensor for state in optimizer.state.values() for tensor in state.values()]
        with torch.no_grad():
            for tensor in moments:
                tensor.zero_()
        run_step = Captured(step, training[:, :BATCH], [*weights, *moments])
        run_correct = Captured(stack.correct, example_ids)
    best, tested = torch.full((len(folds),), -1.0, device=device), torch.zeros(len(folds), device=device)
    picked = [weight.detach().clone() for weight in weights]
    for _ in range(epochs):
        order = torch.rand(training.shape, device=device).argsort(1)
        for ids in training.gather(1, order).split(BATCH, dim=1):
            if ids.size(1) == BATCH:
                run_step(ids)
        accuracy = [
            sum(run_correct(ids).clone() for ids in parts(held_out, example_ids.size(1))) / held_out.size(1)
            for held_out in (validation, testing)
        ]
        better = accuracy[0] >= best
        best, tested = torch.where(better, accuracy[0], best), torch.where(better, accuracy[1], tested)
        with torch.no_grad():
            for kept, weight in zip(picked, weights, strict=True):
                kept.copy_(torch.where(better.view(-1, *(1,) * (weight.dim() - 1)), weight, kept))
        on_epoch()
    copy_into(weights, picked)
    return stack, best.tolist(), tested.tolist()


@torch.no_grad()
def accuracies(stack: Stack | CompiledStack, graphs: GraphSet, folds: int, device: str) -> list[float]:
    """The accuracy of each fold's network on other graphs."""
    stack.to_graphs(graphs)
    ids = torch.arange(len(graphs), device=device).expand(folds, -1)
    size = max(1, 2**18 // stack.nodes // folds)
    accuracy: Tensor = sum(stack.correct(part) for part in ids.split(size, dim=1)) / len(graphs)
    return accuracy.tolist()


def read(path: Path | None) -> list[Row]:
    """The rows of a file that this script wrote."""
    rows: list[Row] = json.loads(path.read_text()) if path and path.exists() else []
    return [{"count": COUNTS.get(row["topology"], COUNT)} | row for row in rows]


def key_of(row: Row) -> tuple[Any, ...]:
    """What identifies a row."""
    return tuple(row[name] for name in ("topology", "method", "epochs", "count"))


def write(row: Row, path: Path | None) -> None:
    """Replace a row of a file, or add it; other rows, perhaps of another process, stay."""
    if path:
        rows = {key_of(each): each for each in (*read(path), row)}
        with atomic_write(path) as partial:
            partial.write_text(json.dumps(list(rows.values()), indent=1))


def stored_or_new(row: Row, path: Path | None, sides: list[int]) -> Row:
    """The row of a file, if it has one, else one without results."""
    stored = next((each for each in read(path) if key_of(each) == key_of(row)), None)
    if stored is None:
        return {**row, "validation": [], "test": [], "seconds": 0.0, "sides": {str(side): [] for side in sides}}
    if set(stored["sides"]) != set(map(str, sides)):
        known = " ".join(stored["sides"]) or "none"
        raise SystemExit(f"{path} has {row['method']} with other --sides ({known}); use them, or another file")
    return stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="grid-16", help="grid-SIDE, euroroad or minnesota (default: grid-16)")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--count", type=int, help="colourings (default: 15,000, Minnesota 6,000)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sides", type=int, nargs="*", default=[], help="test on grids of these sides, too")
    parser.add_argument("--out", type=Path, help="write the numbers to this file (JSON); folds in it are not repeated")
    args = parser.parse_args()
    count = COUNTS.get(args.topology, COUNT) if args.count is None else args.count
    for name, value, low, high in (
        ("--folds", args.folds, 1, NUM_FOLDS),
        ("--epochs", args.epochs, 1, 10**6),
        ("--count", count, 2 * BATCH, 10**6),
    ):
        if not low <= value <= high:
            parser.error(f"{name} must be from {low} to {high}, got {value}")
    if args.device == "cuda" and count % NUM_FOLDS:
        parser.error(f"on a GPU, --count must be a multiple of {NUM_FOLDS}, got {count}")
    console = Console(width=120)
    same = {"topology": args.topology, "epochs": args.epochs, "count": count}
    rows = [stored_or_new(same | {"method": method}, args.out, args.sides) for method in args.methods]
    graphs = color_connectivity(args.topology, count)
    larger = {side: color_connectivity(f"grid-{side}", 200 if side < 128 else 100, seed=1) for side in args.sides}
    folds_per_stack = args.folds if args.device == "cuda" else 1
    for row in rows:
        for first in range(len(row["test"]), args.folds, folds_per_stack):
            folds, began = range(first, min(first + folds_per_stack, args.folds)), time.perf_counter()
            with Progress(console=console, transient=True) as progress:
                task = progress.add_task(f"{row['method']}, fold {first}", total=args.epochs)
                on_epoch = lambda task=task, progress=progress: progress.advance(task)  # noqa: E731
                stack, validation, test = train(row["method"], graphs, folds, args.epochs, args.device, on_epoch)
            row["validation"] += validation
            row["test"] += test
            row["seconds"] += time.perf_counter() - began
            for side, others in larger.items():
                row["sides"][str(side)] += accuracies(stack, others, len(folds), args.device)
            write(row, args.out)
    table = Table("method", f"test % on {args.topology}", "lowest, highest", *map(str, args.sides), "seconds")
    for row in rows:
        mean, low, high = 100 * fmean(row["test"]), 100 * min(row["test"]), 100 * max(row["test"])
        on_larger = [f"{100 * fmean(row['sides'][str(side)]):.1f}" for side in args.sides]
        table.add_row(row["method"], f"{mean:.1f}", f"{low:.1f}, {high:.1f}", *on_larger, f"{row['seconds']:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
