"""Splits into training, validation and test graphs."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from compool._files import atomic_write
from compool.data.graph_set import GraphSet

if TYPE_CHECKING:
    from torch_geometric.data import Data

PARTS = ("train", "validation", "test")
SPLIT_KINDS = ("independent", "stratified", "folds", "powers")
NUM_FOLDS = 10


class Split(NamedTuple):
    """Indices of graphs, each part in random order."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]

    @property
    def checksum(self) -> str:
        """Sixteen hexadecimal digits that change with any index."""
        digest = hashlib.sha256()
        for part in self:
            digest.update(len(part).to_bytes(8, "little") + part.astype("<i8").tobytes())
        return digest.hexdigest()[:16]


def split(graphs: "GraphSet | Iterable[Data]", replica: int, seed: int = 0, kind: str = "independent") -> Split:
    """The split of a replica: 80 % of the graphs train, 10 % validate, 10 % test, and at least one graph each.

    It depends only on the name and size of the set, the seed and the replica's number (and on the classes, if it is
    stratified). Every method and machine therefore uses the same split.

    Args:
        graphs: the set, a list of :class:`torch_geometric.data.Data`, or any PyG dataset; for many splits, convert it
            once with :meth:`GraphSet.from_data`.
        replica: the replica's number, from 0.
        seed: the study's seed.
        kind: ``"independent"``: a separate draw per replica. ``"stratified"``: a separate draw per class, so that
            every part has about the class proportions of the set. ``"folds"``: ten parts of equal size and, if there
            are classes, of equal class proportions; replica r is tested on part r and validated on the next, so there
            are at most ten replicas.
            ``"powers"``: a single permutation is drawn and applied once more for each replica, as in the paper's
            released code; some graphs may never be in a test set.

    Example:
        >>> from compool.data import communities
        >>> [len(part) for part in split(communities(90), replica=0)]
        [72, 9, 9]
    """
    if kind not in SPLIT_KINDS:
        raise ValueError(f"kind must be one of {', '.join(SPLIT_KINDS)}; got {kind!r}")
    for name, value in (("replica", replica), ("seed", seed)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0, got {value}")
    graphs = GraphSet.from_data(graphs)
    if len(graphs) < len(PARTS):
        raise ValueError(f"a split needs at least {len(PARTS)} graphs, {graphs.name} has {len(graphs)}")
    if kind == "powers":
        return _cut(_power(_generator(graphs.name, seed, 0).permutation(len(graphs)), replica + 1), least=1)
    if kind == "folds":
        return _fold(graphs, replica, seed)
    random = _generator(graphs.name, seed, replica)
    if kind == "independent":
        return _cut(random.permutation(len(graphs)), least=1)
    if graphs.task != "classification":
        raise ValueError(
            f"a stratified split needs classes, but {graphs.name} is for {graphs.task}; choose kind 'independent'"
        )
    members = [np.flatnonzero(graphs.y == label) for label in range(graphs.num_classes)]
    by_class = [_cut(random.permutation(member)) for member in members]
    parts = [random.permutation(np.concatenate([each[part] for each in by_class])) for part in range(3)]
    if not all(map(len, parts)):
        raise ValueError(
            f"no class of {graphs.name} has the ten graphs that a stratified split needs; choose kind 'independent'"
        )
    return Split(*parts)


def _fold(graphs: GraphSet, replica: int, seed: int) -> Split:
    """Deal the graphs of a set into folds, class by class and in random order, and return the split of a fold."""
    if replica >= NUM_FOLDS:
        raise ValueError(f"there are {NUM_FOLDS} folds: --replicas must be at most {NUM_FOLDS}; got {replica + 1}")
    if len(graphs) < NUM_FOLDS:
        raise ValueError(f"folds need at least {NUM_FOLDS} graphs, {graphs.name} has {len(graphs)}")
    random = _generator(graphs.name, seed, 0)
    order = random.permutation(len(graphs))
    if graphs.task == "classification":
        order = order[np.argsort(graphs.y[order], kind="stable")]
    fold = np.empty(len(graphs), np.int64)
    fold[order] = np.arange(len(graphs)) % NUM_FOLDS
    is_test, is_validation = fold == replica, fold == (replica + 1) % NUM_FOLDS
    parts = (np.flatnonzero(mask) for mask in (~is_test & ~is_validation, is_validation, is_test))
    return Split(*(random.permutation(part) for part in parts))


def _generator(name: str, seed: int, replica: int) -> np.random.Generator:
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.default_rng([int.from_bytes(digest[:8], "little"), seed, replica])


def _power(permutation: NDArray[np.int64], exponent: int) -> NDArray[np.int64]:
    """A permutation applied `exponent` times, by repeated squaring."""
    result = np.arange(len(permutation))
    while exponent:
        if exponent & 1:
            result = result[permutation]
        permutation, exponent = permutation[permutation], exponent >> 1
    return result


def _cut(order: NDArray[np.int64], least: int = 0) -> Split:
    """80 %, 10 % and the rest of the graphs; at least `least` validate, and as many test."""
    first = min(int(0.8 * len(order)), len(order) - 2 * least)
    second = first + max(int(0.1 * len(order)), least)
    return Split(order[:first], order[first:second], order[second:])


def write_splits(path: Path, graphs: GraphSet, splits: Sequence[Split], **about: Any) -> None:
    """Write splits as JSON, each with its checksum, completely or not at all."""
    rows = [{"checksum": parts.checksum, **{part: getattr(parts, part).tolist() for part in PARTS}} for parts in splits]
    with atomic_write(path) as partial:
        partial.write_text(json.dumps({"dataset": graphs.name, "graphs": len(graphs), **about, "splits": rows}))


def read_splits(path: Path, graphs: GraphSet, seed: int = 0) -> list[Split]:
    """Read splits: a JSON file that :func:`write_splits` wrote, or a folder of published folds.

    Such a folder has ``train_idx-K.txt`` and ``test_idx-K.txt`` for K from 1, with one index per line. If there is no
    ``validation_idx-K.txt``, a ninth of the training graphs is used for validation, drawn by seed and fold.
    """
    if path.is_dir():
        num_folds = len(list(path.glob("test_idx-*.txt")))
        if not (path / "test_idx-1.txt").exists():
            raise FileNotFoundError(
                f"{path} has no test_idx-1.txt; a folder of folds has train_idx-K.txt and test_idx-K.txt, for K from 1"
            )
        return [_read_fold(path, graphs, fold, seed) for fold in range(1, 1 + num_folds)]
    try:
        content = json.loads(path.read_text())
        rows, num_graphs = content["splits"], content.get("graphs", len(graphs))
        splits = [Split(*(_indices(row[part], part) for part in PARTS)) for row in rows]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} is not a file of splits ({type(error).__name__}: {error})") from None
    if not splits:
        raise ValueError(f"{path} has no splits")
    if num_graphs != len(graphs):
        raise ValueError(f"{path} has splits of {num_graphs} graphs, but {graphs.name} has {len(graphs)}")
    for index, (parts, row) in enumerate(zip(splits, rows, strict=True)):
        _check_split(parts, graphs, f"{path}, split {index}")
        if row.get("checksum", parts.checksum) != parts.checksum:
            raise ValueError(f"{path}, split {index}: the indices do not match the checksum {row['checksum']}")
    return splits


