"""The networks of the paper's evaluation, with PyG's inputs."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn import (
    GCNConv,
    GINConv,
    SAGEConv,
    SAGPooling,
    TopKPooling,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

from compool.nn._unsupported import refuse_script
from compool.nn.component_pooling import component_pooling
from compool.nn.edge_pooling import EdgePooling
from compool.nn.settings import CONVOLUTIONS, POOLINGS, GINSettings, NetworkSettings
from compool.ops._checks import check_graph_ids, check_inputs


def _saturating(x: Tensor, batch: Tensor, batch_size: int | None) -> Tensor:
    return -torch.expm1(-global_add_pool(x, batch, batch_size).clamp(min=0))


_READOUTS = {"mean": global_mean_pool, "sum": global_add_pool, "max": global_max_pool, "saturating": _saturating}


def _check_graphs(
    in_channels: int,
    last: torch.nn.Module,
    x: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    batch_size: int | None,
) -> tuple[Tensor, int]:
    """Check the input, given the network's last layer; returns the graph of each node and the number of graphs."""
    weight = cast(torch.nn.Linear, last).weight  # not from parameters(), which is empty in data-parallel replicas
    check_inputs(x, edge_index, batch, None, in_channels, None, weight)
    if batch is None:
        batch = torch.zeros(x.size(0), dtype=torch.long, device=x.device)
        batch_size = min(x.size(0), 1) if batch_size is None else batch_size
    if batch_size is None and torch.compiler.is_compiling():
        return batch, int(batch.max()) + 1
    if batch_size is None or not batch.is_cuda:
        return batch, check_graph_ids(batch, batch_size)
    return batch, check_graph_ids(batch[:0], batch_size)  # reading the graph ids would synchronise with the GPU


class Network(torch.nn.Module):
    r"""A graph classifier described by a string of letters, as in the paper: ``"CPCL"``, ``"SSESSESLL"``.

    ``C`` is a GCN layer, ``S`` a GraphSAGE layer, ``P`` component pooling, ``E`` edge pooling and ``L`` a linear layer.
    A readout precedes the first ``L``; ReLU and dropout follow each ``C``, ``S`` and ``L`` except the last ``L``.

    Not in the paper: ``G``, a GIN layer with batch norm; ``N``, a linear layer on each node by itself; ``T``, top-k
    pooling; ``A``, self-attention pooling.

    Args:
        layers: the letters, graph layers first, then at least one ``L``.
        in_channels: size of each node's features.
        hidden: number of hidden channels.
        num_classes: number of classes.
        dropout: probability of dropout after the layers, and of the raw scores of component pooling.
        readout: ``"mean"`` (the paper's released code), ``"sum"`` (its text), ``"max"``, or ``"saturating"``:
            :math:`1 - e^{-s}` of the sum :math:`s`, or 0 if it is negative. This can count up to a few, and does not
            grow with the graph.
        threshold: threshold of component pooling.
        weights: `weights` of component pooling.
        symmetric: `symmetric` of component pooling.
        ratio: share of each graph's nodes that top-k and self-attention pooling keep.
        jump: jumping connections: the first ``L`` gets the concatenated readouts after all convolutions.
        squash: apply a sigmoid after the last layer if there are more than two classes, as the released code's network
            with edge pooling does. The cross-entropy then cannot become small.

        scorer: `scorer` of component pooling: ``"linear"``, ``"similarity"`` or ``"random"``.
        reduce: `reduce` of component pooling: ``"score"``, ``"sum"``, ``"mean"`` or ``"graded"``.
        merge_ratio: `ratio` of component pooling, the share of each graph's nodes to keep; replaces the threshold.
        quantile: `quantile` of component pooling; replaces the threshold.
        outputs: number of outputs per graph: 2 for two classes with ``cross_entropy``, or the number of targets or
            labels; by default one logit for two classes, as in the paper, else one per class.
        merge_order: `order` of component pooling: ``"score"`` or ``"random"``.
        score: `score` of component pooling: ``"tanh"``, ``"sigmoid"`` or ``"hardtanh"``; by default tanh, or hardtanh
            with the similarity scorer, even if there is a budget.

    Example:
        >>> network = Network("CPCL", in_channels=29, hidden=16, num_classes=2, dropout=0.1)
        >>> sum(parameter.numel() for parameter in network.parameters())
        802
        >>> network(torch.randn(3, 29), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([1, 1])
    """

    def __init__(
        self,
        layers: str,
        in_channels: int,
        hidden: int,
        num_classes: int,
        dropout: float = 0.0,
        readout: str = "mean",
        threshold: float | None = None,
        weights: str = "merged",
        symmetric: bool = False,
        ratio: float = 0.5,
        jump: bool = False,
        squash: bool = False,
        scorer: str = "linear",
        reduce: str = "score",
        merge_ratio: float | None = None,
        quantile: float | None = None,
        outputs: int | None = None,
        merge_order: str = "score",
        score: str | None = None,
    ) -> None:
        super().__init__()
        self.settings = NetworkSettings(
            layers,
            in_channels,
            hidden,
            num_classes,
            dropout,
            readout,
            threshold,
            weights,
            symmetric,
            ratio,
            jump,
            squash,
            scorer,
            reduce,
            merge_ratio,
            quantile,
            outputs,
            merge_order,
            score,
        )
        self.letters, self.dropout, self.readout, self.jump = layers, dropout, readout, jump
        self.squash = squash and num_classes > 2 and outputs is None
        self.layers = torch.nn.ModuleList(_layer(self.settings, *layer) for layer in self.settings.widths)

    __prepare_scriptable__ = refuse_script

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """The logits of each graph.

        Args:
            x: node features [N, in_channels].
            edge_index: edges [2, E], both directions.
            batch: the graph of each node [N], sorted; by default all nodes belong to one graph.
            batch_size: number of graphs; needed if the last graphs may have no nodes.

        Returns:
            Logits [graphs, classes], or [graphs, 1] for two classes; [graphs, outputs] if `outputs` is given.
        """
        settings = self.settings
        batch, batch_size = _check_graphs(settings.in_channels, self.layers[-1], x, edge_index, batch, batch_size)
        read = _READOUTS[self.readout]
        levels: list[Tensor] = []
        for position, (letter, layer) in enumerate(zip(self.letters, self.layers, strict=True)):
            if letter in "PE":
                x, edge_index, batch = layer(x, edge_index, batch)[:3]
                continue
            if letter in POOLINGS:
                x, edge_index, _, batch = layer(x, edge_index, None, batch)[:4]
                continue
            if letter == "L" and self.letters[position - 1] != "L":
                x = torch.cat(levels, 1) if self.jump else read(x, batch, batch_size)
            x = layer(x) if letter in "LN" else layer(x, edge_index)
            if position < len(self.layers) - 1:
                x = F.dropout(x.relu(), self.dropout, self.training)
            if self.jump and letter in CONVOLUTIONS:
                levels.append(read(x, batch, batch_size))
        return x.sigmoid() if self.squash else x


