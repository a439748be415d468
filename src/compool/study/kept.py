"""Find a run in a study, and rebuild its network from the stored weights."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from compool.study.metrics import METRICS, chosen_metric
from compool.study.recipe_settings import IMPLIED, Recipe
from compool.study.runs import Run, decode_weights
from compool.study.store import Store

if TYPE_CHECKING:
    from torch.nn import Module


def find_run(
    store: Path,
    dataset: str,
    method: str,
    recipe: str = "",
    replica: int | None = None,
    seed: int | None = None,
    data_checksum: str = "",
) -> Run:
    """A finished run of a study, without curves; by default the one with the best validation metric.

    Args:
        store: the study's file.
        dataset: its data set.
        method: its method.
        recipe: the name of its recipe; by default any.
        replica: its replica; by default any.
        seed: its seed; by default any.
        data_checksum: the checksum of the graphs it was trained on; by default any.

    Raises:
        ValueError: if there is no such run; the message lists what the study has.
    """
    runs = [run for run in Store(store).runs(curves=False) if run.status == "done"]
    wanted = f"{store} has no finished run of {method} on {dataset}"
    candidates = [run for run in runs if (run.dataset, run.method) == (dataset, method)]
    if not candidates:
        pairs = dict.fromkeys(f"{run.method} on {run.dataset}" for run in runs)
        raise ValueError(f"{wanted}; it has {', '.join(pairs) or 'no finished runs'}")
    if recipe:
        names = dict.fromkeys(run.recipe for run in candidates)
        candidates = [run for run in candidates if run.recipe == recipe]
        if not candidates:
            raise ValueError(f"{wanted} with recipe {recipe}; its recipes are {', '.join(names)}")
    if seed is not None:
        seeds = number_ranges(run.seed for run in candidates)
        candidates = [run for run in candidates if run.seed == seed]
        if not candidates:
            raise ValueError(f"{wanted} with seed {seed}; its seeds are {seeds}")
    if replica is not None:
        by_recipe = {
            run.recipe: [other.replica for other in candidates if other.recipe == run.recipe] for run in candidates
        }
        candidates = [run for run in candidates if run.replica == replica]
        if not candidates:
            listed = "; ".join(f"recipe {name}: {number_ranges(numbers)}" for name, numbers in by_recipe.items())
            raise ValueError(f"{wanted} with replica {replica}; it has replicas of {listed}")
    if data_checksum:
        same_data = [run for run in candidates if run.data_checksum in ("", data_checksum)]
        if not same_data:
            raise other_data_error(best_run(candidates), data_checksum)
        candidates = same_data
    return best_run(candidates)


def other_data_error(run: Run, data_checksum: str) -> ValueError:
    """The error for a run that was trained on other data than those with this checksum."""
    return ValueError(
        f"{run.method} on {run.dataset}, recipe {run.recipe}, replica {run.replica} was trained on other data named "
        f"{run.dataset} (checksum {run.data_checksum}, not {data_checksum}); give the same data again. A function must "
        "return the same graphs in every call"
    )


def best_run(runs: Sequence[Run]) -> Run:
    """The finished run with the best validation metric; if tied, the one with the lowest replica.

    If the epochs of the runs were picked by several metrics, all runs are compared by that of the first.
    """
    finished = [run for run in runs if run.status == "done"]
    if not finished:
        raise ValueError(f"no training of {runs[0].method} on {runs[0].dataset} finished: {runs[0].reason}")
    metric = chosen_metric(finished[0].metrics)
    sign = 1 if METRICS[metric].higher else -1

    def rank(run: Run) -> tuple[float, int]:
        value = run.validation
        if chosen_metric(run.metrics) != metric:
            value = run.metrics.get("validation", {}).get(metric)
        return -math.inf if value is None else sign * value, -run.replica

    return max(finished, key=rank)


def number_ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as text, with ranges.

    Example:
        >>> number_ranges([0, 1, 2, 3, 7, 9, 8, 12])
        '0-3, 7-9, 12'
    """
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def recipe_of(run: Run) -> Recipe:
    """The recipe that a run was trained with."""
    try:
        return Recipe(**IMPLIED | run.settings)
    except TypeError:
        raise ValueError(f"the settings of {run.dataset} {run.method} come from another version of compool") from None


def kept_network(run: Run, weights: bytes, width: int, num_classes: int) -> "Module":
    """The network of a run, in evaluation mode.

    Args:
        run: the run.
        weights: what :meth:`~compool.study.Store.weights` returned.
        width: number of features of each node.
        num_classes: number of classes or targets.

    Raises:
        ValueError: if the weights are damaged, or do not fit.
    """
    named = f"the weights of {run.dataset} {run.method}, recipe {run.recipe}, replica {run.replica}"
    try:
        tensors = decode_weights(weights)
    except ValueError as error:
        raise ValueError(f"{named} are damaged: {error}") from None
    network = recipe_of(run).network(width, num_classes, run.metrics.get("task", "classification"))
    try:
        network.load_state_dict(tensors)
    except RuntimeError:
        raise ValueError(f"{named} do not fit this data set") from None
    return network.eval()
