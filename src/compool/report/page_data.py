"""The numbers behind the plots of a page, as plain values for JSON."""

import json
import math
from collections.abc import Sequence
from typing import Any

import torch

from compool.report.levels import Shown
from compool.report.plotting import place_of
from compool.report.ranks import cliques, ranked
from compool.report.results import Result, Row, Study
from compool.report.statistics import Ranking
from compool.report.tables import spread

SHOWN_FEATURES = 6  # of a node, the largest


def script_data(study: Study, graphs: Sequence[Shown]) -> str:
    """What the page's scripts draw, as JSON that can stand inside a script element: nothing in it ends that.

    Example:
        >>> from compool.report.results import collect
        >>> script_data(collect([]), [])  # doctest: +ELLIPSIS
        '{"methods":["component","edgepool","gin"],"colours":{...},"rows":[],"rankings":[],"graphs":[]}'
    """
    value = {
        "methods": study.methods,
        "colours": {method: f"var(--c{place_of(method)})" for method in study.methods},
        "rows": [_row(study, at) for at in range(len(study.rows))],
        "rankings": [_ranking(*found) for _, found in rankings(study)],
        "graphs": [_graph(shown) for shown in graphs],
    }
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def rankings(study: Study) -> list[tuple[str, tuple[list[str], Ranking, int]]]:
    """The recipes that have enough data sets to rank methods, and their rankings."""
    found = [(recipe, ranked(study.compared, recipe)) for recipe in study.recipes]
    return [(recipe, one) for recipe, one in found if one is not None]


def _ranking(methods: list[str], found: Ranking, number: int) -> dict[str, Any]:
    joined = cliques(sorted(found.ranks), found.critical_difference)
    return {"methods": methods, "ranks": found.ranks, "difference": found.critical_difference, "cliques": joined}


def _row(study: Study, at: int) -> dict[str, Any]:
    row = study.rows[at]
    results = [_result(row, row.results[method]) for method in study.methods if method in row.results]
    return {"title": row.title, "link": f"#data-{at}", "results": results}


def _result(row: Row, result: Result) -> dict[str, Any]:
    reported = row.reported(result.method)
    return {
        "method": result.method,
        "label": f"{row.title}, {result.method}",
        "text": spread(result.accuracy) if result.accuracy else "",
        "runs": [
            [run.replica, round(100 * run.test, 2), run.epoch, [round(100 * share, 1) for share in run.kept]]
            for run in result.done
            if run.test is not None
        ],
        "paper": [reported.mean, reported.std] if reported else None,
        "parameters": result.parameters,
        "paperParameters": reported.parameters if reported else None,
        "curves": {
            name: [[_rounded(value) for value in line] for line in curve] for name, curve in result.curves.items()
        },
    }


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _graph(shown: Shown) -> dict[str, Any]:
    levels = []
    convolved = not torch.equal(shown.given, shown.levels[0].x)  # else the layer sees the input itself
    for number, level in enumerate(shown.levels):
        scores = [float(f"{score:.9g}") for score in level.edge_score.tolist()]  # what tells float32 numbers apart
        levels.append(
            {
                "place": [[round(x, 4), round(y, 4)] for x, y in level.place.tolist()],
                "edges": [[i, j, s] for (i, j), s in zip(level.edge_index.t().tolist(), scores, strict=True)],
                "threshold": level.threshold,
                "weights": level.weights,
                "features": [_largest(line) for line in level.x.tolist()],
                "given": [_largest(line) for line in shown.given.tolist()] if number == 0 and convolved else None,
            }
        )
    return {
        "dataset": shown.dataset,
        "index": shown.index,
        "label": shown.label,
        "guess": shown.guess,
        "about": shown.about,
        "levels": levels,
    }


def _largest(values: list[float]) -> list[tuple[int, float]]:
    """The features of a node that are furthest from 0, and their values."""
    found = sorted((at for at, value in enumerate(values) if value), key=lambda at: -abs(values[at]))
    return [(at, float(f"{values[at]:.4g}")) for at in sorted(found[:SHOWN_FEATURES])]
