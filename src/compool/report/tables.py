"""The tables of a study: those of the paper, with its numbers next to ours, and more."""

from dataclasses import replace
from statistics import median
from typing import Any

from compool.data import paper
from compool.report.formats import Cell, Table
from compool.report.pick import PICKS
from compool.report.results import OURS, Result, Row, Study
from compool.report.statistics import EQUIVALENCE_MARGIN, POWER, SIGNIFICANCE, TEST_TO_TRAIN, Summary
from compool.study.metrics import METRICS, Metric, format_mean

NOTHING = Cell("–", "muted")
_POWER_COLUMNS = ("detectable", "equivalent")
PUBLISHED = "published"  # the heading of the paper's numbers: a recipe may be called paper


def tables(study: Study) -> list[Table]:
    """Every table of a study.

    Example:
        >>> from compool.report.collection import collect
        >>> [table.name for table in tables(collect([]))]
        ['accuracy', 'p-values', 'parameters', 'pooling']
    """
    compared = study.compared
    made = [accuracy(compared), *replacement_tables(study), p_values(study), parameters(compared), pooling(study)]
    return made if _is_in_paper(study) else [_without_paper(table) for table in made]


def _is_in_paper(study: Study) -> bool:
    """Whether tables have columns of the paper's numbers."""
    return any(row.dataset in paper.REPORTED for row in study.rows)


def _without_paper(table: Table) -> Table:
    """A table without the columns of the paper's numbers, for data sets that are not in the paper."""
    columns = [column for column, heading in enumerate(table.header) if heading != PUBLISHED]
    rows = tuple(tuple(row[column] for column in columns) for row in table.rows)
    return replace(table, header=tuple(table.header[column] for column in columns), rows=rows)


def accuracy(study: Study) -> Table:
    """Test accuracies, or another metric: bold if significantly best, underlined if tied with the best."""
    is_accuracy = all(row.metric == METRICS["accuracy"] for row in study.rows)
    header = [*_name_columns(study), *([] if is_accuracy else ["metric"])]
    for method in study.methods:
        header += [method, PUBLISHED]
    counts = {result.accuracy.num_values for row in study.rows for result in row.results.values() if result.accuracy}
    max_runs = max(counts, default=0)
    rows, records = [], []
    for row in study.rows:
        cells = [*_names(study, row), *([] if is_accuracy else [Cell(row.metric.title + row.metric.unit)])]
        for method in study.methods:
            result = row.results.get(method)
            mark = ("bold" if len(row.best) == 1 else "underline") if method in row.best else ""
            summary, reported = result.accuracy if result else None, row.reported(method)
            fewer = f" ({summary.num_values})" if summary and summary.num_values < max_runs else ""
            cells.append(Cell(format_summary(summary, row.metric) + fewer, mark) if summary else NOTHING)
            cells.append(Cell(f"{reported.mean:.1f} ± {reported.std:.1f}", "muted") if reported else NOTHING)
            if result and summary:
                records.append(
                    _key(row, method)
                    | ({} if is_accuracy else {"metric": row.metric.title})
                    | {"runs": summary.num_values, "mean": summary.mean, "std": summary.std, "best": mark}
                    | {"published_mean": reported and reported.mean, "published_std": reported and reported.std}
                )
        rows.append(tuple(cells))
    fewer_runs = " (fewer: the number in brackets)" if len(counts) > 1 else ""
    average = " of one run" if max_runs == 1 else f", mean ± standard deviation over {max_runs} runs{fewer_runs}"
    measured, picked = "Test accuracy in percent", PICKS[study.pick]
    if not is_accuracy:
        measured, picked = "The metric on test graphs", picked.replace("validation accuracy", "validation metric")
    note = f"{measured}{average}, {picked}."
    if any(row.best for row in study.rows):
        note += (
            " Bold: better than every other method here by the corrected resampled t-test at "
            f"{SIGNIFICANCE}; underlined: not significantly different from the best."
        )
    if not max_runs:
        note = "No run finished." if study.rows else "There are no runs to show."
    title = "Accuracy" if is_accuracy else "Test metric"
    texts = len(_name_columns(study)) + (not is_accuracy)
    return Table("accuracy", title, tuple(header), tuple(rows), note, tuple(records), texts=texts)


def replacement_tables(study: Study) -> list[Table]:
    """Test accuracies of our networks with other pooling layers, or none; no table if there are no such runs."""
    if not study.replacements.rows:
        return []
    table = _without_paper(accuracy(study.replacements))
    note = f"The networks of {OURS}, with other layers in place of its pooling, or none. {table.note}"
    return [replace(table, name="instead", title="Other pooling in the same networks", note=note)]


