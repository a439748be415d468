"""Trained networks as files."""

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from compool._files import whole
from compool.nn.network import GIN, Network

_KINDS: dict[str, type[torch.nn.Module]] = {"Network": Network, "GIN": GIN}


def save_network(network: torch.nn.Module, path: str | os.PathLike[str], **about: str) -> None:
    """Write a :class:`Network` or :class:`GIN`, its settings and notes on it to a safetensors file.

    There is no half-written file at any time.

    Example:
        >>> network = Network("CPCL", in_channels=3, hidden=8, num_classes=2)
        >>> save_network(network, getfixture("tmp_path") / "network.safetensors", trained_on="NCI1")
    """
    kind = type(network).__name__
    if kind not in _KINDS:
        raise TypeError(f"network must be one of {', '.join(_KINDS)}; got {kind}")
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    notes = {**about, "compool": kind, "settings": json.dumps(network.settings)}
    with whole(Path(path)) as partial:
        partial.write_bytes(save(tensors, notes))  # save_file makes files that only their owner may read


def load_network(path: str | os.PathLike[str]) -> torch.nn.Module:
    """Read a network that :func:`save_network` wrote, in evaluation mode; a ValueError if the file is no such thing.

    Example:
        >>> path = getfixture("tmp_path") / "network.safetensors"
        >>> save_network(Network("CPCL", in_channels=3, hidden=8, num_classes=2), path)
        >>> load_network(path).settings["layers"]
        'CPCL'
    """
    try:
        with safe_open(path, framework="pt") as file:
            notes = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file ({error})") from None
    if notes.get("compool") not in _KINDS:
        raise ValueError(f"{path} holds no network of compool")
    dtype = next(tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
    network: torch.nn.Module = _KINDS[notes["compool"]](**json.loads(notes["settings"])).to(dtype)
    network.load_state_dict(tensors)
    return network.eval()