def _indices(values: Any, part: str) -> NDArray[np.int64]:
    """A list of whole numbers as an array; numpy would truncate fractions and parse strings."""
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise TypeError(f"{part} must be a list of whole numbers")
    return np.array(values, np.int64)


def _read_fold(folder: Path, graphs: GraphSet, fold: int, seed: int) -> Split:
    def indices(part: str) -> NDArray[np.int64]:
        path = folder / f"{part}_idx-{fold}.txt"
        try:
            values = path.read_text().split()
            if not all(value.isascii() and value.isdigit() for value in values):
                raise ValueError
            return np.array(values, np.int64)
        except (ValueError, OverflowError):
            raise ValueError(f"{path} must hold whole numbers, one per line") from None

    train, test = indices("train"), indices("test")
    if (folder / f"validation_idx-{fold}.txt").exists():
        validation = indices("validation")
    else:
        order = _generator(graphs.name, seed, fold).permutation(train)
        num_validation = max(1, len(train) // 9)
        validation, train = order[:num_validation], order[num_validation:]
    parts = Split(train, validation, test)
    _check_split(parts, graphs, f"{folder}, fold {fold}")
    return parts


def _check_split(parts: Split, graphs: GraphSet, source: str) -> None:
    graph_ids = np.concatenate(parts)
    if len(graph_ids) and (graph_ids.min() < 0 or graph_ids.max() >= len(graphs)):
        wrong = graph_ids.min() if graph_ids.min() < 0 else graph_ids.max()
        raise ValueError(f"{source}: {graphs.name} has graphs 0..{len(graphs) - 1}, found {wrong}")
    if len(np.unique(graph_ids)) < len(graph_ids):
        twice = np.flatnonzero(np.bincount(graph_ids) > 1)[0]
        raise ValueError(f"{source}: graph {twice} appears twice")
    for part, indices in zip(PARTS, parts, strict=True):
        if not len(indices):
            raise ValueError(f"{source}: {part} has no graphs, at least one is needed")
