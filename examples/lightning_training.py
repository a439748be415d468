"""Component pooling in PyTorch Lightning: a module, a data module, early stopping on the validation loss.

    pip install lightning
    python examples/lightning_training.py

PyG's batches are moved to the device automatically, and `batch_size` tells Lightning how many graphs a batch has.
"""

import argparse
import sys

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool

from compool import ComponentPooling
from compool.data import GraphSet, communities, split

try:
    import lightning
except ModuleNotFoundError:
    sys.exit("this example needs Lightning: pip install lightning")


class Graphs(lightning.LightningDataModule):
    """The graphs of replica 0's split: 80 % train, 10 % validate, 10 % test."""

    def __init__(self, graphs: GraphSet, batch: int = 32) -> None:
        super().__init__()
        self.parts, self.batch = split(graphs, replica=0), batch
        self.graphs = graphs

    def train_dataloader(self) -> DataLoader:
        """The graphs that train, in another order in each epoch."""
        return DataLoader(self.graphs[self.parts.train], self.batch, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        """The graphs that validate."""
        return DataLoader(self.graphs[self.parts.validation], self.batch)

    def test_dataloader(self) -> DataLoader:
        """The graphs that test."""
        return DataLoader(self.graphs[self.parts.test], self.batch)


class Classifier(lightning.LightningModule):
    """Pool, convolve, read out; it logs the loss, the accuracy and the share of nodes that pooling keeps."""

    def __init__(self, channels: int, classes: int, hidden: int = 32) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.pool = ComponentPooling(channels, scorer="similarity", reduce="graded")
        self.conv = GCNConv(channels, hidden)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, batch: Batch) -> tuple[Tensor, float]:
        """Logits [graphs, classes], and the share of nodes that pooling kept."""
        out = self.pool(batch.x, batch.edge_index, batch.batch)
        x = self.conv(out.x, out.edge_index).relu()
        return self.head(global_add_pool(x, out.batch, batch.num_graphs)), out.kept

    def _step(self, batch: Batch, part: str) -> Tensor:
        logits, kept = self(batch)
        loss = F.cross_entropy(logits, batch.y)
        right = (logits.argmax(1) == batch.y).float().mean()
        values = {f"{part}_loss": loss, f"{part}_accuracy": right, f"{part}_kept": kept}
        self.log_dict(values, on_epoch=True, on_step=False, batch_size=batch.num_graphs)
        return loss

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """The loss of a batch."""
        return self._step(batch, "train")

    def validation_step(self, batch: Batch, index: int) -> None:
        """Log the numbers of a batch."""
        self._step(batch, "validation")

    def test_step(self, batch: Batch, index: int) -> None:
        """Log the numbers of a batch."""
        self._step(batch, "test")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=600, help="number of graphs to generate (default: 600)")
    parser.add_argument("--epochs", type=int, default=30, help="maximum number of epochs (default: 30)")
    args = parser.parse_args()
    if args.epochs < 1 or args.graphs < 10:
        parser.error("--epochs must be at least 1, --graphs at least 10")

    lightning.seed_everything(0, verbose=False)
    data = Graphs(communities(args.graphs))
    network = Classifier(data.graphs.num_features, data.graphs.num_classes)
    stopping = lightning.pytorch.callbacks.EarlyStopping("validation_loss", patience=10)
    trainer = lightning.Trainer(
        max_epochs=args.epochs, callbacks=[stopping], logger=False, enable_checkpointing=False, log_every_n_steps=1
    )
    trainer.fit(network, data)
    result = trainer.test(network, data, verbose=False)[0]
    print(f"test accuracy {result['test_accuracy']:.1%}, nodes kept {result['test_kept']:.1%}")


if __name__ == "__main__":
    main()
