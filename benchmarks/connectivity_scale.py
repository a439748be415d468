"""Test networks that a study trained on 16 × 16 grids on larger ones; a table, and a plot of accuracy by side.

    python benchmarks/connectivity_scale.py --store study.sqlite --trust --out out/connectivity
    python benchmarks/connectivity_scale.py --store study.sqlite --trust --also out/message-passing.json

If the stores have several recipes of a method, its name has the recipe. `--trust` runs the code of networks that are
not compool's, which the study has stored with their weights. `--also` adds what this script or `connectivity.py` wrote
before; if a method is in several files, the last one is used.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch.nn import Module
from torch_geometric.loader import DataLoader

from compool._files import atomic_write
from compool.data import GraphSet, color_connectivity
from compool.report.plotting import COLOURS, COLUMN, LINE_STYLES, STYLE, canvas, save_figure
from compool.study import Store
from compool.study.kept import kept_network, recipe_of
from compool.study.own_network import build
from compool.study.runs import Run, decode_weights

TRAINED = 16
NAMES = {
    ("component", "learned"): "component pooling, learned",
    ("component", "fast"): "component pooling, the paper's",
    ("VirtualNode", ""): "GIN with a virtual node",
    ("GIN4", ""): "GIN, 4 layers",
    ("GIN8", ""): "GIN, 8 layers",
    ("GIN16", ""): "GIN, 16 layers",
    ("UNet", ""): "GraphUNet",
    ("SAG", ""): "SAGPooling",
    ("TopK", ""): "TopKPooling",
    ("EdgePool", ""): "EdgePooling",
}


def names_of(runs: Iterable[Run]) -> dict[tuple[str, str], str]:
    """The name of each method and recipe; it has the recipe if there are several of a method."""
    pairs = {(run.method, run.recipe) for run in runs}
    names = {pair: NAMES.get(pair) or NAMES.get((pair[0], "")) or pair[0] for pair in pairs}
    shared = Counter(names.values())
    return {
        (method, recipe): f"{name}, {recipe}" if shared[name] > 1 else name for (method, recipe), name in names.items()
    }


def network_of(run: Run, weights: bytes, trust: bool) -> Module:
    """The network of a run, in evaluation mode."""
    recipe = recipe_of(run)
    if not recipe.own_network:
        return kept_network(run, weights, width=2, num_classes=2)
    if not trust:
        raise SystemExit(f"the study holds the code of {run.method}; if you trust it, allow it with --trust")
    network = build(recipe.own_network, run.own_source, 2, 2, recipe.arguments)
    network.load_state_dict(decode_weights(weights))
    return network.eval()


@torch.no_grad()
def accuracy(network: Module, graphs: GraphSet) -> float:
    size = max(1, 2**18 // (graphs.num_nodes // len(graphs)))
    extra = {"batch_size"} & set(network.forward.__code__.co_varnames)
    correct = 0
    for batch in DataLoader(graphs, batch_size=size):
        logits = network(batch.x, batch.edge_index, batch.batch, **dict.fromkeys(extra, batch.num_graphs))
        predicted = logits.squeeze(1) > 0 if logits.size(1) == 1 else logits.argmax(1)
        correct += int((predicted == batch.y).sum())
    return correct / len(graphs)


def read_numbers(path: Path) -> dict[str, dict[int, list[float]]]:
    """The accuracies by side in a file of this script, or of `connectivity.py`."""
    numbers = json.loads(path.read_text())
    if isinstance(numbers, list):  # of connectivity.py
        rows = [row for row in numbers if row["topology"] == f"grid-{TRAINED}" and row["test"]]
        numbers = {
            NAMES.get((row["method"], ""), row["method"]): {TRAINED: row["test"], **row["sides"]} for row in rows
        }
    return {name: {int(side): each for side, each in by_side.items()} for name, by_side in numbers.items()}


def draw(accuracies: dict[str, dict[int, list[float]]], folder: Path) -> list[Path]:
    """The mean accuracy of each method against the side of the grid."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        figure, axes = canvas(COLUMN, 3.2)
        for index, (name, by_side) in enumerate(accuracies.items()):
            style = {"color": COLOURS[index % len(COLOURS)], "linestyle": LINE_STYLES[index % len(LINE_STYLES)]}
            means = [100 * fmean(each) for each in by_side.values()]
            axes.plot(list(by_side), means, label=name, marker="osD^v"[index % 5], markersize=3, linewidth=1, **style)
        axes.axvline(TRAINED, color="black", linewidth=0.6, linestyle=":")
        axes.set_xscale("log", base=2)
        sides = sorted({side for by_side in accuracies.values() for side in by_side})
        axes.set_xticks(sides, [str(side) for side in sides])
        axes.set_xlabel(f"side of the grid; all networks were trained on {TRAINED} × {TRAINED}")
        axes.set_ylabel("test accuracy, %")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=6, frameon=False)
        return save_figure(figure, folder, "scale")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, nargs="*", default=[], help="files of one or more studies")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="numbers of earlier runs (JSON)")
    parser.add_argument("--sides", type=int, nargs="*", default=[32, 64, 128, 256])
    parser.add_argument("--trust", action="store_true", help="run the code of networks that are not compool's")
    parser.add_argument("--out", type=Path, default=Path("out/connectivity"), help="folder of scale.json and scale.png")
    args = parser.parse_args()
    stores = [Store(path) for path in args.store]
    stored = [(store, run) for store in stores for run in store.runs([f"color-connectivity-{TRAINED}"], curves=False)]
    stored = [(store, run) for store, run in stored if run.status == "done"]
    if not stored and not args.also:
        raise SystemExit(f"no run on color-connectivity-{TRAINED} in {', '.join(map(str, args.store))}")
    larger = {side: color_connectivity(f"grid-{side}", 200 if side < 128 else 100, seed=1) for side in args.sides}
    accuracies: dict[str, dict[int, list[float]]] = {}
    for path in args.also:
        accuracies |= read_numbers(path)
    measured: dict[str, dict[int, list[float]]] = {}
    names = names_of(run for _, run in stored)
    for store, run in track(stored, "networks", transient=True):
        network = network_of(run, store.weights(run), args.trust)
        by_side = measured.setdefault(names[run.method, run.recipe], defaultdict(list))
        by_side[TRAINED].append(run.test)
        for side, graphs in larger.items():
            by_side[side].append(accuracy(network, graphs))
    accuracies = dict(sorted((accuracies | measured).items(), key=lambda item: -fmean(item[1][TRAINED])))
    with atomic_write(args.out / "scale.json") as partial:
        partial.write_text(json.dumps(accuracies, indent=1))
    sides = sorted({side for by_side in accuracies.values() for side in by_side})
    table = Table("test accuracy, % (mean over folds)", "folds", *(f"{side} × {side}" for side in sides))
    for name, by_side in accuracies.items():
        means = [f"{100 * fmean(by_side[side]):.1f}" if side in by_side else "–" for side in sides]
        table.add_row(name, str(len(by_side[TRAINED])), *means)
    Console(width=120).print(table)
    print(draw(accuracies, args.out)[0])


if __name__ == "__main__":
    main()
