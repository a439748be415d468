import html
import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from compool import nn
from compool.data import communities
from compool.report import networks
from compool.report.collection import collect
from compool.report.file_list import FILE_LIST
from compool.report.overview import overview
from compool.report.page import report_page
from compool.report.results import Study
from compool.report.sweeps import find_sweeps
from compool.report.tables import tables
from compool.report.write import report_folder, write_report
from compool.study import Run, Store, recipe, variants
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


def test_commands_name_the_file_of_the_study_and_its_data(tmp_path: Path) -> None:
    source = "other folder/in.sqlite"
    study = collect(trained("gin", [0.5], "a"))
    for shown in (study, collect([])):
        page = html.unescape(report_page(shown, [], [], source, []))
        lines = re.findall("^.*?(compool .* --store .*?)(?:</pre>.*)?$", page, re.M)
        assert len(lines) == (5 if shown.rows else 2)
        assert all("--store 'other folder/in.sqlite'" in line for line in lines)
        assert ">in.sqlite: " in page
    page = report_page(study, [], [], source, [])
    assert page.count("Add --data as for these runs, unless the graphs are generated") == 4
    store = Store(tmp_path / "other folder" / "in.sqlite")
    store.add([])
    assert f"compool run --store &#x27;{store.path}&#x27;" in write_report(store.path)[1].read_text()


def trained(method: str, tests: list[float | None], dataset: str, *settings: str, **columns: Any) -> list[Run]:
    """Runs with the recipe that `compool run` makes of settings."""
    (used,) = variants(method, dataset, columns.pop("base", "fast"), settings)
    about = {"recipe": used.name, "recipe_checksum": used.checksum, "settings": vars(used), "dataset": dataset}
    return runs(method, tests, **about | columns)


def commands_of(study: Study) -> list[str]:
    return [
        line
        for block in re.findall("<pre>(.*?)</pre>", overview(study, [], "s.sqlite"), re.S)
        for line in block.split("\n")
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (trained("component", [0.5] * 3, "a"), ["a --method component,none --replicas 3"]),
        (trained("gin", [0.5], "a"), ["a --method component,gin --replicas 2"]),
        (
            [*trained("gin", [0.5], "b", "lr=0.1", seed=7), *trained("gin", [0.5], "c", "lr=0.1", seed=7)],
            ["b c --method component,gin --set lr=0.1 --seed 7 --replicas 2"],
        ),
        (
            trained("component", [0.5, 0.6], "PROTEINS", "epochs=2", "metric=f1", base="paper"),
            ["PROTEINS --method component,none --recipe paper --set epochs=2 --set metric=f1 --replicas 2"],
        ),
        (
            trained("component", [0.5, 0.6], "a", "merge_ratio=0.5"),  # which networks without pooling do not use
            ["a --method component,random --set merge_ratio=0.5 --replicas 2"],
        ),
        (
            trained("component", [0.5, 0.6], "a") + trained("none", [None, None], "a"),
            ["a --method component,gin --replicas 2"],
        ),
        (trained("component", [None, None], "a") + trained("gin", [0.5, 0.6], "a"), []),
        (trained("gin", [0.5, 0.6], "a", recipe="mine"), []),  # a recipe file
        (trained("gin", [0.5, 0.6], "a", recipe_checksum="other"), []),  # other settings than the name says
        ([replace(run, method="Net") for run in trained("gin", [0.5, 0.6], "a")], []),
        (trained("gin", [0.5, 0.6], "a", "lr=0.1") + trained("gin", [0.5, 0.6], "a", "lr=0.2"), []),  # a sweep
    ],
    ids=[
        "ours",
        "another",
        "two sets",
        "recipe",
        "a budget",
        "failed",
        "ours failed",
        "file",
        "Python",
        "own network",
        "sweep",
    ],
)
def test_suggested_commands_train_with_the_settings_of_the_runs(given: list[Run], expected: list[str]) -> None:
    study = find_sweeps(collect(given))[0]
    assert commands_of(study) == [f"compool run {command} --store s.sqlite" for command in expected]
    page = overview(study, [], "s.sqlite")
    assert ("train component and another method with the settings and the seed of these runs" in page) != bool(expected)


