"""The report in a real browser."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from compool import data, nn, ops
from compool._words import counted
from compool.report.collection import collect
from compool.report.levels import InspectedGraph, inspect_graph
from compool.report.page import graph_page, report_page
from compool.report.sweeps import find_sweeps
from compool.report.tables import tables
from tests.browser import PROGRAM, Browser
from tests.report.test_report import trained
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
        assert (
            name in ("Overview", "Sweeps", "Graphs")
            or browser.run("document.querySelector('.here h2').textContent") == name
        )


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (390, False), (390, True)])
def test_it_fits_a_phone_and_the_dark(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.look(width, 844, dark)
    browser.open(page, "data-PROTEINS")
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
    browser.open(page, "data-NCI1")
    browser.wait("document.querySelectorAll('.here .box').length === 3")
    assert browser.run("document.querySelectorAll('.here circle.run').length") == 12
    assert (
        browser.run("document.querySelectorAll('.here [data-boxes] path.published').length") == 2
    )  # NCI1: not of edgepool
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


def point_at(browser: Browser, selector: str) -> str:
    """Point at the middle of an element. Returns the text that appears."""
    x, y = browser.run(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{ block: 'center' }});"
        " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    browser.move(0, 0)
    browser.move(x, y)
    browser.wait("!document.getElementById('tip').hidden")
    return str(browser.run("document.getElementById('tip').textContent"))


def texts(browser: Browser, selector: str) -> list[str]:
    return list(browser.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)"))


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with two recipes, of which one has half of its runs keep every node, and a sweep."""
    shares = [[0.1, 0.05], [1.0, 1.0], [0.2, 0.1], [1.0, 1.0]]
    paper = runs("component", [0.70, 0.72, 0.71, 0.73], recipe="paper", recipe_checksum="p")
    kept = [replace(run, kept=share) for run, share in zip(paper, shares, strict=True)]
    swept = [
        run
        for lr in (0.1, 0.2)
        for run in runs("component", [lr], recipe=f"fast lr={lr}", recipe_checksum=f"{lr}", settings={"lr": lr})
    ]
    study, sweeps = find_sweeps(collect([*three(), *kept, *runs("none", [0.7] * 4, kept=[]), *swept]))
    path = tmp_path_factory.mktemp("recipes") / "index.html"
    path.write_text(report_page(study, tables(study), [], "study.sqlite", [], sweeps), encoding="utf-8")
    return path


def test_recipes_are_groups_of_their_data_set(browser: Browser, recipes: Path) -> None:
    browser.open(recipes, "data-NCI1")
    browser.wait("document.querySelectorAll('.here .box').length === 6")
    assert texts(browser, "nav a") == ["Overview", "NCI1", "Sweeps", "Graphs"]
    plot = ".here [data-boxes] svg"
    assert texts(browser, f"{plot} .heading") == ["recipe fast", "recipe fast, best of 2", "recipe paper"]
    methods = ["component", "edgepool", "gin", "none", "component", "component"]
    assert texts(browser, f"{plot} .name") == methods  # at the boxes
    headings = ["recipe", "component", "published", "edgepool", "gin", "published"]  # none of edgepool on NCI1
    assert texts(browser, ".here th")[: len(headings)] == headings
    assert "paper" not in texts(browser, ".here th")
    assert "lr" in texts(browser, '.here a[href="#sweep-0"]')[0]
    browser.open(recipes)
    browser.wait("document.querySelectorAll('.here .box').length === 4")
    browser.run("document.querySelector('.here [data-recipe=paper]').click()")
    browser.wait("document.querySelectorAll('.here .box').length === 1")


