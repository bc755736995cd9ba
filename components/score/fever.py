"""The measures of the FEVER shared task (Thorne et al. 2018: The Fact Extraction and VERification
shared task, section 2.3)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

from components.datasets.fever import FIRST, LABELS, escaped, page_id, sentences_of
from components.errors import ClaimflowError
from components.labels import nearest_label
from components.records import Claim, GoldSet, Prediction
from components.score.base import Measure, Rankings, Scorer, Scores
from components.score.pairing import confusion, note, paired
from components.step import Context

NOT_ENOUGH = "NOT ENOUGH INFO"
MEASURES = ("fever", "accuracy", "evidence_precision", "evidence_recall", "evidence_f1")


@dataclasses.dataclass(kw_only=True)
class Fever(Scorer):
    """Scorer of the FEVER shared task; see `fever` for the measures.

    official: leave evidence F1 without a value where the official scorer stops; compare pages as
    the files spell them.
    """

    form: ClassVar = "FEVER"

    official: bool = False

    def names(self) -> list[str]:
        return list(MEASURES)

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        return fever(predictions, gold, self.official, self.draws, self.seed)


def fever(
    predictions: list[Prediction],
    gold: list[Claim],
    official: bool = False,
    draws: int = 1000,
    seed: int = 13,
) -> Scores:
    """Score labels and evidence sentences as the official fever-scorer does.

    Measures, all 0 to 1, higher is better. Of the predicted evidence the first 5 sentences count,
    repeated ones each time; labels are compared without case.
    fever: FEVER score, mean over claims: the label is right and, unless it is NOT ENOUGH INFO, all
    sentences of some gold set are predicted (section 2.3).
    accuracy: share of claims with the right label.
    evidence_precision, evidence_recall: means over the claims whose gold label is not NOT ENOUGH
    INFO, whatever label is predicted: the share of predicted sentences that stand in some gold
    set, 1 when none is predicted; 1 if a whole gold set is predicted, else 0. Where there is no
    such claim, precision is 1 and recall 0.
    evidence_f1: their harmonic mean; no mean over claims. Where both are 0 the official scorer
    stops with ZeroDivisionError; it is 0 here, and with `official` has no value (NaN).

    A claim without prediction has a wrong label, and 0 for its evidence. The official scorer pairs
    lines by order and stops when their numbers differ; here ids pair. Page names are compared in
    Unicode form NFC and with _ for spaces; the official scorer, and `official`, misses a right page
    that is spelt otherwise than in the gold file.
    Raises ClaimflowError when no claim has a gold label.
    """
    from components.score import bootstrap

    claims = [claim for claim in gold if (claim.label or "").upper() in LABELS]
    if not claims:
        raise ClaimflowError(
            f"None of the {len(gold)} gold claims has a label of FEVER: score against a file whose "
            f"labels are {', '.join(LABELS)}."
        )
    notes: list[str] = []
    aside = [c for c in gold if (c.label or "").upper() not in LABELS]
    note(notes, "Gold claims left out, without a label of FEVER", (c.id for c in aside))
    found = paired(predictions, claims, "counted as wrong, without evidence", notes, aside)
    rows = [_row(claim, found.get(claim.id), official) for claim in claims]
    note(
        notes,
        "Predictions counted as wrong, with a label that FEVER does not have",
        (
            f"{row['id']} '{row['predicted']}'{nearest_label(row['predicted'], LABELS)}"
            for row in rows
            if row["predicted"] is not None and row["predicted"] not in LABELS
        ),
    )
    note(
        notes,
        f"Claims whose every gold set has more than {FIRST} sentences, so that none can be covered",
        (c.id for c in claims if c.gold and min(len(g.items) for g in c.gold) > FIRST),
    )
    note(
        notes,
        "Claims to verify without gold evidence: recall 1, FEVER score 0, as the official scorer",
        (c.id for c in claims if not c.gold and (c.label or "").upper() != NOT_ENOUGH),
    )
    note(
        notes,
        "Claims with right pages in another spelling than the gold file's, which the official "
        "scorer takes for other pages",
        (claim.id for claim in claims if _is_spelt_otherwise(claim, found.get(claim.id))),
    )
    known = {page for claim in gold for found_set in claim.gold for page, _ in found_set.items}
    note(
        notes,
        "Predictions of pages with brackets or colons, where FEVER has -LRB-, -RRB-, -COLON-, so "
        "that they are missed (`python -m flows.lint … fix=true` writes them)",
        (p.id for p in found.values() if _has_unescaped(p, known)),
    )
    weights = bootstrap.resamples(len(rows), draws, seed)
    verifiable = [float(row["evidence_precision"] is not None) for row in rows]
    precision, recall = (
        bootstrap.ratio([row[name] or 0.0 for row in rows], verifiable, empty)
        for name, empty in (("evidence_precision", 1.0), ("evidence_recall", 0.0))
    )
    statistics = {
        "fever": bootstrap.mean([row["fever"] for row in rows]),
        "accuracy": bootstrap.mean([row["accuracy"] for row in rows]),
        "evidence_precision": precision,
        "evidence_recall": recall,
        "evidence_f1": bootstrap.harmonic(precision, recall),
    }
    measures = {name: bootstrap.measure(found, weights) for name, found in statistics.items()}
    # For comparisons, which have the rows alone.
    measures["evidence_f1"].formula = ["harmonic", "evidence_precision", "evidence_recall"]
    if measures["evidence_precision"].value == measures["evidence_recall"].value == 0:
        notes.append(
            "Precision and recall of evidence are 0: evidence_f1 is "
            + ("left without a value" if official else "0")
            + ", where the official scorer stops with ZeroDivisionError."
        )
        if official:
            measures["evidence_f1"] = Measure(value=math.nan)
    return Scores(
        measures=measures,
        per_claim=rows,
        tables={
            "by_label": _by_label(rows),
            "confusion": confusion(((row["gold"], row["predicted"]) for row in rows), LABELS),
        },
        notes=notes,
    )


def _row(claim: Claim, prediction: Prediction | None, official: bool) -> dict[str, Any]:
    gold, label = (claim.label or "").upper(), prediction.label.upper() if prediction else None
    predicted = _predicted(prediction, official)
    sets = [_items(found, official) for found in claim.gold]
    covered = any(set(items) <= set(predicted) for items in sets)
    row: dict[str, Any] = {
        "id": claim.id,
        "gold": gold,
        "predicted": label,
        "fever": float(label == gold and (covered or gold == NOT_ENOUGH)),
        "accuracy": float(label == gold),
        "evidence_precision": None,
        "evidence_recall": None,
    }
    if gold != NOT_ENOUGH:
        known = {item for items in sets for item in items if item[1] is not None}
        hits = sum(sentence in known for sentence in predicted)
        empty = float(prediction is not None)
        row["evidence_precision"] = hits / len(predicted) if predicted else empty
        row["evidence_recall"] = float(covered or not claim.gold)
    return row


def _predicted(prediction: Prediction | None, spelt: bool) -> list[tuple[str, int]]:
    """The sentences that count; spelt: with pages as the file names them."""
    first = sentences_of(prediction, spelt)[:FIRST] if prediction else []
    return first if spelt else [(page_id(page), line) for page, line in first]


def _items(found: GoldSet, spelt: bool) -> list[tuple[str, int | None]]:
    names = found.spelt if spelt else {}
    return [(names.get(page, page), line) for page, line in found.items]


def _is_spelt_otherwise(claim: Claim, prediction: Prediction | None) -> bool:
    """Whether fewer predicted sentences are gold ones when pages are compared letter by letter."""
    hits = []
    for spelt in (False, True):
        known = {item for found in claim.gold for item in _items(found, spelt)}
        hits.append(sum(sentence in known for sentence in _predicted(prediction, spelt)))
    return hits[0] > hits[1]


def _has_unescaped(prediction: Prediction, known: set[str]) -> bool:
    """Whether a predicted page is a gold one but for the codes of its brackets and colons."""
    pages = {page_id(page) for page, _ in sentences_of(prediction)} - known
    return any(escaped(page) in known for page in pages)


def _by_label(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means among the claims of each gold label; no evidence measures for NOT ENOUGH INFO."""
    table = []
    for label in LABELS:
        inside = [row for row in rows if row["gold"] == label]
        entry: dict[str, Any] = {"group": label, "claims": len(inside)}
        for name in ("fever", "accuracy", "evidence_precision", "evidence_recall"):
            values = [row[name] for row in inside if row[name] is not None]
            entry[name] = sum(values) / len(values) if values else None
        table.append(entry)
    return table
