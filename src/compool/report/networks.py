"""Trained networks to inspect: from a file, or of a run, retrained."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from compool import data, nn
from compool.report.levels import InspectedGraph, inspect_graph
from compool.report.results import OURS, Study, collect
from compool.study import planning, training
from compool.study.planning import Block
from compool.study.recipe import IMPLIED, Recipe, recipe
from compool.study.store import Run, Store
from compool.study.training import OnEpoch

_log = logging.getLogger(__name__)
DEFAULT_STORE = Path("study.sqlite")
CANDIDATE_REPLICAS = (0, 1, 2, 3)  # trained if there is no study; the best is shown


def inspect_trained(
    dataset: str,
    index: int,
    store: Path | None = None,
    model: Path | None = None,
    name: str = "",
    replica: int | None = None,
    threshold: float | None = None,
    folder: Path | None = None,
    on_epoch: OnEpoch | None = None,
) -> InspectedGraph:
    """Inspect a graph with a trained network.

    Args:
        dataset: the data set.
        index: which graph.
        store: take the network of a run of this study; by default of ``study.sqlite``, if it has one.
        model: take the network of this file instead.
        name: the recipe of the run; by default any.
        replica: the run; by default that of the best validation accuracy.
        threshold: replaces the network's threshold.
        folder: where the data set is.
        on_epoch: called after each epoch if a network is trained.
    """
    if model is not None:
        network, about = nn.load_network(model), f"The network is that of {model.name}."
        recipe_used = recipe(OURS, dataset, name or "fast")
        graphs = planning.load_data(recipe_used, folder)
        width = network.settings.in_channels if isinstance(network, nn.Network) else None
        return inspect_graph(network, graphs, index, _matching_features(graphs, recipe_used, width), threshold, about)
    run = None
    if store is not None or DEFAULT_STORE.exists():
        runs = Store(store or DEFAULT_STORE).runs([recipe(OURS, dataset).dataset], [OURS])
        run = chosen_run(collect(runs), recipe(OURS, dataset).dataset, name, replica)
        if run is None and store is not None:
            wanted = f"{OURS} on {dataset}" + (f" by recipe {name}" if name else "")
            wanted += "" if replica is None else f", replica {replica}"
            raise ValueError(f"{store} has no finished run of {wanted}")
    recipe_used = recipe_of(run) if run else recipe(OURS, dataset, name or "fast")
    graphs = planning.load_data(recipe_used, folder)
    if not 0 <= index < len(graphs):  # before a network is trained for nothing
        raise ValueError(f"index must lie in 0..{len(graphs) - 1}, the graphs of {graphs.name}; got {index}")
    if run:
        require_same_data(run, graphs)
        network, about = network_of(run, store or DEFAULT_STORE, folder, on_epoch)
    else:
        trained = training.train_block(
            Block(recipe_used, 0, CANDIDATE_REPLICAS if replica is None else (replica,), folder), on_epoch
        )
        best = max(trained, key=lambda run: run.validation or 0.0)
        network, test = retrain(best, folder, on_epoch)
        about = describe_network(best, test)
    return inspect_graph(network, graphs, index, data.features(graphs, recipe_used.features), threshold, about)


def _matching_features(graphs: data.GraphSet, chosen: Recipe, width: int | None) -> data.Features:
    """The features of the recipe if they have the network's width, else the default features of the set."""
    features = data.features(graphs, chosen.features)
    return features if features.width == width else data.features(graphs)


def describe_network(run: Run, test: str) -> str:
    """The network that is shown, in words; `test` is its accuracy after retraining."""
    return (
        f"The network is that of {run.method}, recipe {run.recipe}, seed {run.seed}, replica {run.replica}, at epoch "
        f"{run.epoch}, of the best validation accuracy: test accuracy {run.test or 0:.1%}; trained again, {test}."
    )


def model_path(store: Path, run: Run) -> Path:
    """The file of a run's retrained network, beside the store."""
    checksums = "-".join(filter(None, (run.recipe_checksum, run.data_checksum, run.splits_checksum)))
    name = f"{run.method}-{checksums}-{run.seed}-{run.replica}.safetensors"
    return store.with_name(f"{store.stem}-models") / name


def chosen_run(study: Study, dataset: str, recipe: str = "", replica: int | None = None) -> Run | None:
    """The run of component pooling on a data set to inspect; by default the one with the best validation accuracy."""
    results = [
        row.results[OURS]
        for row in study.rows
        if row.dataset == dataset and recipe in ("", row.recipe) and OURS in row.results
    ]
    runs = [run for result in results for run in result.done if replica in (None, run.replica)]
    return max(runs, key=lambda run: (run.validation or 0.0, -run.replica), default=None)


def recipe_of(run: Run) -> Recipe:
    """The recipe that a run was trained by."""
    try:
        return Recipe(**IMPLIED | run.settings)
    except TypeError:
        raise ValueError(f"the settings of {run.dataset} {run.method} are of another version of compool") from None


def network_of(
    run: Run, store: Path, folder: Path | None, on_epoch: OnEpoch | None = None
) -> tuple[torch.nn.Module, str]:
    """The network of a run and its description: from the file beside the store, or else retrained and stored there.

    A damaged file is replaced, with a warning.
    """
    path = model_path(store, run)
    if path.exists():
        try:
            return _load_kept(run, path)
        except ValueError as error:
            _log.warning("%s; training the network again", error)
    network, test = retrain(run, folder, on_epoch)
    path.parent.mkdir(parents=True, exist_ok=True)
    nn.save_network(network, path, dataset=run.dataset, recipe=run.recipe, replica=str(run.replica), test=test)
    return _load_kept(run, path)


def _load_kept(run: Run, path: Path) -> tuple[torch.nn.Module, str]:
    network = nn.load_network(path)
    with safe_open(path, framework="pt") as file:
        return network, describe_network(run, file.metadata().get("test", "unknown"))


def require_same_data(run: Run, graphs: data.GraphSet) -> None:
    """The graphs must be those that a run was trained on, if it has a checksum."""
    if run.data_checksum not in ("", graphs.checksum):
        raise ValueError(
            f"the run was trained on other data of the name {graphs.name} (checksum {run.data_checksum}; those at hand "
            f"have {graphs.checksum})"
        )


def retrain(run: Run, folder: Path | None, on_epoch: OnEpoch | None = None) -> tuple[torch.nn.Module, str]:
    """Retrain a run up to the epoch of its best validation accuracy. Returns the network and its test accuracy.

    Split, initial weights, orders and dropout are those of the run. In blocks of other sizes, sums are rounded
    differently, so that the network is not bitwise equal; its accuracy shows how close it is.
    """
    if run.epoch is None:
        raise ValueError(f"replica {run.replica} of {run.dataset} {run.method} failed: there is no network to show")
    kept: list[Any] = []
    recipe = replace(recipe_of(run), epochs=run.epoch)
    graphs = planning.load_data(recipe, folder)
    require_same_data(run, graphs)
    (retrained,) = training.train_block(Block(recipe, run.seed, (run.replica,), folder), on_epoch, graphs, kept.append)
    return kept[0].single(0), f"{retrained.curves['test'][-1] or 0:.1%}"
