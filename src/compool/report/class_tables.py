"""Tables of single classes and labels, for the page of a data set."""

from collections.abc import Sequence
from typing import Any

from compool.report.formats import Cell, Table
from compool.report.results import Result, Row
from compool.report.statistics import summarize
from compool.report.tables import NOTHING
from compool.study.metrics import METRICS, format_mean

_SHARE = METRICS["accuracy"]  # metrics of classes are in percent, whatever the metric of the runs


def class_tables(row: Row) -> list[Table]:
    """One table per method on a data set: the confusion matrix of the test graphs of all runs with the metrics of each
    class, or the metrics of each label. No tables for regression, or for runs of older versions.

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
    note = f"Test graphs of {len(details)} runs at the picked epoch: mean ± standard deviation, in percent."
    if len(details) == 1:
        note = "Test graphs of one run at the picked epoch, in percent."
    if matrices:
        header += ["graphs", *(f"as {guess}" for guess in range(len(matrices[0])))]
        note += (
            " graphs: how many graphs of this class were tested, in all runs. as 0, as 1, …: the share with "
            "this prediction."
        )
    rows = []
    for index in range(len(next(iter(numbers.values()))[0])):
        cells = [Cell(str(index))]
        for values in numbers.values():
            class_values = [run[index] for run in values if index < len(run) and run[index] is not None]
            cells.append(Cell(format_mean(_SHARE, *summarize(class_values)[:2])) if class_values else NOTHING)
        rows.append((*cells, *(_confusion_cells(matrices, index) if matrices else ())))
    return Table(f"classes-{result.method}", f"{result.method}: {several}", tuple(header), tuple(rows), note, ())


def _confusion_cells(matrices: Sequence[Sequence[Sequence[int]]], true_class: int) -> list[Cell]:
    """The number of graphs of a class, and the share of them that is predicted as each class."""
    counts = [sum(matrix[true_class][guess] for matrix in matrices) for guess in range(len(matrices[0]))]
    total = sum(counts)
    shares = [
        Cell(f"{100 * count / max(total, 1):.1f}", "bold" if guess == true_class else "")
        for guess, count in enumerate(counts)
    ]
    return [Cell(f"{total:,}", "muted"), *shares]
