"""The next questions of a fact-check that goes on from what is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from components.datasets.submission import NO_ANSWER
from components.engines.base import Request
from components.errors import ClaimflowError
from components.reason.answers import plain
from components.reason.prompted import Prompted
from components.reason.questions import BY_RULES, parsed, rules, unique
from components.records import Case
from components.retrieve.encoder import Encoder
from components.retrieve.rerank import cosines
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class NextQuestion(Prompted):
    """More questions about the claim, given the questions and answers so far: one (Papelo,
    AVeriTeC 2024), or the several thoughts of a step in a graph of thoughts (FZIGOT, 2025).

    Inside a `Loop`, with `evidence` and `asked` growing from round to round. In the first round a
    claim that has questions keeps them (Papelo's first is by a model of its own). Later the model
    is shown what was asked, too, that has no answer. No question comes where it has none, or asks
    what was asked before: that is its way to say that it is done. Nothing but lines with a
    question mark is taken for a question.

    prompt: with {evidence} and {n}, if wanted. n: new questions at most. on_empty: what a claim
    that was never asked about gets when the reply has no question: "rules" (those of `rules`, with
    a remark), or "end" (none, so the loop ends).
    """

    reads: ClassVar = ("claim", "questions", "asked", "evidence", "remarks")
    writes: ClassVar = ("questions", "remarks")
    least: ClassVar = {"n": 1}
    choices: ClassVar = {"on_empty": ("rules", "end")}

    prompt: Path = Path("next_question.txt")
    n: int = 1
    on_empty: str = "rules"

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked = [case for case in cases if before(case) or not case.questions]
        requests = [self.request(case) for case in asked]
        for case, reply in zip(asked, self.engine.generate(requests, ctx), strict=True):
            case.questions = new(parsed(reply.text), before(case))[: self.n]
            if reply.error:
                case.failed = reply.error
            elif not case.questions and not before(case) and self.on_empty == "rules":
                case.questions = rules(case.claim)[: self.n]
                case.remarks = [*case.remarks, BY_RULES]
        return cases

    def request(self, case: Case) -> Request:
        """What the model is asked."""
        pairs = [(pair.question, pair.answer) for pair in case.evidence]
        pairs += [(q, NO_ANSWER) for q in new(case.asked, (question for question, _ in pairs))]
        known = "\n".join(f"Question: {question}\nAnswer: {answer}" for question, answer in pairs)
        values = {"evidence": known or "Nothing is known yet.", "n": str(self.n)}
        stop = [] if self.chat else ["\nAnswer:", "\n\n"]
        return self.ask(case.claim, values, stop=stop)


@dataclasses.dataclass(kw_only=True)
class Paraphrases(Prompted):
    """Questions in other words, behind those that there are (Papelo, AVeriTeC 2024: four of each,
    until five have an answer).

    Paraphrased are the claim's questions, those of its evidence and those that a loop asked before.
    What has an answer or was asked is not asked again, so behind a loop only what is new is left.

    prompt: with {question} and, if wanted, {n}. n: paraphrases of a question. limit: questions
    and pairs of evidence in all; those that are paraphrases of one stand behind one another.
    """

    reads: ClassVar = ("claim", "questions", "asked", "evidence")
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
            for question in unique([*before(case), *case.questions])
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
            more = new(unique([*case.questions, *found[case.claim.id]]), before(case))
            case.questions = more[: max(0, self.limit - len(case.evidence))]
        return cases


@dataclasses.dataclass(kw_only=True)
class DistinctQuestions(Step):
    """Only questions that say something new: one whose cosine with a question before it, with one
    that has an answer or with one of an earlier round is `cosine` or more is dropped (FZIGOT,
    AVeriTeC 2025, whose threshold is not known)."""

    reads: ClassVar = ("questions", "asked", "evidence")
    writes: ClassVar = ("questions",)
    encoder: Encoder
    cosine: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.cosine <= 1:
            raise ClaimflowError(f"DistinctQuestions.cosine is {self.cosine}: give 0 to 1.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            known = before(case)
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


def before(case: Case) -> list[str]:
    """The questions of the evidence, and those of earlier rounds."""
    return unique([*(pair.question for pair in case.evidence), *case.asked])


def new(questions: list[str], known: Iterable[str]) -> list[str]:
    """The questions that are not among `known`, apart from case and punctuation."""
    old = set(map(plain, known))
    return [question for question in questions if plain(question) not in old]
