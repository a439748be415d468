"""The tables of a study's file."""

import sqlite3
from pathlib import Path

FORMAT = 11  # of the tables below; SQLite keeps it as the file's `user_version`
_TABLES = (
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
        weights_checksum TEXT NOT NULL,
        node TEXT NOT NULL,
        reason TEXT NOT NULL,
        data_checksum TEXT NOT NULL,
        splits_checksum TEXT NOT NULL,
        train_graphs INTEGER NOT NULL,
        test_graphs INTEGER NOT NULL,
        own_source TEXT NOT NULL,
        metrics TEXT NOT NULL,
        checksum TEXT NOT NULL,
        PRIMARY KEY (dataset, method, recipe_checksum, seed, replica, data_checksum, splits_checksum)
    ) STRICT
    """,
    "CREATE INDEX failed ON runs (dataset, method, recipe_checksum, seed) WHERE status = 'failed'",
    # A separate table, so that listing runs does not read weights; `run` is the checksum of the run's row
    "CREATE TABLE weights (run TEXT PRIMARY KEY NOT NULL, tensors BLOB NOT NULL) STRICT",
)


def create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file, all or none; a ValueError if the file is not a study of this format."""
    if _has_tables(connection, path):
        return
    connection.execute("BEGIN IMMEDIATE")
    if not _has_tables(connection, path):  # another process may have created them
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    count = "SELECT count(*) FROM sqlite_master"
    query = f"SELECT user_version, ({count}), ({count} WHERE name = 'runs') FROM pragma_user_version"
    version, tables, runs = connection.execute(query).fetchone()
    if not version and not tables:
        return False
    if not version or not runs:
        raise ValueError(f"{path} is a database, but not a compool study")
    if version != FORMAT:
        age = "a newer" if version > FORMAT else "an older"
        raise ValueError(
            f"{path} was written by {age} version of compool (format {version}, not {FORMAT}): export its runs with "
            "that version (compool runs --csv --curves) and import them with `compool add`; weights are not included"
        )
    return True
