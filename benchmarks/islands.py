"""Does the layer learn what to merge? One red island or two, with added channels of noise, and on larger grids.

PYTHONPATH=. python benchmarks/islands.py               # ten seeds of every row: about ten minutes on one core
PYTHONPATH=. python benchmarks/islands.py --seeds 2 --rows plain
"""

import argparse
import json
import time

import torch

from compool import ComponentPooling
from compool.data import color_connectivity
from examples.color_connectivity import Islands, accuracy, train, with_noise

# Channels of noise, their standard deviation, epochs, and the side of the grids to test on
ROWS = {
    "plain": (0, 0.0, 10, 16),
    "4 channels of noise, σ 0.5": (4, 0.5, 30, 16),
    "14 channels of noise, σ 1": (14, 1.0, 40, 16),
    "plain, tested on 64 × 64": (0, 0.0, 10, 64),
    "4 channels of noise, σ 0.5, tested on 64 × 64": (4, 0.5, 30, 64),
}
LAYERS = {
    "similarity, graded": {"scorer": "similarity", "reduce": "graded"},
    "similarity, mean": {"scorer": "similarity", "reduce": "mean"},
    "similarity, score": {"scorer": "similarity", "reduce": "score"},
    "linear, score (the paper)": {},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--layers", nargs="*", default=["similarity, graded"], choices=list(LAYERS), metavar="LAYER")
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
        for layer in args.layers:
            accuracies, began = [], time.perf_counter()
            for seed in range(args.seeds):
                torch.manual_seed(seed)
                network = Islands(2 + channels)
                network.pool = ComponentPooling(2 + channels, **LAYERS[layer])
                train(network, training, epochs)
                accuracies.append(round(100 * accuracy(network, held_out), 1))
            seconds = round((time.perf_counter() - began) / args.seeds, 1)
            results.append({"row": row, "layer": layer, "accuracies": accuracies, "seconds": seconds})
            if not args.json:
                shown = " ".join(f"{value:g}" for value in accuracies)
                print(f"{row}; {layer}: {shown} ({seconds} s each)", flush=True)
    if args.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
