"""The measures of AVeriTeC by METEOR: the shared task of 2024 (Schlichtkrull et al. 2024, section
3) and the first evaluation script (Schlichtkrull et al. 2023, section 5).

Evidence is matched to gold evidence one to one so that the sum of METEOR is largest (Hungarian
METEOR); the AVeriTeC score is label accuracy among claims whose evidence passes a level.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from components.datasets.submission import FIRST, NO_ANSWER
from components.errors import ClaimflowError
from components.labels import nearest_label
from components.records import AVERITEC_LABELS, Claim, Prediction
from components.score.base import Rankings, Scorer, Scores
from components.score.calibration import brier
from components.score.formula import measured
from components.score.matching import best_sum
from components.score.meteor import meteors, source
from components.score.pairing import confusion, note, paired
from components.score.rows import breakdown
from components.step import Context

LEVELS = (0.1, 0.2, 0.25, 0.3, 0.4, 0.5)


@dataclasses.dataclass(kw_only=True)
class Averitec2024(Scorer):
    """Scorer of the 2024 shared task: Hungarian METEOR, AVeriTeC score, labels.

    levels: evidence scores that the AVeriTeC score asks for.
    official: do as the official scripts do where that moves a number; the notes say what.

    Measures, means over claims, 0 to 1 and higher is better unless said otherwise:
    q, qa: Hungarian METEOR of questions, and of questions with answers (section 3.2).
    score_at_0.25 …: share of claims with the right label and `qa` strictly above the level.
    accuracy; f1_macro over the four labels; f1_LABEL.
    brier, ece (lower is better): over the claims whose prediction has probabilities.

    Rows have `qas`, the number of QAs, `repeats`, how many of those that count repeat a question,
    and `qa_once`, what `qa` is without these: a QA that stands there twice can match two gold ones.

    Tables: by_label and by_type (table 5 of the paper; qas: QAs submitted a claim), by_medium and
    by_gold_qas (table 4; a claim counts for each medium of its gold answers), by_strategy,
    confusion, calibration.

    A claim without prediction counts as wrong with evidence score 0; so does, for its label, a
    prediction whose label is not one of the four. Of a repeated id the first prediction counts.
    Raises ClaimflowError when no claim has a gold label.
    """

    levels: list[float] = dataclasses.field(default_factory=lambda: list(LEVELS))
    official: bool = False

    first: ClassVar[int | None] = FIRST
    by_group: ClassVar[tuple[float, ...]] = (0.25,)  # levels of evidence_above in the tables

    def names(self) -> list[str]:
        return list(self.formulas())

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        notes: list[str] = []
        claims, found = _claims(predictions, gold, notes, self)
        rows = self.rows(claims, [found.get(claim.id) for claim in claims], notes)
        note(
            notes,
            "Claims with a gold yes or no that is not explained, as no answer of the gold "
            "file has a type: the data set's file gives qa more words",
            _unexplained(claims),
        )
        scores = self.summary(claims, rows, notes)
        scores.notes.append(source())
        return scores

    def rows(
        self, claims: list[Claim], paired: list[Prediction | None], notes: list[str]
    ) -> list[dict[str, Any]]:
        """One row a claim."""
        strings = [predicted_strings(p)[: self.first] if p else [] for p in paired]
        questions = [self.questions(p)[: self.first] if p else [] for p in paired]
        q = hungarian_meteors(
            [
                (asked, [q.question for q in c.questions])
                for asked, c in zip(questions, claims, strict=True)
            ]
        )
        matrices = meteors(
            [(said, gold_strings(c)) for said, c in zip(strings, claims, strict=True)]
        )
        rows = []
        for claim, prediction, q_score, matrix in zip(claims, paired, q, matrices, strict=True):
            qa_score = assignment(matrix)
            once = _once(prediction, self.first) if prediction else []
            label = prediction.label if prediction else None
            right = float(label == claim.label)
            row = {
                "id": claim.id,
                "gold": claim.label,
                "predicted": label,
                "q": q_score,
                "qa": qa_score,
                **{_level_name(level): right * (qa_score > level) for level in self.levels},
                "accuracy": right,
                "qas": float(len(prediction.evidence)) if prediction else 0.0,
                "repeats": float(len(matrix) - len(once)),
                "qa_once": qa_score if len(once) == len(matrix) else assignment(matrix[once]),
            }
            if prediction and prediction.probabilities:
                row["confidence"] = prediction.probabilities.get(prediction.label, 0.0)
                row["brier"] = brier(prediction.probabilities, str(claim.label))
            rows.append(row)
        return rows

    def questions(self, prediction: Prediction) -> list[str]:
        """What is compared with gold questions."""
        return [e.question for e in prediction.evidence]

    def summary(self, claims: list[Claim], rows: list[dict[str, Any]], notes: list[str]) -> Scores:
        """Measures with intervals, and tables."""
        from components.score.calibration import reliability

        means = self.means()
        measures = measured(self.formulas(), rows, self.draws, self.seed)
        truth, guess = [row["gold"] for row in rows], [row["predicted"] for row in rows]

        # What the official script prints by type: evidence scores, those at or below a level set
        # to 0, whatever the label.
        above = [_above_name(level) for level in self.by_group]
        grouped = [
            row | {_above_name(level): row["qa"] * (row["qa"] > level) for level in self.by_group}
            for row in rows
        ]

        def table(groups: Callable[[Claim], list[str]], by_name: bool = False) -> Any:
            found = breakdown(claims, grouped, [*means, "qas", *above], groups)
            return sorted(found, key=lambda row: row["group"]) if by_name else found

        tables = {
            "by_label": table(lambda claim: [claim.label or ""]),
            "by_type": table(lambda claim: claim.types),
            "by_strategy": table(lambda claim: claim.strategies),
            "by_medium": table(_media),
            "by_gold_qas": table(_gold_qas, by_name=True),
            "confusion": confusion(zip(truth, guess, strict=True), AVERITEC_LABELS),
        }
        if self.official and tables["by_type"]:
            columns = " and ".join(above)
            notes.append(
                f"Official quirk: what the script prints as scores by type is {columns} of "
                "by_type, which leaves labels out."
            )
        if known := [row for row in rows if "confidence" in row]:
            confidence, right = [r["confidence"] for r in known], [r["accuracy"] for r in known]
            tables["calibration"] = reliability(confidence, right)
        return Scores(measures=measures, per_claim=rows, tables=tables, notes=notes)

    def means(self) -> list[str]:
        """Columns of the rows whose means are measures, and stand in the tables."""
        return ["q", "qa", *map(_level_name, self.levels), "accuracy"]

    def formulas(self) -> dict[str, list[str]]:
        """How each measure follows from the rows (see components/score/formula.py)."""
        return {
            **{name: [] for name in self.means()},
            "f1_macro": ["f1", *AVERITEC_LABELS],
            **{_f1_name(label): ["f1", label] for label in AVERITEC_LABELS},
            **{name: [] for name in self.more()},
            "ece": ["ece"],
            "brier": [],
        }

    def more(self) -> list[str]:
        """Columns of the rows whose means are measures too."""
        return []


@dataclasses.dataclass(kw_only=True)
class AveritecLegacy(Averitec2024):
    """Scorer of the first evaluation script: that of 2024, with justifications and string evidence.

    first: how many QAs count, as in the script; null: all, as on the first EvalAI page, which had
    levels [0.2, 0.25, 0.3].

    Further measures, means over the claims with a gold justification, 0 to below 1:
    justification: METEOR of the justification; where none is predicted, of the QAs that count.
    justification_at_0.25 …: the same, 0 where `qa` is not above the level.

    Evidence without a question is string evidence: where a prediction has nothing else, `q`
    compares it with the gold questions. The tables have evidence_above at .2 and .3.
    """

    first: int | None = FIRST  # type: ignore[misc]
    by_group: ClassVar[tuple[float, ...]] = (0.2, 0.3)

    def rows(
        self, claims: list[Claim], paired: list[Prediction | None], notes: list[str]
    ) -> list[dict[str, Any]]:
        rows = super().rows(claims, paired, notes)
        judged = [n for n, claim in enumerate(claims) if claim.justification]
        texts = [self._justification(paired[n]) for n in judged]
        scores = hungarian_meteors(
            [([t], [str(claims[n].justification)]) for t, n in zip(texts, judged, strict=True)]
        )
        for n, score in zip(judged, scores, strict=True):
            rows[n]["justification"] = score
            for level in self.levels:
                rows[n][f"justification_at_{level:.2f}"] = score * (rows[n]["qa"] > level)
        note(
            notes,
            "Predictions without justification, for which their QAs stand",
            (p.id for p in paired if p and p.justification is None),
        )
        note(
            notes,
            "Claims left out of justification, without a gold one",
            (claim.id for claim in claims if not claim.justification),
        )
        return rows

    def questions(self, prediction: Prediction) -> list[str]:
        asked = prediction.asked or [e.question for e in prediction.evidence if e.question]
        return asked or predicted_strings(prediction)

    def more(self) -> list[str]:
        return ["justification", *(f"justification_at_{level:.2f}" for level in self.levels)]

    def _justification(self, prediction: Prediction | None) -> str:
        if prediction is None:
            return ""
        if prediction.justification is not None:
            return prediction.justification
        return " ".join(predicted_strings(prediction)[: self.first])


def averitec_2024(
    predictions: list[Prediction],
    gold: list[Claim],
    levels: Sequence[float] = LEVELS,
    draws: int = 1000,
    seed: int = 13,
) -> Scores:
    """Score predictions for claims with gold questions, answers and labels; see `Averitec2024`."""
    return Averitec2024(levels=list(levels), draws=draws, seed=seed).score(gold, predictions)


def predicted_strings(prediction: Prediction) -> list[str]:
    """One string a QA: question and answer."""
    return [f"{e.question} {e.answer}" for e in prediction.evidence]


def gold_strings(claim: Claim) -> list[str]:
    """One string an answer: question, answer and, for yes or no, its explanation if there is one.

    A question without answers gives one string that says so. String evidence comes last.
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
    return strings + claim.extra.get("string_evidence", [])


