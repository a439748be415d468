"""Stacked layers: each combines R of PyG's layers and applies each of them to the rows of its replica.

The parameters are those of the R layers, stacked, with the same names. A layer takes the features of a union's nodes
[N, d], or the columns [N] of one-hot features, and the union.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Module

from compool.replicas import kernels
from compool.replicas.union import Union


def stacked(tensors: Iterable[Tensor]) -> torch.nn.Parameter:
    """Stack the parameters of R layers to one parameter [R, *]."""
    return torch.nn.Parameter(torch.stack([tensor.detach() for tensor in tensors]))


def require_equal_settings(layers: Sequence[Any], *names: str) -> None:
    """Require that the layers agree in these settings."""
    for name in names:
        values = sorted({str(getattr(layer, name)) for layer in layers})
        if len(values) > 1:
            raise ValueError(f"the {type(layers[0]).__name__} layers must agree in {name}, got {values}")


def multiply(x: Tensor, weight: Tensor, union: Union, bias: Tensor | None = None) -> Tensor:
    """Multiply each replica's rows by its weight [R, o, i] and add its bias [R, o]. One-hot features, given as columns
    [N], look up rows of the weight.
    """
    if x.dim() == 2:
        return kernels.grouped_linear(x, weight, union.ptr, bias)
    replicas, out, width = weight.shape
    rows = weight.transpose(1, 2).reshape(replicas * width, out).index_select(0, x + union.replica * width)
    return rows if bias is None else add(rows, bias, union)


def add(x: Tensor, bias: Tensor, union: Union) -> Tensor:
    """Add each replica's bias [R, d] to its rows."""
    return x + kernels.segment_repeat(bias, union.ptr, x.size(0))


def convolve(
    x: Tensor, weight: Tensor, union: Union, pass_messages: Callable[[Tensor], Tensor], bias: Tensor | None = None
) -> Tensor:
    """Multiply by the weight and pass messages, in the order with narrower messages, and add the bias."""
    if _multiply_first(x, weight):
        x = pass_messages(multiply(x, weight, union))
        return x if bias is None else add(x, bias, union)
    return multiply(pass_messages(x), weight, union, bias)


def convolve_and_activate(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    union: Union,
    pass_messages: Callable[[Tensor], Tensor],
    key: Tensor | None,
    probability: Tensor,
    own: Tensor | None = None,
) -> Tensor:
    """:func:`convolve`, plus each row times `own`, with bias, ReLU and dropout. If a product comes last, the rest is
    fused into it.
    """
    activation = (bias, union.ptr, key, probability)
    if not _multiply_first(x, weight):
        onto = None if own is None else multiply(x, own, union)
        return kernels.linear_activate(pass_messages(x), weight, *activation, onto)
    out = pass_messages(multiply(x, weight, union))
    if own is None:
        return kernels.activate(out, *activation)
    if x.dim() == 1:
        return kernels.activate(out + multiply(x, own, union), *activation)
    return kernels.linear_activate(x, own, *activation, out)


def _multiply_first(x: Tensor, weight: Tensor) -> bool:
    """Whether to multiply before message passing: if products are narrower than features, or features are one-hot."""
    return x.dim() == 1 or weight.size(2) > weight.size(1)


class StackedLinear(Module):
    """R layers :class:`torch.nn.Linear`; also for features of graphs [R, B, d]."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.weight = stacked(layer.weight for layer in layers)
        self.bias = None if layers[0].bias is None else stacked(layer.bias for layer in layers)

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, i] to [N, o]."""
        return multiply(x, self.weight, union, self.bias)

    def forward_activated(self, x: Tensor, union: Union, key: Tensor | None, probability: Tensor) -> Tensor:
        """:meth:`forward`, followed by ReLU and dropout."""
        assert self.bias is not None
        return convolve_and_activate(x, self.weight, self.bias, union, lambda x: x, key, probability)

    def of_graphs(self, x: Tensor) -> Tensor:
        """Map features of graphs [R, B, i] to [R, B, o]."""
        weight = self.weight.transpose(1, 2)
        return torch.bmm(x, weight) if self.bias is None else torch.baddbmm(self.bias.unsqueeze(1), x, weight)


