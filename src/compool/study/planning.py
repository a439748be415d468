"""The plan of a study: blocks of replicas, and the resources for them."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from compool import data
from compool._words import counted
from compool.study import checkpoint
from compool.study.columns import MAX_REPLICAS
from compool.study.estimate import epoch_seconds
from compool.study.machine import free_memory, has_gpu_driver, num_cpus
from compool.study.metrics import loss_kind, metric_of
from compool.study.recipe import METHODS, REPLACEMENTS, Recipe
from compool.study.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Block:
    """Replicas of one method on one data set that are trained together."""

    recipe: Recipe
    seed: int
    replicas: tuple[int, ...]
    folder: Path | None = None
    """The folder of the data set; None: generated, cached, or downloaded."""
    device: str = "cpu"
    variants: tuple[Recipe, ...] = ()
    """The recipe of each replica, if they differ: only in settings that may differ within a training."""
    checkpoint_folder: Path | None = None
    """The folder of checkpoints; None: an interrupted block restarts."""
    epochs_done: int = field(default=0, compare=False)
    """The number of epochs in its checkpoint."""
    keep_weights: bool = True
    """Whether its runs hold the weights of their best epochs."""
    own_source: str = field(default="", compare=False)
    """The source code of a user-defined network."""
    note: str = field(default="", compare=False)
    """How replicas are trained, if not in the usual way."""
    metric: str = field(default="accuracy", compare=False)
    """The metric that picks the epoch, for showing progress."""
    epoch_seconds: float = field(default=0.0, compare=False)
    """A rough estimate; 0 if unknown, as for a user-defined network."""

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each replica."""
        return self.variants or (self.recipe,) * len(self.replicas)

    @property
    def name(self) -> str:
        """A title that says what is trained."""
        return block_title(self.recipe.dataset, self.recipe.method, [recipe.name for recipe in self.recipes])

    @property
    def members(self) -> checkpoint.Members:
        """The recipe's checksum and the replica of each run."""
        return tuple((recipe.checksum, replica) for recipe, replica in zip(self.recipes, self.replicas, strict=True))

    @property
    def checkpoint(self) -> Path | None:
        """The file of its checkpoint."""
        folder = self.checkpoint_folder
        return None if folder is None else checkpoint.file_of(folder, self.members, self.seed, self.device)

    @property
    def source(self) -> tuple[str, Path | None]:
        """The data set and its folder: equal for blocks that share a data set."""
        return self.recipe.files or self.recipe.dataset, self.folder

    def halves(self) -> tuple["Block", "Block"]:
        """Two blocks with half of the replicas each."""
        middle = len(self.replicas) // 2
        low, high = slice(middle), slice(middle, None)
        return tuple(  # type: ignore[return-value]
            replace(
                self,
                recipe=self.recipes[part][0],
                replicas=self.replicas[part],
                variants=self.variants[part],
                epochs_done=0,
            )
            for part in (low, high)
        )


def block_title(dataset: str, method: str, recipes: Sequence[str]) -> str:
    """A title that says what is trained; the recipe ``fast`` is not mentioned.

    Example:
        >>> block_title("NCI1", "gin", ["fast", "fast"]), block_title("NCI1", "gin", ["a", "b"])
        ('NCI1 gin', 'NCI1 gin, 2 recipes')
    """
    names = list(dict.fromkeys(recipes))
    title = f"{len(names)} recipes" if len(names) > 1 else names[0]
    return f"{dataset} {method}" + ("" if title == "fast" else f", {title}")


class Resources(NamedTuple):
    """The device, workers and memory for training blocks."""

    device: str
    """``"cpu"`` or ``"cuda"``."""
    workers: int
    """The number of blocks that are trained at the same time."""
    memory: int
    """Bytes per worker."""
    checkpoints: bool = True
    """Whether workers can write checkpoints beside the store: nodes of a cluster may not share a disk."""


