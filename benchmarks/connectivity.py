"""Color-connectivity by message passing on a GPU: the benchmark's baselines, ten folds at once.

    python benchmarks/connectivity.py --folds 2 --epochs 5 --methods GCN          # a quick look, on the CPU
    python benchmarks/connectivity.py --device cuda --out out/connectivity.json   # all of it, on a GPU

The folds of a set are trained together: `torch.func` stacks their weights and maps PyG's modules over them, and on a
GPU a step of all folds is one CUDA graph, as all graphs of a set have the same edges. Each fold is trained as if alone:
with its own initial weights and batch order, and an optimizer that works element by element. GCN and GIN sum over
neighbours row by row instead of edge by edge; a check before training compares their outputs with PyG's.

Networks are those of `connectivity_networks.py`, settings those of the benchmark (Rampášek and Wolf 2021): Adam with a
learning rate of 0.001, batches of 32, 200 epochs. The epoch with the best validation accuracy is tested.
"""

import argparse
import json
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from statistics import fmean
from typing import Any

import connectivity_networks as networks
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch_geometric.nn import GCNConv

from compool.data import GraphSet, color_connectivity, split
from compool.replicas.captured import Captured, copy_into
from compool.replicas.kernels import propagate

BATCH, LR = 32, 1e-3
COUNTS = {"minnesota": 6000}  # the other topologies have 15,000 colourings
METHODS: dict[str, Callable[[int, int], nn.Module]] = {
    network.__name__: network
    for network in (networks.GCN, networks.GIN4, networks.GIN8, networks.GAT, networks.VirtualNode)
}


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
        self.parameters, self.buffers = stack_module_state(modules)
        self.frame, self.by_rows = deepcopy(modules[0]).to("meta"), not isinstance(modules[0], networks.GAT)
        if self.by_rows:
            check_forms(modules, self.parameters, graphs)
        for name, tensor in self.parameters.items():
            self.parameters[name] = tensor.to(device).detach().requires_grad_()
        self.buffers = {name: tensor.to(device) for name, tensor in self.buffers.items()}
        self.to_graphs(graphs, device)

    def to_graphs(self, graphs: GraphSet, device: str) -> None:
        """Continue with other graphs."""
        assert graphs.labels is not None
        self.shared = SharedEdges(graphs, device)
        self.red = torch.from_numpy(graphs.labels).view(-1, self.shared.nodes).to(device, torch.int8)
        self.y = torch.from_numpy(graphs.y).to(device)

    def logits(self, ids: Tensor) -> Tensor:
        """The logits [R, B, 2] of graphs [R, B]."""
        red, size = self.red[ids], ids.size(1)
        x = F.one_hot(red.long(), 2).float()
        if self.by_rows:
            return logits_by_rows(self.frame, self.parameters, x, self.shared)
        batch = torch.arange(size, device=red.device).repeat_interleave(red.size(2), output_size=size * red.size(2))
        graph = (self.shared.batch(size)[0], batch, size)

        def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor) -> Tensor:
            return functional_call(self.frame, (parameters, buffers), (x, *graph))

        return torch.func.vmap(one)(self.parameters, self.buffers, x.flatten(1, 2))

    def losses(self, ids: Tensor) -> Tensor:
        """The mean loss of each network [R]."""
        logits = self.logits(ids)
        return F.cross_entropy(logits.flatten(0, 1), self.y[ids].flatten(), reduction="none").view(ids.shape).mean(1)

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


def parts(ids: Tensor, most: int) -> tuple[Tensor, ...]:
    """Split ids [R, n] into equal parts of at most `most` columns."""
    size = next(size for size in range(min(most, ids.size(1)), 0, -1) if ids.size(1) % size == 0)
    return ids.split(size, dim=1)