def _layer(settings: NetworkSettings, letter: str, width: int, out: int) -> torch.nn.Module:
    """The layer for a letter, from `width` to `out` channels."""
    if letter == "P":
        return component_pooling(settings, width)
    if letter == "E":
        return EdgePooling(width, by_first=True)
    if letter in POOLINGS:
        pooling: torch.nn.Module = {"T": TopKPooling, "A": SAGPooling}[letter](width, settings.ratio)
        return pooling
    kind = {"C": GCNConv, "S": SAGEConv, "G": GINLayer, "N": torch.nn.Linear, "L": torch.nn.Linear}[letter]
    layer: torch.nn.Module = kind(width, out)
    return layer


class GINLayer(torch.nn.Module):
    """A :class:`~torch_geometric.nn.GINConv` with ε fixed at 0 and a two-layer MLP, followed by batch norm."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = GINConv(_perceptron(in_channels, out_channels))
        self.norm = torch.nn.BatchNorm1d(out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Map features [N, in_channels] to [N, out_channels]."""
        return self.norm(self.conv(x, edge_index))  # type: ignore[no-any-return]


class GIN(torch.nn.Module):
    r"""The graph isomorphism network of Xu et al. (2019), as they evaluated it.

    Four layers :math:`x'_i = \mathrm{MLP}((1 + \epsilon) x_i + \sum_j x_j)` with ε fixed at 0 and two-layer MLPs, with
    batch norm inside each MLP and after it. One linear layer per level, including the input, predicts from its readout;
    dropout is applied to the predictions, which are summed.

    Args:
        in_channels: size of each node's features.
        hidden: number of hidden channels.
        num_classes: number of classes.
        dropout: probability of dropout of the predictions.
        readout: ``"sum"``, ``"mean"`` or ``"max"``.
        depth: number of layers.
        outputs: number of outputs per graph, as in :class:`Network`.

    Example:
        >>> network = GIN(in_channels=29, hidden=16, num_classes=2)
        >>> sum(parameter.numel() for parameter in network.parameters())
        2742
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        num_classes: int,
        dropout: float = 0.5,
        readout: str = "sum",
        depth: int = 4,
        outputs: int | None = None,
    ) -> None:
        super().__init__()
        self.settings = GINSettings(in_channels, hidden, num_classes, dropout, readout, depth, outputs)
        self.dropout, self.readout = dropout, readout
        self.epsilon = torch.nn.Parameter(torch.zeros(depth))  # unused, but counted as parameters, as in the original
        widths = self.settings.widths
        self.convs = torch.nn.ModuleList(GINConv(_perceptron(width, hidden)) for width in widths[:-1])
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(hidden) for _ in range(depth))
        self.predictions = torch.nn.ModuleList(torch.nn.Linear(width, self.settings.num_outputs) for width in widths)

    __prepare_scriptable__ = refuse_script

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, batch_size: int | None = None
    ) -> Tensor:
        """The logits of each graph; arguments and result as in :meth:`Network.forward`."""
        settings = self.settings
        batch, batch_size = _check_graphs(settings.in_channels, self.predictions[-1], x, edge_index, batch, batch_size)
        levels = [x]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            levels.append(norm(conv(levels[-1], edge_index)).relu())
        read = _READOUTS[self.readout]
        scores = [predict(read(x, batch, batch_size)) for predict, x in zip(self.predictions, levels, strict=True)]
        return torch.stack([F.dropout(score, self.dropout, self.training) for score in scores]).sum(0)


def _perceptron(in_channels: int, hidden: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(in_channels, hidden),
        torch.nn.BatchNorm1d(hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
    )
