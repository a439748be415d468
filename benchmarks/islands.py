"""Does the layer learn what to merge? One red island or two, with added channels of noise, and on larger grids.

PYTHONPATH=. python benchmarks/islands.py               # ten seeds of every row: about ten minutes on one core
PYTHONPATH=. python benchmarks/islands.py --seeds 2 --rows plain
PYTHONPATH=. python benchmarks/islands.py --seeds 3 --rows plain noise-14 --networks "scorer frozen" EdgePooling

Component pooling is trained at one learning rate. The other networks have more epochs and three learning rates, of
which the one with the best mean test accuracy is reported.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import fmean

import torch
from connectivity_networks import EdgePool, TopK, VirtualNode
from torch import Tensor, nn

from compool import ComponentPooling
from compool.data import color_connectivity
from examples.color_connectivity import Islands, accuracy, train, with_noise

# Channels of noise, their standard deviation, epochs, and the side of the grids to test on
ROWS = {
    "plain": (0, 0.0, 10, 16),
    "noise-4": (4, 0.5, 30, 16),
    "noise-14": (14, 1.0, 40, 16),
    "plain, 64 × 64": (0, 0.0, 10, 64),
    "noise-4, 64 × 64": (4, 0.5, 30, 64),
}
LR = 0.01
OTHER_EPOCHS, OTHER_LRS = 60, (0.001, 0.003, 0.01)


def islands(channels: int, **settings: str) -> nn.Module:
    """The example's network with other settings of the layer."""
    network = Islands(channels)
    network.pool = ComponentPooling(channels, **settings)
    return network


def frozen(channels: int) -> nn.Module:
    """The example's network with a scorer that is not trained; its running statistics are updated."""
    network = Islands(channels)
    network.pool.requires_grad_(False)
    return network


class Baseline(nn.Module):
    """A network of `connectivity_networks`, called as the example's is."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """The logits of each graph [graphs, 2]."""
        return self.network(x, edge_index, batch, int(batch[-1]) + 1)


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "component pooling": lambda channels: islands(channels, scorer="similarity", reduce="graded"),
    "reduce=mean": lambda channels: islands(channels, scorer="similarity", reduce="mean"),
    "reduce=score": lambda channels: islands(channels, scorer="similarity", reduce="score"),
    "the paper's": lambda channels: islands(channels),
    "scorer frozen": frozen,
    "GIN with a virtual node": lambda channels: Baseline(VirtualNode(channels, 2)),
    "EdgePooling": lambda channels: Baseline(EdgePool(channels, 2)),
    "TopKPooling": lambda channels: Baseline(TopK(channels, 2)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    default = ["component pooling"]
    parser.add_argument("--networks", nargs="*", default=default, choices=list(NETWORKS), metavar="NETWORK")
    parser.add_argument("--train", type=int, default=1200, help="graphs to train on")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = []
    for row in args.rows:
        channels, sigma, epochs, side = ROWS[row]
        graphs = with_noise(list(color_connectivity("grid-16", args.train + 600)), channels, sigma, 0)
        held_out, training = graphs[:600], graphs[600:]
        if side != 16:
            held_out = with_noise(list(color_connectivity(f"grid-{side}", 600, 1)), channels, sigma, 1)
        for name in args.networks:
            began, best = time.perf_counter(), [0.0]
            settings = [(OTHER_EPOCHS, lr) for lr in OTHER_LRS] if name not in default else [(epochs, LR)]
            for num_epochs, lr in settings:
                accuracies = []
                for seed in range(args.seeds):
                    torch.manual_seed(seed)
                    network = NETWORKS[name](2 + channels)
                    train(network, training, num_epochs, lr)
                    accuracies.append(round(100 * accuracy(network, held_out), 1))
                best = max(best, accuracies, key=fmean)
            seconds = round((time.perf_counter() - began) / args.seeds / len(settings), 1)
            results.append({"row": row, "network": name, "accuracies": best, "seconds": seconds})
            if not args.json:
                print(f"{row}; {name}: {' '.join(f'{value:g}' for value in best)} ({seconds} s each)", flush=True)
    if args.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
