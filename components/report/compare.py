"""Runs side by side: each with its interval, and its paired difference to the best."""

from __future__ import annotations

from typing import Any

import msgspec

from components.records import Record
from components.report.table import figure, heading, markdown
from components.score.base import Measure
from components.score.bootstrap import (
    Difference,
    holm,
    mean,
    paired_bootstrap,
    resamples,
)


class Point(Record):
    """A run to compare. per_claim: rows with `id` and per-claim values by measure name."""

    name: str
    axes: dict[str, str] = {}
    measures: dict[str, Measure] = {}
    per_claim: list[dict[str, Any]] = []
    seconds: float = 0
    hits: int = 0
    misses: int = 0
    error: str | None = None


def primary_of(points: list[Point], wanted: str | None) -> str:
    """The measure that points are ranked by: `wanted` if any point has it, else the first."""
    for name in (wanted, *(m for point in points for m in point.measures)):
        if name and any(name in point.measures for point in points):
            return name
    return wanted or ""


def differences(
    points: list[Point], primary: str, draws: int = 1000, seed: int = 13
) -> dict[str, Difference]:
    """By point name, the best point less that point, on the claims that both have.

    p is of the paired bootstrap over claims, corrected after Holm for the number of comparisons.
    The best point itself, and measures that are no mean over claims, give no entry.
    """
    values = {
        p.name: {row["id"]: row[primary] for row in p.per_claim if row.get(primary) is not None}
        for p in points
        if not p.error and primary in p.measures
    }
    if len(values) < 2:
        return {}
    best = max(
        (p for p in points if p.name in values), key=lambda point: point.measures[primary].value
    ).name
    found: dict[str, Difference] = {}
    for name in values:
        ids = [i for i in values[best] if i in values[name]]
        if name == best or not ids:
            continue
        found[name] = paired_bootstrap(
            mean([values[best][i] for i in ids]),
            mean([values[name][i] for i in ids]),
            resamples(len(ids), draws, seed),
        )
    corrected = holm([difference.p for difference in found.values()])
    return {
        name: msgspec.structs.replace(difference, p=p)
        for (name, difference), p in zip(found.items(), corrected, strict=True)
    }


def table(points: list[Point], primary: str, shown: list[str]) -> tuple[list[str], list[list[str]]]:
    """(columns, rows) of a comparison, best first; failed points stand last with their error."""
    apart = differences(points, primary)
    axes = list(dict.fromkeys(axis for point in points for axis in point.axes))
    measures = [m for m in dict.fromkeys([primary, *shown]) if any(m in p.measures for p in points)]
    columns = [
        *(axes or ["run"]),
        *map(heading, measures),
        "behind the best",
        "p (Holm)",
        "significant",
        "seconds",
        "from cache",
    ]
    rows = []
    for point in sorted(
        points, key=lambda p: -p.measures[primary].value if primary in p.measures else 9e9
    ):
        start = [point.axes.get(axis, "") for axis in axes] or [point.name]
        if point.error:
            rows.append(
                [
                    *start,
                    *["failed", *["–"] * len(measures)][: len(measures)],
                    point.error,
                    "–",
                    "–",
                    f"{point.seconds:.1f}",
                    f"{point.hits}/{point.hits + point.misses}",
                ]
            )
            continue
        apart_here = apart.get(point.name)
        rows.append(
            [
                *start,
                *(figure(point.measures.get(m)) for m in measures),
                f"{apart_here.value:.3f} [{apart_here.low:.3f}, {apart_here.high:.3f}]"
                if apart_here
                else "best",
                f"{apart_here.p:.3f}" if apart_here else "–",
                ("yes" if apart_here.p < 0.05 else "no") if apart_here else "–",
                f"{point.seconds:.1f}",
                f"{point.hits}/{point.hits + point.misses}",
            ]
        )
    return columns, rows


def report(title: str, points: list[Point], primary: str, shown: list[str]) -> str:
    """The comparison as Markdown, with what a reader must know to read it."""
    columns, rows = table(points, primary, shown)
    claims = max((len(p.per_claim) for p in points), default=0)
    return (
        f"# {title}\n\n{markdown(columns, rows)}\n\n"
        f"{claims} claims; intervals are 95 % bootstrap intervals over claims. A difference is "
        f"paired (same claims) and called significant when p < .05 after Holm's correction for "
        f"{max(len(points) - 1, 0)} comparisons. `from cache`: results taken from the cache of all "
        "that the point needed.\n"
    )