class StackedGCNConv(Module):
    """R layers :class:`torch_geometric.nn.GCNConv`."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        require_settings(layers, improved=False, add_self_loops=True, normalize=True, bias=Tensor)
        self.lin = StackedLinear([layer.lin for layer in layers])
        self.bias = stacked(layer.bias for layer in layers)

    def _message_passing(self, union: Union) -> Callable[[Tensor], Tensor]:
        degree = union.degree
        if union.looped:  # an existing self-loop counts as the one that the layer adds
            before = torch.nn.functional.pad(torch.cumsum(union.edge_index[0] == union.edge_index[1], 0), (1, 0))
            extra = 1 - before[union.row_ptr].diff()
        else:
            extra = torch.ones_like(degree)
        norm = (degree + extra).to(self.bias.dtype).rsqrt()
        own = norm * norm * extra
        return lambda x: kernels.propagate(x, union.row_ptr, union.edge_index[1], norm, norm, own)

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, i] to [N, o]."""
        return convolve(x, self.lin.weight, union, self._message_passing(union), self.bias)

    def forward_activated(self, x: Tensor, union: Union, key: Tensor | None, probability: Tensor) -> Tensor:
        """:meth:`forward`, followed by ReLU and dropout."""
        pass_messages = self._message_passing(union)
        return convolve_and_activate(x, self.lin.weight, self.bias, union, pass_messages, key, probability)


class StackedSAGEConv(Module):
    """R layers :class:`torch_geometric.nn.SAGEConv` with mean aggregation."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        require_settings(layers, normalize=False, root_weight=True, project=False, aggr="mean")
        require_settings([layer.lin_l for layer in layers], bias=Tensor)
        self.lin_l = StackedLinear([layer.lin_l for layer in layers])
        self.lin_r = StackedLinear([layer.lin_r for layer in layers])

    @property
    def bias(self) -> Tensor:
        """The bias of each replica [R, o]."""
        assert self.lin_l.bias is not None
        return self.lin_l.bias

    def _message_passing(self, union: Union) -> Callable[[Tensor], Tensor]:
        share = union.degree.clamp(min=1).to(self.bias.dtype).reciprocal()
        return lambda x: kernels.propagate(x, union.row_ptr, union.edge_index[1], left=share)

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, i] to [N, o]."""
        from_neighbours = convolve(x, self.lin_l.weight, union, self._message_passing(union), self.bias)
        return from_neighbours + multiply(x, self.lin_r.weight, union)

    def forward_activated(self, x: Tensor, union: Union, key: Tensor | None, probability: Tensor) -> Tensor:
        """:meth:`forward`, followed by ReLU and dropout."""
        pass_messages, own = self._message_passing(union), self.lin_r.weight
        return convolve_and_activate(x, self.lin_l.weight, self.bias, union, pass_messages, key, probability, own)


