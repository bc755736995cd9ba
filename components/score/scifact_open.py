"""The measures of SciFact-Open (Wadden et al. 2022, sections 2.1 and 4, appendix C)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Set
from typing import Any, ClassVar, TypeAlias

import msgspec
import numpy as np

from components.datasets.scifact import LABELS
from components.errors import ClaimflowError
from components.records import Claim, Finding, GoldSet, Prediction
from components.score import bootstrap
from components.score.base import Measure, Rankings, Scorer, Scores
from components.score.bootstrap import Floats, Statistic
from components.score.pairing import confusion, note, note_labels, paired
from components.step import Context

NOT_ENOUGH = "NEI"
PROVENANCES = ("citation", "pooling")
MEASURES = ("abstract_precision", "abstract_recall", "abstract_f1", "abstract_ap")

Pair: TypeAlias = tuple[int, str]
"""(position of the claim, document id)."""


@dataclasses.dataclass(kw_only=True)
class SciFactOpen(Scorer):
    """Scorer of SciFact-Open; see `scifact_open` for the measures.

    official: do as the official script does where it differs.
    """

    form: ClassVar = "SciFact"

    official: bool = False

    def names(self) -> list[str]:
        ends = ("", *(f"_{source}" for source in PROVENANCES))
        return [name + end for end in ends for name in MEASURES]

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        return scifact_open(predictions, gold, self.official, self.draws, self.seed)


def scifact_open(
    predictions: list[Prediction],
    gold: list[Claim],
    official: bool = False,
    draws: int = 1000,
    seed: int = 13,
) -> Scores:
    """Score labelled documents against evidence from citations and from pooling.

    Measures, all 0 to 1, higher is better, micro averages over pairs of claim and document (no
    means over claims: `per_claim` has the counts); see `statistics` for how they are computed:
    abstract_precision, abstract_recall, abstract_f1: a predicted document is right if it is gold
    and has the predicted label (section 2.1).
    abstract_ap: average precision over the system's ranking of all documents that it retrieved
    (section 4, table 5); left out for a system without confidences.
    …_citation, …_pooling: against the evidence of one provenance; documents that are evidence by
    the other are set aside, neither right nor wrong.

    The table `bootstrap` has mean and standard deviation over the resamples of the claims, each
    pair weighted by how often its claim was drawn (appendix C); table 5 of the paper shows these.

    official: precision has no value (NaN) where nothing is predicted, F1 none where nothing is
    right; the default is 0. Predictions for claims that are not gold count as wrong; the default
    passes them over. A claim without prediction has nothing retrieved.
    Raises ClaimflowError when no claim has gold evidence.
    """
    if not any(claim.gold for claim in gold):
        raise ClaimflowError(
            f"None of the {len(gold)} gold claims has evidence: score against a file of SciFact or "
            "SciFact-Open that shows it."
        )
    notes: list[str] = []
    claims = list(gold)
    known = {claim.id for claim in gold}
    extra = list(dict.fromkeys(p.id for p in predictions if p.id not in known))
    if official:
        note(notes, "Predictions for no gold claim, counted as wrong", extra)
        claims += [Claim(id=id, text="") for id in extra]
    found = paired(predictions, claims, "with nothing retrieved", notes)
    note_labels(notes, found.values(), LABELS)
    system = Retrieved(claims, list(found.values()))
    notes += system.notes
    evidence = gold_documents(claims)
    weights = bootstrap.resamples(len(claims), draws, seed)
    measures: dict[str, Measure] = {}
    by_provenance, deviations = [], []
    sources = [p for p in PROVENANCES if any(e.provenance == p for e in evidence.values())]
    for source in [None, *sources]:
        aside = {pair for pair, e in evidence.items() if source and e.provenance != source}
        labels = {pair: e.label for pair, e in evidence.items() if pair not in aside}
        counts = system.counts(labels, aside)
        row: dict[str, Any] = {"provenance": source or "all"}
        row |= {name: int(sum(column)) for name, column in counts.items()}
        for name, statistic in statistics(system, labels, aside).items():
            drawn = statistic(weights)
            measure = bootstrap.measure(statistic, weights)
            row |= {name: measure.value, f"{name}_sd": float(drawn.std())}
            full = f"{name}_{source}" if source else name
            if official and _undefined(name, row):
                notes.append(f"The official script has no {full} here: 0 by 0.")
                measure = Measure(value=math.nan)
            measures[full] = measure if source else with_formula(name, measure)
            deviations.append(
                {
                    "measure": full,
                    "value": row[name],
                    "mean": float(drawn.mean()),
                    "sd": row[f"{name}_sd"],
                }
            )
        by_provenance.append(row)
    labels = {pair: e.label for pair, e in evidence.items()}
    columns = system.counts(labels, set())
    rows = [
        {"id": claim.id} | {f"documents_{name}": int(column[i]) for name, column in columns.items()}
        for i, claim in enumerate(claims)
    ]
    pairs = [
        (labels.get(pair, NOT_ENOUGH), system.predicted.get(pair, NOT_ENOUGH))
        for pair in {**labels, **system.predicted}
    ]
    return Scores(
        measures=measures,
        per_claim=rows,
        tables={
            "by_provenance": by_provenance,
            "bootstrap": deviations,
            "confusion": confusion(pairs, (*LABELS, NOT_ENOUGH)),
        },
        notes=notes,
    )


FORMULAS = {
    "abstract_precision": ["ratio", "documents_correct", "documents_predicted"],
    "abstract_recall": ["ratio", "documents_correct", "documents_gold"],
    "abstract_f1": ["micro_f1", "documents_correct", "documents_predicted", "documents_gold"],
}


def with_formula(name: str, measure: Measure) -> Measure:
    """The measure with how it follows from the rows of claims, where it does."""
    return msgspec.structs.replace(measure, formula=FORMULAS.get(name, []))


def _undefined(name: str, counts: dict[str, Any]) -> bool:
    """Would the official script divide 0 by 0?"""
    return (name == "abstract_precision" and not counts["predicted"]) or (
        name == "abstract_f1" and not counts["correct"]
    )


def gold_documents(claims: list[Claim]) -> dict[Pair, GoldSet]:
    """The gold set of each pair of claim and document: its label, provenance and ranks."""
    found: dict[Pair, GoldSet] = {}
    for position, claim in enumerate(claims):
        for gold in claim.gold:
            for doc, _ in gold.items:
                found.setdefault((position, doc), gold)
    return found


class Retrieved:
    """What one system says of the documents that it retrieved for `claims`, as arrays, so that it
    can be scored against many gold sets.

    predicted: label by pair, where it is no NEI. best, place: the more probable of SUPPORT and
    CONTRADICT (a tie is SUPPORT), and the place in the ranking, by pair; a document without rank
    has none where others have ranks. rank: as the file gives it, else the place from 1. owner: the
    claim at each place. last: the last place with the same confidence. notes: what is odd.
    """

    def __init__(self, claims: list[Claim], predictions: list[Prediction]) -> None:
        position = {claim.id: i for i, claim in enumerate(claims)}
        self.size = len(claims)
        self.predicted: dict[Pair, str] = {}
        self.notes: list[str] = []
        found: dict[Pair, Finding] = {}
        for prediction in predictions:
            for finding in prediction.findings:
                found.setdefault((position[prediction.id], finding.doc), finding)
        for pair, finding in found.items():
            if finding.label is not None:
                self.predicted[pair] = finding.label
        scored = {pair: finding for pair, finding in found.items() if finding.probabilities}
        if len(scored) < len(found):
            self.notes.append(
                "The predictions have no confidences (p_support, p_contradict), so there is no "
                "average precision."
                if not scored
                else f"{len(found) - len(scored)} of {len(found)} retrieved documents have no "
                "confidence and stand in no ranking; average precision counts them as not found."
            )
        odd = sum(any(not 0 <= p <= 1 for p in f.probabilities.values()) for f in scored.values())
        if odd:
            self.notes.append(
                f"{odd} of {len(found)} retrieved documents have p_support or p_contradict outside "
                "0 to 1, which is no probability; they are ranked by it all the same."
            )
        scores = {pair: max(f.probabilities.values()) for pair, f in scored.items()}
        given = {pair: f.rank for pair, f in scored.items() if f.rank is not None}
        if given and len(given) < len(scored):
            self.notes.append(
                f"{len(scored) - len(given)} of {len(found)} retrieved documents have no rank, and "
                "stand in no ranking; average precision counts them as not found."
            )
            scored = {pair: finding for pair, finding in scored.items() if pair in given}
        if again := len(given) - len(set(given.values())):
            self.notes.append(
                f"{again} of {len(given)} ranks stand there again, where they run over all claims; "
                "average precision takes such documents in the order of the file."
            )
        order = sorted(scored, key=lambda pair: given.get(pair, -scores[pair]))
        self.place = {pair: i for i, pair in enumerate(order)}
        self.rank = {pair: given.get(pair, i) for i, pair in enumerate(order, 1)}
        self.best = {pair: _best(finding) for pair, finding in scored.items()}
        self.owner = np.array([pair[0] for pair in order], dtype=np.int64)
        ends = np.flatnonzero(np.diff([*(scores[pair] for pair in order), math.inf]))
        self.last = ends[np.searchsorted(ends, np.arange(len(order)))]

    def counts(self, gold: dict[Pair, str | None], aside: Set[Pair]) -> dict[str, Floats]:
        """correct, predicted, gold: numbers of documents for each claim."""
        predicted = {pair: label for pair, label in self.predicted.items() if pair not in aside}
        right = [pair for pair, label in predicted.items() if gold.get(pair) == label]
        columns = {"correct": right, "predicted": predicted, "gold": gold}
        return {
            name: np.bincount([pair[0] for pair in pairs], minlength=self.size).astype(np.float64)
            if pairs
            else np.zeros(self.size)
            for name, pairs in columns.items()
        }


def _best(finding: Finding) -> str:
    support, contradict = (finding.probabilities.get(label, 0.0) for label in LABELS)
    return LABELS[1] if contradict > support else LABELS[0]


def statistics(
    system: Retrieved, gold: dict[Pair, str | None], aside: Set[Pair] = frozenset()
) -> dict[str, Statistic]:
    """The measures of one system against labels by pair; pairs in `aside` don't count.

    Precision, recall and F1 are 0 where their denominator is. Average precision goes down the
    ranking, which the file gives (`rank`; by confidence where it gives none): it is the sum, over
    the places at which the confidence changes, of the rise in recall times the precision there. A
    document is right in it if its more probable label of SUPPORT and CONTRADICT is gold, whether or
    not the system decided for NEI; gold documents that were not retrieved count in recall.
    """
    counts = system.counts(gold, aside)
    precision = bootstrap.ratio(counts["correct"], counts["predicted"])
    recall = bootstrap.ratio(counts["correct"], counts["gold"])
    found: dict[str, Statistic] = {
        "abstract_precision": precision,
        "abstract_recall": recall,
        "abstract_f1": bootstrap.harmonic(precision, recall),
    }
    if system.place:
        found["abstract_ap"] = _average_precision(system, gold, aside, counts["gold"])
    return found


def _average_precision(
    system: Retrieved, gold: dict[Pair, str | None], aside: Set[Pair], relevant: Floats
) -> Statistic:
    # Only the places that end with a hit add to the sum: hits and documents are counted by claim
    # in the stretches between them, so that a resample is two products of small matrices.
    hits = np.array(
        [
            system.place[pair]
            for pair, label in gold.items()
            if label is not None and system.best.get(pair) == label
        ],
        dtype=np.int64,
    )
    kept = np.ones(len(system.owner))
    kept[[system.place[pair] for pair in aside if pair in system.place]] = 0
    ends = np.unique(system.last[hits])
    hit_counts = np.zeros((system.size, len(ends)))
    np.add.at(hit_counts, (system.owner[hits], np.searchsorted(ends, hits)), 1)
    counts = np.zeros((system.size, len(ends) + 1))
    places = np.arange(len(system.owner))
    np.add.at(counts, (system.owner, np.searchsorted(ends, places)), kept)

    def statistic(weights: Floats) -> Floats:
        new = weights @ hit_counts
        seen = np.cumsum(weights @ counts[:, :-1], axis=1)
        precision = np.divide(np.cumsum(new, axis=1), seen, out=np.zeros_like(seen), where=seen > 0)
        total = weights @ relevant
        area = (new * precision).sum(axis=1)
        return np.divide(area, total, out=np.zeros_like(total), where=total > 0)

    return statistic
