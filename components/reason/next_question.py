"""The next questions of a fact-check that goes on from what is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from components.engines.base import Request
from components.errors import ClaimflowError
from components.reason.answers import plain
from components.reason.evidence_questions import first_question
from components.reason.prompted import Prompted
from components.reason.questions import parsed, unique
from components.records import Case, Claim, Evidence
from components.retrieve.encoder import Encoder
from components.retrieve.rerank import cosines
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class NextQuestion(Prompted):
    """More questions about the claim, given the questions and answers so far: one (Papelo,
    AVeriTeC 2024), or the several thoughts of a step in a graph of thoughts (FZIGOT, 2025).

    No question comes where the model has none, or asks what was asked before: that is its way to
    say that it is done. Beside a `Loop`, with `evidence` growing from round to round.

    prompt: with {evidence} and {n}, if wanted. n: questions at most; of one, the reply up to its
    first question mark counts, of more each line that has one.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("questions",)
    least: ClassVar = {"n": 1}

    prompt: Path = Path("next_question.txt")
    n: int = 1

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        requests = [self.request(case.claim, case.evidence) for case in cases]
        for case, reply in zip(cases, self.engine.generate(requests, ctx), strict=True):
            if reply.error:
                case.failed = reply.error
                continue
            one = first_question(reply.text)
            said = parsed(reply.text, self.n) if self.n > 1 else [one] if one else []
            case.questions = unanswered(said, case.evidence)
        return cases

    def request(self, claim: Claim, evidence: list[Evidence]) -> Request:
        """What the model is asked."""
        known = "\n".join(f"Question: {p.question}\nAnswer: {p.answer}" for p in evidence)
        values = {"evidence": known or "Nothing is known yet.", "n": str(self.n)}
        return self.ask(claim, values, stop=["?"] if self.n == 1 else [])


@dataclasses.dataclass(kw_only=True)
class Paraphrases(Prompted):
    """Questions in other words, behind those that there are (Papelo, AVeriTeC 2024: four of each,
    until five have an answer).

    Paraphrased are the claim's questions and those of its evidence. What has an answer is not
    asked again, so behind a loop only what is new is left.

    prompt: with {question} and, if wanted, {n}. n: paraphrases of a question. limit: questions
    and pairs of evidence in all; those that are paraphrases of one stand behind one another.
    """

    reads: ClassVar = ("claim", "questions", "evidence")
    writes: ClassVar = ("questions",)
    slot: ClassVar = "questioner"
    least: ClassVar = {"n": 1, "limit": 1}

    prompt: Path = Path("paraphrase.txt")
    max_tokens: int = 128
    n: int = 4
    limit: int = 5

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked = [
            (case, question)
            for case in cases
            for question in unique([*(e.question for e in case.evidence), *case.questions])
            if len(case.evidence) < self.limit
        ]
        requests = [self.ask(c.claim, {"question": q, "n": str(self.n)}) for c, q in asked]
        found: dict[str, list[str]] = {case.claim.id: [] for case in cases}
        replies = self.engine.generate(requests, ctx)
        for (case, question), reply in zip(asked, replies, strict=True):
            if reply.error:
                case.failed = reply.error
            found[case.claim.id] += [question, *parsed(reply.text, self.n)]
        for case in cases:
            new = unanswered(unique([*case.questions, *found[case.claim.id]]), case.evidence)
            case.questions = new[: max(0, self.limit - len(case.evidence))]
        return cases


@dataclasses.dataclass(kw_only=True)
class DistinctQuestions(Step):
    """Only questions that say something new: one whose cosine with a question before it, or with
    one that has an answer, is `cosine` or more is dropped (FZIGOT, AVeriTeC 2025, whose threshold
    is not known)."""

    reads: ClassVar = ("questions", "evidence")
    writes: ClassVar = ("questions",)
    encoder: Encoder
    cosine: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.cosine <= 1:
            raise ClaimflowError(f"DistinctQuestions.cosine is {self.cosine}: give 0 to 1.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            known = unique(pair.question for pair in case.evidence)
            texts = [*known, *case.questions]
            if not case.questions:
                continue
            vectors = self.encoder.queries(texts, ctx)
            kept = list(range(len(known)))
            for i in range(len(known), len(texts)):
                likest = max(cosines(vectors[i], [vectors[j] for j in kept]), default=-1.0)
                if round(likest, 6) < self.cosine:
                    kept.append(i)
            case.questions = [texts[i] for i in kept[len(known) :]]
        return cases


def unanswered(questions: list[str], evidence: list[Evidence]) -> list[str]:
    """The questions that no pair of the evidence has, apart from case and punctuation."""
    answered = {plain(pair.question) for pair in evidence}
    return [question for question in questions if plain(question) not in answered]
