"""Read exported networks: folders that ``compool export`` wrote."""

import json
import os
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch.nn import Module

from compool import nn
from compool._tensors import CHECKSUM, read_tensors
from compool.data.encoding import Encoding, encoding_from_dict
from compool.study.own_network import build, source_checksum
from compool.study.prediction import Model

FORMAT = 1
DESCRIPTION, WEIGHTS, SOURCE = "model.json", "network.safetensors", "network.py"  # the files of a folder
TASKS = ("classification", "regression", "multilabel")


def load_model(folder: str | os.PathLike[str], trust: bool = False, device: str = "cpu") -> Model:
    """Read a network that ``compool export`` or :func:`compool.study.export_run` wrote.

    Args:
        folder: the folder.
        trust: run the Python code of a user-defined network. compool's own networks come without code.
        device: where to predict: ``"cpu"`` or ``"cuda"``.

    Raises:
        ValueError: if the folder holds no exported network, a damaged one, or code that is not trusted.

    Example:
        >>> from compool import study
        >>> from compool.data import communities
        >>> folder = getfixture("tmp_path")
        >>> block = study.Block(study.recipe("component", "communities", epochs=1), 0, (0,))
        >>> graphs = communities(90)
        >>> (run,) = study.train_block(block, graphs=graphs)
        >>> _ = study.export_run(run, run.weights, graphs, folder / "model")
        >>> model = load_model(folder / "model")
        >>> model
        Model(component on communities, replica 0, 3 outputs)
        >>> model.predict(graphs[:2]).probabilities.shape
        torch.Size([2, 3])
    """
    folder = Path(folder)
    about = _read_description(folder / DESCRIPTION)
    try:
        encoding, names, task = _parse_description(about)
        _require_weights(folder / WEIGHTS, about)
        network = _own_network(folder, about, encoding, trust) if "own" in about else nn.load_network(folder / WEIGHTS)
        _require_fit(network, encoding, names, task)
    except _DescriptionError as error:
        raise ValueError(f"{folder / DESCRIPTION} is damaged: {error}; export the network again") from None
    return Model(network.to(device).eval(), encoding, names, task, about)


class _DescriptionError(Exception):
    """An invalid description."""


def _read_description(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} holds no exported network: {path.name} is missing") from None
    except NotADirectoryError:
        raise ValueError(f"{path.parent} is a file; give the folder of an exported network") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: it is not valid JSON ({error}); export the network again") from None
    if not isinstance(about, dict) or type(about.get("format")) is not int:
        raise ValueError(f"{path} does not describe an exported network")
    if about["format"] > FORMAT:
        raise ValueError(f"{path} was written by a newer version of compool (format {about['format']})")
    return about


def _parse_description(about: dict[str, Any]) -> tuple[Encoding, tuple[str, ...], str]:
    """The encoding, the names of classes or targets, and the task."""
    try:
        encoding = encoding_from_dict(about.get("features"))
    except ValueError as error:
        raise _DescriptionError(str(error)) from None
    names, task, run = about.get("classes"), about.get("task"), about.get("run")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _DescriptionError("classes must be a list of text")
    if task not in TASKS:
        raise _DescriptionError(f"task must be one of {', '.join(TASKS)}")
    if not isinstance(run, dict) or not {"dataset", "method", "replica"} <= run.keys():
        raise _DescriptionError("run must have a data set, method and replica")
    return encoding, tuple(names), task


def _require_weights(path: Path, about: dict[str, Any]) -> None:
    """Raise a ValueError if the weights are not those of the description."""
    try:
        with safe_open(path, framework="pt") as file:
            checksum = (file.metadata() or {}).get(CHECKSUM)
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; export the network again") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged, or not a safetensors file ({error})") from None
    if checksum != about.get("weights_checksum"):
        raise ValueError(f"{path} and {DESCRIPTION} come from different exports; export the network again")


def _require_fit(network: Module, encoding: Encoding, names: tuple[str, ...], task: str) -> None:
    settings = getattr(network, "settings", None)
    if isinstance(network, nn.Network | nn.GIN) and settings is not None:
        if settings.in_channels != encoding.width:
            raise _DescriptionError(f"width is {encoding.width}, but the network takes {settings.in_channels} features")
        if settings.num_classes != len(names) and task == "classification":
            raise _DescriptionError(f"there are {len(names)} classes, but the network has {settings.num_classes}")


def _own_network(folder: Path, about: dict[str, Any], encoding: Encoding, trust: bool) -> Module:
    """The user-defined network whose code is in the folder."""
    path, own = folder / SOURCE, about["own"]
    if not isinstance(own, dict) or not isinstance(own.get("class"), str) or not isinstance(own.get("arguments"), dict):
        raise _DescriptionError("own must have a class and its arguments")
    module = own.get("module", "")
    if not isinstance(module, str):
        raise _DescriptionError("the module of own must be text")
    if not trust:
        raise ValueError(
            f"{folder} holds Python code; read {path}, and if you trust it, allow it with --trust (trust=True)"
        )
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if source_checksum(source) != own.get("checksum"):
        raise ValueError(f"{path} was changed after the export; export the network again")
    sizes, arguments = (encoding.width, len(about["classes"])), json.dumps(own["arguments"])
    network = build(f"{module or path}:{own['class']}", source, *sizes, arguments, edge_dim=encoding.edge_width or None)
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        tensors = read_tensors(file)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{folder / WEIGHTS} does not fit the class {own['class']} ({error})".split("\n")[0]) from None
    return network