def test_paired_differences_say_what_they_are_about() -> None:
    def measured(metric: str, dataset: str) -> list[Run]:
        about = {"chosen": metric, "task": "classification"}
        return [run for method in ("component", "gin") for run in trained(method, [0.5, 0.6], dataset, metrics=about)]

    def titles(given: list[Run]) -> list[str]:
        return re.findall("<h3>(Paired.*?)</h3>", overview(collect(given), [], "s.sqlite"))

    one = measured("f1", "a")
    assert titles(one) == ["Paired differences in macro F1, a"]
    assert titles([*one, *measured("f1", "b")]) == ["Paired differences in macro F1"]
    lacking = [
        trained("gin", [0.5], name, metrics={"chosen": metric}) for name, metric in (("c", "roc_auc"), ("d", "f1"))
    ]
    assert titles([run for runs in lacking for run in runs]) == ["Paired differences in ROC AUC and macro F1"]
    assert titles([*one, *lacking[0]]) == ["Paired differences in macro F1, a", "Paired differences in ROC AUC, c"]


def test_the_overview_says_where_the_other_runs_are() -> None:
    def shown(given: list[Run]) -> str:
        study, sweeps = find_sweeps(collect(given))
        (text,) = re.findall(
            "<b>([^<]*)</b><span>((?:run|runs) shown[^<]*)</span>", overview(study, [], "s.sqlite", sweeps)
        )
        return " ".join(text)

    swept = [run for lr in (0.1, 0.2, 0.3) for run in trained("gin", [lr, lr], "a", f"lr={lr}")]
    assert shown(trained("gin", [0.5], "a")) == "1 run shown"
    assert shown(swept) == "2 runs shown of 6; others: see Sweeps"
    others = [*trained("gin", [0.5] * 3, "a"), *trained("gin", [0.5], "a", recipe_checksum="other")]
    assert shown(others) == "3 runs shown of 4; others: see Caveats"
    assert shown([*swept, *others]) == "5 runs shown of 10; others: see Sweeps and Caveats"


def test_a_report_replaces_its_own_files_only(tmp_path: Path) -> None:
    store = Store(tmp_path / "study.sqlite")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "notes.txt").write_text("mine")
    for _ in range(2):
        write_report(store.path, tmp_path / "here")
    assert (tmp_path / "here" / "notes.txt").read_text() == "mine"


def test_a_report_removes_outdated_files_of_the_one_before(tmp_path: Path) -> None:
    """And nothing else: not what a user added, changed or linked, and nothing outside of its folders."""
    store, report = Store(tmp_path / "study.sqlite"), tmp_path / "here"
    store.add([run for lr in (0.1, 0.2) for run in trained("gin", [lr, lr], "a", f"lr={lr}")])
    write_report(store.path, report)
    outdated, changed = (report / "figures" / f"curves-a-fast-best-of-2.{kind}" for kind in ("pdf", "png"))
    assert outdated.exists()
    own, linked, outside = (report / "figures" / "own.png", report / "tables" / "linked.csv", tmp_path / "outside.csv")
    for path in (changed, own, outside):
        path.write_text("mine")
    linked.symlink_to(outside)
    names = ("../outside.csv", "tables/../../outside.csv", str(outside), "tables/linked.csv")
    with (report / FILE_LIST).open("a") as lines:
        lines.writelines(f"{sha256(b'mine').hexdigest()}  {name}\n" for name in names)
    store.add(trained("gin", [0.3, 0.3], "a", "lr=0.3"))
    write_report(store.path, report)
    assert (report / "figures" / "curves-a-fast-best-of-3.pdf").exists()
    assert not outdated.exists()
    assert {path.read_text() for path in (changed, own, outside, linked)} == {"mine"}


def test_graphs_of_kept_networks_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only networks that are there are shown, unless asked for; what cannot be is said."""
    few = communities(9)
    monkeypatch.setattr("compool.study.recipe_data.load_data", lambda recipe, folder, check_edges=True: few)
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