def test_the_kept_share_of_every_run(browser: Browser, recipes: Path) -> None:
    browser.open(recipes, "data-NCI1")
    browser.wait("document.querySelectorAll('.here .box').length === 6")
    of_run = '[data-run="NCI1 (paper), component 2"]'
    assert browser.run(f"document.querySelectorAll('.here {of_run}').length") == 3  # its accuracy, and two layers
    assert "nodes kept: 20.0 → 10.0 %" in point_at(browser, f".here .kept{of_run}")
    assert browser.run(f"document.querySelectorAll('.here .lit{of_run}').length") == 3
    first, second = browser.run(
        f"[...document.querySelectorAll('.here .kept{of_run}')]"
        ".map((e) => [+e.getAttribute('cx'), +e.getAttribute('cy')])"
    )
    zero, hundred = browser.run(
        "(() => { const ticks = [...document.querySelectorAll('.here [data-boxes] .tick')];"
        " return ['0', '100'].map((text) => +ticks.find((e) => e.textContent === text).getAttribute('x')); })()"
    )
    assert (first[0] - zero) / (hundred - zero) == pytest.approx(0.2, abs=1e-6)
    assert (second[0] - zero) / (hundred - zero) == pytest.approx(0.1, abs=1e-6)
    assert first[1] < second[1]  # the deeper layer lies lower
    assert texts(browser, ".here [data-boxes] text").count("no pooling") == 1  # none


def test_paired_differences(browser: Browser, recipes: Path) -> None:
    browser.open(recipes, "data-NCI1")
    browser.wait("document.querySelectorAll('.here .difference').length === 3")
    found = browser.run(
        "[...document.querySelectorAll('.here .difference')].map((e) => [e.dataset.method, e.dataset.significant])"
    )
    assert found == [["edgepool", "false"], ["gin", "true"], ["none", "true"]]
    assert "NCI1: component minus gin\n+20.0 (+20.0 … +20.0), 4 splits" in point_at(
        browser, ".here .difference[data-method=gin]"
    )
    browser.open(recipes)
    browser.wait("document.querySelectorAll('.here .difference').length === 3")
    assert texts(browser, ".here [data-forest] .heading") == [
        f"component minus {m}" for m in ("edgepool", "gin", "none")
    ]


def test_bands_are_of_the_method_pointed_at(browser: Browser, page: Path) -> None:
    browser.open(page, "data-NCI1")
    browser.wait("document.querySelectorAll('.here path.band').length === 3")
    shown = "[...document.querySelectorAll('.here path.band.shown')].map((e) => e.dataset.method)"
    browser.move(0, 0)
    assert browser.run(shown) == []
    point_at(browser, ".here [data-curves] rect.cover")
    assert len(browser.run(shown)) == 1
    browser.move(0, 0)
    browser.wait(f"{shown}.length === 0")
    x, y = browser.run(
        "(() => { scrollTo(0, 0); const b = document.querySelector('.here .legend [data-method=gin]')"
        ".getBoundingClientRect(); return [b.x + 9, b.y + 9]; })()"
    )
    browser.move(x, y)
    browser.wait(f"{shown}.join() === 'gin'")


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("anchor", ["data-NCI1", "sweep-0", "graphs"])
def test_a_deep_link_shows_its_title(browser: Browser, recipes: Path, width: int, anchor: str) -> None:
    browser.look(width, 700)
    browser.open(recipes, anchor)
    browser.run("new Promise((done) => setTimeout(() => done(1), 100))")
    title, header = browser.run(
        f"[document.querySelector('#{anchor} :is(h2, h3)'), document.querySelector('header')]"
        ".map((e) => [e.getBoundingClientRect().top, e.getBoundingClientRect().bottom])"
    )
    assert header[1] <= title[0] < 700


def test_tiles_do_not_wrap(browser: Browser, page: Path) -> None:
    for width in (390, 1400):
        browser.look(width, 844)
        browser.open(page, "data-NCI1")
        heights = browser.run(
            "[...document.querySelectorAll('.here .facts b, .here .facts span')].map((e) =>"
            " e.getBoundingClientRect().height / parseFloat(getComputedStyle(e).lineHeight))"
        )
        assert len(heights) == 8
        assert max(heights) < 1.5


