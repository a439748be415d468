"""Describe what `compool run` will train."""

from collections.abc import Sequence

from compool._words import counted
from compool.cli.sets import setting_words
from compool.study.block import Block
from compool.study.estimate import format_duration
from compool.study.recipe_files import datasets
from compool.study.recipe_settings import METHODS, Recipe


def default_recipes(recipes: Sequence[Recipe]) -> list[str]:
    """One line per data set and method without a built-in recipe: the defaults that they use."""
    lines: dict[tuple[str, str], str] = {}
    for recipe in recipes:
        method = recipe.method if recipe.method in METHODS else "component"
        if recipe.dataset not in datasets(method) and not recipe.own_network:
            words = ", ".join(setting_words(recipe))
            text = f"{recipe.dataset} has no built-in recipe; {recipe.method} uses the defaults: {words}"
            lines.setdefault((recipe.dataset, recipe.method), text)
    return list(lines.values())


def plan_lines(plan: Sequence[Block], workers: int) -> list[str]:
    """Describe a plan: one line per kind of block, and a rough estimate of the time."""
    groups: dict[tuple[str, str, str, str, int, int], int] = {}
    seconds = 0.0
    for block in plan:
        runs = counted(len(block.replicas), "replica" if len({recipe.name for recipe in block.recipes}) == 1 else "run")
        key = block.name, runs, block.device, block.note, block.recipe.epochs, block.epochs_done
        groups[key] = groups.get(key, 0) + 1
        seconds += block.epoch_seconds * (block.recipe.epochs - block.epochs_done)
    lines = []
    for (name, runs, device, note, epochs, done), num_blocks in groups.items():
        blocks = runs if num_blocks == 1 else f"{num_blocks} blocks of {runs}"
        resumed = f" ({done} done)" if done else ""
        lines.append(f"{name}: {blocks} on {device}{note and f', {note}'}, {counted(epochs, 'epoch')}{resumed}")
    if plan:
        unknown = not all(block.epoch_seconds for block in plan)
        duration = format_duration(seconds / min(workers, len(plan)))
        lines.append(f"estimated time{' without your own networks' if unknown else ''}: {duration}")
    return lines
