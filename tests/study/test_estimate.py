import pytest

from compool.data import communities
from compool.study import recipe
from compool.study.estimate import epoch_seconds, format_duration


def test_the_estimate_by_hand() -> None:
    """CPCL of width 64: two products of the width squared per node, three times; 24 of 30 graphs are one step."""
    graphs = communities(30)
    one = recipe("component", "MUTAG", layers="CPCL", hidden=64, batch=24)
    products = 3 * 2 * graphs.num_nodes * 64**2
    features = 2 * graphs.num_edges * 64
    on_cpu = 10 * (1e-3 + products / 40e9 + features / 0.8e9)
    assert epoch_seconds(one, graphs, 10, "cpu") == pytest.approx(on_cpu)
    assert epoch_seconds(one, graphs, 10, "cuda") == pytest.approx(0.8e-3 + 10 * (products / 15e12 + features / 250e9))


def test_more_of_anything_takes_longer() -> None:
    graphs = communities(60)
    base = epoch_seconds(recipe("component", "MUTAG"), graphs, 5, "cpu")
    for changes in ({"hidden": 128}, {"batch": 1}, {"layers": "CCPCL"}):
        assert epoch_seconds(recipe("component", "MUTAG", **changes), graphs, 5, "cpu") > base
    assert epoch_seconds(recipe("component", "MUTAG"), communities(120), 5, "cpu") > base


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(59, "less than a minute"), (61, "about 2 minutes"), (1200, "about 20 minutes"), (7200, "about 2.0 hours")],
)
def test_durations(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words
