"""Commands that train what a paired comparison lacks, built from the recipes of the runs that a report shows."""

import shlex
from collections.abc import Sequence

from compool.report.results import OURS, Result, Row
from compool.report.sweeps import recipe_parts
from compool.study.recipe_settings import METHODS, REPLACEMENTS, Recipe
from compool.study.sweeps import variants

_OTHERS = ("none", "gin", "edgepool", "random")  # suggested as the other method, the first that accepts the settings


def comparison_commands(rows: Sequence[Row], source: str) -> tuple[list[str], list[str]]:
    """Commands that train two methods on the same splits, with the settings of the rows' runs.

    Args:
        rows: rows without a paired comparison.
        source: the path of the study's file.

    Returns:
        The commands, one for all rows that differ only in the data set, and the titles of the rows that no command
        describes: those of sweeps, recipe files, user-defined networks and settings that their recipe's name omits.

    Example:
        >>> comparison_commands([], "study.sqlite")
        ([], [])
    """
    datasets: dict[tuple[str, ...], list[str]] = {}
    undescribed = []
    for row in rows:
        options = _options(row)
        if options is None:
            undescribed.append(row.title)
        else:
            datasets.setdefault(options, []).append(row.dataset)
    lines = [
        shlex.join(["compool", "run", *dict.fromkeys(names), *options, "--store", source])
        for options, names in datasets.items()
    ]
    return lines, undescribed


def _options(row: Row) -> tuple[str, ...] | None:
    """The options of `compool run` that train component pooling and another method as in a row; None if there are none
    that give its settings.
    """
    builtin = [result for method, result in row.results.items() if method in (*METHODS, *REPLACEMENTS)]
    if not builtin or not all(result.recipe == row.recipe and _is_described(result) for result in builtin):
        return None
    others = [result.method for result in builtin if result.method != OURS and result.done][:1] or [
        method for method in _OTHERS if method not in row.results and _recipe(method, row.dataset, row.recipe)
    ]
    has_failed = OURS in row.results and not row.results[OURS].done  # training again would fail again
    if not others or has_failed or not _recipe(OURS, row.dataset, row.recipe):
        return None
    base, settings = recipe_parts(row.recipe)
    options = ["--method", f"{OURS},{others[0]}", *([] if base == "fast" else ["--recipe", base])]
    for setting in settings:
        options += ["--set", setting]
    seed = builtin[0].runs[0].seed
    options += ["--seed", str(seed)] if seed else []
    return (*options, "--replicas", str(max(2, *(len(result.runs) for result in builtin))))


def _is_described(result: Result) -> bool:
    """Whether the name of a result's recipe gives all of its settings."""
    recipe = _recipe(result.method, result.dataset, result.recipe)
    return recipe is not None and recipe.checksum == result.runs[0].recipe_checksum


def _recipe(method: str, dataset: str, name: str) -> Recipe | None:
    """The recipe that `compool run` makes of a recipe's name; None if it makes none or another name."""
    base, settings = recipe_parts(name)
    if base.endswith(".toml"):  # stored runs have the name without the ending: do not read files
        return None
    try:
        recipes = variants(method, dataset, base, settings)
    except (ValueError, OSError):
        return None
    return recipes[0] if [recipe.name for recipe in recipes] == [name] else None
