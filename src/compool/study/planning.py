"""The plan of a study: which blocks are missing, and how large they may be."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from compool import data
from compool._words import counted
from compool.study import checkpoint, recipe_data
from compool.study.block import Block
from compool.study.columns import MAX_REPLICAS
from compool.study.estimate import epoch_seconds
from compool.study.metrics import loss_kind, metric_of
from compool.study.recipe_settings import Recipe, require_seed
from compool.study.resources import Resources, local_resources
from compool.study.store import Store

_log = logging.getLogger(__name__)


def missing_blocks(
    store: Store | None,
    recipes: Sequence[Recipe],
    num_replicas: int,
    seed: int,
    size: int,
    folder: Path | None,
    device: str,
    checkpoint_folder: Path | None = None,
    interrupted: Sequence[checkpoint.Interrupted] = (),
    data_checksum: str = "",
) -> list[Block]:
    """Blocks of at most `size` replicas for the missing runs of replicas 0 to `num_replicas` − 1 of each recipe.

    Interrupted blocks come first, unchanged. The recipes may only differ in settings that may differ within a training.
    Runs on data with another checksum count as missing.
    """
    splits_file = recipe_data.splits_checksum(recipes[0])
    todo: dict[tuple[str, int], Recipe] = {}
    for recipe in recipes:
        key = (recipe.dataset, recipe.method, recipe.checksum)
        stored = store.replicas(*key, seed, data_checksum, splits_file) if store else set()
        todo |= {(recipe.checksum, replica): recipe for replica in range(num_replicas) if replica not in stored}

    def block(members: Sequence[tuple[str, int]], epochs_done: int = 0) -> Block:
        variants = tuple(todo.pop(member) for member in members)
        distinct = variants if len(set(variants)) > 1 else ()
        replicas = tuple(replica for _, replica in members)
        return Block(variants[0], seed, replicas, folder, device, distinct, checkpoint_folder, epochs_done)

    blocks = [
        block(unfinished.members, unfinished.epochs)
        for unfinished in interrupted
        if todo.keys() >= {*unfinished.members}
    ]
    remaining = list(todo)
    return blocks + [block(remaining[start : start + size]) for start in range(0, len(remaining), size)]


def plan(
    recipes: Sequence[Recipe],
    num_replicas: int,
    seed: int,
    store: Path,
    folder: Path | None = None,
    resources: Resources | None = None,
    size: int | None = None,
    on_data: Callable[[str], None] | None = None,
    check_edges: bool = True,
) -> list[Block]:
    """The blocks of the missing runs of `num_replicas` replicas of each recipe.

    Reads the data sets and checks all settings, so that errors are raised before training. Recipes that only differ in
    settings that may differ within a training, such as the learning rate, share blocks: a sweep is a single training.

    Args:
        recipes: what to train.
        num_replicas: replicas 0 to `num_replicas` − 1 of each.
        seed: the study's seed.
        store: the study's file; need not exist.
        folder: the folder of the data sets.
        resources: what to train on; by default, this machine.
        size: the largest number of replicas per block; by default what fits in memory, and few enough to keep all
            workers busy.
        on_data: called with a description of each data set as the recipes use it.
        check_edges: check every edge of cached data sets again; for a dry run, their checksums are enough.
    """
    for name, value in (("replicas", num_replicas), ("block", size)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if num_replicas > MAX_REPLICAS:
        raise ValueError(f"replicas must be at most {MAX_REPLICAS:,}, got {num_replicas:,}")
    require_seed(seed)
    device, workers, memory, checkpoints = resources or local_resources()
    groups: dict[Recipe, list[Recipe]] = {}
    for recipe in recipes:
        groups.setdefault(recipe.common, []).append(recipe)
    # Half the replicas take half the time on a CPU, but nearly as long on a GPU: split only for idle GPUs
    share = -(-workers // len(groups)) if device == "cuda" else workers
    opened = Store(store) if store.exists() else None
    checkpoint_folder = checkpoint.folder_of(store) if checkpoints else None
    interrupted = checkpoint.interrupted(checkpoint_folder, seed, device) if checkpoint_folder else []
    if size is not None:  # interrupted blocks may be too large
        interrupted = [unfinished for unfinished in interrupted if len(unfinished.members) <= size]
    blocks, checksums, described = list[Block](), dict[str, str](), set[str]()
    for group in groups.values():
        graphs = recipe_data.load_data(group[0], folder, check_edges or bool(group[0].own_network))
        if on_data is not None and (text := recipe_data.describe_data(group[0], graphs)) not in described:
            on_data(text)
            described.add(text)
        if graphs.task == "classification" and graphs.num_classes < 2:
            raise ValueError(
                f"all graphs of {graphs.name} have the same class, but a classifier needs two; for numbers to predict, "
                "make y a float"
            )
        features, own_source, note = data.features(graphs, group[0].features), "", ""
        metric = metric_of(group[0].metric, graphs.task, graphs.name)
        loss_kind(group[0].loss, graphs.task, graphs.name)
        if group[0].class_weights != "none" and graphs.task != "classification":
            raise ValueError(
                f"class_weights must be none for {graphs.name} ({graphs.task}), got {group[0].class_weights}"
            )
        sized, group_size = group[0], size
        if sized.own_network:
            own_source, stacked = _try_own_networks(group, graphs, features)
            sized, group_size = (stacked, size) if stacked else (sized, 1)
            note = "many at once" if stacked else "one at a time"
        else:
            for recipe in group:
                recipe.network_settings(features.width, graphs.num_classes, graphs.task)  # raises if a setting is wrong
        recipe_data.splits(group[0], graphs, seed, range(num_replicas))
        max_replicas = group_size or min(block_size(sized, graphs, memory), -(-num_replicas * len(group) // share))
        block_options = folder, device, checkpoint_folder, interrupted
        missing = missing_blocks(opened, group, num_replicas, seed, max_replicas, *block_options, graphs.checksum)
        for block in missing:
            seconds = 0.0 if note else epoch_seconds(sized, graphs, len(block.replicas), device)
            blocks.append(replace(block, own_source=own_source, note=note, metric=metric, epoch_seconds=seconds))
        checksums[group[0].dataset] = graphs.checksum
    for dataset, checksum in checksums.items():
        if opened and (others := opened.num_runs_of_other_data(dataset, checksum)):
            _log.warning(
                "%s has %s of other data named %s: they do not count, and reports show them separately",
                store,
                counted(others, "run"),
                dataset,
            )
    return blocks


def _try_own_networks(
    recipes: Sequence[Recipe], graphs: data.GraphSet, features: data.Features
) -> tuple[str, Recipe | None]:
    """Build the user-defined network of each recipe, and try it on some graphs.

    Returns:
        Its source code, and, if replicas can be trained together, a recipe with its layers and width.
    """
    from compool.replicas import Graphs
    from compool.study.own_network import read_source, source_checksum
    from compool.study.own_training import initial_network, stackable_settings

    source, on_cpu = read_source(recipes[0].own_network), Graphs(graphs, features)
    if any(source_checksum(source) != recipe.own_checksum for recipe in recipes):
        raise ValueError(f"{recipes[0].own_network} has changed since the recipe was created; run the command again")
    networks = [initial_network(recipe, source, graphs, on_cpu, seed=0) for recipe in recipes]
    settings = [stackable_settings(network) for network in networks]
    if any(network_settings is None for network_settings in settings):
        return source, None
    letters, hidden = getattr(settings[0], "layers", "GIN"), getattr(settings[0], "hidden", 1)
    return source, replace(recipes[0], layers=letters, hidden=hidden)


def block_size(recipe: Recipe, graphs: data.GraphSet, memory: int) -> int:
    """Roughly how many replicas fit in `memory` bytes, by an estimate of what a step keeps for the backward pass."""
    nodes, edges = (total / len(graphs) for total in (graphs.num_nodes, graphs.num_edges))
    width = recipe.hidden * (len(recipe.layers) + 2) * 4
    replica = min(recipe.batch, len(graphs)) * (nodes * width * 4 + edges * 64)
    return max(1, min(int(0.5 * memory / replica), 100))
