"""The measures of the AVeriTeC shared task 2024 (Schlichtkrull et al. 2024, section 3).

Evidence is matched to gold evidence one to one so that the sum of METEOR is largest (Hungarian
METEOR); the AVeriTeC score is label accuracy among claims whose evidence passes a level.
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from components.errors import ClaimflowError, nearest
from components.labels import parse_label
from components.records import AVERITEC_LABELS, Claim, Prediction
from components.score.base import Rankings, Scorer, Scores, listed
from components.score.calibration import brier
from components.score.formula import measured
from components.score.meteor import meteor, tokens

FIRST = 10  # QAs of a prediction that count
LEVELS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5)
BY_TYPE_LEVEL = 0.25
NO_ANSWER = "No answer could be found."


@dataclasses.dataclass(kw_only=True)
class Averitec2024(Scorer):
    """Scorer of the 2024 shared task; see `averitec_2024` for the measures.

    levels: evidence scores that the AVeriTeC score asks for.
    """

    reads: ClassVar = ("predictions",)

    levels: list[float] = dataclasses.field(default_factory=lambda: list(LEVELS))

    def score(
        self,
        gold: list[Claim],
        predictions: list[Prediction] | None = None,
        rankings: Rankings | None = None,
    ) -> Scores:
        if predictions is None:
            raise ClaimflowError("The scorer averitec_2024 needs predictions, and got none.")
        return averitec_2024(predictions, gold, self.levels, self.draws, self.seed)


def averitec_2024(
    predictions: list[Prediction],
    gold: list[Claim],
    levels: Sequence[float] = LEVELS,
    draws: int = 1000,
    seed: int = 13,
) -> Scores:
    """Score predictions for claims with gold questions, answers and labels.

    Measures, all 0 to 1, higher is better, means over claims unless said otherwise:
    q, qa: Hungarian METEOR of questions, and of questions with answers.
    score_at_0.25 …: share of claims with the right label and `qa` strictly above the level.
    accuracy; f1_macro over the four labels; f1_LABEL.
    brier, ece (lower is better): over the claims whose prediction has probabilities.

    A claim without prediction counts as wrong with evidence score 0; so does, for its label, a
    prediction whose label is not one of the four. Of a repeated id the first prediction counts.
    Raises ClaimflowError when no claim has a gold label.
    """
    from components.score.calibration import reliability

    notes: list[str] = []
    claims, paired = _pair(predictions, gold, notes)
    rows = [_row(claim, paired.get(claim.id), levels) for claim in claims]
    means = ["q", "qa", *map(_level_name, levels), "accuracy"]
    formulas: dict[str, list[str]] = {
        **{name: [] for name in means},
        "f1_macro": ["f1", *AVERITEC_LABELS],
        **{_f1_name(label): ["f1", label] for label in AVERITEC_LABELS},
        "ece": ["ece"],
        "brier": [],
    }
    measures = measured(formulas, rows, draws, seed)
    truth, guess = [row["gold"] for row in rows], [row["predicted"] for row in rows]
    tables = {
        "by_label": _breakdown(claims, rows, means, lambda claim: [claim.label or ""]),
        "by_type": _breakdown(claims, rows, means, lambda claim: claim.types),
        "by_strategy": _breakdown(claims, rows, means, lambda claim: claim.strategies),
        "confusion": _confusion(truth, guess),
    }
    known = [row for row in rows if "confidence" in row]
    if known:
        confidence, right = [r["confidence"] for r in known], [r["accuracy"] for r in known]
        tables["calibration"] = reliability(confidence, right)
    return Scores(measures=measures, per_claim=rows, tables=tables, notes=notes)


def gold_strings(claim: Claim) -> list[str]:
    """One string an answer: question, answer and, for yes or no, its explanation if there is one.

    A question without answers gives one string that says so.
    """
    strings = []
    for question in claim.questions:
        for answer in question.answers:
            text = f"{question.question} {answer.answer}"
            if answer.answer_type == "Boolean" and answer.boolean_explanation is not None:
                text += f". {answer.boolean_explanation}"
            strings.append(text)
        if not question.answers:
            strings.append(f"{question.question} {NO_ANSWER}")
    return strings


def hungarian_meteor(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """METEOR of the best one-to-one matching, summed and divided by the number of gold strings.

    0 to 1; gold strings left over count 0, predicted ones nothing; 0 when either is empty.
    """
    references = [tokens(text) for text in gold]
    return assignment(
        [[meteor(tokens(p), reference) for reference in references] for p in predicted]
    )


def assignment(matrix: Sequence[Sequence[float]]) -> float:
    """Largest sum over a one-to-one choice of cells, divided by the number of columns (gold)."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    scores = np.array(matrix, dtype=np.float64)
    if not scores.size:
        return 0.0
    chosen = linear_sum_assignment(scores, maximize=True)
    return float(scores[chosen].sum() / scores.shape[1])


# Pairing


