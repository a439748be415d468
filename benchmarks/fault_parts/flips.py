"""Single bit flips in files: each must be detected, repaired, or harmless."""

import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import children
import numpy as np
import studies
import torch

from compool import data, nn, study
from compool.report.collection import collect
from compool.report.formats import markdown
from compool.report.tables import tables

KINDS = ("detected", "rebuilt", "harmless", "wrong", "crash", "hang", "memory")
FAULTS = ("wrong", "crash", "hang", "memory")
EDGE = 1024  # bytes at both ends of a file, where formats keep headers and directories; half of the flips go there

Check = Callable[[], str]


class File:
    """A file to damage, and its reader.

    Args:
        path: the file.
        check: reads the file and returns the kind of the outcome; raises the errors of the reader.
        restore: undoes the changes that `check` made to other files.
    """

    def __init__(self, path: Path, check: Check, restore: Callable[[], None] = lambda: None) -> None:
        self.path, self.check, self.restore = path, check, restore
        self.content = path.read_bytes()

    def flip(self, seed: int) -> children.Outcome:
        """Flip the bit of a seed, read the file, and return the outcome."""
        generator = random.Random(seed)
        near = generator.random() < 0.5 and len(self.content) > 2 * EDGE
        byte = generator.randrange(2 * EDGE if near else len(self.content))
        if near and byte >= EDGE:
            byte += len(self.content) - 2 * EDGE
        bit = generator.randrange(8)
        damaged = bytearray(self.content)
        damaged[byte] ^= 1 << bit
        self.restore()
        self.path.write_bytes(damaged)
        notes = f"byte {byte} of {len(self.content)}, bit {bit}"
        try:
            return {"kind": self.check(), "notes": notes}
        except Exception as error:
            text = str(error)
            ours = isinstance(error, ValueError) and str(self.path) in text and "\n" not in text
            kind = "detected" if ours else "crash"
            return {"kind": kind, "notes": notes, "error": f"{type(error).__name__}: {text}"[:200].replace("\n", " ")}


def _same_set(found: data.GraphSet, wanted: data.GraphSet) -> bool:
    return (found.name, found.checksum) == (wanted.name, wanted.checksum)


def data_cache(folder: Path) -> File:
    """The cache of a data set that can be parsed again."""
    os.environ["COMPOOL_CACHE"] = str(folder / "cache")
    source = folder / "set"
    source.mkdir()
    _write_text_files(source)
    wanted = data.load("SET", source)
    path = folder / "cache" / "SET.npz"
    content = path.read_bytes()

    def check() -> str:
        damaged = path.read_bytes()
        if not _same_set(data.load("SET", source), wanted):
            return "wrong"
        now = path.read_bytes()
        if now == damaged:
            return "harmless"
        return "rebuilt" if _same_set(data.GraphSet.open(path)[0], wanted) and len(now) == len(content) else "wrong"

    return File(path, check)


def _write_text_files(folder: Path) -> None:
    """Generated graphs in the layout of the TU collection."""
    made = data.communities(60)
    sizes = made.node_ptr[1:] - made.node_ptr[:-1]
    graph = [index + 1 for index, size in enumerate(sizes) for _ in range(size)]
    edges = made.edge_index + np.repeat(made.node_ptr[:-1], np.diff(made.edge_ptr)) + 1
    columns = {
        "A": [f"{i}, {j}" for i, j in edges.T],
        "graph_indicator": graph,
        "graph_labels": made.y,
        "node_labels": made.labels,
    }
    for suffix, lines in columns.items():
        (folder / f"SET_{suffix}.txt").write_text("".join(f"{line}\n" for line in lines))


def data_file(folder: Path) -> File:
    """A data set as one file, without the text files that it was made from."""
    os.environ["COMPOOL_CACHE"] = str(folder / "cache")
    path = folder / "SET.npz"
    wanted = replace(data.communities(60), name="SET")
    wanted.save(path)
    return File(path, lambda: "harmless" if _same_set(data.load("SET", folder), wanted) else "wrong")


