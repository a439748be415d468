"""The paper's evaluation: recipes of methods on data sets, their training, and the store of their runs."""

from typing import TYPE_CHECKING

from compool._lazy import lazy_names
from compool.study.recipe import METHODS, Recipe, recipe, recipes
from compool.study.store import Run, Store
from compool.study.sweeps import variants

if TYPE_CHECKING:
    from compool.study.logs import EpochLog, EpochRecord, LogWriter
    from compool.study.planning import Block, Resources, local_resources, plan
    from compool.study.training import train_block, train_here
    from compool.study.workers import execute, train_on_workers

__all__ = [
    "METHODS",
    "Block",
    "EpochLog",
    "EpochRecord",
    "LogWriter",
    "Recipe",
    "Resources",
    "Run",
    "Store",
    "execute",
    "local_resources",
    "plan",
    "recipe",
    "recipes",
    "train_block",
    "train_here",
    "train_on_workers",
    "variants",
]

__getattr__, __dir__ = lazy_names(
    "compool.study",
    {
        "Block": "compool.study.planning",
        "EpochLog": "compool.study.logs",
        "EpochRecord": "compool.study.logs",
        "LogWriter": "compool.study.logs",
        "Resources": "compool.study.planning",
        "execute": "compool.study.workers",
        "local_resources": "compool.study.planning",
        "plan": "compool.study.planning",
        "train_block": "compool.study.training",
        "train_here": "compool.study.training",
        "train_on_workers": "compool.study.workers",
    },
)
