"""Stacks: R networks of the same kind as one network on unions."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, ModuleList

from compool import ops
from compool.nn.settings import CONVOLUTIONS, POOLINGS, GINSettings, NetworkSettings
from compool.replicas import kernels, layers, pooling, top_k
from compool.replicas.layers import multiply, readout, stacked
from compool.replicas.union import Union

_STACKED: dict[str, type[Module]] = {
    "L": layers.StackedLinear,
    "C": layers.StackedGCNConv,
    "S": layers.StackedSAGEConv,
    "G": layers.StackedGINLayer,
    "N": layers.StackedLinear,
    "P": pooling.StackedComponentPooling,
    "E": pooling.StackedEdgePooling,
    "T": top_k.StackedTopKPooling,
    "A": top_k.StackedSAGPooling,
}


class Output(NamedTuple):
    """The result of a stack for a union."""

    logits: Tensor
    """The logits [R, B, outputs]."""
    num_nodes: list[Tensor]
    """The number of nodes of each replica [R], after each pooling layer."""
    needed: list[Tensor]
    """The numbers of nodes and edges [2] after each edge pooling layer, for comparison with its capacity."""


class _Stack(Module):
    """Base class of both kinds of stack: holds the settings of each network, and converts back to single networks."""

    dropout: Tensor

    def __init__(self, networks: Sequence[Any]) -> None:
        super().__init__()
        self.settings: list[Any] = [network.settings for network in networks]
        first = self.settings[0]
        for field in fields(first):
            values = {getattr(settings, field.name) for settings in self.settings}
            if len(values) > 1 and field.name not in ("dropout", "threshold"):
                raise ValueError(f"the networks of a stack must agree in {field.name}, got {sorted(values, key=str)}")
        self.readout: str = first.readout
        dropout = [settings.dropout for settings in self.settings]
        self.drops = any(dropout)
        self.register_buffer("dropout", torch.tensor(dropout), persistent=False)

    def key(self, union: Union, site: int) -> Tensor | None:
        """The random keys of the layer at position `site`, or None if there is no dropout."""
        return ops.fold(union.key, site) if self.training and self.drops and union.key is not None else None

    def check(self, x: Tensor, union: Union) -> None:
        """Require that features, union and networks fit together. The content of a union is not checked: it must come
        from :meth:`~compool.replicas.Graphs.union`.
        """
        width = self.settings[0].in_channels
        if union.replicas != len(self.settings):
            raise ValueError(
                f"the union has {union.replicas} replicas, but the stack has {len(self.settings)} networks"
            )
        if x.size(0) != union.num_nodes or x.shape[1:] not in ((), (width,)):
            raise ValueError(
                f"x must have shape [{union.num_nodes}, {width}], or [{union.num_nodes}] for the columns of one-hot "
                f"features; got {list(x.shape)}"
            )
        if x.dim() == 1 and x.numel() and x.device.type == "cpu":
            low, high = (int(end) for end in x.aminmax())
            if low < 0 or high >= width:
                raise ValueError(f"columns must lie in 0..{width - 1}, got {low if low < 0 else high}")

    def single(self, replica: int) -> Module:
        """The network of one replica, with PyG's inputs, in evaluation mode."""
        if not 0 <= replica < len(self.settings):
            raise IndexError(f"the stack has replicas 0..{len(self.settings) - 1}, got {replica}")
        tensors = {name: tensor[replica].detach().cpu().clone() for name, tensor in self.state_dict().items()}
        dtype = next(self.parameters()).dtype
        network: Module = self.settings[replica].network().to(dtype)
        network.load_state_dict(tensors)
        return network.eval()


