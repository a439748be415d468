"""Trained networks as files."""

import json
import math
import os
import typing
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from compool._tensors import read_tensors, write_tensors
from compool.nn.network import GIN, Network
from compool.nn.settings import GINSettings, NetworkSettings

_SETTINGS: dict[str, type[NetworkSettings | GINSettings]] = {"Network": NetworkSettings, "GIN": GINSettings}
_FLOATS = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}


def save_network(network: torch.nn.Module, path: str | os.PathLike[str], **about: str) -> None:
    """Write a :class:`Network` or :class:`GIN`, its settings and notes about it to a safetensors file.

    The file is written atomically and has a checksum, by which :func:`load_network` detects damage.

    Args:
        network: the network to save.
        path: the file to write.
        about: notes to store with the network, as text.

    Example:
        >>> network = Network("CPCL", in_channels=3, hidden=8, num_classes=2)
        >>> save_network(network, getfixture("tmp_path") / "network.safetensors", trained_on="NCI1")
    """
    kind = type(network).__name__
    if not isinstance(network, Network | GIN) or kind not in _SETTINGS:  # a subclass may have code of its own
        raise TypeError(f"network must be one of {', '.join(_SETTINGS)}; got {kind}")
    dtypes = {str(tensor.dtype) for tensor in network.state_dict().values() if tensor.is_floating_point()}
    if len(dtypes) > 1:
        raise ValueError(f"the network's weights must be of one dtype, got {', '.join(sorted(dtypes))}; convert them")
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    notes = {**about, "compool": kind, "settings": json.dumps(asdict(network.settings))}
    write_tensors(Path(path), tensors, notes)


def load_network(path: str | os.PathLike[str]) -> torch.nn.Module:
    """Read a network written by :func:`save_network`; it is in evaluation mode. Raises a ValueError for other files.

    Settings and shapes are compared before memory is allocated, so a small file cannot claim a lot of memory.

    Example:
        >>> path = getfixture("tmp_path") / "network.safetensors"
        >>> save_network(Network("CPCL", in_channels=3, hidden=8, num_classes=2), path)
        >>> load_network(path).settings.layers
        'CPCL'
    """
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder; give a file written by save_network")
    try:
        with safe_open(path, framework="pt") as file:
            kind, settings = _described(file.metadata() or {}, path)
            dtype = _require_fit(kind, settings, file)
            tensors = _read_tensors(file, path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged, or not a safetensors file ({error})") from None
    except _MisfitError as error:
        raise ValueError(f"{path} holds a network that cannot be loaded: {error}; save it again") from None
    network = kind(**settings).network().to(dtype)
    network.load_state_dict(tensors)
    return network.eval()


def _read_tensors(file: Any, path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    try:
        return read_tensors(file)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None


class _MisfitError(Exception):
    """The settings or tensors of a file do not fit a network."""


def _described(
    notes: dict[str, str], path: str | os.PathLike[str]
) -> tuple[type[NetworkSettings | GINSettings], dict[str, Any]]:
    """The settings class of a file's network and its settings, whose names and types are checked."""
    if notes.get("compool") not in _SETTINGS:
        raise ValueError(f"{path} does not contain a compool network")
    kind = _SETTINGS[notes["compool"]]
    try:
        settings = json.loads(notes.get("settings", ""))
    except (ValueError, RecursionError) as error:
        raise _MisfitError(f"its settings are not valid JSON ({error})") from None
    if not isinstance(settings, dict):
        raise _MisfitError(f"its settings must be a JSON object, got {str(settings)[:60]!r}")
    known = {field.name: field for field in fields(kind)}
    for name in settings.keys() - known.keys():
        raise _MisfitError(f"its settings have {name[:60]!r}, which {notes['compool']} does not have")
    for name, field in known.items():
        if name in settings:
            _require_type(name, settings[name], field.type)
        elif field.default is MISSING:
            raise _MisfitError(f"its settings lack {name!r}")
    return kind, settings


def _require_type(name: str, value: Any, expected: Any) -> None:
    """Require the declared type; floats must be finite and integers positive (`depth` may be 0)."""
    types = typing.get_args(expected) or (expected,)
    fits = type(value) in types or (float in types and type(value) is int) or (bool in types and value in (0, 1))
    if type(value) is int and int in types:
        fits = value >= (0 if name == "depth" else 1)
    if type(value) is float:
        fits = fits and math.isfinite(value)
    if not fits:
        expected = getattr(expected, "__name__", None) or str(expected)
        raise _MisfitError(f"its setting {name} must be {expected}, in range; got {str(value)[:60]!r}")


def _require_fit(kind: type[NetworkSettings | GINSettings], settings: dict[str, Any], file: Any) -> torch.dtype:
    """The dtype of the file's floats. Compares its tensors with the network's before memory is allocated for either."""
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    stored = {name: tuple(part.get_shape()) for name, part in slices.items()}
    layers = max(len(settings.get("layers", "")), settings.get("depth", 0))
    if layers > len(stored):  # each layer has at least one tensor
        raise _MisfitError(f"its settings say {layers} layers, but it has {len(stored)} tensors")
    try:
        with torch.device("meta"):
            expected = kind(**settings).network().state_dict()
    except (ValueError, TypeError, RuntimeError, OverflowError) as error:
        raise _MisfitError(str(error).splitlines()[0]) from None
    for name in sorted(expected.keys() ^ stored.keys()):
        raise _MisfitError(f"tensor {name[:60]!r} {'is missing' if name in expected else 'is not in this network'}")
    floats = {part.get_dtype() for name, part in slices.items() if expected[name].is_floating_point()}
    if len(floats) != 1 or not floats <= _FLOATS.keys():
        raise _MisfitError(f"its weights must be of one type of {', '.join(_FLOATS)}; got {', '.join(sorted(floats))}")
    for name, tensor in expected.items():
        if stored[name] != tuple(tensor.shape):
            raise _MisfitError(f"tensor {name!r} must have the shape {list(tensor.shape)}, got {list(stored[name])}")
        if not tensor.is_floating_point() and slices[name].get_dtype() != "I64":
            raise _MisfitError(f"tensor {name!r} must hold I64, got {slices[name].get_dtype()}")
    return _FLOATS[floats.pop()]
