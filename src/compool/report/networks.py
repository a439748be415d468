"""Trained networks to inspect: from a file, from the store of a study, or newly trained."""

import logging
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open

from compool import data, nn
from compool.report.levels import InspectedGraph, inspect_graph
from compool.report.results import OURS, Study
from compool.study import recipe_data, training
from compool.study.block import Block
from compool.study.kept import best_run, find_run, kept_network, number_ranges, recipe_of
from compool.study.metrics import METRICS, chosen_metric, format_mean
from compool.study.recipe_files import recipe
from compool.study.recipe_settings import Recipe
from compool.study.store import Run, Store
from compool.study.training import OnEpoch

_log = logging.getLogger(__name__)
DEFAULT_STORE = Path("study.sqlite")
CANDIDATE_REPLICAS = (0, 1, 2, 3)  # trained if there is no study; the best is shown

OnTraining = Callable[[str], None]
"""Called before a network is trained, with what is trained, and why."""


def inspect_trained(
    dataset: str,
    index: int,
    store: Path | None = None,
    model: Path | None = None,
    name: str = "",
    replica: int | None = None,
    seed: int | None = None,
    threshold: float | None = None,
    folder: Path | None = None,
    on_training: OnTraining = lambda text: None,
    on_epoch: OnEpoch | None = None,
) -> InspectedGraph:
    """Inspect a graph with a trained network.

    Args:
        dataset: the data set.
        index: index of the graph.
        store: use the network of a run of this study; by default ``study.sqlite``, if it has such a run.
        model: use the network in this file instead.
        name: the recipe of the run; by default any.
        replica: the replica of the run; by default the one with the best validation metric.
        seed: the seed of the run; by default any.
        threshold: replaces the network's threshold.
        folder: the folder of the data set.
        on_training: called before a network is trained.
        on_epoch: called after each epoch of its training.
    """
    if model is not None:
        network, about = nn.load_network(model), f"Network: {model.name}."
        recipe_used = recipe(OURS, dataset, name or "fast")
        graphs = recipe_data.load_data(recipe_used, folder)
        width = network.settings.in_channels if isinstance(network, nn.Network) else None
        return inspect_graph(network, graphs, index, _matching_features(graphs, recipe_used, width), threshold, about)
    path, reason = store or DEFAULT_STORE, f"{DEFAULT_STORE} does not exist"
    run = None
    if path.exists():
        known = recipe(OURS, dataset).dataset
        is_specified = store is not None or bool(name) or replica is not None or seed is not None
        if is_specified or any(found.status == "done" for found in Store(path).runs([known], [OURS], curves=False)):
            run = find_run(path, known, OURS, name, replica, seed)
        reason = f"{path} has no finished run of {OURS} on {known}"
    recipe_used = recipe_of(run) if run else recipe(OURS, dataset, name or "fast")
    graphs = recipe_data.load_data(recipe_used, folder)
    if run:
        run = find_run(path, known, OURS, name, replica, seed, graphs.checksum)
        recipe_used = recipe_of(run)
    if not 0 <= index < len(graphs):  # before a network is trained in vain
        raise ValueError(f"index must lie in 0..{len(graphs) - 1}, the graphs of {graphs.name}; got {index}")
    if run:
        network, about = network_of(run, path, graphs, folder, on_training, on_epoch)
    else:
        block = Block(recipe_used, seed or 0, CANDIDATE_REPLICAS if replica is None else (replica,), folder)
        replicas = "replicas" if len(block.replicas) > 1 else "replica"
        on_training(f"training {block.name}, {replicas} {number_ranges(block.replicas)}: {reason}")
        best = best_run(training.train_block(block, on_epoch, graphs))
        network, about = _network_of_weights(best, best.weights, graphs), describe_network(best)
    return inspect_graph(network, graphs, index, data.features(graphs, recipe_used.features), threshold, about)


def _matching_features(graphs: data.GraphSet, chosen: Recipe, width: int | None) -> data.Features:
    """The features of the recipe if they have the network's width, else the default features of the set."""
    features = data.features(graphs, chosen.features)
    return features if features.width == width else data.features(graphs)


def describe_network(run: Run, test: str = "") -> str:
    """Describe the network of a run; `test` is its result after retraining, if it was retrained."""
    retrained, metric = f"; trained again, {test}" if test else "", METRICS[chosen_metric(run.metrics)]
    return (
        f"Network: {run.method}, recipe {run.recipe}, seed {run.seed}, replica {run.replica}, at epoch {run.epoch} "
        f"(best validation {metric.title}), test {metric.title} {_formatted(run, run.test)}{retrained}."
    )


