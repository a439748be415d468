"""Time and memory of spanning forests, and of layers that use them, in one run.

    python benchmarks/forest.py                     # on the CPU, against SciPy: 5 M edges on 1 M nodes
    python benchmarks/forest.py --device cuda       # on a GPU: 100 M edges on 10 M nodes, and 1 M on 100 thousand

Random graphs, each edge in both directions with one weight, sorted as PyG's coalesce() sorts. SciPy's matrices are
built beforehand. The methods take turns; times are medians of warm runs. Memory is the peak that a call adds, per edge;
on the CPU it is measured in a separate process.
"""

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor
from torch_geometric.utils import coalesce, remove_self_loops

import compool

THRESHOLDS = 40


def random_graph(nodes: int, edges: int, device: str) -> tuple[Tensor, Tensor]:
    """Edges in both directions, and their weights."""
    generator = torch.Generator(device).manual_seed(0)
    ends = torch.randint(nodes, (2, edges // 2), device=device, generator=generator)
    keys = torch.cat([ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]]).unique()
    del ends
    edge_index = torch.stack([keys // nodes, keys % nodes])
    mixed = edge_index.amin(0) * 2654435761 + edge_index.amax(0) * 2246822519
    return edge_index, (mixed * 3266489917 % 2**31).float() / 2**31


def batch_of(graphs: int, device: str) -> tuple[Tensor, Tensor]:
    """Random graphs of the size of REDDIT-BINARY's, and their batch vector."""
    generator, nodes, edges = torch.Generator().manual_seed(0), 430, 498
    offset = torch.arange(graphs).repeat_interleave(edges) * nodes
    ends = torch.randint(nodes, (2, graphs * edges), generator=generator) + offset
    edge_index = coalesce(remove_self_loops(torch.cat([ends, ends.flip(0)], dim=1))[0])
    return edge_index.to(device), torch.arange(graphs).repeat_interleave(nodes).to(device)


def seconds(runs: dict[str, Callable[[], Any]], device: str, rounds: int) -> dict[str, float]:
    """The median time of each run; runs take turns, and a first round is not timed."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            if device == "cuda":
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - start)
    return {name: median(each[1:]) for name, each in times.items()}


def forests(nodes: int, edges: int, device: str, rounds: int) -> dict[str, float]:
    edge_index, weight = random_graph(nodes, edges, device)
    levels = torch.linspace(0, 1, THRESHOLDS, device=device)
    wide = weight.double()
    runs: dict[str, Callable[[], Any]] = {
        "forest": lambda: compool.spanning_forest(edge_index, weight, nodes),
        "forest, float64": lambda: compool.spanning_forest(edge_index, wide, nodes),
        "components": lambda: compool.connected_components(edge_index, nodes),
        f"hierarchy and {THRESHOLDS} counts": lambda: compool.hierarchy(edge_index, weight, nodes).counts(levels),
    }
    if device == "cpu":
        matrix = csr_matrix((2 - wide.numpy(), tuple(edge_index.numpy())), (nodes, nodes))
        runs["SciPy"] = lambda: minimum_spanning_tree(matrix)
    return {"edges": edge_index.size(1), **seconds(runs, device, rounds)}


def budgets(graphs: int, device: str, rounds: int) -> dict[str, float]:
    edge_index, batch = batch_of(graphs, device)
    x = torch.randn(batch.numel(), 128, device=device, requires_grad=True)

    def step(**settings: float) -> Callable[[], None]:
        layer = compool.ComponentPooling(128, **settings).to(device)

        def run() -> None:
            x.grad = None
            layer(x, edge_index, batch).x.sum().backward()

        return run

    runs = {"threshold": step(), "ratio=0.5": step(ratio=0.5), "quantile=0.5": step(quantile=0.5)}
    return seconds(runs, device, rounds)


def peak(nodes: int, edges: int, device: str, double: bool) -> float:
    """Bytes per edge that a call adds."""
    edge_index, weight = random_graph(nodes, edges, device)
    weight = weight.double() if double else weight
    compool.spanning_forest(edge_index[:, :100], weight[:100], nodes)  # modules are imported, kernels compiled
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compool.spanning_forest(edge_index, weight, nodes)
        return (torch.cuda.max_memory_allocated() - before) / edge_index.size(1)
    statm = Path("/proc/self/statm")
    held = torch.empty(0)  # the memory that built the graph must not hide the call's peak: fill up to it
    highest = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    held = torch.ones(max(highest - int(statm.read_text().split()[1]) * resource.getpagesize(), 0), dtype=torch.uint8)
    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    compool.spanning_forest(edge_index, weight, nodes)
    after = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del held
    return (after - before) / edge_index.size(1)


def peak_alone(*args: Any) -> float:
    """`peak`, on the CPU in a separate process."""
    if args[2] == "cuda":
        return peak(*args)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(peak, args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=7, help="timed runs of each (default: 7)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    device, console = args.device, Console(width=120)
    sizes = [(1_000_000, 5_000_000)] if device == "cpu" else [(10_000_000, 100_000_000), (100_000, 1_000_000)]
    numbers: dict[str, dict[str, float]] = {}
    for nodes, edges in sizes:
        numbers[f"{edges:,} edges, {nodes:,} nodes"] = row = forests(nodes, edges, device, args.rounds)
        row["bytes per edge"] = peak_alone(nodes, edges, device, False)
        row["bytes per edge, float64"] = peak_alone(nodes, edges, device, True)
    for graphs in (128, 2000):
        numbers[f"{430 * graphs:,} nodes"] = budgets(graphs, device, args.rounds)

    for name, row in numbers.items():
        table = Table("", "ms", "times the first", title=f"{name}, {device}")
        timed = {what: value for what, value in row.items() if what != "edges" and not what.startswith("bytes")}
        first = next(iter(timed.values()))
        for what, value in timed.items():
            table.add_row(what, f"{1e3 * value:,.2f}", f"{value / first:.2f}")
        console.print(table)
        if "bytes per edge" in row:
            console.print(f"{row['bytes per edge']:.1f} bytes per edge; float64 {row['bytes per edge, float64']:.1f}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"device": device, "numbers": numbers}, indent=1))


if __name__ == "__main__":
    main()
