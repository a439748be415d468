import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from compool.report.collection import collect
from compool.report.formats import Cell, Table, as_csv, as_html, latex, markdown, terminal
from compool.report.tables import accuracy, p_values, parameters, pooling, tables
from compool.study.csv_files import read_csv
from tests.report.test_results import runs, three


def texts(table: Table) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table.rows]


def test_accuracy_beside_the_papers() -> None:
    table = accuracy(collect(three()))
    assert table.header == ("data set", "component", "published", "edgepool", "published", "gin", "published")
    assert texts(table) == [["NCI1", "81.5 ± 1.3", "72.2 ± 3.5", "81.2 ± 1.3", "–", "61.5 ± 1.3", "79.5 ± 2.0"]]
    assert [cell.mark for cell in table.rows[0]] == ["", "underline", "muted", "underline", "muted", "", "muted"]
    alone = accuracy(collect([*runs("component", [0.8, 0.81]), *runs("gin", [0.6, 0.61])]))
    assert [cell.mark for cell in alone.rows[0]][1] == "bold"
    records = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert [record["method"] for record in records] == ["component", "edgepool", "gin"]
    assert float(records[0]["mean"]) == pytest.approx(81.5)
    assert records[0]["published_mean"] == "72.2"
    assert records[1]["published_mean"] == ""


def test_recipes_have_a_column() -> None:
    study = collect([*three(), *three(recipe="paper", recipe_checksum="p")])
    for table in (accuracy(study), p_values(study), parameters(study), pooling(study)):
        assert table.header[:2] == ("data set", "recipe")
        assert [[cell.text for cell in row[:2]] for row in (table.rows[0], table.rows[-1])] == [
            ["NCI1", "fast"],
            ["NCI1", "paper"],
        ]
        assert "paper" not in table.header  # the paper's numbers are called published
        assert table.texts >= 2
        assert all(len(row) == len(table.header) for row in table.rows)


def test_a_number_of_runs_that_is_not_the_usual_one() -> None:
    table = accuracy(collect([*runs("component", [0.8, 0.82, 0.84]), *runs("gin", [0.6, None, 0.61])]))
    assert texts(table) == [["NCI1", "82.0 ± 2.0", "72.2 ± 3.5", "60.5 ± 0.7 (2)", "79.5 ± 2.0"]]
    assert "over 3 runs (fewer: the number in brackets)" in table.note
    assert "over 4 runs, " in accuracy(collect(three())).note


def test_captions_of_one_run_and_of_none() -> None:
    one = accuracy(collect(runs("component", [0.8])))
    assert one.note == "Test accuracy in percent of one run, at the epoch of best validation accuracy."  # nothing bold
    assert ". Bold: better than every other method here" in accuracy(collect(three())).note
    assert accuracy(collect(runs("component", [None, None]))).note == "No run finished."


def test_other_pooling_in_our_networks() -> None:
    made = [
        *runs("component", [0.8, 0.9]),
        *runs("gin", [0.1, 0.2]),
        *runs("sag", [0.3, 0.4]),
        *runs("none", [0.5, 0.6]),
    ]
    table = {one.name: one for one in tables(collect(made))}["instead"]
    assert table.header == ("data set", "component", "none", "sag")
    assert [cell.text for cell in table.rows[0]] == ["NCI1", "85.0 ± 7.1", "55.0 ± 7.1", "35.0 ± 7.1"]
    assert "instead" not in {one.name for one in tables(collect(three()))}


def test_p_values() -> None:
    made = [*runs("component", [0.80, 0.82, 0.84]), *runs("gin", [0.79, 0.80, 0.81])]
    table = p_values(collect(made))
    (row,) = texts(table)
    # Differences 1, 2, 3: error² = 1/3 + 1/8, so t = 2.954 with 2 degrees of freedom and p = 1 − t/√(2 + t²); interval
    # 2 ± 4.3027 · 0.677. Detectable: (4.3027 + 1.0607) · 0.677, with the quantiles at 0.975 and 0.8. Equivalent within
    # ±2: t = 0, so p = 0.5. Wilcoxon: 2 of 8 ways. t-test: t = 1.549, 4 degrees. d = 2 / √((4 + 1) / 2)
    expected = ["NCI1", "gin", "3", "+2.0", "−0.9 … +4.9", "0.098", "0.098", "3.6", "0.500"]
    assert row == [*expected, "0.250", "0.196", "<0.001", "+1.26"]
    assert table.header[-6:] == ("detectable", "equivalent", "Wilcoxon", "t-test", "published", "d")
    (record,) = csv.DictReader(io.StringIO(as_csv(table)))
    assert float(record["detectable"]) == pytest.approx(3.631, abs=0.001)
    assert float(record["p_equivalent"]) == pytest.approx(0.5)


