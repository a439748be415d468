"""Train a stack of networks, each replica on its own split and with its own random stream."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from compool.data import Split
from compool.ops import fold
from compool.ops._dispatch import has_kernels
from compool.replicas.adam import SGD, Adam, StackOptimizer
from compool.replicas.captured import copy_into
from compool.replicas.held_out import evaluate_all, evaluation_size
from compool.replicas.learner import ORDER_KEY, CapturedStep, Evaluation, Learner
from compool.replicas.losses import Loss, balanced_weights
from compool.replicas.schedules import factors, plateau_factor
from compool.replicas.single import SingleLearner
from compool.replicas.stack import GINStack, NetworkStack
from compool.replicas.trained import Curves as Curves
from compool.replicas.trained import Trained as Trained
from compool.replicas.trained import num_epochs as num_epochs
from compool.replicas.trained import record_epoch, resume, saved_state, stopped_replicas
from compool.replicas.union import Capacity, Graphs


class TrainingSettings(NamedTuple):
    """How replicas are trained; tensors hold one number per replica [R]."""

    epochs: int
    batch: int
    """The number of graphs per replica in each step; all of them if there are fewer."""
    lr: Tensor
    halve: int
    """The number of epochs after which the learning rate is halved; its meaning depends on `schedule`."""
    weight_decay: Tensor
    optimizer: str = "adamw"
    """``"adamw"``, ``"adam"`` or ``"sgd"``."""
    shuffle: bool = True
    """Shuffle the graphs in each epoch; otherwise they stay in the order of the split."""
    loss: str = "cross_entropy"
    """See :class:`~compool.replicas.losses.Loss`."""
    balanced: bool = False
    """Whether all classes have equal influence on the loss."""
    score: Callable[[Tensor, Tensor], float] | None = None
    """The metric that picks the epoch, a function of logits [n, outputs] and targets; by default the accuracy."""
    higher: bool = True
    """Whether a higher `score` is better."""
    schedule: str = "halving"
    """See :func:`~compool.replicas.schedules.factors`; or ``"plateau"``."""
    momentum: float = 0.9
    """The momentum of SGD."""
    clip: float = 0.0
    """The maximum norm of a replica's gradient; 0 for no limit."""
    patience: int = 0
    """A replica stops after this many epochs without a better validation metric; 0 for never."""


def train(
    stack: NetworkStack | GINStack,
    graphs: Graphs,
    splits: Sequence[Split],
    keys: Tensor,
    settings: TrainingSettings,
    on_epoch: Callable[[int, Curves], None] | None = None,
    start: Mapping[str, Tensor] | None = None,
    save: Callable[[int, Callable[[], dict[str, Tensor]]], None] | None = None,
) -> Trained:
    """Train R networks at once.

    The order of replica r's graphs and its dropout depend only on ``keys[r]``: training it alone or together with other
    replicas gives the same result.

    Args:
        stack: the networks with their initial parameters.
        graphs: the data set.
        splits: the split of each replica.
        keys: the random key of each replica, int64 [R].
        settings: number of epochs, batch size and so on.
        on_epoch: called after each epoch with its number and the curves so far.
        start: the state to resume from, which `save` got from a training with the same arguments.
        save: called after each epoch except the last with its number and a function that returns the state to resume
            from.
    """
    learner = Learner(
        stack,
        graphs,
        keys,
        _optimizer(stack, settings),
        loss_of(graphs, splits, settings, stack.settings[0].num_classes),
    )
    return train_learner(learner, splits, settings, on_epoch, start, save)


def _optimizer(stack: NetworkStack | GINStack, settings: TrainingSettings) -> StackOptimizer:
    rates = (settings.lr, settings.weight_decay)
    if settings.optimizer == "sgd":
        return SGD(stack, *rates, settings.momentum, settings.clip)
    return Adam(stack, *rates, settings.optimizer == "adamw", settings.clip)


def loss_of(graphs: Graphs, splits: Sequence[Split], settings: TrainingSettings, num_classes: int) -> Loss:
    """The loss of a training with these settings."""
    if not settings.balanced:
        return Loss(settings.loss)
    train_ids = _padded([split.train for split in splits], graphs.y.device)
    return Loss(settings.loss, balanced_weights(graphs.y, train_ids, num_classes))


