"""Time of connected components, compared with SciPy, plain torch operations and memory bandwidth, in one run.

    python benchmarks/components.py                   # on the CPU, 3 M edges
    python benchmarks/components.py --device cuda     # on a GPU, 100 M edges

Random graphs of N nodes, each edge in both directions, sorted as PyG's coalesce() sorts; and a path, a path with
shuffled nodes, and a star. SciPy's matrices are built beforehand. Times are medians of warm runs.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components as scipy_components
from torch import Tensor

from compool.ops import _torch
from compool.ops._dispatch import kernels_for


def random_graph(nodes: int, edges: int, device: str) -> Tensor:
    generator = torch.Generator(device).manual_seed(0)
    ends = torch.randint(nodes, (2, edges // 2), device=device, generator=generator)
    keys = torch.cat([ends[0] * nodes + ends[1], ends[1] * nodes + ends[0]]).unique()
    return torch.stack([keys // nodes, keys % nodes])


def shapes(edges: int, device: str) -> dict[str, Callable[[], tuple[int, Tensor]]]:
    def path() -> Tensor:
        nodes = torch.arange(edges, device=device)
        return torch.stack([nodes, nodes + 1])

    def star() -> Tensor:
        leaves = torch.arange(1, edges + 1, device=device)
        return torch.stack([torch.zeros_like(leaves), leaves])

    every: dict[str, Callable[[], tuple[int, Tensor]]] = {
        f"random, {edges // share:,} nodes": lambda nodes=edges // share: (nodes, random_graph(nodes, edges, device))
        for share in (100, 20, 10, 5, 2)
    }
    every["path"] = lambda: (edges + 1, path())
    every["path, shuffled"] = lambda: (edges + 1, torch.randperm(edges + 1, device=device)[path()])
    every["star"] = lambda: (edges + 1, star())
    return every


def seconds(run: Callable[[], Any], device: str, budget: float = 2.0) -> float:
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 50):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return median(times[1:])


def measured(nodes: int, edge_index: Tensor, copied: float, with_scipy: bool) -> dict[str, float]:
    device, number = edge_index.device.type, edge_index.size(1)
    every = torch.ones(number, dtype=torch.bool, device=device)
    ours = kernels_for(edge_index).components
    row = {"edges": number, "compool": seconds(lambda: ours(edge_index, every, nodes), device)}
    row["share of copy bandwidth"] = (16 * number + 8 * nodes) / row["compool"] / copied  # edges read, labels written
    row["plain torch"] = seconds(lambda: _torch.components(edge_index, every, nodes), device, 1.0)
    if with_scipy:
        ends = edge_index.cpu().numpy()
        matrix = csr_matrix((np.ones(number, np.int8), (ends[0], ends[1])), (nodes, nodes))
        row["SciPy"] = seconds(lambda: scipy_components(matrix, directed=False), "cpu", 1.0)
        labels = torch.from_numpy(scipy_components(matrix, directed=False)[1]).long()
        assert torch.equal(ours(edge_index, every, nodes)[0].cpu(), labels)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--edges", type=int, help="by default 3 M on the CPU, 100 M on a GPU")
    parser.add_argument("--scipy", action="store_true", help="measure SciPy, too, which is slow on 100 M edges")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    device, edges = args.device, args.edges or (3_000_000 if args.device == "cpu" else 100_000_000)
    console = Console(width=120)

    source = torch.empty(edges, device=device)
    target = torch.empty_like(source)
    copied = 8 * edges / seconds(lambda: target.copy_(source), device)
    console.print(f"a copy reads and writes {copied / 1e9:,.0f} GB/s")
    rows: dict[str, dict[str, float]] = {}
    with Progress(console=console, transient=True) as progress:
        for name, make in progress.track(shapes(edges, device).items(), description="graphs"):
            rows[name] = measured(*make(), copied, args.scipy or device == "cpu")

    table = Table(title=f"connected components, {device}")
    for heading in ("", "edges", "ms", "billion edges/s", "of copy bandwidth", "plain torch", "SciPy"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for name, row in rows.items():
        others = [f"{row[peer] / row['compool']:,.1f} ×" if peer in row else "–" for peer in ("plain torch", "SciPy")]
        speed = f"{row['edges'] / row['compool'] / 1e9:,.2f}"
        share = f"{row['share of copy bandwidth']:.0%}"
        table.add_row(name, f"{row['edges']:,}", f"{1e3 * row['compool']:,.2f}", speed, share, *others)
    console.print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"device": device, "copy": copied, "graphs": rows}, indent=1))


if __name__ == "__main__":
    main()
