"""Measures along an axis of numbers, over the runs that differ in their seed alone."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from components.records import Record
from components.report.compare import SEED, Comparison, Point, axes_of, short_axes
from components.report.plot import COLOURS, blank, plain, settled
from components.report.sections import Section, Table
from components.report.table import heading
from components.score.formula import formula_of, statistic, usable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Spot(Record):
    """A measure at one value of the axis, of one series (the other axes): the mean over the seeds
    with its 95 % interval, claims resampled alike for all seeds, and the standard deviation."""

    measure: str
    series: str
    x: float
    seeds: int
    value: float
    low: float
    high: float
    sd: float


class Change(Record):
    """What a measure gains from the first to the last value of the axis, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """Of a change that is no chance, else 0."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0

    def __str__(self) -> str:
        return f"{self.value:+z.3f} [{self.low:+z.3f}, {self.high:+z.3f}]"


def axis_of(found: Comparison) -> str | None:
    """The one axis besides the seed that has numbers alone, two at least; None if there is none."""
    axes = dict.fromkeys(axis for point in found.runs for axis in point.axes)
    numeric = []
    for axis in axes:
        values = {point.axes.get(axis, "") for point in found.runs}
        if axis != SEED and len(values) > 1 and all(map(_number, values)):
            numeric.append(axis)
    return numeric[0] if len(numeric) == 1 else None


def groups(found: Comparison, axis: str) -> dict[str, dict[float, list[Point]]]:
    """The runs by series and value of the axis, values rising."""
    made: dict[str, dict[float, list[Point]]] = {}
    for point in sorted(found.runs, key=lambda point: float(point.axes[axis])):
        others = [value for name, value in point.axes.items() if name not in (axis, SEED)]
        spots = made.setdefault(", ".join(others), {})
        spots.setdefault(float(point.axes[axis]), []).append(point)
    return made


def spots(found: Comparison, seed: int = 13) -> list[Spot]:
    """The shown measures along the axis."""
    axis = axis_of(found)
    made = []
    for series, by_value in groups(found, axis).items() if axis else ():
        for measure in found.shown:
            for x, points in by_value.items():
                known = [point for point in points if measure in point.measures]
                if not known:
                    continue
                values = [point.measures[measure].value for point in known]
                low, high = _interval(known, measure, found.draws, seed)
                sd = statistics.stdev(values) if len(values) > 1 else 0.0
                made.append(
                    Spot(
                        measure=measure, series=series, x=x, seeds=len(known),
                        value=statistics.mean(values), low=low, high=high, sd=sd,
                    )
                )  # fmt: skip
    return made


def section(found: Comparison) -> Section | None:
    """What the axis does, as a part of the report; None without such an axis."""
    axis = axis_of(found)
    if axis is None:
        return None
    name = _short(found, axis)
    text = [trade_off(found, series, by_value, name)
            for series, by_value in groups(found, axis).items()]  # fmt: skip
    text.append(
        "Each figure is the mean over the seeds. Intervals are of claims resampled, alike for all "
        "seeds; of a measure that does not follow from counts by claim, the mean of the runs' "
        "own. sd is over the seeds."
    )
    tables = []
    rows: dict[tuple[str, float], dict[str, Spot]] = {}
    for spot in spots(found):
        rows.setdefault((spot.series, spot.x), {})[spot.measure] = spot
    several = len({series for series, _ in rows}) > 1
    measures = [m for m in found.shown if any(m in row for row in rows.values())]
    table = Table(
        columns=[*(["series"] if several else []), name, "seeds", *map(heading, measures)],
        rows=[
            [
                *([series] if several else []),
                f"{x:g}",
                str(max(spot.seeds for spot in row.values())),
                *(_figure_of(row[m]) if m in row else "–" for m in measures),
            ]
            for (series, x), row in rows.items()
        ],
        words=1 + several,
    )
    tables.append(table)
    return Section(
        title=f"By {name}",
        text=[line for line in text if line],
        tables=tables,
        plot="curve",
        caption=f"Measures by {name}: mean over the seeds, 95 % intervals.",
    )


def trade_off(found: Comparison, series: str, by_value: dict[float, list[Point]], name: str) -> str:
    """Whether precision is paid for with recall from the first to the last value, in words; empty
    where the runs don't show both."""
    pair = [
        next((m for m in found.shown if m.endswith(kind)), None) for kind in ("precision", "recall")
    ]
    if None in pair:
        return ""
    first, last = min(by_value), max(by_value)
    precision, recall = (
        change(by_value[first], by_value[last], str(measure), found.draws) for measure in pair
    )
    if precision is None or recall is None:
        return ""
    signs = (precision.sign, recall.sign)
    if signs in ((1, -1), (-1, 1)):
        said = "**The trade-off of precision against recall is seen**: both changes are no chance."
    elif 0 in signs:
        said = (
            "**The trade-off of precision against recall is not shown**: an interval reaches 0, "
            "so that these claims and seeds don't tell."
        )
    else:
        said = (
            "**The trade-off of precision against recall is not seen**: both change in the same "
            "direction."
        )
    of = f"{series}: from" if series else "From"
    changes = f"precision changes by {precision}, recall by {recall}"
    return f"{of} {name} {first:g} to {last:g} {changes}. {said}"


