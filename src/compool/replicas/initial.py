"""Initial parameters of :class:`compool.nn.Network` and :class:`compool.nn.GIN`, drawn as PyG draws them, but without a
forward pass and without importing PyG, which takes seconds.

Every class has the attributes of PyG's layer that its stacked form reads. PyG draws each parameter when its module is
constructed, and again when the layer is complete. These classes do the same, so equal seeds give equal weights.
"""

import math

import torch
from torch import Tensor
from torch.nn import BatchNorm1d, Module, ModuleList, Parameter, ReLU, Sequential

from compool.nn.component_pooling import component_pooling
from compool.nn.settings import GINSettings, NetworkSettings


class NetworkParameters(Module):
    """The parameters of a :class:`compool.nn.Network`."""

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.settings = settings
        self.layers = ModuleList(_layer_parameters(settings, *layer) for layer in settings.widths)


class GINParameters(Module):
    """The parameters of a :class:`compool.nn.GIN`."""

    def __init__(self, settings: GINSettings) -> None:
        super().__init__()
        self.settings = settings
        widths, hidden, classes = settings.widths, settings.hidden, settings.num_outputs
        self.epsilon = Parameter(torch.zeros(settings.depth))
        self.convs = ModuleList(GINConvParameters(width, hidden) for width in widths[:-1])
        self.norms = ModuleList(BatchNorm1d(hidden) for _ in widths[1:])
        self.predictions = ModuleList(torch.nn.Linear(width, classes) for width in widths)


def draw_parameters(settings: NetworkSettings | GINSettings) -> NetworkParameters | GINParameters:
    """Draw the initial parameters of a network.

    Example:
        >>> draw_parameters(NetworkSettings("CPCL", in_channels=3, hidden=8, num_classes=2)).layers[0].lin.weight.shape
        torch.Size([8, 3])
    """
    return NetworkParameters(settings) if isinstance(settings, NetworkSettings) else GINParameters(settings)


def _layer_parameters(settings: NetworkSettings, letter: str, width: int, out: int) -> Module:
    if letter == "P":
        return component_pooling(settings, width)
    if letter == "E":
        return EdgePoolingParameters(width)
    if letter in "TA":
        return (TopKPoolingParameters if letter == "T" else SAGPoolingParameters)(width, settings.ratio)
    if letter in "LN":
        return torch.nn.Linear(width, out)
    return {"C": GCNConvParameters, "S": SAGEConvParameters, "G": GINLayerParameters}[letter](width, out)


class LinearParameters(Module):
    """The parameters of PyG's linear layer."""

    def __init__(self, in_channels: int, out_channels: int, bias: bool = True, glorot: bool = False) -> None:
        super().__init__()
        self.glorot = glorot
        self.weight = Parameter(torch.empty(out_channels, in_channels))
        self.bias = Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters."""
        out_channels, in_channels = self.weight.shape
        bound = math.sqrt(6.0 / (out_channels + in_channels)) if self.glorot else math.sqrt(6 / (6 * in_channels))
        _uniform(self.weight, bound)
        if self.bias is not None:
            _uniform(self.bias, 1.0 / math.sqrt(in_channels))


class GCNConvParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    improved, add_self_loops, normalize = False, True, True

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = LinearParameters(in_channels, out_channels, bias=False, glorot=True)
        self.bias = Parameter(torch.zeros(out_channels))
        self.lin.reset_parameters()


class SAGEConvParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    aggr, normalize, root_weight, project = "mean", False, True, False

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_l = LinearParameters(in_channels, out_channels)
        self.lin_r = LinearParameters(in_channels, out_channels, bias=False)
        self.lin_l.reset_parameters()
        self.lin_r.reset_parameters()


class GINConvParameters(Module):
    """The parameters of PyG's layer, with ε fixed at 0 and the MLP of :class:`compool.nn.GIN`."""

    eps: Tensor

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        first, last = torch.nn.Linear(in_channels, out_channels), torch.nn.Linear(out_channels, out_channels)
        self.nn = Sequential(first, BatchNorm1d(out_channels), ReLU(), last)
        self.register_buffer("eps", torch.zeros(1))
        first.reset_parameters()
        last.reset_parameters()


class GINLayerParameters(Module):
    """The parameters of the layer ``G`` of :class:`compool.nn.Network`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv, self.norm = GINConvParameters(in_channels, out_channels), BatchNorm1d(out_channels)


class EdgePoolingParameters(Module):
    """The parameters of PyG's layer, with its default settings and ``by_first=True``."""

    dropout, add_to_edge_score, by_first = 0.0, 0.5, True

    @staticmethod
    def compute_edge_score_softmax() -> None:
        """Has the name of PyG's default; stacked layers use their own kernel for it."""

    compute_edge_score = compute_edge_score_softmax

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(2 * in_channels, 1)
        self.lin.reset_parameters()


class SelectTopKParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.act = torch.nn.Tanh()
        self.weight = Parameter(torch.empty(1, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters."""
        _uniform(self.weight, 1.0 / math.sqrt(self.weight.size(1)))


class TopKPoolingParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    min_score, multiplier = None, 1.0

    def __init__(self, in_channels: int, ratio: float) -> None:
        super().__init__()
        self.ratio, self.select = ratio, SelectTopKParameters(in_channels)
        self.select.reset_parameters()


class GraphConvParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_rel = LinearParameters(in_channels, out_channels)
        self.lin_root = LinearParameters(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters."""
        self.lin_rel.reset_parameters()
        self.lin_root.reset_parameters()


class SAGPoolingParameters(Module):
    """The parameters of PyG's layer, with its default settings."""

    min_score, multiplier = None, 1.0

    def __init__(self, in_channels: int, ratio: float) -> None:
        super().__init__()
        self.ratio, self.gnn, self.select = ratio, GraphConvParameters(in_channels, 1), SelectTopKParameters(1)
        self.gnn.reset_parameters()
        self.select.reset_parameters()


def _uniform(parameter: Tensor, bound: float) -> None:
    with torch.no_grad():
        parameter.uniform_(-bound, bound)