def train(method: str, graphs: GraphSet, folds: int, epochs: int, device: str, on_epoch: Callable[[], None]) -> Any:
    """Train a method on all folds; returns the stack with the weights of the picked epochs, and accuracies."""
    torch.manual_seed(0)
    stack = Stack([METHODS[method](2, 2) for _ in range(folds)], graphs, device)
    weights = list(stack.parameters.values())
    optimizer = torch.optim.Adam(weights, LR, fused=True, capturable=device == "cuda")
    splits = [split(graphs, fold, kind="folds") for fold in range(folds)]
    training, validation, testing = (
        torch.stack([torch.from_numpy(getattr(each, part)) for each in splits]).to(device)
        for part in ("train", "validation", "test")
    )

    losses = torch.compile(stack.losses, dynamic=False) if device == "cuda" and stack.by_rows else stack.losses

    def step(ids: Tensor) -> None:
        optimizer.zero_grad()
        losses(ids).sum().backward()
        optimizer.step()

    evaluated = parts(validation, 100)[0]
    run_step, run_correct = step, stack.correct
    if device == "cuda":
        step(training[:, :BATCH])  # creates the optimizer's state
        moments = [tensor for state in optimizer.state.values() for tensor in state.values()]
        with torch.no_grad():
            for tensor in moments:
                tensor.zero_()
        run_step = Captured(step, training[:, :BATCH], [*weights, *moments])
        run_correct = Captured(stack.correct, evaluated)
    best, tested = torch.full((folds,), -1.0, device=device), torch.zeros(folds, device=device)
    picked = [weight.detach().clone() for weight in weights]
    for _ in range(epochs):
        order = torch.rand(training.shape, device=device).argsort(1)
        for ids in training.gather(1, order).split(BATCH, dim=1):
            if ids.size(1) == BATCH:
                run_step(ids)
        accuracy = [
            sum(run_correct(ids).clone() for ids in parts(held_out, evaluated.size(1))) / held_out.size(1)
            for held_out in (validation, testing)
        ]
        better = accuracy[0] >= best
        best, tested = torch.where(better, accuracy[0], best), torch.where(better, accuracy[1], tested)
        with torch.no_grad():
            for kept, weight in zip(picked, weights, strict=True):
                kept.copy_(torch.where(better.view(-1, *(1,) * (weight.dim() - 1)), weight, kept))
        on_epoch()
    copy_into(weights, picked)
    return stack, best.tolist(), tested.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", default="grid-16", help="grid-SIDE, euroroad or minnesota (default: grid-16)")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS), metavar="METHOD")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--count", type=int, help="colourings (default: 15,000, Minnesota 6,000)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sides", type=int, nargs="*", default=[], help="test on grids of these sides, too")
    parser.add_argument("--out", type=Path, help="write the numbers to this file, as JSON")
    args = parser.parse_args()
    console, results = Console(width=120), []
    count = args.count or COUNTS.get(args.topology, 15_000)
    graphs = color_connectivity(args.topology, count)
    larger = {side: color_connectivity(f"grid-{side}", 200 if side < 128 else 100, seed=1) for side in args.sides}
    for method in args.methods:
        began = time.perf_counter()
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(method, total=args.epochs)
            on_epoch = lambda task=task, progress=progress: progress.advance(task)  # noqa: E731
            stack, validation, test = train(method, graphs, args.folds, args.epochs, args.device, on_epoch)
        row: dict[str, Any] = {"topology": args.topology, "method": method, "epochs": args.epochs}
        row |= {"validation": validation, "test": test, "seconds": time.perf_counter() - began, "sides": {}}
        for side, others in larger.items():
            stack.to_graphs(others, args.device)
            ids = torch.arange(len(others), device=args.device).expand(args.folds, -1)
            correct = sum(stack.correct(part) for part in ids.split(max(1, 2**18 // side**2 // args.folds), dim=1))
            row["sides"][side] = (correct / len(others)).tolist()
        results.append(row)
        _write(results, args.out)
    table = Table("method", f"test % on {args.topology}", "lowest, highest", *map(str, args.sides), "seconds")
    for row in results:
        mean, low, high = 100 * fmean(row["test"]), 100 * min(row["test"]), 100 * max(row["test"])
        sides = [f"{100 * fmean(each):.1f}" for each in row["sides"].values()]
        table.add_row(row["method"], f"{mean:.1f}", f"{low:.1f}, {high:.1f}", *sides, f"{row['seconds']:.0f}")
    console.print(table)


def _write(results: list[dict[str, Any]], path: Path | None) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
