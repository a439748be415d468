"""Tables of single classes and labels, for the page of a data set."""

from collections.abc import Sequence
from typing import Any

from compool.report.formats import Cell, Table
from compool.report.results import Result, Row
from compool.report.statistics import summarize
from compool.report.tables import NOTHING
from compool.study.metrics import METRICS, format_mean

_SHARE = METRICS["accuracy"]  # numbers of classes are in percent, whatever the metric is


def class_tables(row: Row) -> list[Table]:
    """Of each method on a data set, the confusion matrix of the test graphs of all runs, and numbers of each class; of
    several labels, the numbers of each label. No tables for regression, or for runs of older versions.

    Example:
        >>> class_tables(Row("NCI1", "fast", {}))
        []
    """
    made = []
    for result in row.results.values():
        details = [run.metrics["details"] for run in result.done if run.metrics.get("details")]
        if details:
            made.append(_class_table(result, details))
    return made


def _class_table(result: Result, details: Sequence[dict[str, Any]]) -> Table:
    numbers = {key: [detail[key] for detail in details] for key in details[0] if key != "confusion"}
    matrices = [detail["confusion"] for detail in details if "confusion" in detail]
    kind, several = ("class", "classes") if matrices else ("label", "labels")
    header = [kind, *(key.replace("_", " ") for key in numbers)]
    note = f"Test graphs of {len(details)} runs at the epoch that was picked: mean ± standard deviation, in percent."
    if matrices:
        header += ["graphs", *(f"as {guess}" for guess in range(len(matrices[0])))]
        note += (
            " graphs: how many of this class were tested, in all runs. as 0, as 1, …: the share that was predicted so."
        )
    rows = []
    for index in range(len(next(iter(numbers.values()))[0])):
        cells = [Cell(str(index))]
        for values in numbers.values():
            of_class = [run[index] for run in values if index < len(run) and run[index] is not None]
            cells.append(Cell(format_mean(_SHARE, *summarize(of_class)[:2])) if of_class else NOTHING)
        rows.append((*cells, *(_confusion_cells(matrices, index) if matrices else ())))
    return Table(f"classes-{result.method}", f"{result.method}: {several}", tuple(header), tuple(rows), note, ())


def _confusion_cells(matrices: Sequence[Sequence[Sequence[int]]], true_class: int) -> list[Cell]:
    """How many graphs of a class there were, and the share of them that was predicted as each class."""
    counts = [sum(matrix[true_class][guess] for matrix in matrices) for guess in range(len(matrices[0]))]
    total = sum(counts)
    shares = [
        Cell(f"{100 * count / max(total, 1):.1f}", "bold" if guess == true_class else "")
        for guess, count in enumerate(counts)
    ]
    return [Cell(f"{total:,}", "muted"), *shares]
