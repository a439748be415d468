"""Training and evaluation steps of a single network of any kind."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from compool._words import counted
from compool.ops import fold
from compool.ops._checks import NanScore
from compool.replicas.learner import STEP_KEY, Evaluation, evaluation_of
from compool.replicas.losses import Loss
from compool.replicas.union import Graphs

# By name, because importing these layers would import PyG
_POOLINGS = {
    "compool.nn.component_pooling.ComponentPooling",
    "compool.nn.cluster_pooling.ClusterPooling",
    "compool.nn.edge_pooling.EdgePooling",
}


class SingleLearner:
    """A network, its optimizer and the state of its training; all on one device.

    The counterpart of :class:`~compool.replicas.learner.Learner` for a single replica. Each step seeds torch's
    generator by the replica's key, so resuming does not need the generator's state. The caller restores the generator.

    Args:
        network: any module that :class:`NetworkCall` can call.
        graphs: the data set.
        outputs: the allowed numbers of outputs per graph.
        key: the replica's random key, int64 [1].
        optimizer: makes an optimizer of the network's parameters.
        objective: the loss.
        clip: the maximum norm of the gradient; 0 for no limit.
        guard: returns a context in which the network's own code runs.
        name: name of the network in error messages.
    """

    def __init__(
        self,
        network: Module,
        graphs: Graphs,
        outputs: tuple[int, ...],
        key: Tensor,
        optimizer: Callable[[Iterator[torch.nn.Parameter]], torch.optim.Optimizer],
        objective: Loss | None = None,
        clip: float = 0.0,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
        name: str = "the network",
    ) -> None:
        self.network, self.graphs, self.keys, self.guard, self.name = network, graphs, key, guard, name
        self.key, self.objective, self.clip = key.cpu(), objective or Loss(), clip
        self.call = NetworkCall(network, graphs, outputs, guard, name)
        self.levels: int | None = None
        """The number of pooling layers; None if it is not known yet."""
        self.failed = torch.zeros(1, dtype=torch.bool, device=key.device)
        self.loss = torch.zeros(1, device=key.device)
        """The sum of the losses of the graphs seen in this epoch [1]."""
        self.steps = torch.zeros((), dtype=torch.long)
        self.optimizer = optimizer(network.parameters())
        _make_state(self.optimizer)

    @property
    def state(self) -> list[Tensor]:
        """All tensors that a step changes."""
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        moments = [value for value in moments if isinstance(value, Tensor)]
        return [*self.network.parameters(), *moments, *self.network.buffers(), self.failed, self.loss, self.steps]

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters and buffers of the network, by name [1, *]; they share memory with the network."""
        return {name: tensor.detach().unsqueeze(0) for name, tensor in self.network.state_dict().items()}

    def set_lr(self, lr: Tensor) -> None:
        """Change the learning rate [1]."""
        for group in self.optimizer.param_groups:
            group["lr"] = float(lr)

    def _seed(self, key: Tensor) -> None:
        """Seed the generators of this device. Without a GPU, ``torch.manual_seed`` would take half a millisecond."""
        torch.default_generator.manual_seed(int(key))
        if self.keys.is_cuda:
            torch.cuda.manual_seed(int(key))

    def step(self, ids: Tensor) -> None:
        """One step on some graphs [1, B]; −1 means no graph. Does nothing after a loss that is not finite."""
        ids = ids[ids >= 0].unsqueeze(0)
        if self.failed or not ids.numel():
            return
        self.network.train()
        self._seed(fold(fold(self.key, STEP_KEY), self.steps))
        try:
            loss = self.objective.of(self.call(ids).unsqueeze(0), self.graphs.y, ids)
        except NanScore:
            self.failed.fill_(True)
            return
        if not loss.isfinite():
            self.failed.fill_(True)
            return
        self.optimizer.zero_grad()
        with self.guard():
            loss.sum().backward()
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
        self.optimizer.step()
        self.loss += loss.detach() * ids.size(1)
        self.steps += 1

    @torch.no_grad()
    def evaluate(self, ids: Tensor) -> Evaluation:
        """Evaluate the network on some graphs [1, B]; −1 means no graph."""
        num_padded, ids = ids.size(1), ids[ids >= 0].unsqueeze(0)
        if self.failed or not ids.numel():
            return self._no_evaluation(num_padded)
        self.network.eval()
        self._seed(fold(self.key, self.steps))
        try:
            with count_nodes(self.network) as nodes:
                logits = self.call(ids).unsqueeze(0)
        except NanScore:
            self.failed.fill_(True)
            return self._no_evaluation(num_padded)
        if not logits.isfinite().all():
            self.failed.fill_(True)
        self.levels = len(nodes) if self.levels is None else self.levels
        total = int((self.graphs.node_ptr[ids + 1] - self.graphs.node_ptr[ids]).sum())
        counted = torch.tensor([[total, *(nodes + [0] * self.levels)[: self.levels]]], device=ids.device)
        measured = evaluation_of(logits, self.graphs.y, ids, counted, self.objective)
        return measured._replace(logits=F.pad(logits, (0, 0, 0, num_padded - ids.size(1))))

    def _no_evaluation(self, num_graphs: int) -> Evaluation:
        """The evaluation of no graphs."""
        zeros = torch.zeros(1, 1 + (self.levels or 0), device=self.keys.device)
        logits = zeros.new_zeros(1, num_graphs, self.call.width or self.call.outputs[0])
        return Evaluation(zeros[:, 0], zeros[:, 0], zeros, logits)


