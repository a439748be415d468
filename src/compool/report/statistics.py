"""Tests of the difference between two methods.

The paper compares 100 test accuracies of each method with a t-test for independent samples. They are not independent:
random splits of a data set overlap, so this test finds differences too easily. The corrected resampled t-test (Nadeau
and Bengio 2003) increases the variance to allow for that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

SIGNIFICANCE = 0.05  # level, as in the paper
POWER = 0.8  # of the test for a detectable difference
EQUIVALENCE_MARGIN = 2.0  # points: methods that differ by less are equivalent
TEST_TO_TRAIN = 1 / 8  # ratio of test to training graphs in the paper's 80/10/10 splits


class Summary(NamedTuple):
    """Mean, standard deviation (of a sample; 0 if there is one value) and number of values."""

    mean: float
    std: float
    num_values: int


def summarize(values: Sequence[float]) -> Summary:
    """Mean, standard deviation and number of values.

    Example:
        >>> summarize([0.7, 0.8, 0.9])
        Summary(mean=0.8, std=0.1, num_values=3)
    """
    if not values:
        raise ValueError("values must hold at least one number, got none")
    std = stdev(values) if len(values) > 1 else 0.0
    return Summary(round(fmean(values), 12), round(std, 12), len(values))  # so that equal values give exactly 0


def t_test(first: Summary, second: Summary) -> float | None:
    """The p-value of the paper's two-tailed t-test for independent samples of equal variance; None for single values.

    Example:
        >>> round(t_test(Summary(74.7, 3.9, 100), Summary(73.5, 4.6, 100)), 3)  # the paper says 0.048
        0.048
    """
    from scipy import stats

    if first.num_values < 2 or second.num_values < 2:
        return None
    if first.std == second.std == 0:
        return 1.0 if first.mean == second.mean else 0.0
    return float(stats.ttest_ind_from_stats(*first, *second).pvalue)


class Corrected(NamedTuple):
    """The mean of paired differences, its p-value and its confidence interval."""

    difference: float
    p_value: float
    low: float
    high: float


def corrected_t_test(differences: Sequence[float], ratio: float = TEST_TO_TRAIN) -> Corrected | None:
    """The corrected resampled t-test of paired differences, two-tailed; None for fewer than two.

    The variance of the mean of n differences is estimated as (1/n + ratio) times their variance, not 1/n times.

    Args:
        differences: the differences of two methods' accuracies, one per split.
        ratio: the ratio of test to training graphs.

    Example:
        >>> corrected_t_test([0.01, 0.02, 0.03], ratio=1 / 8)
        Corrected(difference=0.02, p_value=0.098..., low=-0.009..., high=0.049...)
    """
    from scipy import stats

    if len(differences) < 2:
        return None
    mean, std, num_values = summarize(differences)
    error = std * math.sqrt(1 / num_values + ratio)
    if error == 0:
        return Corrected(mean, 1.0 if mean == 0 else 0.0, mean, mean)
    margin = error * float(stats.t.ppf(1 - SIGNIFICANCE / 2, num_values - 1))
    p_value = 2 * float(stats.t.sf(abs(mean) / error, num_values - 1))
    return Corrected(mean, p_value, mean - margin, mean + margin)


def equivalence_test(differences: Sequence[float], margin: float, ratio: float = TEST_TO_TRAIN) -> float | None:
    """The p-value of two one-sided corrected resampled t-tests: that the mean difference lies within ± `margin`.

    None for fewer than two differences.

    Example:
        >>> round(equivalence_test([0.1, -0.1, 0.2, -0.2], margin=2.0), 4)
        0.0002
    """
    from scipy import stats

    if len(differences) < 2:
        return None
    mean, std, num_values = summarize(differences)
    error = std * math.sqrt(1 / num_values + ratio)
    if error == 0:
        return 0.0 if abs(mean) < margin else 1.0
    return float(stats.t.sf((margin - abs(mean)) / error, num_values - 1))


def detectable_difference(
    differences: Sequence[float], power: float = POWER, ratio: float = TEST_TO_TRAIN
) -> float | None:
    """The mean difference that the corrected resampled t-test detects with this `power`; None for fewer than two.

    Uses Student's t instead of the noncentral t, which makes little difference for many splits.

    Example:
        >>> round(detectable_difference([0.0, 1.0] * 50), 2)
        0.52
    """
    from scipy import stats

    if len(differences) < 2:
        return None
    _, std, num_values = summarize(differences)
    error = std * math.sqrt(1 / num_values + ratio)
    quantiles = stats.t.ppf([1 - SIGNIFICANCE / 2, power], num_values - 1)
    return error * float(sum(quantiles))


def wilcoxon(differences: Sequence[float]) -> float | None:
    """The p-value of Wilcoxon's signed-rank test of paired differences, two-tailed; None for fewer than two.

    Example:
        >>> wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0])  # all of one sign: 2 of the 32 ways to choose signs
        0.0625
    """
    from scipy import stats

    if len(differences) < 2:
        return None
    signed = [round(difference, 12) for difference in differences]  # so that equal accuracies differ by exactly 0
    if not any(signed):
        return 1.0
    return float(stats.wilcoxon(signed).pvalue)


def effect_size(first: Summary, second: Summary) -> float | None:
    """Cohen's d: the difference of means in pooled standard deviations; None if these are 0.

    Example:
        >>> effect_size(Summary(74.0, 3.0, 10), Summary(71.0, 3.0, 10))
        1.0
    """
    degrees_of_freedom = first.num_values + second.num_values - 2
    if degrees_of_freedom < 1:
        return None
    pooled = ((first.num_values - 1) * first.std**2 + (second.num_values - 1) * second.std**2) / degrees_of_freedom
    return (first.mean - second.mean) / math.sqrt(pooled) if pooled > 0 else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction for several tests: the k-th smallest of m is multiplied by m − k + 1; None stays None.

    Example:
        >>> holm([0.01, 0.04, None, 0.03])
        [0.03, 0.06, None, 0.06]
    """
    ordered = sorted((value, index) for index, value in enumerate(p_values) if value is not None)
    corrected: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (value, index) in enumerate(ordered):
        largest = max(largest, min(1.0, value * (len(ordered) - rank)))
        corrected[index] = largest
    return corrected


