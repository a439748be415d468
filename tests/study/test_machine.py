import os
from pathlib import Path

import pytest

from compool.study import local_resources
from compool.study.machine import UNKNOWN_MEMORY, free_memory, num_cpus

GIB = 2**30
MEMINFO = {"proc/meminfo": f"MemTotal: {64 * 2**20} kB\nMemFree: 100 kB\nMemAvailable: {32 * 2**20} kB\n"}


def machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


@pytest.fixture(autouse=True)
def _sixteen_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "process_cpu_count", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)), raising=False)


def test_without_limits(tmp_path: Path) -> None:
    root = machine(tmp_path, MEMINFO)
    assert (num_cpus(root), free_memory(root)) == (16, 32 * GIB)


@pytest.mark.parametrize("path", ["/", "/docker/0123", "/../outside"])
def test_limits_of_version_2(tmp_path: Path, path: str) -> None:
    cgroup = {
        "proc/self/cgroup": f"0::{path}",
        "sys/fs/cgroup/cpu.max": "350000 100000",
        "sys/fs/cgroup/memory.max": str(8 * GIB),
        "sys/fs/cgroup/memory.current": str(5 * GIB),
        "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GIB}\ntotal_inactive_file 7",
    }
    root = machine(tmp_path, MEMINFO | cgroup)
    assert (num_cpus(root), free_memory(root)) == (3, 4 * GIB)
    machine(tmp_path, {"sys/fs/cgroup/cpu.max": "max 100000", "sys/fs/cgroup/memory.max": "max"})
    assert (num_cpus(root), free_memory(root)) == (16, 32 * GIB)


def test_the_tightest_limit_of_nested_groups_counts(tmp_path: Path) -> None:
    cgroup = {
        "proc/self/cgroup": "0::/jobs/7",
        "sys/fs/cgroup/jobs/cpu.max": "200000 100000",
        "sys/fs/cgroup/jobs/7/cpu.max": "50000 100000",
        "sys/fs/cgroup/jobs/memory.max": str(2 * GIB),
        "sys/fs/cgroup/jobs/memory.current": str(GIB),
        "sys/fs/cgroup/jobs/7/memory.max": str(4 * GIB),
        "sys/fs/cgroup/jobs/7/memory.current": "0",
    }
    root = machine(tmp_path, MEMINFO | cgroup)
    assert (num_cpus(root), free_memory(root)) == (1, GIB)  # half a CPU is one


@pytest.mark.parametrize("folder", ["", "docker/0123/"])
def test_limits_of_version_1(tmp_path: Path, folder: str) -> None:
    cgroup = {
        "proc/self/cgroup": "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n0::/",
        f"sys/fs/cgroup/cpu,cpuacct/{folder}cpu.cfs_quota_us": "200000",
        f"sys/fs/cgroup/cpu,cpuacct/{folder}cpu.cfs_period_us": "100000",
        f"sys/fs/cgroup/memory/{folder}memory.limit_in_bytes": str(3 * GIB),
        f"sys/fs/cgroup/memory/{folder}memory.usage_in_bytes": str(2 * GIB),
        f"sys/fs/cgroup/memory/{folder}memory.stat": f"total_inactive_file {GIB // 2}",
    }
    root = machine(tmp_path, MEMINFO | cgroup)
    assert (num_cpus(root), free_memory(root)) == (2, 3 * GIB // 2)
    unlimited = {f"sys/fs/cgroup/cpu,cpuacct/{folder}cpu.cfs_quota_us": "-1"}
    unlimited |= {f"sys/fs/cgroup/memory/{folder}memory.limit_in_bytes": str(2**63 - 4096)}
    machine(tmp_path, unlimited)
    assert (num_cpus(root), free_memory(root)) == (16, 32 * GIB)


def test_macos_and_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No /proc, no affinity, and no count of free pages; on Windows, no sysconf either."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 10)
    monkeypatch.setattr(os, "sysconf_names", {"SC_PHYS_PAGES": 1, "SC_PAGE_SIZE": 2})
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 2**22, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert (num_cpus(tmp_path), free_memory(tmp_path)) == (10, 8 * GIB)
    assert local_resources("cpu").workers >= 1
    monkeypatch.delattr(os, "sysconf_names")
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert (num_cpus(tmp_path), free_memory(tmp_path)) == (1, UNKNOWN_MEMORY)
    assert local_resources("cpu").workers == 1


def test_python_3_13_counts_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 5, raising=False)
    assert num_cpus(tmp_path) == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cpu", 0), "workers must be at least 1, got 0"),
        (("tpu", 1), "device must be cpu, cuda or auto; got tpu"),
    ],
)
def test_wrong_resources(arguments: tuple[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        local_resources(*arguments)
