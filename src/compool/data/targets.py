"""The target of each graph: a class, numbers, or several labels, some of which may be missing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from compool.data import _checks

TASKS = ("classification", "regression", "multilabel")


def check_targets(y: Any, task: str = "") -> tuple[NDArray[Any], str]:
    """Check the targets of a set, and return them in the form of their task, and the task.

    ======================  ===========================================  ==========================
    task                    y                                            inferred from
    ======================  ===========================================  ==========================
    ``"classification"``    classes, int64 [G], from 0                   whole numbers [G] or [G, 1]
    ``"regression"``        float32 [G] or [G, T], finite                floats [G], other [G, T]
    ``"multilabel"``        float32 [G, T]: 0, 1, or NaN for missing     only 0, 1 and NaN in [G, T]
    ======================  ===========================================  ==========================

    Args:
        y: the targets.
        task: one of :data:`TASKS`; by default it is inferred.

    Example:
        >>> check_targets([[0, 1], [1, float("nan")]])[1], check_targets([0.5, 2.0])[1], check_targets([0, 1])[1]
        ('multilabel', 'regression', 'classification')
    """
    array = np.asarray(y)
    if array.dtype.kind == "b":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2):
        raise ValueError(f"y must hold numbers [G] or [G, T], got {array.dtype} {list(array.shape)}")
    if array.dtype.kind in "iu" and array.shape[1:] == (1,) and task in ("", "classification"):
        array = array[:, 0]
    if task == "":
        task = _infer_task(array)
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    if task == "classification":
        return _classes(array), task
    values = array.astype(np.float32, copy=False)
    if values.ndim == 2 and not values.shape[1]:
        raise ValueError("y must have at least one target per graph, got none")
    if task == "regression":
        _require(np.isfinite(values), values, "y must be finite for regression; leave graphs without a target out")
    elif values.ndim == 1:
        raise ValueError(f"y must have the shape [G, T] for multilabel, got {list(values.shape)}")
    else:
        _require(np.isnan(values) | (values == 0) | (values == 1), values, "y must be 0, 1 or NaN for multilabel")
    return values, task


def _infer_task(array: NDArray[Any]) -> str:
    if array.ndim == 1:
        return "regression" if array.dtype.kind == "f" else "classification"
    return "multilabel" if (np.isnan(array) | (array == 0) | (array == 1)).all() else "regression"


def _classes(array: NDArray[Any]) -> NDArray[np.int64]:
    if array.dtype.kind == "f":
        _require(np.isfinite(array) & (array == np.floor(array)), array, "y must hold whole numbers for classification")
        array = array.astype(np.int64)
    classes = _checks.integers("y", array, np.int64, "[G]")
    is_class = (classes >= 0) & (classes < _checks.MAX_VALUES)
    rule = f"y must hold classes from 0 to {_checks.MAX_VALUES - 1:,} for classification"
    _require(is_class, classes, rule, "; number the classes from 0 (for -1 and 1: y = (y + 1) // 2)")
    return classes


def _require(right: NDArray[np.bool_], values: NDArray[Any], rule: str, advice: str = "") -> None:
    if not right.all():
        graph = int(np.argwhere(~right)[0][0])
        raise ValueError(f"{rule}; graph {graph} has {values[graph].tolist()}{advice}")
