import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest

from compool.study import Run, Store

CODE = """
import sys
from pathlib import Path
from threading import Barrier
from compool.study import Store
from tests.study.test_store import example
store = Store(Path(sys.argv[1]))
for replica in range(int(sys.argv[2]), 10**6):
    store.add([example(2 * replica), example(2 * replica + 1)])
    print(replica, flush=True)
"""


def example(replica: int, **changes: object) -> Run:
    fields = {
        "dataset": "NCI1",
        "method": "component",
        "recipe": "fast",
        "recipe_checksum": "0123",
        "settings": {"lr": 0.1},
        "seed": 0,
        "replica": replica,
        "split_checksum": "4567",
        "status": "done",
        "test": 0.75,
        "validation": 0.8,
        "epoch": 3,
        "kept": [0.5],
        "parameters": 802,
        "seconds": 1.5,
        "block": 10,
        "device": "cpu",
        "versions": {"torch": "2.13.0"},
        "finished": "2026-11-15T12:00:00+00:00",
        "curves": {"loss": [0.7, None], "validation": [0.5, 0.8], "test": [0.5, 0.75], "kept": [[1.0], [0.5]]},
    }
    return Run(**fields | changes)


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "study.sqlite")
    runs = [example(0), example(1, status="failed", test=None, validation=None, epoch=None, kept=[])]
    store.add(runs)
    assert list(Store(store.path).runs()) == runs
    assert store.add([example(0, test=0.1)]) == 0  # there already: left as it is
    assert next(iter(store.runs())).test == 0.75
    assert store.replicas("NCI1", "component", "0123", 0) == {0, 1}
    assert store.replicas("NCI1", "component", "other settings", 0) == set()
    store.add([example(0, dataset="MUTAG"), example(0, method="gin")])
    assert [(run.dataset, run.method) for run in store.runs(["MUTAG"])] == [("MUTAG", "component")]
    assert [run.method for run in store.runs(methods=["gin"])] == ["gin"]


def test_several_threads_may_create_one_store(tmp_path: Path) -> None:
    for attempt in range(10):
        barrier = Barrier(4)

        def create(barrier: Barrier = barrier, path: Path = tmp_path / f"{attempt}.sqlite") -> None:
            barrier.wait()
            Store(path)

        with ThreadPoolExecutor(4) as threads:
            for future in [threads.submit(create) for _ in range(4)]:
                future.result()


def test_a_run_gets_its_curves_when_they_come_later(tmp_path: Path) -> None:
    store, whole = Store(tmp_path / "study.sqlite"), example(0, curves={"loss": [1.0]})
    assert store.add([example(0, curves={}), example(1)]) == 2
    assert store.add([example(0, curves={"loss": [2.0]}, finished="another day")]) == 0
    assert store.add([whole]) == 1
    assert next(store.runs()) == whole


