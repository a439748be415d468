"""Message-passing networks on a GPU, for `connectivity.py`.

`torch.func` stacks the weights of PyG's modules and maps one module over them. GCN and GIN sum over neighbours row by
row instead of edge by edge.
"""

from copy import deepcopy

import connectivity_networks as networks
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch_geometric.nn import GCNConv

from compool.data import GraphSet
from compool.replicas.kernels import propagate


class SharedEdges:
    """The edges of a batch of graphs that all have the same edges."""

    def __init__(self, graphs: GraphSet, device: str) -> None:
        self.nodes, self.device = int(graphs.node_ptr[1]), device
        self.edges = torch.from_numpy(graphs.edge_index[:, : int(graphs.edge_ptr[1])]).long().to(device)
        self.degree = torch.bincount(self.edges[0], minlength=self.nodes)
        self._batches: dict[int, tuple[Tensor, Tensor]] = {}

    def batch(self, graphs: int) -> tuple[Tensor, Tensor]:
        """The edges of this many graphs [2, E], and the offsets of each node's edges [N + 1]."""
        if graphs not in self._batches:
            shift = torch.arange(graphs, device=self.device) * self.nodes
            edges = (self.edges.unsqueeze(1) + shift.view(1, -1, 1)).flatten(1)
            self._batches[graphs] = edges, F.pad(self.degree.repeat(graphs).cumsum(0), (1, 0))
        return self._batches[graphs]


def linear(weights: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """A linear layer of R networks, [R, B, n, inputs] to [R, B, n, outputs].

    One product per graph: the gradient of a weight is a sum over all nodes, and R products would not use the whole GPU.
    """
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    weight = weight.transpose(1, 2).unsqueeze(1).expand(-1, x.size(1), -1, -1).flatten(0, 1)
    out = torch.bmm(x.flatten(0, 1), weight).view(*x.shape[:3], -1)
    return out if bias is None else out + bias[:, None, None]


def convolved(network: networks.GCN, weights: dict[str, Tensor], level: int, x: Tensor, shared: SharedEdges) -> Tensor:
    """The output of a GCN or GIN layer."""
    name, graphs = f"layers.{level}", x.size(0) * x.size(1)
    edges, row_ptr = shared.batch(graphs)
    if not isinstance(network.layers[level], GCNConv):
        total = x + propagate(x.flatten(0, 2), row_ptr, edges[1]).view_as(x)
        return linear(weights, f"{name}.nn.2", linear(weights, f"{name}.nn.0", total).relu())
    scale = (shared.degree + 1).rsqrt().unsqueeze(1)
    x = scale * linear(weights, f"{name}.lin", x)
    total = x + propagate(x.flatten(0, 2), row_ptr, edges[1]).view_as(x)
    return scale * total + weights[f"{name}.bias"][:, None, None]


def logits_by_rows(network: networks.GCN, weights: dict[str, Tensor], x: Tensor, shared: SharedEdges) -> Tensor:
    """The logits of R networks of GCN or GIN layers [R, B, classes], from features [R, B, n, 2]."""
    perceptron = lambda name, x: linear(weights, f"{name}.2", linear(weights, f"{name}.0", x).relu())  # noqa: E731
    x = linear(weights, "first", x)
    for level in range(network.depth):
        update = F.layer_norm(convolved(network, weights, level, x, shared), x.shape[-1:])
        scale, shift = (weights[f"norms.{level}.{name}"][:, None, None] for name in ("weight", "bias"))
        x = x + (update * scale + shift).relu()
        if f"virtual.{level}.0.weight" in weights:
            x = x + perceptron(f"virtual.{level}", x.mean(2, keepdim=True))
    return perceptron("head", x.mean(2, keepdim=True)).squeeze(2)


class Stack:
    """R networks of one class, and graphs that have the same edges."""

    def __init__(self, modules: list[nn.Module], graphs: GraphSet, device: str) -> None:
        self.device = device
        self.parameters, self.buffers = stack_module_state(modules)
        self.frame, self.by_rows = deepcopy(modules[0]).to("meta"), not isinstance(modules[0], networks.GAT)
        if self.by_rows:
            check_forms(modules, self.parameters, graphs)
        for name, tensor in self.parameters.items():
            self.parameters[name] = tensor.to(device).detach().requires_grad_()
        self.buffers = {name: tensor.to(device) for name, tensor in self.buffers.items()}
        self.weights = list(self.parameters.values())
        self._losses = torch.compile(self.losses, dynamic=False) if self.by_rows else self.losses
        self.to_graphs(graphs)

    def to_graphs(self, graphs: GraphSet) -> None:
        """Continue with other graphs."""
        assert graphs.labels is not None
        self.shared = SharedEdges(graphs, self.device)
        self.nodes = self.shared.nodes
        self.red = torch.from_numpy(graphs.labels).view(-1, self.shared.nodes).to(self.device, torch.int8)
        self.y = torch.from_numpy(graphs.y).to(self.device)

    def logits(self, ids: Tensor) -> Tensor:
        """The logits [R, B, 2] of graphs [R, B]."""
        red, size = self.red[ids], ids.size(1)
        x = F.one_hot(red.long(), 2).float()
        if self.by_rows:
            return logits_by_rows(self.frame, self.parameters, x, self.shared)
        batch = torch.arange(size, device=red.device).repeat_interleave(red.size(2), output_size=size * red.size(2))
        graph = (self.shared.batch(size)[0], batch, size)

        def single_logits(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(self.frame, (parameters, buffers), (x, *graph))

        return torch.func.vmap(single_logits)(self.parameters, self.buffers, x.flatten(1, 2))

    def losses(self, ids: Tensor) -> Tensor:
        """The mean loss of each network [R]."""
        logits = self.logits(ids)
        return F.cross_entropy(logits.flatten(0, 1), self.y[ids].flatten(), reduction="none").view(ids.shape).mean(1)

    def backward(self, ids: Tensor) -> None:
        """Set the gradients of the sum of the networks' mean losses."""
        for weight in self.weights:
            weight.grad = None
        self._losses(ids).sum().backward()

    @torch.no_grad()
    def correct(self, ids: Tensor) -> Tensor:
        """How many graphs each network classifies correctly [R]."""
        return (self.logits(ids).argmax(2) == self.y[ids]).sum(1)


@torch.no_grad()
def check_forms(modules: list[nn.Module], weights: dict[str, Tensor], graphs: GraphSet) -> None:
    """Raise an error if summing by rows differs from PyG's layers."""
    shared = SharedEdges(graphs, "cpu")
    x, batch = torch.randn(len(modules), 2, shared.nodes, 2), torch.arange(2).repeat_interleave(shared.nodes)
    expected = [
        module(rows.flatten(0, 1), shared.batch(2)[0], batch, 2) for module, rows in zip(modules, x, strict=True)
    ]
    torch.testing.assert_close(logits_by_rows(modules[0], weights, x, shared), torch.stack(expected))
