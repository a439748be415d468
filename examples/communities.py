"""Train a small PyG network with component pooling on generated communities, and draw what it merged.

The class of a graph is its number of communities. A network that merges all nodes except the connectors
between communities can count supernodes; one that does not can only use the colours, which repeat.
"""

import argparse
import copy
import time
from pathlib import Path

import matplotlib
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, GINConv, global_add_pool

from compool import ComponentPooling
from compool.data import GraphSet, communities

matplotlib.use("agg")
from matplotlib import pyplot as plt

TRAIN, VALIDATION = 0.7, 0.15


class Network(torch.nn.Module):
    """Pool, convolve, read out."""

    def __init__(self, channels: int, classes: int, hidden: int = 32, pooling: bool = True) -> None:
        super().__init__()
        self.pool = ComponentPooling(channels, symmetric=True) if pooling else None
        self.conv = GINConv(MLP([channels, hidden, hidden], norm=None))
        self.head = MLP([hidden, hidden, classes], norm=None)

    def forward(self, batch: Batch) -> tuple[Tensor, float]:
        """The logits, and the share of nodes that pooling kept."""
        x, edge_index, graph, kept = batch.x, batch.edge_index, batch.batch, 1.0
        if self.pool is not None:
            out = self.pool(x, edge_index, graph)
            x, edge_index, graph = out.x, out.edge_index, out.batch
            kept = x.size(0) / batch.num_nodes
        x = self.conv(x, edge_index).relu()
        return self.head(global_add_pool(x, graph, batch.num_graphs)), kept


def accuracy(network: Network, loader: DataLoader) -> tuple[float, float]:
    """Accuracy, and the share of nodes kept."""
    network.eval()
    right, kept, graphs = 0, 0.0, 0
    with torch.no_grad():
        for batch in loader:
            logits, share = network(batch)
            right += int((logits.argmax(1) == batch.y).sum())
            kept += share * batch.num_graphs
            graphs += batch.num_graphs
    return right / graphs, kept / graphs


def train(network: Network, graphs: GraphSet, epochs: int, progress: Progress, name: str) -> tuple[float, float, float]:
    """Train; keep the weights of the best validation accuracy. Returns validation and test accuracy, and kept nodes."""
    first, second = int(TRAIN * len(graphs)), int((TRAIN + VALIDATION) * len(graphs))
    data = list(graphs)
    training = DataLoader(data[:first], batch_size=64, shuffle=True)
    validation, test = (
        DataLoader(data[first:second], batch_size=256),
        DataLoader(data[second:], batch_size=256),
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-3)
    best, state = -1.0, copy.deepcopy(network.state_dict())
    task = progress.add_task(name, total=epochs)
    for _ in range(epochs):
        network.train()
        for batch in training:
            loss = torch.nn.functional.cross_entropy(network(batch)[0], batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        now, kept = accuracy(network, validation)
        if now >= best:
            best, state = now, copy.deepcopy(network.state_dict())
        progress.update(task, advance=1, description=f"{name}: validation {now:.0%}, kept {kept:.0%}")
    network.load_state_dict(state)
    return best, *accuracy(network, test)


def draw(pool: ComponentPooling, graph: Data, path: Path) -> None:
    """The graph before and after pooling; a supernode and its members have one colour."""
    import networkx as nx

    pool.eval()
    with torch.no_grad():
        out = pool(graph.x, graph.edge_index)
    size = torch.bincount(out.cluster)
    palette = plt.get_cmap("tab10")
    merged = (size > 1).nonzero().squeeze(1).tolist()
    colour = {k: palette(merged.index(k) % 10) if k in merged else "lightgrey" for k in range(len(size))}

    fine, coarse = nx.Graph(graph.edge_index.t().tolist()), nx.Graph(out.edge_index.t().tolist())
    fine.add_nodes_from(range(len(out.cluster)))
    coarse.add_nodes_from(range(len(size)))
    position = nx.kamada_kawai_layout(fine)
    centre = {
        k: sum(position[i] for i in (out.cluster == k).nonzero().squeeze(1).tolist()) / size[k].item() for k in coarse
    }

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    cluster = out.cluster.tolist()
    common = {"edge_color": "silver", "edgecolors": "black", "linewidths": 0.6}
    nx.draw(fine, position, left, node_size=60, node_color=[colour[cluster[i]] for i in fine], **common)
    sizes = [60 * size[k].item() for k in coarse]
    nx.draw(coarse, centre, right, node_size=sizes, node_color=[colour[k] for k in coarse], **common)
    left.set_title(f"before: {len(cluster)} nodes, {int(graph.y) + 2} communities")
    right.set_title(f"after: {len(size)} supernodes, {len(merged)} of them merged (area: members)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1200, help="number of graphs to generate (default: 1200)")
    parser.add_argument("--epochs", type=int, default=25, help="epochs per training run (default: 25)")
    parser.add_argument("--starts", type=int, default=4, help="training runs per network (default: 4)")
    parser.add_argument("--seed", type=int, default=0, help="seed for graphs and weights (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default: out)")
    args = parser.parse_args()
    if args.graphs < 60 or args.epochs < 1 or args.starts < 1:
        parser.error("--graphs must be at least 60, --epochs and --starts at least 1")

    console, began = Console(), time.perf_counter()
    graphs = communities(args.graphs, seed=args.seed)
    table = Table("network", "test accuracy", "nodes kept", "validation accuracy")
    with Progress(console=console) as progress:
        for pooling, name in ((False, "GIN"), (True, "ComponentPooling, GIN")):
            results = []
            for start in range(args.starts):
                torch.manual_seed(args.seed + start)
                network = Network(graphs[0].num_features, graphs.num_classes, pooling=pooling)
                results.append((*train(network, graphs, args.epochs, progress, f"{name}, start {start + 1}"), network))
            validation, test, kept, network = max(results, key=lambda result: result[0])
            table.add_row(name, f"{test:.1%}", f"{kept:.1%}", f"{validation:.1%}")

    console.print(table)
    console.print(
        f"Each network: the best of {args.starts} starts by validation accuracy. Chance is 33%.",
        soft_wrap=True,
    )
    assert network.pool is not None
    path = args.out / "communities.png"
    draw(network.pool, graphs[len(graphs) - 1], path)
    console.print(f"One graph before and after pooling: {path.resolve()}", soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