def test_all_or_none(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    with pytest.raises(ValueError, match="cannot store this run"):
        store.add([example(0), example(1, status="lost")])
    assert list(store.runs()) == []


def test_a_run_whose_worker_was_lost_is_trained_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    broken = example(0, status="failed", reason="its loss, logits or weights were NaN or infinite")
    store.add([broken, example(1, status="failed", reason="its worker was lost 4 times"), example(2)])
    run = example(0)
    assert store.replicas(run.dataset, run.method, run.recipe_checksum, run.seed) == {0, 2}
    store.add([example(0), example(1), example(2, test=0.1)])
    assert list(store.runs()) == [broken, example(1), example(2)]
    assert store.replicas(run.dataset, run.method, run.recipe_checksum, run.seed) == {0, 1, 2}


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE things (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="is a database, but not a compool study"):
        Store(path)
    assert path.read_bytes() == before


def test_files_that_are_no_study(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    path.write_text("nonsense " * 200)
    with pytest.raises(
        ValueError, match=r"study\.sqlite is damaged, or not a compool study \(file is not a database\)"
    ):
        Store(path)
    assert path.read_text() == "nonsense " * 200  # left alone


def test_an_empty_database_with_a_version_is_no_study(tmp_path: Path) -> None:
    path = tmp_path / "study.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 11")
    with pytest.raises(ValueError, match="is a database, but not a compool study"):
        Store(path)


@pytest.mark.parametrize(("version", "age"), [(1, "an older"), (99, "a newer")])
def test_a_file_of_another_version_is_left_alone(tmp_path: Path, version: int, age: str) -> None:
    path = tmp_path / "study.sqlite"
    Store(path).add([example(0)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"was written by {age} version of compool \(format {version}, not "):
        Store(path)
    assert path.read_bytes() == before


def test_columns_of_somebody_else_are_kept_and_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "study.sqlite")
    store.add([example(0)])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        connection.execute("ALTER TABLE runs ADD COLUMN 'my; note' TEXT")
        connection.execute("UPDATE runs SET 'my; note' = 'good'")
    assert list(store.runs()) == [example(0)]
    assert caplog.messages == [f"{store.path} has columns that compool does not know and ignores: my; note"]
    assert store.add([example(1)]) == 1
    with closing(sqlite3.connect(store.path)) as connection:
        assert connection.execute('SELECT "my; note" FROM runs ORDER BY replica').fetchall() == [("good",), (None,)]


DAMAGE = {
    "test": 0.75000001,
    "validation": None,
    "epoch": 4,
    "seconds": 1.0,
    "replica": 7,
    "seed": 1,
    "dataset": "NCI0",
    "method": "componenu",
    "recipe_checksum": "0122",
    "data_checksum": "a",
    "curves": '{"loss": [0.6]}',
    "settings": '{"lr": 0.2}',
    "device": b"\xff",
    "node": "host",
    "test_graphs": 1,
    "status": "failed",
    "finished": "2026-11-15T12:00:00+00:01",
    "checksum": "",
}


@pytest.mark.parametrize("column", DAMAGE)
def test_a_damaged_run_is_left_out_and_trained_again(
    column: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, value = Store(tmp_path / "study.sqlite"), DAMAGE[column]
    store.add([example(replica) for replica in range(4)])
    with closing(sqlite3.connect(store.path)) as connection, connection:
        mark = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        connection.execute(f"UPDATE runs SET {column} = {mark} WHERE replica = 2", [value])
    assert list(store.runs()) == [example(0), example(1), example(3)]
    expected = {"dataset": "NCI1", "method": "component", "replica": 2} | {column: value}
    named = "{dataset} {method} replica {replica}".format(**expected)
    message = f"{store.path}: 1 damaged run is left out: {named} (compool run trains missing runs)"
    assert caplog.messages == [message]
    assert store.replicas("NCI1", "component", "0123", 0) == {0, 1, 3}
    if column not in ("dataset", "method", "recipe_checksum", "seed", "replica"):
        assert store.add([example(2), example(3)]) == 1
        assert list(store.runs()) == [example(replica) for replica in range(4)]
        assert caplog.messages == [message] * 2


@pytest.mark.parametrize(("before", "after"), [(b"NCI1component", b"NCI3component"), (b"0123", b"0133")])
def test_damage_on_the_disk(before: bytes, after: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Keys are in the table and in its index: wherever they are damaged, runs are not lost, and can be stored again."""
    store = Store(tmp_path / "study.sqlite")
    store.add([example(replica) for replica in range(4)])
    content = store.path.read_bytes()
    places = [place for place in range(len(content)) if content.startswith(before, place)]
    assert len(places) >= 8
    for place in places:
        store.path.write_bytes(content[:place] + after + content[place + len(before) :])
        caplog.clear()
        found = list(store.runs())
        there = store.replicas("NCI1", "component", "0123", 0)
        assert {run.replica for run in found} == there
        assert len(there) == 4 or (len(there) == 3 and "1 damaged run is left out: NCI" in caplog.text)
        store.add([example(replica) for replica in range(4) if replica not in there])
        assert list(Store(store.path).runs()) == [example(replica) for replica in range(4)]
        with closing(sqlite3.connect(store.path)) as connection:
            if len(there) == 3:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("place", [b"CREATE TABLE", b"dataset TEXT", b"replica INTEGER", b"tablerunsruns", b"NULL"])
def test_a_damaged_table_is_an_error_of_one_line(place: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    store.add([example(0)])
    content = store.path.read_bytes()
    assert place in content
    store.path.write_bytes(content.replace(place, bytes([place[0] ^ 0x80]) + place[1:]))
    with pytest.raises(ValueError, match=f"^{re.escape(str(store.path))} [^\\n]*$"):
        list(Store(store.path).runs())


def test_a_damaged_index_is_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Store(tmp_path / "study.sqlite")
    store.add([example(replica) for replica in range(4)])
    with closing(sqlite3.connect(store.path)) as connection:
        name = "sqlite_autoindex_runs_1"
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [name]).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(store.path.read_bytes())
    content[(page - 1) * size + 5] ^= 0x80  # where its entries begin
    store.path.write_bytes(content)
    assert len(list(store.runs())) == 4
    assert store.add([example(4)]) == 1
    assert f"{store.path}: the index was damaged (database disk image is malformed) and has been rebuilt" in caplog.text
    assert list(store.runs()) == [example(replica) for replica in range(5)]


def test_checksums_are_of_what_is_stored(tmp_path: Path) -> None:
    """Whole numbers become floats, NaN becomes NULL, and there is no negative zero."""
    store = Store(tmp_path / "study.sqlite")
    store.add([example(0, test=1, seconds=0), example(1, test=float("nan"), validation=-0.0)])
    first, second = store.runs()
    assert (first.test, first.seconds, second.test, second.validation) == (1.0, 0.0, None, 0.0)


def test_other_data_are_other_runs(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    assert store.add([example(0, data_checksum="a"), example(0, data_checksum="b"), example(1, data_checksum="b")]) == 3
    assert store.replicas("NCI1", "component", "0123", 0, "a") == {0}
    assert store.replicas("NCI1", "component", "0123", 0, "b") == {0, 1}
    assert store.replicas("NCI1", "component", "0123", 0, "c") == set()
    assert store.num_runs_of_other_data("NCI1", "b") == 1
    assert store.add([example(0, data_checksum="a", splits_checksum="x")]) == 0  # the first says nothing of a file
    assert store.add([example(2, data_checksum="a", splits_checksum=file) for file in "xy"]) == 2
    assert store.replicas("NCI1", "component", "0123", 0, "a", "x") == {0, 2}


def test_runs_without_a_checksum_are_of_the_same_data(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    lost = example(1, status="failed", reason="its worker was lost 4 times")
    store.add([example(0), lost, example(2, data_checksum="a")])
    assert store.replicas("NCI1", "component", "0123", 0, "a") == {0, 2}
    assert store.num_runs_of_other_data("NCI1", "a") == 0
    assert store.add([example(replica, data_checksum="a") for replica in range(3)]) == 1
    assert store.add([example(2)]) == 0
    assert list(store.runs()) == [example(0), example(1, data_checksum="a"), example(2, data_checksum="a")]


def writer(path: Path, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CODE, str(path), str(first)]
    root = Path(__file__).parent.parent.parent
    paths = os.pathsep.join([".", *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": paths}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root, env=env)


def test_two_writers_and_kill_9(tmp_path: Path) -> None:
    """What was reported as stored is there, pairs are whole, and the file opens and takes more."""
    path = tmp_path / "study.sqlite"
    writers = [writer(path, 0), writer(path, 10**5)]
    try:
        for process in writers:
            assert process.stdout is not None
            assert process.stdout.readline()  # both have stored something
        time.sleep(0.5)
    finally:
        for process in writers:
            process.send_signal(signal.SIGKILL)
    reported = [int(line) for process in writers for line in process.communicate()[0].split()]
    found = {run.replica for run in Store(path).runs()}
    assert {2 * pair for pair in reported} <= found
    assert all((replica ^ 1) in found for replica in found)
    Store(path).add([example(9 * 10**6)])
