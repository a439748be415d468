"""Does pooling lose what a network could distinguish? A GIN without pooling, with component pooling, TopK and SAG.

    python examples/expressiveness.py --data FOLDER      # FOLDER contains EXP.zip and CEXP.zip; wl_pairs is generated

- EXP: pairs of graphs of different classes that 1-WL cannot distinguish. No network here can beat chance.
- CEXP: the same, but 1-WL distinguishes half of the pairs; the accuracy is given for that half and for the other.
- wl_pairs: generated pairs that two rounds of 1-WL distinguish.

Every network has two GIN layers, pooling, one GIN layer and a sum. Pairs stay together in the training, validation (a
tenth) and test sets (a tenth). The result of a training run is its test accuracy at the epoch of best validation
accuracy, which is measured on the graphs of CEXP that 1-WL distinguishes, and on all graphs of the other sets. TopK and
SAG keep half of the nodes.
"""

import argparse
import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, GINConv, SAGPooling, TopKPooling, global_add_pool

from compool import ComponentPooling
from compool.data import GraphSet, load, wl_classes, wl_pairs

HIDDEN = 32
POOLINGS: dict[str, Callable[[], torch.nn.Module | None]] = {
    "no pooling": lambda: None,
    "ComponentPooling": lambda: ComponentPooling(HIDDEN),
    "ComponentPooling, symmetric": lambda: ComponentPooling(HIDDEN, symmetric=True),
    "TopKPooling": lambda: TopKPooling(HIDDEN, ratio=0.5),
    "SAGPooling": lambda: SAGPooling(HIDDEN, ratio=0.5),
}


class Network(torch.nn.Module):
    """Convolve twice, pool, convolve, read out."""

    def __init__(self, channels: int, pooling: torch.nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.conv2, self.conv3 = (
            GINConv(MLP([width, HIDDEN, HIDDEN])) for width in (channels, HIDDEN, HIDDEN)
        )
        self.pool = pooling
        self.head = MLP([HIDDEN, HIDDEN, 2], norm=None)

    def forward(self, batch: Batch) -> tuple[Tensor, float]:
        """The logits, and the share of nodes that pooling kept."""
        x, edge_index, graph = batch.x, batch.edge_index, batch.batch
        x = self.conv2(self.conv1(x, edge_index).relu(), edge_index).relu()
        if isinstance(self.pool, ComponentPooling):
            x, edge_index, graph = self.pool(x, edge_index, graph)[:3]
        elif self.pool is not None:
            x, edge_index, _, graph, *_ = self.pool(x, edge_index, batch=graph)
        kept = x.size(0) / batch.num_nodes
        x = self.conv3(x, edge_index).relu()
        return self.head(global_add_pool(x, graph, batch.num_graphs)), kept


def evaluate(network: Network, loader: DataLoader) -> tuple[Tensor, float]:
    """Which graphs are classified right, and the share of nodes kept."""
    network.eval()
    right, kept = [], []
    with torch.no_grad():
        for batch in loader:
            logits, share = network(batch)
            right.append(logits.argmax(1) == batch.y)
            kept.append(share)
    return torch.cat(right), mean(kept)


def train(
    name: str, graphs: list[Data], is_distinguished: Tensor, seed: int, epochs: int, on_epoch: Callable[[], None]
) -> tuple[float, float | None, float]:
    """One training: test accuracy on graphs that 1-WL distinguishes (or on all), on the others, and the nodes kept."""
    torch.manual_seed(seed)
    pairs = torch.randperm(len(graphs) // 2)
    order = torch.stack([2 * pairs, 2 * pairs + 1], dim=1).view(-1)
    tenth = 2 * (len(pairs) // 10)
    test, validation, training = order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]
    loaders = [DataLoader([graphs[i] for i in part], 256) for part in (validation, test)]
    network = Network(graphs[0].num_features, POOLINGS[name]())
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    counts = is_distinguished if is_distinguished.any() else ~is_distinguished
    best, state = -1.0, network.state_dict()
    for _ in range(epochs):
        network.train()
        for batch in DataLoader([graphs[i] for i in training], batch_size=32, shuffle=True):
            loss = F.cross_entropy(network(batch)[0], batch.y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        now = evaluate(network, loaders[0])[0][counts[validation]].float().mean().item()
        if now >= best:
            best, state = now, copy.deepcopy(network.state_dict())
        on_epoch()
    network.load_state_dict(state)
    right, kept = evaluate(network, loaders[1])
    inside, outside = right[counts[test]].float(), right[~counts[test]].float()
    return inside.mean().item(), outside.mean().item() if len(outside) else None, kept


def read(name: str, data: Path | None, pairs: int) -> tuple[GraphSet, Tensor]:
    """A set, and which of its graphs share their 1-WL class with none of the other label."""
    graphs = wl_pairs(pairs) if name == "wl_pairs" else load(name, data)
    kinds: dict[int, set[int]] = {}
    classes = wl_classes(graphs).tolist()
    for kind, y in zip(classes, graphs.y.tolist(), strict=True):
        kinds.setdefault(kind, set()).add(y)
    return graphs, torch.tensor([len(kinds[kind]) == 1 for kind in classes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COMPOOL_DATA"), help="folder (or COMPOOL_DATA)")
    parser.add_argument("--sets", nargs="+", default=["EXP", "CEXP", "wl_pairs"], choices=["EXP", "CEXP", "wl_pairs"])
    parser.add_argument("--poolings", nargs="+", default=list(POOLINGS), choices=list(POOLINGS), metavar="NAME")
    parser.add_argument("--pairs", type=int, default=600, help="number of wl_pairs (default: 600)")
    parser.add_argument("--seeds", type=int, default=3, help="training runs per network (default: 3)")
    parser.add_argument("--epochs", type=int, default=30, help="epochs per training run (default: 30)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="file to write the numbers to")
    args = parser.parse_args()
    if args.seeds < 1 or args.epochs < 1 or args.pairs < 10:
        parser.error("--seeds and --epochs must be at least 1, --pairs at least 10")
    if args.data is None and args.sets != ["wl_pairs"]:
        parser.error("name the folder that has EXP.zip and CEXP.zip: --data FOLDER, or COMPOOL_DATA")
    try:
        sets = {name: read(name, args.data, args.pairs) for name in args.sets}
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))

    console, results = Console(), []
    table = Table("data set", "pooling", "distinguished by 1-WL", "not", "nodes kept")
    with Progress(console=console) as progress:
        for name, (graphs, is_distinguished) in sets.items():
            data = list(graphs)
            for pooling in args.poolings:
                task = progress.add_task(f"{name}, {pooling}", total=args.seeds * args.epochs)
                on_epoch = lambda task=task: progress.advance(task)  # noqa: E731
                runs = [
                    train(pooling, data, is_distinguished, seed, args.epochs, on_epoch) for seed in range(args.seeds)
                ]
                inside, outside, kept = zip(*runs, strict=True)
                shown = [_shown(inside), _shown([value for value in outside if value is not None])]
                shown = shown if is_distinguished.any() else shown[::-1]
                table.add_row(name, pooling, *shown, f"{mean(kept):.0%}")
                results.append({"set": name, "pooling": pooling, "runs": runs})
    console.print(table)
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        partial = args.json.with_name(f".{args.json.name}.{os.getpid()}")
        partial.write_text(json.dumps(results, indent=1))
        partial.replace(args.json)


def _shown(values: list[float]) -> str:
    if not values:
        return "–"
    return f"{mean(values):.1%}" + (f" ± {stdev(values):.1%}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
