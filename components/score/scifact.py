"""The measures of SciFact (Wadden et al. 2020, section 4), as its leaderboard computes them."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import msgspec

from components.datasets.scifact import LABELS
from components.errors import ClaimflowError, nearest
from components.records import Claim, Finding, Prediction, Record
from components.score.base import Rankings, Scorer, Scores
from components.score.formula import measured
from components.score.pairing import confusion, note, note_labels, paired
from components.step import Context

FIRST = 3  # predicted sentences that count as an abstract's rationale
NOT_ENOUGH = "NEI"

# Name of the measure: columns of `per_claim` with what is right, predicted and gold.
MEASURES = {
    "abstract_label_only": ("abstracts_labelled", "abstracts_predicted", "abstracts_gold"),
    "abstract_rationalized": ("abstracts_rationalized", "abstracts_predicted", "abstracts_gold"),
    "sentence_selection": ("sentences_selected", "sentences_predicted", "sentences_gold"),
    "sentence_label": ("sentences_labelled", "sentences_predicted", "sentences_gold"),
}


class Abstract(Record):
    """The gold annotation of one abstract for one claim."""

    label: str | None
    rationales: list[set[int]] = []


@dataclasses.dataclass(kw_only=True)
class SciFact(Scorer):
    """Scorer of SciFact; see `scifact` for the measures and settings."""

    form: ClassVar = "SciFact"

    oracle: str | None = None
    official: bool = False

    def names(self) -> list[str]:
        return [f"{name}_{end}" for name in MEASURES for end in ("precision", "recall", "f1")]

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        return scifact(predictions, gold, self.oracle, self.official, self.draws, self.seed)


def scifact(
    predictions: list[Prediction],
    gold: list[Claim],
    oracle: str | None = None,
    official: bool = False,
    draws: int = 1000,
    seed: int = 13,
) -> Scores:
    """Score labelled abstracts and rationale sentences as the official SciFact evaluator does.

    Measures, each as _precision, _recall and _f1, all 0 to 1, higher is better, micro averages
    over all claims (no means over claims: `per_claim` has the counts), 0 where a denominator is 0:
    abstract_label_only: pairs of claim and abstract; right if the abstract is gold and has the
    predicted label (Wadden et al. 2020, section 4.2).
    abstract_rationalized: besides, some gold rationale stands wholly within the first
    max(3, length of the shortest rationale) predicted sentences. (The paper's first script cut
    at 3 in any case.)
    sentence_selection: pairs of claim and sentence; right if all of a gold rationale with the
    sentence is predicted (Wadden et al. 2020, section 4.2). All predicted sentences count.
    sentence_label: besides, the abstract has the right label.

    oracle: None scores the whole task. "abstracts" takes predictions for abstracts without gold
    evidence out first, as if retrieval had brought none; "rationales" also puts the gold rationales
    in the place of the predicted sentences, which leaves the labels to be scored. This is exact for
    a system that judges each abstract by itself; else run it on gold input (the paper's oracle
    rows) and score with None.
    official: count a gold sentence once for each rationale that it stands in (the default counts it
    once), and say where the official evaluator would stop: it asks for the gold claims in order.

    A claim without prediction counts as one without evidence. Raises ClaimflowError when no claim
    has gold evidence.
    """
    if oracle not in (None, "abstracts", "rationales"):
        raise ClaimflowError(
            f"oracle={oracle}: give null, abstracts or rationales."
            + nearest(str(oracle), ("abstracts", "rationales"))
        )
    if not any(claim.gold for claim in gold):
        raise ClaimflowError(
            f"None of the {len(gold)} gold claims has evidence: score against a file of SciFact "
            "that shows it."
        )
    notes: list[str] = []
    found = paired(predictions, gold, "counted as without evidence", notes)
    note_labels(notes, found.values(), LABELS)
    note(
        notes,
        "Predictions with documents labelled NEI, which are left out",
        (p.id for p in found.values() if any(f.label is None for f in p.findings)),
    )
    note(
        notes,
        "Documents without 'sentences', so that none of their evidence is right",
        (
            f"claim {p.id}, {f.doc}"
            for p in found.values()
            for f in p.findings
            if f.label and not f.sentences and oracle != "rationales"
        ),
    )
    rows, pairs, dropped, shared = [], [], 0, []
    for claim in gold:
        truth = abstracts(claim)
        predicted = labelled(found.get(claim.id))
        if oracle:
            dropped += len(predicted.keys() - truth.keys())
            predicted = {doc: f for doc, f in predicted.items() if doc in truth}
        if oracle == "rationales":
            predicted = {doc: _with_gold(f, truth[doc]) for doc, f in predicted.items()}
        if any(sum(map(len, a.rationales)) > len(_sentences(a)) for a in truth.values()):
            shared.append(claim.id)
        rows.append(_row(claim.id, truth, predicted, official))
        for doc in {**truth, **predicted}:
            pair = [part[doc].label if doc in part else NOT_ENOUGH for part in (truth, predicted)]
            pairs.append((pair[0], pair[1]))
    if oracle:
        notes.append(
            f"Oracle {oracle}: {dropped} predicted abstracts without gold evidence left out."
        )
    note(notes, "Claims with a gold sentence in two rationales of an abstract", shared)
    if official and [p.id for p in predictions] != [claim.id for claim in gold]:
        notes.append(
            "The official evaluator stops here: the predictions are not those of the gold claims "
            "in the same order. Here they are paired by id."
        )
    formulas: dict[str, list[str]] = {}
    for name, (right, said, known) in MEASURES.items():
        formulas[f"{name}_precision"] = ["ratio", right, said]
        formulas[f"{name}_recall"] = ["ratio", right, known]
        formulas[f"{name}_f1"] = ["micro_f1", right, said, known]
    return Scores(
        measures=measured(formulas, rows, draws, seed),
        per_claim=rows,
        tables={"confusion": confusion(pairs, (*LABELS, NOT_ENOUGH))},
        notes=notes,
    )


def abstracts(claim: Claim) -> dict[str, Abstract]:
    """The gold abstracts of a claim by id; one without marked sentences has no rationale."""
    found: dict[str, Abstract] = {}
    for gold in claim.gold:
        for doc in dict.fromkeys(doc for doc, _ in gold.items):
            abstract = found.setdefault(doc, Abstract(label=gold.label, rationales=[]))
            sentences = {n for d, n in gold.items if d == doc and n is not None}
            if sentences:
                abstract.rationales.append(sentences)
    return found


def labelled(prediction: Prediction | None) -> dict[str, Finding]:
    """The findings that give a label, by document; of a repeated document the first."""
    found: dict[str, Finding] = {}
    for finding in prediction.findings if prediction else []:
        if finding.label is not None:
            found.setdefault(finding.doc, finding)
    return found


def _row(
    id: str, truth: dict[str, Abstract], predicted: dict[str, Finding], official: bool
) -> dict[str, Any]:
    """Counts of one claim."""
    row: dict[str, Any] = {"id": id}
    row |= {column: 0 for columns in MEASURES.values() for column in columns}
    row["abstracts_gold"] = len(truth)
    row["sentences_gold"] = sum(
        sum(map(len, a.rationales)) if official else len(_sentences(a)) for a in truth.values()
    )
    for doc, finding in predicted.items():
        row["abstracts_predicted"] += 1
        row["sentences_predicted"] += len(finding.sentences)
        if doc not in truth:
            continue
        rationales = truth[doc].rationales
        within = set(finding.sentences)
        selected = len(set().union(*(r for r in rationales if r <= within)))
        row["sentences_selected"] += selected
        if finding.label == truth[doc].label:
            first = finding.sentences[: max(FIRST, min(map(len, rationales), default=0))]
            row["abstracts_labelled"] += 1
            row["abstracts_rationalized"] += any(r <= set(first) for r in rationales)
            row["sentences_labelled"] += selected
    return row


def _sentences(abstract: Abstract) -> set[int]:
    return set().union(*abstract.rationales)


def _with_gold(finding: Finding, truth: Abstract) -> Finding:
    """The finding with the gold rationales for its sentences, the shortest first."""
    ordered = [n for rationale in sorted(truth.rationales, key=len) for n in sorted(rationale)]
    return msgspec.structs.replace(finding, sentences=list(dict.fromkeys(ordered)))
