import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from compool import nn
from compool.data import communities
from compool.report import networks
from compool.report.page import report_page
from compool.report.results import collect
from compool.report.tables import tables
from compool.report.write import report_folder, write_report
from compool.study import Run, Store, recipe
from tests.report.test_results import runs, three

BAD = "<img src=x onerror=alert(1)></script><script>alert(2)//"
VOID = {"meta", "img", "br", "input"}


class Checked(HTMLParser):
    """Which elements a page has, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.links: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        self.links += [value or "" for key, value in attributes if key in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(folder: Path, runs: list[Run]) -> tuple[str, Path]:
    store = Store(folder / "study.sqlite")
    store.add(runs)
    _, page = write_report(store.path)
    assert page == report_folder(store.path) / "index.html"
    assert not list(page.parent.rglob(".*"))  # nothing half-written
    return page.read_text(encoding="utf-8"), page.parent


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["There are no runs."]),
        (three()[:1], ["Test accuracy in percent of one run, at the epoch", "80.0"]),
        (three(dataset="own"), ["own", "81.5 ± 1.3"]),
        (runs("gin", [0.5, 0.6]), ["nothing to compare"]),
        (runs("component", [None]), ["NCI1, component: 1 of 1 runs failed", "No run finished."]),
    ],
    ids=["empty", "one run", "one data set", "missing method", "only failed"],
)
def test_little_gives_a_page_that_says_so(tmp_path: Path, given: list[Run], expected: list[str]) -> None:
    text, folder = made(tmp_path, given)
    page = Checked(text)
    for one in expected:
        assert one in text
    assert all(link.startswith("#") for link in page.links)  # needs nothing from elsewhere
    assert sorted(path.name for path in (folder / "tables").iterdir()) == sorted(
        f"{name}.{ending}"
        for name in ("accuracy", "p-values", "parameters", "pooling")
        for ending in ("md", "tex", "csv")
    )


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    given = three(dataset=BAD, device=BAD, recipe=BAD, settings={BAD: BAD}, versions={BAD: BAD})
    text, folder = made(tmp_path, given)
    study = collect(three())
    plain, bad = Checked(report_page(study, tables(study), [], "study.sqlite", [])), Checked(text)
    for tag in ("img", "script"):
        assert bad.count.get(tag, 0) == plain.count.get(tag, 0)
    assert BAD not in text
    assert all(path.resolve().is_relative_to(folder.resolve()) for path in folder.rglob("*"))


def test_the_recipe_and_versions_stand_beside_the_numbers() -> None:
    settings = {"method": "component", "epochs": 77, "lr": 0.0125}
    study = collect(runs("component", [0.5, None], settings=settings, seed=11, recipe_checksum="abc123"))
    text = report_page(study, tables(study), [], "study.sqlite", [])
    seen = re.sub(r"<[^>]*>", " ", text)
    for expected in ("abc123", "epochs 77", "lr 0.0125", "seed 11", "torch 2.13.0", "failed replicas 1"):
        assert expected in re.sub(r"\s+", " ", seen)


def test_a_report_replaces_its_own_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("mine")
    for _ in range(2):
        write_report(store.path, tmp_path / "here")
    assert (tmp_path / "here" / "notes.txt").read_text() == "mine"


def test_graphs_of_kept_networks_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only networks that are there are shown, unless asked for; what cannot be is said."""
    few = communities(9)
    monkeypatch.setattr("compool.study.planning.load_data", lambda recipe, folder: few)
    monkeypatch.setattr("compool.report.write.figures", lambda *_: [])  # tested elsewhere, and slow
    monkeypatch.setenv("COMPOOL_CACHE", str(tmp_path))
    settings = vars(recipe("component", "communities"))
    store = Store(tmp_path / "study.sqlite")
    first, *_ = runs("component", [0.5], dataset="communities", settings=settings)
    store.add([first, *runs("component", [0.5], dataset="NOWHERE", settings=settings | {"dataset": "NOWHERE"})])
    assert "No network is stored for NOWHERE, communities" in write_report(store.path)[1].read_text()
    path = networks.model_path(store.path, first)
    path.parent.mkdir()
    nn.save_network(nn.Network("PCLL", 4, 8, 3), path)
    study, page = write_report(store.path, train=True)
    text = page.read_text()
    assert text.count('"levels":') == 3  # one of each class
    assert "trained again, unknown" in text
    note = "NOWHERE: its graphs are not shown: NOWHERE was not found; give its folder with --data."
    assert note in text
    assert note in study.warnings  # which the command prints
    assert not any("shown" in one for one in write_report(store.path)[0].warnings)
