"""Train blocks of replicas and store their runs."""

import hashlib
import platform
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import torch

import compool
from compool import data, replicas
from compool.replicas import initial
from compool.replicas.trainer import Curves, Trained, TrainingSettings, num_epochs, train, train_learner
from compool.study import checkpoint, recipe_data
from compool.study.block import Block
from compool.study.evaluation import details, metric_value, metric_values
from compool.study.metrics import METRICS, loss_kind, metric_of
from compool.study.own_training import initial_network, own_learner, stackable_settings
from compool.study.recipe_settings import Recipe
from compool.study.runs import encode_weights
from compool.study.store import Run, Store

OnEpoch = Callable[[Block, int, Curves], None]
"""Called after each epoch with the block, the epoch and the curves so far."""


def train_block(
    block: Block,
    on_epoch: OnEpoch | None = None,
    graphs: data.GraphSet | None = None,
    keep: Callable[[Any], None] | None = None,
) -> list[Run]:
    """Train the replicas of a block and return their runs. The caller stores them, with :func:`finish`.

    If the block has a checkpoint, training resumes from it. Checkpoints are written from time to time.

    Args:
        block: what to train.
        on_epoch: called after each epoch.
        graphs: the block's data set; by default it is loaded.
        keep: called with the networks after the last epoch: their stack, or the single network if it cannot be stacked.
    """
    recipe, began = block.recipe, time.perf_counter()
    graphs = recipe_data.load_data(recipe, block.folder) if graphs is None else graphs
    features = data.features(graphs, recipe.features)
    splits = recipe_data.splits(block.recipe, graphs, block.seed, block.replicas)
    streams = [_stream(graphs.name, block.seed, replica) for replica in block.replicas]
    on_device = replicas.Graphs(graphs, features, block.device)
    networks = [
        _network(variant, block.own_source, graphs, on_device, int(weights))
        for variant, (weights, _) in zip(block.recipes, streams, strict=True)
    ]
    checksums = [_weights_checksum(network) for network in networks]
    keys = torch.tensor([int(key) for _, key in streams], device=block.device)
    settings = _training_settings(block, graphs)
    on_block_epoch = None if on_epoch is None else lambda epoch, curves: on_epoch(block, epoch, curves)
    device = _device_name(block.device)
    saved = None
    if block.checkpoint is not None:
        origin = checkpoint.origin(
            graphs.checksum, [split.checksum for split in splits], checksums, device, _versions()
        )
        saved = checkpoint.Checkpoint(block.checkpoint, block.members, block.seed, origin)
    start, save = (saved.read(), saved.write) if saved else (None, None)
    if recipe.own_network and stackable_settings(networks[0]) is None:
        learner = own_learner(networks[0], recipe, graphs, on_device, splits, keys, settings)
        model: Any = learner.network
        with torch.random.fork_rng(devices=[]):
            trained = train_learner(learner, splits, settings, on_block_epoch, start, save)
    else:
        model = replicas.stack(networks).to(block.device)
        trained = train(model, on_device, splits, keys, settings, on_block_epoch, start, save)
    seconds = time.perf_counter() - began + (saved.earlier_seconds if saved else 0.0)
    if keep is not None:
        keep(model)
    trained.weights = {name: tensor.cpu() for name, tensor in trained.weights.items()}
    common = _common_columns(block, graphs, device, seconds / len(splits))
    return [
        _run_of(block, index, split, graphs, trained, common | {"weights_checksum": checksum})
        for index, (split, checksum) in enumerate(zip(splits, checksums, strict=True))
    ]


def _training_settings(block: Block, graphs: data.GraphSet) -> TrainingSettings:
    """How the replicas of a block are trained."""
    recipe = block.recipe
    metric = metric_of(recipe.metric, graphs.task, graphs.name)
    is_accuracy = metric == "accuracy" and graphs.task == "classification"
    return TrainingSettings(
        epochs=recipe.epochs,
        batch=recipe.batch,
        lr=torch.tensor([variant.lr for variant in block.recipes]),
        halve=recipe.halve,
        weight_decay=torch.tensor([variant.weight_decay for variant in block.recipes]),
        optimizer=recipe.optimizer,
        shuffle=recipe.shuffle,
        loss=loss_kind(recipe.loss, graphs.task, graphs.name),
        balanced=recipe.class_weights == "balanced",
        score=None if is_accuracy else partial(metric_value, metric, graphs.task),
        higher=METRICS[metric].higher,
        schedule=recipe.schedule,
        momentum=recipe.momentum,
        clip=recipe.clip,
        patience=recipe.patience,
    )


def _run_of(
    block: Block, index: int, split: data.Split, graphs: data.GraphSet, trained: Trained, common: dict[str, Any]
) -> Run:
    """The run of a replica, by its index in the block; `common` are columns that do not depend on its training."""
    recipe, epoch = block.recipes[index], int(trained.epoch[index])
    metric = metric_of(recipe.metric, graphs.task, graphs.name)
    length = num_epochs(trained, index, recipe.patience)
    curves = {
        field.name: [_json_numbers(row[index]) for row in getattr(trained.curves, field.name)[:length]]
        for field in fields(Curves)
    }
    reason = "its loss, logits or weights were NaN or infinite" if trained.failed[index] else ""
    if not reason and epoch < 1:
        reason = f"its metric, {metric}, is not defined on its validation graphs"
    best: dict[str, Any] = {"test": None, "validation": None, "epoch": None, "kept": []}
    best["metrics"] = {"task": graphs.task, "chosen": metric}
    if epoch > 0:
        best = {
            "metrics": _metrics(trained, index, split, graphs, metric),
            "test": _number(trained.test[index]),
            "validation": float(trained.validation[index]),
            "epoch": epoch,
            "kept": curves["kept"][epoch - 1],
        }
        if block.keep_weights:
            best["weights"] = encode_weights({name: tensor[index] for name, tensor in trained.weights.items()})
    columns = best | common | _recipe_columns(recipe) | _split_columns(split)
    status = "failed" if reason else "done"
    return Run(replica=block.replicas[index], status=status, reason=reason, curves=curves, **columns)


