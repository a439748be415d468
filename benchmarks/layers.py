"""Time of pooling, forward and backward, compared with PyG's pooling layers and a GCN layer, in one run.

    python benchmarks/layers.py                     # the table and the exponent
    python benchmarks/layers.py --memory            # peak memory against PyG's ClusterPooling, too
    python benchmarks/layers.py --quick --json out/operator.json
    python benchmarks/layers.py --device cuda       # on a GPU, with a graph of 100 M edges

Times are medians of warm runs; ratios are to ComponentPooling, above 1 if the other is slower. Every method gets the
same batch, and a gradient of ones for its output features.
"""

import argparse
import json
import math
import multiprocessing
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch_geometric
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch_geometric.nn import ClusterPooling, EdgePooling, GCNConv, SAGPooling, TopKPooling
from torch_geometric.utils import coalesce, remove_self_loops

import compool

# graphs, nodes per graph, undirected edges per graph: as in PROTEINS and REDDIT-BINARY
SIZES = {"32 PROTEINS": (32, 39, 73), "32 REDDIT": (32, 430, 498), "128 REDDIT": (128, 430, 498)}
LARGE = {"1,280 REDDIT": (1280, 430, 498)}
LARGE_CUDA = {"2,000 REDDIT": (2000, 430, 498)}
ONE_GRAPH = (20_000_000, 100_000_000, 32)  # nodes, edges, channels
SCALING = (10, 32, 100, 320, 1000, 3200, 10_000)  # REDDIT-sized graphs: 10 k to 10 M edges
METHODS: dict[str, Callable[[int], torch.nn.Module]] = {
    "ComponentPooling": compool.ComponentPooling,
    "  weights=all": lambda channels: compool.ComponentPooling(channels, weights="all"),
    "  quantile=0.5": lambda channels: compool.ComponentPooling(channels, quantile=0.5),
    "  ratio=0.5": lambda channels: compool.ComponentPooling(channels, ratio=0.5),
    "  max_size=8": lambda channels: compool.ComponentPooling(channels, max_size=8),
    "  scorer=similarity": lambda channels: compool.ComponentPooling(channels, scorer="similarity"),
    "  reduce=graded": lambda channels: compool.ComponentPooling(channels, "hardtanh", reduce="graded"),
    "  similarity, graded": lambda channels: compool.ComponentPooling(channels, scorer="similarity", reduce="graded"),
    "  deterministic": compool.ComponentPooling,
    "  ClusterPooling": compool.ClusterPooling,
    "  EdgePooling": compool.EdgePooling,
    "PyG TopKPooling": TopKPooling,
    "PyG SAGPooling": SAGPooling,
    "PyG EdgePooling": EdgePooling,
    "PyG ClusterPooling": ClusterPooling,
    "PyG GCNConv": lambda channels: GCNConv(channels, channels),
}


OTHER_DEVICE = {"cpu": ("  deterministic",), "cuda": ()}


def batch_of(graphs: int, nodes: int, edges: int, device: str) -> tuple[Tensor, Tensor]:
    """Random graphs: edges of both directions, sorted, and the batch vector."""
    generator = torch.Generator().manual_seed(0)
    offset = torch.arange(graphs).repeat_interleave(edges) * nodes
    ends = torch.randint(nodes, (2, graphs * edges), generator=generator) + offset
    edge_index = coalesce(remove_self_loops(torch.cat([ends, ends.flip(0)], dim=1))[0])
    return edge_index.to(device), torch.arange(graphs, device=device).repeat_interleave(nodes)


def step_of(method: str, size: tuple[int, int, int], channels: int, device: str) -> Callable[[], Any]:
    """One forward and backward pass, as a function."""
    edge_index, batch = batch_of(*size, device)
    torch.manual_seed(0)
    x = torch.randn(batch.size(0), channels, device=device, requires_grad=True)
    layer = METHODS[method](channels).to(device)
    more = {} if isinstance(layer, GCNConv) else {"batch": batch}

    def step() -> None:
        x.grad = None
        out = layer(x, edge_index, **more)
        features = out if isinstance(out, Tensor) else out[0]
        features.backward(torch.ones_like(features))

    def deterministic() -> None:
        torch.use_deterministic_algorithms(True)
        step()
        torch.use_deterministic_algorithms(False)

    special = {"  deterministic": deterministic}
    return special.get(method, step)


