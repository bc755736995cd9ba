"""What every scorer gives back."""

from __future__ import annotations

from typing import Any

from components.records import Record


class Measure(Record):
    """A figure with its 95 % bootstrap interval (claims resampled; percentile method).

    low and high are None where an interval makes no sense.
    """

    value: float
    low: float | None = None
    high: float | None = None


class Scores(Record):
    """Result of one scorer on one set of predictions.

    measures: name to figure; names are q, qa, score_at_0.25, accuracy, f1_macro, ndcg_at_10,
    recall_at_10, recall_at_100, mrr, ap …
    per_claim: one row a claim with its `id` and the values whose mean is the measure where it is
    a mean (paired tests between runs use these columns).
    notes: what a reader should know: claims without prediction, extra ones, quirks followed.
    """

    measures: dict[str, Measure] = {}
    per_claim: list[dict[str, Any]] = []
    tables: dict[str, list[dict[str, Any]]] = {}  # breakdowns, confusion matrix
    notes: list[str] = []
