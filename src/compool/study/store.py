"""The store of finished runs: one SQLite file per study."""

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from compool.study.checksums import is_intact
from compool.study.runs import COLUMNS, LOST_WORKER, STORED_COLUMNS, decode_run, describe_damaged, encode_run, is_lost
from compool.study.runs import Run as Run
from compool.study.schema import create_tables

_log = logging.getLogger(__name__)

_ADDS_CURVES = "(runs.curves = '{}' AND excluded.curves != '{}' AND runs.finished = excluded.finished)"
_LOST = f"runs.status = 'failed' AND runs.reason LIKE '{LOST_WORKER}%'"
# The same run, with a checksum of the data on one side only: older versions stored none
_MAYBE_SAME_RUN = """
    runs.dataset = :dataset AND runs.method = :method AND runs.recipe_checksum = :recipe_checksum
    AND runs.seed = :seed AND runs.replica = :replica
    AND (runs.data_checksum != :data_checksum OR runs.splits_checksum != :splits_checksum)
    AND (runs.data_checksum = :data_checksum OR runs.data_checksum = '' OR :data_checksum = '')
    AND (runs.splits_checksum = :splits_checksum OR runs.splits_checksum = '' OR :splits_checksum = '')
"""

_ADD_WEIGHTS = """
    INSERT OR IGNORE INTO weights SELECT :checksum, :tensors WHERE EXISTS (
        SELECT 1 FROM runs WHERE dataset = :dataset AND method = :method AND recipe_checksum = :recipe_checksum
        AND seed = :seed AND replica = :replica AND checksum = :checksum
    )
"""  # unless another training of the same run was stored first


