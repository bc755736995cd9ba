"""The best one-to-one matching: the Hungarian method, by shortest augmenting paths.

SciPy has it too, but takes longer to be imported than 500 claims to be matched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def best_sum(scores: Floats) -> float:
    """Largest sum over a choice of cells of a matrix (n, m) of which no two share a row or column;
    0 for an empty matrix. Takes min(n, m)² · max(n, m) steps at most."""
    if not scores.size:
        return 0.0
    if scores.shape[0] > scores.shape[1]:
        scores = scores.T
    best = scores.argmax(1)
    if len(set(best.tolist())) < len(best):
        best = _matching(-scores)
    return float(scores[np.arange(len(best)), best].sum())


def _matching(cost: Floats) -> NDArray[np.int64]:
    """The column of each row where the sum is least; there are at least as many columns as rows.

    Row by row: where the best column is taken, the rows that hold the columns on the cheapest path
    to a free one move on by one. `row_price` and `price` of columns are such that no cell costs
    less than both, and those chosen cost just that (Jonker and Volgenant 1987).
    """
    rows, columns = cost.shape
    row_price, price = np.zeros(rows), np.zeros(columns)
    column_of = np.full(rows, -1)
    row_of = np.full(columns, -1)
    for start in range(rows):
        length = np.full(columns, np.inf)  # of the cheapest path found to each column
        row_before = np.full(columns, -1)  # the last row on it
        reached: list[int] = []
        row, walked = start, 0.0
        while True:
            through = walked + cost[row] - row_price[row] - price
            through[reached] = np.inf
            shorter = through < length
            length[shorter] = through[shorter]
            row_before[shorter] = row
            left = length.copy()
            left[reached] = np.inf
            column = int(left.argmin())
            walked = length[column]
            if row_of[column] < 0:
                break
            reached.append(column)
            row = row_of[column]
        row_price[start] += walked
        row_price[row_of[reached]] += walked - length[reached]
        price[reached] -= walked - length[reached]
        while True:
            row = row_before[column]
            row_of[column] = row
            column, column_of[row] = column_of[row], column
            if row == start:
                break
    return column_of
