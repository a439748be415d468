"""Message-passing networks on a CPU, for `connectivity.py`: the loss and gradients of `message_passing.cpp`.

The C++ file is compiled when it is first used. A step takes a fifth to a sixth of the time that it takes with PyG's
layers.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import connectivity_networks as networks
import torch
import torch.nn.functional as F
from torch import Tensor

from compool.data import GraphSet

SOURCE = Path(__file__).with_name("message_passing.cpp")
BUILT = Path(__file__).parents[1] / "out" / "message-passing"
# In place of -ffast-math, which would flush subnormal numbers to zero in the whole process
FAST_MATH = (
    *("-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math"),
    *("-fno-math-errno", "-ffinite-math-only"),
)
FLAGS = ("-std=c++17", "-O3", "-march=native", "-mprefer-vector-width=512", *FAST_MATH, "-fopenmp")
HIDDEN = 32
KINDS: dict[type, int] = {networks.GCN: 0, networks.GIN4: 1, networks.GAT: 2}  # as in message_passing.cpp


@cache
def compiled() -> ctypes.CDLL:
    """The library made from `message_passing.cpp`."""
    compiler = shutil.which("c++")
    if compiler is None:
        raise SystemExit("no C++ compiler (c++) found: install g++, or train with --device cuda")
    built_for = " ".join((*FLAGS, platform.node()))  # -march=native: for this machine
    key = hashlib.sha256(SOURCE.read_bytes() + built_for.encode()).hexdigest()[:16]
    library = BUILT / f"{key}.so"
    if not library.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, *FLAGS, "-shared", "-fPIC", str(SOURCE), "-o", str(partial)], check=True)
        partial.replace(library)
    return ctypes.CDLL(str(library))


class CompiledStack:
    """R networks of one class, and graphs that have the same edges, on a CPU."""

    def __init__(self, modules: list[networks.GCN], graphs: GraphSet) -> None:
        if modules[0].first.out_features != HIDDEN:
            raise ValueError(f"message_passing.cpp has {HIDDEN} channels, got {modules[0].first.out_features}")
        self.kind = next(kind for network, kind in KINDS.items() if type(modules[0]).layer is network.layer)
        self.depth, self.virtual = len(modules[0].layers), isinstance(modules[0], networks.VirtualNode)
        rows = [torch.cat([weight.detach().flatten() for weight in module.parameters()]) for module in modules]
        self.values = torch.stack(rows).requires_grad_()
        self.weights = [self.values]
        self.to_graphs(graphs)
        check(modules, self)

    def to_graphs(self, graphs: GraphSet) -> None:
        """Continue with other graphs."""
        assert graphs.labels is not None
        self.nodes = int(graphs.node_ptr[1])
        self.red = torch.from_numpy(graphs.labels).view(-1, self.nodes).to(torch.int8).contiguous()
        self.y = torch.from_numpy(graphs.y).long()
        edges = torch.from_numpy(graphs.edge_index[:, : int(graphs.edge_ptr[1])]).long()
        edges = torch.cat([edges, torch.arange(self.nodes).expand(2, -1)], 1)
        target, source = edges[:, edges[1].argsort(stable=True)].flip(0)
        degree = torch.bincount(target, minlength=self.nodes)
        self.row_ptr, self.source = F.pad(degree.cumsum(0), (1, 0)).int(), source.int()
        scale = degree.rsqrt() if self.kind == KINDS[networks.GCN] else torch.ones(self.nodes)
        self.factor = scale[target] * scale[source]

    def logits(self, ids: Tensor, gradients: Tensor | None = None) -> Tensor:
        """The logits [R, B, 2] of graphs [R, B]; `gradients` [R, W] receives those of each network's mean loss."""
        ids, logits = ids.contiguous(), torch.empty(*ids.shape, 2)
        graphs = (self.row_ptr, self.source, self.factor, self.red, ids, self.y)
        pointers = [tensor.data_ptr() for tensor in (*graphs, self.values, logits)]
        pointers.append(0 if gradients is None else gradients.data_ptr())
        sizes = (self.kind, self.depth, self.virtual, self.nodes, *ids.shape, self.values.size(1))
        compiled().run(*map(ctypes.c_int, (*sizes, torch.get_num_threads())), *map(ctypes.c_void_p, pointers))
        return logits

    def backward(self, ids: Tensor) -> None:
        """Set the gradient of the sum of the networks' mean losses."""
        self.values.grad = torch.empty_like(self.values)
        self.logits(ids, self.values.grad)

    def correct(self, ids: Tensor) -> Tensor:
        """How many graphs each network classifies correctly [R]."""
        return (self.logits(ids).argmax(2) == self.y[ids]).sum(1)


def check(modules: list[networks.GCN], stack: CompiledStack) -> None:
    """Raise an error if logits or gradients differ from those of PyG's layers."""
    ids = torch.arange(3).expand(len(modules), -1)
    stack.backward(ids)
    edges = torch.stack([stack.source, torch.arange(stack.nodes).repeat_interleave(stack.row_ptr.diff())])
    edges = edges[:, edges[0] != edges[1]].long()
    edge_index = torch.cat([edges + graph * stack.nodes for graph in range(3)], 1)
    batch = torch.arange(3).repeat_interleave(stack.nodes)
    for module, row, graphs, logits in zip(modules, stack.values.grad, ids, stack.logits(ids), strict=True):
        expected = module(F.one_hot(stack.red[graphs].long(), 2).float().flatten(0, 1), edge_index, batch, 3)
        gradients = torch.autograd.grad(F.cross_entropy(expected, stack.y[graphs]), list(module.parameters()))
        torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(row, torch.cat([each.flatten() for each in gradients]), rtol=1e-3, atol=1e-4)
