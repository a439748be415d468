"""What is to be trained: blocks of replicas, and where there is room for them."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import torch

from compool import data
from compool.study import checkpoint
from compool.study.machine import free_memory, num_cpus
from compool.study.recipe import Recipe
from compool.study.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Block:
    """Replicas of one method on one data set that are trained together."""

    recipe: Recipe
    seed: int
    replicas: tuple[int, ...]
    folder: Path | None = None
    """Where the data set is; None: generated, cached, or downloaded."""
    device: str = "cpu"
    variants: tuple[Recipe, ...] = ()
    """The recipe of each replica, where they differ: in settings that replicas of one training may differ in."""
    checkpoint_folder: Path | None = None
    """Where to note how far it is; None: if it is interrupted, it begins anew."""
    epochs_done: int = field(default=0, compare=False)
    """How far it is, if it was interrupted."""

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each replica."""
        return self.variants or (self.recipe,) * len(self.replicas)

    @property
    def name(self) -> str:
        """What is trained, in words."""
        return titled(self.recipe.dataset, self.recipe.method, [one.name for one in self.recipes])

    @property
    def members(self) -> checkpoint.Members:
        """The recipe's checksum and the replica of each."""
        return tuple((one.checksum, replica) for one, replica in zip(self.recipes, self.replicas, strict=True))

    @property
    def checkpoint(self) -> Path | None:
        """The file in which to note how far it is."""
        folder = self.checkpoint_folder
        return None if folder is None else checkpoint.file(folder, self.members, self.seed, self.device)

    @property
    def source(self) -> tuple[str, Path | None]:
        """Which data set, and where: equal for blocks that share one."""
        return self.recipe.files or self.recipe.dataset, self.folder

    def halves(self) -> tuple["Block", "Block"]:
        """Two blocks of half the replicas."""
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


def titled(dataset: str, method: str, recipes: Sequence[str]) -> str:
    """What is trained, in words; that the recipe is ``fast`` goes without saying.

    Example:
        >>> titled("NCI1", "gin", ["fast", "fast"]), titled("NCI1", "gin", ["paper"]), titled("NCI1", "gin", ["a", "b"])
        ('NCI1 gin', 'NCI1 gin, paper', 'NCI1 gin, 2 recipes')
    """
    names = list(dict.fromkeys(recipes))
    which = f"{len(names)} recipes" if len(names) > 1 else names[0]
    return f"{dataset} {method}" + ("" if which == "fast" else f", {which}")


class Place(NamedTuple):
    """Where blocks are trained."""

    device: str
    """``"cpu"`` or ``"cuda"``."""
    workers: int
    """How many blocks at the same time."""
    memory: int
    """Bytes for each of them."""


def here(device: str = "auto", workers: int | None = None) -> Place:
    """What this machine has room for: on the CPU a process a core, as a second thread gains little; one on a GPU."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device must be cpu, cuda or auto; got {device}")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no CUDA device that this torch can use; device cpu or auto goes without")
    workers = workers or (num_cpus() if device == "cpu" else 1)
    return Place(device, workers, (torch.cuda.mem_get_info()[0] if device == "cuda" else free_memory()) // workers)


def load(recipe: Recipe, folder: Path | None) -> data.GraphSet:
    """The data set of a recipe."""
    return data.communities() if recipe.dataset == "communities" else data.load(recipe.files or recipe.dataset, folder)


def splits(recipe: Recipe, graphs: data.GraphSet, seed: int, replicas: Sequence[int]) -> list[data.Split]:
    """The split of each replica: drawn, or from the recipe's file or folder, where replica 0 has the first."""
    if recipe.splits in data.KINDS:
        return [data.split(graphs, replica, seed, recipe.splits) for replica in replicas]
    path = Path(recipe.splits)
    if not path.exists():
        raise ValueError(f"splits must be {', '.join(data.KINDS)}, or a file or folder of splits; {path} is not there")
    there = data.read_splits(path, graphs, seed)
    if max(replicas) >= len(there):
        raise ValueError(f"{path} has {len(there)} splits, enough for --replicas {len(there)}; got {max(replicas) + 1}")
    return [there[replica] for replica in replicas]


