"""Runs claim by claim: where two differ, whose label is right, and how sure they were."""

from __future__ import annotations

from typing import Any

from components.records import AVERITEC_LABELS, Record
from components.report.compare import Comparison, Point
from components.score.formula import usable


class Differing(Record):
    """A claim on which two runs differ. right: which of the two has the right label, or does
    better on the primary measure where there are no labels: first, second, or neither."""

    id: str
    text: str
    gold: str | None
    labels: tuple[str | None, str | None]
    scores: dict[str, tuple[float, float]]
    right: str


def differing(found: Comparison, first: str, second: str) -> list[Differing]:
    """The claims on which two runs give different labels (without labels: are not equally good on
    the primary measure), those first where the primary measure is furthest apart."""
    one, other = (_rows(found, name) for name in (first, second))
    texts = texts_of(found)
    columns = [m for m in found.shown if m != "accuracy"]
    claims = []
    for i in (i for i in one if i in other):
        a, b = one[i], other[i]
        scores = {
            m: (float(a[m]), float(b[m]))
            for m in columns
            if a.get(m) is not None and b.get(m) is not None
        }
        labelled = "predicted" in a and "predicted" in b
        better = scores.get(found.primary, (0.0, 0.0))
        if a["predicted"] == b["predicted"] if labelled else better[0] == better[1]:
            continue
        if labelled:
            hits = [row["predicted"] == row.get("gold") for row in (a, b)]
        else:
            hits = [better[0] > better[1], better[1] > better[0]]
        claims.append(
            Differing(
                id=i,
                text=texts.get(i, ""),
                gold=a.get("gold"),
                labels=(a.get("predicted"), b.get("predicted")),
                scores=scores,
                right="first" if hits[0] else "second" if hits[1] else "neither",
            )
        )

    def apart(claim: Differing) -> list[float]:
        order = [found.primary, *(m for m in claim.scores if m != found.primary)]
        return [-abs(a - b) for m in order if m in claim.scores for a, b in [claim.scores[m]]]

    return sorted(claims, key=apart)


def agreement(found: Comparison, first: str, second: str) -> dict[str, int] | None:
    """On how many claims both, only one, or none of two runs has the right label."""
    one, other = (_rows(found, name) for name in (first, second))
    pairs = [
        (a["predicted"] == a["gold"], b["predicted"] == b["gold"])
        for a, b in ((one[i], other[i]) for i in one if i in other)
        if "predicted" in a and "predicted" in b and a.get("gold")
    ]
    names = {(True, True): "both", (True, False): "first", (False, True): "second"}
    counts = dict.fromkeys(["both", "first", "second", "neither"], 0)
    for pair in pairs:
        counts[names.get(pair, "neither")] += 1
    return counts if pairs else None


def confusion(point: Point) -> tuple[list[str], list[list[int]]] | None:
    """(labels, counts by gold row and predicted column) of a run; `none`: no or another label."""
    rows = [row for row in point.per_claim if row.get("gold") and "predicted" in row]
    if not rows:
        return None
    gold = {row["gold"] for row in rows}
    labels = [x for x in AVERITEC_LABELS if x in gold] if gold <= {*AVERITEC_LABELS} else []
    labels = labels or sorted(gold)
    guesses = [*labels, "none"]
    table = [[0] * len(guesses) for _ in labels]
    for row in rows:
        guess = row["predicted"] if row["predicted"] in labels else "none"
        table[labels.index(row["gold"])][guesses.index(guess)] += 1
    if not any(counts[-1] for counts in table):
        guesses, table = labels, [counts[:-1] for counts in table]
    return guesses, table


def reliability_of(point: Point) -> list[dict[str, Any]]:
    """Rows of a run's reliability diagram; none when it gives no probabilities."""
    rows = [r for r in point.per_claim if usable(r, ("ece",))]
    if not rows:
        return []
    from components.score.calibration import reliability

    return reliability([r["confidence"] for r in rows], [r["accuracy"] for r in rows])


def _rows(found: Comparison, name: str) -> dict[str, dict[str, Any]]:
    point = next(p for p in found.runs if p.name == name)
    return {str(row["id"]): row for row in point.per_claim}


def texts_of(found: Comparison) -> dict[str, str]:
    """The text of each claim by id: of the gold file where there is one, else as the runs say."""
    texts = {i: text for point in reversed(found.runs) for i, text in point.texts.items() if text}
    return texts | {i: claim.text for i, claim in found.gold.items() if claim.text}
