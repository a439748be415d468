import pytest

from compool.data import communities
from compool.study import checkpoint


@pytest.fixture
def few_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred generated graphs rather than 1,200."""
    graphs = communities(99)
    for name in ("load_data", "load_to_plan"):
        monkeypatch.setattr(f"compool.study.planning.{name}", lambda recipe, folder: graphs)


@pytest.fixture
def every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every epoch is written down."""
    monkeypatch.setattr(checkpoint, "WRITE_INTERVAL", 0.0)
    monkeypatch.setattr(checkpoint, "MAX_WRITE_SHARE", 1e9)