def test_the_differences_of_the_documented_results() -> None:
    """The columns of docs/results.md: points, p, detectable, equivalent."""
    folder = Path(__file__).parents[2] / "results" / "runs"
    made = [run for method in ("component", "none") for run in read_csv(folder / f"IMDB-MULTI-{method}-learned.csv.gz")]
    (record,) = p_values(collect(made)).records
    digits = {"difference": 1, "p_corrected": 2, "detectable": 1, "p_equivalent": 3}
    assert [round(record[name], places) for name, places in digits.items()] == [0.2, 0.81, 3.0, 0.049]


def test_errors_have_no_margin_of_equivalence() -> None:
    """Two points are of percent; how large an error is depends on what is predicted."""
    about = {"metrics": {"chosen": "mae", "task": "regression"}, "dataset": "own"}
    made = [*runs("component", [0.3, 0.2, 0.4], **about), *runs("gin", [0.5, 0.5, 0.4], **about)]
    (record,) = p_values(collect(made)).records
    assert record["p_equivalent"] is None
    assert record["detectable"] > 0


def test_parameters_and_their_change() -> None:
    made = [*runs("component", [0.8], parameters=300), *runs("gin", [0.8], parameters=200)]
    table = parameters(collect(made))
    assert texts(table) == [["NCI1", "300", "38,274", "200", "9,294", "+50.0 %", "+311.8 %"]]
    assert table.note.endswith(
        "against X: how many more (+) or fewer (−) parameters component pooling has than X, in percent."
    )
    for method in ("component", "gin"):  # nothing to compare with
        alone = parameters(collect(runs(method, [0.8])))
        assert alone.header == ("data set", method, "published")
        assert alone.note == "Learnable parameters."


def test_kept_nodes_and_seconds() -> None:
    made = runs("component", [0.8, None, 0.7], kept=[0.5, 0.125], settings={"epochs": 9}, seconds=120.0)
    assert texts(pooling(collect(made))) == [["NCI1", "component", "3", "1", "50 → 12", "3 of 9", "120", "10"]]


def test_more_than_three_levels_of_kept_nodes() -> None:
    shares = [0.9, 0.8, 0.7, 0.6]
    table = pooling(collect([*runs("component", [0.8], kept=shares), *runs("gin", [0.8], kept=[])]))
    records = list(csv.DictReader(io.StringIO(as_csv(table))))
    kept = [[record[f"kept_percent_{level}"] for level in range(1, 5)] for record in records]
    assert kept == [["90.0", "80.0", "70.0", "60.0"], [""] * 4]


def test_sets_that_the_paper_has_not() -> None:
    assert "published: the paper's p-value" in p_values(collect(three())).note
    for table in tables(collect(three(dataset="own"))):
        assert "published" not in table.header
        assert "published" not in table.note
        assert all(len(row) == len(table.header) for row in table.rows)


@pytest.mark.parametrize("made", [[], three()[:1], runs("gin", [0.5, 0.6]), runs("component", [None])])
def test_few_runs_give_tables_in_every_format(made: list) -> None:
    for table in tables(collect(made)):
        assert all(len(row) == len(table.header) for row in table.rows)
        for written in (markdown(table), latex(table), as_html(table)):
            assert table.title in written
        assert len(as_csv(table).splitlines()) == (len(table.records) + 1 if table.records else 0)
        Console(file=io.StringIO()).print(terminal(table))
    assert "nothing to compare" in p_values(collect(made)).note


def test_names_are_escaped() -> None:
    bad = "<b>&_%|[red]x[/]$\\"
    table = Table("t", "Title", ("set", "x"), ((Cell(bad), Cell("1 ± 2", "bold")),), "", ())
    assert r"\<b\>&\_%\|\[red\]x\[/\]$\\" in markdown(table)
    assert r"$<$b$>$\&\_\%|[red]x[/]\$\textbackslash{} & \textbf{1 $\pm$ 2} \\" in latex(table)
    assert "&lt;b&gt;&amp;_%|[red]x[/]$\\" in as_html(table)
    out = io.StringIO()
    Console(file=out, width=80).print(terminal(table))
    assert bad in out.getvalue()


def test_nothing_is_cut_off_in_a_narrow_window() -> None:
    out = io.StringIO()
    Console(file=out, width=60).print(terminal(p_values(collect(three()))))
    assert out.getvalue().count("…") == 2  # those of the two intervals


def test_the_terminal_leaves_out_the_columns_for_files() -> None:
    table = p_values(collect(three()))
    out = io.StringIO()
    Console(file=out, width=160).print(terminal(replace(table, note="")))
    assert "detectable" not in out.getvalue()
    assert "| Holm | detectable | equivalent | Wilcoxon |" in markdown(table)
    assert "Holm & detectable & equivalent & Wilcoxon" in latex(table)
