"""How far a system's probabilities can be trusted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from components.score.bootstrap import Floats, SumStatistic

BINS = 10


def brier(probabilities: dict[str, float], gold: str) -> float:
    """Brier score of one claim: squared distance to the gold label, summed over the labels.

    0 to 2, lower is better (Brier 1950).
    """
    labels = {*probabilities, gold}  # in an order of this process: fsum gives the same for any
    return math.fsum((probabilities.get(label, 0.0) - (label == gold)) ** 2 for label in labels)


def calibration_error(confidence: Sequence[float], correct: Sequence[float]) -> SumStatistic:
    """Expected calibration error over ten equal bins: 0 to 1, lower is better (Guo et al. 2017).

    confidence: probability (0 to 1) of the predicted label; correct: 1 if it was right, else 0.
    """
    gap = np.asarray(correct, dtype=np.float64) - np.asarray(confidence, dtype=np.float64)
    columns = np.column_stack([np.eye(BINS)[_bins(confidence)] * gap[:, None], np.ones(len(gap))])

    def combine(sums: Floats) -> Floats:
        return np.asarray(np.abs(sums[:, :-1]).sum(axis=1) / sums[:, -1])

    return SumStatistic(columns, combine)


def reliability(confidence: Sequence[float], correct: Sequence[float]) -> list[dict[str, Any]]:
    """Rows for a reliability diagram, one a filled bin: its mean confidence and accuracy."""
    bins = _bins(confidence)
    rows = []
    for number in sorted(set(bins.tolist())):
        inside = bins == number
        rows.append(
            {
                "bin": f"{number / BINS:.1f}-{(number + 1) / BINS:.1f}",
                "claims": int(inside.sum()),
                "confidence": float(np.asarray(confidence)[inside].mean()),
                "accuracy": float(np.asarray(correct, dtype=np.float64)[inside].mean()),
            }
        )
    return rows


def _bins(confidence: Sequence[float]) -> Any:
    return np.clip((np.asarray(confidence) * BINS).astype(int), 0, BINS - 1)
