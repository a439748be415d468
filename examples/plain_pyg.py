"""Component pooling in a plain PyG training loop: a dataset, a DataLoader, cross-entropy.

python examples/plain_pyg.py                                   # generated graphs
python examples/plain_pyg.py --data FOLDER --set MUTAG         # FOLDER contains MUTAG.zip
"""

import argparse
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool

from compool import ComponentPooling
from compool.data import communities, load


class Classifier(torch.nn.Module):
    """Pool, convolve, read out."""

    def __init__(self, channels: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.pool = ComponentPooling(channels, scorer="similarity", reduce="graded")
        self.conv = GCNConv(channels, hidden)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, batch: Batch) -> Tensor:
        """Logits [graphs, classes]."""
        out = self.pool(batch.x, batch.edge_index, batch.batch)
        x = self.conv(out.x, out.edge_index).relu()
        return self.head(global_add_pool(x, out.batch, batch.num_graphs))


@torch.no_grad()
def accuracy(network: Classifier, loader: DataLoader) -> float:
    network.eval()
    right = [network(batch).argmax(1) == batch.y for batch in loader]
    return torch.cat(right).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("COMPOOL_DATA"), help="folder (or COMPOOL_DATA)")
    parser.add_argument("--set", dest="name", help="a TU data set (default: generated communities)")
    parser.add_argument("--graphs", type=int, default=600, help="number of graphs to generate (default: 600)")
    parser.add_argument("--epochs", type=int, default=30, help="number of epochs (default: 30)")
    args = parser.parse_args()
    if args.epochs < 1 or args.graphs < 10:
        parser.error("--epochs must be at least 1, --graphs at least 10")
    try:
        graphs = load(args.name, args.data) if args.name else communities(args.graphs)
    except (FileNotFoundError, ValueError) as error:
        parser.error(str(error))
    if graphs.task != "classification":
        parser.error(f"--set must have classes, but {args.name} is for {graphs.task}")
    print(graphs)

    torch.manual_seed(0)
    graphs = graphs.shuffle()
    train, test = DataLoader(graphs[:0.9], 32, shuffle=True), DataLoader(graphs[0.9:], 128)
    network = Classifier(graphs.num_features, graphs.num_classes)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.005)
    for epoch in range(1, args.epochs + 1):
        network.train()
        for batch in train:
            optimizer.zero_grad()
            F.cross_entropy(network(batch), batch.y).backward()
            optimizer.step()
        if epoch == args.epochs or epoch % 10 == 0:
            print(f"epoch {epoch}: test accuracy {accuracy(network, test):.1%}")


if __name__ == "__main__":
    main()
