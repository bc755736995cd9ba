"""How far the order of systems can be trusted: what becomes of it under resampling of claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.records import Record
from components.score.bootstrap import Floats


class Ranks(Record, omit_defaults=False):
    """Rank stability of systems over bootstrap resamples of the claims.

    systems: best first. chances: for each system the probability of each rank, from the first
    (rows and columns sum to 1; ranks that systems share in a resample are split between them).
    swaps: for each system but the last, in which share of resamples the next one is ahead of it; a
    tie counts half. order_changes: share in which any two neighbours have changed places.
    """

    systems: list[str]
    chances: list[list[float]]
    swaps: list[float]
    order_changes: float


def rank_stability(systems: Sequence[str], drawn: Floats) -> Ranks:
    """Rank stability of systems, given best first.

    drawn: (systems, draws), the value of each in each resample of the same claims; higher is
    better (turn the sign of a measure where lower is).
    """
    values = np.round(drawn, 12)  # sums in another order differ in the last bits
    count = len(values)
    chances = np.zeros((count, count))
    for i, own in enumerate(values):
        ahead = (values > own).sum(axis=0)
        level = (values == own).sum(axis=0)  # itself among them
        for rank in range(count):
            inside = (ahead <= rank) & (rank < ahead + level)
            chances[i, rank] = (inside / level).mean()
    upper, lower = values[:-1], values[1:]
    swaps = (lower > upper).mean(axis=1) + (lower == upper).mean(axis=1) / 2
    return Ranks(
        systems=list(systems),
        chances=chances.tolist(),
        swaps=swaps.tolist(),
        order_changes=float((lower > upper).any(axis=0).mean()),
    )
