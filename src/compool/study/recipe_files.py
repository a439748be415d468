"""The recipes of methods on data sets, from TOML files in the package or of the user."""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from compool._words import did_you_mean
from compool.study import own_network
from compool.study.recipe_settings import DEFAULTS, IMPLIED, KEYS, METHODS, NETWORK_KEYS, REPLACEMENTS, SCORING, Recipe

_FOLDER = files("compool.study") / "recipes"
_NO_NETWORK: dict[str, Any] = {"layers": "", "hidden": 0, "readout": "", "dropout": 0.0} | {
    key: value for key, value in IMPLIED.items() if key in NETWORK_KEYS - {"in_channels", "num_classes"}
}


def recipe(method: str, dataset: str, name: str = "fast", **changes: Any) -> Recipe:
    """The recipe of a method on a data set, or the method's default for a data set without a recipe.

    Args:
        method: ``"component"``, ``"edgepool"`` or ``"gin"``; or component pooling's network without
            pooling, ``"none"``, with another layer, ``"topk"``, ``"sag"`` or ``"edge"``, or with ``"random"`` edges
            merged. Your own network is ``"FILE.py:CLASS"`` or ``"MODULE:CLASS"``, trained like component pooling.
        dataset: the data set, by its name in the paper or in the TU collection.
        name: which of the file's recipes, or the path of a TOML file of settings to change in ``fast``.
        changes: settings to change. For your own network, those that are not about training are arguments of its class.

    Example:
        >>> recipe("component", "PROTEINS").lr, recipe("component", "PROTEINS", "paper").lr
        (0.003, 0.001)
    """
    return changed_recipe(method, dataset, name, changes)


def changed_recipe(method: str, dataset: str, name: str, changes: dict[str, Any]) -> Recipe:
    """The same as :func:`recipe`, with changes as a dictionary: a network may have a parameter called ``name``."""
    if own_network.is_reference(method):
        return _own_recipe(method, dataset, name, changes)
    if method in REPLACEMENTS:
        component = _recipe("component", dataset, name, method, changes)
        other = replace(component, method=method, layers=component.layers.replace("P", REPLACEMENTS[method]))
        return _random(other) if method == "random" else other
    if method not in METHODS:
        known_methods = ", ".join((*METHODS, *REPLACEMENTS))
        hint = did_you_mean(method, (*METHODS, *REPLACEMENTS))
        raise ValueError(f"method must be one of {known_methods}, or FILE.py:CLASS; got {method!r}{hint}")
    return _recipe(method, dataset, name, method, changes)


def _random(recipe: Recipe) -> Recipe:
    """The control of Mesquita et al. (2020): random edges merge until the share `merge_ratio` of the nodes is left.

    Scores no longer weigh features: Eq. 3 becomes a sum, and ``graded``, which ends in means, a mean.
    """
    if recipe.merge_ratio is None:
        raise ValueError(
            "random needs merge_ratio, the share of nodes that the trained network keeps: --set merge_ratio=0.4, or "
            f"[{recipe.name}.random] in the recipe file of component on {recipe.dataset}"
        )
    reduce = {"score": "sum", "graded": "mean"}.get(recipe.reduce, recipe.reduce)
    return replace(recipe, scorer="random", reduce=reduce, **{name: DEFAULTS[name] for name in SCORING[:-1]})


def _recipe(method: str, dataset: str, name: str, variant: str, changes: dict[str, Any]) -> Recipe:
    """The recipe of a method; a table ``[name.variant]`` in its file overrides the table ``[name]``."""
    dataset, layers = _layers(method, dataset)
    known = _table_names(layers)
    from_file, table = dict[str, Any](), name
    if name.endswith(".toml"):
        from_file, table, name = _read_toml(Path(name)), "fast", Path(name).stem
        unknown = sorted(set(from_file) - KEYS)
        if unknown:
            hint = did_you_mean(unknown[0], KEYS) or f"; known settings: {', '.join(sorted(KEYS))}"
            raise ValueError(f"{name}.toml has an unknown setting, {unknown[0]!r}{hint}")
        _require_new_name(name, known)
    if table not in known:
        hint = did_you_mean(table, known)
        raise ValueError(f"{method} on {dataset} has no recipe {table!r}; its recipes are {', '.join(known)}{hint}")
    settings: dict[str, Any] = {}
    for layer in layers:
        settings |= {key: value for key, value in layer.items() if not isinstance(value, dict)}
    for layer in layers:
        settings |= {key: value for key, value in layer.get(table, {}).items() if not isinstance(value, dict)}
    for layer in layers:
        settings |= layer.get(table, {}).get(variant, {})
    return Recipe(method=method, dataset=dataset, name=name, **(settings | from_file | changes))


def _layers(method: str, dataset: str) -> tuple[str, list[dict[str, Any]]]:
    """The name of a data set in recipes, and the contents of the method's files for it: the defaults, and its own."""
    known = datasets(method)
    dataset = next((name for name in known if dataset == _read_toml(_path(method, name)).get("files")), dataset)
    names = ["default", dataset] if dataset in known else ["default"]
    return dataset, [_read_toml(_path(method, name)) for name in names]


def _table_names(layers: list[dict[str, Any]]) -> list[str]:
    """The names of the recipes in files."""
    return sorted({key for layer in layers for key, value in layer.items() if isinstance(value, dict)})


def _require_new_name(name: str, known: list[str]) -> None:
    """Raise a ValueError if a user's recipe has the name of a built-in one."""
    if name in known:
        raise ValueError(f"rename {name}.toml: {name} is already the name of a built-in recipe")


def _own_recipe(reference: str, dataset: str, name: str, changes: dict[str, Any]) -> Recipe:
    """The recipe of a user-defined network: data and training as in component pooling's recipe."""
    source, method = own_network.read_source(reference), own_network.class_name(reference)
    if method in (*METHODS, *REPLACEMENTS):
        raise ValueError(f"rename the class of {reference}: {method} is a built-in method")
    changes, base_name = dict(changes), name
    if name.endswith(".toml"):
        changes = _read_toml(Path(name)) | changes
        name, base_name = Path(name).stem, "fast"
        _require_new_name(name, _table_names(_layers("component", dataset)[1]))
    arguments = {key: changes.pop(key) for key in sorted(changes) if key in NETWORK_KEYS or key not in KEYS}
    for key, value in arguments.items():
        try:
            json.dumps(value)
        except TypeError:  # such as a date of TOML
            raise ValueError(
                f"{key} must be a number, text, true or false, or a list of these, got {value!r}"
            ) from None
    own_network.require_arguments(reference, own_network.load_class(reference, source), arguments)
    base = recipe("component", dataset, base_name, **changes)
    return replace(
        base,
        method=method,
        name=name,
        own_network=reference,
        own_checksum=own_network.source_checksum(source),
        arguments=json.dumps(arguments, sort_keys=True) if arguments else "",
        **_NO_NETWORK,
    )


def datasets(method: str) -> list[str]:
    """The data sets that a method has a recipe for."""
    names = (entry.name.removesuffix(".toml") for entry in (_FOLDER / method).iterdir())
    return sorted(name for name in names if name != "default")


def recipes() -> Iterator[Recipe]:
    """Every built-in recipe."""
    for method in METHODS:
        for dataset in datasets(method):
            tables = _read_toml(_path(method, "default")) | _read_toml(_path(method, dataset))
            for name in sorted(key for key, value in tables.items() if isinstance(value, dict)):
                yield recipe(method, dataset, name)


def _path(method: str, dataset: str) -> Any:
    return _FOLDER / method / f"{dataset}.toml"


def _read_toml(path: Any) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"recipe file {path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