def test_empty_tabs_say_what_to_run(browser: Browser, page: Path, tmp_path: Path) -> None:
    browser.open(page, "sweeps")
    assert "compool run PROTEINS --method component --set lr=1e-3,3e-3" in texts(browser, ".here pre")[0]
    browser.open(page, "graphs")
    assert "compool report --store study.sqlite --graphs" in texts(browser, ".here pre")[0]
    alone = collect(trained("gin", [0.5, 0.6], "own"))
    (tmp_path / "alone.html").write_text(report_page(alone, tables(alone), [], "s.sqlite", []), encoding="utf-8")
    browser.open(tmp_path / "alone.html")
    assert "compool run own --method component,gin --replicas 2 --store s.sqlite" in texts(browser, ".here pre")
    (tmp_path / "empty.html").write_text(report_page(collect([]), [], [], "s.sqlite", []), encoding="utf-8")
    browser.open(tmp_path / "empty.html")
    assert texts(browser, ".here pre") == ["compool run --store s.sqlite\ncompool report --store s.sqlite"]


def test_parameters_have_an_axis(browser: Browser, page: Path) -> None:
    browser.open(page, "data-NCI1")
    browser.wait("document.querySelectorAll('.here rect.parameters').length === 3")
    assert texts(browser, ".here [data-bars] .axis-title") == ["parameters, logarithmic"]
    assert texts(browser, ".here [data-bars] .tick")
    assert texts(browser, ".here [data-bars] .name") == ["component", "edgepool", "gin"]