class Store:
    """A study's file. Several processes may write to it; a killed process leaves it intact.

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
            create_tables(connection, path)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=60, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                yield connection
        except sqlite3.IntegrityError as error:
            raise ValueError(f"{self.path} cannot store this run ({_one_line(error)})") from None
        except sqlite3.OperationalError as error:  # disk full, no permission, locked
            raise ValueError(f"{self.path} could not be read or written ({_one_line(error)})") from None
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # column names may not be UTF-8
            raise ValueError(f"{self.path} is damaged, or not a compool study ({_one_line(error)})") from None

    def add(self, runs: Iterable[Run]) -> int:
        """Store all runs or none, with their weights, and return how many are new.

        A run that is already stored is kept, unless it is damaged, its worker was lost, or it is the same run without
        its curves.
        """
        runs = list(runs)
        rows = [encode_run(run) for run in runs]
        weights = [run.weights for run in runs]
        with self._connection() as connection:
            try:
                return _add(connection, rows, weights)
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                    raise
                connection.execute("ROLLBACK")
                connection.execute("REINDEX")  # runs are read without the index
                _log.warning("%s: the index was damaged (%s) and has been rebuilt", self.path, _one_line(error))
                return _add(connection, rows, weights)

    def runs(self, datasets: Sequence[str] = (), methods: Sequence[str] = (), curves: bool = True) -> Iterator[Run]:
        """All runs, or those of some data sets and methods, sorted; without `curves`, their curves are left empty.

        A run that does not match its checksum is left out, with a warning.
        """
        with self._connection() as connection:
            table = connection.execute("SELECT name FROM pragma_table_info('runs')").fetchall()
        extra = [name for (name,) in table if name not in STORED_COLUMNS]
        if extra:
            _log.warning("%s has columns that compool does not know and ignores: %s", self.path, ", ".join(extra))
        conditions, parameters = ["1"], list[str]()
        for column, names in (("dataset", datasets), ("method", methods)):
            if names:
                conditions.append(f"{column} IN ({', '.join('?' * len(names))})")
                parameters += names
        order = "ORDER BY dataset, method, recipe, seed, replica, finished"
        for row in self._intact(f"{' AND '.join(conditions)} {order}", parameters):
            yield decode_run(row if curves else row | {"curves": b"{}"})

    def _intact(self, condition: str, parameters: Sequence[Any]) -> Iterator[dict[str, Any]]:
        """The rows that meet a condition and match their checksums, text as bytes; a warning names the others."""
        # Read the table itself: the index may be damaged, too, and has no checksums
        query = f"SELECT {', '.join(STORED_COLUMNS)} FROM runs NOT INDEXED WHERE {condition}"
        with self._connection() as connection:
            connection.text_factory = bytes  # damaged text may not be UTF-8
            rows = connection.execute(query, parameters).fetchall()
        damaged = []
        for row in map(dict, rows):
            if is_intact(row, COLUMNS):
                yield row
            else:
                damaged.append(row)
        if damaged:
            _log.warning("%s: %s", self.path, describe_damaged(damaged))

    def replicas(
        self,
        dataset: str,
        method: str,
        recipe_checksum: str,
        seed: int,
        data_checksum: str = "",
        splits_checksum: str = "",
    ) -> set[int]:
        """The stored replicas, except those whose worker was lost.

        With a checksum, only those of the same data and splits, and those that were stored without a checksum.
        """
        condition = "dataset = ? AND method = ? AND recipe_checksum = ? AND seed = ?"
        parameters = [dataset, method, recipe_checksum, seed]
        for column, checksum in (("data_checksum", data_checksum), ("splits_checksum", splits_checksum)):
            if checksum:
                condition += f" AND {column} IN ('', ?)"
                parameters.append(checksum)
        return {row["replica"] for row in self._intact(condition, parameters) if not is_lost(row)}

    def weights(self, run: Run) -> bytes:
        """The weights of a stored run, for :func:`~compool.study.runs.decode_weights`; empty if none were kept."""
        names = ("recipe_checksum", "seed", "replica", "data_checksum", "splits_checksum", "finished")
        condition = " AND ".join(f"runs.{name} = ?" for name in names)  # not the data set's name: reports change it
        query = f"SELECT tensors FROM weights JOIN runs ON weights.run = runs.checksum WHERE {condition}"
        with self._connection() as connection:
            row = connection.execute(query, [getattr(run, name) for name in names]).fetchone()
        return bytes(row[0]) if row else b""

    def splits(self, recipe_checksum: str, seed: int, data_checksum: str) -> dict[int, set[str]]:
        """The checksums of the splits of each stored replica of a recipe, on data with this checksum."""
        splits: dict[int, set[str]] = {}
        condition = "recipe_checksum = ? AND seed = ? AND data_checksum IN ('', ?)"
        for row in self._intact(condition, [recipe_checksum, seed, data_checksum]):
            if not is_lost(row):
                splits.setdefault(row["replica"], set()).add(row["split_checksum"].decode(errors="replace"))
        return splits

    def num_runs_of_other_data(self, dataset: str, data_checksum: str) -> int:
        """The number of runs on a data set of this name with other graphs."""
        query = "SELECT count(*) FROM runs WHERE dataset = ? AND data_checksum NOT IN ('', ?)"
        with self._connection() as connection:
            (num_runs,) = connection.execute(query, (dataset, data_checksum)).fetchone()
        return int(num_runs)


def _add(connection: sqlite3.Connection, rows: Sequence[Mapping[str, Any]], weights: Sequence[bytes]) -> int:
    """Store rows and their weights in a transaction, and return how many are new."""
    marks = ", ".join(f":{name}" for name in STORED_COLUMNS)
    connection.execute("BEGIN IMMEDIATE")
    _remove_damaged(connection, rows)
    connection.executemany(f"DELETE FROM runs WHERE {_LOST} AND {_MAYBE_SAME_RUN}", rows)
    insert = f"INSERT INTO runs ({', '.join(STORED_COLUMNS)}) SELECT {marks} "
    insert += f"WHERE NOT EXISTS (SELECT 1 FROM runs WHERE {_MAYBE_SAME_RUN})"
    updates = ", ".join(f"{name} = excluded.{name}" for name in STORED_COLUMNS)
    before = connection.total_changes
    connection.executemany(f"{insert} ON CONFLICT DO UPDATE SET {updates} WHERE {_LOST} OR {_ADDS_CURVES}", rows)
    num_new = connection.total_changes - before
    kept = [{**row, "tensors": tensors} for row, tensors in zip(rows, weights, strict=True) if tensors]
    connection.executemany(_ADD_WEIGHTS, kept)
    connection.execute("COMMIT")
    return num_new


def _remove_damaged(connection: sqlite3.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Remove damaged rows of these runs, so that they can be stored again."""
    # The inner query reads the key in the index, the outer query that in the table: either may be damaged
    query = f"""
        SELECT rowid, {", ".join(STORED_COLUMNS)} FROM runs WHERE rowid IN (
            SELECT rowid FROM runs WHERE dataset = :dataset AND method = :method
            AND recipe_checksum = :recipe_checksum AND seed = :seed AND replica = :replica
        )
    """
    text_factory, connection.text_factory = connection.text_factory, bytes
    stored = [dict(row) for new in rows for row in connection.execute(query, new)]
    connection.text_factory = text_factory
    damaged = [(row["rowid"],) for row in stored if not is_intact(row, COLUMNS)]
    if damaged:
        connection.execute("PRAGMA writable_schema = ON")  # otherwise, a row that is not in the index cannot be deleted
        connection.executemany("DELETE FROM runs WHERE rowid = ?", damaged)
        connection.execute("PRAGMA writable_schema = OFF")
        connection.execute("DELETE FROM weights WHERE run NOT IN (SELECT checksum FROM runs)")
        connection.execute("REINDEX")


def _one_line(error: Exception) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())
