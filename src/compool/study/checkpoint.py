"""Checkpoints of trainings, from which an interrupted one resumes.

Each block has a file in a folder beside the store. It is replaced from time to time, and removed when its runs are
stored. This module does not import torch, so that plans are made quickly.
"""

import hashlib
import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open

from compool.study.store import Store

if TYPE_CHECKING:
    from torch import Tensor

_log = logging.getLogger(__name__)
EVERY = 60.0  # seconds between two writings: what an interruption costs
SHARE = 0.02  # of the time, at most, that goes into writing

Members = tuple[tuple[str, int], ...]
"""What is trained in a block: the recipe's checksum and the replica of each."""


class Interrupted(NamedTuple):
    """A training that is not finished."""

    members: Members
    epochs: int
    """How many are done."""


def folder(store: Path) -> Path:
    """Where the trainings of a store are, while they are under way."""
    return store.with_name(f"{store.name}-checkpoints")


def file(folder: Path, members: Members, seed: int, device: str) -> Path:
    """The file of a training, by what is trained, and where."""
    digest = hashlib.sha256(json.dumps([members, seed, device]).encode())
    return folder / f"{digest.hexdigest()[:16]}.safetensors"


def interrupted(folder: Path, seed: int, device: str) -> list[Interrupted]:
    """The trainings of a seed on a device that are not finished, small ones first: a larger one may not have fitted."""
    here = (
        found for path, at, found in _all(folder) if at == seed and path == file(folder, found.members, seed, device)
    )
    return sorted(here, key=lambda found: len(found.members))


def remove(folder: Path, members: Members, seed: int) -> None:
    """Remove the checkpoints of trainings of any of these runs, which are stored."""
    useless = {file(folder, members, seed, device) for device in ("cpu", "cuda")}  # whatever is in them
    useless |= {path for path, at, found in _all(folder) if at == seed and not {*members}.isdisjoint(found.members)}
    _remove(folder, useless)


def remove_stored(folder: Path, store: Store) -> None:
    """Remove the trainings all of whose runs are stored: a process that is killed right after storing them leaves its
    checkpoint.
    """
    useless = set()
    for path, seed, found in _all(folder):
        data, splits = _data_and_splits(path)
        there = {recipe: store.splits(recipe, seed, data) for recipe, _ in found.members}
        members = zip(found.members, splits, strict=False)
        if len(splits) == len(found.members) and all(
            split in there[recipe].get(replica, ()) for (recipe, replica), split in members
        ):
            useless.add(path)
    _remove(folder, useless)


def origin(data: str, splits: Sequence[str], *others: Any) -> str:
    """What a training depends on beside its recipes and seed, as one string: the checksum of its data, that of the
    split of each replica, and whatever else.
    """
    return json.dumps([data, splits, *others])


class Checkpoint:
    """The file of one training.

    Args:
        path: the file; its folder need not exist.
        members: what is trained.
        seed: the study's.
        origin: what :func:`origin` makes. A file of another origin is not used.
    """

    def __init__(self, path: Path, members: Members, seed: int, origin: str) -> None:
        self.path = path
        self.about = {"members": json.dumps(members), "seed": str(seed), "origin": origin}
        self.earlier = 0.0
        """The seconds that the training took in earlier processes."""
        self.began = self.written = time.monotonic()
        self.wait = EVERY
        self.warned = False

    def read(self) -> "dict[str, Tensor]":
        """What :meth:`write` was given, in an earlier process perhaps; empty if there is nothing to resume from."""
        from compool._tensors import read_tensors

        try:
            with safe_open(self.path, framework="pt") as opened:
                notes = opened.metadata() or {}
                if any(notes.get(key) != value for key, value in self.about.items()):
                    raise ValueError("it is of other data, other versions, or another kind of device")
                tensors = {name: tensor.clone() for name, tensor in read_tensors(opened).items()}
                self.earlier = float(notes["seconds"])
                return tensors
        except FileNotFoundError:
            return {}
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            _log.warning("cannot resume from %s (%s); restarting its training", self.path, error)
            return {}

    def write(self, epochs: int, state: "Callable[[], Mapping[str, Tensor]]") -> None:
        """Write the state after so many epochs, if it is time to."""
        from compool._tensors import write_tensors

        now = time.monotonic()
        if now - self.written < self.wait:
            return
        notes = self.about | {"epochs": str(epochs), "seconds": str(self.earlier + now - self.began)}
        try:
            write_tensors(self.path, state(), notes)
        except (OSError, MemoryError) as error:  # the training is worth more
            if not self.warned:
                _log.warning("%s cannot be written (%s); training continues without checkpoints", self.path, error)
            self.warned = True
        self.written = time.monotonic()
        self.wait = max(EVERY, (self.written - now) / SHARE)


def _all(folder: Path) -> Iterator[tuple[Path, int, Interrupted]]:
    """Each file, its seed, and what it is of; without those that cannot be read."""
    for path in sorted(folder.glob("[!.]*.safetensors")):
        with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError):
            with safe_open(path, framework="np") as opened:
                notes = opened.metadata() or {}
            members = tuple((str(recipe), int(replica)) for recipe, replica in json.loads(notes["members"]))
            yield path, int(notes["seed"]), Interrupted(members, int(notes["epochs"]))


def _data_and_splits(path: Path) -> tuple[str, list[str]]:
    """The checksums of a training's data, and of the split of each replica; none if they cannot be read."""
    with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError):
        with safe_open(path, framework="np") as opened:
            data, splits, *_ = json.loads((opened.metadata() or {})["origin"])
        return str(data), [str(split) for split in splits]
    return "", []


def _remove(folder: Path, useless: Iterable[Path]) -> None:
    """Remove files, and what killed processes left of them; and the folder, if nothing else is in it."""
    for path in useless:
        for left in (path, *folder.glob(f".{path.stem}.*")):
            _unlink(left)
    with suppress(OSError):  # not empty
        folder.rmdir()


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s is no longer needed, but cannot be removed (%s)", path, error)
