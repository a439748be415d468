"""The result of a training, updated in each epoch, and the state to resume an interrupted one."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from compool.replicas.captured import copy_into
from compool.replicas.held_out import HeldOut
from compool.replicas.learner import Learner
from compool.replicas.single import SingleLearner

_log = logging.getLogger(__name__)
BEST_FIELDS = ("epoch", "validation", "test", "improved")  # fields of Trained that describe the best epoch


@dataclass
class Curves:
    """Losses and metrics of each epoch: one row per epoch, one column per replica."""

    loss: list[Tensor] = field(default_factory=list)
    validation: list[Tensor] = field(default_factory=list)
    validation_loss: list[Tensor] = field(default_factory=list)
    test: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    """The share of nodes kept after each pooling layer, on the validation graphs [R, levels]."""


@dataclass
class Trained:
    """The result of the training of R replicas."""

    curves: Curves
    failed: Tensor
    """Mask [R] of the replicas that were stopped because their loss or weights were no longer finite."""
    epoch: Tensor
    """The epoch, from 1, with the best validation metric, on ties the latest [R]; -1 if there is none."""
    validation: Tensor
    """The validation metric of that epoch [R]."""
    test: Tensor
    """The test metric of that epoch [R]."""
    improved: Tensor
    """The first epoch with that validation metric [R]; -1 if there is none."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """The parameters and buffers of each network at that epoch, by name [R, *]."""
    logits: dict[str, Tensor] = field(default_factory=dict)
    """The outputs of each network at that epoch for the validation and test graphs, padded [R, n, outputs]."""
    num_repeated: int = 0
    """The number of repeated epochs: see :class:`~compool.replicas.learner.CapturedStep`."""


def record_epoch(
    best: Trained,
    weights: Mapping[str, Tensor],
    epoch: int,
    loss: Tensor,
    validation: HeldOut,
    test: HeldOut,
    higher: bool,
    stopped: Tensor,
) -> None:
    """Record an epoch, and update the best one. The values of failed or stopped replicas become NaN."""
    metric, failed = validation.metric, best.failed | stopped
    rows = {"loss": loss, "validation": metric, "validation_loss": validation.loss, "test": test.metric}
    for name, values in rows.items():
        getattr(best.curves, name).append(values.masked_fill(failed, torch.nan).cpu())
    best.curves.kept.append(validation.kept.masked_fill(failed.unsqueeze(1), torch.nan).cpu())
    improved = (metric > best.validation if higher else metric < best.validation) & ~failed
    better = (improved | (metric == best.validation)) & ~failed
    best.improved = torch.where(improved, float(epoch), best.improved)
    best.epoch = torch.where(better, float(epoch), best.epoch)
    best.validation = torch.where(better, metric, best.validation)
    best.test = torch.where(better, test.metric, best.test)
    for name, kept in best.weights.items():  # nothing is copied to the host
        torch.where(better.view(-1, *[1] * (kept.dim() - 1)), weights[name], kept, out=kept)
    for name, part in (("validation", validation), ("test", test)):
        before = best.logits.get(name, part.logits)
        best.logits[name] = torch.where(better.view(-1, 1, 1), part.logits, before)


def num_epochs(trained: Trained, replica: int, patience: int) -> int:
    """The number of epochs for which a replica was trained."""
    epochs = len(trained.curves.loss)
    return min(epochs, max(int(trained.improved[replica]), 0) + patience) if patience else epochs


def stopped_replicas(best: Trained, epoch: int, patience: int) -> Tensor:
    """Mask [R] of the replicas that have stopped before an epoch because they did not improve for `patience` epochs."""
    if not patience:
        return torch.zeros_like(best.failed)
    return epoch - 1 - best.improved.clamp(min=0) >= patience


def saved_state(learner: Learner | SingleLearner, best: Trained) -> dict[str, Tensor]:
    """All tensors that are needed to resume after an epoch."""
    saved = {f"state.{index}": tensor for index, tensor in enumerate(learner.state)}
    saved |= {f"best.{name}": getattr(best, name) for name in BEST_FIELDS}
    saved |= {f"weights.{name}": tensor for name, tensor in best.weights.items()}
    saved |= {f"logits.{name}": tensor for name, tensor in best.logits.items()}
    saved |= {f"curves.{curve.name}": torch.stack(getattr(best.curves, curve.name)) for curve in fields(Curves)}
    return {name: tensor.detach().cpu() for name, tensor in saved.items()}


def resume(learner: Learner | SingleLearner, best: Trained, saved: Mapping[str, Tensor]) -> int:
    """Restore a saved state. Returns the number of completed epochs, or 0 if the saved state does not fit."""
    state = learner.state
    wanted = {f"state.{index}": tensor for index, tensor in enumerate(state)}
    wanted |= {f"best.{name}": best.epoch for name in BEST_FIELDS}
    wanted |= {f"weights.{name}": tensor for name, tensor in best.weights.items()}
    curves = {curve.name: saved.get(f"curves.{curve.name}", torch.empty(0)) for curve in fields(Curves)}
    logits = {name: saved.get(f"logits.{name}", torch.empty(0)) for name in ("validation", "test")}
    fits = len(saved) == len(wanted) + len(curves) + len(logits) and len({len(curve) for curve in curves.values()}) == 1
    if not fits or any(
        name not in saved or saved[name].shape != tensor.shape or saved[name].dtype != tensor.dtype
        for name, tensor in wanted.items()
    ):
        _log.warning("the saved state does not fit these networks; restarting")
        return 0
    copy_into(state, [saved[f"state.{index}"] for index in range(len(state))])
    for name in BEST_FIELDS:
        setattr(best, name, saved[f"best.{name}"].to(learner.keys.device))
    copy_into(best.weights.values(), [saved[f"weights.{name}"] for name in best.weights])
    best.logits = {name: tensor.to(learner.keys.device) for name, tensor in logits.items()}
    best.curves = Curves(**{name: list(curve) for name, curve in curves.items()})
    if isinstance(learner, SingleLearner):
        learner.levels, learner.call.width = curves["kept"].size(2), logits["validation"].size(2)
    return len(best.curves.loss)
