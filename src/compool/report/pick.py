"""The rules that choose the epoch of a training that counts."""

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
"""The rules, in words. Of equal validation accuracies, ``best`` takes the latest, as training does."""

REMEDIES = {
    "curves": "compool runs --csv --curves exports them",
    "validation losses": "runs of before they were noted have to be trained again, in another store",
}
"""How to get the :func:`missing_data` of a run."""


def require_rule(pick: str) -> None:
    """Raise a ValueError unless `pick` is a rule.

    Example:
        >>> require_rule("last")
    """
    if pick not in PICKS:
        raise ValueError(f"the rule that picks the epoch must be one of {', '.join(PICKS)}; got {pick!r}")


def missing_data(run: Run, pick: str) -> str:
    """What a run lacks for a rule: a key of :data:`REMEDIES`, or an empty string."""
    if pick == BEST or run.status != "done":
        return ""
    if not run.curves.get("validation"):
        return "curves"
    return "validation losses" if pick == "loss" and not np.isfinite(_losses(run)).any() else ""


def run_at_epoch(run: Run, pick: str) -> Run:
    """A run with the test and validation accuracy and the nodes kept at the epoch of a rule."""
    require_rule(pick)
    if pick == BEST or run.status != "done":
        return run
    if missing := missing_data(run, pick):
        raise ValueError(f"{run.dataset}, {run.method}, replica {run.replica} has no {missing}")
    curves, validation = run.curves, run.curves["validation"]
    index = len(validation) - 1
    if pick == "first":
        index = int(np.argmax([-np.inf if accuracy is None else accuracy for accuracy in validation]))
    elif pick == "loss":
        index = int(np.argmin(_losses(run)))
    return replace(
        run, test=curves["test"][index], validation=validation[index], epoch=index + 1, kept=list(curves["kept"][index])
    )


def _losses(run: Run) -> list[float]:
    return [np.inf if loss is None else loss for loss in run.curves.get("validation_loss") or []]
