"""Time and memory of an epoch of replicas trained together, with validation and test, without the first epoch.

    python benchmarks/epoch.py PROTEINS NCI1 --data FOLDER --method component,none,topk,sag,edge
    python benchmarks/epoch.py COLLAB --data FOLDER --method edgepool --device cuda --replicas 100 --profile
    python benchmarks/epoch.py          # sets as large as REDDIT-MULTI-5K and -12K: a hundredth of their graphs
    python benchmarks/epoch.py --device cuda --share 1 --replicas 25

REDDIT-MULTI is synthetic: as many graphs, nodes, edges and classes as in the paper's Table 1, with sizes distributed
like those of REDDIT-BINARY. Each graph is a tree in which most nodes answer an early one, with some more edges. How
early depends on the class, so the loss can fall; accuracies mean nothing.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from compool import data, study
from compool.data.paper import TABLE_1
from compool.replicas.trainer import Curves
from compool.study.recipe_data import load_data

MADE_UP = ("REDDIT-MULTI-5K", "REDDIT-MULTI-12K")
SPREAD, LARGEST = 1.0, 4000  # deviation of the logarithm of sizes, and most nodes of a graph: about as in REDDIT-BINARY
console = Console(width=120)


def made_up(name: str, share: float) -> data.GraphSet:
    """A synthetic set as large as the paper's, or a share of it."""
    random, about = np.random.default_rng(0), TABLE_1[name]
    num_graphs = max(10 * about.classes, round(share * about.graphs))
    y = np.arange(num_graphs) % about.classes
    sizes = about.nodes * random.lognormal(-(SPREAD**2) / 2, SPREAD, num_graphs)
    sizes = sizes.clip(3, LARGEST).astype(np.int64)
    more = np.maximum(0, (about.edges / about.nodes * sizes).astype(np.int64) - sizes + 1)
    answers, others = np.repeat(np.arange(num_graphs), sizes - 1), np.repeat(np.arange(num_graphs), more)
    node = _counting(sizes - 1) + 1
    early = 1.5 + 3 * y / about.classes
    tree = np.stack([node, (node * random.random(len(node)) ** early[answers]).astype(np.int64)])
    extra = (sizes[others] * random.random((2, len(others))) ** early[others]).astype(np.int64)
    graph, (u, v) = np.concatenate([answers, others]), np.concatenate([tree, extra], 1)
    graph, u, v = (np.concatenate(pair)[np.tile(u != v, 2)] for pair in ((graph, graph), (u, v), (v, u)))
    widest = int(sizes.max())
    keys = np.unique((graph * widest + u) * widest + v)
    graph, ends = keys // widest**2, np.stack([keys // widest % widest, keys % widest]).astype(np.int32)
    node_ptr, edge_ptr = (
        np.concatenate([[0], np.cumsum(n)]) for n in (sizes, np.bincount(graph, minlength=num_graphs))
    )
    return data.GraphSet(name, node_ptr, edge_ptr, ends, y)


def _counting(numbers: np.ndarray) -> np.ndarray:
    """0, 1, … below each number, concatenated."""
    return np.arange(numbers.sum()) - np.repeat(np.cumsum(numbers) - numbers, numbers)


def trained(
    graphs: data.GraphSet, recipe: study.Recipe, whole: study.Recipe, replicas: int, device: str
) -> dict[str, Any]:
    """Train a few epochs of the `whole` recipe; returns seconds per epoch, bytes per replica, and losses."""
    ends, losses = [], []

    def note(_: study.Block, epoch: int, curves: Curves) -> None:
        ends.append(time.perf_counter())
        losses.append(float(curves.loss[-1].mean()))
        done = f"epoch {epoch} of {recipe.epochs}, loss {losses[-1]:.4f}"
        console.print(f"{recipe.dataset} {recipe.method}: {done}", highlight=False)

    before = _peak(device, reset=True)
    runs = study.train_block(study.Block(recipe, 0, tuple(range(replicas)), device=device), note, graphs)
    seconds = (ends[-1] - ends[0]) / (recipe.epochs - 1)
    return {
        "set": recipe.dataset,
        "method": recipe.method,
        "graphs": len(graphs),
        "nodes": graphs.num_nodes / len(graphs),
        "edges": graphs.num_edges / 2 / len(graphs),
        "replicas": replicas,
        "seconds": seconds,
        "hours": seconds * whole.epochs / 3600,
        "bytes": (_peak(device) - before) / replicas,
        "losses": losses,
        "failed": sum(run.status == "failed" for run in runs),
    }


def _peak(device: str, reset: bool = False) -> int:
    """The peak memory in bytes since the last reset."""
    if device != "cpu":
        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def profiled(graphs: data.GraphSet, recipe: study.Recipe, replicas: int, device: str) -> None:
    """Profile two epochs."""
    activity = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[activity]) as seen:
        study.train_block(study.Block(recipe, 0, tuple(range(replicas)), device=device), graphs=graphs)
    spent = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    rows = sorted(seen.key_averages(), key=lambda row: -getattr(row, spent))
    total = sum(getattr(row, spent) for row in rows)
    for row in rows[:15]:
        share, each = getattr(row, spent) / total, getattr(row, spent) / row.count
        console.print(f"{share:6.1%} {each:9.1f} µs × {row.count:<6d} {row.key[:80]}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=MADE_UP, metavar="SET")
    parser.add_argument("--data", type=Path, help="folder with data sets")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--share", type=float, default=0.01, help="share of the graphs of synthetic sets")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--method", default="component,edgepool,gin")
    parser.add_argument("--recipe", default="fast")
    parser.add_argument("--profile", action="store_true", help="profile two more epochs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    results = []
    for name in args.sets:
        recipes = [study.recipe(method, name, args.recipe) for method in args.method.split(",")]
        graphs = made_up(name, args.share) if name in MADE_UP else load_data(recipes[0], args.data)
        for whole in recipes:
            recipe = replace(whole, epochs=args.epochs)
            results.append(trained(graphs, recipe, whole, args.replicas, args.device))
            if args.profile:
                profiled(graphs, replace(recipe, epochs=2), args.replicas, args.device)
    table = Table(title=f"{args.replicas} replicas, {args.device}")
    for heading in (
        "set",
        "method",
        "graphs",
        "nodes, edges",
        "s per epoch",
        "the recipe, h",
        "GB per replica",
        "loss",
    ):
        table.add_column(heading, justify="left" if heading in ("set", "method") else "right")
    for row in results:
        size = f"{row['nodes']:.0f}, {row['edges']:.0f}"
        numbers = (f"{row['seconds']:.2f}", f"{row['hours']:.2f}", f"{row['bytes'] / 1e9:.3f}")
        loss = f"{row['losses'][0]:.3f} → {row['losses'][-1]:.3f}"
        table.add_row(row["set"], row["method"], f"{row['graphs']:,}", size, *numbers, loss)
    console.print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
