"""Classify the papers of Cora and CiteSeer (public split): ComponentUNet against PyG's GraphUNet and a GCN.

    python examples/node_classification.py --data FOLDER      # FOLDER/Planetoid contains ind.cora.x and so on

Every method gets the same budget: 200 epochs of Adam at a learning rate of 0.01 and a weight decay of 0.001, as in
PyG's GraphUNet example, and four settings (two dropout rates times two values of one setting of its own), each tried
once. The setting with the best validation accuracy is then trained with --seeds other initial weights. The result of a
training run is its test accuracy at the epoch of best validation accuracy, which is measured every fourth epoch;
nothing is chosen by test accuracy. Times are CPU times of one training run, without evaluation. The files of these sets
are pickles, which PyG reads, so take them from a source that you trust.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch_geometric.data import Data
from torch_geometric.io import read_planetoid_data
from torch_geometric.nn import GCN, GraphUNet
from torch_geometric.transforms import NormalizeFeatures

from compool import ComponentUNet

HIDDEN, LEARNING_RATE, WEIGHT_DECAY = 32, 0.01, 1e-3
DROPOUT, TUNING_SEED, EVERY = (0.5, 0.9), 1000, 4


class Method(NamedTuple):
    """A network, and the setting of its own that is tuned."""

    name: str
    own: tuple[int, int]
    make: Callable[[Data, int, int, float], torch.nn.Module]


METHODS = {
    "GCN": Method("layers", (2, 3), lambda data, classes, own, p: GCN(data.num_features, HIDDEN, own, classes, p)),
    "ComponentUNet": Method(
        "depth",
        (1, 2),
        lambda data, classes, own, p: ComponentUNet(data.num_features, HIDDEN, classes, depth=own, dropout=p),
    ),
    "GraphUNet": Method(
        "depth",
        (2, 3),
        lambda data, classes, own, p: GraphUNet(  # pool ratios as in PyG's example
            data.num_features, HIDDEN, classes, own, pool_ratios=[2000 / data.num_nodes] + [0.5] * (own - 1)
        ),
    ),
}


class Setting(NamedTuple):
    """What is tuned."""

    dropout: float
    own: int


class Result(NamedTuple):
    """Accuracies at the epoch of best validation accuracy, that epoch, and seconds."""

    validation: float
    test: float
    epoch: int
    seconds: float


def train(method: Method, data: Data, setting: Setting, seed: int, epochs: int) -> Result:
    """One training."""
    torch.manual_seed(seed)
    classes = int(data.y.max()) + 1
    network = method.make(data, classes, setting.own, setting.dropout)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    nonzero_ids, x = data.x.view(-1).nonzero().squeeze(1), torch.zeros_like(data.x)
    present = data.x.view(-1)[nonzero_ids]
    best, seconds = (0.0, 0.0, 0), 0.0
    for epoch in range(epochs):
        began = time.process_time()
        network.train()
        x.view(-1)[nonzero_ids] = F.dropout(present, setting.dropout)  # most features are zero and stay so
        logits = network(x, data.edge_index)
        loss = F.cross_entropy(logits[data.train_mask], data.y[data.train_mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds += time.process_time() - began
        if epoch % EVERY == EVERY - 1:  # evaluating takes nearly as long as training
            network.eval()
            with torch.no_grad():
                right = (network(data.x, data.edge_index).argmax(1) == data.y).float()
            now = (right[data.val_mask].mean().item(), right[data.test_mask].mean().item(), epoch + 1)
            best = now if now[0] >= best[0] else best
    return Result(*best, seconds)


def train_apart(label: str, data: Data, setting: Setting, seed: int, epochs: int) -> Result:
    """:func:`train` in a process of its own: torch's products of sparse matrices, which GraphUNet uses, lose memory."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_train, (label, data, setting, seed, epochs))


def _train(label: str, *args: Any) -> Result:
    return train(METHODS[label], *args)


def tune(label: str, data: Data, epochs: int, on_training: Callable[[], None]) -> Setting:
    """The setting with the best validation accuracy."""
    validation = {}
    for setting in (Setting(*values) for values in itertools.product(DROPOUT, METHODS[label].own)):
        validation[setting] = train_apart(label, data, setting, TUNING_SEED, epochs).validation
        on_training()
    return max(validation, key=lambda setting: validation[setting])


def row(results: list[Result]) -> list[str]:
    """The cells of a table: mean and deviation of test accuracies, means of the others."""
    tests = [result.test for result in results]
    return [
        f"{mean(tests):.1%} ± {stdev(tests):.1%}",
        f"{mean(result.validation for result in results):.1%}",
        f"{mean(result.epoch for result in results):.0f}",
        f"{mean(result.seconds for result in results):.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COMPOOL_DATA"), help="folder (or COMPOOL_DATA)")
    parser.add_argument("--sets", nargs="+", default=["Cora", "CiteSeer"], choices=["Cora", "CiteSeer", "PubMed"])
    parser.add_argument("--seeds", type=int, default=20, help="training runs per method (default: 20)")
    parser.add_argument("--epochs", type=int, default=200, help="epochs per training run (default: 200)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="file to write the numbers to")
    args = parser.parse_args()
    if args.seeds < 2 or args.epochs < EVERY:
        parser.error(f"--seeds must be at least 2, --epochs at least {EVERY}")
    if args.data is None:
        parser.error("name the folder that has Planetoid/ind.cora.x and so on: --data FOLDER, or COMPOOL_DATA")
    folder = Path(args.data) / "Planetoid"
    missing = [name for name in args.sets if not (folder / f"ind.{name.lower()}.x").is_file()]
    if missing:
        parser.error(f"{folder} has no {missing[0]}: expected ind.{missing[0].lower()}.x and its companions there")

    warnings.filterwarnings("ignore", "Sparse")  # PyG's GraphUNet multiplies sparse matrices
    console, results_by_method = Console(), list[dict[str, object]]()
    table = Table("data set", "method", "test accuracy", "validation", "at epoch", "seconds", "setting")
    with Progress(console=console) as progress:
        for name in args.sets:
            data = NormalizeFeatures()(read_planetoid_data(str(folder), name.lower()))
            total = sum(len(DROPOUT) * len(method.own) + args.seeds for method in METHODS.values())
            on_training = partial(progress.advance, progress.add_task(name, total=total))
            chosen = {label: tune(label, data, args.epochs, on_training) for label in METHODS}
            results: dict[str, list[Result]] = {label: [] for label in METHODS}
            results_by_method += [
                {"set": name, "method": label, "setting": chosen[label]._asdict(), "runs": results[label]}
                for label in METHODS
            ]
            for seed in range(args.seeds):  # methods take turns, so that a busy machine slows all of them
                for label in METHODS:
                    results[label].append(train_apart(label, data, chosen[label], seed, args.epochs))
                    on_training()
                if args.json:
                    write(results_by_method, args.json)
            for label, method in METHODS.items():
                setting = f"dropout {chosen[label].dropout}, {method.name} {chosen[label].own}"
                table.add_row(name, label, *row(results[label]), setting)
    console.print(table)


def write(results_by_method: list[dict[str, object]], path: Path) -> None:
    """Write results, in place of what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(results_by_method, indent=1))
    new.replace(path)


if __name__ == "__main__":
    main()