def change(
    before: list[Point], after: list[Point], measure: str, draws: int, seed: int = 13
) -> Change | None:
    """What the mean over the runs gains; None where it does not follow from rows."""
    import numpy as np

    drawn = [_drawn(points, measure, draws, seed) for points in (before, after)]
    if drawn[0] is None or drawn[1] is None or drawn[0].shape != drawn[1].shape:
        return None
    low, high = np.percentile(drawn[1] - drawn[0], [2.5, 97.5])
    means = [statistics.mean(p.measures[measure].value for p in points)
             for points in (before, after)]  # fmt: skip
    return Change(value=means[1] - means[0], low=float(low), high=float(high))


def _interval(points: list[Point], measure: str, draws: int, seed: int) -> tuple[float, float]:
    from components.score import bootstrap

    drawn = _drawn(points, measure, draws, seed)
    if drawn is not None:
        return bootstrap.interval(drawn)
    found = [point.measures[measure] for point in points]
    lows = [m.value if m.low is None else m.low for m in found]
    highs = [m.value if m.high is None else m.high for m in found]
    return statistics.mean(lows), statistics.mean(highs)


def _drawn(points: list[Point], measure: str, draws: int, seed: int) -> Any:
    """(draws,): the mean over the runs in each resample of the claims; None where the measure does
    not follow from rows, or the runs have other claims."""
    from components.score import bootstrap

    figures = []
    ids: list[str] = []
    for point in points:
        if measure not in point.measures:
            continue
        formula = formula_of(measure, point.measures[measure].formula)
        rows = {str(row["id"]): row for row in point.per_claim if usable(row, formula)}
        ids = ids or list(rows)  # in the scorer's order: then its intervals are of these draws, too
        if not rows or rows.keys() != {*ids}:
            return None
        figures.append(statistic(formula, [rows[i] for i in ids]))
    return bootstrap.drawn(figures, draws, seed).mean(axis=0) if figures else None


def curve_plot(found: Comparison) -> Figure | None:
    """One panel a shown measure, one line a series."""
    axis, every = axis_of(found), spots(found)
    if axis is None or not every:
        return None
    measures = [m for m in found.shown if any(spot.measure == m for spot in every)]
    across = min(len(measures), 2)
    down = -(-len(measures) // across)
    picture = blank(4 * across, 2.7 * down + 0.3)
    panels = picture.subplots(down, across, squeeze=False).ravel()
    series = list(dict.fromkeys(spot.series for spot in every))
    for panel, measure in zip(panels, measures, strict=False):
        x: list[float] = []
        for one, colour in zip(series, COLOURS * len(series), strict=False):
            line = [spot for spot in every if (spot.measure, spot.series) == (measure, one)]
            x = [spot.x for spot in line]
            panel.fill_between(
                x, [s.low for s in line], [s.high for s in line], color=colour, alpha=0.15, lw=0
            )
            panel.plot(x, [spot.value for spot in line], "o-", color=colour, ms=5, label=one)
        panel.set_title(heading(measure), fontsize=10)
        panel.set_xlabel(_short(found, axis), fontsize=9)
        panel.set_ylim(bottom=0)
        if min(x) > 0 and max(x) > 100 * min(x):
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter("{x:g}")
        if len(series) > 1:
            panel.legend(frameon=False, fontsize=8)
        plain(panel, "both")
    for panel in panels[len(measures) :]:
        panel.set_visible(False)
    return settled(picture)


def _short(found: Comparison, axis: str) -> str:
    return short_axes(axes_of(found.runs))[axis]


def _figure_of(spot: Spot) -> str:
    return f"{spot.value:z.3f} [{spot.low:z.3f}, {spot.high:z.3f}] sd {spot.sd:z.3f}"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
