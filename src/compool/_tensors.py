"""Tensors in safetensors files, with a checksum over the whole content."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from compool._files import atomic_write

CHECKSUM = "checksum"  # name of the note that holds the checksum


def checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    """SHA-256 over the names, dtypes, shapes and bytes of tensors, and over their notes; the order does not matter.

    Example:
        >>> checksum({"x": torch.zeros(2)}, {})[:8], checksum({"x": torch.zeros(1, 2)}, {})[:8]
        ('8ffc6edf', 'a6da9277')
    """
    digest = hashlib.sha256()
    for name in sorted(notes.keys() - {CHECKSUM}):
        digest.update(repr((name, notes[name])).encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def encode_tensors(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
    """The content of a safetensors file that holds tensors, notes about them and a checksum of both."""
    return save(dict(tensors), {**notes, CHECKSUM: checksum(tensors, notes)})


def decode_tensors(content: bytes) -> dict[str, Tensor]:
    """Decode what :func:`encode_tensors` encoded; raises a ValueError if the content is damaged.

    Example:
        >>> decode_tensors(encode_tensors({"x": torch.arange(3)}, {}))
        {'x': tensor([0, 1, 2])}
    """
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    except SafetensorError as error:
        raise ValueError(f"it is not in the safetensors format ({error})") from None
    _require_checksum(tensors, header.get("__metadata__", {}))
    return tensors


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    """Write tensors, notes about them and a checksum of both to a file, atomically."""
    with atomic_write(path) as partial:
        partial.write_bytes(encode_tensors(tensors, notes))  # save_file's files are readable by their owner only


def read_tensors(opened: Any) -> dict[str, Tensor]:
    """The tensors of a file opened by ``safe_open``; raises a ValueError if they do not match its checksum.

    Files written by older versions have no checksum and are read without this check.
    """
    tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    _require_checksum(tensors, opened.metadata() or {})
    return tensors


def _require_checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> None:
    if CHECKSUM in notes and notes[CHECKSUM] != checksum(tensors, notes):
        raise ValueError("its contents do not match its checksum")
