"""Verdicts made of others: of each piece of evidence, of several judges, behind a filter."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from components.errors import ClaimflowError, nearest
from components.reason.aggregate import AGGREGATES
from components.reason.nested import Nested, each_pair, judged, remarks_of
from components.reason.verdict import check_ties
from components.records import AVERITEC_LABELS, NOT_ENOUGH, Case, Verdict
from components.retrieve.encoder import Encoder
from components.retrieve.rerank import cosines
from components.step import Context, Step

NO_EVIDENCE = "No evidence was found."


@dataclasses.dataclass(kw_only=True)
class PerEvidence(Nested):
    """Each pair of question and answer is judged alone, and the verdicts are made one.

    aggregate: how, by the name of a function of `components.reason.aggregate`. ties: all labels, of
    which the first of level ones wins. The justification has a line a pair. A claim without
    evidence is Not Enough Evidence; one that `verdict` fails on for one pair fails.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    verdict: Step
    aggregate: str = "strict"
    ties: list[str] = dataclasses.field(default_factory=lambda: list(AVERITEC_LABELS))

    def inner(self) -> dict[str, Step]:
        return {"verdict": self.verdict}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_aggregate(self.aggregate)
        check_ties(self.ties, "verdict")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        each = each_pair(self.verdict, "verdict of a pair", cases, ctx)
        for case, said in zip(cases, each, strict=True):
            questions = [pair.question for pair in case.evidence]
            combine(case, questions, said, self.aggregate, self.ties)
        return cases


@dataclasses.dataclass(kw_only=True)
class Ensemble(Nested):
    """Several judges of the same evidence, whose verdicts are made one (SynApSe, AVeriTeC 2024;
    UNC and Athene, FEVER 2018).

    aggregate: "majority" is their vote, "mean" the mean of their probabilities; every function of
    `components.reason.aggregate` will do. ties: all labels, of which the first of level ones wins.
    The justification has a line a judge. A claim that one judge fails on fails.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    members: dict[str, Step]
    aggregate: str = "majority"
    ties: list[str] = dataclasses.field(default_factory=lambda: list(AVERITEC_LABELS))

    def inner(self) -> dict[str, Step]:
        return self.members

    def __post_init__(self) -> None:
        super().__post_init__()
        check_aggregate(self.aggregate)
        check_ties(self.ties, "verdict")
        if len(self.members) < 2:
            raise ClaimflowError("An ensemble needs two members or more: verdict.members.NAME=…")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        each = [judged(step, name, cases, ctx) for name, step in self.members.items()]
        for case, said in zip(cases, zip(*each, strict=True), strict=True):
            combine(case, list(self.members), list(said), self.aggregate, self.ties)
        return cases


@dataclasses.dataclass(kw_only=True)
class SemanticFilter(Nested):
    """A verdict without a model where the evidence tells by itself; else that of `verdict` (EFC,
    AVeriTeC 2025, which so saves most calls).

    Cosines are those of claim and question, as one text, with each answer. The highest is below
    `floor`: Not Enough Evidence. Their variance (of the population) is above `variance`:
    Conflicting Evidence/Cherrypicking. Both depend on the encoder: EFC's .82 and .0007 are for
    gte-base. A remark says which claims were settled so.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    verdict: Step
    encoder: Encoder
    floor: float = 0.82
    variance: float = 0.0007

    def inner(self) -> dict[str, Step]:
        return {"verdict": self.verdict}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.floor <= 1 or self.variance < 0:
            raise ClaimflowError("verdict.floor is 0 to 1, and verdict.variance 0 or more.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        open_ = []
        for case in cases:
            label = self._settled(case, ctx)
            if label is None:
                open_.append(case)
                continue
            case.verdict = Verdict(label=label, justification="By the likeness of the evidence.")
            case.remarks = [*case.remarks, f"{label} by the semantic filter"]
        for case, done in zip(open_, judged(self.verdict, "verdict", open_, ctx), strict=True):
            case.verdict, case.failed = done.verdict, done.failed
            case.remarks = remarks_of(case, [done])
        return cases

    def _settled(self, case: Case, ctx: Context) -> str | None:
        values: list[float] = []
        for pair in case.evidence:
            [asked] = self.encoder.queries([f"{case.claim.text} {pair.question}"], ctx)
            text = self.encoder.passage_prompt + pair.answer
            values += cosines(asked, list(self.encoder.encode([text], ctx)))
        if round(max(values, default=-1.0), 6) < self.floor:
            return NOT_ENOUGH
        middle = sum(values) / len(values)
        spread = sum((value - middle) ** 2 for value in values) / len(values)
        return AVERITEC_LABELS[3] if round(spread, 8) > self.variance else None


def combine(
    case: Case, names: list[str], each: list[Case], aggregate: str, ties: list[str]
) -> None:
    """Give a case the verdict that those of `each` come to."""
    case.remarks = remarks_of(case, each)
    case.failed = next((one.failed for one in each if one.failed), None)
    verdicts = [one.verdict for one in each if one.verdict]
    if case.failed:
        return
    if not verdicts:
        case.verdict = Verdict(label=NOT_ENOUGH, justification=NO_EVIDENCE)
        return
    case.verdict = AGGREGATES[aggregate](verdicts, ties)
    case.verdict.justification = "\n".join(
        f"{name} – {one.label}" for name, one in zip(names, verdicts, strict=True)
    )


def check_aggregate(name: str) -> None:
    """Raise ClaimflowError for what is no function of `components.reason.aggregate`."""
    if name not in AGGREGATES:
        raise ClaimflowError(
            f"verdict.aggregate is {name}: choose one of {', '.join(AGGREGATES)}."
            f"{nearest(name, AGGREGATES)}"
        )
