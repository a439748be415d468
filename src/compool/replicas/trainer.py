"""Train a stack of networks, each replica on its own split, from its own random stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.data import Split
from compool.ops import fold
from compool.ops._checks import NanScore
from compool.replicas.adam import Adam
from compool.replicas.stack import GIN, Network
from compool.replicas.union import Graphs

# Uses of a replica's key
_ORDER, _STEP = 1, 2
Result = TypeVar("Result")
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
    adam = Adam(stack, settings.lr, settings.weight_decay, settings.decoupled)
    failed = torch.zeros(len(splits), dtype=torch.bool, device=device)
    best = Trained(Curves(), failed, *(torch.full((len(splits),), -1.0, device=device) for _ in range(3)))
    step = 0
    for epoch in range(1, settings.epochs + 1):
        adam.set_lr(settings.lr * 0.5 ** ((epoch - 1) // settings.halve) * ~failed.to(settings.lr.device))
        stack.train()
        shuffled = _shuffled(train_ids, fold(fold(keys, _ORDER), epoch))
        total = torch.zeros(len(splits), device=device)
        for ids in shuffled.split(settings.batch, dim=1):
            loss = _step(stack, adam, graphs, ids, fold(fold(keys, _STEP), step), failed)
            total += torch.nan_to_num(loss.float()) * (ids >= 0).sum(1)
            step += 1
        _record(best, epoch, stack, graphs, validation_ids, test_ids, total / (train_ids >= 0).sum(1), failed)
        if report is not None:
            report(epoch, best.curves)
    best.epoch = best.epoch.long()
    return best


def _step(stack: Network | GIN, adam: Adam, graphs: Graphs, ids: Tensor, keys: Tensor, failed: Tensor) -> Tensor:
    """One step of every replica; its losses [R]. Replicas that fail are silenced, and marked in `failed`."""

    def losses_of(ids: Tensor) -> Tensor:
        return loss_of(stack(*graphs.union(ids, keys)).logits, graphs.y, ids)

    losses = _guarded(losses_of, ids, failed)
    losses.masked_fill(failed, 0.0).nan_to_num(0.0, 0.0, 0.0).sum().backward()
    adam.step()
    failed |= ~losses.detach().isfinite() | adam.broken(len(failed))
    if bool(failed.any()):
        adam.silence(failed)
    return losses.detach().masked_fill(failed, torch.nan)


def _guarded(run: Callable[[Tensor], Result], ids: Tensor, failed: Tensor) -> Result:
    """`run` on the graphs of the replicas that have not failed. Where scores are NaN it raises: then the replicas that
    do so by themselves have failed, too, and the others go on.
    """
    try:
        return run(ids.masked_fill(failed.unsqueeze(1), -1))
    except NanScore:
        for replica in (~failed).nonzero().flatten().tolist():
            others = torch.arange(len(failed), device=failed.device) != replica
            try:
                run(ids.masked_fill(others.unsqueeze(1), -1))
            except NanScore:
                failed[replica] = True
        return run(ids.masked_fill(failed.unsqueeze(1), -1))


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


@torch.no_grad()
def evaluate(stack: Network | GIN, graphs: Graphs, ids: Tensor) -> tuple[Tensor, Tensor]:
    """The accuracy of each replica on its graphs [R], and the share of nodes kept by each pooling layer [R, levels]."""
    stack.eval()
    right = torch.zeros(ids.size(0), device=ids.device)
    kept: list[Tensor] = []
    for part in ids.split(EVALUATED, dim=1):
        x, union = graphs.union(part)
        logits, levels = stack(x, union)
        guess = (logits.squeeze(2) > 0).long() if logits.size(2) == 1 else logits.argmax(2)
        right += ((guess == graphs.y[part.clamp(min=0)]) & (part >= 0)).sum(1)
        counts = torch.stack([union.ptr.diff(), *levels], 1)
        kept.append(counts)
    total = torch.stack(kept).sum(0)
    return right / (ids >= 0).sum(1).clamp(min=1), total[:, 1:] / total[:, :1].clamp(min=1)


def _record(
    best: Trained,
    epoch: int,
    stack: Network | GIN,
    graphs: Graphs,
    validation_ids: Tensor,
    test_ids: Tensor,
    loss: Tensor,
    failed: Tensor,
) -> None:
    """Evaluate, and note the epoch where it is the best so far."""
    validation, kept = _guarded(lambda ids: evaluate(stack, graphs, ids), validation_ids, failed)
    test, _ = _guarded(lambda ids: evaluate(stack, graphs, ids), test_ids, failed)
    curves = best.curves
    curves.loss.append(loss.masked_fill(failed, torch.nan).cpu())
    curves.validation.append(validation.masked_fill(failed, torch.nan).cpu())
    curves.test.append(test.masked_fill(failed, torch.nan).cpu())
    curves.kept.append(kept.cpu())
    better = (validation >= best.validation) & ~failed
    best.epoch = torch.where(better, float(epoch), best.epoch)
    best.validation = torch.where(better, validation, best.validation)
    best.test = torch.where(better, test, best.test)
