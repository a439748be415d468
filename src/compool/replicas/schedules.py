"""Learning rate schedules."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def factors(schedule: str, epochs: int, halve: int) -> list[float]:
    """The factor of the learning rate in each epoch, for every schedule except ``"plateau"``.

    Args:
        schedule: ``"halving"``, after every `halve` epochs; ``"constant"``; ``"cosine"`` or ``"one_cycle"``, torch's
            ``CosineAnnealingLR`` and ``OneCycleLR`` over all epochs, with one step per epoch.
        epochs: number of epochs.
        halve: number of epochs between halvings.

    Example:
        >>> factors("halving", 4, 2), [round(factor, 3) for factor in factors("cosine", 4, 2)]
        ([1.0, 1.0, 0.5, 0.5], [1.0, 0.854, 0.5, 0.146])
    """
    if schedule == "halving":
        return [0.5 ** (epoch // halve) for epoch in range(epochs)]
    if schedule not in ("cosine", "one_cycle"):
        return [1.0] * epochs
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler: Any
    if schedule == "cosine":
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    else:
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=epochs + 1, cycle_momentum=False)
    rates = []
    for _ in range(epochs):
        rates.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return rates


def plateau_factor(losses: Sequence[Tensor], patience: int) -> Tensor:
    """The factor of each replica's learning rate after some epochs [R]. It is halved whenever the validation loss has
    not fallen for more than `patience` epochs, as in torch's ``ReduceLROnPlateau``.

    Args:
        losses: the validation losses of all epochs so far, each [R].
        patience: number of epochs to wait.

    Example:
        >>> losses = [torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.2])]
        >>> plateau_factor(losses, patience=1)
        tensor([0.5000, 1.0000])
    """
    factor, best = torch.ones_like(losses[0]), torch.full_like(losses[0], torch.inf)
    waited = torch.zeros_like(losses[0])
    for loss in losses:
        fell = loss < best * (1 - 1e-4)
        best, waited = torch.where(fell, loss, best), torch.where(fell, 0.0, waited + 1)
        reduce = waited > patience
        factor, waited = torch.where(reduce, factor / 2, factor), torch.where(reduce, 0.0, waited)
    return factor
