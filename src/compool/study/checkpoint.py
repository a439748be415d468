"""Checkpoints from which interrupted training resumes.

Each block has a file in a folder beside the store. It is replaced from time to time, and removed when its runs are
stored. This module does not import torch, which keeps planning fast.
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
WRITE_INTERVAL = 60.0  # seconds between writes: about what an interruption costs
MAX_WRITE_SHARE = 0.02  # largest share of the time that is spent on writing

Members = tuple[tuple[str, int], ...]
"""The runs of a block: the recipe's checksum and the replica of each."""


class Interrupted(NamedTuple):
    """A training that is not finished."""

    members: Members
    epochs: int
    """The number of epochs that are done."""


def folder_of(store: Path) -> Path:
    """The folder of a store's checkpoints."""
    return store.with_name(f"{store.name}-checkpoints")


def file_of(folder: Path, members: Members, seed: int, device: str) -> Path:
    """The checkpoint of a training, by its members, seed and device."""
    digest = hashlib.sha256(json.dumps([members, seed, device]).encode())
    return folder / f"{digest.hexdigest()[:16]}.safetensors"


def interrupted(folder: Path, seed: int, device: str) -> list[Interrupted]:
    """The unfinished trainings of a seed on a device, small ones first: a larger one may not have fit in memory."""
    unfinished = [
        training
        for path, training_seed, training in _all(folder)
        if training_seed == seed and path == file_of(folder, training.members, seed, device)
    ]
    return sorted(unfinished, key=lambda training: len(training.members))


def remove(folder: Path, members: Members, seed: int) -> None:
    """Remove the checkpoints of all trainings that include any of these runs, which are stored."""
    obsolete = {file_of(folder, members, seed, device) for device in ("cpu", "cuda")}  # even if they cannot be read
    obsolete |= {
        path
        for path, training_seed, training in _all(folder)
        if training_seed == seed and not {*members}.isdisjoint(training.members)
    }
    _remove(folder, obsolete)


def remove_stored(folder: Path, store: Store) -> None:
    """Remove the checkpoints whose runs are all stored: a process that is killed right after storing leaves one."""
    obsolete = set()
    for path, seed, training in _all(folder):
        data, splits = _data_and_splits(path)
        stored = {recipe: store.splits(recipe, seed, data) for recipe, _ in training.members}
        members = zip(training.members, splits, strict=False)
        if len(splits) == len(training.members) and all(
            split in stored[recipe].get(replica, ()) for (recipe, replica), split in members
        ):
            obsolete.add(path)
    _remove(folder, obsolete)


def origin(data: str, splits: Sequence[str], *others: Any) -> str:
    """What a training depends on besides its recipes and seed, as a string: the checksum of its data, the checksum of
    each replica's split, and anything else.
    """
    return json.dumps([data, splits, *others])


class Checkpoint:
    """The file of one training.

    Args:
        path: the file; its folder need not exist.
        members: the runs.
        seed: the study's seed.
        origin: the result of :func:`origin`. A file with a different origin is not used.
    """

    def __init__(self, path: Path, members: Members, seed: int, origin: str) -> None:
        self.path = path
        self.about = {"members": json.dumps(members), "seed": str(seed), "origin": origin}
        self.earlier_seconds = 0.0
        """The seconds that the training took in earlier processes."""
        self.began = self.written = time.monotonic()
        self.wait = WRITE_INTERVAL
        self.warned = False

    def read(self) -> "dict[str, Tensor]":
        """The state that :meth:`write` wrote, perhaps in an earlier process; empty if there is none to resume from."""
        from compool._tensors import read_tensors

        try:
            with safe_open(self.path, framework="pt") as opened:
                notes = opened.metadata() or {}
                if any(notes.get(key) != value for key, value in self.about.items()):
                    raise ValueError("it belongs to other data, another version, or another device")
                tensors = {name: tensor.clone() for name, tensor in read_tensors(opened).items()}
                self.earlier_seconds = float(notes["seconds"])
                return tensors
        except FileNotFoundError:
            return {}
        except (SafetensorError, OSError, ValueError, KeyError) as error:
            _log.warning("cannot resume from %s (%s); restarting its training", self.path, error)
            return {}

    def write(self, epochs: int, state: "Callable[[], Mapping[str, Tensor]]") -> None:
        """Write the state after `epochs` epochs, if the last write is long enough ago."""
        from compool._tensors import write_tensors

        now = time.monotonic()
        if now - self.written < self.wait:
            return
        notes = self.about | {"epochs": str(epochs), "seconds": str(self.earlier_seconds + now - self.began)}
        try:
            write_tensors(self.path, state(), notes)
        except (OSError, MemoryError) as error:  # training continues without a checkpoint
            if not self.warned:
                _log.warning("%s cannot be written (%s); training continues without checkpoints", self.path, error)
            self.warned = True
        self.written = time.monotonic()
        self.wait = max(WRITE_INTERVAL, (self.written - now) / MAX_WRITE_SHARE)


def _all(folder: Path) -> Iterator[tuple[Path, int, Interrupted]]:
    """Each checkpoint that can be read, its seed, and its training."""
    for path in sorted(folder.glob("[!.]*.safetensors")):
        with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError):
            with safe_open(path, framework="np") as opened:
                notes = opened.metadata() or {}
            members = tuple((str(recipe), int(replica)) for recipe, replica in json.loads(notes["members"]))
            yield path, int(notes["seed"]), Interrupted(members, int(notes["epochs"]))


def _data_and_splits(path: Path) -> tuple[str, list[str]]:
    """The checksums of a training's data, and of the split of each replica; empty if they cannot be read."""
    with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError):
        with safe_open(path, framework="np") as opened:
            data, splits, *_ = json.loads((opened.metadata() or {})["origin"])
        return str(data), [str(split) for split in splits]
    return "", []


def _remove(folder: Path, obsolete: Iterable[Path]) -> None:
    """Remove files, temporary files left by killed processes, and the folder if it is then empty."""
    for path in obsolete:
        for leftover in (path, *folder.glob(f".{path.stem}.*")):
            _unlink(leftover)
    with suppress(OSError):  # not empty
        folder.rmdir()


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s is no longer needed, but cannot be removed (%s)", path, error)
