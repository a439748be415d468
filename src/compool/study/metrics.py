"""The metrics of a study, by name: their titles, their tasks, and whether higher is better.

Does not import torch; :mod:`compool.study.evaluation` computes them.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from compool.study.runs import Run

_LABELS, _NUMBERS = ("classification", "multilabel"), ("regression",)


class Metric(NamedTuple):
    """A metric on held-out graphs."""

    title: str
    tasks: tuple[str, ...]
    higher: bool = True
    """Whether higher is better."""

    @property
    def scale(self) -> int:
        """The factor of values in tables: 100 for percent."""
        return 100 if self.higher else 1

    @property
    def unit(self) -> str:
        """The unit after the title of a column or axis."""
        return ", %" if self.higher else ""


METRICS = {
    "accuracy": Metric("accuracy", _LABELS),
    "balanced_accuracy": Metric("balanced accuracy", ("classification",)),
    "f1": Metric("macro F1", _LABELS),
    "roc_auc": Metric("ROC AUC", _LABELS),
    "average_precision": Metric("average precision", _LABELS),
    "mae": Metric("mean absolute error", _NUMBERS, higher=False),
    "rmse": Metric("root mean squared error", _NUMBERS, higher=False),
}
DEFAULTS = {"classification": "accuracy", "multilabel": "roc_auc", "regression": "mae"}
LOSSES = {"classification": ("cross_entropy",), "multilabel": ("bce",), "regression": ("l2", "l1")}
"""The losses of each task, the default first."""


def metric_of(name: str, task: str, dataset: str) -> str:
    """The metric that picks the epoch: the task's default for ``"auto"``; a ValueError if the task has no such metric.

    Example:
        >>> metric_of("auto", "regression", "ZINC"), metric_of("f1", "classification", "NCI1")
        ('mae', 'f1')
    """
    name = DEFAULTS[task] if name == "auto" else name
    allowed = [metric for metric, about in METRICS.items() if task in about.tasks]
    if name not in allowed:
        raise ValueError(f"metric must be one of {', '.join(allowed)} for {dataset} ({task}); got {name!r}")
    return name


def loss_kind(name: str, task: str, dataset: str) -> str:
    """The loss of a training: the task's default for ``"auto"``; a ValueError if the task has no such loss.

    Example:
        >>> loss_kind("auto", "regression", "ZINC"), loss_kind("l1", "regression", "ZINC")
        ('l2', 'l1')
    """
    if name == "auto":
        return LOSSES[task][0]
    if name not in LOSSES[task]:
        raise ValueError(f"loss must be one of {', '.join(LOSSES[task])} for {dataset} ({task}); got {name!r}")
    return name


def chosen_metric(metrics: Mapping[str, Any]) -> str:
    """The metric of a run, from its column `metrics`; accuracy for runs of older versions.

    Example:
        >>> chosen_metric({}), chosen_metric({"chosen": "mae"})
        ('accuracy', 'mae')
    """
    chosen = metrics.get("chosen", "accuracy")
    return chosen if chosen in METRICS else "accuracy"


def metric_of_runs(runs: "Iterable[Run]") -> str:
    """The metric of runs with the same settings: that of finished runs, else of failed ones, else of the settings.

    Failed runs come second because a report with another metric changes finished runs only; and a run whose worker was
    lost has no metrics.

    Example:
        >>> metric_of_runs([])
        'accuracy'
    """
    finished_first = sorted(runs, key=lambda run: run.status != "done")
    names = [chosen_metric(run.metrics) for run in finished_first if run.metrics]
    names += [run.settings.get("metric", "auto") for run in finished_first]
    return next((name for name in names if name in METRICS), "accuracy")


def format_mean(metric: Metric, mean: float, deviation: float | None = None) -> str:
    """A mean of a metric, with its standard deviation if there is one: in percent with one digit, or with three digits.

    Example:
        >>> format_mean(METRICS["accuracy"], 0.7471, 0.0392), format_mean(METRICS["mae"], 0.25, 0.0123)
        ('74.7 ± 3.9', '0.25 ± 0.0123')
    """
    mean, deviation = metric.scale * mean, None if deviation is None else metric.scale * deviation
    if metric.higher:
        return f"{mean:.1f}" + ("" if deviation is None else f" ± {deviation:.1f}")
    return f"{mean:.3g}" + ("" if deviation is None else f" ± {deviation:.3g}")
