import pytest

from compool.data import GraphSet, communities
from compool.study import checkpoint


@pytest.fixture(scope="session")
def ninety_nine_graphs() -> GraphSet:
    return communities(99)


@pytest.fixture
def few_graphs(ninety_nine_graphs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred generated graphs rather than 1,200."""
    monkeypatch.setattr(
        "compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: ninety_nine_graphs
    )


@pytest.fixture
def every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch is written down."""
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "MAX_WRITE_SHARE", 1e9)
