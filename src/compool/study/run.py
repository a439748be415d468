"""From a list of what to train to runs in a store. One function trains a block of replicas, wherever it is called."""

import hashlib
import os
import platform
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import compool
from compool import data, replicas
from compool.replicas.trainer import Curves, Settings, train
from compool.study.recipe import Recipe
from compool.study.store import Run, Store

Report = Callable[["Block", int, Curves], None]


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

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """The recipe of each replica."""
        return self.variants or (self.recipe,) * len(self.replicas)

    @property
    def name(self) -> str:
        """What is trained, in words."""
        return f"{self.recipe.dataset} {self.recipe.method}"

    @property
    def source(self) -> tuple[str, Path | None]:
        """Which data set, and where: equal for blocks that share one."""
        return self.recipe.files or self.recipe.dataset, self.folder

    def halves(self) -> tuple["Block", "Block"]:
        """Two blocks of half the replicas."""
        middle = len(self.replicas) // 2
        low, high = slice(middle), slice(middle, None)
        return tuple(  # type: ignore[return-value]
            replace(self, recipe=self.recipes[part][0], replicas=self.replicas[part], variants=self.variants[part])
            for part in (low, high)
        )


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
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device must be cpu, cuda or auto, and there; got {device}")
    workers = workers or (len(os.sched_getaffinity(0)) if device == "cpu" else 1)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Place(device, workers, (torch.cuda.mem_get_info()[0] if device == "cuda" else free) // workers)


def load(recipe: Recipe, folder: Path | None) -> data.GraphSet:
    """The data set of a recipe."""
    return data.communities() if recipe.dataset == "communities" else data.load(recipe.files or recipe.dataset, folder)


def missing(
    store: Store | None,
    recipes: Sequence[Recipe],
    number: int,
    seed: int,
    size: int,
    folder: Path | None,
    device: str,
) -> list[Block]:
    """Blocks of at most `size` for those of replicas 0 to `number` − 1 of each recipe that the store has not.

    The recipes may only differ in what replicas of one training may differ in.
    """
    todo: list[tuple[Recipe, int]] = []
    for recipe in recipes:
        there = store.replicas(recipe.dataset, recipe.method, recipe.checksum, seed) if store else set()
        todo += [(recipe, replica) for replica in range(number) if replica not in there]
    blocks = []
    for at in range(0, len(todo), size):
        variants, parts = zip(*todo[at : at + size], strict=True)
        several = variants if len(set(variants)) > 1 else ()
        blocks.append(Block(variants[0], seed, parts, folder, device, several))
    return blocks


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
        size: replicas in a block; by default by free memory, and no more than keep all workers busy.
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
    blocks = []
    for alike in groups.values():
        graphs = load(alike[0], folder)
        width = data.features(graphs, alike[0].features).width
        for recipe in alike:
            recipe.network(width, graphs.num_classes)
        most = size or min(block_size(alike[0], graphs, found.memory), -(-number * len(alike) // share))
        blocks += missing(opened, alike, number, seed, most, folder, found.device)
    return blocks


def block_size(recipe: Recipe, graphs: data.GraphSet, free: int) -> int:
    """How many replicas fit in so many bytes: what a step keeps for the backward pass, by a rough count."""
    nodes, edges = (total / len(graphs) for total in (graphs.num_nodes, graphs.num_edges))
    width = recipe.hidden * (len(recipe.layers) + 2) * 4
    replica = recipe.batch * (nodes * width * 4 + edges * 64)
    return max(1, min(int(0.5 * free / replica), 100))


def train_block(
    block: Block,
    report: Report | None = None,
    graphs: data.GraphSet | None = None,
    keep: Callable[[replicas.Network | replicas.GIN], None] | None = None,
) -> list[Run]:
    """Train the replicas of a block; their runs. Without side effects: whoever calls this stores them.

    Args:
        block: what to train.
        report: called after each epoch with the block, the epoch and the curves so far.
        graphs: the block's data set, if it is at hand; by default it is loaded.
        keep: called with the networks as the last epoch left them.
    """
    recipe, start = block.recipe, time.perf_counter()
    graphs = load(recipe, block.folder) if graphs is None else graphs
    features = data.features(graphs, recipe.features)
    splits = [data.split(graphs, replica, block.seed) for replica in block.replicas]
    streams = [_stream(graphs.name, block.seed, replica) for replica in block.replicas]
    networks = [
        _network(one, features.width, graphs.num_classes, int(weights))
        for one, (weights, _) in zip(block.recipes, streams, strict=True)
    ]
    checksums = [_weights_checksum(network) for network in networks]
    stack = replicas.stack(networks).to(block.device)
    keys = torch.tensor([int(key) for _, key in streams], device=block.device)
    settings = Settings(
        recipe.epochs,
        recipe.batch,
        torch.tensor([one.lr for one in block.recipes]),
        recipe.halve,
        torch.tensor([one.weight_decay for one in block.recipes]),
        recipe.optimizer == "adamw",
    )
    told = None if report is None else lambda epoch, curves: report(block, epoch, curves)
    trained = train(stack, replicas.Graphs(graphs, features, block.device), splits, keys, settings, told)
    common = _about(block, networks[0], _device_name(block.device), (time.perf_counter() - start) / len(splits))
    if keep is not None:
        keep(stack)
    runs = []
    for at, (replica, split) in enumerate(zip(block.replicas, splits, strict=True)):
        curves = {
            name: [_plain(row[at]) for row in getattr(trained.curves, name)]
            for name in ("loss", "validation", "test", "kept")
        }
        epoch = int(trained.epoch[at])
        found = {
            "status": "failed" if trained.failed[at] else "done",
            "reason": "its loss or weights were no longer finite" if trained.failed[at] else "",
            "test": float(trained.test[at]) if epoch > 0 else None,
            "validation": float(trained.validation[at]) if epoch > 0 else None,
            "epoch": epoch if epoch > 0 else None,
            "kept": curves["kept"][epoch - 1] if epoch > 0 else [],
            "weights_checksum": checksums[at],
        }
        found |= _settings(block.recipes[at])
        runs.append(Run(replica=replica, split_checksum=split.checksum, curves=curves, **found, **common))
    return runs


def failed_block(block: Block, graphs: data.GraphSet, reason: str) -> list[Run]:
    """The runs of a block that could not be trained."""
    network = block.recipe.network(data.features(graphs, block.recipe.features).width, graphs.num_classes)
    common = _about(block, network, block.device, 0.0) | {"status": "failed", "reason": reason, "node": ""}
    nothing: dict[str, Any] = {"test": None, "validation": None, "epoch": None, "kept": [], "curves": {}}
    splits = [data.split(graphs, replica, block.seed) for replica in block.replicas]
    return [
        Run(replica=replica, split_checksum=split.checksum, **nothing, **_settings(recipe), **common)
        for recipe, replica, split in zip(block.recipes, block.replicas, splits, strict=True)
    ]


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a run says of its recipe."""
    return {"recipe": recipe.name, "recipe_checksum": recipe.checksum, "settings": asdict(recipe)}


def _about(block: Block, network: torch.nn.Module, device: str, seconds: float) -> dict[str, Any]:
    """What the runs of a block have in common."""
    recipe = block.recipe
    return {
        "dataset": recipe.dataset,
        "method": recipe.method,
        "seed": block.seed,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "seconds": seconds,
        "block": len(block.replicas),
        "device": device,
        "node": platform.node(),
        "versions": {"compool": compool.__version__, "torch": torch.__version__, "python": platform.python_version()},
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def run_here(blocks: Sequence[Block], store: Store, report: Report | None = None) -> Generator[list[Run], None, None]:
    """Train blocks one after another in this process, and store each when it is finished.

    A block that is too large for the memory of a GPU is halved.
    """
    todo = list(blocks)
    while todo:
        block = todo.pop(0)
        try:
            runs = train_block(block, report)
        except (MemoryError, torch.OutOfMemoryError):
            if len(block.replicas) == 1:
                raise
            todo[:0] = block.halves()
            continue
        store.add(runs)
        yield runs


def _stream(name: str, seed: int, replica: int) -> np.ndarray:
    """The seed of a replica's initial weights and its random key: by data set, study seed and replica alone."""
    digest = hashlib.sha256(f"{name}, training".encode()).digest()
    words = np.random.SeedSequence([int.from_bytes(digest[:8], "little"), seed, replica])
    return words.generate_state(2, np.uint64).astype(np.int64)


def _network(recipe: Recipe, width: int, classes: int, seed: int) -> torch.nn.Module:
    """The network with the initial weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return recipe.network(width, classes)


def _weights_checksum(network: torch.nn.Module) -> str:
    """Sixteen hexadecimal digits that change with any weight."""
    digest = hashlib.sha256()
    for parameter in network.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _device_name(device: str) -> str:
    return (
        torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or platform.machine()
    )


def _plain(value: torch.Tensor) -> Any:
    """Numbers for JSON: six digits, None where there is none."""
    if value.dim():
        return [_plain(one) for one in value]
    return round(float(value), 6) if value.isfinite() else None