def splits_checksum(recipe: Recipe) -> str:
    """Sixteen hexadecimal digits that change with the contents of the recipe's file or folder of splits; empty if
    splits are drawn.
    """
    if recipe.splits in data.KINDS:
        return ""
    path, digest = Path(recipe.splits), hashlib.sha256()
    for file in sorted(path.glob("*_idx-*.txt")) if path.is_dir() else [path]:
        content = file.read_bytes()
        digest.update(f"{file.name if path.is_dir() else ''} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def missing(
    store: Store | None,
    recipes: Sequence[Recipe],
    number: int,
    seed: int,
    size: int,
    folder: Path | None,
    device: str,
    checkpoint_folder: Path | None = None,
    interrupted: Sequence[checkpoint.Interrupted] = (),
    data_checksum: str = "",
) -> list[Block]:
    """Blocks of at most `size` for those of replicas 0 to `number` − 1 of each recipe that the store has not.

    First come those that were interrupted, as they were. The recipes may only differ in what replicas of one training
    may differ in. Runs of data with another checksum do not count.
    """
    files = splits_checksum(recipes[0])
    todo: dict[tuple[str, int], Recipe] = {}
    for recipe in recipes:
        name = recipe.checksum
        there = store.replicas(recipe.dataset, recipe.method, name, seed, data_checksum, files) if store else set()
        todo |= {(name, replica): recipe for replica in range(number) if replica not in there}

    def block(members: Sequence[tuple[str, int]], epochs_done: int = 0) -> Block:
        variants = tuple(todo.pop(member) for member in members)
        several = variants if len(set(variants)) > 1 else ()
        replicas = tuple(replica for _, replica in members)
        return Block(variants[0], seed, replicas, folder, device, several, checkpoint_folder, epochs_done)

    blocks = [block(one.members, one.epochs) for one in interrupted if todo.keys() >= {*one.members}]
    left = list(todo)
    return blocks + [block(left[at : at + size]) for at in range(0, len(left), size)]


def plan(
    recipes: Sequence[Recipe],
    number: int,
    seed: int,
    store: Path,
    folder: Path | None = None,
    device: str = "auto",
    size: int | None = None,
    workers: int | None = None,
    place: Callable[[str, int | None], Place] = here,
) -> list[Block]:
    """The blocks that `number` replicas of each recipe lack in a store; reads the data sets, so that errors come first.

    Recipes that only differ in what replicas may, such as the learning rate, share blocks: a sweep is one training.

    Args:
        recipes: what to train.
        number: replicas 0 to `number` − 1 of each.
        seed: the study's seed.
        store: the study's file; need not exist.
        folder: where the data sets are.
        device: ``"cpu"``, ``"cuda"``, or ``"auto"``: a GPU if there is one.
        size: replicas in a block, at most; by default by free memory, and no more than keep all workers busy.
        workers: blocks that train at the same time; by default, as many as `place` has room for.
        place: makes a :class:`Place` of device and workers: :func:`here`, or a cluster's.
    """
    for name, value in (("replicas", number), ("block", size), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2⁶³ − 1, got {seed}")
    found = place(device, workers)
    # Half the replicas take half the time on a CPU, but nearly all of it on a GPU: only idle ones are worth a cut
    groups: dict[Recipe, list[Recipe]] = {}
    for recipe in recipes:
        groups.setdefault(recipe.common, []).append(recipe)
    share = -(-found.workers // len(groups)) if found.device == "cuda" else found.workers
    opened = Store(store) if store.exists() else None
    noted = checkpoint.folder(store) if place is here else None  # nodes of a cluster need not share a disk
    interrupted = checkpoint.interrupted(noted, seed, found.device) if noted else []
    if size is not None:  # that of before may have been too large
        interrupted = [one for one in interrupted if len(one.members) <= size]
    blocks, checksums = list[Block](), dict[str, str]()
    for alike in groups.values():
        graphs = load(alike[0], folder)
        width = data.features(graphs, alike[0].features).width
        for recipe in alike:
            recipe.network(width, graphs.num_classes)
        splits(alike[0], graphs, seed, range(number))
        most = size or min(block_size(alike[0], graphs, found.memory), -(-number * len(alike) // share))
        where = folder, found.device, noted, interrupted
        blocks += missing(opened, alike, number, seed, most, *where, graphs.checksum)
        checksums[alike[0].dataset] = graphs.checksum
    for dataset, checksum in checksums.items():
        if opened and (others := opened.of_other_data(dataset, checksum)):
            _log.warning(
                "%s has %d runs of other data of the name %s: they do not count, and reports show them apart",
                store,
                others,
                dataset,
            )
    return blocks


def block_size(recipe: Recipe, graphs: data.GraphSet, free: int) -> int:
    """How many replicas fit in so many bytes: what a step keeps for the backward pass, by a rough count."""
    nodes, edges = (total / len(graphs) for total in (graphs.num_nodes, graphs.num_edges))
    width = recipe.hidden * (len(recipe.layers) + 2) * 4
    replica = recipe.batch * (nodes * width * 4 + edges * 64)
    return max(1, min(int(0.5 * free / replica), 100))
