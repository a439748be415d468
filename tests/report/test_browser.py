"""The report in a real browser."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from compool import data, nn, ops
from compool.report.levels import InspectedGraph, inspect_graph
from compool.report.page import graph_page, report_page
from compool.report.results import collect
from compool.report.tables import tables
from tests.browser import PROGRAM, Browser
from tests.report.test_results import runs, three

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (Debian: apt-get install chromium)")

BAD = "<img src=x onerror=alert(1)></script><script>alert(2)//"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six data sets, of which one has a bad name and one a method only."""
    made = [run for name in ("PROTEINS", "COLLAB", "NCI1", "own", BAD) for run in three(dataset=name)]
    study = collect([*made, *runs("gin", [0.5, None], dataset="alone")])
    path = tmp_path_factory.mktemp("report") / "index.html"
    path.write_text(report_page(study, tables(study), [], "study.sqlite", ["No graphs."]), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _nothing_went_wrong(browser: Browser) -> Iterator[None]:
    browser.errors.clear()
    browser.requests.clear()
    browser.look()
    yield
    assert browser.errors == []
    assert all(address.startswith("file:") for address in browser.requests)


def test_each_page_is_shown(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run("[...document.querySelectorAll('main > section')].filter((s) => s.offsetHeight).length") == 1
    links = browser.run("[...document.querySelectorAll('nav a')].map((a) => [a.getAttribute('href'), a.textContent])")
    assert [name for _, name in links[:4]] == ["Overview", "PROTEINS", "COLLAB", "NCI1"]
    assert BAD in [name for _, name in links]  # as text
    for link, name in links:
        browser.run(f"document.querySelector('nav a[href=\"{link}\"]').click()")
        browser.wait(f"document.querySelector('.here').id === '{link[1:]}'")
        assert name in ("Overview", "Graphs") or browser.run("document.querySelector('.here h2').textContent") == name


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, False), (390, True)])
def test_it_fits_a_phone_and_the_dark(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.look(width, 844, dark)
    browser.open(page, "data-0")
    assert browser.run("document.documentElement.scrollWidth") == width
    browser.wait("document.querySelectorAll('.here .box').length === 3")
    widest = browser.run(
        "Math.max(...[...document.querySelectorAll('.here svg')].map((s) => s.getBoundingClientRect().right))"
    )
    assert widest <= width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    bright = sum(int(part) for part in ground[4:-1].split(",")) / 3
    assert (bright < 64) == dark
    text = browser.run("getComputedStyle(document.body).color")
    assert (sum(int(part) for part in text[4:-1].split(",")) / 3 > 192) == dark


def test_plots_respond(browser: Browser, page: Path) -> None:
    browser.open(page, "data-2")
    browser.wait("document.querySelectorAll('.here .box').length === 3")
    assert browser.run("document.querySelectorAll('.here circle.run').length") == 12
    assert browser.run("document.querySelectorAll('.here path.paper').length") == 2  # NCI1: not of edgepool
    browser.run("document.querySelector('.here .legend button[data-method=gin]').click()")
    browser.wait("document.querySelectorAll('.here .box').length === 2")
    browser.wait("document.querySelectorAll('.here path.curve').length === 2")
    browser.run("document.querySelector('.here .legend button[data-method=gin]').click()")
    browser.wait("document.querySelectorAll('.here .box').length === 3")
    x, y = browser.run(
        "(() => { const b = document.querySelector('.here .box[data-method=gin]').getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(x, y)
    browser.wait("!document.getElementById('tip').hidden")
    assert "61.5 ± 1.3" in browser.run("document.getElementById('tip').textContent")
    before = browser.run("document.querySelector('.here path.curve').getAttribute('d')")
    browser.run("document.querySelector('.here button[data-curve=kept]').click()")
    browser.wait(f"document.querySelector('.here path.curve').getAttribute('d') !== '{before}'")


@pytest.mark.parametrize(("curve", "text"), [("validation_loss", "0.7123"), ("loss", "0.001234"), ("test", "50.0")])
def test_tooltips_of_losses_have_four_digits(browser: Browser, tmp_path: Path, curve: str, text: str) -> None:
    curves = {"loss": [0.0012344] * 3, "validation": [0.5] * 3, "validation_loss": [0.7123] * 3, "test": [0.5] * 3}
    study = collect(runs("component", [0.5, 0.5], curves=curves | {"kept": [[0.5]] * 3}))
    page = tmp_path / "index.html"
    page.write_text(report_page(study, tables(study), [], "study.sqlite", []), encoding="utf-8")
    browser.open(page, "data-0")
    browser.wait("document.querySelectorAll('.here path.curve').length === 1")
    browser.run(f"document.querySelector('.here button[data-curve={curve}]').click()")
    x, y = browser.run(
        "(() => { const area = document.querySelector('.here [data-curves] svg > rect'); area.scrollIntoView();"
        " const b = area.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(x, y)
    browser.wait("!document.getElementById('tip').hidden")
    assert f"component {text} ({text} … {text})" in browser.run("document.getElementById('tip').textContent")


def shown(letters: str, **settings: Any) -> InspectedGraph:
    torch.manual_seed(1)
    return inspect_graph(nn.Network(letters, 4, 8, 3, **settings), data.communities(9), 0)


@pytest.mark.parametrize(
    ("letters", "settings"),
    [("PCL", {}), ("CPCPL", {}), ("PCL", {"scorer": "random", "reduce": "mean", "merge_ratio": 0.3})],
)
def test_the_slider_does_what_the_operator_does(
    browser: Browser, tmp_path: Path, letters: str, settings: dict[str, Any]
) -> None:
    given = shown(letters, **settings)
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    seen = set()
    for number, level in enumerate(given.levels):
        if number:
            browser.run(f"document.querySelector('button[data-level=\"{number}\"]').click()")
        assert int(browser.run("document.getElementById('after').dataset.supernodes")) == level.num_supernodes
        scores = sorted(level.edge_score.tolist())
        between = [round(scores[len(scores) * part // 8], 2) for part in range(8)]
        for threshold in (-1.0, *between, 1.0):
            browser.run(
                "(() => { const slider = document.getElementById('threshold');"
                f" slider.value = {threshold}; slider.dispatchEvent(new Event('input')); }})()"
            )
            nodes = len(level.cluster)
            expected = ops.coarsen(level.edge_score, level.edge_index, nodes, threshold).parts.cluster
            assert int(browser.run("document.getElementById('after').dataset.supernodes")) == int(expected.max()) + 1
            found = (
                "[...document.querySelectorAll('#viewer .panel:first-child circle')].map((c) => +c.dataset.supernode)"
            )
            assert browser.run(found) == expected.tolist()
            seen.add(int(expected.max()) + 1)
        browser.run("document.getElementById('reset').click()")
        assert int(browser.run("document.getElementById('after').dataset.supernodes")) == level.num_supernodes
    assert len(seen) >= 3  # the slider did move something


def test_a_score_on_the_threshold_does_not_merge(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL")
    level = replace(given.levels[0], edge_score=(given.levels[0].edge_score * 8).round() / 8)
    (tmp_path / "graph.html").write_text(graph_page(replace(given, levels=(level,))), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    for threshold in level.edge_score.unique().tolist():
        browser.run(
            "(() => { const slider = document.getElementById('threshold');"
            f" slider.value = {threshold}; slider.dispatchEvent(new Event('input')); }})()"
        )
        expected = ops.coarsen(level.edge_score, level.edge_index, 60, threshold).parts.number
        assert int(browser.run("document.getElementById('after').dataset.supernodes")) == expected


def test_weights_of_a_mean(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL", scorer="random", reduce="mean", merge_ratio=0.3)
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    x, y = browser.run(
        "(() => { const b = document.querySelectorAll('#viewer .panel:first-child circle')[3].getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(x, y)
    browser.wait("!document.getElementById('tip').hidden")
    size = int((given.levels[0].cluster == given.levels[0].cluster[3]).sum())
    assert f"weight {1 / size:.3f}" in browser.run("document.getElementById('tip').textContent")


def test_hover_shows_features_and_weight(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL")
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    level = given.levels[0]
    merged = (level.edge_score > level.threshold) & (level.edge_index[0] == 7)
    touched = (level.edge_score > level.threshold) & (level.edge_index == 7).any(0)
    weight = float(level.edge_score[merged].sum()) if bool(touched.any()) else 1.0  # Eq. 3
    x, y = browser.run(
        "(() => { const b = document.querySelectorAll('#viewer .panel:first-child circle')[7].getBoundingClientRect();"
        " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(x, y)
    browser.wait("!document.getElementById('tip').hidden")
    text = browser.run("document.getElementById('tip').textContent")
    assert text.startswith("node 7 of supernode ")
    assert f"weight {weight:.3f}".replace("-", "−") in text
    colour = int(given.given[7].argmax())
    assert f"features: x{colour} = 1" in text


def test_metrics_have_plots_of_their_own(browser: Browser, tmp_path: Path) -> None:
    """Accuracies and errors do not share an axis; errors are not in percent."""
    errors = [
        replace(run, dataset="numbers", metrics={"chosen": "mae", "task": "regression"}, test=4 * (run.test or 0))
        for run in three(dataset="PROTEINS")
    ]
    study = collect([*three(dataset="NCI1"), *errors])
    path = tmp_path / "index.html"
    path.write_text(report_page(study, tables(study), [], "study.sqlite", []), encoding="utf-8")
    browser.open(path)
    plots = browser.run("[...document.querySelectorAll('.here [data-boxes]')].map((plot) => plot.textContent)")
    assert len(plots) == 2
    assert plots[0].endswith("test accuracy, %")
    assert plots[1].endswith("test mean absolute error")
    assert "numbers" not in plots[0]
