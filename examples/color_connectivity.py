"""One red island or two? GIN and component pooling, side by side, trained in half a minute on two idle cores.

python examples/color_connectivity.py            # prints accuracies, draws out/color_connectivity.png
python examples/color_connectivity.py --side 32  # also tested on a larger grid
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GIN, global_add_pool
from tqdm import trange

from compool import ComponentPooling
from compool.data import color_connectivity


class Islands(nn.Module):
    """Component pooling, a network on each supernode, and a readout that does not depend on how many there are."""

    def __init__(self, in_channels: int, hidden: int = 32) -> None:
        super().__init__()
        self.pool = ComponentPooling(in_channels, scorer="similarity", reduce="graded")
        self.each = nn.Sequential(nn.Linear(in_channels, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """The logits of each graph [graphs, 2]."""
        out = self.pool(x, edge_index, batch)
        total = global_add_pool(self.each(out.x), out.batch)
        return self.head(1 - torch.exp(-total))


class MessagePassing(nn.Module):
    """PyG's GIN, and a sum over nodes."""

    def __init__(self, in_channels: int, hidden: int = 32, depth: int = 4) -> None:
        super().__init__()
        self.body = GIN(in_channels, hidden, depth, norm="batch_norm", jk="cat")
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """The logits of each graph [graphs, 2]."""
        return self.head(global_add_pool(self.body(x, edge_index), batch) / 100)


def train(network: nn.Module, graphs: list[Data], epochs: int, lr: float = 0.01, name: str = "") -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr)
    network.train()
    for _ in trange(epochs, desc=name, unit="epoch", leave=False):
        for batch in DataLoader(graphs, batch_size=60, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(network(batch.x, batch.edge_index, batch.batch), batch.y).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(network: nn.Module, graphs: list[Data]) -> float:
    network.eval()
    batches = DataLoader(graphs, batch_size=60)
    right = sum(int((network(b.x, b.edge_index, b.batch).argmax(1) == b.y).sum()) for b in batches)
    return right / len(graphs)


def with_noise(graphs: list[Data], channels: int, sigma: float, seed: int) -> list[Data]:
    """Add channels of noise to the colour of each node."""
    generator = torch.Generator().manual_seed(seed)
    for graph in graphs:
        noise = sigma * torch.randn(graph.num_nodes, channels, generator=generator)
        graph.x = torch.cat([graph.x, noise], 1)
    return graphs


def draw(network: Islands, graph: Data, side: int, path: Path) -> None:
    """A graph, the scores of its edges, and its supernodes."""
    import matplotlib.pyplot as plt
    from matplotlib.collections import LineCollection

    network.eval()
    with torch.no_grad():
        out = network.pool(graph.x, graph.edge_index)
    column, row = torch.arange(side * side) % side, -(torch.arange(side * side) // side)
    source, target = graph.edge_index
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    red = ["#c0392b" if is_red else "#dfe4ea" for is_red in graph.x[:, 1] > 0.5]
    all_edges, merged = out.edge_score >= -1, out.edge_score > 0
    supernode = [plt.colormaps["tab20"](int(number) % 20) for number in out.cluster]
    for panel, title, colours, edges in (
        (panels[0], "One red island or two?", red, all_edges),
        (panels[1], "The edges that merge", red, merged),
        (panels[2], f"{out.x.size(0)} supernodes", supernode, merged),
    ):
        pairs = zip(source[edges], target[edges], strict=True)
        lines = [[(column[i], row[i]), (column[j], row[j])] for i, j in pairs]
        panel.add_collection(LineCollection(lines, colors="#57606f", linewidths=1, zorder=1))
        panel.scatter(column, row, c=colours, s=1800 / side, zorder=2, linewidths=0)
        panel.set_title(title)
        panel.set_aspect("equal")
        panel.axis("off")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1200, help="graphs to train on")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--noise", type=int, default=0, help="noise channels in addition to the colours")
    parser.add_argument("--sigma", type=float, default=0.5, help="standard deviation of the noise")
    parser.add_argument("--side", type=int, default=0, help="also test on grids of this side")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/color_connectivity.png"))
    parser.add_argument("--no-gin", action="store_true", help="train component pooling only")
    args = parser.parse_args()
    for name in ("graphs", "epochs"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if args.side and not 4 <= args.side <= 1024:
        parser.error("--side must be from 4 to 1024")
    if args.noise < 0 or args.sigma < 0:
        parser.error("--noise and --sigma must be at least 0")
    torch.manual_seed(args.seed)
    graphs = with_noise(list(color_connectivity("grid-16", args.graphs + 600)), args.noise, args.sigma, 0)
    held_out, training = graphs[:600], graphs[600:]
    larger = (
        with_noise(list(color_connectivity(f"grid-{args.side}", 300, 1)), args.noise, args.sigma, 1)
        if args.side
        else []
    )
    networks: dict[str, nn.Module] = {"component pooling": Islands(2 + args.noise)}
    if not args.no_gin:
        networks["GIN, 4 layers"] = MessagePassing(2 + args.noise)
    for name, network in networks.items():
        train(network, training, args.epochs, name=name)
        on_larger = f", {accuracy(network, larger):.1%} on {args.side} × {args.side}" if larger else ""
        print(f"{name}: {accuracy(network, held_out):.1%} on 16 × 16{on_larger}")
    islands = networks["component pooling"]
    assert isinstance(islands, Islands)
    draw(islands, held_out[1], 16, args.out)


if __name__ == "__main__":
    main()
