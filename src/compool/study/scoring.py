"""Metrics of logits, by torchmetrics.

Beside scikit-learn, torchmetrics takes a tenth of the time per call and half a second more to import (measured in
docs/performance.md). It is imported when the first metric is computed.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from compool.study.metrics import METRICS


def score(name: str, task: str, logits: Tensor, y: Tensor) -> float:
    """A metric of some graphs; NaN where it is not defined, such as the ROC AUC of graphs that are all of one class.

    Args:
        name: one of :data:`compool.study.metrics.METRICS`.
        task: of the data set.
        logits: what the network returned [n, outputs].
        y: the classes [n], or the targets [n] or [n, T]; NaN for a missing label.

    Example:
        >>> score("f1", "classification", torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 1]))
        0.6666...
    """
    if not logits.numel() or not bool(logits.isfinite().all()):
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about classes without graphs, which are left out below
        if task == "regression":
            return _regression(name, logits, y.view(logits.shape))
        if task == "multilabel":
            return _multilabel(name, logits, y)
        return _classification(name, logits, y)


def all_scores(task: str, logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """Every metric of a task that is defined for these graphs; None for the others."""
    names = [name for name, metric in METRICS.items() if task in metric.tasks]
    values = {name: score(name, task, logits, y) for name in names}
    return {name: None if math.isnan(value) else round(value, 6) for name, value in values.items()}


def details(task: str, logits: Tensor, y: Tensor) -> dict[str, Any]:
    """Of classes, the confusion matrix (rows are true classes), precision, recall and F1; of labels, each one's ROC AUC
    and average precision; of numbers, nothing.
    """
    if task == "regression" or not logits.numel() or not bool(logits.isfinite().all()):
        return {}
    from torchmetrics.functional import classification as functional

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task == "multilabel":
            per_label = {name: _per_label(name, logits, y) for name in ("roc_auc", "average_precision")}
            return {name: _rounded(values) for name, values in per_label.items()}
        classes, guess = _num_classes(logits), _guess(logits)
        matrix = functional.multiclass_confusion_matrix(guess, y, classes)
        several: dict[str, Callable[..., Tensor]] = {
            "precision": functional.multiclass_precision,
            "recall": functional.multiclass_recall,
            "f1": functional.multiclass_f1_score,
        }
        per_class = {name: _rounded(function(guess, y, classes, average="none")) for name, function in several.items()}
    return {"confusion": matrix.tolist()} | per_class


def _classification(name: str, logits: Tensor, y: Tensor) -> float:
    from torchmetrics.functional import classification as functional

    classes, guess = _num_classes(logits), _guess(logits)
    if name == "accuracy":
        return float(functional.multiclass_accuracy(guess, y, classes, average="micro"))
    present = torch.bincount(y, minlength=classes) > 0
    if name == "balanced_accuracy":
        return _mean(functional.multiclass_recall(guess, y, classes, average="none"), present)
    if name == "f1":
        return float(functional.multiclass_f1_score(guess, y, classes, average="macro"))
    present &= torch.bincount(y, minlength=classes) < len(y)
    probability = _probability(logits)
    if classes == 2:
        function = functional.binary_auroc if name == "roc_auc" else functional.binary_average_precision
        return float(function(probability[:, 1], y)) if bool(present.all()) else math.nan
    several = functional.multiclass_auroc if name == "roc_auc" else functional.multiclass_average_precision
    return _mean(several(probability, y, classes, average="none"), present)


def _multilabel(name: str, logits: Tensor, y: Tensor) -> float:
    from torchmetrics.functional import classification as functional

    known = ~y.isnan()
    if name == "accuracy":
        return float(functional.binary_accuracy(logits[known].sigmoid(), y[known].long())) if known.any() else math.nan
    per_label = _per_label(name, logits, y)
    return _mean(per_label, ~per_label.isnan())


def _per_label(name: str, logits: Tensor, y: Tensor) -> Tensor:
    """A metric of each label [T], over the graphs that have it; NaN where they do not have both values."""
    from torchmetrics.functional import classification as functional

    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "f1": functional.binary_f1_score,
        "roc_auc": functional.binary_auroc,
        "average_precision": functional.binary_average_precision,
    }
    values = []
    for column in range(y.size(1)):
        known = ~y[:, column].isnan()
        target = y[known, column].long()
        both = bool(known.any()) and 0 < int(target.sum()) < len(target)
        values.append(
            functions[name](logits[known, column].double().sigmoid(), target) if both else torch.tensor(math.nan)
        )
    return torch.stack([value.float() for value in values])


def _regression(name: str, logits: Tensor, y: Tensor) -> float:
    from torchmetrics.functional import regression as functional

    if name == "mae":
        return float(functional.mean_absolute_error(logits.flatten(), y.flatten()))
    return float(functional.mean_squared_error(logits.flatten(), y.flatten(), squared=False))


def _num_classes(logits: Tensor) -> int:
    return max(2, logits.size(1))


def _guess(logits: Tensor) -> Tensor:
    return (logits[:, 0] > 0).long() if logits.size(1) == 1 else logits.argmax(1)


def _probability(logits: Tensor) -> Tensor:
    """The probability of each class [n, classes]; one logit is that of the second class."""
    if logits.size(1) == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], 1)
    return logits.double().softmax(1)  # float32 would make confident predictions equal


def _mean(values: Tensor, mask: Tensor) -> float:
    return float(values[mask].mean()) if bool(mask.any()) else math.nan


def _rounded(values: Tensor) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 6) for value in values.tolist()]
