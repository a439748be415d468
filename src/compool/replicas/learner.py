"""Training and evaluation steps of a stack of networks, captured as CUDA graphs on a GPU."""

from collections.abc import Callable
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from compool.ops import fold
from compool.ops._checks import NanScore
from compool.replicas.adam import StackOptimizer
from compool.replicas.captured import Captured
from compool.replicas.losses import Loss
from compool.replicas.pooling import StackedEdgePooling
from compool.replicas.stack import GINStack, NetworkStack, Output
from compool.replicas.union import Capacity, Graphs, Union

T = TypeVar("T")
ORDER_KEY, STEP_KEY = 1, 2  # folded into a replica's key, for the order of graphs and for the randomness of steps
SPARE = 0.1  # spare capacity after edge pooling, as a share of what the last epoch needed
LARGE_UNION = 2**18  # number of edges from which a smaller capacity after edge pooling saves time


class Padding(NamedTuple):
    """The sizes that unions are padded to, so that nothing is copied to the host."""

    capacity: Capacity
    """The capacity of the union."""
    after: tuple[Capacity, ...]
    """The capacity after each edge pooling layer; if empty, it is `capacity`."""
    needed: Tensor
    """The maximum numbers of nodes and edges so far after each edge pooling layer [layers, 2]; updated in place."""


class Evaluation(NamedTuple):
    """Sums over the graphs on which each replica is evaluated."""

    correct: Tensor
    """The number of correctly classified graphs [R]; 0 unless each graph has one class."""
    loss: Tensor
    """The sum of the graphs' losses [R]."""
    nodes: Tensor
    """The number of nodes at first and after each pooling layer [R, 1 + levels]."""
    logits: Tensor
    """The outputs of the networks [R, B, outputs]."""


class Learner:
    """A stack, its optimizer and the state of its training; all on one device."""

    def __init__(
        self,
        stack: NetworkStack | GINStack,
        graphs: Graphs,
        keys: Tensor,
        adam: StackOptimizer,
        objective: Loss | None = None,
    ) -> None:
        self.stack, self.graphs, self.keys, self.adam = stack, graphs, keys, adam
        self.objective = objective or Loss()
        self.num_edge_poolings = sum(isinstance(layer, StackedEdgePooling) for layer in stack.modules())
        self.failed = torch.zeros(keys.size(0), dtype=torch.bool, device=keys.device)
        self.loss = torch.zeros(keys.size(0), device=keys.device)
        """The sum of the losses of the graphs seen in this epoch [R]."""
        self.steps = torch.zeros_like(keys)
        """The number of steps of each replica [R]."""

    @property
    def state(self) -> list[Tensor]:
        """All tensors that a step changes."""
        return [*self.adam.state, *self.stack.buffers(), self.failed, self.loss, self.steps]

    @property
    def weights(self) -> dict[str, Tensor]:
        """The parameters and buffers of the networks, by name [R, *]; they share memory with the stack."""
        return self.stack.state_dict()

    def set_lr(self, lr: Tensor) -> None:
        """Change the learning rate of each replica [R]."""
        self.adam.set_lr(lr)

    def step(self, ids: Tensor, padding: Padding | None = None) -> None:
        """One step of every replica on its graphs [R, B]. The values of replicas that fail are set to zero."""
        self.stack.train()
        keys = fold(fold(self.keys, STEP_KEY), self.steps)

        def losses_of(ids: Tensor) -> Tensor:
            return self.objective.of(self._output(ids, keys, padding)[1].logits, self.graphs.y, ids)

        losses = losses_of(self._active(ids)) if padding else self._guarded(losses_of, ids)
        losses.masked_fill(self.failed, 0.0).nan_to_num(0.0, 0.0, 0.0).sum().backward()
        num_graphs = (ids >= 0).sum(1)
        self.adam.step((num_graphs > 0) & ~self.failed)
        losses = losses.detach()
        self.failed |= ~losses.isfinite() | self.adam.broken()
        if padding or bool(self.failed.any()):
            self.adam.silence(self.failed)
        self.loss += torch.nan_to_num(losses.float()) * num_graphs
        self.steps += num_graphs > 0

    @torch.no_grad()
    def evaluate(self, ids: Tensor, padding: Padding | None = None) -> Evaluation:
        """Evaluate each replica on its graphs [R, B]. Replicas whose logits are not finite fail."""

        def evaluate_active(ids: Tensor) -> Evaluation:
            self.stack.eval()
            union, (logits, levels, _) = self._output(ids, None, padding)
            self.failed |= ~logits.masked_fill((ids < 0).unsqueeze(2), 0.0).isfinite().all(2).all(1)
            nodes = torch.stack([union.ptr.diff(), *levels], 1)
            return evaluation_of(logits, self.graphs.y, ids, nodes, self.objective)

        return evaluate_active(self._active(ids)) if padding else self._guarded(evaluate_active, ids)

    def _output(self, ids: Tensor, keys: Tensor | None, padding: Padding | None) -> tuple[Union, Output]:
        capacity, after, needed = padding or (None, (), None)
        x, union = self.graphs.union(ids, keys, capacity, after)
        output: Output = self.stack(x, union)
        if needed is not None and output.needed:
            torch.maximum(needed, torch.stack(output.needed), out=needed)
        return union, output

    def _active(self, ids: Tensor) -> Tensor:
        """The graphs of the replicas that have not failed."""
        return ids.masked_fill(self.failed.unsqueeze(1), -1)

    def _guarded(self, function: Callable[[Tensor], T], ids: Tensor) -> T:
        """Apply `function` to the graphs of the replicas that have not failed. If it raises an error because of NaN
        scores, each replica that alone raises this error is marked as failed, and `function` runs without them.
        """
        before = [buffer.clone() for buffer in self.stack.buffers()]
        try:
            return function(self._active(ids))
        except NanScore:
            for replica in (~self.failed).nonzero().flatten().tolist():
                others = torch.arange(len(self.failed), device=ids.device) != replica
                try:
                    function(ids.masked_fill(others.unsqueeze(1), -1))
                except NanScore:
                    self.failed[replica] = True
            for buffer, value in zip(self.stack.buffers(), before, strict=True):  # running statistics
                buffer.copy_(value)
            return function(self._active(ids))


