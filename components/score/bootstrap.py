"""Intervals and paired tests by resampling claims.

A resample of n claims is a row of weights: how often each claim was drawn. A *statistic* maps
weights (draws, n) to one value a draw. Where it is a function of sums over claims – a mean, a macro
F1, a calibration error – two runs can also be tested by randomisation, a row of zeros and ones that
says which claims they have swapped. Runs that are compared share the same resamples and swaps.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from components.errors import ClaimflowError
from components.records import Record
from components.score.base import Measure

Floats: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[[Floats], Floats]
"""A figure over n claims: weights (draws, n) to one value a draw."""

ALPHA = 0.05  # two-sided level of tests, and what intervals leave out
POWER = 0.8
CELLS = 4_000_000  # of the matrices of weights that are held at a time


@dataclasses.dataclass(frozen=True)
class SumStatistic:
    """A statistic that is a function of sums over n claims.

    columns: (n, d), what each claim adds to d sums; combine: sums (draws, d) to values (draws).
    values: the value of each claim, where the figure is their mean.
    """

    columns: Floats
    combine: Callable[[Floats], Floats]
    values: Floats | None = None

    def __call__(self, weights: Floats) -> Floats:
        return self.combine(weights @ self.columns)

    @property
    def value(self) -> float:
        """The figure on the claims as they are."""
        return float(self(np.ones((1, len(self.columns))))[0])


class Difference(Record, omit_defaults=False):
    """A difference between two runs on the same claims: first less second.

    low, high: 95 % bootstrap interval. p: two-sided, of the paired bootstrap; how likely a
    difference this large is if the two are equally good.
    """

    value: float
    low: float
    high: float
    p: float


# Statistics


def mean(values: ArrayLike) -> SumStatistic:
    """The mean of one value a claim."""
    column = np.asarray(values, dtype=np.float64)
    columns = np.column_stack([column, np.ones(len(column))])
    return SumStatistic(columns, lambda sums: sums[:, 0] / sums[:, 1], column)


def ratio(part: ArrayLike, whole: ArrayLike, empty: float = 0.0) -> SumStatistic:
    """The sum of `part` over the sum of `whole`, one value of each a claim: a micro average, or
    with a `whole` of 0 and 1 the mean over some claims. `empty` where the sum of `whole` is 0."""
    columns = np.column_stack([part, whole]).astype(np.float64)
    return SumStatistic(columns, lambda sums: _quotient(sums[:, 0], sums[:, 1], empty))


def harmonic(first: SumStatistic, second: SumStatistic) -> SumStatistic:
    """The harmonic mean of two statistics, 0 where both are 0: F1 of precision and recall."""
    split = first.columns.shape[1]

    def combine(sums: Floats) -> Floats:
        a, b = first.combine(sums[:, :split]), second.combine(sums[:, split:])
        return _quotient(2 * a * b, a + b)

    return SumStatistic(np.hstack([first.columns, second.columns]), combine)


def f1(gold: Sequence[Any], predicted: Sequence[Any], labels: Sequence[Any]) -> SumStatistic:
    """F1 of the labels, averaged over them (macro); one label alone gives its own F1.

    A label that is neither gold nor predicted in a resample counts 0, as in scikit-learn.
    """
    gold_is = np.array([[g == label for label in labels] for g in gold], dtype=np.float64)
    predicted_is = np.array([[p == label for label in labels] for p in predicted], np.float64)
    columns = np.hstack([gold_is * predicted_is, gold_is + predicted_is])

    def combine(sums: Floats) -> Floats:
        hits, total = np.hsplit(sums, 2)
        return np.asarray(_quotient(2 * hits, total).mean(axis=1))

    return SumStatistic(columns, combine)


def _quotient(above: Floats, below: Floats, empty: float = 0.0) -> Floats:
    return np.divide(above, below, out=np.full_like(above, empty), where=below > 0)


# Intervals


def resamples(n: int, draws: int, seed: int) -> Floats:
    """Weights (draws, n) of `draws` resamples of n claims with replacement; rows sum to n."""
    return np.concatenate(list(_resamples(n, draws, seed)))


def _resamples(n: int, draws: int, seed: int) -> Iterator[Floats]:
    """The same, some at a time: all of them for many claims would fill the memory."""
    if n < 1 or draws < 1:
        raise ClaimflowError(f"A bootstrap needs claims and draws; there are {n} and {draws}.")
    rng = np.random.default_rng(seed)
    for size in _portions(n, draws):
        yield rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)


def _portions(n: int, draws: int) -> Iterator[int]:
    most = max(1, CELLS // n)
    for start in range(0, draws, most):
        yield min(most, draws - start)


def measure(statistic: Statistic, weights: Floats) -> Measure:
    """The statistic on the claims as they are, with its 95 % percentile interval."""
    low, high = interval(statistic(weights))
    return Measure(value=_whole(statistic, weights), low=low, high=high)


def _whole(statistic: Statistic, weights: Floats) -> float:
    """The statistic on the claims as they are, each once."""
    return float(statistic(np.ones((1, weights.shape[1])))[0])


def interval(drawn: Floats) -> tuple[float, float]:
    """95 % percentile interval of the values in the resamples."""
    low, high = np.percentile(drawn, [100 * ALPHA / 2, 100 * (1 - ALPHA / 2)])
    return float(low), float(high)


def drawn(figures: Sequence[SumStatistic], draws: int, seed: int) -> Floats:
    """Values (figures, draws) of statistics over the same claims in the same resamples."""
    n = len(figures[0].columns)
    parts = [[figure(weights) for figure in figures] for weights in _resamples(n, draws, seed)]
    return np.concatenate([np.array(part) for part in parts], axis=1)


# Tests


def paired_bootstrap(first: Statistic, second: Statistic, weights: Floats) -> Difference:
    """Difference of two runs whose statistics are over the same claims in the same order."""
    value = _whole(first, weights) - _whole(second, weights)
    return difference(value, first(weights) - second(weights))


def difference(value: float, drawn: Floats) -> Difference:
    """The paired bootstrap of a difference, given what it is in each resample of the claims.

    p: twice the share of resamples in which the difference has the other sign or is nil (Efron
    and Tibshirani 1993, chapter 16), never below 2 / (draws + 1).
    """
    low, high = interval(drawn)
    tail = min(np.sum(drawn <= 0), np.sum(drawn >= 0))
    p = min(1.0, 2 * (tail + 1) / (len(drawn) + 1))
    return Difference(value=value, low=low, high=high, p=float(p))


def randomisation(
    figures: Sequence[SumStatistic],
    pairs: Sequence[tuple[int, int]],
    draws: int = 10_000,
    seed: int = 13,
) -> list[float]:
    """p of the difference of each pair when each claim's two outcomes are swapped at random.

    figures: statistics over the same claims; pairs: indexes into them. Two-sided: the share of
    swaps that give a difference at least as large (Noreen 1989; Yeh 2000 for F1). All 2^n swaps
    are gone through where these are no more than `draws`: then p is exact. Else p is never below
    1 / (draws + 1).
    """
    n = len(figures[0].columns)
    exact = 2**n <= draws
    total = [figure.columns.sum(axis=0) for figure in figures]
    # Sums in another order differ in the last bits: equal must count as reached.
    least = [abs(figures[a].value - figures[b].value) - 1e-12 for a, b in pairs]
    reached = np.zeros(len(pairs), dtype=np.int64)
    count = 0
    for swaps in _all_swaps(n) if exact else _swaps(n, draws, seed):
        part = [swaps @ figure.columns for figure in figures]
        for i, (a, b) in enumerate(pairs):
            moved = part[b] - part[a]
            one = figures[a].combine(total[a] + moved)
            other = figures[b].combine(total[b] - moved)
            reached[i] += np.sum(np.abs(one - other) >= least[i])
        count += len(swaps)
    if not exact:
        reached, count = reached + 1, count + 1  # the outcome itself is one of them
    return [float(hits / count) for hits in reached]


def _swaps(n: int, draws: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    for size in _portions(n, draws):
        yield rng.integers(0, 2, size=(size, n), dtype=np.int8).astype(np.float64)


def _all_swaps(n: int) -> Iterator[Floats]:
    numbers = np.arange(2**n)[:, None]
    yield ((numbers >> np.arange(n)) & 1).astype(np.float64)


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for being many (Holm 1979), in the order given; at most 1."""
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = highest
    return adjusted


def detectable(first: SumStatistic, second: SumStatistic, drawn: Floats) -> float:
    """Minimal detectable difference between two runs: the smallest true difference that a paired
    two-sided test at .05 finds with power .8 on this many claims.

    (z(.975) + z(.8)) times the standard error of the difference, which for means is the standard
    deviation of the claims' differences by the root of n, and for other figures the standard
    deviation of the difference over resamples (`drawn`). 0 when the two are alike on every claim.
    """
    z = statistics.NormalDist().inv_cdf
    if first.values is not None and second.values is not None:
        apart = first.values - second.values
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else 0.0
    else:
        error = drawn.std(ddof=1)
    return float((z(1 - ALPHA / 2) + z(POWER)) * error)
