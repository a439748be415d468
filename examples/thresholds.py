"""Draw what merges at every threshold: a dendrogram, and the number of supernodes against the threshold.

    python examples/thresholds.py                                             # Zachary's karate club
    python examples/thresholds.py --data FOLDER --set PROTEINS --graph 7      # a graph of FOLDER/PROTEINS.zip

The score of an edge is the share of neighbours that its ends have in common (Jaccard similarity; a node counts as its
own neighbour). One spanning forest answers all thresholds.
"""

import argparse
import os
from pathlib import Path

import matplotlib
import networkx as nx
import torch
from scipy.cluster.hierarchy import dendrogram
from torch import Tensor

import compool
from compool.data import load

matplotlib.use("agg")
from matplotlib import pyplot as plt


def common_neighbours(edge_index: Tensor, num_nodes: int) -> Tensor:
    """The score of each edge [E]."""
    near = [{node} for node in range(num_nodes)]
    for source, target in edge_index.t().tolist():
        near[source].add(target)
    return torch.tensor([len(near[u] & near[v]) / len(near[u] | near[v]) for u, v in edge_index.t().tolist()])


def draw(levels: compool.Hierarchy, name: str, path: Path) -> None:
    """The dendrogram, and the number of supernodes at 200 thresholds."""
    thresholds = torch.linspace(0, 1, 200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    labels = levels.num_nodes <= 60
    dendrogram(levels.linkage(top=1.0), ax=left, color_threshold=0, no_labels=not labels, leaf_font_size=7)
    heights = [0.0, 0.25, 0.5, 0.75, 1.0]
    left.set_yticks(heights, [f"{1 - height:g}" for height in heights])  # the distance of a merge is 1 − its score
    left.set(title=f"{name}: which nodes merge", xlabel="node" if labels else "", ylabel="score of the merge")
    right.step(thresholds, levels.counts(thresholds), where="post")
    right.set(title="supernodes left", xlabel="threshold", ylim=(0, None), xlim=(0, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", dest="name", help="a TU data set (default: the karate club, which needs no data)")
    parser.add_argument("--graph", type=int, default=0, help="which graph of the set (default: 0)")
    parser.add_argument("--data", default=os.environ.get("COMPOOL_DATA"), help="folder of data sets (or COMPOOL_DATA)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default: out)")
    args = parser.parse_args()
    if args.name is None:
        name, club = "karate club", nx.karate_club_graph().to_directed()
        edge_index, num_nodes = torch.tensor(sorted(club.edges)).t(), club.number_of_nodes()
    else:
        try:
            graphs = load(args.name, args.data)
        except (FileNotFoundError, ValueError) as error:
            parser.error(str(error))
        if not 0 <= args.graph < len(graphs):
            parser.error(f"--graph must lie in 0..{len(graphs) - 1}, got {args.graph}")
        name, graph = f"{args.name}, graph {args.graph}", graphs[args.graph]
        edge_index, num_nodes = graph.edge_index, graph.num_nodes
        if num_nodes < 2:
            parser.error(f"--graph must have at least two nodes, but graph {args.graph} has {num_nodes}")

    levels = compool.hierarchy(edge_index, common_neighbours(edge_index, num_nodes), num_nodes)
    for threshold, count in zip((0.2, 0.4, 0.6), levels.counts([0.2, 0.4, 0.6]).tolist(), strict=True):
        print(f"threshold {threshold}: {count} of {num_nodes} nodes are left")
    path = args.out / "thresholds.png"
    draw(levels, name, path)
    print(path.resolve())


if __name__ == "__main__":
    main()
