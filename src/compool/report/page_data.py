"""The numbers behind the plots of a page, as JSON."""

import json
import math
from collections.abc import Sequence
from typing import Any

import torch

from compool.report.levels import InspectedGraph, Level
from compool.report.plotting import colour_index, file_name
from compool.report.ranks import cliques, rank_study
from compool.report.results import OURS, Result, Row, Study
from compool.report.statistics import Ranking
from compool.report.sweeps import Sweep, responses
from compool.report.tables import format_summary
from compool.study.metrics import Metric

MAX_FEATURES = 6  # shown per node, the largest


def script_data(study: Study, graphs: Sequence[InspectedGraph], sweeps: Sequence[Sweep] = ()) -> str:
    """The data of the page's scripts, as JSON that is safe inside a script element.

    Example:
        >>> from compool.report.collection import collect
        >>> script_data(collect([]), [])
        '{"methods":[],"colours":{},"recipes":[],"rows":[],"rankings":[],"sweeps":[],"graphs":[]}'
    """
    value = {
        "methods": study.methods,
        "colours": {method: f"var(--c{colour_index(method)})" for method in study.methods},
        "recipes": sorted(study.recipes, key=lambda recipe: -_num_results(study, recipe)),
        "rows": [_row_data(study, row, anchor) for row, anchor in _linked(study)],
        "rankings": [_ranking_data(methods, ranking) for _, (methods, ranking, _) in rankings(study)],
        "sweeps": [_sweep_data(sweep) for sweep in sweeps],
        "graphs": [_graph_data(graph) for graph in graphs],
    }
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def rankings(study: Study) -> list[tuple[str, tuple[list[str], Ranking, int]]]:
    """The recipes that have enough data sets to rank methods, and their rankings."""
    all_rankings = [(recipe, rank_study(study.compared, recipe)) for recipe in study.recipes]
    return [(recipe, ranking) for recipe, ranking in all_rankings if ranking is not None]


def _ranking_data(methods: list[str], ranking: Ranking) -> dict[str, Any]:
    joined = cliques(sorted(ranking.ranks), ranking.critical_difference)
    return {"methods": methods, "ranks": ranking.ranks, "difference": ranking.critical_difference, "cliques": joined}


def _sweep_data(sweep: Sweep) -> dict[str, Any]:
    return {
        "method": sweep.method,
        "metric": {"title": sweep.metric.title, "unit": sweep.metric.unit},
        "points": [point | {"validation": _rounded(point["validation"])} for point in sweep.points],
        "means": {key: [[value, _rounded(mean)] for value, mean in means] for key, means in responses(sweep).items()},
    }


def anchors(study: Study) -> dict[str, str]:
    """The anchor of each data set's tab in the page.

    Example:
        >>> from compool.report.collection import collect
        >>> anchors(collect([]))
        {}
    """
    names: dict[str, str] = {}
    for index, dataset in enumerate(study.datasets):
        name = f"data-{file_name(dataset)}"
        names[dataset] = f"{name}-{index}" if name in names.values() else name
    return names


def _linked(study: Study) -> list[tuple[Row, str]]:
    links = anchors(study)
    return [(row, links[row.dataset]) for row in study.rows]


def _num_results(study: Study, recipe: str) -> int:
    return sum(len(row.results) for row in study.rows if row.recipe == recipe)


def _row_data(study: Study, row: Row, anchor: str) -> dict[str, Any]:
    return {
        "dataset": row.dataset,
        "recipe": row.recipe,
        "label": row.label,
        "link": f"#{anchor}",
        "results": [_result_data(row, row.results[method]) for method in study.methods if method in row.results],
        "metric": {"title": row.metric.title, "unit": row.metric.unit, "higher": row.metric.higher},
        "differences": _differences(study, row),
    }


def _differences(study: Study, row: Row) -> list[dict[str, Any]]:
    """Component pooling minus each other method on the same splits."""
    differences = []
    for method, comparison in row.comparisons.items():
        if comparison.corrected is not None:
            test = comparison.corrected
            holm = study.holm_p_values[row.dataset, row.recipe, method]
            numbers = {"difference": test.difference, "low": test.low, "high": test.high, "p": test.p_value}
            rounded = {key: float(f"{value:.4g}") for key, value in numbers.items()}
            title = f"{row.title}: {OURS} minus {method}"
            differences.append({"method": method, "title": title, "pairs": comparison.pairs, **rounded, "holm": holm})
    return differences


def _result_data(row: Row, result: Result) -> dict[str, Any]:
    reported = row.reported(result.method)
    return {
        "method": result.method,
        "title": f"{row.title}, {result.method}",
        "text": format_summary(result.accuracy, row.metric) if result.accuracy else "",
        "runs": [
            [run.replica, _shown(row.metric, run.test), run.epoch, [round(100 * share, 1) for share in run.kept]]
            for run in result.done
            if run.test is not None
        ],
        "published": [reported.mean, reported.std] if reported else None,
        "parameters": result.parameters,
        "publishedParameters": reported.parameters if reported else None,
        "curves": {
            name: [[_rounded(value) for value in line] for line in curve] for name, curve in result.curves.items()
        },
    }


def _shown(metric: Metric, value: float) -> float:
    """A value as shown: in percent with two decimals, or with four digits."""
    return round(100 * value, 2) if metric.higher else float(f"{value:.4g}")


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _graph_data(graph: InspectedGraph) -> dict[str, Any]:
    levels = []
    convolved = not torch.equal(graph.given, graph.levels[0].x)  # otherwise the first layer's features are the input
    for depth, level in enumerate(graph.levels):
        merges = zip(*level.hierarchy.merges().tolist(), _digits(level.hierarchy.score), strict=True)
        levels.append(
            {
                "positions": [[round(x, 4), round(y, 4)] for x, y in level.position.tolist()],
                "edges": list(zip(*level.edge_index.tolist(), _digits(level.edge_score), strict=True)),
                "merges": list(merges),
                "threshold": level.threshold,
                "weights": level.weights,
                "own": _own(level) if level.is_budgeted else None,
                "features": [_largest(line) for line in level.x.tolist()],
                "given": [_largest(line) for line in graph.given.tolist()] if depth == 0 and convolved else None,
            }
        )
    return {
        "dataset": graph.dataset,
        "index": graph.index,
        "label": graph.label,
        "verdict": graph.verdict,
        "probabilities": [float(f"{share:.4g}") for share in graph.probabilities],
        "about": graph.about,
        "levels": levels,
    }


def _own(level: Level) -> dict[str, Any]:
    """What a layer with a budget did, which the page shows until the slider is moved."""
    weight = None if level.node_weight is None else _digits(level.node_weight)
    return {"cluster": level.cluster.tolist(), "weight": weight}


def _digits(score: torch.Tensor) -> list[float]:
    """Scores with enough digits for float32."""
    return [float(f"{value:.9g}") for value in score.tolist()]


def _largest(values: list[float]) -> list[tuple[int, float]]:
    """The features of a node with the largest absolute values, and these values."""
    nonzero = sorted((index for index, value in enumerate(values) if value), key=lambda index: -abs(values[index]))
    return [(index, float(f"{values[index]:.4g}")) for index in sorted(nonzero[:MAX_FEATURES])]
