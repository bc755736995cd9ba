"""Runs claim by claim: where two differ, whose label is right, and how sure they were."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from components.records import AVERITEC_LABELS, Record
from components.report.compare import Comparison
from components.score.base import Measure
from components.score.formula import measured, usable

SEED = 13  # of the resamples of the baseline


class Differing(Record):
    """A claim on which two runs differ. right: which of the two has the right label, or does
    better on the primary measure where there are no labels: first, second, or neither."""

    id: str
    text: str
    gold: str | None
    labels: tuple[str | None, str | None]
    scores: dict[str, tuple[float, float]]
    right: str


# Measures of evidence; of these the first that two runs have tells whose is better on a claim.
EVIDENCE = ("ev2r_qa", "ev2r", "ev2r_recall", "qa", "meteor_qa", "hungarian_meteor", "evidence_f1")


def differing(found: Comparison, first: str, second: str) -> list[Differing]:
    """The claims on which two runs give different labels (without labels: are not equally good on
    the primary measure), those first where the primary measure is furthest apart."""
    claims = []
    for a, b, claim in _both(found, first, second, [found.primary, *found.shown]):
        one, other = claim.scores.get(found.primary, (0.0, 0.0))
        if "predicted" in a and "predicted" in b:
            if a["predicted"] == b["predicted"]:
                continue
            hits = [row["predicted"] == row.get("gold") for row in (a, b)]
            claim.right = "first" if hits[0] else "second" if hits[1] else "neither"
        elif one == other:
            continue
        claims.append(claim)
    return sorted(claims, key=_nearness)


def evidence_apart(
    found: Comparison, first: str, second: str
) -> tuple[str, list[Differing]] | None:
    """A measure of evidence, and the claims on which two runs differ on it, those first where they
    are furthest apart, whatever their labels; None where runs have no such measure."""
    own = [{m for row in _rows(found, name).values() for m in row} for name in (first, second)]
    measure = next((m for m in EVIDENCE if all(m in columns for columns in own)), None)
    if measure is None:
        return None
    both = _both(found, first, second, [measure, *found.shown])
    claims = [claim for _, _, claim in both if len({*claim.scores.get(measure, ())}) > 1]
    return measure, sorted(claims, key=_nearness)


def _both(
    found: Comparison, first: str, second: str, measures: list[str]
) -> Iterator[tuple[dict[str, Any], dict[str, Any], Differing]]:
    """(row of the one, row of the other, both) of each claim that two runs have, with the scores on
    `measures`; whose right it is by the first of them."""
    one, other = (_rows(found, name) for name in (first, second))
    texts = texts_of(found)
    columns = [m for m in dict.fromkeys(measures) if m != "accuracy"]
    for i in (i for i in one if i in other):
        a, b = one[i], other[i]
        scores = {
            m: (float(a[m]), float(b[m]))
            for m in columns
            if a.get(m) is not None and b.get(m) is not None
        }
        better = scores.get(measures[0], (0.0, 0.0))
        yield (
            a,
            b,
            Differing(
                id=i,
                text=texts.get(i, ""),
                gold=a.get("gold"),
                labels=(a.get("predicted"), b.get("predicted")),
                scores=scores,
                right="first" if better[0] > better[1] else "second",
            ),
        )


def _nearness(claim: Differing) -> list[float]:
    """How near two runs are, measure by measure, negative."""
    return [-abs(a - b) for a, b in claim.scores.values()]


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


class Confusion(Record):
    """How often each gold label (row) was given which label (column). A prediction that is missing,
    or of a label that the data set does not have, is `none`."""

    gold: list[str]
    predicted: list[str]
    counts: list[list[int]]


def confusions(found: Comparison) -> dict[str, Confusion]:
    """Confusion matrix of each run that gives labels, on the claims that all of these have."""
    rows = shared(found, ("f1",))
    every = [row for own in rows.values() for row in own]
    said = {row[key] for row in every for key in ("gold", "predicted")}
    gold = {row["gold"] for row in every}
    known = AVERITEC_LABELS if gold <= {*AVERITEC_LABELS} else sorted(gold)
    labels = [label for label in known if label in said]
    columns = labels if said <= {*labels} else [*labels, "none"]
    tables = {}
    for name, own in rows.items():
        pairs = collections.Counter(
            (r["gold"], r["predicted"] if r["predicted"] in labels else "none") for r in own
        )
        inside = [label for label in labels if label in gold]
        counts = [[pairs[label, column] for column in columns] for label in inside]
        tables[name] = Confusion(gold=inside, predicted=columns, counts=counts)
    return tables


class Majority(Record):
    """What always giving the label that most claims have would score: a baseline that looks at no
    claim. measures: accuracy and f1_macro, over `claims` claims."""

    label: str
    claims: int
    measures: dict[str, Measure]


def majority(found: Comparison) -> Majority | None:
    """The majority baseline on the claims that all runs with labels have; None without any."""
    rows = next(iter(shared(found, ("f1",)).values()), [])
    gold = [row["gold"] for row in rows]
    if not gold:
        return None
    label = collections.Counter(gold).most_common(1)[0][0]
    macro = (p.measures["f1_macro"].formula for p in found.runs if "f1_macro" in p.measures)
    formulas = {"accuracy": [], "f1_macro": next(macro, [])}
    always = [{"gold": g, "predicted": label, "accuracy": float(g == label)} for g in gold]
    kept = {name: formulas[name] for name in formulas if name in found.values}
    measures = measured(kept, always, found.draws, SEED)
    return Majority(label=label, claims=len(gold), measures=measures)


class Repeats(Record):
    """What a run's QAs are like: their mean number a claim, on how many claims some repeat a
    question, and Hungarian METEOR as it is and without these repeats. score, score_once: the same
    of the AVeriTeC score."""

    qas: float
    repeating: int
    qa: float
    qa_once: float
    score: float
    score_once: float


def repeats(found: Comparison, level: float) -> dict[str, Repeats]:
    """What repeated questions do to each run that has such rows, on the claims that all have."""
    wanted = ("mean", "qas", "repeats", "qa", "qa_once", "accuracy")
    tables = {}
    for name, rows in shared(found, wanted).items():
        right = [row["accuracy"] for row in rows]
        qa, once = ([row[column] for row in rows] for column in ("qa", "qa_once"))
        tables[name] = Repeats(
            qas=fmean(row["qas"] for row in rows),
            repeating=sum(row["repeats"] > 0 for row in rows),
            qa=fmean(qa),
            qa_once=fmean(once),
            score=fmean(r * (v > level) for r, v in zip(right, qa, strict=True)),
            score_once=fmean(r * (v > level) for r, v in zip(right, once, strict=True)),
        )
    return tables


def reliabilities(found: Comparison) -> dict[str, list[dict[str, Any]]]:
    """Rows of the reliability diagram of each run that gives probabilities, on the claims that all
    of these have."""
    from components.score.calibration import reliability

    return {
        name: reliability([r["confidence"] for r in rows], [r["accuracy"] for r in rows])
        for name, rows in shared(found, ("ece",)).items()
    }


def shared(found: Comparison, formula: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """By run, the rows that a formula can use, of the claims that all such runs have."""
    rows = {
        point.name: {i: r for i, r in _rows(found, point.name).items() if usable(r, formula)}
        for point in found.runs
    }
    rows = {name: own for name, own in rows.items() if own}
    ids = [i for i in next(iter(rows.values()), {}) if all(i in own for own in rows.values())]
    return {name: [own[i] for i in ids] for name, own in rows.items() if ids}


def _rows(found: Comparison, name: str) -> dict[str, dict[str, Any]]:
    point = next(p for p in found.runs if p.name == name)
    return {str(row["id"]): row for row in point.per_claim}


def texts_of(found: Comparison) -> dict[str, str]:
    """The text of each claim by id: of the gold file where there is one, else as the runs say."""
    texts = {i: text for point in reversed(found.runs) for i, text in point.texts.items() if text}
    return texts | {i: claim.text for i, claim in found.gold.items() if claim.text}