@pytest.mark.parametrize(("curve", "text"), [("validation_loss", "0.7123"), ("loss", "0.001234"), ("test", "50.0")])
def test_tooltips_of_losses_have_four_digits(browser: Browser, tmp_path: Path, curve: str, text: str) -> None:
    curves = {"loss": [0.0012344] * 3, "validation": [0.5] * 3, "validation_loss": [0.7123] * 3, "test": [0.5] * 3}
    study = collect(runs("component", [0.5, 0.5], curves=curves | {"kept": [[0.5]] * 3}))
    page = tmp_path / "index.html"
    page.write_text(report_page(study, tables(study), [], "study.sqlite", []), encoding="utf-8")
    browser.open(page, "data-NCI1")
    browser.wait("document.querySelectorAll('.here path.curve').length === 1")
    browser.run(f"document.querySelector('.here button[data-curve={curve}]').click()")
    x, y = browser.run(
        "(() => { const area = document.querySelector('.here [data-curves] rect.cover'); area.scrollIntoView();"
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


@pytest.mark.parametrize("reduce", ["sum", "score"])
def test_a_share_of_tied_edges_is_shown_as_the_network_merges_them(
    browser: Browser, tmp_path: Path, reduce: str
) -> None:
    """Many edges tie at 1, so that no threshold does what the layer does."""
    given = shown("PCPL", scorer="similarity", score="hardtanh", reduce=reduce, merge_ratio=0.3)
    level = given.levels[0]
    assert not level.has_threshold
    assert level.num_supernodes == 18
    assert level.node_weight is not None
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    clusters = "[...document.querySelectorAll('#viewer .panel:first-child circle')].map((c) => +c.dataset.supernode)"
    assert browser.run(clusters) == level.cluster.tolist()
    reset = "document.getElementById('reset')"
    assert browser.run(f"{reset}.textContent") == "back to the network's 18 supernodes"
    sentence = browser.run("document.getElementById('merging').textContent")
    assert sentence.startswith("The network merges by a budget: 60 nodes become 18 supernodes.")
    text = point_at(browser, "#viewer .panel:first-child circle")
    assert f"weight {float(level.node_weight[0]):.3f}".replace("-", "−") in text
    assert slide(browser, 1.0).startswith("Nothing merges; highest score 1.00")
    browser.run(f"{reset}.click()")
    assert browser.run(clusters) == level.cluster.tolist()


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
        expected = ops.coarsen(level.edge_score, level.edge_index, 60, threshold).parts.num_supernodes
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


def slide(browser: Browser, threshold: float) -> str:
    """Move the slider. Returns the sentence below it."""
    browser.run(
        "(() => { const slider = document.getElementById('threshold');"
        f" slider.value = {threshold}; slider.dispatchEvent(new Event('input')); }})()"
    )
    return str(browser.run("document.getElementById('merging').textContent"))


def test_a_sentence_says_what_merges(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL")
    scores = torch.linspace(-0.98, 0.5, given.levels[0].edge_score.numel())
    level = replace(given.levels[0], edge_score=scores)
    (tmp_path / "graph.html").write_text(graph_page(replace(given, levels=(level,))), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    assert slide(browser, 0.6) == "Nothing merges; highest score 0.50: drag left to merge."
    assert slide(browser, -0.985) == "Every edge merges; lowest score −0.98: drag right to separate nodes."
    above = int((scores > 0.25).sum())
    assert slide(browser, 0.25).startswith(f"{above} of {len(scores)} directed edges score above 0.25 and merge")


def test_ticks_and_the_score_under_the_pointer(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL")
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    ticks = texts(browser, "#viewer .threshold .tick")
    assert ticks[:5] == ["−1", "−0.5", "0", "0.5", "1"]
    assert "60" in ticks  # supernodes, if nothing merges
    text = point_at(browser, "#viewer .threshold rect.cover")
    level = given.levels[0]
    above = int((level.edge_score > 0).sum())
    assert f"score 0.00\n{above} of {level.edge_score.numel()} directed edges score higher" in text.replace(
        "−0.00", "0.00"
    )
    supernodes = ops.coarsen(level.edge_score, level.edge_index, 60, 0.0).parts.num_supernodes
    assert f"{counted(supernodes, 'supernode')} at this threshold" in text


def test_class_probabilities(browser: Browser, tmp_path: Path) -> None:
    given = shown("PCL")
    (tmp_path / "graph.html").write_text(graph_page(given), encoding="utf-8")
    browser.open(tmp_path / "graph.html")
    assert sum(given.probabilities) == pytest.approx(1)
    guess = given.probabilities.index(max(given.probabilities))
    assert f"predicted {guess} " in given.verdict
    expected = [f"{100 * share:.1f} %" for share in given.probabilities]
    assert texts(browser, ".probabilities [data-class]") == expected
    verdict = "correct" if given.label == guess else "wrong"
    about = browser.run("document.getElementById('about').textContent")
    assert f"true class {given.label}, predicted {guess} ({verdict})." in about


def test_cards_without_results_of_the_chosen_recipe_are_hidden(browser: Browser, tmp_path: Path) -> None:
    measured = {"chosen": "f1", "task": "classification"}
    study = collect([*three(), *runs("gin", [0.6, 0.7], recipe="paper", recipe_checksum="p", metrics=measured)])
    path = tmp_path / "index.html"
    path.write_text(report_page(study, tables(study), [], "study.sqlite", []), encoding="utf-8")
    browser.open(path)
    visible = "[...document.querySelectorAll('.here .card')].filter((c) => c.offsetHeight).map((c) => c.innerText)"

    def titles() -> list[str]:
        return [text.splitlines()[0] for text in browser.run(visible)]

    browser.wait("document.querySelectorAll('.here .box').length === 3")
    assert titles()[:3] == [
        "Test accuracy",
        "Paired differences in accuracy, NCI1",
        "Paired differences in macro F1, NCI1",
    ]
    browser.run("document.querySelector('.here [data-recipe=paper]').click()")
    browser.wait("document.querySelectorAll('.here .card:not([hidden]) .box').length === 1")
    assert titles()[:2] == ["Test macro F1", "Paired differences in macro F1, NCI1"]
    browser.run("document.querySelector('.here [data-recipe=fast]').click()")
    browser.wait("document.querySelectorAll('.here .card:not([hidden]) .box').length === 3")
    assert "Test macro F1" not in titles()
    assert "nothing to show" not in "".join(browser.run(visible))


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
    plots = texts(browser, ".here [data-boxes]")
    assert len(plots) == 2
    assert "test accuracy, %" in plots[0]
    assert "test mean absolute error" in plots[1]
    assert "%" not in plots[1].replace("nodes kept, %", "")
    assert "numbers" not in plots[0]