def _metrics(trained: Trained, index: int, split: data.Split, graphs: data.GraphSet, metric: str) -> dict[str, Any]:
    """The metrics of a replica at its best epoch, on the validation and test graphs, and details of the latter."""
    measured: dict[str, Any] = {"task": graphs.task, "chosen": metric}
    for part in ("validation", "test"):
        ids = getattr(split, part)
        logits, y = trained.logits[part][index, : len(ids)].float().cpu(), torch.from_numpy(graphs.y[ids])
        measured[part] = metric_values(graphs.task, logits, y)
    return measured | {"details": details(graphs.task, logits, y)}


def failed_block(block: Block, graphs: data.GraphSet, reason: str) -> list[Run]:
    """The runs of a block that could not be trained."""
    common = _common_columns(block, graphs, block.device, 0.0) | {"status": "failed", "reason": reason, "node": ""}
    no_result: dict[str, Any] = {"test": None, "validation": None, "epoch": None, "kept": [], "curves": {}}
    splits = recipe_data.splits(block.recipe, graphs, block.seed, block.replicas)
    return [
        Run(replica=replica, **no_result, **_recipe_columns(recipe), **_split_columns(split), **common)
        for recipe, replica, split in zip(block.recipes, block.replicas, splits, strict=True)
    ]


def _recipe_columns(recipe: Recipe) -> dict[str, Any]:
    """The columns of a run about its recipe."""
    return {"recipe": recipe.name, "recipe_checksum": recipe.checksum, "settings": asdict(recipe)}


def _split_columns(split: data.Split) -> dict[str, Any]:
    """The columns of a run about its split."""
    return {
        "split_checksum": split.checksum,
        "train_graphs": len(split.train),
        "test_graphs": len(split.test),
    }


def _common_columns(block: Block, graphs: data.GraphSet, device: str, seconds: float) -> dict[str, Any]:
    """The columns that the runs of a block have in common."""
    recipe = block.recipe
    return {
        "dataset": recipe.dataset,
        "data_checksum": graphs.checksum,
        "splits_checksum": recipe_data.splits_checksum(recipe),
        "method": recipe.method,
        "own_source": block.own_source,
        "seed": block.seed,
        "parameters": _num_parameters(block, graphs),
        "seconds": seconds,
        "block": len(block.replicas),
        "device": device,
        "node": platform.node(),
        "versions": _versions(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _num_parameters(block: Block, graphs: data.GraphSet) -> int:
    """The number of parameters of the network of a block."""
    recipe, features = block.recipe, data.features(graphs, block.recipe.features)
    if not recipe.own_network:
        return recipe.network_settings(features.width, graphs.num_classes, graphs.task).num_parameters
    network = initial_network(recipe, block.own_source, graphs, replicas.Graphs(graphs, features), block.seed)
    return sum(parameter.numel() for parameter in network.parameters())


def _versions() -> dict[str, str]:
    return {"compool": compool.__version__, "torch": torch.__version__, "python": platform.python_version()}


def finish(block: Block, runs: list[Run], store: Store) -> None:
    """Store the runs of a block, and remove its checkpoints."""
    store.add(runs)
    checkpoint.remove(checkpoint.folder_of(store.path), block.members, block.seed)


def train_here(
    blocks: Sequence[Block], store: Store, on_epoch: OnEpoch | None = None
) -> Generator[list[Run], None, None]:
    """Train blocks one after another in this process, and store each when it is finished.

    A block that is too large for the memory of a GPU is halved.
    """
    todo, source, graphs = list(blocks), None, None
    while todo:
        block = todo.pop(0)
        if block.source != source:
            source, graphs = block.source, recipe_data.load_data(block.recipe, block.folder)
        try:
            runs = train_block(block, on_epoch, graphs)
        except (MemoryError, torch.OutOfMemoryError):
            if len(block.replicas) == 1:
                raise
            todo[:0] = block.halves()
            continue
        finish(block, runs, store)
        yield runs


def _stream(name: str, seed: int, replica: int) -> np.ndarray:
    """The seed of a replica's initial weights and its random key, from data set, study seed and replica only."""
    digest = hashlib.sha256(f"{name}, training".encode()).digest()
    words = np.random.SeedSequence([int.from_bytes(digest[:8], "little"), seed, replica])
    return words.generate_state(2, np.uint64).astype(np.int64)


def _network(
    recipe: Recipe, source: str, graphs: data.GraphSet, on_device: replicas.Graphs, seed: int
) -> torch.nn.Module:
    """The network with the initial weights of a seed."""
    if recipe.own_network:
        return initial_network(recipe, source, graphs, on_device, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return initial.draw_parameters(recipe.network_settings(on_device.width, graphs.num_classes, graphs.task))


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


def _number(value: torch.Tensor) -> float | None:
    return float(value) if value.isfinite() else None


def _json_numbers(value: torch.Tensor) -> Any:
    """Numbers for JSON: six digits, None if they are not finite."""
    if value.dim():
        return [_json_numbers(element) for element in value]
    return round(float(value), 6) if value.isfinite() else None