class StackedBatchNorm(Module):
    """R layers :class:`torch.nn.BatchNorm1d`, with statistics over each replica's own rows."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, layers: Sequence[torch.nn.BatchNorm1d]) -> None:
        super().__init__()
        require_settings(layers, affine=True, track_running_stats=True)
        require_equal_settings(layers, "eps", "momentum")
        self.eps, self.momentum = layers[0].eps, cast(float, layers[0].momentum)
        self.weight = stacked(layer.weight for layer in layers)
        self.bias = stacked(layer.bias for layer in layers)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, torch.stack([getattr(layer, name) for layer in layers]))

    def forward(self, x: Tensor, union: Union, relu: bool = False) -> Tensor:
        """Normalise features [N, d], and apply ReLU if `relu`."""
        if not self.training:
            scale = self.weight * (self.running_var + self.eps).rsqrt()
            shift = self.bias - self.running_mean * scale
            x = add(x * kernels.segment_repeat(scale, union.ptr, x.size(0)), shift, union)
            return x.relu() if relu else x
        out, mean, variance = kernels.segment_norm(x, self.weight, self.bias, union.ptr, self.eps, relu)
        with torch.no_grad():
            num_rows = union.ptr.diff().unsqueeze(1)
            has_rows = num_rows > 0  # a replica without nodes has no batch
            self.num_batches_tracked += has_rows.squeeze(1)
            momentum = self.momentum * has_rows.to(x.dtype)
            self.running_mean.lerp_(mean, momentum)
            self.running_var.lerp_(variance * (num_rows / (num_rows - 1).clamp(min=1)), momentum)
        return out


class StackedGINConv(Module):
    """R layers :class:`torch_geometric.nn.GINConv` with fixed ε and a network of Linear, BatchNorm1d, ReLU, Linear."""

    eps: Tensor

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        expected = (torch.nn.Linear, torch.nn.BatchNorm1d, torch.nn.ReLU, torch.nn.Linear)
        modules = tuple(type(layer) for layer in layers[0].nn)
        if modules != expected or isinstance(layers[0].eps, torch.nn.Parameter):
            raise ValueError(
                f"GINConv must have a fixed eps and a network of Linear, BatchNorm1d, ReLU, Linear; got {modules}"
            )
        first, norm, last = ([layer.nn[index] for layer in layers] for index in (0, 1, 3))
        self.nn = torch.nn.ModuleDict(
            {"0": StackedLinear(first), "1": StackedBatchNorm(norm), "3": StackedLinear(last)}
        )
        self.register_buffer("eps", torch.stack([layer.eps for layer in layers]))

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, i] to [N, o]."""
        first, norm, last = (cast(Any, self.nn[name]) for name in ("0", "1", "3"))
        own = (1 + self.eps).view(-1).to(first.weight.dtype)[union.replica]

        def pass_messages(x: Tensor) -> Tensor:
            return kernels.propagate(x, union.row_ptr, union.edge_index[1], own=own)

        hidden = convolve(x, first.weight, union, pass_messages, first.bias)
        return cast(Tensor, last(norm(hidden, union, relu=True), union))


class StackedGINLayer(Module):
    """R layers ``G`` of :class:`compool.nn.Network`, each followed by ReLU."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.conv = StackedGINConv([layer.conv for layer in layers])
        self.norm = StackedBatchNorm([layer.norm for layer in layers])

    def forward(self, x: Tensor, union: Union) -> Tensor:
        """Map features [N, i] to [N, o]."""
        return cast(Tensor, self.norm(self.conv(x, union), union, relu=True))


def readout(x: Tensor, union: Union, reduce: str = "mean") -> Tensor:
    """The mean, maximum, sum or saturating sum over each graph's nodes [R, B, d]; zero for a graph without nodes."""
    if reduce == "max":
        return _segment_max(x, union.graph_ptr).view(union.replicas, -1, x.size(1))
    total = kernels.segment_sum(x, union.graph_ptr)
    if reduce == "saturating":
        total = -torch.expm1(-total.clamp(min=0))
    if reduce == "mean":
        total = total / union.graph_ptr.diff().clamp(min=1).unsqueeze(1).to(x.dtype)
    return total.view(union.replicas, -1, x.size(1))


def _segment_max(x: Tensor, ptr: Tensor) -> Tensor:
    """The maximum over each segment's rows; padding rows go to an extra segment, which is dropped."""
    num_segments = ptr.size(0) - 1
    segment = torch.searchsorted(ptr[1:], torch.arange(x.size(0), device=x.device), right=True)
    index = segment.unsqueeze(1).expand_as(x)
    out = x.new_zeros(num_segments + 1, x.size(1)).scatter_reduce(0, index, x, "amax", include_self=False)
    return out[:num_segments]


def require_settings(layers: Sequence[Any], **settings: Any) -> None:
    """Require that the layers have these settings, the only supported ones; a type allows any instance of it."""
    for layer in layers:
        for name, value in settings.items():
            actual = getattr(layer, name)
            if not (isinstance(actual, value) if isinstance(value, type) else actual == value):
                wanted = value.__name__ if isinstance(value, type) else value
                raise ValueError(f"{type(layer).__name__} must have {name}={wanted}, got {actual}")
