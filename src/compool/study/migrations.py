"""The tables of a study's file, and the migration of files of older versions."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from compool.study.checksums import CHECKSUM_COLUMN, run_checksum

MIGRATIONS = (
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
    # SQLite cannot change a primary key: the runs move to a new table, with the columns that somebody else added
    """
    CREATE TABLE moved (
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
        weights_checksum TEXT NOT NULL DEFAULT '',
        node TEXT NOT NULL DEFAULT '',
        reason TEXT NOT NULL DEFAULT '',
        data_checksum TEXT NOT NULL DEFAULT '',
        splits_checksum TEXT NOT NULL DEFAULT '',
        train_graphs INTEGER NOT NULL DEFAULT 0,
        test_graphs INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (dataset, method, recipe_checksum, seed, replica, data_checksum, splits_checksum)
    ) STRICT;
    INSERT INTO moved ({columns}) SELECT {columns} FROM runs;
    DROP TABLE runs;
    ALTER TABLE moved RENAME TO runs;
    CREATE INDEX failed ON runs (dataset, method, recipe_checksum, seed) WHERE status = 'failed'
    """,
    f"ALTER TABLE runs ADD COLUMN {CHECKSUM_COLUMN} TEXT NOT NULL DEFAULT ''",
    # A table of its own, as listing runs should not read weights; `run` is the checksum of the run's row
    "CREATE TABLE weights (run TEXT PRIMARY KEY NOT NULL, tensors BLOB NOT NULL) STRICT",
    "ALTER TABLE runs ADD COLUMN own_source TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN metrics TEXT NOT NULL DEFAULT ''",
)
"""Entry i migrates a file from version i to version i + 1."""


def migrate(connection: sqlite3.Connection, path: Path, names: Sequence[str]) -> None:
    """Make the tables of a new file, or bring those of an older version up to date, all or nothing.

    Runs stay as they are, and get their checksums; `names` are their columns.
    """
    tables = connection.execute("SELECT name FROM sqlite_master").fetchall()  # first: another process may make ours
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and not version:
        raise ValueError(f"{path} is a database, but not a compool study")
    if version > len(MIGRATIONS):
        raise ValueError(f"{path} was written by a newer version of compool (format {version})")
    if version == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
    for step in range(version, len(MIGRATIONS)):
        for statement in MIGRATIONS[step].split(";"):
            for complete in _completed(connection, statement):
                connection.execute(complete)
        connection.execute(f"PRAGMA user_version = {step + 1}")
    _add_checksums(connection, names)
    connection.execute("COMMIT")


def _add_checksums(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Compute the checksums that are missing. A row that cannot be a run gets a checksum that never matches."""
    query = f"SELECT rowid, {', '.join(names)} FROM runs NOT INDEXED WHERE {CHECKSUM_COLUMN} = ''"
    text_factory, connection.text_factory = connection.text_factory, bytes
    for rowid, *values in connection.execute(query):
        try:
            checksum = run_checksum(dict(zip(names, values, strict=True)))
        except TypeError:
            checksum = "damaged"
        connection.execute(f"UPDATE runs SET {CHECKSUM_COLUMN} = ? WHERE rowid = ?", (checksum, rowid))
    connection.text_factory = text_factory


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """The names of a table's columns."""
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _completed(connection: sqlite3.Connection, statement: str) -> Iterator[str]:
    """A statement with ``{columns}`` replaced by the columns of the runs, after adding them to the new table."""
    if "{columns}" not in statement:
        yield statement
        return
    existing, added = columns(connection, "runs"), columns(connection, "moved")
    yield from (f"ALTER TABLE moved ADD COLUMN {_quoted(name)} ANY" for name in existing if name not in added)
    yield statement.format(columns=", ".join(map(_quoted, existing)))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
