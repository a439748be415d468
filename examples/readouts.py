"""Readouts compared: sum, mean, attention, and GlobalComponentPooling, behind the same GIN layers.

    python examples/readouts.py --data FOLDER --set MUTAG       # FOLDER contains MUTAG.zip

Each training run has its own 80/10/10 split and initial weights, which are the same for every readout. Its result is
the test accuracy at the epoch of best validation accuracy. The settings are the same for all readouts, and not tuned.
"""

import argparse
import os
from pathlib import Path
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, AttentionalAggregation, GINConv, global_add_pool, global_mean_pool

from compool import GlobalComponentPooling
from compool.data import GraphSet, load, split

HIDDEN, LEARNING_RATE = 32, 0.005
READOUTS = {
    "sum": lambda: global_add_pool,
    "mean": lambda: global_mean_pool,
    "attention": lambda: AttentionalAggregation(torch.nn.Linear(HIDDEN, 1)),
    "GlobalComponentPooling": lambda: GlobalComponentPooling(HIDDEN),
    "GlobalComponentPooling, mean": lambda: GlobalComponentPooling(HIDDEN, reduce="mean"),
}


class Network(torch.nn.Module):
    """Three GIN layers, a readout, a perceptron."""

    def __init__(self, channels: int, classes: int, readout: str) -> None:
        super().__init__()
        widths = (channels, HIDDEN, HIDDEN)
        self.convs = torch.nn.ModuleList(GINConv(MLP([width, HIDDEN, HIDDEN])) for width in widths)
        self.readout = READOUTS[readout]()
        self.head = MLP([HIDDEN, HIDDEN, classes], norm=None)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [graphs, classes]."""
        x, edge_index = batch.x, batch.edge_index
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        if isinstance(self.readout, GlobalComponentPooling):
            read = self.readout(x, edge_index, batch.batch, batch_size=batch.num_graphs)
        else:
            read = self.readout(x, batch.batch)
        return self.head(read)


def train(graphs: GraphSet, readout: str, replica: int, epochs: int) -> float:
    """The test accuracy of one training."""
    torch.manual_seed(replica)
    data = list(graphs)
    parts = [[data[i] for i in part] for part in split(graphs, replica=replica)]
    training, validation, test = (DataLoader(part, 64, shuffle=index == 0) for index, part in enumerate(parts))
    network = Network(data[0].num_features, graphs.num_classes, readout)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    best = (-1.0, 0.0)
    for _ in range(epochs):
        network.train()
        for batch in training:
            optimizer.zero_grad()
            F.cross_entropy(network(batch), batch.y).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            right = [[(network(batch).argmax(1) == batch.y).float() for batch in part] for part in (validation, test)]
        now = tuple(torch.cat(part).mean().item() for part in right)
        best = now if now[0] >= best[0] else best
    return best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COMPOOL_DATA"), help="folder (or COMPOOL_DATA)")
    parser.add_argument("--set", default="MUTAG", dest="name", help="a TU data set (default: MUTAG)")
    parser.add_argument("--replicas", type=int, default=20, help="training runs per readout (default: 20)")
    parser.add_argument("--epochs", type=int, default=50, help="epochs per training run (default: 50)")
    args = parser.parse_args()
    if args.replicas < 2 or args.epochs < 1:
        parser.error("--replicas must be at least 2, --epochs at least 1")
    try:
        graphs = load(args.name, args.data)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    if graphs.task != "classification":
        parser.error(f"--set must have classes, but {args.name} is for {graphs.task}")

    console, table = Console(), Table("readout", "test accuracy")
    with Progress(console=console) as progress:
        for readout in READOUTS:
            replicas = progress.track(range(args.replicas), description=f"{args.name}, {readout}")
            tests = [train(graphs, readout, replica, args.epochs) for replica in replicas]
            table.add_row(readout, f"{mean(tests):.1%} ± {stdev(tests):.1%}")
    console.print(table)


if __name__ == "__main__":
    main()
