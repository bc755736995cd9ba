"""How a measure follows from the per-claim rows of a run.

Scorers measure by it, and so do comparisons of runs of which only the rows are left: what was
scored once can be computed again on any choice or resample of claims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from components.score.base import Measure

Rows: TypeAlias = Sequence[Mapping[str, Any]]

# The columns of these; other formulas name theirs.
FIXED = {"f1": ("gold", "predicted"), "ece": ("confidence", "accuracy")}


def formula_of(name: str, formula: Sequence[str]) -> tuple[str, ...]:
    """The formula in full: an empty one is the mean of the column that is called as the measure."""
    return tuple(formula) or ("mean", name)


def usable(row: Mapping[str, Any], formula: Sequence[str]) -> bool:
    """Whether a row has what the formula needs. A claim without prediction is `predicted` None."""
    kind, *columns = formula
    names = FIXED.get(kind, columns)
    return all(row.get(n) is not None or (n == "predicted" and n in row) for n in names)


def over(name: str, measure: Measure, rows: Rows) -> int:
    """How many claims a measure was taken over; 0 where rows don't tell."""
    formula = formula_of(name, measure.formula)
    return sum(usable(row, formula) for row in rows)


def statistic(formula: Sequence[str], rows: Rows) -> Any:
    """The `bootstrap.SumStatistic` of a formula over rows that are all usable.

    mean COLUMN; harmonic COLUMN COLUMN (of two means); ratio COLUMN COLUMN (sum by sum: micro
    precision or recall); micro_f1 HITS PREDICTED GOLD; f1 LABEL … (macro over the labels); ece.
    """
    from components.score import bootstrap, calibration

    kind, *words = formula
    mean, ratio, harmonic = bootstrap.mean, bootstrap.ratio, bootstrap.harmonic
    makers: dict[str, Callable[..., bootstrap.SumStatistic]] = {
        "mean": mean,
        "harmonic": lambda first, second: harmonic(mean(first), mean(second)),
        "ratio": ratio,
        "micro_f1": lambda hits, predicted, gold: harmonic(
            ratio(hits, predicted), ratio(hits, gold)
        ),
        "f1": lambda gold, predicted: bootstrap.f1(gold, predicted, words),
        "ece": calibration.calibration_error,
    }
    columns = FIXED.get(kind, words)
    return makers[kind](*([row[name] for row in rows] for name in columns))


def measured(
    formulas: Mapping[str, Sequence[str]], rows: Rows, draws: int, seed: int
) -> dict[str, Measure]:
    """Each measure by name, over the rows that have its columns, with its 95 % interval.

    A measure that no row has the columns for is left out.
    """
    from components.score import bootstrap

    weights: dict[int, bootstrap.Floats] = {}
    measures = {}
    for name, formula in formulas.items():
        full = formula_of(name, formula)
        inside = [row for row in rows if usable(row, full)]
        n = len(inside)
        if not n:
            continue
        if n not in weights:
            weights[n] = bootstrap.resamples(n, draws, seed)
        found = bootstrap.measure(statistic(full, inside), weights[n])
        measures[name] = Measure(
            value=found.value, low=found.low, high=found.high, formula=list(formula)
        )
    return measures
