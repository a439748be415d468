"""The CPUs and memory that this process may use: those of the machine, or fewer in a container."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

UNKNOWN_MEMORY = 4 * 2**30  # bytes, where the system does not say


def num_cpus(root: Path = Path("/")) -> int:
    """The number of CPUs that this process may use: those in its affinity mask, at most the quota of its container.

    Args:
        root: the root of the file system.

    Example:
        >>> num_cpus() >= 1
        True
    """
    num_usable: int | None
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        num_usable = os.process_cpu_count()
    elif hasattr(os, "sched_getaffinity"):  # Linux
        num_usable = len(os.sched_getaffinity(0))
    else:
        num_usable = os.cpu_count()
    return max(1, min([num_usable or 1, *(int(quota) for quota in _cpu_quotas(root))]))


def has_gpu_driver() -> bool:
    """Whether the driver of an NVIDIA GPU is installed; asking torch takes seconds.

    Example:
        >>> has_gpu_driver() in (True, False)
        True
    """
    try:
        ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return False
    return True


def free_memory(root: Path = Path("/")) -> int:
    """Bytes that this process may still allocate: what the machine has free, and no more than its container allows.

    Args:
        root: the root of the file system.

    Example:
        >>> free_memory() > 0
        True
    """
    return max(0, min([_free_memory_of_machine(root), *_free_memory_of_containers(root)]))


def _free_memory_of_machine(root: Path) -> int:
    for line in _read_text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):  # includes caches that can be freed
            return int(line.split()[1]) * 1024
    names = getattr(os, "sysconf_names", {})  # none on Windows
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:  # macOS reports only the total memory
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return UNKNOWN_MEMORY


def _cpu_quotas(root: Path) -> Iterator[float]:
    """CPUs that each control group around this process may use, where there is a limit."""
    for group in _groups(root, "cpu"):
        quota, _, period = _read_text(group / "cpu.max").partition(" ")  # version 2
        if not period:
            quota, period = _read_text(group / "cpu.cfs_quota_us"), _read_text(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period) > 0:  # "max" or -1: no limit
            yield int(quota) / int(period)


def _free_memory_of_containers(root: Path) -> Iterator[int]:
    """Bytes that each control group around this process may still use, where there is a limit."""
    for group in _groups(root, "memory"):
        for limit_file, used_file, cache in (
            ("memory.max", "memory.current", "inactive_file"),  # version 2
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = _read_text(group / limit_file), _read_text(group / used_file)
            if limit.isdigit() and used.isdigit():
                stat = dict(
                    line.split(" ", 1) for line in _read_text(group / "memory.stat").splitlines() if " " in line
                )
                reclaimable = stat.get(cache, "0")  # cached files count as used, but are freed on demand
                yield int(limit) - int(used) + (int(reclaimable) if reclaimable.isdigit() else 0)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the control groups that this process is in, from its own up to the root."""
    for line in _read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        mounts = [root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup" / controller]  # version 1
        if not controllers:
            mounts = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]  # version 2
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for mount in dict.fromkeys(mounts):
            # In a container the path may be that of the host: then only the root exists
            yield from (mount.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1))


def _read_text(path: Path) -> str:
    """The text of a file, stripped; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