class CapturedStep(Generic[T]):
    """A captured step of a learner. The numbers of nodes and edges after edge pooling are not known in advance: the
    capacity after it is what the last epoch needed, plus a margin.
    """

    def __init__(self, learner: Learner, function: Callable[..., T], given: Tensor, capacity: Capacity) -> None:
        self.learner, self.function, self.given, self.capacity = learner, function, given, capacity
        self.needed = torch.zeros(learner.num_edge_poolings, 2, dtype=torch.long, device=given.device)
        self.spare = SPARE
        self.after: tuple[Capacity, ...] = ()
        self._capture()

    def _capture(self) -> None:
        self.captured: Captured[T] | None = None  # frees the memory of the previous graph
        padding = Padding(self.capacity, self.after, self.needed)
        self.captured = Captured(partial(self.function, padding=padding), self.given, self.learner.state)

    def __call__(self, given: Tensor) -> T:
        """Replay the captured function with this argument."""
        assert self.captured is not None
        return self.captured(given)

    @property
    def _capacities(self) -> Tensor:
        """The capacity after each edge pooling layer [layers, 2]."""
        return torch.tensor(self.after or (self.capacity,) * len(self.needed)).view(-1, 2)

    def check_capacity(self) -> bool:
        """Whether the capacity sufficed for an epoch. If not, it is reset to the maximum, to repeat the epoch."""
        if not self.after or not (self.needed.cpu() > self._capacities).any():
            return True
        self.after, self.spare = (), 2 * abs(self.spare)
        self._capture()
        return False

    def shrink_capacity(self) -> None:
        """Reduce the capacity if an epoch needed much less."""
        sufficient = (self.needed.cpu() * (1 + self.spare)).long().clamp(min=1)
        if self.capacity.edges >= LARGE_UNION and sufficient.sum() < 0.8 * self._capacities.sum():
            self.after = tuple(Capacity(*level) for level in torch.minimum(sufficient + 1, self._capacities).tolist())
            self._capture()


def evaluation_of(logits: Tensor, y: Tensor, ids: Tensor, nodes: Tensor, loss: Loss) -> Evaluation:
    """The evaluation of each replica's graphs [R, B], given their logits [R, B, outputs]."""
    is_graph = ids >= 0
    if y.is_floating_point():
        correct = torch.zeros_like(is_graph.sum(1))
    else:
        guess = (logits.squeeze(2) > 0).long() if logits.size(2) == 1 else logits.argmax(2)
        correct = ((guess == y[ids.clamp(min=0)]) & is_graph).sum(1)
    return Evaluation(correct, loss.of(logits, y, ids) * is_graph.sum(1), nodes, logits)
