"""A question for each passage that was found, which the passage answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from components.cache import key_of
from components.datasets.base import normalised
from components.engines.base import Request
from components.errors import ClaimflowError
from components.reason.joint import best_first
from components.reason.prompted import Prompted
from components.records import Case, Claim, Evidence
from components.retrieve.bm25 import Bm25s
from components.step import Context

NO_QUESTION = "passages left out, as the model's reply had no question"


class Example(NamedTuple):
    """A gold question and answer, and the claim that they belong to."""

    claim: Claim
    question: str
    answer: str


@dataclasses.dataclass(kw_only=True)
class EvidenceQuestions(Prompted):
    """Passages as answers, each with a question that a language model asks for it.

    The AVeriTeC baseline (Schlichtkrull et al. 2023, section 5), HerO and UHH (AVeriTeC 2024,
    table 1): few-shot, with the gold pairs of training claims whose answer is nearest to the
    passage by BM25. The question is the reply up to its first question mark, 250 characters at
    most; a passage whose reply has none is left out, with a remark. The reply is greedy.

    prompt: with {evidence} and, if wanted, {examples}. limit: passages a claim, best first.
    examples: gold pairs in the prompt. characters: of a passage or an example's answer in it.
    """

    reads: ClassVar = ("claim", "hits", "passages", "remarks")
    writes: ClassVar = ("evidence", "remarks")

    least: ClassVar = {"limit": 1, "examples": 0, "characters": 1}

    prompt: Path = Path("evidence_question.txt")
    chat: bool = False
    limit: int = 10
    examples: int = 10
    characters: int = 1500

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        found = [(case, p) for case in cases for p in best_first(case)[: self.limit]]
        near = self._near([(case.claim, passage.text) for case, passage in found], ctx)
        requests = [
            self.request(case.claim, passage.text, examples)
            for (case, passage), examples in zip(found, near, strict=True)
        ]
        for case in cases:
            case.evidence, case.remarks = [], list(case.remarks)
        replies = self.engine.generate(requests, ctx)
        for (case, passage), reply in zip(found, replies, strict=True):
            if reply.error:
                case.failed = reply.error
            elif question := first_question(reply.text):
                case.evidence.append(
                    Evidence(question=question, answer=passage.text, url=passage.url,
                             passages=[passage.id])
                )  # fmt: skip
            elif NO_QUESTION not in case.remarks:
                case.remarks.append(NO_QUESTION)
        return cases

    def request(self, claim: Claim, evidence: str, examples: list[Example]) -> Request:
        """What the model is asked about one passage."""

        def short(text: str) -> str:
            return " ".join(text.split())[: self.characters]

        shown = "\n\n".join(
            f"Claim: {one.claim.text.strip()}\nEvidence: {short(one.answer)}\n"
            f"Question: {short(one.question)}"
            for one in examples
        )
        values = {"evidence": short(evidence), "examples": shown}
        return self.ask(claim, values, stop=["\n", "?"])

    def _near(self, asked: list[tuple[Claim, str]], ctx: Context) -> list[list[Example]]:
        """For each passage the gold pairs with the nearest answers, nearest last; none of the
        claim itself."""
        if not self.examples or not asked:
            return [[] for _ in asked]
        pool = [
            Example(claim, question.question, answer.answer)
            for claim in ctx.train
            for question in claim.questions
            for answer in question.answers
            if answer.answer.strip()
        ]
        if not pool:
            raise ClaimflowError(
                "Few-shot examples are gold questions and answers of training claims, and "
                f"none of the {len(ctx.train)} here has any. Set answerer.examples=0, or name a "
                "split whose claims have them with dataset.train_split=…"
            )
        search = Bm25s()
        answers = [one.answer for one in pool]
        index: Any = ctx.loaded(
            key_of(__name__, ctx.train_digest),
            lambda: search.index(key_of(answers), answers, ctx),
        )
        near = []
        texts = [text for _, text in asked]
        for (claim, _), scores in zip(asked, search.scores(index, texts, ctx), strict=True):
            order = scores.argsort(kind="stable")[::-1]
            own = normalised(claim.text)
            # One claim has several pairs, so more than `examples` are looked at.
            best = [pool[i] for i in order[: self.examples * 10]]
            near.append([one for one in best if normalised(one.claim.text) != own][: self.examples])
        return [examples[::-1] for examples in near]


def first_question(reply: str) -> str | None:
    """The reply up to its first question mark, 250 characters at most, ending in one."""
    text = " ".join(reply.split("?")[0].split())[:249].strip()
    return f"{text}?" if any(letter.isalpha() for letter in text) else None
