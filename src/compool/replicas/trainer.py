"""Train a stack of networks, each replica on its own split, from its own random stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.data import Split
from compool.ops import _library, fold
from compool.ops._checks import NanScore
from compool.replicas.adam import Adam
from compool.replicas.captured import Captured, put
from compool.replicas.pooling import EdgePooling
from compool.replicas.stack import GIN, Network
from compool.replicas.union import Graphs, Room, Union

# Uses of a replica's key
_ORDER, _STEP = 1, 2
Result = TypeVar("Result")
EVALUATED = 128  # graphs of each replica in one union, when nothing is learned
SPARE = 0.1  # of the room after pooling
LARGE = 2**18  # edges from which on it is worth while to have no more room than needed


class Settings(NamedTuple):
    """How replicas are trained; the tensors hold a number for each [R]."""

    epochs: int
    batch: int
    """Graphs of each replica in a step."""
    lr: Tensor
    halve: int
    """The learning rate is halved after every so many epochs."""
    weight_decay: Tensor
    decoupled: bool = True
    """AdamW rather than Adam."""


@dataclass
class Curves:
    """What was seen in each epoch, a row an epoch, a column a replica."""

    loss: list[Tensor] = field(default_factory=list)
    validation: list[Tensor] = field(default_factory=list)
    test: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    """The share of nodes kept after each pooling layer, on the validation graphs [R, levels]."""


@dataclass
class Trained:
    """What came of the training of R replicas."""

    curves: Curves
    failed: Tensor
    """Mask [R] of the replicas whose loss or weights were no longer finite; they were stopped then."""
    epoch: Tensor
    """The epoch, from 1, with the best validation accuracy, the later of equals [R]."""
    validation: Tensor
    """The validation accuracy of that epoch [R]."""
    test: Tensor
    """The test accuracy of that epoch [R]."""


def train(
    stack: Network | GIN,
    graphs: Graphs,
    splits: Sequence[Split],
    keys: Tensor,
    settings: Settings,
    report: Callable[[int, Curves], None] | None = None,
) -> Trained:
    """Train R networks at once.

    Replica r sees the graphs of its split in an order and with dropout that depend on ``keys[r]`` alone: training it by
    itself or with others is the same training.

    Args:
        stack: the networks, as initialised.
        graphs: the data set.
        splits: the split of each replica.
        keys: the random key of each replica, int64 [R].
        settings: epochs, batch size and the like.
        report: called after each epoch with its number and the curves so far.
    """
    device = graphs.y.device
    train_ids, validation_ids, test_ids = (
        _padded([getattr(split, part) for split in splits], device) for part in ("train", "validation", "test")
    )
    train_ids = _whole(train_ids, settings.batch)
    size = _evaluated(max(validation_ids.size(1), test_ids.size(1)))
    held = [_whole(ids, size) for ids in (validation_ids, test_ids)]
    learner = _Learner(stack, graphs, keys, Adam(stack, settings.lr, settings.weight_decay, settings.decoupled))
    step: Callable[[Tensor], None] = learner.step
    look: Callable[[Tensor], tuple[Tensor, Tensor]] = learner.look
    fitted: list[_Fitted[Any]] = []
    if _can_capture(stack, graphs):
        step = _Fitted(learner, learner.step, train_ids[:, : settings.batch], _room(graphs, train_ids, keys, settings))
        room = graphs.room(torch.cat([_parts(ids, size) for ids in held]))
        look = _Fitted(learner, learner.look, held[0][:, :size], room)
        fitted = [step, look]
    best = Trained(Curves(), learner.failed, *(torch.full((len(splits),), -1.0, device=device) for _ in range(3)))
    number = (train_ids >= 0).sum(1).clamp(min=1)
    for epoch in range(1, settings.epochs + 1):
        learner.adam.set_lr(settings.lr * 0.5 ** ((epoch - 1) // settings.halve))
        learner.loss.zero_()
        before = [tensor.detach().clone() for tensor in learner.state] if any(one.after for one in fitted) else []
        while True:
            for ids in _shuffled(train_ids, _order(keys, epoch)).split(settings.batch, dim=1):
                step(ids)
            found = [_accuracy(look, ids, size) for ids in held]
            if sum(not one.suffices() for one in fitted) == 0:
                break
            put(learner.state, before)  # there is more room now
        _record(best, epoch, learner.loss / number, *found)
        if report is not None:
            report(epoch, best.curves)
    best.epoch = best.epoch.long()
    return best


class _Learner:
    """A stack, its optimizer, and what came of it so far; all on one device."""

    def __init__(self, stack: Network | GIN, graphs: Graphs, keys: Tensor, adam: Adam) -> None:
        self.stack, self.graphs, self.keys, self.adam = stack, graphs, keys, adam
        self.room: Room | None = None
        """If set, unions are padded to this size, and nothing comes to the host."""
        self.after: tuple[Room, ...] = ()
        """The room after each pooling that minds it."""
        self.levels = sum(isinstance(layer, EdgePooling) for layer in stack.modules())
        """How many these are."""
        self.needed = torch.zeros(self.levels, 2, dtype=torch.long, device=keys.device)
        """The most nodes and edges that were there after each of them."""
        self.failed = torch.zeros(keys.size(0), dtype=torch.bool, device=keys.device)
        self.loss = torch.zeros(keys.size(0), device=keys.device)
        """The sum of the losses of the graphs seen in this epoch [R]."""
        self.steps = torch.zeros((), dtype=torch.long, device=keys.device)

    @property
    def state(self) -> list[Tensor]:
        """All that a step changes."""
        return [*self.adam.state, *self.stack.buffers(), self.failed, self.loss, self.steps]

    def step(self, ids: Tensor) -> None:
        """One step of every replica on its graphs [R, B]. Replicas that fail are silenced."""
        self.stack.train()
        keys = fold(fold(self.keys, _STEP), self.steps)

        def losses_of(ids: Tensor) -> Tensor:
            found = self.stack(*self.graphs.union(ids, keys, self.room, self.after))
            self._note(found.needed)
            return loss_of(found.logits, self.graphs.y, ids)

        losses = self._guarded(losses_of, ids)
        losses.masked_fill(self.failed, 0.0).nan_to_num(0.0, 0.0, 0.0).sum().backward()
        number = (ids >= 0).sum(1)
        self.adam.step((number > 0) & ~self.failed)
        losses = losses.detach()
        self.failed |= ~losses.isfinite() | self.adam.broken()
        if self.room is not None or bool(self.failed.any()):
            self.adam.silence(self.failed)
        self.loss += torch.nan_to_num(losses.float()) * number
        self.steps += 1

    @torch.no_grad()
    def look(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """How many of its graphs [R, B] each replica gets right [R]; its nodes, before and after each pooling layer."""

        def look(ids: Tensor) -> tuple[Tensor, Tensor]:
            x, union = self.graphs.union(ids, None, self.room, self.after)
            right, nodes, needed = _look(self.stack, self.graphs.y, ids, x, union)
            self._note(needed)
            return right, nodes

        return self._guarded(look, ids)

    def _note(self, needed: list[Tensor]) -> None:
        if needed:
            torch.maximum(self.needed, torch.stack(needed), out=self.needed)

    def _guarded(self, run: Callable[[Tensor], Result], ids: Tensor) -> Result:
        """`run` on the graphs of the replicas that have not failed. Where scores are NaN it raises, if it may ask the
        host: then the replicas that do so by themselves have failed, too, and the others go on as if nothing had been.
        """
        if self.room is not None:
            return run(ids.masked_fill(self.failed.unsqueeze(1), -1))
        before = [buffer.clone() for buffer in self.stack.buffers()]
        try:
            return run(ids.masked_fill(self.failed.unsqueeze(1), -1))
        except NanScore:
            for replica in (~self.failed).nonzero().flatten().tolist():
                others = torch.arange(len(self.failed), device=ids.device) != replica
                try:
                    run(ids.masked_fill(others.unsqueeze(1), -1))
                except NanScore:
                    self.failed[replica] = True
            for buffer, value in zip(self.stack.buffers(), before, strict=True):  # running statistics
                buffer.copy_(value)
            return run(ids.masked_fill(self.failed.unsqueeze(1), -1))


class _Fitted(Generic[Result]):
    """A function of a learner, captured. After poolings that leave an unknown number of nodes and edges, there is as
    much room as they took in the epoch before, and some more.
    """

    def __init__(self, learner: _Learner, function: Callable[[Tensor], Result], given: Tensor, room: Room) -> None:
        self.learner, self.function, self.given, self.room = learner, function, given, room
        self.needed, self.spare = torch.zeros_like(learner.needed), SPARE
        self.after: tuple[Room, ...] = ()
        self._capture()

    def _capture(self) -> None:
        self.captured: Captured[Result] | None = None  # the memory of the one before is free again
        learner = self.learner
        learner.room, learner.after, learner.needed = self.room, self.after, self.needed
        self.captured = Captured(self.function, self.given, learner.state)
        self.needed.zero_()

    def __call__(self, given: Tensor) -> Result:
        assert self.captured is not None
        return self.captured(given)

    def suffices(self) -> bool:
        """Whether there was room for all of an epoch. If not, there is for what comes next, and the epoch is void. If
        there was much more than was needed, there is less next time.
        """
        if not len(self.needed):
            return True
        needed, now = torch.tensor(self.needed.tolist()), torch.tensor(self.after or (self.room,) * len(self.needed))
        self.needed.zero_()
        if (needed > now).any():
            self.after, self.spare = (), 2 * self.spare
            self._capture()
            return False
        less = torch.minimum((needed * (1 + self.spare)).long() + 1, now)
        if self.room.edges >= LARGE and less.sum() < 0.8 * now.sum():
            self.after = tuple(Room(*level) for level in less.tolist())
            self._capture()
        return True


def _can_capture(stack: Network | GIN, graphs: Graphs) -> bool:
    """Whether a step can be a CUDA graph: all kernels must be there that bring nothing to the host."""
    kernels = find_spec("triton") is not None and not _library.only_torch
    plain = torch.are_deterministic_algorithms_enabled() or next(stack.parameters()).dtype != torch.float32
    return graphs.y.is_cuda and kernels and not plain


def _room(graphs: Graphs, ids: Tensor, keys: Tensor, settings: Settings) -> Room:
    """Room for the largest step of the whole training: no batch is ever too large."""
    epochs = range(1, settings.epochs + 1)
    rooms = [graphs.room(_parts(_shuffled(ids, _order(keys, epoch)), settings.batch)) for epoch in epochs]
    return Room(max(room.nodes for room in rooms), max(room.edges for room in rooms))


def _order(keys: Tensor, epoch: int) -> Tensor:
    return fold(fold(keys, _ORDER), epoch)


def _whole(ids: Tensor, size: int) -> Tensor:
    """Lists [R, n] in a whole number of parts of `size`; −1 stands for no graph."""
    return F.pad(ids, (0, -ids.size(1) % size), value=-1)


def _parts(ids: Tensor, size: int) -> Tensor:
    """[R, n] to [n / size, R, size]."""
    return ids.view(ids.size(0), -1, size).transpose(0, 1)


def loss_of(logits: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """The mean loss of each replica's graphs [R]: binary cross-entropy for one logit, else cross-entropy."""
    there = ids >= 0
    target = y[ids.clamp(min=0)]
    if logits.size(2) == 1:
        each = F.binary_cross_entropy_with_logits(logits.squeeze(2), target.to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(ids.shape)
    return (each * there).sum(1) / there.sum(1).clamp(min=1)


def _padded(parts: Sequence[object], device: torch.device) -> Tensor:
    """Lists of graphs as one matrix [R, longest], with −1 where a list is shorter."""
    rows = [torch.as_tensor(part, dtype=torch.long) for part in parts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1).to(device)


def _shuffled(ids: Tensor, keys: Tensor) -> Tensor:
    """Each row in an order of its own, by its key; −1 stays at the end."""
    columns = torch.arange(ids.size(1), device=ids.device)
    random = fold(keys.unsqueeze(1), columns) >> 1  # below 2⁶²
    order = random.masked_fill(ids < 0, torch.iinfo(torch.long).max).argsort(dim=1, stable=True)
    return ids.gather(1, order)


def _look(stack: Network | GIN, y: Tensor, ids: Tensor, x: Tensor, union: Union) -> tuple[Tensor, Tensor, list[Tensor]]:
    stack.eval()
    logits, levels, needed = stack(x, union)
    guess = (logits.squeeze(2) > 0).long() if logits.size(2) == 1 else logits.argmax(2)
    right = ((guess == y[ids.clamp(min=0)]) & (ids >= 0)).sum(1)
    return right, torch.stack([union.ptr.diff(), *levels], 1), needed


def _evaluated(number: int) -> int:
    """Graphs of a replica that are looked at together, of so many: equal parts."""
    return -(-number // max(1, -(-number // EVALUATED)))


def _accuracy(look: Callable[[Tensor], tuple[Tensor, Tensor]], ids: Tensor, size: int) -> tuple[Tensor, Tensor]:
    right, nodes = torch.zeros((), device=ids.device), torch.zeros((), device=ids.device)
    for part in ids.split(size, dim=1):
        found = look(part)
        right, nodes = right + found[0], nodes + found[1]
    return right / (ids >= 0).sum(1).clamp(min=1), nodes[:, 1:] / nodes[:, :1].clamp(min=1)


@torch.no_grad()
def evaluate(stack: Network | GIN, graphs: Graphs, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The accuracy of each replica on its graphs [R], and the share of nodes kept by each pooling layer [R, levels]."""
    return _accuracy(lambda part: _look(stack, graphs.y, part, *graphs.union(part))[:2], ids, _evaluated(ids.size(1)))


def _record(
    best: Trained, epoch: int, loss: Tensor, validation: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]
) -> None:
    """Note an epoch, and whether it is the best so far."""
    (accuracy, kept), failed = validation, best.failed
    seen = {"loss": loss, "validation": accuracy, "test": test[0]}
    for name, values in seen.items():
        getattr(best.curves, name).append(values.masked_fill(failed, torch.nan).cpu())
    best.curves.kept.append(kept.cpu())
    better = (accuracy >= best.validation) & ~failed
    best.epoch = torch.where(better, float(epoch), best.epoch)
    best.validation = torch.where(better, accuracy, best.validation)
    best.test = torch.where(better, test[0], best.test)