def train_learner(
    learner: Learner | SingleLearner,
    splits: Sequence[Split],
    settings: TrainingSettings,
    on_epoch: Callable[[int, Curves], None] | None = None,
    start: Mapping[str, Tensor] | None = None,
    save: Callable[[int, Callable[[], dict[str, Tensor]]], None] | None = None,
) -> Trained:
    """Train the networks of a learner; the other arguments are those of :func:`train`."""
    graphs, keys, device = learner.graphs, learner.keys, learner.keys.device
    train_ids, validation_ids, test_ids = (
        _padded([getattr(split, part) for split in splits], device) for part in ("train", "validation", "test")
    )
    settings = settings._replace(batch=min(settings.batch, train_ids.size(1)))
    train_ids = _padded_to_multiple(train_ids, settings.batch)
    size = evaluation_size(max(validation_ids.size(1), test_ids.size(1)))
    held_out = [_padded_to_multiple(ids, size) for ids in (validation_ids, test_ids)]
    step: Callable[[Tensor], None] = learner.step
    evaluate: Callable[[Tensor], Evaluation] = learner.evaluate
    captured_steps: list[CapturedStep[Any]] = []
    if isinstance(learner, Learner) and _can_capture(learner.stack, graphs):
        first = _ordered(train_ids, keys, 1, settings)[:, : settings.batch]  # the capture runs it, so it must fit
        step = CapturedStep(learner, learner.step, first, _step_capacity(graphs, train_ids, keys, settings))
        capacity = graphs.capacity(torch.cat([_parts(ids, size) for ids in held_out]))
        evaluate = CapturedStep(learner, learner.evaluate, held_out[0][:, :size], capacity)
        captured_steps = [step, evaluate]
    none = torch.full((len(splits),), -1.0, device=device)
    worst = torch.full_like(none, -torch.inf if settings.higher else torch.inf)
    weights = {name: tensor.clone() for name, tensor in learner.weights.items()}
    best = Trained(Curves(), learner.failed, none, worst, none, none, weights)
    num_graphs = (train_ids >= 0).sum(1).clamp(min=1)
    completed = resume(learner, best, start) if start else 0
    rates = factors(settings.schedule, settings.epochs, settings.halve)
    for epoch in range(completed + 1, settings.epochs + 1):
        stopped = stopped_replicas(best, epoch, settings.patience)
        if settings.patience and bool((stopped | learner.failed).all()):
            break
        rate: float | Tensor = rates[epoch - 1]
        if settings.schedule == "plateau" and epoch > 1:
            rate = plateau_factor(best.curves.validation_loss, settings.halve)
        learner.set_lr(settings.lr * rate)
        learner.loss.zero_()
        before = (
            [tensor.detach().clone() for tensor in learner.state]
            if any(captured.after for captured in captured_steps)
            else []
        )
        # A stopped replica takes no more steps: it could still fail, although its result is final
        ordered = _ordered(train_ids, keys, epoch, settings).masked_fill(stopped.unsqueeze(1), -1)
        while True:  # repeats an epoch if the capacity did not suffice
            for captured in captured_steps:
                captured.needed.zero_()
            for ids in ordered.split(settings.batch, dim=1):
                step(ids)
            measured = [evaluate_all(evaluate, ids, size) for ids in held_out]
            sufficient = [captured.check_capacity() for captured in captured_steps]
            if all(sufficient):
                break
            copy_into(learner.state, before)
            best.num_repeated += 1
        validation, test = (
            part if settings.score is None else part.scored(settings.score, ids, graphs.y)
            for part, ids in zip(measured, held_out, strict=True)
        )
        record_epoch(
            best, learner.weights, epoch, learner.loss / num_graphs, validation, test, settings.higher, stopped
        )
        for captured in captured_steps:
            captured.shrink_capacity()
        if save is not None and epoch < settings.epochs:
            save(epoch, lambda: saved_state(learner, best))
        if on_epoch is not None:
            on_epoch(epoch, best.curves)
    best.epoch = best.epoch.long()
    return best


def _can_capture(stack: NetworkStack | GINStack, graphs: Graphs) -> bool:
    """Whether a step can be captured as a CUDA graph: it needs the kernels that copy nothing to the host."""
    needs_reference = torch.are_deterministic_algorithms_enabled() or next(stack.parameters()).dtype != torch.float32
    return graphs.y.is_cuda and has_kernels(graphs.y) and not needs_reference


def _step_capacity(graphs: Graphs, ids: Tensor, keys: Tensor, settings: TrainingSettings) -> Capacity:
    """The capacity for the largest step of the whole training, so that every batch fits."""
    epochs = range(1, 1 + (settings.epochs if settings.shuffle else 1))
    capacities = [graphs.capacity(_parts(_ordered(ids, keys, epoch, settings), settings.batch)) for epoch in epochs]
    return Capacity(max(capacity.nodes for capacity in capacities), max(capacity.edges for capacity in capacities))


def _ordered(ids: Tensor, keys: Tensor, epoch: int, settings: TrainingSettings) -> Tensor:
    """The graphs of each replica [R, n] in the order of an epoch."""
    return _shuffled(ids, fold(fold(keys, ORDER_KEY), epoch)) if settings.shuffle else ids


def _padded_to_multiple(ids: Tensor, size: int) -> Tensor:
    """Pad lists [R, n] with −1 to a multiple of `size`."""
    return F.pad(ids, (0, -ids.size(1) % size), value=-1)


def _parts(ids: Tensor, size: int) -> Tensor:
    """Split lists [R, n] into parts [n / size, R, size]."""
    return ids.view(ids.size(0), -1, size).transpose(0, 1)


def _padded(parts: Sequence[object], device: torch.device) -> Tensor:
    """Lists of graphs as one matrix [R, longest], padded with −1."""
    rows = [torch.as_tensor(part, dtype=torch.long) for part in parts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1).to(device)


def _shuffled(ids: Tensor, keys: Tensor) -> Tensor:
    """Shuffle each row by its key; −1 stays at the end."""
    columns = torch.arange(ids.size(1), device=ids.device)
    random = fold(keys.unsqueeze(1), columns) >> 1  # below 2⁶²
    order = random.masked_fill(ids < 0, torch.iinfo(torch.long).max).argsort(dim=1, stable=True)
    return ids.gather(1, order)
