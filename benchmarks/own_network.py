"""Time of an epoch of your own network in a study, compared with a loop written by hand with PyG's DataLoader.

    python benchmarks/own_network.py                      generated graphs, three networks
    python benchmarks/own_network.py MUTAG --data FOLDER --epochs 30

An epoch is training, and evaluation on the validation and test graphs. Both loops train the same network with the same
batch size and torch's AdamW; epochs of the two alternate, and their medians are compared.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch_geometric.loader import DataLoader

from compool import study
from compool.data import GraphSet, split
from compool.replicas.trainer import Curves
from compool.study import recipe_data
from compool.study.own_network import build

NETWORKS = '''
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, global_add_pool


class GCN(torch.nn.Module):
    def __init__(self, in_channels, num_classes, hidden=64):
        super().__init__()
        self.convs = torch.nn.ModuleList(GCNConv(width, hidden) for width in (in_channels, hidden))
        self.out = torch.nn.Linear(hidden, num_classes)

    def forward(self, x, edge_index, batch):
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.out(global_add_pool(x, batch))


class GAT(GCN):
    def __init__(self, in_channels, num_classes, hidden=64):
        super().__init__(in_channels, num_classes, hidden)
        self.convs = torch.nn.ModuleList(GATConv(width, hidden // 4, heads=4) for width in (in_channels, hidden))


class Linear(torch.nn.Module):
    """Almost no computation: the rest is the cost of the loop itself."""

    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.out = torch.nn.Linear(in_channels, num_classes)

    def forward(self, x, edge_index, batch):
        return self.out(global_add_pool(x, batch))
'''


def hand_written(recipe: study.Recipe, graphs: GraphSet) -> Callable[[], float]:
    """A plain loop; each call trains an epoch and returns its seconds."""
    width = graphs[0].num_features
    network = build(recipe.own_network, NETWORKS, width, graphs.num_classes, recipe.arguments)
    optimizer = torch.optim.AdamW(network.parameters(), recipe.lr, weight_decay=recipe.weight_decay)
    parts = split(graphs, 0, 0)
    data = list(graphs)
    train = DataLoader([data[graph] for graph in parts.train], recipe.batch, shuffle=True)
    held_out = [DataLoader([data[graph] for graph in ids], 128) for ids in (parts.validation, parts.test)]

    def epoch() -> float:
        began = time.perf_counter()
        network.train()
        for batch in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(network(batch.x, batch.edge_index, batch.batch), batch.y)
            loss.backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            for loader in held_out:
                correct, total = 0, 0.0
                for batch in loader:
                    logits = network(batch.x, batch.edge_index, batch.batch)
                    correct += int((logits.argmax(1) == batch.y).sum())
                    total += float(F.cross_entropy(logits, batch.y, reduction="sum"))
        return time.perf_counter() - began

    return epoch


def measure(name: str, dataset: str, folder: Path | None, epochs: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / "networks.py").write_text(NETWORKS)
        recipe = study.recipe(f"{temporary}/networks.py:{name}", dataset, epochs=epochs + 1)
        graphs = recipe_data.load_data(recipe, folder)
        by_hand = hand_written(recipe, graphs)
        (block,) = study.plan([recipe], 1, 0, Path(temporary) / "study.sqlite", folder)
        seconds: dict[str, list[float]] = {"study": [], "by_hand": []}
        last = time.perf_counter()

        def on_epoch(_: study.Block, epoch: int, curves: Curves) -> None:
            nonlocal last
            ours, theirs = time.perf_counter() - last, by_hand()
            if epoch > 1:  # the first compiles kernels
                seconds["study"].append(ours)
                seconds["by_hand"].append(theirs)
            last = time.perf_counter()

        study.train_block(block, on_epoch, graphs)
    study_ms, by_hand_ms = (1000 * statistics.median(seconds[loop]) for loop in ("study", "by_hand"))
    return {
        "dataset": dataset,
        "network": name,
        "study_ms": round(study_ms, 2),
        "by_hand_ms": round(by_hand_ms, 2),
        "ratio": round(study_ms / by_hand_ms, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["communities"])
    parser.add_argument("--networks", nargs="+", default=["GCN", "GAT", "Linear"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    for dataset in options.datasets:
        for network in options.networks:
            print(json.dumps(measure(network, dataset, options.data, options.epochs)), flush=True)


if __name__ == "__main__":
    main()