class NetworkCall:
    """Calls a network with the union of some graphs, and checks its result.

    The network's ``forward`` must take ``x``, ``edge_index`` and ``batch``, by name or in this order. It also gets
    ``edge_attr`` (None if the set has none) and ``batch_size`` if it has parameters with these names.

    Args:
        network: the network.
        graphs: the data set.
        outputs: the allowed numbers of outputs per graph, the usual one first.
        guard: returns a context in which the network's own code runs.
        name: name of the network in error messages.
    """

    def __init__(
        self,
        network: Module,
        graphs: Graphs,
        outputs: tuple[int, ...],
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
        name: str = "the network",
    ) -> None:
        self.network, self.graphs, self.outputs, self.guard, self.name = network, graphs, outputs, guard, name
        self.width = 0
        """The number of outputs per graph; 0 if it is not known yet."""
        signature = inspect.signature(network.forward)
        self.by_name = {"x", "edge_index", "batch"} <= set(signature.parameters)
        self.extra = {"edge_attr", "batch_size"} & set(signature.parameters)
        positional, named = self._arguments({})
        try:
            signature.bind(*positional, **named)
        except TypeError:
            given = f"forward({', '.join(signature.parameters)})"
            raise ValueError(f"{name} must have forward(x, edge_index, batch), got {given}") from None

    def __call__(self, ids: Tensor) -> Tensor:
        """The logits [B, outputs] of some graphs [1, B]."""
        x, union = self.graphs.union(ids)
        if x.dim() == 1:
            x = F.one_hot(x, self.graphs.width).float()
        batch = torch.repeat_interleave(union.graph_ptr.diff(), output_size=union.num_nodes)
        available = {"x": x, "edge_index": union.edge_index.long(), "batch": batch, "batch_size": ids.size(1)}
        if "edge_attr" in self.extra and self.graphs.edge_attr is not None:
            available["edge_attr"] = self.graphs.edge_attr[self.graphs.edge_ids(ids[0])]
        positional, named = self._arguments(available)
        with self.guard():
            logits = self.network(*positional, **named)
        self._check(logits, ids.size(1))
        return cast(Tensor, logits)

    def _arguments(self, available: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of ``forward``, in order and by name."""
        graph = {name: available.get(name) for name in ("x", "edge_index", "batch")}
        extra = {name: available.get(name) for name in self.extra}
        return ([], graph | extra) if self.by_name else (list(graph.values()), extra)

    def _check(self, logits: object, num_graphs: int) -> None:
        """Require that the network returned the logits of each graph."""
        shape = list(logits.shape) if isinstance(logits, Tensor) else None
        if shape is None or len(shape) != 2 or shape[0] != num_graphs or shape[1] not in self.outputs:
            returned = f"type {type(logits).__name__}" if shape is None else f"a tensor of shape {shape}"
            raise ValueError(
                f"{self.name} must return logits or values [graphs, outputs], which is "
                f"[{num_graphs}, {self.outputs[0]}] for {counted(num_graphs, 'graph')}; it returned {returned}"
            )
        self.width = shape[1]
        if torch.is_grad_enabled() and self.network.training and not cast(Tensor, logits).requires_grad:
            raise ValueError(f"{self.name} has nothing to train: its logits do not depend on any parameter")


@contextmanager
def count_nodes(network: Module) -> Iterator[list[int]]:
    """Yield a list to which each call of one of compool's pooling layers appends the number of nodes that are left."""
    nodes = list[int]()
    hooks = [
        layer.register_forward_hook(lambda _, __, out: nodes.append(out[0].size(0)))
        for layer in pooling_layers(network)
    ]
    try:
        yield nodes
    finally:
        for hook in hooks:
            hook.remove()


def pooling_layers(network: Module) -> list[Module]:
    """The pooling layers of compool in the network."""
    return [
        layer
        for layer in network.modules()
        if any(f"{base.__module__}.{base.__qualname__}" in _POOLINGS for base in type(layer).__mro__)
    ]


def _make_state(optimizer: torch.optim.Optimizer) -> None:
    """Create the state that an optimizer creates in its first step, so that saved state can be restored into it."""
    for group in optimizer.param_groups:
        rate, group["lr"] = group["lr"], 0.0
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        group["lr"] = rate
    optimizer.zero_grad()
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