def local_resources(device: str = "auto", workers: int | None = None) -> Resources:
    """The resources of this machine: one worker per core on the CPU, as a second thread gains little; one on a GPU."""
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device must be cpu, cuda or auto; got {device}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    if device != "cpu" and has_gpu_driver():
        import torch

        if torch.cuda.is_available():
            workers = workers or 1
            return Resources("cuda", workers, torch.cuda.mem_get_info()[0] // workers)
    if device == "cuda":
        raise ValueError("torch finds no CUDA device here; choose device cpu or auto")
    workers = workers or num_cpus()
    return Resources("cpu", workers, free_memory() // workers)


def load_data(recipe: Recipe, folder: Path | None) -> data.GraphSet:
    """The data set of a recipe."""
    name = recipe.files or recipe.dataset
    return data.generate(name) if data.is_generated(name) else data.load(name, folder, "tu")


def load_to_plan(recipe: Recipe, folder: Path | None) -> data.GraphSet:
    """The data set of a recipe. If its file has a matching checksum, single edges are not checked again."""
    name = recipe.files or recipe.dataset
    return data.generate(name) if data.is_generated(name) else data.load(name, folder, "tu", check_edges=False)


def describe_data(recipe: Recipe, graphs: data.GraphSet) -> str:
    """Describe in one line a data set and how a recipe uses it.

    Example:
        >>> from compool.study import recipe
        >>> describe_data(recipe("gin", "communities"), data.communities(9))
        'communities: 9 graphs, 3 classes; 4 node features from labels'
    """
    chosen, summary = data.features(graphs, recipe.features), graphs.summary
    name = recipe.dataset if graphs.name == recipe.dataset else f"{recipe.dataset} (the set {graphs.name})"
    auto = " (features=auto)" if recipe.features == "auto" else ""
    kinds = [("node_attributes", "attributes"), ("node_labels", "labels")]
    if recipe.method in (*METHODS, *REPLACEMENTS):
        kinds += [("edge_attributes", ""), ("edge_labels", "")]
    unused = [f"{summary[key]} {key.replace('_', ' ')}" for key, kind in kinds if summary[key] and kind != chosen.kind]
    sizes = counted(len(graphs), "graph"), counted(chosen.width, "node feature")
    return f"{name}: {sizes[0]}, {graphs.target_text}; {sizes[1]} from {chosen.kind}{auto}" + (
        f"; not used: {', '.join(unused)}" if unused else ""
    )


def splits(recipe: Recipe, graphs: data.GraphSet, seed: int, replicas: Sequence[int]) -> list[data.Split]:
    """The split of each replica: drawn, or from the recipe's file or folder, where replica 0 has the first."""
    if recipe.splits in data.SPLIT_KINDS:
        return [data.split(graphs, replica, seed, recipe.splits) for replica in replicas]
    path = Path(recipe.splits)
    if not path.exists():
        raise ValueError(
            f"splits must be {', '.join(data.SPLIT_KINDS)}, or a file or folder of splits; {path} does not exist"
        )
    available = data.read_splits(path, graphs, seed)
    if max(replicas) >= len(available):
        raise ValueError(
            f"{path} has {counted(len(available), 'split')}: --replicas must be at most {len(available)}; "
            f"got {max(replicas) + 1}"
        )
    return [available[replica] for replica in replicas]


def splits_checksum(recipe: Recipe) -> str:
    """Sixteen hexadecimal digits that change with the contents of the recipe's file or folder of splits; empty if
    splits are drawn.
    """
    if recipe.splits in data.SPLIT_KINDS:
        return ""
    path, digest = Path(recipe.splits), hashlib.sha256()
    for file in sorted(path.glob("*_idx-*.txt")) if path.is_dir() else [path]:
        content = file.read_bytes()
        digest.update(f"{file.name if path.is_dir() else ''} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


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
    splits_file = splits_checksum(recipes[0])
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
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")
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
        load = load_data if check_edges or group[0].own_network else load_to_plan
        graphs = load(group[0], folder)
        if on_data is not None and (text := describe_data(group[0], graphs)) not in described:
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
        splits(group[0], graphs, seed, range(num_replicas))
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
