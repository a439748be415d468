import itertools
import math

import pytest

from compool.data import paper
from compool.report.statistics import (
    Summary,
    compare,
    corrected_t_test,
    detectable_difference,
    effect_size,
    equivalence_test,
    holm,
    rank_methods,
    summarize,
    t_test,
    wilcoxon,
)


def test_summarize_by_hand() -> None:
    assert summarize([1.0, 2.0, 3.0, 6.0]) == Summary(3.0, pytest.approx(math.sqrt(14 / 3)), 4)
    assert summarize([0.1, 0.1, 0.1]) == Summary(0.1, 0.0, 3)
    assert summarize([0.7]) == Summary(0.7, 0.0, 1)
    with pytest.raises(ValueError, match="values must hold at least one number, got none"):
        summarize([])


def test_equivalence_by_hand() -> None:
    # Differences 0 and 1: mean 1/2, error √(1/2 · (1/2 + 1/8)) = √5/4, one degree of freedom: Student's t is Cauchy's
    error = math.sqrt(5) / 4
    for margin in (2.0, 1.0, 0.25):
        expected = 0.5 - math.atan((margin - 0.5) / error) / math.pi
        assert equivalence_test([0.0, 1.0], margin) == pytest.approx(expected)
        assert equivalence_test([0.0, -1.0], margin) == pytest.approx(expected)
    assert equivalence_test([0.5, 0.5], 1.0) == 0.0
    assert equivalence_test([3.0, 3.0], 1.0) == 1.0
    assert equivalence_test([1.0], 1.0) is None
    quantiles = math.tan(math.pi * 0.475) + math.tan(math.pi * 0.3)
    assert detectable_difference([0.0, 1.0]) == pytest.approx(error * quantiles)
    assert detectable_difference([1.0]) is None


def test_t_test_by_hand() -> None:
    # Means 2 and 4, variances 1 and 1, n = 3: t = 2 / sqrt(2/3) = √6 with 4 degrees of freedom, whose distribution has
    # the closed form p = 1 − s(3 − s²)/2 with s = t/√(4 + t²)
    s = math.sqrt(6 / 10)
    assert t_test(summarize([1.0, 2, 3]), summarize([3.0, 4, 5])) == pytest.approx(1 - s * (3 - s * s) / 2)
    assert t_test(Summary(1, 0, 5), Summary(1, 0, 5)) == 1
    assert t_test(Summary(1, 0, 5), Summary(2, 0, 5)) == 0
    assert t_test(Summary(1, 0, 1), Summary(2, 1, 5)) is None


@pytest.mark.parametrize(
    ("dataset", "method"),
    [(name, kind) for name, row in paper.REPORTED.items() for kind in row if kind != "component"],
)
def test_the_papers_own_p_values(dataset: str, method: str) -> None:
    """Its p-values are of accuracies that it prints rounded: each must be among those that the roundings allow."""
    ours, theirs = paper.REPORTED[dataset]["component"], paper.REPORTED[dataset][method]
    steps = (-0.05, 0.0, 0.05)
    found = [
        t_test(
            Summary(ours.mean + a, ours.std + b, paper.RUNS),
            Summary(theirs.mean + c, theirs.std + d, paper.RUNS),
        )
        for a, b, c, d in itertools.product(steps, repeat=4)
    ]
    assert theirs.p_value is not None
    possible = [p for p in found if p is not None]
    assert min(possible) - 0.0005 <= theirs.p_value <= max(possible) + 0.0005


def test_corrected_t_test_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, variance 1; error² = 1/3 + 1/6 = 1/2, so t = 2√2 with 2 degrees of freedom, for
    # which p = 1 − t/√(2 + t²); the 97.5 % quantile is 4.302653
    found = corrected_t_test([1, 2, 3], ratio=1 / 6)
    assert found is not None
    assert found.p_value == pytest.approx(1 - math.sqrt(8) / math.sqrt(10))
    assert (found.low, found.high) == pytest.approx((2 - 4.302653 / math.sqrt(2), 2 + 4.302653 / math.sqrt(2)))
    plain = corrected_t_test([1, 2, 3], ratio=0)
    assert plain is not None
    assert plain.p_value == pytest.approx(1 - math.sqrt(12) / math.sqrt(14))  # the paired t-test: t = 2√3
    assert corrected_t_test([1.0]) is None
    assert corrected_t_test([0.0, 0.0]) == (0, 1, 0, 0)
    assert corrected_t_test([0.5, 0.5]) == (0.5, 0, 0.5, 0.5)


def test_wilcoxon_by_hand() -> None:
    # Ranks of ±1..4 with one negative of rank 1: of 16 ways, sums 0 and 1 are as extreme, on two sides
    assert wilcoxon([-1.0, 2, 3, 4]) == pytest.approx(2 * 2 / 16)
    assert wilcoxon([0.3 - 0.2 - 0.1, 0.0]) == 1.0
    assert wilcoxon([1.0]) is None


def test_effect_size_by_hand() -> None:
    assert effect_size(Summary(5, 2, 11), Summary(2, 1, 11)) == pytest.approx(3 / math.sqrt(2.5))
    assert effect_size(Summary(5, 0, 3), Summary(2, 0, 3)) is None
    assert effect_size(Summary(5, 0, 1), Summary(2, 0, 1)) is None


def test_holm_by_hand() -> None:
    assert holm([0.02, 0.01, 0.5, None]) == [0.04, 0.03, 0.5, None]
    assert holm([0.03, 0.04]) == [0.06, 0.06]  # the second would be 0.04, less than the first
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_compare_uses_pairs_only_where_splits_are_shared() -> None:
    found = compare([0.7, 0.8, 0.9], [0.6, 0.6], [(0.7, 0.6)])
    assert found.pairs == 1
    assert found.corrected is None
    assert found.wilcoxon is None
    assert found.t is not None


def test_ranking_by_hand() -> None:
    # Demšar (2006): q₀.₀₅ = 2.343 for three methods, so CD = 2.343 · √(12 / (6 · 5))
    found = rank_methods([[3.0, 2, 1]] * 4 + [[3.0, 3, 1]])
    assert found.ranks == pytest.approx([(4 + 1.5) / 5, (8 + 1.5) / 5, 3.0])
    assert found.critical_difference == pytest.approx(2.343 * math.sqrt(12 / 30), abs=1e-3)
    assert found.p_value < 0.05
    with pytest.raises(ValueError, match="at least 3 methods, got 2"):
        rank_methods([[0.5, 0.6]])
