"""Train a stack of networks, each replica on its own split, from its own random stream."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.data import Split
from compool.ops import fold
from compool.ops._dispatch import has_kernels
from compool.replicas.adam import Adam
from compool.replicas.captured import put
from compool.replicas.learner import ORDER, Fitted, Learner, Seen
from compool.replicas.stack import GIN, Network
from compool.replicas.union import Capacity, Graphs

_log = logging.getLogger(__name__)
BEST = ("epoch", "validation", "test")  # fields of Trained that epochs change
EVALUATED = 128  # graphs of each replica in one union, when nothing is learned


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
    shuffle: bool = True
    """Each epoch has an order of its own; otherwise all have that of the split."""


@dataclass
class Curves:
    """What was measured in each epoch: one row per epoch, one column per replica."""

    loss: list[Tensor] = field(default_factory=list)
    validation: list[Tensor] = field(default_factory=list)
    validation_loss: list[Tensor] = field(default_factory=list)
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
    again: int = 0
    """How many epochs were done again: see :class:`~compool.replicas.learner.Fitted`."""


def train(
    stack: Network | GIN,
    graphs: Graphs,
    splits: Sequence[Split],
    keys: Tensor,
    settings: Settings,
    on_epoch: Callable[[int, Curves], None] | None = None,
    start: Mapping[str, Tensor] | None = None,
    save: Callable[[int, Callable[[], dict[str, Tensor]]], None] | None = None,
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
        on_epoch: called after each epoch with its number and the curves so far.
        start: resume from here: what `save` was given by a training with the same arguments.
        save: called after each epoch but the last with its number and a function that makes a `start` of it.
    """
    device = graphs.y.device
    train_ids, validation_ids, test_ids = (
        _padded([getattr(split, part) for split in splits], device) for part in ("train", "validation", "test")
    )
    train_ids = _whole(train_ids, settings.batch)
    size = _evaluated(max(validation_ids.size(1), test_ids.size(1)))
    held = [_whole(ids, size) for ids in (validation_ids, test_ids)]
    learner = Learner(stack, graphs, keys, Adam(stack, settings.lr, settings.weight_decay, settings.decoupled))
    step: Callable[[Tensor], None] = learner.step
    look: Callable[[Tensor], Seen] = learner.look
    fitted: list[Fitted[Any]] = []
    if _can_capture(stack, graphs):
        step = Fitted(
            learner, learner.step, train_ids[:, : settings.batch], _capacity(graphs, train_ids, keys, settings)
        )
        capacity = graphs.capacity(torch.cat([_parts(ids, size) for ids in held]))
        look = Fitted(learner, learner.look, held[0][:, :size], capacity)
        fitted = [step, look]
    none = torch.full((len(splits),), -1.0, device=device)
    best = Trained(Curves(), learner.failed, none, none, none)
    number = (train_ids >= 0).sum(1).clamp(min=1)
    done = _resume(learner, best, start) if start else 0
    for epoch in range(done + 1, settings.epochs + 1):
        learner.adam.set_lr(settings.lr * 0.5 ** ((epoch - 1) // settings.halve))
        learner.loss.zero_()
        before = [tensor.detach().clone() for tensor in learner.state] if any(one.after for one in fitted) else []
        while True:  # once, as a rule
            for one in fitted:
                one.needed.zero_()
            for ids in _ordered(train_ids, keys, epoch, settings).split(settings.batch, dim=1):
                step(ids)
            found = [_held_out(look, ids, size) for ids in held]
            enough = [one.suffices() for one in fitted]
            if all(enough):
                break
            put(learner.state, before)
            best.again += 1
        _record(best, epoch, learner.loss / number, *found)
        for one in fitted:
            one.fit()
        if save is not None and epoch < settings.epochs:
            save(epoch, lambda: _saved(learner, best))
        if on_epoch is not None:
            on_epoch(epoch, best.curves)
    best.epoch = best.epoch.long()
    return best


def _saved(learner: Learner, best: Trained) -> dict[str, Tensor]:
    """All that it takes to resume after an epoch."""
    saved = {f"state.{at}": tensor for at, tensor in enumerate(learner.state)}
    saved |= {f"best.{name}": getattr(best, name) for name in BEST}
    saved |= {f"curves.{one.name}": torch.stack(getattr(best.curves, one.name)) for one in fields(Curves)}
    return {name: tensor.detach().cpu() for name, tensor in saved.items()}


def _resume(learner: Learner, best: Trained, saved: Mapping[str, Tensor]) -> int:
    """Restore what was saved; the number of epochs that were done, 0 if it does not fit."""
    state = learner.state
    wanted = {f"state.{at}": tensor for at, tensor in enumerate(state)} | {f"best.{name}": best.epoch for name in BEST}
    curves = {one.name: saved.get(f"curves.{one.name}", torch.empty(0)) for one in fields(Curves)}
    fits = len(saved) == len(wanted) + len(curves) and len({len(curve) for curve in curves.values()}) == 1
    if not fits or any(
        name not in saved or saved[name].shape != tensor.shape or saved[name].dtype != tensor.dtype
        for name, tensor in wanted.items()
    ):
        _log.warning("the saved state does not fit these networks; restarting")
        return 0
    put(state, [saved[f"state.{at}"] for at in range(len(state))])
    for name in BEST:
        setattr(best, name, saved[f"best.{name}"].to(learner.keys.device))
    best.curves = Curves(**{name: list(curve) for name, curve in curves.items()})
    return len(best.curves.loss)


def _can_capture(stack: Network | GIN, graphs: Graphs) -> bool:
    """Whether a step can be a CUDA graph: all kernels must be there that bring nothing to the host."""
    plain = torch.are_deterministic_algorithms_enabled() or next(stack.parameters()).dtype != torch.float32
    return graphs.y.is_cuda and has_kernels(graphs.y) and not plain


def _capacity(graphs: Graphs, ids: Tensor, keys: Tensor, settings: Settings) -> Capacity:
    """The capacity for the largest step of the whole training: no batch is ever too large."""
    epochs = range(1, 1 + (settings.epochs if settings.shuffle else 1))
    capacities = [graphs.capacity(_parts(_ordered(ids, keys, epoch, settings), settings.batch)) for epoch in epochs]
    return Capacity(max(capacity.nodes for capacity in capacities), max(capacity.edges for capacity in capacities))


def _ordered(ids: Tensor, keys: Tensor, epoch: int, settings: Settings) -> Tensor:
    """The graphs of each replica [R, n] as an epoch sees them."""
    return _shuffled(ids, fold(fold(keys, ORDER), epoch)) if settings.shuffle else ids


def _whole(ids: Tensor, size: int) -> Tensor:
    """Lists [R, n] in a whole number of parts of `size`; −1 stands for no graph."""
    return F.pad(ids, (0, -ids.size(1) % size), value=-1)


def _parts(ids: Tensor, size: int) -> Tensor:
    """[R, n] to [n / size, R, size]."""
    return ids.view(ids.size(0), -1, size).transpose(0, 1)


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


def _evaluated(number: int) -> int:
    """Graphs of a replica that are looked at together, of so many: equal parts."""
    return -(-number // max(1, -(-number // EVALUATED)))


class _HeldOut(NamedTuple):
    """What is said of the graphs that do not train."""

    accuracy: Tensor
    loss: Tensor
    kept: Tensor
    """The share of nodes after each pooling layer [R, levels]."""


def _held_out(look: Callable[[Tensor], Seen], ids: Tensor, size: int) -> _HeldOut:
    """The graphs of each replica [R, n], looked at in parts of `size`."""
    right = loss = nodes = torch.zeros((), device=ids.device)
    for part in ids.split(size, dim=1):
        seen = look(part)
        right, loss, nodes = right + seen.right, loss + seen.loss, nodes + seen.nodes
    number = (ids >= 0).sum(1).clamp(min=1)
    return _HeldOut(right / number, loss / number, nodes[:, 1:] / nodes[:, :1].clamp(min=1))


def _record(best: Trained, epoch: int, loss: Tensor, validation: _HeldOut, test: _HeldOut) -> None:
    """Note an epoch, and whether it is the best so far."""
    accuracy, failed = validation.accuracy, best.failed
    rows = {"loss": loss, "validation": accuracy, "validation_loss": validation.loss, "test": test.accuracy}
    for name, values in rows.items():
        getattr(best.curves, name).append(values.masked_fill(failed, torch.nan).cpu())
    best.curves.kept.append(validation.kept.cpu())
    better = (accuracy >= best.validation) & ~failed
    best.epoch = torch.where(better, float(epoch), best.epoch)
    best.validation = torch.where(better, accuracy, best.validation)
    best.test = torch.where(better, test.accuracy, best.test)
