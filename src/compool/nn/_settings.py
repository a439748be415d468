"""Checks of component pooling's settings. Errors name the setting, what was given and what is allowed."""

import math
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # commands check settings without importing torch, which takes seconds
    from torch import Tensor

    Score = str | Callable[[Tensor], Tensor]
else:
    Score = str | Callable[[Any], Any]

# Each score function's default threshold and range.
_SCORES = {"tanh": (0.0, (-1.0, 1.0)), "sigmoid": (0.5, (0.0, 1.0)), "hardtanh": (0.0, (-1.0, 1.0))}


def activation(score: Score) -> "Callable[[Tensor], Tensor]":
    """The score function with this name; a callable is returned unchanged."""
    if callable(score):
        return score
    if not isinstance(score, str) or score not in _SCORES:
        raise ValueError(f"score must be {', '.join(map(repr, _SCORES))} or a callable, got {score!r}")
    from compool.ops.score import ACTIVATIONS

    return ACTIVATIONS[score]


def default_score(scorer: Any, has_budget: bool = False) -> str:
    """The score function if none is given: tanh; hardtanh with the similarity scorer, as it reaches 1.

    Budgets rank edges by their scores, and the many edges that hardtanh clips to 1 would tie.
    """
    return "hardtanh" if scorer in ("similarity", "random") and not has_budget else "tanh"


def check_score_name(score: str | None) -> str | None:
    """Require the name of a score function, or None."""
    if score is not None and score not in _SCORES:
        raise ValueError(f"score must be {', '.join(map(repr, _SCORES))} or None, got {score!r}")
    return score


def score_name(score: Score) -> str:
    """The name of a score function."""
    return score if isinstance(score, str) else getattr(score, "__name__", repr(score))


def non_default(settings: dict[str, tuple[Any, Any]]) -> list[str]:
    """Describe the settings that differ from their defaults, for a layer's repr; each is a value and its default.

    Example:
        >>> non_default({"ratio": (0.5, None), "reduce": ("sum", "sum")})
        ['ratio=0.5']
    """
    shown = {name: value for name, (value, default) in settings.items() if value != default}
    return [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in shown.items()]


def check_threshold(score: Score, threshold: float | None) -> float:
    """The given threshold, or the default of the score function; raises a ValueError if it is out of range."""
    if not isinstance(score, str):
        if threshold is None or not math.isfinite(threshold):
            raise ValueError(f"threshold must be a finite number when score is a callable, got {threshold}")
        return float(threshold)
    default, (low, high) = _SCORES[score]
    if threshold is None:
        return default
    if not low <= threshold <= high:
        raise ValueError(f"threshold must lie in {low:g}..{high:g}, the range of {score}; got {threshold}")
    return float(threshold)


def check_budget(
    threshold: float | None,
    quantile: float | None,
    ratio: float | None,
    max_size: int | None,
    ratio_name: str = "ratio",
) -> None:
    """Require at most one budget, and no threshold with a quantile or ratio, which replace it."""
    given = {"quantile": quantile, ratio_name: ratio, "max_size": max_size}
    for name, value in {**given, "threshold": threshold}.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise TypeError(f"{name} must be a number, got {value!r}")
    chosen = [f"{name}={value}" for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise ValueError(f"choose one of {', '.join(given)}; got {' and '.join(chosen)}")
    if threshold is not None and chosen and max_size is None:
        raise ValueError(f"{chosen[0]} replaces the threshold; give only one of them, got threshold={threshold} too")
    if quantile is not None and not 0 <= quantile <= 1:
        raise ValueError(f"quantile must lie in 0..1, got {quantile}")
    if ratio is not None and not 0 < ratio <= 1:
        raise ValueError(f"{ratio_name} must be above 0 and at most 1, got {ratio}")
    if max_size is not None and not (isinstance(max_size, int) and 1 <= max_size < 2**63):
        raise ValueError(f"max_size must be a whole number from 1 to 2⁶³ − 1, got {max_size}")


SCORERS = ("linear", "similarity", "random")
ORDERS = ("score", "random")
REDUCTIONS = ("score", "sum", "mean", "graded")


def check_scorer(scorer: str, reduce: str, score: Score | None = None) -> None:
    """Require a known scorer, and a `reduce` and a score function, if one is given, that work with it."""
    if scorer not in SCORERS:
        raise ValueError(f"scorer must be one of {', '.join(map(repr, SCORERS))}; got {scorer!r}")
    if scorer == "random" and reduce not in ("sum", "mean"):
        raise ValueError(
            f"scorer='random' needs reduce='sum' or 'mean', because its scores are not weights; got {reduce!r}"
        )
    if scorer == "random" and score is not None:
        raise ValueError(
            f"scorer='random' takes no score function, because its scores are not learned; got {score_name(score)!r}"
        )


def check_dropout(dropout: float) -> None:
    """Require a probability below 1."""
    if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, got {dropout!r}")


def check_order(
    order: str, ratio: float | None, scorer: str | None, names: tuple[str, str] = ("order", "ratio")
) -> None:
    """Require a known order, and for ``"random"`` a ratio and a scorer that is not random."""
    if order not in ORDERS:
        raise ValueError(f"{names[0]} must be one of {', '.join(map(repr, ORDERS))}; got {order!r}")
    if order == "random" and ratio is None:
        raise ValueError(f"{names[0]}='random' works with {names[1]} only")
    if order == "random" and scorer == "random":
        raise ValueError(f"scorer='random' merges in random order by itself: leave out {names[0]}='random'")


def check_reduce(reduce: str, weights: str, score: Score, threshold: float | None, has_budget: bool) -> None:
    """Require a known `reduce`, and settings that work with it."""
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce must be one of {', '.join(map(repr, REDUCTIONS))}; got {reduce!r}")
    if reduce != "score" and weights == "all":
        raise ValueError(f"weights='all' needs reduce='score', got reduce={reduce!r}")
    if reduce == "graded" and not isinstance(score, str):
        raise ValueError(
            "reduce='graded' needs to know the highest score: choose score='tanh', 'sigmoid' or "
            "'hardtanh', not a callable"
        )
    if reduce == "graded" and has_budget:
        raise ValueError("reduce='graded' needs a threshold; it cannot be combined with quantile or ratio")
    if reduce == "graded" and isinstance(score, str) and threshold == highest_score(score):
        raise ValueError(
            f"reduce='graded' needs a threshold below {threshold:g}, the highest score: nothing would merge"
        )


def highest_score(score: str) -> float:
    """The upper bound of a score function."""
    return _SCORES[score][1][1]
