"""The best one-to-one matching: the Hungarian method, by shortest augmenting paths.

SciPy has it too, but takes longer to be imported than a thousand claims to be matched.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike


def best_sum(scores: ArrayLike) -> float:
    """Largest sum over a choice of cells of a matrix (n, m) of which no two share a row or column;
    0 for an empty matrix. Takes min(n, m)² · max(n, m) steps at most."""
    matrix = np.asarray(scores, dtype=np.float64)
    if not matrix.size:
        return 0.0
    if matrix.shape[0] > matrix.shape[1]:
        matrix = matrix.T
    chosen = _matching((-matrix).tolist())
    return float(matrix[np.arange(len(chosen)), chosen].sum())


def _matching(cost: Sequence[Sequence[float]]) -> list[int]:
    """The column of each row where the sum is least; there are at least as many columns as rows.

    First each row takes its best column, if that is free. For each other row, those that hold the
    columns on the cheapest path to a free one move on by one. `row_price` and `price` of columns
    are such that no cell costs less than both, and those chosen cost just that (Jonker and
    Volgenant 1987).
    """
    columns = range(len(cost[0]))
    row_price, price = [min(row) for row in cost], [0.0 for _ in columns]
    best = [row.index(least) for row, least in zip(cost, row_price, strict=True)]
    row_of = dict(zip(reversed(best), reversed(range(len(best))), strict=True))  # the first of each
    column_of = [column if row_of[column] == row else -1 for row, column in enumerate(best)]
    for start in range(len(cost)):
        if column_of[start] >= 0:
            continue
        length = [math.inf for _ in columns]  # of the cheapest path found to each column
        before = [-1 for _ in columns]  # the last row on it
        reached: list[int] = []
        left = list(columns)
        row, walked = start, 0.0
        while True:
            costs, so_far = cost[row], walked - row_price[row]
            walked, end = math.inf, -1
            for column in left:
                through = so_far + costs[column] - price[column]
                if through < length[column]:
                    length[column], before[column] = through, row
                if length[column] < walked:
                    walked, end = length[column], column
            if end not in row_of:
                break
            reached.append(end)
            left.remove(end)
            row = row_of[end]
        row_price[start] += walked
        for column in reached:
            row_price[row_of[column]] += walked - length[column]
            price[column] -= walked - length[column]
        while end >= 0:  # that of the row before is taken on, down to `start`, which has none
            row = before[end]
            row_of[end] = row
            end, column_of[row] = column_of[row], end
    return column_of
