"""Sweeps: recipes with changed settings, all combinations of values or random ones."""

import hashlib
import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from compool._words import did_you_mean
from compool.study import own_network
from compool.study.recipe_files import changed_recipe
from compool.study.recipe_settings import CHANGEABLE, KEYS, Recipe, require_seed

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"(log:)?({_NUMBER})\.\.({_NUMBER})")
MAX_TRIALS = 100_000


class Range(NamedTuple):
    """A range to draw from, uniformly or log-uniformly; only whole numbers if both ends are whole numbers."""

    low: float
    high: float
    log: bool
    whole: bool

    def draw(self, random: np.random.Generator) -> float | int:
        """Draw a number of the range, rounded to four digits."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.whole and not self.log:
            return int(random.integers(int(self.low), int(self.high) + 1))
        value = float(random.uniform(low, high))
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return round(value) if self.whole else float(f"{value:.4g}")


def variants(
    method: str,
    dataset: str,
    name: str = "fast",
    settings: Sequence[str] = (),
    trials: int | None = None,
    seed: int = 0,
    **changes: Any,
) -> list[Recipe]:
    """Recipes with changed settings, one per combination of values or `trials` random ones. Their names include the
    changes. Of combinations with equal settings, such as ``weight_decay=0,0.0``, the first is kept.

    Args:
        method: see :func:`recipe`.
        dataset: see :func:`recipe`.
        name: see :func:`recipe`.
        settings: each ``NAME=VALUE``, or several values separated by commas, as in TOML; text needs no quotes. Commas
            in brackets or quotes belong to a value: ``widths=[8,16],[32]``. With `trials` also a range,
            ``NAME=LOW..HIGH``, or ``NAME=log:LOW..HIGH``.
        trials: how many combinations to draw; by default, all of them. More trials begin with the same ones.
        seed: the seed of the draws.
        changes: settings to change in all recipes; their names do not include these.

    Example:
        >>> [variant.name for variant in variants("gin", "NCI1", settings=["lr=0.01,0.02", "readout=mean"])]
        ['fast lr=0.01 readout=mean', 'fast lr=0.02 readout=mean']
        >>> [variant.name for variant in variants("gin", "NCI1", settings=["lr=log:1e-4..1e-1"], trials=2)]
        ['fast lr=...', 'fast lr=...']
    """
    require_seed(seed)
    choices: dict[str, list[Any] | Range] = {}
    for setting in settings:
        key, equals, values = setting.partition("=")
        if not equals:
            raise ValueError(f"a setting must be NAME=VALUE, got {setting!r}")
        if not (key in CHANGEABLE or (own_network.is_reference(method) and key.isidentifier())):
            hint = did_you_mean(key, CHANGEABLE) or f"; known settings: {', '.join(sorted(CHANGEABLE))}"
            raise ValueError(f"{key!r} is not a setting{'; the data set gives it' if key in KEYS else hint}")
        if key in choices:
            raise ValueError(f"{key} is set twice; write several values as {key}=1,2")
        choices[key] = _range(key, values.strip()) or [_value(value) for value in _split(values)]
    combinations = _combinations(choices) if trials is None else _draws(choices, trials, seed)
    by_settings: dict[Recipe, Recipe] = {}
    for chosen in combinations:
        variant = _variant(method, dataset, name, chosen, changes)
        by_settings.setdefault(replace(variant, name=""), variant)  # 0 and 0.0 are the same setting, with two names
    return list(by_settings.values())


def _variant(method: str, dataset: str, name: str, chosen: dict[str, Any], changes: dict[str, Any]) -> Recipe:
    variant = changed_recipe(method, dataset, name, changes | chosen)
    for key in chosen:
        if not variant.uses(key):
            reasons = {"momentum": f"optimizer is {variant.optimizer}", "halve": f"schedule is {variant.schedule}"}
            reason = reasons.get(key, f"layers are {variant.layers}")
            raise ValueError(f"{key} has no effect on {method} with {dataset}: its {reason}")
    return replace(variant, name=" ".join([variant.name, *(f"{key}={value}" for key, value in chosen.items())]))


def _combinations(choices: dict[str, list[Any] | Range]) -> list[dict[str, Any]]:
    lists = {key: values for key, values in choices.items() if not isinstance(values, Range)}
    for key in choices.keys() - lists.keys():
        raise ValueError(f"{key} is a range; --trials says how many values to draw from it")
    return [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]


def _draws(choices: dict[str, list[Any] | Range], trials: int, seed: int) -> list[dict[str, Any]]:
    if not 1 <= trials <= MAX_TRIALS:
        raise ValueError(f"trials must be from 1 to {MAX_TRIALS:,}, got {trials}")
    if not any(isinstance(values, Range) or len(values) > 1 for values in choices.values()):
        raise ValueError("--trials needs a setting to draw, such as --set lr=log:1e-4..1e-1")
    return [{key: _draw(key, values, seed, trial) for key, values in choices.items()} for trial in range(trials)]


def _draw(key: str, values: list[Any] | Range, seed: int, trial: int) -> Any:
    """The value of a setting in a trial, independent of the other settings that are drawn."""
    digest = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    random = np.random.default_rng([digest, seed, trial])
    return values.draw(random) if isinstance(values, Range) else values[int(random.integers(len(values)))]


def _range(key: str, text: str) -> Range | None:
    """Parse a range; None if the text is not a range."""
    match = _RANGE.fullmatch(text)
    if match is None:
        if text.startswith("log:"):
            raise ValueError(f"{key} must be a range such as log:1e-4..1e-1, got {text!r}")
        return None
    low, high = float(match[2]), float(match[3])
    if not low < high:
        raise ValueError(f"{key} must be a range from low to high, got {text!r}")
    if match[1] and low <= 0:
        raise ValueError(f"{key} must be above 0 for a logarithmic range, got {text!r}")
    whole = all(re.fullmatch(r"[+-]?\d+", end) for end in (match[2], match[3]))
    if not math.isfinite(high - low) or (whole and max(-low, high) >= 2**63):
        raise ValueError(f"{key} must be a range of smaller numbers, got {text!r}")
    return Range(low, high, bool(match[1]), whole)


def _split(text: str) -> list[str]:
    """The values of a list: split at the commas outside brackets and quotes, if these are balanced.

    Example:
        >>> _split("[8,16],[32],'a,b',it's")
        ['[8,16]', '[32]', "'a,b'", "it's"]
    """
    values, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and values[-1].rstrip()[-1:] in "[{,=":  # not the apostrophe of a word
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        if character == "," and not (depth or quote):
            values.append("")
        else:
            values[-1] += character
    return text.split(",") if depth or quote else values


def _value(text: str) -> Any:
    """Parse a number, boolean, text in quotes or list of these, written as in TOML or in names of recipes; otherwise,
    such as for a date, the text itself.
    """
    text = text.strip()
    try:
        value = tomllib.loads(f"value = {text.lower() if text in ('True', 'False') else text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if _is_allowed(value) else text


def _is_allowed(value: Any) -> bool:
    return all(map(_is_allowed, value)) if isinstance(value, list) else isinstance(value, bool | int | float | str)