def _pair(
    predictions: list[Prediction], gold: list[Claim], notes: list[str]
) -> tuple[list[Claim], dict[str, Prediction]]:
    """(claims that can be scored, prediction by claim id); what is odd goes to `notes`."""
    claims = [claim for claim in gold if claim.label in AVERITEC_LABELS]
    left_out = [claim.id for claim in gold if claim.label not in AVERITEC_LABELS]
    if not claims:
        raise ClaimflowError(
            f"None of the {len(gold)} gold claims has a label of AVeriTeC: score against a file "
            f"whose labels are {', '.join(AVERITEC_LABELS)}."
        )
    ids = {claim.id for claim in gold}
    paired: dict[str, Prediction] = {}
    repeated, extra = [], []
    for prediction in predictions:
        if prediction.id not in ids:
            extra.append(prediction.id)
        elif prediction.id in paired:
            repeated.append(prediction.id)
        else:
            paired[prediction.id] = prediction
    used = [paired[claim.id] for claim in claims if claim.id in paired]

    def note(what: str, names: Iterable[str]) -> None:
        found = list(names)
        if found:
            notes.append(f"{what} ({len(found)}): {listed(found)}.")

    note("Gold claims left out, without a label of AVeriTeC", left_out)
    note(
        "Claims without prediction, counted as wrong",
        (claim.id for claim in claims if claim.id not in paired),
    )
    note("Predictions passed over, for no gold claim", extra)
    note("Predictions passed over, repeating an id", repeated)
    note(
        "Predictions counted as wrong, with a label that AVeriTeC does not have",
        (f"{p.id} '{p.label}'{_hint(p.label)}" for p in used if p.label not in AVERITEC_LABELS),
    )
    note(
        "Claims that score 0, without gold questions",
        (claim.id for claim in claims if not claim.questions),
    )
    note(
        f"Predictions with more than {FIRST} QAs, of which the first {FIRST} count",
        (p.id for p in used if len(p.evidence) > FIRST),
    )
    note(
        "Predictions that repeat a question, which raises Hungarian METEOR",
        (p.id for p in used if _repeats(p)),
    )
    return claims, paired


def _hint(label: str) -> str:
    meant = parse_label(label, AVERITEC_LABELS)
    return f" (nearest: '{meant}')" if meant else nearest(label, AVERITEC_LABELS)


def _repeats(prediction: Prediction) -> bool:
    questions = [" ".join(e.question.casefold().split()) for e in prediction.evidence[:FIRST]]
    return len(set(questions)) < len(questions)


# Rows and tables


def _row(claim: Claim, prediction: Prediction | None, levels: Sequence[float]) -> dict[str, Any]:
    evidence = prediction.evidence[:FIRST] if prediction else []
    label = prediction.label if prediction else None
    qa = hungarian_meteor([f"{e.question} {e.answer}" for e in evidence], gold_strings(claim))
    questions = [question.question for question in claim.questions]
    right = float(label == claim.label)
    row = {
        "id": claim.id,
        "gold": claim.label,
        "predicted": label,
        "q": hungarian_meteor([e.question for e in evidence], questions),
        "qa": qa,
        **{_level_name(level): right * (qa > level) for level in levels},
        "accuracy": right,
    }
    if prediction and prediction.probabilities:
        row["confidence"] = prediction.probabilities.get(prediction.label, 0.0)
        row["brier"] = brier(prediction.probabilities, str(claim.label))
    return row


def _level_name(level: float) -> str:
    return f"score_at_{level:.2f}"


def _f1_name(label: str) -> str:
    return "f1_" + re.sub(r"\W+", "_", label.lower())


def _breakdown(
    claims: list[Claim],
    rows: list[dict[str, Any]],
    names: list[str],
    groups: Callable[[Claim], list[str]],
) -> list[dict[str, Any]]:
    """Means within each group of claims; a claim may be in several.

    evidence_above_0.25 is what the official script prints by type: the mean of evidence scores,
    those at or below .25 set to 0, whatever the label.
    """
    members: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for claim, row in zip(claims, rows, strict=True):
        for group in groups(claim):
            members[group].append(row)
    table = []
    for group, inside in sorted(members.items(), key=lambda item: -len(item[1])):
        means = {name: sum(row[name] for row in inside) / len(inside) for name in names}
        passed = sum(row["qa"] for row in inside if row["qa"] > BY_TYPE_LEVEL) / len(inside)
        table.append(
            {
                "group": group,
                "claims": len(inside),
                **means,
                f"evidence_above_{BY_TYPE_LEVEL:.2f}": passed,
            }
        )
    return table


def _confusion(gold: list[str], predicted: list[str | None]) -> list[dict[str, Any]]:
    """One row a gold label: number of claims by predicted label; `other`: none of the four."""
    counts = collections.Counter(zip(gold, predicted, strict=True))
    table = []
    for label in AVERITEC_LABELS:
        row = {guess: counts[label, guess] for guess in AVERITEC_LABELS}
        table.append({"gold": label, **row, "other": gold.count(label) - sum(row.values())})
    return table