def bandwidth() -> float:
    """Bytes per second that a copy on the GPU reads and writes."""
    source = torch.empty(2**29, device="cuda")
    target = torch.empty_like(source)
    took = seconds({"": lambda: target.copy_(source)}, "cuda", 1.0)[""]
    return 2 * source.numel() * source.element_size() / took


def traffic(nodes: int, edges: int, supernodes: int, channels: int, backward: bool) -> int:
    """Bytes that the GPU kernels read and write, gathers counted once, without sorts and hash table.

    Forward: `x` twice, supernodes once; edges three times, scores three times. Backward: `x` twice, the supernodes'
    gradient twice (one row per node), the gradient of `x` once; edges and scores once.
    """
    rows = 2 * nodes + supernodes + (5 * nodes if backward else 0)
    return 4 * channels * rows + edges * (3 * 16 + 3 * 4 + (16 + 4 if backward else 0))


def one_graph(console: Console) -> dict[str, float]:
    """Forward through one large graph: time, and memory beyond the input."""
    nodes, edges, channels = ONE_GRAPH
    generator = torch.Generator("cuda").manual_seed(0)
    ends = torch.randint(nodes, (2, edges // 2), device="cuda", generator=generator)
    keys = torch.cat([ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]]).unique()
    edge_index = torch.stack([keys // nodes, keys % nodes])
    del ends, keys
    torch.manual_seed(0)
    layer, x = compool.ComponentPooling(channels).cuda(), torch.randn(nodes, channels, device="cuda")
    with torch.no_grad():
        layer(x, edge_index)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        kept = layer(x, edge_index).x.size(0)
        memory = torch.cuda.max_memory_allocated() - before
        took = seconds({"": lambda: layer(x, edge_index)}, "cuda", 1.0)[""]
    share = traffic(nodes, edge_index.size(1), kept, channels, backward=False) / took / bandwidth()
    console.print(
        f"one graph of {nodes:,} nodes and {edge_index.size(1):,} edges, {channels} channels, forward: "
        f"{1e3 * took:.1f} ms, {memory / 2**30:.2f} GiB beyond the input, {share:.0%} of copy bandwidth; "
        f"{kept / nodes:.1%} of the nodes are kept"
    )
    return {"seconds": took, "bytes": memory, "kept": kept / nodes, "share of copy bandwidth": share}


def clock(step: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def seconds(steps: dict[str, Callable[[], Any]], device: str, budget: float) -> dict[str, float]:
    """The median of warm runs of each step: about `budget` seconds each, three runs at least, 300 at most.

    Steps take turns in three rounds, so that a temporary slowdown of the machine affects all of them.
    """
    warm = {}
    for name, step in steps.items():
        clock(step, device)
        warm[name] = clock(step, device)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(3):
        for name, step in steps.items():
            runs = max(1, min(100, int(budget / 3 / warm[name])))
            clock(step, device)  # warms the caches
            times[name] += [clock(step, device) for _ in range(runs)]
    return {name: median(took) for name, took in times.items()}


def peak_memory(method: str, size: tuple[int, int, int], channels: int) -> int:
    """Bytes that one step adds to the peak of a new process, after a tiny step that loads the code."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory, (method, size, channels))


def _peak_memory(method: str, size: tuple[int, int, int], channels: int) -> int:
    step_of(method, (2, 10, 10), channels, "cpu")()
    step = step_of(method, size, channels, "cpu")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak to the current usage (Linux)
    before = _held("VmRSS")
    step()
    return _held("VmHWM") - before


def _held(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--channels", type=int, default=128)
    parser.add_argument("--quick", action="store_true", help="small sizes only, no exponent")
    parser.add_argument("--own", action="store_true", help="only compool's, without PyG's")
    parser.add_argument("--memory", action="store_true", help="measure peak memory, on the CPU")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    console, budget = Console(width=120), 0.3 if args.quick else 1.0

    sizes = SIZES if args.quick else SIZES | (LARGE if args.device == "cpu" else LARGE_CUDA)
    times: dict[str, dict[str, float]] = {}
    with Progress(console=console, transient=True) as progress:
        for name, size in progress.track(sizes.items(), description="poolings"):
            most = {
                "PyG EdgePooling": 60_000,
                "PyG ClusterPooling": 2_000 if args.quick else 14_000,
            }  # slow, or too large
            fitting = [method for method in METHODS if size[0] * size[1] <= most.get(method, math.inf)]
            fitting = [method for method in fitting if method not in OTHER_DEVICE[args.device]]
            fitting = [method for method in fitting if not (args.own and method.startswith("PyG"))]
            steps = {method: step_of(method, size, args.channels, args.device) for method in fitting}
            times[name] = seconds(steps, args.device, budget)

        scaling: dict[int, float] = {}
        for graphs in () if args.quick else progress.track(SCALING, description="scaling"):
            size = (graphs, 430, 498)
            steps = {"": step_of("ComponentPooling", size, args.channels, args.device)}
            scaling[batch_of(*size, "cpu")[0].size(1)] = seconds(steps, args.device, budget)[""]

    table = Table(
        title=f"milliseconds forward and backward (times ComponentPooling's): {args.channels} channels, {args.device}"
    )
    table.add_column("", no_wrap=True)
    for name, size in sizes.items():
        table.add_column(f"{name}\n{size[0] * size[1]:,} nodes", justify="right", no_wrap=True)
    for method in METHODS:
        cells = []
        for name in sizes:
            took, ours = times[name].get(method), times[name]["ComponentPooling"]
            cells.append("–" if took is None else f"{1e3 * took:,.2f} ({took / ours:,.2f})")
        table.add_row(method, *cells)
    console.print(table)

    exponent = None
    if scaling:
        x, y = (torch.tensor(list(values), dtype=torch.float64).log() for values in (scaling, scaling.values()))
        exponent = float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
        table = Table("edges", "milliseconds", "ns per edge", title="ComponentPooling by size")
        for edges, took in scaling.items():
            table.add_row(f"{edges:,}", f"{1e3 * took:,.2f}", f"{1e9 * took / edges:,.0f}")
        console.print(table)
        console.print(f"time grows as edges to the power {exponent:.3f}")

    large: dict[str, float] = {}
    if args.device == "cuda":
        copied = bandwidth()
        console.print(f"a copy reads and writes {copied / 1e9:,.0f} GB/s")
        for name, size in sizes.items():
            edges = batch_of(*size, "cpu")[0].size(1)
            nodes = size[0] * size[1]
            ours, other = times[name]["ComponentPooling"], times[name].get("PyG TopKPooling", math.nan)
            share = traffic(nodes, edges, nodes // 4, args.channels, backward=True) / ours / copied
            console.print(f"{name}: {ours / other:.2f} of TopKPooling's time, {share:.0%} of copy bandwidth")
        if not args.quick:
            large = one_graph(console)

    memory: dict[str, int] = {}
    if args.memory:
        for method in ("ComponentPooling", "  ClusterPooling", "PyG ClusterPooling"):
            memory[method] = peak_memory(method, SIZES["32 REDDIT"], args.channels)
            share = memory[method] / memory["ComponentPooling"]
            console.print(
                f"{method}: peak memory of a step at 32 REDDIT {memory[method] / 2**20:,.1f} MiB ({share:,.1f})"
            )

    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        versions = {"python": platform.python_version(), "torch": torch.__version__, "pyg": torch_geometric.__version__}
        machine = torch.cuda.get_device_name() if args.device == "cuda" else f"{torch.get_num_threads()} CPU threads"
        numbers = {"seconds": times, "scaling": scaling, "exponent": exponent, "memory": memory, "one graph": large}
        report = {"compool": compool.__version__, "machine": machine, "versions": versions, "channels": args.channels}
        args.json.write_text(json.dumps({**report, **numbers}, indent=1))


if __name__ == "__main__":
    main()