def _formatted(run: Run, value: float | None) -> str:
    """A result of a run, as its metric is shown."""
    if value is None:
        return "not defined"
    metric = METRICS[chosen_metric(run.metrics)]
    return format_mean(metric, value) + ("%" if metric.higher else "")


def model_path(store: Path, run: Run) -> Path:
    """The file of a run's retrained network, beside the store."""
    checksums = "-".join(filter(None, (run.recipe_checksum, run.data_checksum, run.splits_checksum)))
    # "best": files without it, of older versions, may hold a network of another learning rate schedule
    name = f"{run.method}-{checksums}-{run.seed}-{run.replica}-best.safetensors"
    return store.with_name(f"{store.stem}-models") / name


def is_kept(store: Path, run: Run) -> bool:
    """Whether the network of a run needs no training."""
    return bool(Store(store).weights(run)) or model_path(store, run).exists()


def chosen_run(study: Study, dataset: str) -> Run | None:
    """The run of component pooling on a data set to inspect: the best in validation of those that merge by score."""
    results = [row.results[OURS] for row in study.rows if row.dataset == dataset and OURS in row.results]
    runs = [run for result in results for run in result.done if run.settings.get("merge_order") != "random"]
    return best_run(runs) if runs else None


def network_of(
    run: Run,
    store: Path,
    graphs: data.GraphSet,
    folder: Path | None,
    on_training: OnTraining = lambda text: None,
    on_epoch: OnEpoch | None = None,
) -> tuple[torch.nn.Module, str]:
    """The network of a run and its description.

    It is built from the weights in the store, or read from a file beside the store if they were not kept. If there is
    no such file, the run is trained again and the file written. Damaged weights or files are replaced, with a warning.
    """
    require_same_data(run, graphs)
    weights, path = Store(store).weights(run), model_path(store, run)
    reason = f"{store} has no weights of this run: it was trained with --no-weights, or by an older version"
    if weights:
        try:
            return _network_of_weights(run, weights, graphs), describe_network(run)
        except ValueError as error:
            _log.warning("%s", error)
            reason = "its weights cannot be read"
    if path.exists():
        try:
            return _load_retrained(run, path)
        except ValueError as error:
            _log.warning("%s", error)
            reason = f"{path} cannot be read"
    on_training(f"training {run.dataset} {run.method}, replica {run.replica}: {reason}")
    network, test = retrain(run, graphs, folder, on_epoch)
    path.parent.mkdir(parents=True, exist_ok=True)
    nn.save_network(network, path, dataset=run.dataset, recipe=run.recipe, replica=str(run.replica), test=test)
    return _load_retrained(run, path)


def _network_of_weights(run: Run, weights: bytes, graphs: data.GraphSet) -> torch.nn.Module:
    width = data.features(graphs, recipe_of(run).features).width
    return kept_network(run, weights, width, graphs.num_classes)


def _load_retrained(run: Run, path: Path) -> tuple[torch.nn.Module, str]:
    network = nn.load_network(path)
    with safe_open(path, framework="pt") as file:
        return network, describe_network(run, file.metadata().get("test", "unknown"))


def require_same_data(run: Run, graphs: data.GraphSet) -> None:
    """Raise a ValueError if the checksum of a run is not that of the graphs; older runs have none."""
    if run.data_checksum not in ("", graphs.checksum):
        raise ValueError(
            f"the run was trained on other data named {graphs.name} (checksum {run.data_checksum}, "
            f"not {graphs.checksum})"
        )


def retrain(
    run: Run, graphs: data.GraphSet, folder: Path | None, on_epoch: OnEpoch | None = None
) -> tuple[torch.nn.Module, str]:
    """Retrain a run. Returns its network at the epoch of the best validation metric, and its test result.

    Split, initial weights, orders and dropout are those of the run. All epochs are trained: the learning rates of some
    schedules depend on their number. In blocks of other sizes, sums are rounded differently, so that the network is not
    bitwise equal; its accuracy, and its epoch if it is another one, show how close it is.
    """
    if run.epoch is None:
        raise ValueError(f"replica {run.replica} of {run.dataset} {run.method} failed and has no network to show")
    block = Block(recipe_of(run), run.seed, (run.replica,), folder)
    retrained = best_run(training.train_block(block, on_epoch, graphs))
    test = _formatted(run, retrained.test) + ("" if retrained.epoch == run.epoch else f" at epoch {retrained.epoch}")
    return _network_of_weights(retrained, retrained.weights, graphs), test