def p_values(study: Study) -> Table:
    """Component pooling against each other method."""
    names = _name_columns(study)
    header = (*names, "against", "splits", "points", "95 % interval", "p", "Holm", *_POWER_COLUMNS)
    rows, records = [], []
    for row in study.rows:
        for method, comparison in row.comparisons.items():
            reported = row.reported(method)
            published = reported.p_value if reported else None
            corrected, holm = comparison.corrected, study.holm_p_values[row.dataset, row.recipe, method]
            digits = 1 if row.metric.higher else 3
            low, points, high = (
                [_signed(value, digits) for value in (corrected.low, corrected.difference, corrected.high)]
                if corrected
                else "–––"
            )
            interval = f"{low} … {high}" if corrected else "–"
            cells = [method, str(comparison.pairs), points, interval]
            detectable = "–" if comparison.detectable is None else f"{comparison.detectable:.{digits}f}"
            p_value = corrected.p_value if corrected else None
            rows.append(
                (
                    *_names(study, row),
                    *map(Cell, cells),
                    *map(_p_cell, (p_value, holm)),
                    Cell(detectable),
                    *map(_p_cell, (comparison.equivalence, comparison.wilcoxon, comparison.t)),
                    Cell(_p(published), "muted"),
                    Cell("–" if comparison.effect is None else _signed(comparison.effect, 2)),
                )
            )
            records.append(
                _key(row, method)
                | {"pairs": comparison.pairs, "difference": corrected and corrected.difference}
                | {"low": corrected and corrected.low, "high": corrected and corrected.high}
                | {"p_corrected": p_value, "p_holm": holm, "p_wilcoxon": comparison.wilcoxon, "p_t_test": comparison.t}
                | {"p_published": published, "effect_size": comparison.effect}
                | {"detectable": comparison.detectable, "p_equivalent": comparison.equivalence}
            )
    published_column = "published: the paper's p-value; " if _is_in_paper(study) else ""
    note = (
        f"Component pooling minus the other method, {_differences(study)}. The columns t-test and d use all runs, the "
        "others only the splits that both methods were tested on. p: the corrected resampled t-test, which allows for "
        f"overlapping splits (test to training graphs: {_ratios(study)}), as does the interval; Holm: this p-value, "
        "corrected for several data sets; Wilcoxon, t-test: p-values of tests that treat runs as independent, the "
        f"latter as in the paper; {published_column}d: Cohen's effect size. Bold: below {SIGNIFICANCE}. In the "
        "files and on the page: detectable: the true difference that is found significant with a probability of "
        f"{100 * POWER:g} %; equivalent: the p-value of two one-sided corrected tests that the methods differ by less "
        f"than {EQUIVALENCE_MARGIN:g} points."
    )
    if not rows:
        note = f"There is nothing to compare: this needs runs of {OURS} and of another method on the same data set."
    return Table(
        "p-values",
        "Differences",
        (*header, "Wilcoxon", "t-test", PUBLISHED, "d"),
        tuple(rows),
        note,
        tuple(records),
        len(names) + 1,
        _POWER_COLUMNS,
    )


def parameters(study: Study) -> Table:
    """Parameters of the networks, and how many more or fewer component pooling has."""
    others = [method for method in study.methods if method != OURS] if OURS in study.methods else []
    header = list(_name_columns(study))
    for method in study.methods:
        header += [method, PUBLISHED]
    for method in others:
        header += [f"against {method}", PUBLISHED]
    rows, records = [], []
    for row in study.rows:
        counts = {method: result.parameters for method, result in row.results.items()}
        published = {
            method: reported.parameters for method in study.methods if (reported := row.reported(method)) is not None
        }
        cells = list(_names(study, row))
        for method in study.methods:
            cells += [_count(counts.get(method)), _count(published.get(method), "muted")]
            if method in counts:
                change = _change(counts, method)
                record = {"parameters": counts[method], "published_parameters": published.get(method)}
                records.append(_key(row, method) | record | {"component_change_percent": change})
        for method in others:
            cells += [_percent(_change(counts, method)), _percent(_change(published, method), "muted")]
        rows.append(tuple(cells))
    note = "Learnable parameters."
    if others:
        note += " against X: how many more (+) or fewer (−) parameters component pooling has than X, in percent."
    texts = len(_name_columns(study))
    return Table("parameters", "Parameters", tuple(header), tuple(rows), note, tuple(records), texts)


