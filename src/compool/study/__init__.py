"""The paper's evaluation: recipes of methods on data sets, their training, and the store of their runs."""

from typing import TYPE_CHECKING

from compool._lazy import lazy_names
from compool.study.recipe_files import recipe, recipes
from compool.study.recipe_settings import METHODS, Recipe
from compool.study.store import Run, Store
from compool.study.sweeps import variants

if TYPE_CHECKING:
    from compool.study.block import Block
    from compool.study.export import export_run
    from compool.study.kept import find_run
    from compool.study.logs import EpochLog, EpochRecord, LogWriter
    from compool.study.model import load_model
    from compool.study.planning import plan
    from compool.study.prediction import Model, Predictions
    from compool.study.resources import Resources, local_resources
    from compool.study.training import train_block, train_here
    from compool.study.workers import execute, train_on_workers

__all__ = [
    "METHODS",
    "Block",
    "EpochLog",
    "EpochRecord",
    "LogWriter",
    "Model",
    "Predictions",
    "Recipe",
    "Resources",
    "Run",
    "Store",
    "execute",
    "export_run",
    "find_run",
    "load_model",
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
        "Block": "compool.study.block",
        "EpochLog": "compool.study.logs",
        "EpochRecord": "compool.study.logs",
        "LogWriter": "compool.study.logs",
        "Model": "compool.study.prediction",
        "Predictions": "compool.study.prediction",
        "Resources": "compool.study.resources",
        "execute": "compool.study.workers",
        "export_run": "compool.study.export",
        "find_run": "compool.study.kept",
        "load_model": "compool.study.model",
        "local_resources": "compool.study.resources",
        "plan": "compool.study.planning",
        "train_block": "compool.study.training",
        "train_here": "compool.study.training",
        "train_on_workers": "compool.study.workers",
    },
)
