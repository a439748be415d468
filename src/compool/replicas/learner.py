"""Steps of a stack of networks, and how they are captured on a GPU."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.ops import fold
from compool.ops._checks import NanScore
from compool.replicas.adam import Adam
from compool.replicas.captured import Captured
from compool.replicas.pooling import EdgePooling
from compool.replicas.stack import GIN, Network
from compool.replicas.union import Graphs, Room

Result = TypeVar("Result")
ORDER, STEP = 1, 2  # what a replica's key is folded with, by what it is for
SPARE = 0.1  # room after pooling beyond what the epoch before took, as a share of that
LARGE = 2**18  # edges from which on it is worth while to have no more room than needed


class Seen(NamedTuple):
    """What each replica makes of graphs that do not train it."""

    right: Tensor
    """How many it gets right [R]."""
    loss: Tensor
    """The sum of their losses [R]."""
    nodes: Tensor
    """Their nodes, before and after each pooling layer [R, 1 + levels]."""


class Learner:
    """A stack, its optimizer, and what came of it so far; all on one device."""

    def __init__(self, stack: Network | GIN, graphs: Graphs, keys: Tensor, adam: Adam) -> None:
        self.stack, self.graphs, self.keys, self.adam = stack, graphs, keys, adam
        self.room: Room | None = None
        """If set, unions are padded to this size, and nothing comes to the host."""
        self.after: tuple[Room, ...] = ()
        """The room after each pooling that minds it."""
        levels = sum(isinstance(layer, EdgePooling) for layer in stack.modules())
        self.needed = torch.zeros(levels, 2, dtype=torch.long, device=keys.device)
        """The most nodes and edges that were there after each of these."""
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
        keys = fold(fold(self.keys, STEP), self.steps)

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
    def look(self, ids: Tensor) -> Seen:
        """What each replica makes of its graphs [R, B]."""

        def look(ids: Tensor) -> Seen:
            self.stack.eval()
            x, union = self.graphs.union(ids, None, self.room, self.after)
            logits, levels, needed = self.stack(x, union)
            self._note(needed)
            guess = (logits.squeeze(2) > 0).long() if logits.size(2) == 1 else logits.argmax(2)
            there = ids >= 0
            right = ((guess == self.graphs.y[ids.clamp(min=0)]) & there).sum(1)
            loss = loss_of(logits, self.graphs.y, ids) * there.sum(1)
            return Seen(right, loss, torch.stack([union.ptr.diff(), *levels], 1))

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


class Fitted(Generic[Result]):
    """A function of a learner, captured. After poolings that leave an unknown number of nodes and edges, there is as
    much room as they took in the epoch before, and some more.
    """

    def __init__(self, learner: Learner, function: Callable[[Tensor], Result], given: Tensor, room: Room) -> None:
        self.learner, self.function, self.given, self.room = learner, function, given, room
        self.needed, self.spare = torch.zeros_like(learner.needed), SPARE
        self.after: tuple[Room, ...] = ()
        self._capture()

    def _capture(self) -> None:
        self.captured: Captured[Result] | None = None  # the memory of the one before is free again
        learner = self.learner
        learner.room, learner.after, learner.needed = self.room, self.after, self.needed
        self.captured = Captured(self.function, self.given, learner.state)

    def __call__(self, given: Tensor) -> Result:
        """The function, replayed."""
        assert self.captured is not None
        return self.captured(given)

    @property
    def _now(self) -> Tensor:
        """The room after each pooling [levels, 2]."""
        return torch.tensor(self.after or (self.room,) * len(self.needed)).view(-1, 2)

    def suffices(self) -> bool:
        """Whether there was room for all of an epoch. If not, the epoch is void; from now on there is room for all."""
        if not self.after or not (self.needed.cpu() > self._now).any():
            return True
        self.after, self.spare = (), 2 * abs(self.spare)
        self._capture()
        return False

    def fit(self) -> None:
        """After an epoch for which there was much more room than it took: less."""
        less = (self.needed.cpu() * (1 + self.spare)).long().clamp(min=1)
        if self.room.edges >= LARGE and less.sum() < 0.8 * self._now.sum():
            self.after = tuple(Room(*level) for level in torch.minimum(less + 1, self._now).tolist())
            self._capture()


def loss_of(logits: Tensor, y: Tensor, ids: Tensor) -> Tensor:
    """The mean loss of each replica's graphs [R]: binary cross-entropy for one logit, else cross-entropy."""
    there = ids >= 0
    target = y[ids.clamp(min=0)]
    if logits.size(2) == 1:
        each = F.binary_cross_entropy_with_logits(logits.squeeze(2), target.to(logits.dtype), reduction="none")
    else:
        each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view(ids.shape)
    return (each * there).sum(1) / there.sum(1).clamp(min=1)
