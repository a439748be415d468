"""A run, and its row in a store."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from compool.study.checksums import CHECKSUM_COLUMN, run_checksum
from compool.study.columns import FLOAT_MAXIMA, INTEGER_RANGES, JSON_COLUMNS

if TYPE_CHECKING:
    from torch import Tensor

LOST_WORKER = "its worker was lost"  # the start of the reason of a run that may succeed in another attempt
_NAMED = 10  # a warning names at most this many damaged runs


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of one replica."""

    dataset: str
    method: str
    recipe: str
    recipe_checksum: str
    settings: dict[str, Any]
    """The settings of the recipe."""
    seed: int
    replica: int
    split_checksum: str
    status: str
    """``"done"``, or ``"failed"`` for the `reason`."""
    test: float | None
    """The chosen metric, usually accuracy, on the test graphs, at the epoch with the best validation value."""
    validation: float | None
    epoch: int | None
    kept: list[float]
    """The share of nodes kept after each pooling layer, at that epoch, on the validation graphs."""
    parameters: int
    seconds: float
    """The time of its block, divided by the number of its replicas."""
    block: int
    """The number of replicas that were trained together."""
    device: str
    versions: dict[str, str]
    finished: str
    curves: dict[str, list[Any]]
    """The measurements of each epoch: see :class:`compool.replicas.trainer.Curves`."""
    weights_checksum: str = ""
    """The checksum of the initial weights; empty if there were none, or the run is older than this field."""
    node: str = ""
    """The machine that trained it; on a cluster, Ray's name of the node and the GPU, too."""
    reason: str = ""
    """Why it failed."""
    data_checksum: str = ""
    """The checksum of graphs, features and labels; empty if the run is older than this field."""
    splits_checksum: str = ""
    """The checksum of the file or folder of splits; empty if splits were drawn, or the run is older than this field."""
    train_graphs: int = 0
    """The number of training graphs of its split; 0 if the run is older than this field."""
    test_graphs: int = 0
    """The number of test graphs of its split; 0 if the run is older than this field."""
    own_source: str = ""
    """The source code of a user-defined network; empty for the built-in methods."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The `task`, the metric that was `chosen` to pick the epoch, every metric of the task at that epoch on the
    `validation` and `test` graphs, and `details` of the test graphs, such as the confusion matrix. Without a best epoch
    only `task` and `chosen`; empty if its worker was lost or the run is older than this field.
    """
    weights: bytes = field(default=b"", repr=False, compare=False)
    """The parameters and buffers of its network at the best epoch, encoded by :func:`encode_weights`; only until the
    run is stored. Not a column: runs from a store have none, and :meth:`~compool.study.Store.weights` reads them.
    """


COLUMNS = [field.name for field in fields(Run) if field.name != "weights"]
STORED_COLUMNS = [*COLUMNS, CHECKSUM_COLUMN]
TEXT_COLUMNS = [name for name in COLUMNS if name not in (*INTEGER_RANGES, *FLOAT_MAXIMA, *JSON_COLUMNS)]


def encode_run(run: Run) -> dict[str, Any]:
    """The row of a run as SQLite stores it, with its checksum."""
    row = {name: getattr(run, name) for name in COLUMNS}  # asdict would copy all curves, which doubles the time
    row = (
        row | {name: json.dumps(row[name]) for name in JSON_COLUMNS} | {name: _real(row[name]) for name in FLOAT_MAXIMA}
    )
    stored = {name: value.encode() if isinstance(value, str) else value for name, value in row.items()}
    return row | {CHECKSUM_COLUMN: run_checksum(stored)}


def decode_run(row: Mapping[str, Any]) -> Run:
    """The run of a stored row that matches its checksum, with text as bytes."""
    values = {name: row[name] for name in COLUMNS} | {name: row[name].decode() for name in TEXT_COLUMNS}
    return Run(**values | {name: json.loads(row[name]) for name in JSON_COLUMNS})


def describe_run(run: Run, names: Sequence[str]) -> dict[str, Any]:
    """Columns of a run for people to read, as in JSON: the metric, measured as float32, has no digits beyond it.

    CSV files keep every digit, because the checksums of imported runs depend on them.
    """
    columns = {name: getattr(run, name) for name in names}
    return columns | {name: _shortest_float32(columns[name]) for name in ("test", "validation") if name in columns}


def encode_weights(weights: "Mapping[str, Tensor]") -> bytes:
    """Encode the parameters and buffers of a network, by name, as a run stores them: safetensors with a checksum.

    Example:
        >>> from torch.nn import Linear
        >>> sorted(decode_weights(encode_weights(Linear(1, 2).state_dict())))
        ['bias', 'weight']
    """
    import torch

    from compool._tensors import encode_tensors

    packed = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in weights.items()
    }
    return encode_tensors(packed, {})


def decode_weights(weights: bytes) -> "dict[str, Tensor]":
    """Decode what :func:`encode_weights` encoded; a ValueError if it is damaged."""
    from compool._tensors import decode_tensors

    return decode_tensors(weights)


def is_lost(row: Mapping[str, Any]) -> bool:
    """Whether a stored run failed because its worker was lost."""
    return bool(row["status"] == b"failed" and row["reason"].startswith(LOST_WORKER.encode()))


def describe_damaged(damaged: Sequence[Mapping[str, Any]]) -> str:
    """A warning that names the runs that do not match their checksums."""

    def text(value: Any) -> str:
        return (value.decode(errors="replace") if isinstance(value, bytes) else str(value))[:60]

    named = [f"{text(row['dataset'])} {text(row['method'])} replica {text(row['replica'])}" for row in damaged[:_NAMED]]
    more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    count = "1 damaged run is" if len(damaged) == 1 else f"{len(damaged)} damaged runs are"
    return f"{count} left out: {'; '.join(named)}{more} (compool run trains missing runs)"


def _shortest_float32(value: float | None) -> float | None:
    """The shortest decimal that reads back as the same float32; other numbers are left as they are.

    Example:
        >>> _shortest_float32(0.38333332538604736), _shortest_float32(0.3833333), _shortest_float32(None)
        (0.38333333, 0.3833333, None)
    """
    if value is None or not math.isfinite(value) or float(np.float32(value)) != value:
        return value
    return float(str(np.float32(value)))


def _real(value: float | None) -> float | None:
    """A number as SQLite stores it in a column of floats: NaN is NULL, and there is no negative zero."""
    return None if value is None or math.isnan(value) else float(value) + 0.0
