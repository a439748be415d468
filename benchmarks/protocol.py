"""Replicas per hour: the engine compared with PyG's layers, which train one replica at a time, in one run.

    python benchmarks/protocol.py --data FOLDER                       # PROTEINS, 10 replicas, on the CPU
    python benchmarks/protocol.py NCI1 --data FOLDER --replicas 20 --json out/protocol.json

All use the same batch size, splits and optimizer, with validation and test after each epoch. PyG's version has GCNConv,
PyG's ClusterPooling, and a DataLoader. Times per epoch are medians without the first epoch.
"""

import argparse
import json
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ClusterPooling, GCNConv, global_mean_pool

from compool import data, study
from compool.study.machine import num_cpus
from compool.study.recipe_data import load_data


class FromPyG(torch.nn.Module):
    """A network of the letters C, P and L from PyG's layers."""

    def __init__(self, recipe: study.Recipe, channels: int, outputs: int) -> None:
        super().__init__()
        self.letters, self.dropout = recipe.layers, recipe.dropout
        self.layers = torch.nn.ModuleList()
        for at, letter in enumerate(recipe.layers):
            if letter == "P":
                self.layers.append(ClusterPooling(channels, dropout=recipe.dropout))
                continue
            out = outputs if at == len(recipe.layers) - 1 else recipe.hidden
            self.layers.append((GCNConv if letter == "C" else torch.nn.Linear)(channels, out))
            channels = out

    def forward(self, batch: Data) -> torch.Tensor:
        """The logits of each graph."""
        x, edge_index, graph = batch.x, batch.edge_index, batch.batch
        for at, (letter, layer) in enumerate(zip(self.letters, self.layers, strict=True)):
            if letter == "P":
                x, edge_index, graph, _ = layer(x, edge_index, graph)
                continue
            if letter == "L" and self.letters[at - 1] != "L":
                x = global_mean_pool(x, graph, batch.num_graphs)
            x = layer(x) if letter == "L" else layer(x, edge_index)
            if at < len(self.layers) - 1:
                x = F.dropout(x.relu(), self.dropout, self.training)
        return x


def pyg_epochs(recipe: study.Recipe, graphs: data.GraphSet, epochs: int, device: str) -> list[float]:
    """Seconds of each epoch of one replica."""
    split = data.split(graphs, 0)
    every = list(graphs)
    outputs = 1 if graphs.num_classes == 2 else graphs.num_classes
    network = FromPyG(recipe, every[0].x.size(1), outputs).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    training = DataLoader([every[i] for i in split.train], recipe.batch, shuffle=True)
    # Batches as small as in training: PyG builds dense matrices, which would make larger batches slower
    others = [DataLoader([every[i] for i in part], recipe.batch) for part in (split.validation, split.test)]
    times = []
    for _ in range(epochs):
        start = time.perf_counter()
        network.train()
        for batch in training:
            batch = batch.to(device)
            logits = network(batch)
            if outputs == 1:
                loss = F.binary_cross_entropy_with_logits(logits.squeeze(1), batch.y.float())
            else:
                loss = F.cross_entropy(logits, batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            for loader in others:
                for batch in loader:
                    network(batch.to(device)).sum().item()
        times.append(time.perf_counter() - start)
    return times


def engine_epochs(recipe: study.Recipe, number: int, folder: Path | None, device: str) -> list[float]:
    """Seconds of each epoch of some replicas together."""
    stamps: list[float] = []
    block = study.Block(recipe, 0, tuple(range(number)), folder, device)
    study.train_block(block, lambda *_: stamps.append(time.perf_counter()))
    return [after - before for before, after in pairwise(stamps)]


def workers_epochs(recipe: study.Recipe, number: int, folder: Path | None, workers: int) -> list[float]:
    """Seconds of an epoch of some replicas on several processes: those of the slowest process."""
    stamps: dict[tuple[int, ...], list[float]] = {}

    def report(block: study.Block, *_: Any) -> None:
        stamps.setdefault(block.replicas, []).append(time.perf_counter())

    size = -(-number // workers)
    blocks = [study.Block(recipe, 0, tuple(range(at, min(at + size, number))), folder) for at in range(0, number, size)]
    with tempfile.TemporaryDirectory() as temporary:
        list(study.execute(blocks, Path(temporary) / "study.sqlite", workers, report))
    medians = [median(after - before for before, after in pairwise(times)) for times in stamps.values()]
    return [max(medians)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", nargs="?", default="PROTEINS")
    parser.add_argument("--data", type=Path, default=os.environ.get("COMPOOL_DATA"), help="folder with data sets")
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=6, help="epochs of each measurement")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the numbers to this file")
    args = parser.parse_args()
    console, number = Console(width=120), args.replicas
    folder = Path(args.data) if args.data else None
    recipe = study.recipe("component", args.dataset, epochs=args.epochs)
    full = study.recipe("component", args.dataset).epochs
    graphs = load_data(recipe, folder)

    seconds: dict[str, float] = {}  # per epoch and replica
    with console.status("PyG"):
        seconds["PyG's layers, one replica at a time"] = median(pyg_epochs(recipe, graphs, 3, args.device)[1:])
    with console.status("the engine, one replica"):
        seconds["engine, one replica at a time"] = median(engine_epochs(recipe, 1, folder, args.device))
    with console.status(f"the engine, {number} replicas"):
        seconds[f"engine, {number} together"] = median(engine_epochs(recipe, number, folder, args.device)) / number
    workers = num_cpus()
    if args.device == "cpu" and workers > 1:
        with console.status(f"the engine, {workers} workers"):
            took = median(workers_epochs(recipe, number, folder, workers))
            seconds[f"engine, {number} on {workers} workers"] = took / number

    table = Table("", title=f"{args.dataset}, recipe fast, {full} epochs, {args.device}")
    for heading in ("ms per epoch and replica", "replicas per hour", "times PyG's", "times one at a time"):
        table.add_column(heading, justify="right")
    pyg, one, *_ = seconds.values()
    for name, took in seconds.items():
        numbers = (1e3 * took, 3600 / took / full, pyg / took, one / took)
        table.add_row(name, *(f"{value:,.1f}" for value in numbers))
    console.print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"dataset": args.dataset, "epochs": full, "seconds": seconds}, indent=1))


if __name__ == "__main__":
    main()
