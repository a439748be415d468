"""The rules that choose which epoch of a training counts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from compool.study.metrics import DEFAULTS, METRICS, chosen_metric, metric_of
from compool.study.store import Run

BEST = "best"
PICKS = {
    BEST: "at the epoch of best validation accuracy",
    "first": "at the first epoch of best validation accuracy",
    "last": "at the last epoch",
    "loss": "at the epoch of lowest validation loss",
}
"""The rules, in words. If validation accuracies are tied, ``best`` takes the latest epoch, as training does."""

REMEDIES = {
    "curves": "compool runs --csv --curves exports them",
    "validation losses": "runs recorded before validation losses were stored must be retrained, in another store",
}
"""How to get the :func:`missing_data` of a run."""


def require_rule(pick: str) -> None:
    """Raise a ValueError unless `pick` is a rule.

    Example:
        >>> require_rule("last")
    """
    if pick not in PICKS:
        raise ValueError(f"pick must be one of {', '.join(PICKS)}; got {pick!r}")


def require_metric(metric: str, pick: str) -> None:
    """Raise a ValueError unless `metric` is a metric, or empty; metrics are stored for the best epoch only.

    Example:
        >>> require_metric("f1", "best")
    """
    if metric and metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}; got {metric!r}")
    if metric and pick != BEST:
        raise ValueError(
            f"metrics are stored for the best epoch only: give --metric {metric} or --pick {pick}, not both"
        )


def require_metric_of_tasks(runs: Sequence[Run], metric: str) -> None:
    """Raise a ValueError if no task of the runs has the metric. Runs recorded before metrics were stored do not count.

    Example:
        >>> require_metric_of_tasks([], "mae")
    """
    tasks = {str(run.metrics["task"]): run.dataset for run in runs if run.metrics.get("task") in DEFAULTS}
    if metric and tasks and not any(task in METRICS[metric].tasks for task in tasks):
        task, dataset = next(iter(tasks.items()))
        metric_of(metric, task, dataset)


def remedy(missing: str) -> str:
    """How to get the :func:`missing_data` of a run."""
    return REMEDIES.get(missing, "runs recorded before metrics were stored must be retrained, in another store")


def missing_data(run: Run, pick: str, metric: str = "") -> str:
    """The data that a run lacks for a rule and a metric: a key of :data:`REMEDIES`, the metric, or an empty string."""
    if metric and run.status == "done" and metric != chosen_metric(run.metrics):
        return "" if metric in run.metrics.get("test", {}) else metric
    if pick == BEST or run.status != "done":
        return ""
    if not run.curves.get("validation"):
        return "curves"
    return "validation losses" if pick == "loss" and not np.isfinite(_losses(run)).any() else ""


def run_at_epoch(run: Run, pick: str, metric: str = "") -> Run:
    """A run with the test and validation accuracy and the nodes kept at the epoch of a rule, or with another metric."""
    require_rule(pick)
    if metric and run.status == "done" and metric != chosen_metric(run.metrics):
        validation, test = (run.metrics[part].get(metric) for part in ("validation", "test"))
        no_curves = {name: curve for name, curve in run.curves.items() if name not in ("validation", "test")}
        metrics = run.metrics | {"chosen": metric}
        return replace(run, test=test, validation=validation, curves=no_curves, metrics=metrics)
    if pick == BEST or run.status != "done":
        return run
    if missing := missing_data(run, pick):
        raise ValueError(f"{run.dataset}, {run.method}, replica {run.replica} has no {missing}")
    curves, validation = run.curves, run.curves["validation"]
    index = len(validation) - 1
    if pick == "first":
        sign = 1 if METRICS[chosen_metric(run.metrics)].higher else -1
        index = int(np.argmax([-np.inf if value is None else sign * value for value in validation]))
    elif pick == "loss":
        index = int(np.argmin(_losses(run)))
    at_epoch = {"test": curves["test"][index], "validation": validation[index], "epoch": index + 1}
    metrics = {
        name: value for name, value in run.metrics.items() if name in ("task", "chosen")
    }  # without the metrics of another epoch
    return replace(run, kept=list(curves["kept"][index]), metrics=metrics, **at_epoch)


def _losses(run: Run) -> list[float]:
    return [np.inf if loss is None else loss for loss in run.curves.get("validation_loss") or []]
