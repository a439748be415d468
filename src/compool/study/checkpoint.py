"""Trainings that are under way, on disk: one that is interrupted goes on from there.

A block has a file of its own in a folder beside the store, which is written anew from time to time, always whole, and
removed when the block is stored.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from compool._files import whole

_log = logging.getLogger(__name__)
EVERY = 60.0  # seconds between two writings: what an interruption costs
SHARE = 0.02  # of the time, at most, that goes into writing


class Begun(NamedTuple):
    """A training that was interrupted."""

    members: tuple[tuple[str, int], ...]
    """The recipe's checksum and the replica of each."""
    epochs: int
    """How many are done."""


def folder(store: Path) -> Path:
    """Where the trainings of a store are, while they are under way."""
    return store.with_name(f"{store.stem}-checkpoints")


def file(folder: Path, members: Sequence[tuple[str, int]], seed: int, device: str) -> Path:
    """The file of a training, by what is trained, and where."""
    digest = hashlib.sha256(json.dumps([list(members), seed, device]).encode())
    return folder / f"{digest.hexdigest()[:16]}.safetensors"


def begun(folder: Path, seed: int, device: str) -> list[Begun]:
    """The trainings of a seed on a device that were interrupted; files that cannot be read are left out."""
    found = []
    for path in sorted(folder.glob("[!.]*.safetensors")):
        try:
            notes = _notes(path)
        except (SafetensorError, OSError):
            continue
        members = tuple((str(recipe), int(replica)) for recipe, replica in json.loads(notes.get("members", "[]")))
        if members and file(folder, members, seed, device) == path:  # neither of another seed, nor of another device
            found.append(Begun(members, int(notes["epochs"])))
    return found


class Checkpoint:
    """The file of one training.

    Args:
        path: the file; its folder need not exist.
        members: what is trained, as in :class:`Begun`.
        origin: all that the training depends on, as one string: a file of another origin is not gone on from.
    """

    def __init__(self, path: Path, members: Sequence[tuple[str, int]], origin: str) -> None:
        self.path = path
        self.about = {"members": json.dumps(list(members)), "origin": origin}
        self.earlier = 0.0
        """The seconds that the training took in earlier processes."""
        self.start = self.written = time.monotonic()
        self.wait = EVERY

    def read(self) -> dict[str, Tensor]:
        """What :meth:`write` was given, in an earlier process perhaps; empty if there is nothing to go on from."""
        if not self.path.exists():
            return {}
        try:
            notes = _notes(self.path)
            if notes.get("origin") != self.about["origin"]:
                raise ValueError("it is of other data, other versions, or another kind of device")
            with safe_open(self.path, framework="pt") as opened:
                found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            _log.warning("%s cannot be gone on from (%s): its training begins anew", self.path, error)
            return {}
        self.earlier = float(notes["seconds"])
        return found

    def write(self, epochs: int, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Write down all that it takes to go on after so many epochs, if it is time to."""
        began = time.monotonic()
        if began - self.written < self.wait:
            return
        notes = self.about | {"epochs": str(epochs), "seconds": str(self.earlier + began - self.start)}
        try:
            with whole(self.path) as partial:
                partial.write_bytes(save(dict(state()), notes))
        except OSError as error:  # the training is worth more
            _log.warning("%s cannot be written (%s): the training goes on without", self.path, error)
        self.written = time.monotonic()
        self.wait = max(EVERY, (self.written - began) / SHARE)


def remove(path: Path) -> None:
    """Its training is stored: nothing is left to go on from, and a process that was killed leaves nothing either."""
    for left in (path, *path.parent.glob(f".{path.stem}.*")):
        left.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _notes(path: Path) -> dict[str, str]:
    """What a file says of itself."""
    with safe_open(path, framework="pt") as opened:
        return opened.metadata() or {}
