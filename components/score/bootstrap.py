"""Intervals and paired tests by resampling claims.

A resample of n claims is a row of weights: how often each claim was drawn. A *statistic* maps
weights (draws, n) to one value a draw, so that a mean and a macro F1 are treated alike, and two
runs share the same resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from components.errors import ClaimflowError
from components.records import Record
from components.score.base import Measure

Floats: TypeAlias = NDArray[np.float64]
Statistic: TypeAlias = Callable[[Floats], Floats]


class Difference(Record):
    """A difference between two runs on the same claims: first less second.

    low, high: 95 % bootstrap interval. p: two-sided; how likely a difference this large is if the
    two are equally good.
    """

    value: float
    low: float
    high: float
    p: float


def resamples(n: int, draws: int, seed: int) -> Floats:
    """Weights (draws, n) of `draws` resamples of n claims with replacement; rows sum to n."""
    if n < 1 or draws < 1:
        raise ClaimflowError(f"A bootstrap needs claims and draws; there are {n} and {draws}.")
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)


def mean(values: ArrayLike) -> Statistic:
    """The mean of one value a claim."""
    column = np.asarray(values, dtype=np.float64)
    return lambda weights: weights @ column / weights.sum(axis=1)


def ratio(part: ArrayLike, whole: ArrayLike, empty: float = 0.0) -> Statistic:
    """The sum of `part` over the sum of `whole`, one value of each a claim: a micro average, or
    with a `whole` of 0 and 1 the mean over some claims. `empty` where the sum of `whole` is 0."""
    parts, wholes = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)

    def statistic(weights: Floats) -> Floats:
        total = weights @ wholes
        return np.divide(weights @ parts, total, out=np.full_like(total, empty), where=total > 0)

    return statistic


def harmonic(first: Statistic, second: Statistic) -> Statistic:
    """The harmonic mean of two statistics, 0 where both are 0: F1 of precision and recall."""

    def statistic(weights: Floats) -> Floats:
        a, b = first(weights), second(weights)
        return np.divide(2 * a * b, a + b, out=np.zeros_like(a), where=a + b > 0)

    return statistic


def f1(gold: Sequence[Any], predicted: Sequence[Any], labels: Sequence[Any]) -> Statistic:
    """F1 of the labels, averaged over them (macro); one label alone gives its own F1.

    A label that is neither gold nor predicted in a resample counts 0, as in scikit-learn.
    """
    gold_is = np.array([[g == label for label in labels] for g in gold], dtype=np.float64)
    predicted_is = np.array([[p == label for label in labels] for p in predicted], np.float64)

    def statistic(weights: Floats) -> Floats:
        hits = weights @ (gold_is * predicted_is)
        total = weights @ (gold_is + predicted_is)
        each = np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0)
        return np.asarray(each.mean(axis=1))

    return statistic


def measure(statistic: Statistic, weights: Floats) -> Measure:
    """The statistic on the claims as they are, with its 95 % percentile interval."""
    value = statistic(np.ones((1, weights.shape[1])))[0]
    low, high = np.percentile(statistic(weights), [2.5, 97.5])
    return Measure(value=float(value), low=float(low), high=float(high))


def paired_bootstrap(first: Statistic, second: Statistic, weights: Floats) -> Difference:
    """Difference of two runs whose statistics are over the same claims in the same order.

    p: twice the share of resamples in which the difference has the other sign or is nil (Efron
    and Tibshirani 1993, chapter 16), never below 2 / (draws + 1).
    """
    whole = np.ones((1, weights.shape[1]))
    value = first(whole)[0] - second(whole)[0]
    drawn = first(weights) - second(weights)
    low, high = np.percentile(drawn, [2.5, 97.5])
    tail = min(np.sum(drawn <= 0), np.sum(drawn >= 0))
    p = min(1.0, 2 * (tail + 1) / (len(drawn) + 1))
    return Difference(value=float(value), low=float(low), high=float(high), p=float(p))


def paired_randomisation(
    first: ArrayLike, second: ArrayLike, draws: int = 10_000, seed: int = 13
) -> float:
    """p of a difference in means when each claim's two values are swapped at random (two-sided).

    The sum of differences is compared with `draws` sums under random signs (Noreen 1989).
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    rng = np.random.default_rng(seed)
    signs = rng.integers(0, 2, size=(draws, len(difference)), dtype=np.int8) * 2 - 1
    sums = np.abs(signs @ difference)
    # Sums in another order differ in the last bits: equal must count as reached.
    reached = np.sum(sums >= abs(difference.sum()) * (1 - 1e-12) - 1e-12)
    return float((reached + 1) / (draws + 1))


def holm(ps: Sequence[float]) -> list[float]:
    """p values corrected for being many (Holm 1979), in the order given; at most 1."""
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[at]))
        adjusted[at] = highest
    return adjusted
