"""The measures of the AVeriTeC shared task 2025 (Akhtar et al. 2025, section 2.5): Ev2R recall by
a judge, and the Hungarian METEOR of 2024 beside it."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path
from typing import Any

import msgspec

from components.datasets.submission import FIRST
from components.reason.prompt import filled, prompt_file
from components.records import Claim, Prediction, Question
from components.score import evidence
from components.score.averitec import Averitec2024
from components.score.base import Measure, Rankings, Scores
from components.score.control import control
from components.score.formula import measured
from components.score.judge import (
    Asked,
    Judge,
    JudgedScorer,
    cost,
    failures,
    official_facts,
    read_facts,
    unjudged,
)
from components.score.pairing import by_number, first_of_each
from components.score.rows import breakdown, mean
from components.step import Context

PROMPTS = Path(__file__).parent / "prompts"
LEVEL = 0.5  # recall that the AVeriTeC score asks for
METEOR_LEVEL = 0.25
JUDGED = ("ev2r_q", "ev2r_qa", "ev2r_score_at_0.50")
METEOR = {name: f"meteor_{name}" for name in ("q", "qa", f"score_at_{METEOR_LEVEL:.2f}")}
OF_LABELS = ("accuracy", "f1_")  # how those begin that are as in 2024


@dataclasses.dataclass(kw_only=True)
class Averitec2025(JudgedScorer):
    """Scorer of the 2025 shared task.

    Measures, all 0 to 1, higher is better, means over claims (Akhtar et al. 2025, table 2):
    ev2r_q, ev2r_qa: share of the reference's questions, and of its facts, that the prediction
    supports, as the judge counts them (Ev2R recall; Akhtar et al. 2024, section 3.1).
    ev2r_score_at_0.50: share of claims with the right label and `ev2r_qa` strictly above .5.
    meteor_q, meteor_qa, meteor_score_at_0.25: Hungarian METEOR as in 2024, but gold questions
    count once however often they stand there, explanations of Boolean answers are not appended
    and questions without answer are left out.
    accuracy, f1_macro, f1_LABEL: as in 2024.

    A claim without prediction, or without evidence, has recall 0 and needs no judge. A reply that
    cannot be had or read after all attempts leaves its claim out of the judged measures, with a
    note. With judge.repeats above 1 a claim's value is the mean over the runs, and a note and the
    table `repeats` give each measure's mean and standard deviation over runs.

    official: follow the organisers' script where it departs from the above, quirk by quirk as the
    notes list them; but what no claim was judged for has no value. The wording of the prompts stays
    ours: give theirs with `evidence_prompt` and `questions_prompt` (files with {claim}, {reference}
    and {predicted}).
    """

    judge: Judge
    evidence_prompt: Path = Path("ev2r_evidence.txt")
    questions_prompt: Path = Path("ev2r_questions.txt")
    official: bool = False

    def __post_init__(self) -> None:
        self.evidence_prompt = prompt_file(self.evidence_prompt, PROMPTS)
        self.questions_prompt = prompt_file(self.questions_prompt, PROMPTS)

    def names(self) -> list[str]:
        labels = [name for name in Averitec2024().names() if name.startswith(OF_LABELS)]
        return [*JUDGED, *METEOR.values(), *labels]

    def measure(
        self,
        gold: list[Claim],
        predictions: list[Prediction],
        rankings: Rankings,
        ctx: Context | None = None,
    ) -> Scores:
        assert ctx  # JudgedScorer sees to it
        meteor = Averitec2024(levels=[METEOR_LEVEL], draws=self.draws, seed=self.seed)
        old = meteor.measure([_as_cells(c) for c in gold], predictions, {})
        given, _, _ = first_of_each(predictions, gold)
        by_id = {claim.id: claim for claim in gold}
        claims = [by_id[row["id"]] for row in old.per_claim]
        if self.official:
            claims = sorted(claims, key=lambda claim: by_number(claim.id))
        problems: list[str] = []
        pairs = self._to_judge(claims, given)
        q = self._recalls("questions", claims, pairs, ctx, problems)
        of_q = len(problems)
        qa = self._recalls("evidence", claims, pairs, ctx, problems)
        values = (q, qa, qa)
        plain = [
            {"id": claim.id} | {n: mean(v[i]) for n, v in zip(JUDGED, values, strict=True)}
            for i, claim in enumerate(claims)
        ]
        unmeasured = unjudged(JUDGED, plain, pairs, problems)
        if "ev2r_q" not in unmeasured:  # the reason is another
            unmeasured = unjudged(JUDGED, plain, pairs, problems[of_q:])
        nought: list[str] = []  # problems that count 0
        if self.official and "ev2r_q" not in unmeasured:
            q = [[recall or 0.0 for recall in runs] for runs in q]
            nought += problems[:of_q]
        if self.official and "ev2r_qa" not in unmeasured:
            qa = _by_position(claims, qa)
            nought += problems[of_q:]
        right = {row["id"]: row["accuracy"] for row in old.per_claim}
        # Without a reply a claim is left out even where its label is wrong, which makes it 0: to
        # leave out only those with a right label would take from the mean.
        passed = [
            [None if r is None else right[c.id] * (r > LEVEL) for r in runs]
            for c, runs in zip(claims, qa, strict=True)
        ]
        runs = dict(zip(JUDGED, (q, qa, passed), strict=True))
        judged = {
            claim.id: {name: mean(values[i]) for name, values in runs.items()}
            for i, claim in enumerate(claims)
        }
        rows = [_row(row, judged[row["id"]]) for row in old.per_claim]
        ordered = [by_id[row["id"]] for row in rows]
        return self._scores(old, rows, ordered, runs, unmeasured, problems, nought, ctx)

    def _to_judge(
        self, claims: list[Claim], given: dict[str, Prediction]
    ) -> dict[str, list[tuple[str, str]]]:
        """The QAs that count, by claim, of those that have something to judge."""
        first = None if self.official else FIRST
        pairs = {
            claim.id: evidence.pairs_of(given[claim.id].evidence, first)
            for claim in claims
            if claim.id in given
        }
        return {i: own for i, own in pairs.items() if self.official or any(q or a for q, a in own)}

    def _recalls(
        self,
        mode: str,
        claims: list[Claim],
        pairs: dict[str, list[tuple[str, str]]],
        ctx: Context,
        problems: list[str],
    ) -> list[list[float | None]]:
        """Recall of each claim, in each run; 0 where there is nothing to judge. A run in which all
        calls failed, where another has replies, has no value of any claim."""
        asked = {
            i: self._asked(mode, claim, pairs[claim.id])
            for i, claim in enumerate(claims)
            if claim.id in pairs
        }
        judge = dataclasses.replace(self.judge, attempts=1) if self.official else self.judge
        read = official_facts if self.official else read_facts
        found = judge.ask(list(asked.values()), read, ctx, problems)
        replied = [any(runs[n] for runs in found) for n in range(judge.repeats)]
        nothing = [0.0 if known or not any(replied) else None for known in replied]
        recalls: list[list[float | None]] = [list(nothing) for _ in claims]
        for i, runs in zip(asked, found, strict=True):
            recalls[i] = [facts.recall if facts else None for facts in runs]
        return recalls

    def _asked(self, mode: str, claim: Claim, pairs: list[tuple[str, str]]) -> Asked:
        reference = evidence.gold_pairs(claim)
        if mode == "questions":
            file, text = self.questions_prompt, evidence.questions
        else:
            file, text = self.evidence_prompt, evidence.cell if self.official else evidence.lines
        if mode == "questions" and not self.official:
            reference = list(dict.fromkeys((question, "") for question, _ in reference))
        prompt = filled(file, claim=claim.text, reference=text(reference), predicted=text(pairs))
        return Asked(id=claim.id, mode=mode, prompt=prompt)

    def _scores(
        self,
        old: Scores,
        rows: list[dict[str, Any]],
        claims: list[Claim],
        runs: dict[str, list[list[float | None]]],
        unmeasured: dict[str, str],
        problems: list[str],
        nought: list[str],
        ctx: Context,
    ) -> Scores:
        kept: dict[str, list[str]] = {name: [] for name in JUDGED if name not in unmeasured}
        measures = {
            **measured(kept, rows, self.draws, self.seed),
            **{new: old.measures[name] for name, new in METEOR.items()},
            **{name: m for name, m in old.measures.items() if name.startswith(OF_LABELS)},
        }
        names = [*JUDGED, *METEOR.values(), "accuracy"]
        tables = {
            "by_label": breakdown(claims, rows, names, lambda claim: [claim.label or ""]),
            "by_type": breakdown(claims, rows, names, lambda claim: claim.types),
            "confusion": old.tables["confusion"],
        }
        notes = list(old.notes)
        weak = control(self.judge, self.evidence_prompt, ctx)
        notes += cost(ctx)
        notes += self.judge.remarks({claim.id for claim in claims}, ("questions", "evidence"))
        if self.judge.repeats > 1:
            tables["repeats"] = _repeats({n: v for n, v in runs.items() if n not in unmeasured})
            notes += _spread(tables["repeats"], self.judge.repeats, bool(problems))
        if self.official:
            measures = {name: _rounded(measure) for name, measure in measures.items()}
            notes += _quirks(claims, len(nought))
            notes += failures(nought, nought=True)
        else:
            notes += failures(problems)
        return Scores(
            measures=measures,
            per_claim=rows,
            tables=tables,
            notes=notes,
            warnings=[weak] if weak else [],
            incomplete=bool(problems),
            unmeasured=unmeasured,
        )


def _as_cells(claim: Claim) -> Claim:
    """The claim with gold evidence as the METEOR of 2025 takes it."""
    answers: dict[str, list[Any]] = {}
    for question in claim.questions:
        if question.answers:
            plain = [msgspec.structs.replace(a, answer_type=None) for a in question.answers]
            answers.setdefault(question.question, []).extend(plain)
    questions = [Question(question=text, answers=found) for text, found in answers.items()]
    return msgspec.structs.replace(claim, questions=questions)


def _row(old: dict[str, Any], judged: dict[str, float | None]) -> dict[str, Any]:
    level = f"score_at_{METEOR_LEVEL:.2f}"
    return {
        "id": old["id"],
        "gold": old["gold"],
        "predicted": old["predicted"],
        **judged,
        "meteor_q": old["q"],
        "meteor_qa": old["qa"],
        f"meteor_{level}": old[level],
        "accuracy": old["accuracy"],
    }


def _by_position(
    claims: list[Claim], recalls: list[list[float | None]]
) -> list[list[float | None]]:
    """Row i has the recall of the claim whose id is i, else 0, as the official script pairs."""
    known = dict(zip((claim.id for claim in claims), recalls, strict=True))
    nothing: list[float | None] = [0.0] * len(recalls[0])
    return [[recall or 0.0 for recall in known.get(str(i), nothing)] for i in range(len(claims))]


def _repeats(runs: dict[str, list[list[float | None]]]) -> list[dict[str, Any]]:
    """A row a measure: its mean in each run, and mean and standard deviation of those."""
    table = []
    for name, values in runs.items():
        each = [mean(column) for column in zip(*values, strict=True)]
        known = [value for value in each if value is not None]
        sd = statistics.stdev(known) if len(known) > 1 else None
        row: dict[str, Any] = {"measure": name, "mean": mean(known), "sd": sd}
        table.append(row | {f"run_{i}": value for i, value in enumerate(each, 1)})
    return table


def _spread(table: list[dict[str, Any]], repeats: int, failed: bool) -> list[str]:
    """The note on mean and deviation over the runs, of the measures in the table."""
    if not table:
        return []
    figures = ", ".join(
        f"{row['measure']} {row['mean']:.4f} "
        + ("(one run alone)" if row["sd"] is None else f"± {row['sd']:.4f}")
        for row in table
    )
    fewer = (
        " A run is over the claims whose call did not fail, a measure over those with a reply in "
        "some run, so the means are others."
    )
    return [
        f"Over {repeats} runs of the judge: {figures} (mean ± standard deviation)." + fewer * failed
    ]


def _rounded(measure: Measure) -> Measure:
    return msgspec.structs.replace(measure, value=round(measure.value, 4))


def _quirks(claims: list[Claim], failed: int) -> list[str]:
    ids = sorted((claim.id for claim in claims), key=by_number)
    shifted = sum(id != str(i) for i, id in enumerate(ids))
    return [
        "official=true follows these quirks of the 2025 script: the first shortest {…} of a reply "
        "is decoded, and nested objects, counts as text or a total of 0 on either side give no "
        f"score; a failed or unread call counts 0 ({failed} here) and is not tried again; recall "
        "is not clipped at 1; for recall and its AVeriTeC score the row's number must equal the "
        f"claim's id ({shifted} of {len(claims)} rows differ here); all QAs are judged, not the "
        "first 10; the judge sees raw evidence cells, and a gold question as often as it has "
        "answers; values are rounded to 4 decimals.",
        "Not followed: rows are paired by id, where the script pairs them by order.",
    ]
