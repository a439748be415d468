"""What a study may train on: a device, workers and memory."""

from typing import NamedTuple

from compool.study.machine import free_memory, has_gpu_driver, num_cpus


class Resources(NamedTuple):
    """The device, workers and memory for training blocks."""

    device: str
    """``"cpu"`` or ``"cuda"``."""
    workers: int
    """The number of blocks that are trained at the same time."""
    memory: int
    """Bytes per worker."""
    checkpoints: bool = True
    """Whether workers can write checkpoints beside the store: nodes of a cluster may not share a disk."""


def local_resources(device: str = "auto", workers: int | None = None) -> Resources:
    """The resources of this machine: one worker per core on the CPU, as a second thread gains little; one on a GPU."""
    if device not in ("cpu", "cuda", "auto"):
        raise ValueError(f"device must be cpu, cuda or auto; got {device}")
    require_workers(workers)
    if device != "cpu" and has_gpu_driver():
        import torch

        if torch.cuda.is_available():
            workers = workers or 1
            return Resources("cuda", workers, torch.cuda.mem_get_info()[0] // workers)
    if device == "cuda":
        raise ValueError("torch finds no CUDA device here; choose device cpu or auto")
    workers = workers or num_cpus()
    return Resources("cpu", workers, free_memory() // workers)


def require_workers(workers: int | None) -> None:
    """Raise a ValueError if there is no worker; None is the default number."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