def _unexplained(claims: list[Claim]) -> list[str]:
    """Claims with an answer of yes or no, if no answer of any says its type (a solution)."""
    answers = [(c.id, a) for c in claims for q in c.questions for a in q.answers]
    if any(answer.answer_type is not None for _, answer in answers):
        return []
    said = (id for id, answer in answers if answer.answer.strip(" .").lower() in ("yes", "no"))
    return list(dict.fromkeys(said))


def hungarian_meteor(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """METEOR of the best one-to-one matching, summed and divided by the number of gold strings.

    0 to 1; gold strings left over count 0, predicted ones nothing; 0 when either is empty.
    """
    return hungarian_meteors([(predicted, gold)])[0]


def hungarian_meteors(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[float]:
    """`hungarian_meteor` of many (predicted, gold), in a tenth of the time."""
    return [assignment(matrix) for matrix in meteors(pairs)]


def assignment(matrix: ArrayLike) -> float:
    """Largest sum over a one-to-one choice of cells, divided by the number of columns (gold)."""
    return best_sum(matrix) / max(np.shape(matrix)[-1], 1)


# Pairing


def _claims(
    predictions: list[Prediction],
    gold: list[Claim],
    notes: list[str],
    scorer: Averitec2024,
) -> tuple[list[Claim], dict[str, Prediction]]:
    """(claims that can be scored, prediction by claim id); what is odd goes to `notes`.

    Where `scorer` is official, a claim without prediction gets the first prediction, as from the
    official runner.
    """
    official, first = scorer.official, scorer.first
    claims = [claim for claim in gold if claim.label in AVERITEC_LABELS]
    if not claims:
        raise ClaimflowError(
            f"None of the {len(gold)} gold claims has a label of AVeriTeC: score against a file "
            f"whose labels are {', '.join(AVERITEC_LABELS)}."
        )
    aside = [claim for claim in gold if claim.label not in AVERITEC_LABELS]
    note(notes, "Gold claims left out, without a label of AVeriTeC", (c.id for c in aside))
    copied = official and bool(predictions)
    counted = "which get a copy of the first prediction (official quirk)"
    found = paired(predictions, claims, counted if copied else "counted as wrong", notes, aside)
    used = [found[claim.id] for claim in claims if claim.id in found]
    if copied:
        found = dict.fromkeys((c.id for c in claims), predictions[0]) | found
    for what, names in {
        "Predictions counted as wrong, with a label that AVeriTeC does not have": (
            f"{p.id} '{p.label}'{nearest_label(p.label, AVERITEC_LABELS)}"
            if p.label
            else f"{p.id} (none)"
            for p in used
            if p.label not in AVERITEC_LABELS
        ),
        "Claims that score 0, without gold questions": (
            claim.id for claim in claims if not gold_strings(claim)
        ),
        "Claims that score 0 in q, whose gold evidence is texts": (
            claim.id for claim in claims if gold_strings(claim) and not claim.questions
        ),
        f"Predictions with more than {first} QAs, of which the first {first} count": (
            p.id for p in used if first is not None and len(p.evidence) > first
        ),
        "Predictions that score 0 in q, whose evidence has no questions": (
            p.id for p in used if p.evidence and not any(scorer.questions(p))
        ),
        "Predictions whose evidence has questions and no answers": (
            p.id
            for p in used
            if any(e.question.strip() for e in p.evidence)
            and all(e.answer.strip() in ("", NO_ANSWER) for e in p.evidence)
        ),
        "Predictions that repeat a question, which raises Hungarian METEOR": (
            p.id for p in used if len(_once(p, first)) < len(p.evidence[:first])
        ),
    }.items():
        note(notes, what, names)
    return claims, found


def _once(prediction: Prediction, first: int | None) -> list[int]:
    """Positions of the QAs that count and whose question no QA before has."""
    return first_asked([e.question for e in prediction.evidence[:first]])


def first_asked(questions: Sequence[str]) -> list[int]:
    """Positions of questions that are none or new; case and white space don't count."""
    plain = [" ".join(question.casefold().split()) for question in questions]
    return [i for i, question in enumerate(plain) if not question or question not in plain[:i]]


# Tables


def _level_name(level: float) -> str:
    return f"score_at_{level:.2f}"


def _above_name(level: float) -> str:
    return f"evidence_above_{level:.2f}"


def _f1_name(label: str) -> str:
    return "f1_" + re.sub(r"\W+", "_", label.lower())


def _media(claim: Claim) -> list[str]:
    """The media of the gold answers."""
    media = (answer.source_medium for q in claim.questions for answer in q.answers)
    return list(dict.fromkeys(filter(None, media)))


def _gold_qas(claim: Claim) -> list[str]:
    number = len(gold_strings(claim))
    return [str(number) if number < 3 else "3+"]