class NetworkStack(_Stack):
    """R networks :class:`compool.nn.Network`, which may differ in dropout and threshold.

    Example:
        >>> from compool import nn
        >>> from compool.data import communities, features
        >>> from compool.replicas import Graphs
        >>> graphs = communities(9)
        >>> x, union = Graphs(graphs, features(graphs)).union(torch.tensor([[0, 1, 2], [3, 4, 5]]))
        >>> stack = NetworkStack([nn.Network("CPCL", 4, hidden=8, num_classes=3) for _ in range(2)])
        >>> stack(x, union).logits.shape
        torch.Size([2, 3, 3])
    """

    def __init__(self, networks: Sequence[Any]) -> None:
        super().__init__(networks)
        settings: NetworkSettings = networks[0].settings
        self.letters, self.jump = settings.layers, settings.jump
        self.squash = settings.squash and settings.num_classes > 2 and settings.outputs is None
        columns = zip(*(network.layers for network in networks), strict=True)
        self.layers = ModuleList(_STACKED[letter](column) for letter, column in zip(self.letters, columns, strict=True))

    def forward(self, x: Tensor, union: Union) -> Output:
        """The logits of each graph, given features [N, d] or the columns of one-hot features [N]."""
        self.check(x, union)
        num_nodes, needed, levels = list[Tensor](), list[Tensor](), list[Tensor]()
        last = len(self.layers) - 1
        if x.dim() == 1 and self.letters[0] in POOLINGS:  # pooling sums features, which columns cannot represent
            x = F.one_hot(x, self.settings[0].in_channels).to(next(self.parameters()).dtype)
        for position, (letter, module) in enumerate(zip(self.letters, self.layers, strict=True)):
            layer, key = cast(Any, module), self.key(union, position)
            if letter in POOLINGS:
                x, union = layer(x, union, key)
                num_nodes.append(union.ptr.diff())
                needed += [] if union.needed is None else [union.needed]
            elif letter == "G":
                x = layer(x, union)
                x = x if key is None else kernels.dropout(x, union.ptr, key, self.dropout)
            elif letter in CONVOLUTIONS:
                x = layer.forward_activated(x, union, key, self.dropout)
            else:
                if self.letters[position - 1] != "L":
                    x = torch.cat(levels, 2) if self.jump else readout(x, union, self.readout)
                x = layer.of_graphs(x)
                if position < last:
                    rows = torch.arange(x.size(0) + 1, device=x.device) * x.size(1)
                    x = kernels.activate(x.flatten(0, 1), None, rows, key, self.dropout).view(x.shape)
            if self.jump and letter in CONVOLUTIONS:
                levels.append(readout(x, union, self.readout))
        return Output(x.sigmoid() if self.squash else x, num_nodes, needed)


class GINStack(_Stack):
    """R networks :class:`compool.nn.GIN`, which may differ in dropout."""

    def __init__(self, networks: Sequence[Any]) -> None:
        super().__init__(networks)
        self.epsilon = stacked(network.epsilon for network in networks)
        self.convs = ModuleList(map(layers.StackedGINConv, zip(*(network.convs for network in networks), strict=True)))
        self.norms = ModuleList(
            map(layers.StackedBatchNorm, zip(*(network.norms for network in networks), strict=True))
        )
        predictions = zip(*(network.predictions for network in networks), strict=True)
        self.predictions = ModuleList(map(layers.StackedLinear, predictions))

    def forward(self, x: Tensor, union: Union) -> Output:
        """The logits of each graph, given features [N, d] or the columns of one-hot features [N]."""
        self.check(x, union)
        levels = [x]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            levels.append(norm(conv(levels[-1], union), union, relu=True))
        logits = [
            self._predict(cast(layers.StackedLinear, predict), x, union, level)
            for level, (predict, x) in enumerate(zip(self.predictions, levels, strict=True))
        ]
        return Output(torch.stack(logits).sum(0), [], [])

    def _predict(self, predict: layers.StackedLinear, x: Tensor, union: Union, site: int) -> Tensor:
        if x.dim() == 1 and self.readout in ("max", "saturating"):  # these readouts are not linear
            x = F.one_hot(x, self.settings[0].in_channels).to(predict.weight.dtype)
        if x.dim() == 1:  # one-hot: look up rows of the weight, then read out
            logits = readout(multiply(x, predict.weight, union), union, self.readout)
            logits = logits + cast(Tensor, predict.bias).unsqueeze(1)
        else:
            logits = predict.of_graphs(readout(x, union, self.readout))
        key = self.key(union, site)
        if key is None:
            return logits
        rows = torch.arange(logits.size(0) + 1, device=x.device) * logits.size(1)
        return kernels.dropout(logits.flatten(0, 1), rows, key, self.dropout).view(logits.shape)


def stack(networks: Sequence[Any]) -> NetworkStack | GINStack:
    """Combine R networks of the same kind into one network on unions of R replicas.

    Args:
        networks: all :class:`compool.nn.Network` or all :class:`compool.nn.GIN`; or only their parameters, from
            :func:`compool.replicas.initial.draw_parameters`.

    Example:
        >>> from compool import nn
        >>> stack([nn.GIN(4, hidden=8, num_classes=2) for _ in range(3)]).single(2).settings.hidden
        8
    """
    kinds = {type(getattr(network, "settings", None)) for network in networks}
    if kinds == {NetworkSettings}:
        return NetworkStack(networks)
    if kinds == {GINSettings}:
        return GINStack(networks)
    names = ", ".join(sorted({type(network).__name__ for network in networks})) or "none"
    raise TypeError(f"networks must all be compool.nn.Network or all compool.nn.GIN, got {names}")
