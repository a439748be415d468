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

HOW = {
    "curves": "compool runs --csv --curves exports them",
    "validation losses": "runs of before they were noted have to be trained again, in another store",
}
"""How a run comes by what it :func:`lacks`."""


def check(pick: str) -> None:
    """A rule must be one of these.

    Example:
        >>> check("last")
    """
    if pick not in PICKS:
        raise ValueError(f"the rule that picks the epoch must be one of {', '.join(PICKS)}; got {pick!r}")


def lacks(run: Run, pick: str) -> str:
    """What a run would need for a rule and has not: one of :data:`HOW`, or nothing."""
    if pick == BEST or run.status != "done":
        return ""
    if not run.curves.get("validation"):
        return "curves"
    return "validation losses" if pick == "loss" and not np.isfinite(_losses(run)).any() else ""


def at_epoch(run: Run, pick: str) -> Run:
    """A run as it would have been by another rule: test and validation accuracy and nodes kept at another epoch."""
    check(pick)
    if pick == BEST or run.status != "done":
        return run
    if missing := lacks(run, pick):
        raise ValueError(f"{run.dataset}, {run.method}, replica {run.replica} has no {missing}")
    curves, validation = run.curves, run.curves["validation"]
    at = len(validation) - 1
    if pick == "first":
        at = int(np.argmax([-np.inf if accuracy is None else accuracy for accuracy in validation]))
    elif pick == "loss":
        at = int(np.argmin(_losses(run)))
    return replace(run, test=curves["test"][at], validation=validation[at], epoch=at + 1, kept=list(curves["kept"][at]))


def _losses(run: Run) -> list[float]:
    return [np.inf if loss is None else loss for loss in run.curves.get("validation_loss") or []]
