"""Metrics of logits, tested against scikit-learn.

torchmetrics is not used: importing it takes 2 seconds, and 13 where `transformers` is installed, which is longer
than a short study trains.
"""

import math
from typing import Any

import torch
from torch import Tensor

from compool.study.metrics import METRICS


def metric_value(name: str, task: str, logits: Tensor, y: Tensor) -> float:
    """Compute a metric; NaN if it is not defined, such as the ROC AUC of graphs of a single class.

    Args:
        name: one of :data:`compool.study.metrics.METRICS`.
        task: the task of the data set.
        logits: the outputs of the network [n, outputs].
        y: the classes [n], or the targets [n] or [n, T]; NaN for a missing label.

    Example:
        >>> logits, y = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1])
        >>> metric_value("f1", "classification", logits, y)
        0.6666...
    """
    if not logits.numel() or not bool(logits.isfinite().all()):
        return math.nan
    if task == "regression":
        error = logits.double() - y.view(logits.shape)
        return float(error.abs().mean() if name == "mae" else error.square().mean().sqrt())
    if task == "multilabel":
        return _multilabel(name, logits, y)
    return _classification(name, logits, y)


def metric_values(task: str, logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """Every metric of a task; None for metrics that are not defined for these graphs."""
    names = [name for name, metric in METRICS.items() if task in metric.tasks]
    values = {name: metric_value(name, task, logits, y) for name in names}
    return {name: None if math.isnan(value) else round(value, 6) for name, value in values.items()}


def details(task: str, logits: Tensor, y: Tensor) -> dict[str, Any]:
    """For classes, the confusion matrix (rows are true classes), precision, recall and F1; for labels, the ROC AUC and
    average precision of each; for regression, nothing.
    """
    if task == "regression" or not logits.numel() or not bool(logits.isfinite().all()):
        return {}
    if task == "multilabel":
        return {name: _rounded(_per_label(name, logits, y)) for name in ("roc_auc", "average_precision")}
    confusion = _confusion(logits, y)
    per_class = {name: _rounded(values) for name, values in _by_class(confusion).items()}
    return {"confusion": confusion.tolist()} | per_class


def _confusion(logits: Tensor, y: Tensor) -> Tensor:
    """The confusion matrix, with one row per true class and one column per predicted class [classes, classes]."""
    classes = _num_classes(logits)
    return torch.bincount(y.long() * classes + _predicted_classes(logits), minlength=classes**2).view(classes, classes)


def _by_class(confusion: Tensor) -> dict[str, Tensor]:
    """Precision, recall and F1 of each class; 0 for a class that was never predicted, or has no graphs."""
    correct, predicted, size = confusion.diagonal().double(), confusion.sum(0), confusion.sum(1)
    return {
        "precision": correct / predicted.clamp(min=1),
        "recall": correct / size.clamp(min=1),
        "f1": 2 * correct / (predicted + size).clamp(min=1),
    }


def _classification(name: str, logits: Tensor, y: Tensor) -> float:
    confusion = _confusion(logits, y)
    size, by_class = confusion.sum(1), _by_class(confusion)
    if name == "accuracy":
        return int(confusion.diagonal().sum()) / len(y)
    if name == "balanced_accuracy":
        return _mean(by_class["recall"], size > 0)
    if name == "f1":
        return _mean(by_class["f1"], size + confusion.sum(0) > 0)
    present = (size > 0) & (size < len(y))
    if len(size) == 2:
        return _ranked(name, _log_odds(logits, 1), y == 1) if bool(present.all()) else math.nan
    per_class = [_ranked(name, _log_odds(logits, c), y == c) if present[c] else math.nan for c in range(len(size))]
    return _mean(torch.tensor(per_class, dtype=torch.double), present)


def _ranked(name: str, value: Tensor, positive: Tensor) -> float:
    """The ROC AUC or the average precision of values that should be higher for positives; ties share a threshold."""
    _, threshold = torch.unique(-value, return_inverse=True)  # descending
    total = torch.bincount(threshold).double()
    positives = torch.bincount(threshold, positive.double())
    if name == "average_precision":
        return float((positives * positives.cumsum(0) / total.cumsum(0)).sum() / positives.sum())
    negatives = total - positives
    above = positives.cumsum(0) - positives / 2  # positives above each negative; ties count half
    return float((negatives * above).sum() / (positives.sum() * negatives.sum()))


def _multilabel(name: str, logits: Tensor, y: Tensor) -> float:
    known = ~y.isnan()
    if name == "accuracy":
        return float(((logits > 0) == (y > 0))[known].double().mean()) if known.any() else math.nan
    per_label = _per_label(name, logits, y)
    return _mean(per_label, ~per_label.isnan())


def _per_label(name: str, logits: Tensor, y: Tensor) -> Tensor:
    """A metric of each label [T], over the graphs that have it; NaN if they do not have both values."""
    values = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan()
        logit, target = logits[known, column].double(), y[known, column].long()
        if not known.any() or not 0 < int(target.sum()) < len(target):
            values.append(math.nan)
        elif name == "f1":
            values.append(float(_by_class(_confusion(logit.unsqueeze(1), target))["f1"][1]))
        else:
            values.append(_ranked(name, logit, target == 1))
    return torch.tensor(values, dtype=torch.double)


def _num_classes(logits: Tensor) -> int:
    return max(2, logits.size(1))


def _predicted_classes(logits: Tensor) -> Tensor:
    return (logits[:, 0] > 0).long() if logits.size(1) == 1 else logits.argmax(1)


def _log_odds(logits: Tensor, label: int) -> Tensor:
    """The log-odds of a class [n]. They rank as its probability does, which would tie confident predictions."""
    logits = logits.double()
    if logits.size(1) == 1:  # the logit of the second of two classes
        return logits[:, 0]
    return logits[:, label] - torch.cat([logits[:, :label], logits[:, label + 1 :]], 1).logsumexp(1)


def _mean(values: Tensor, mask: Tensor) -> float:
    return float(values[mask].mean()) if bool(mask.any()) else math.nan


def _rounded(values: Tensor) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 6) for value in values.tolist()]
