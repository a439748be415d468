"""Where finished runs are kept: one SQLite file a study."""

import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from compool.study.migrations import columns, migrate

_log = logging.getLogger(__name__)

JSON: dict[str, type] = {
    "settings": dict,
    "kept": list,
    "versions": dict,
    "curves": dict,
}  # columns, and what they hold
LOST = "its worker was lost"  # begins the reason of a run that may succeed another time
_BARE = "(runs.curves = '{}' AND excluded.curves != '{}' AND runs.finished = excluded.finished)"
_LOST = f"runs.status = 'failed' AND runs.reason LIKE '{LOST}%'"
# The same run, with a checksum of the data on one side only: older versions stored none
_PERHAPS_THE_SAME = """
    runs.dataset = :dataset AND runs.method = :method AND runs.recipe_checksum = :recipe_checksum
    AND runs.seed = :seed AND runs.replica = :replica
    AND (runs.data_checksum != :data_checksum OR runs.splits_checksum != :splits_checksum)
    AND (runs.data_checksum = :data_checksum OR runs.data_checksum = '' OR :data_checksum = '')
    AND (runs.splits_checksum = :splits_checksum OR runs.splits_checksum = '' OR :splits_checksum = '')
"""


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of one replica."""

    dataset: str
    method: str
    recipe: str
    recipe_checksum: str
    settings: dict[str, Any]
    """The recipe's."""
    seed: int
    replica: int
    split_checksum: str
    status: str
    """``"done"``, or ``"failed"`` for the `reason`."""
    test: float | None
    """Accuracy on the test graphs, at the epoch of the best validation accuracy."""
    validation: float | None
    epoch: int | None
    kept: list[float]
    """The share of nodes kept after each pooling layer, at that epoch, on the validation graphs."""
    parameters: int
    seconds: float
    """Of its block, divided by the replicas in it."""
    block: int
    """How many replicas were trained together."""
    device: str
    versions: dict[str, str]
    finished: str
    curves: dict[str, list[Any]]
    """What was seen in each epoch: see :class:`compool.replicas.trainer.Curves`."""
    weights_checksum: str = ""
    """Of the initial weights; empty if there were none, or the run is older than this field."""
    node: str = ""
    """The machine that trained it; on a cluster, Ray's name of the node and the GPU, too."""
    reason: str = ""
    """Why it failed."""
    data_checksum: str = ""
    """Of graphs, features and labels; empty if the run is older than this field."""
    splits_checksum: str = ""
    """Of the file or folder of splits; empty if splits were drawn, or the run is older than this field."""
    train_graphs: int = 0
    """How many graphs its split trains on; 0 if the run is older than this field."""
    test_graphs: int = 0
    """How many graphs its split tests on; 0 if the run is older than this field."""


_COLUMNS = [field.name for field in fields(Run)]


class Store:
    """A study's file. Several processes may write to it; a killed one leaves it whole.

    Example:
        >>> store = Store(getfixture("tmp_path") / "study.sqlite")
        >>> store.add([])
        0
        >>> list(store.runs())
        []
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._connection() as connection:
            migrate(connection, path)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
        except sqlite3.IntegrityError as error:
            raise ValueError(f"{self.path} was given something that is no run ({error})") from None
        except sqlite3.OperationalError as error:  # no room, no rights, locked
            raise ValueError(f"{self.path} could not be read or written ({error})") from None
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is no study, or damaged ({error})") from None

    def add(self, runs: Iterable[Run]) -> int:
        """Keep runs, all or none, and say how many are new.

        One that is there already is left as it is, unless its worker was lost, or it is the same without its curves.
        """
        rows = [_encoded(run) for run in runs]
        marks = ", ".join(f":{name}" for name in _COLUMNS)
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(f"DELETE FROM runs WHERE {_LOST} AND {_PERHAPS_THE_SAME}", rows)
            insert = f"INSERT INTO runs ({', '.join(_COLUMNS)}) SELECT {marks} "
            insert += f"WHERE NOT EXISTS (SELECT 1 FROM runs WHERE {_PERHAPS_THE_SAME})"
            new = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)
            before = connection.total_changes
            connection.executemany(f"{insert} ON CONFLICT DO UPDATE SET {new} WHERE {_LOST} OR {_BARE}", rows)
            connection.execute("COMMIT")
            return connection.total_changes - before

    def runs(self, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Iterator[Run]:
        """All runs, or those of some data sets and methods, in order.

        What is damaged in one of them, curves that are not JSON for example, is left out, with a warning.
        """
        query = f"SELECT {', '.join(_COLUMNS)} FROM runs ORDER BY dataset, method, recipe, seed, replica, finished"
        with self._connection() as connection:
            rows = connection.execute(query).fetchall()
            extra = [name for name in columns(connection, "runs") if name not in _COLUMNS]
        if extra:
            _log.warning("%s has columns that compool does not know, and ignores: %s", self.path, ", ".join(extra))
        damaged: dict[str, list[str]] = {}
        for row in rows:
            if (not datasets or row["dataset"] in datasets) and (not methods or row["method"] in methods):
                values = dict(row)
                for name, kind in JSON.items():
                    values[name] = _decoded(name, row[name])
                    if values[name] is None:
                        values[name] = kind()
                        which = f"{row['dataset']}, {row['method']}, {row['recipe']}, replica {row['replica']}"
                        damaged.setdefault(name, []).append(which)
                yield Run(**values)
        for name, members in damaged.items():
            message = "%s: the %s of %d runs are damaged and left out (first: %s)"
            _log.warning(message, self.path, name, len(members), members[0])

    def replicas(
        self,
        dataset: str,
        method: str,
        recipe_checksum: str,
        seed: int,
        data_checksum: str = "",
        splits_checksum: str = "",
    ) -> set[int]:
        """Which replicas are there; those whose worker was lost are not.

        With a checksum, only those of the same data and splits, and those that were stored without one.
        """
        # One row of all, as fetching 100,000 rows takes longer than reading them; both queries read an index
        every = "SELECT json_group_array(replica) FROM runs "
        every += "WHERE dataset = ? AND method = ? AND recipe_checksum = ? AND seed = ?"
        values = [dataset, method, recipe_checksum, seed]
        for column, checksum in (("data_checksum", data_checksum), ("splits_checksum", splits_checksum)):
            if checksum:
                every += f" AND {column} IN ('', ?)"
                values.append(checksum)
        with self._connection() as connection:
            there, lost = (connection.execute(query, values).fetchone() for query in (every, f"{every} AND {_LOST}"))
        return set(json.loads(there[0])) - set(json.loads(lost[0]))

    def of_other_data(self, dataset: str, data_checksum: str) -> int:
        """How many runs of a data set of this name were trained on other graphs."""
        query = "SELECT count(*) FROM runs WHERE dataset = ? AND data_checksum NOT IN ('', ?)"
        with self._connection() as connection:
            (number,) = connection.execute(query, (dataset, data_checksum)).fetchone()
        return int(number)


def _decoded(name: str, text: str) -> Any:
    """The value of a JSON column; None if it is none, or of another kind."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if name == "curves" and isinstance(value, dict) and not all(isinstance(curve, list) for curve in value.values()):
        return None
    return value if isinstance(value, JSON[name]) else None


def _encoded(run: Run) -> dict[str, Any]:
    row = vars(run)  # asdict would copy every number of the curves, which takes as long as all the rest
    return row | {name: json.dumps(row[name]) for name in JSON}
