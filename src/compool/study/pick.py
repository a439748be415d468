"""Which epoch of a training counts."""

from dataclasses import replace

import numpy as np

from compool.study.store import Run

BEST = "best"
PICKS = {
    BEST: "at the epoch of best validation accuracy",
    "first": "at the first epoch of best validation accuracy",
    "last": "at the last epoch",
    "loss": "at the epoch of lowest validation loss",
}
"""The rules, and how a report puts them. Of equal validation accuracies, ``best`` takes the latest, as trainings do."""


def check(pick: str) -> None:
    """A rule must be one of these.

    Example:
        >>> check("last")
    """
    if pick not in PICKS:
        raise ValueError(f"the rule that picks the epoch must be one of {', '.join(PICKS)}; got {pick!r}")


def at_epoch(run: Run, pick: str) -> Run:
    """A run as it would have been by another rule: test and validation accuracy and nodes kept at another epoch."""
    check(pick)
    if pick == BEST or run.status != "done":
        return run
    curves, name = run.curves, f"{run.dataset}, {run.method}, replica {run.replica}"
    validation = curves.get("validation") or []
    if not validation:
        raise ValueError(
            f"{name} has no curves, and only the best epoch can be picked; compool runs --curves exports them"
        )
    losses = [np.inf if loss is None else loss for loss in curves.get("validation_loss") or []]
    if pick == "loss" and not np.isfinite(losses).any():
        raise ValueError(
            f"{name} has no validation losses, as runs of before they were noted; train it in another store"
        )
    at = len(validation) - 1
    if pick == "first":
        at = int(np.argmax(validation))
    elif pick == "loss":
        at = int(np.argmin(losses))
    return replace(run, test=curves["test"][at], validation=validation[at], epoch=at + 1, kept=list(curves["kept"][at]))
