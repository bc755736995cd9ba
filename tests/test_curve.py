"""Measures along an axis of numbers: means over seeds, intervals, and the trade-off in words."""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest

from components.report import page
from components.report.compare import Comparison, Point, compare
from components.report.curve import axis_of, section, spots
from components.score import bootstrap
from components.score.formula import measured

FORMULAS = {
    "precision": ["ratio", "right", "said"],
    "recall": ["ratio", "right", "known"],
}


def point(ratio: int, seed: int, right: float, said: float, claims: int = 60, **more: str) -> Point:
    """A run that is right on a share of the claims, and says something of another."""
    rng = random.Random(f"{ratio} {seed}")
    rows: list[dict[str, Any]] = []
    for n in range(claims):
        hit = int(rng.random() < right)
        rows.append(
            {"id": str(n), "right": hit, "said": max(hit, int(rng.random() < said)), "known": 1}
        )
    axes = {"negatives.ratio": str(ratio), **more, "seed": str(seed)}
    return Point(
        name=str(axes), axes=axes, per_claim=rows, measures=measured(FORMULAS, rows, 200, 13)
    )


def compared(points: list[Point]) -> Comparison:
    return compare("sweep", points, "precision", ["recall"], draws=200)


def test_means_over_seeds_with_the_intervals_of_claims() -> None:
    points = [point(r, s, 0.5, 0.9) for r in (0, 5) for s in (1, 2, 3)]
    found = compared(points)
    assert axis_of(found) == "negatives.ratio"
    made = {(spot.measure, spot.x): spot for spot in spots(found)}
    assert len(made) == 4
    spot = made["recall", 5]
    those = points[3:]
    values = [p.measures["recall"].value for p in those]
    assert (spot.seeds, spot.value) == (3, pytest.approx(statistics.mean(values)))
    assert spot.sd == pytest.approx(statistics.stdev(values))
    # Recall is a mean here: the mean over the seeds is that of the claims' means over the seeds.
    rows = [
        statistics.mean(row["right"] for row in sorted_rows)
        for sorted_rows in zip(*(p.per_claim for p in those), strict=True)
    ]
    expected = bootstrap.measure(bootstrap.mean(rows), bootstrap.resamples(60, 200, 13))
    assert (spot.low, spot.high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def test_equal_rows_have_the_interval_of_the_run() -> None:
    """One seed, or seeds that change nothing: the table of runs and that of the axis agree."""
    one = {ratio: point(ratio, 1, 0.5, 0.9) for ratio in (0, 5)}
    again = [
        msgspec.structs.replace(p, name=f"again {r}", axes={**p.axes, "seed": "2"})
        for r, p in one.items()
    ]
    later = msgspec.structs.replace(again[0], per_claim=again[0].per_claim[::-1])
    for points in ([*one.values()], [*one.values(), *again], [*one.values(), later, again[1]]):
        for spot in spots(compared(points)):
            own = one[int(spot.x)].measures[spot.measure]
            assert (spot.low, spot.high) == (pytest.approx(own.low), pytest.approx(own.high))


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ((0.9, 1.0), (0.3, 0.0), "is seen**"),
        ((0.2, 1.0), (0.9, 0.1), "is not seen**: both change in the same"),
        ((0.5, 1.0), (0.5, 1.0), "is not shown**"),
    ],
)
def test_the_trade_off_in_words(
    first: tuple[float, float], last: tuple[float, float], said: str
) -> None:
    points = [point(0, s, *first) for s in (1, 2, 3)] + [point(20, s, *last) for s in (1, 2, 3)]
    part = section(compared(points))
    assert part
    assert part.title == "By ratio"
    assert part.text[0].startswith("From ratio 0 to 20 precision changes by ")
    assert said in part.text[0]


def test_other_axes_are_series_of_one_plot(tmp_path: Path) -> None:
    points = [
        point(r, s, 0.5, 0.9, strategy=strategy)
        for strategy in ("random", "hard") for r in (0, 5, 20) for s in (1, 2)
    ]  # fmt: skip
    found = compared(points)
    part = section(found)
    assert part
    assert [line.split(":")[0] for line in part.text[:2]] == ["random", "hard"]
    assert [row[0] for row in part.tables[0].rows] == ["random"] * 3 + ["hard"] * 3
    assert [row[1] for row in part.tables[0].rows] == ["0", "5", "20"] * 2
    page.write(tmp_path, found, None, 1)
    assert (tmp_path / "plots" / "curve.png").stat().st_size > 5000
    assert "By ratio" in (tmp_path / "report.html").read_text("utf-8")


def test_no_axis_of_numbers_no_curve() -> None:
    one = [point(5, s, 0.5, 0.9) for s in (1, 2)]
    assert axis_of(compared(one)) is None
    words = [Point(name=x, axes={"retriever": x}, measures=one[0].measures) for x in ("a", "b")]
    assert section(compared(words)) is None
    two = [point(r, 1, 0.5, 0.9, k=str(r)) for r in (1, 2)]
    assert axis_of(compared(two)) is None  # which of the two?