@contextmanager
def _warnings(path: Path) -> Iterator[list[str]]:
    """Collect the log messages that name a file."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("compool")
    logger.addHandler(handler)
    try:
        yield logged
    finally:
        logger.removeHandler(handler)
        logged[:] = [text for text in logged if str(path) in text and "\n" not in text]


def _key(run: study.Run) -> tuple[str, int]:
    return run.method, run.replica


def store(folder: Path) -> File:
    """A store: its runs are listed, tabulated, and looked up as planning does.

    Damaged runs may be left out of all of these, with a warning; the others must be unchanged. Storing the damaged
    runs again, as after training, must restore them, and further runs can be stored.
    """
    path = folder / "study.sqlite"
    with studies.small():
        recipes = [studies.recipe(method) for method in ("component", "gin")]
        list(
            study.train_here(
                study.plan(recipes, 4, 0, path, resources=study.local_resources("cpu"), size=4), study.Store(path)
            )
        )
    wanted = list(study.Store(path).runs())
    more = [replace(run, replica=run.replica + 4) for run in wanted]

    def check() -> str:
        with _warnings(path) as warned:
            opened = study.Store(path)
            runs = list(opened.runs())
            shown = [markdown(table) for table in tables(collect(runs))]
            there = [opened.replicas(one.dataset, one.method, one.checksum, 0) for one in recipes]
        kept = [run for run in wanted if run in runs]
        counted = [{run.replica for run in kept if run.method == one.method} for one in recipes]
        if runs != kept or there != counted or shown != [markdown(table) for table in tables(collect(kept))]:
            return "wrong"
        opened.add([run for run in wanted if run not in kept] + more)
        if sorted(opened.runs(), key=_key) != sorted(wanted + more, key=_key):
            return "wrong"
        if kept != wanted:
            return "detected" if warned else "wrong"
        return "harmless"

    def restore() -> None:
        for left in folder.glob("study.sqlite-*"):
            left.unlink()

    return File(path, check, restore)


def checkpoint(folder: Path) -> File:
    """The checkpoint of an interrupted training, which is resumed."""
    path = folder / "study.sqlite"
    chosen = studies.recipe("component", epochs=4)

    def block() -> study.Block:
        (planned,) = study.plan([chosen], 2, 0, path, resources=study.local_resources("cpu"), size=2)
        return planned

    def stop(_: study.Block, epoch: int, curves: object) -> None:
        if epoch == 3:
            raise KeyboardInterrupt

    with studies.small():
        wanted = studies.comparable(study.train_block(replace(block(), checkpoint_folder=None)))
        with suppress(KeyboardInterrupt):
            study.train_block(block(), stop)
        file = block().checkpoint
    assert file is not None

    def check() -> str:
        with _warnings(file) as warned, studies.small():
            runs = studies.comparable(study.train_block(block()))
        if runs != wanted:
            return "wrong"
        return "detected" if warned else "harmless"

    return File(file, check)


def network(folder: Path) -> File:
    """A saved network."""
    path = folder / "network.safetensors"
    torch.manual_seed(0)
    made = nn.Network("CPCL", 4, 16, 3, dropout=0.1).eval()
    nn.save_network(made, path, trained_on="communities")
    wanted = made.state_dict()

    def check() -> str:
        found = nn.load_network(path)
        state = found.state_dict()
        same = state.keys() == wanted.keys() and all(torch.equal(state[name], wanted[name]) for name in wanted)
        return "harmless" if same and found.settings == made.settings else "wrong"

    return File(path, check)


FILES: dict[str, Callable[[Path], File]] = {
    "data cache": data_cache,
    "data file": data_file,
    "store": store,
    "checkpoint": checkpoint,
    "network": network,
}


def run(count: int, seed: int, timeout: float) -> Iterator[tuple[str, int, children.Outcome]]:
    """Yield the outcome of each flip in each kind of file."""
    first = seed * 1_000_000
    for name, make in FILES.items():
        with tempfile.TemporaryDirectory(prefix="compool-") as folder:
            file = make(Path(folder))
            if (kind := file.check()) not in ("harmless", "rebuilt"):
                raise RuntimeError(f"{name}: reading the undamaged file is {kind}")
            for item, outcome in children.run_items(file.flip, range(first, first + count), timeout=timeout):
                yield name, item, outcome
