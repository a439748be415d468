"""Where finished runs are kept: one SQLite file a study."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

# Each entry takes the file from the version of its place to the next
_MIGRATIONS = (
    """
    CREATE TABLE runs (
        dataset TEXT NOT NULL,
        method TEXT NOT NULL,
        recipe TEXT NOT NULL,
        recipe_checksum TEXT NOT NULL,
        settings TEXT NOT NULL,
        seed INTEGER NOT NULL,
        replica INTEGER NOT NULL,
        split_checksum TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
        test REAL,
        validation REAL,
        epoch INTEGER,
        kept TEXT NOT NULL,
        parameters INTEGER NOT NULL,
        seconds REAL NOT NULL,
        block INTEGER NOT NULL,
        device TEXT NOT NULL,
        versions TEXT NOT NULL,
        finished TEXT NOT NULL,
        curves TEXT NOT NULL,
        PRIMARY KEY (dataset, method, recipe_checksum, seed, replica)
    ) STRICT
    """,
    "ALTER TABLE runs ADD COLUMN weights_checksum TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN node TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN reason TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX failed ON runs (dataset, method, recipe_checksum, seed) WHERE status = 'failed'",
)
JSON = ("settings", "kept", "versions", "curves")  # columns
LOST = "its worker was lost"  # begins the reason of a run that may succeed another time
_BARE = "(runs.curves = '{}' AND excluded.curves != '{}' AND runs.finished = excluded.finished)"
_LOST = f"runs.status = 'failed' AND runs.reason LIKE '{LOST}%'"


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
            self._migrate(connection)

    def _migrate(self, connection: sqlite3.Connection) -> None:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()  # first: another process may make ours
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if tables and not version:
            raise ValueError(f"{self.path} is no study, but a database of something else")
        if version > len(_MIGRATIONS):
            raise ValueError(f"{self.path} was written by a newer version of compool (format {version})")
        for number in range(version, len(_MIGRATIONS)):
            connection.execute("BEGIN IMMEDIATE")
            (now,) = connection.execute("PRAGMA user_version").fetchone()
            if now == number:  # else another process was faster
                connection.execute(_MIGRATIONS[number])
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")

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
        names = [field.name for field in fields(Run)]
        marks = ", ".join(f":{name}" for name in names)
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            insert = f"INSERT INTO runs ({', '.join(names)}) VALUES ({marks})"
            new = ", ".join(f"{name} = excluded.{name}" for name in names)
            before = connection.total_changes
            connection.executemany(f"{insert} ON CONFLICT DO UPDATE SET {new} WHERE {_LOST} OR {_BARE}", rows)
            connection.execute("COMMIT")
            return connection.total_changes - before

    def runs(self, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Iterator[Run]:
        """All runs, or those of some data sets and methods, in order."""
        with self._connection() as connection:
            found = connection.execute("SELECT * FROM runs ORDER BY dataset, method, recipe, seed, replica").fetchall()
        for row in found:
            if (not datasets or row["dataset"] in datasets) and (not methods or row["method"] in methods):
                yield Run(**{key: json.loads(row[key]) if key in JSON else row[key] for key in row.keys()})  # noqa: SIM118

    def replicas(self, dataset: str, method: str, recipe_checksum: str, seed: int) -> set[int]:
        """Which replicas are there; those whose worker was lost are not."""
        # One row of all, as fetching 100,000 rows takes longer than reading them; both queries read an index
        every = "SELECT json_group_array(replica) FROM runs "
        every += "WHERE dataset = ? AND method = ? AND recipe_checksum = ? AND seed = ?"
        values = (dataset, method, recipe_checksum, seed)
        with self._connection() as connection:
            there, lost = (connection.execute(query, values).fetchone() for query in (every, f"{every} AND {_LOST}"))
        return set(json.loads(there[0])) - set(json.loads(lost[0]))


def _encoded(run: Run) -> dict[str, Any]:
    row = vars(run)  # asdict would copy every number of the curves, which takes as long as all the rest
    return row | {name: json.dumps(row[name]) for name in JSON}
