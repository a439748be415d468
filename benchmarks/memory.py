"""Bytes per node and per edge for training on one graph, which decide when a graph outgrows a device.

    python benchmarks/memory.py                                # CPCL, 128 channels, on the CPU
    python benchmarks/memory.py --layers CCPCCPCLL --hidden 256 --json out/memory.json

One step forward and backward on random graphs, each in a separate process: with N nodes and E edges, 2N and E, and
N and 2E. Measures peak memory beyond the graph and the network; the differences give bytes per node and edge. Uses
PyG's GCN layer, as in `compool.nn.Network`, and the one that trains replicas.
"""

import argparse
import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from compool import data, replicas
from compool.nn import Network


def graph(nodes: int, edges: int, channels: int) -> data.GraphSet:
    """One graph with about this many random edges, both directions counted, and random attributes."""
    random = np.random.default_rng(0)
    ends = random.integers(nodes, size=(2, edges // 2))
    both = np.concatenate([ends, ends[::-1]], 1)
    keys = np.unique((both[0] * nodes + both[1])[both[0] != both[1]])
    edge_index = np.stack([keys // nodes, keys % nodes]).astype(np.int32)
    attributes = random.standard_normal((nodes, channels), dtype=np.float32)
    offsets = (np.array([0, number]) for number in (nodes, len(keys)))
    return data.GraphSet("random", *offsets, edge_index, np.array([1]), attributes=attributes)


def resident(which: str) -> int:
    """The resident memory of this process in bytes, current (VmRSS) or peak (VmHWM)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return 1024 * int(line.split()[1])


def peak(stacked: bool, layers: str, hidden: int, nodes: int, edges: int) -> int:
    """Bytes that a step adds."""
    network = Network(layers, in_channels=hidden, hidden=hidden, num_classes=2)
    stack = replicas.stack([network])

    def prepared(graphs: data.GraphSet) -> Callable[[], torch.Tensor]:
        if stacked:
            x, union = replicas.Graphs(graphs, data.features(graphs, "attributes")).union(torch.tensor([[0]]))
            return lambda: stack(x, union).logits
        x, edge_index = graphs[0].x, graphs[0].edge_index
        return lambda: network(x, edge_index)

    prepared(graph(1000, 4000, hidden))().sum().backward()  # compiles
    step = prepared(graph(nodes, edges, hidden))
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    step().sum().backward()
    return resident("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="CPCL")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    sizes = [(args.nodes, args.edges), (2 * args.nodes, args.edges), (args.nodes, 2 * args.edges)]
    table = Table("", title=f"{args.layers}, {args.hidden} channels, forward and backward")
    for nodes, edges in sizes:
        table.add_column(f"MB at {nodes:,} nodes, {edges:,} edges", justify="right")
    for heading in ("bytes per node", "rows of features per node", "bytes per edge"):
        table.add_column(heading, justify="right")
    found = {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name, stacked in (("PyG's GCN layer", False), ("the replicas'", True)):
            taken = [pool.apply(peak, (stacked, args.layers, args.hidden, *size)) for size in sizes]
            node, edge = (taken[1] - taken[0]) / args.nodes, (taken[2] - taken[0]) / args.edges
            found[name] = {"bytes": taken, "node": node, "edge": edge}
            megabytes = [f"{one / 1e6:,.0f}" for one in taken]
            table.add_row(name, *megabytes, f"{node:,.0f}", f"{node / 4 / args.hidden:.1f}", f"{edge:,.0f}")
    Console(width=120).print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"layers": args.layers, "hidden": args.hidden, **found}, indent=1))


if __name__ == "__main__":
    main()
