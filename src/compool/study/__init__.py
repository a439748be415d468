"""The paper's evaluation: recipes of methods on data sets, their training, and the store of their runs."""

from compool.study.planning import Block, Place, here, plan
from compool.study.recipe import METHODS, Recipe, recipe, recipes, variants
from compool.study.run import run_here, train_block
from compool.study.store import Run, Store
from compool.study.workers import execute, run_on_workers

__all__ = [
    "METHODS",
    "Block",
    "Place",
    "Recipe",
    "Run",
    "Store",
    "execute",
    "here",
    "plan",
    "recipe",
    "recipes",
    "run_here",
    "run_on_workers",
    "train_block",
    "variants",
]