def pooling(study: Study) -> Table:
    """The nodes that each method keeps, and the cost of a run."""
    names = _name_columns(study)
    header = (*names, "method", "runs", "failed", "nodes kept, %", "epoch picked", "seconds per run", "runs per block")
    rows, records = [], []
    num_levels = max([3, *(len(result.kept) for row in study.rows for result in row.results.values())])
    for row in study.rows:
        for method, result in row.results.items():
            kept = " → ".join(f"{level:.0f}" for level in result.kept)
            picked = [run.epoch for run in result.done if run.epoch is not None]
            blocks = sorted({run.block for run in result.runs})
            block = str(blocks[0]) if len(blocks) == 1 else f"{blocks[0]}–{blocks[-1]}"
            epochs = result.runs[0].settings.get("epochs")
            epoch = f"{median(picked):.0f}" + (f" of {epochs}" if epochs else "") if picked else "–"
            failed = Cell(str(result.failed), "bold" if result.failed else "muted")
            cells = map(Cell, (kept or "–", epoch, _seconds(result), block))
            rows.append((*_names(study, row), Cell(method), Cell(str(len(result.runs))), failed, *cells))
            shares = [*result.kept, *[None] * (num_levels - len(result.kept))]  # every record has the same columns
            levels = {f"kept_percent_{level}": share for level, share in enumerate(shares, 1)}
            record: dict[str, Any] = {"runs": len(result.runs), "failed": result.failed, "seconds": result.seconds}
            record |= {"median_epoch": median(picked) if picked else None}
            records.append(_key(row, method) | record | levels)
    note = (
        "nodes kept: mean share of the validation graphs' nodes left after each pooling layer, at the epoch picked; "
        "epoch picked: median over runs; seconds per run: time of a block divided by its number of runs, which depends "
        "on the device."
    )
    return Table("pooling", "Nodes kept and cost", header, tuple(rows), note, tuple(records), len(names) + 1)


def format_summary(summary: Summary, metric: Metric = METRICS["accuracy"]) -> str:
    """Mean ± standard deviation, in percent if the metric is a share; only the mean of a single value.

    Example:
        >>> format_summary(Summary(74.71, 3.92, 100)), format_summary(Summary(74.71, 0.0, 1))
        ('74.7 ± 3.9', '74.7')
    """
    deviation = summary.std / metric.scale if summary.num_values > 1 else None
    return format_mean(metric, summary.mean / metric.scale, deviation)


def _differences(study: Study) -> str:
    """The unit of differences, in words."""
    units = {
        "in points of accuracy" if row.metric == METRICS["accuracy"] else f"in {row.metric.title}" for row in study.rows
    }
    return units.pop() if len(units) == 1 else "in points of accuracy" if not units else "in units of the metric"


def _ratios(study: Study) -> str:
    """The ratios of test to training graphs of all comparisons."""
    ratios = sorted(
        {comparison.ratio for row in study.rows for comparison in row.comparisons.values()} or {TEST_TO_TRAIN}
    )
    low, high = f"{ratios[0]:.3g}", f"{ratios[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def _name_columns(study: Study) -> tuple[str, ...]:
    """The headings of a row's names: the recipe has a column unless all recipes are ``fast``."""
    return ("data set",) if study.recipes in ([], ["fast"]) else ("data set", "recipe")


def _names(study: Study, row: Row) -> tuple[Cell, ...]:
    return tuple(map(Cell, (row.dataset, row.recipe)))[: len(_name_columns(study))]


def _key(row: Row, method: str) -> dict[str, Any]:
    return {"dataset": row.dataset, "recipe": row.recipe, "method": method}


def _change(counts: dict[str, int], method: str) -> float | None:
    """The additional parameters of component pooling compared with the method, in percent."""
    if method == OURS or not counts.get(OURS) or not counts.get(method):
        return None
    return 100 * (counts[OURS] / counts[method] - 1)


def _seconds(result: Result) -> str:
    return f"{result.seconds:,.0f}" if result.seconds >= 100 else f"{result.seconds:.2g}"


def _count(value: int | None, mark: str = "") -> Cell:
    return NOTHING if value is None else Cell(f"{value:,}", mark)


def _percent(value: float | None, mark: str = "") -> Cell:
    return NOTHING if value is None else Cell(f"{_signed(value)} %", mark)


def _signed(value: float, digits: int = 1) -> str:
    text = f"{round(value, digits) + 0.0:+.{digits}f}"
    return text.replace("-", "−") if text.strip("+-0.") else text.lstrip("+-")


def _p_cell(value: float | None) -> Cell:
    return Cell(_p(value), "bold" if value is not None and value < SIGNIFICANCE else "")


def _p(value: float | None) -> str:
    return "–" if value is None else "<0.001" if value < 0.0005 else f"{value:.3f}"
