"""Export a run of a study to a folder: weights, settings, features and class names."""

import json
from pathlib import Path
from typing import Any

import torch

import compool
from compool import nn
from compool._files import atomic_write
from compool._tensors import CHECKSUM, checksum, write_tensors
from compool.data import GraphSet, features
from compool.data.encoding import encoding_of
from compool.data.names import Names
from compool.study import recipe_data
from compool.study.evaluation import metric_value
from compool.study.kept import kept_network, other_data_error, recipe_of
from compool.study.metrics import chosen_metric
from compool.study.model import DESCRIPTION, FORMAT, SOURCE, WEIGHTS
from compool.study.own_network import module_name
from compool.study.prediction import Model
from compool.study.runs import Run, decode_weights, describe_run

ABOUT_RUN = (
    *(
        "dataset",
        "method",
        "recipe",
        "recipe_checksum",
        "seed",
        "replica",
        "epoch",
        "validation",
        "test",
        "metrics",
        "kept",
    ),
    *("parameters", "data_checksum", "split_checksum", "device", "versions", "finished"),
)


def export_run(run: Run, weights: bytes, graphs: GraphSet, folder: Path, names: Names | None = None) -> Path:
    """Write the network of a run to a folder: ``network.safetensors``, ``model.json``, and ``network.py`` for a
    user-defined network. The folder is created if needed; :func:`compool.load_model` reads it.

    Args:
        run: the run.
        weights: what :meth:`~compool.study.Store.weights` returns for it.
        graphs: its data set.
        folder: where to write.
        names: the names of the set's classes and labels; by default, those that the set has from its files.

    Raises:
        ValueError: if there are no weights, or the graphs are not those of the run.
    """
    recipe = recipe_of(run)
    named = f"{run.method} on {run.dataset}, recipe {run.recipe}, replica {run.replica}"
    if not weights:
        raise ValueError(
            f"the weights of {named} were not stored (older version, or --no-weights); train it again in another store"
        )
    if run.data_checksum not in ("", graphs.checksum):
        raise other_data_error(run, graphs.checksum)
    names = _fitting_names(graphs.names if names is None else names, graphs)
    about: dict[str, Any] = {
        "format": FORMAT,
        "compool": compool.__version__,
        "run": describe_run(run, ABOUT_RUN),
        "settings": run.settings,
        "task": graphs.task,
        "classes": list(names.classes or map(str, range(graphs.num_classes))),
        "features": encoding_of(graphs, recipe.features, names).as_dict(),
    }
    notes = {"dataset": run.dataset, "method": run.method, "recipe": run.recipe, "replica": str(run.replica)}
    if recipe.own_network:
        about["own"] = {
            "class": run.method,
            "arguments": json.loads(recipe.arguments or "{}"),
            "checksum": recipe.own_checksum,
        }
        if module := module_name(recipe.own_network):
            about["own"]["module"] = module  # its relative imports need the package
        tensors = decode_weights(weights)
        about["weights_checksum"] = checksum(tensors, notes)
        write_tensors(folder / WEIGHTS, tensors, notes)
        _write_text(folder / SOURCE, run.own_source)
    else:
        network = kept_network(run, weights, features(graphs, recipe.features).width, graphs.num_classes)
        nn.save_network(network, folder / WEIGHTS, **notes)
        (folder / SOURCE).unlink(missing_ok=True)  # from an earlier export
        about["weights_checksum"] = _checksum_of(folder / WEIGHTS)
    _write_text(folder / DESCRIPTION, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return folder


def _fitting_names(names: Names, graphs: GraphSet) -> Names:
    """The names of a set, without lists whose length is not the number of classes or labels."""
    known = graphs.vocabulary
    sizes = (known.num_classes, known.num_labels, known.num_edge_labels)
    return Names(*(listed if len(listed) == size else () for listed, size in zip(names, sizes, strict=True)))


def measured_score(model: Model, run: Run, graphs: GraphSet) -> float:
    """The metric of a run on its test graphs, as its exported network predicts them.

    Example:
        >>> from compool import study
        >>> from compool.data import communities
        >>> graphs, folder = communities(90), getfixture("tmp_path") / "model"
        >>> block = study.Block(study.recipe("component", "communities", epochs=1), 0, (0,))
        >>> (run,) = study.train_block(block, graphs=graphs)
        >>> model = compool.load_model(export_run(run, run.weights, graphs, folder))
        >>> round(measured_score(model, run, graphs), 6) == round(run.test, 6)
        True
    """
    (split,) = recipe_data.splits(recipe_of(run), graphs, run.seed, [run.replica])
    logits = model.predict(graphs[split.test]).logits
    return metric_value(chosen_metric(run.metrics), model.task, logits, torch.from_numpy(graphs.y[split.test]))


def _checksum_of(path: Path) -> str:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return str((file.metadata() or {})[CHECKSUM])


def _write_text(path: Path, text: str) -> None:
    with atomic_write(path) as partial:
        partial.write_text(text, encoding="utf-8")
