"""Separate runs of different data with the same name: other graphs, or other splits from the same file name."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import NamedTuple

from compool._words import counted
from compool.data import SPLIT_KINDS
from compool.study.store import Run


class _Kind(NamedTuple):
    """A kind of input that may differ under the same name."""

    word: str
    checksum: Callable[[Run], str]
    group: Callable[[Run], Hashable]
    """Runs of the same group should have the same checksum."""


def _has_drawn_splits(run: Run) -> bool:
    """Whether the splits were drawn, not read from a file: these have no checksum, in any version."""
    return not run.splits_checksum and run.settings.get("splits", "independent") in SPLIT_KINDS


_KINDS = (
    _Kind("data", lambda run: run.data_checksum, lambda run: run.dataset),
    _Kind("splits", lambda run: run.splits_checksum, lambda run: (run.dataset, run.recipe, _has_drawn_splits(run))),
)


def separate_data(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """Rename the data set of runs on other data, or with other splits from a file of the same name.

    The data with the most runs keep the name; if tied, those of the latest run. Runs of older versions, which have no
    checksum, are assumed to use these data.

    Returns:
        The runs in the same order, and a warning for each data set that was renamed or that has runs without a
        checksum among others.

    Example:
        >>> separate_data([])
        ([], [])
    """
    renamed, warnings = list(runs), list[str]()
    for kind in _KINDS:
        groups: dict[Hashable, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for position, run in enumerate(renamed):
            groups[kind.group(run)][kind.checksum(run)].append(position)
        for group in groups.values():
            unknown = group.pop("", [])
            if not group:
                continue

            def weight(positions: list[int]) -> tuple[int, str]:
                return len(positions), max(renamed[position].finished for position in positions)

            kept, *others = sorted(group, key=lambda checksum: weight(group[checksum]), reverse=True)
            name = renamed[group[kept][0]].dataset
            for checksum in others:
                other = f"{name} [{kind.word} {checksum[:8]}]"
                for position in group[checksum]:
                    renamed[position] = replace(renamed[position], dataset=other)
                warnings.append(
                    f"{name}: shown as {other}: {counted(len(group[checksum]), 'run')} trained on other {kind.word} "
                    f"with this name (checksum {checksum[:8]} instead of {kept[:8]})."
                )
            if unknown:
                warnings.append(
                    f"{name}: {counted(len(unknown), 'run')} of older versions without a checksum of the {kind.word}, "
                    f"assumed to be {kind.word} {kept[:8]}."
                )
    return renamed, warnings
