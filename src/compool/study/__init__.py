"""The paper's evaluation: recipes of methods on data sets."""

from compool.study.recipe import METHODS, Recipe, recipe, recipes

__all__ = ["METHODS", "Recipe", "recipe", "recipes"]