@dataclass(frozen=True)
class Comparison:
    """Two methods on a data set, the first against the second."""

    t: float | None
    """p-value of the paper's t-test."""
    pairs: int
    """Splits that both were tested on."""
    corrected: Corrected | None
    wilcoxon: float | None
    effect: float | None
    ratio: float = TEST_TO_TRAIN
    """The ratio of test to training graphs, for the corrected test."""
    detectable: float | None = None
    """The difference that the corrected test detects with a probability of :data:`POWER`."""
    equivalence: float | None = None
    """p-value of the equivalence test; None without a margin."""


def compare(
    first: Sequence[float],
    second: Sequence[float],
    pairs: Sequence[tuple[float, float]],
    ratio: float = TEST_TO_TRAIN,
    margin: float | None = None,
) -> Comparison:
    """Compare two methods.

    Args:
        first: test accuracies of the first method.
        second: test accuracies of the second method.
        pairs: test accuracies of both on the same splits.
        ratio: the ratio of test to training graphs in these splits.
        margin: methods that differ by less are equivalent; by default, this is not tested.

    Example:
        >>> compare([0.7, 0.8], [0.6, 0.6], [(0.7, 0.6), (0.8, 0.6)]).corrected.difference
        0.15
    """
    differences = [ours - theirs for ours, theirs in pairs]
    ours, theirs = summarize(first), summarize(second)
    return Comparison(
        t_test(ours, theirs),
        len(pairs),
        corrected_t_test(differences, ratio),
        wilcoxon(differences),
        effect_size(ours, theirs),
        ratio,
        detectable_difference(differences, ratio=ratio),
        None if margin is None else equivalence_test(differences, margin, ratio),
    )


class Ranking(NamedTuple):
    """Methods ranked over data sets: average ranks (1 is best), Friedman's p-value, Nemenyi's critical difference."""

    ranks: list[float]
    p_value: float
    critical_difference: float


def rank_methods(accuracies: Sequence[Sequence[float]]) -> Ranking:
    """Rank methods (columns) over data sets (rows), as Demšar (2006) proposes.

    Two methods differ at the 0.05 level if their average ranks differ by more than the critical difference.

    Example:
        >>> ranking = rank_methods([[0.9, 0.8, 0.7], [0.9, 0.8, 0.7], [0.8, 0.9, 0.7], [0.9, 0.8, 0.7]])
        >>> ranking.ranks, round(ranking.critical_difference, 3)
        ([1.25, 1.75, 3.0], 1.657)
    """
    from scipy import stats

    num_datasets, num_methods = len(accuracies), len(accuracies[0])
    if num_methods < 3:
        raise ValueError(f"accuracies must have at least 3 methods, got {num_methods}")
    rows = [stats.rankdata([-value for value in row]) for row in accuracies]
    ranks = [float(fmean(column)) for column in zip(*rows, strict=True)]
    quantile = float(stats.studentized_range.ppf(1 - SIGNIFICANCE, num_methods, math.inf)) / math.sqrt(2)
    tied = all(len(set(row)) == 1 for row in accuracies)
    p_value = 1.0 if tied else float(stats.friedmanchisquare(*zip(*accuracies, strict=True)).pvalue)
    return Ranking(ranks, p_value, quantile * math.sqrt(num_methods * (num_methods + 1) / (6 * num_datasets)))
