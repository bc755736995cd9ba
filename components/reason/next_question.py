"""The next question of a fact-check that goes on from what is known."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from components.engines.base import Engine, Message, Request
from components.errors import ClaimflowError
from components.reason.answers import plain
from components.reason.evidence_questions import first_question
from components.reason.prompt import filled, prompt_file
from components.records import Case, Claim, Evidence
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class NextQuestion(Step):
    """One more question about the claim, given the questions and answers so far (Papelo,
    AVeriTeC 2024).

    No question comes where the model has none, or asks what was asked before: that is its way to
    say that it is done. Beside a `Loop`, with `evidence` growing from round to round.

    prompt: a file with {claim}, {evidence} and, if wanted, {speaker} and {date}. max_tokens: of a
    reply, of which the text up to the first question mark counts.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("questions",)

    engine: Engine
    prompt: Path = Path("next_question.txt")
    max_tokens: int = 64

    def __post_init__(self) -> None:
        self.outside = self.engine.outside  # type: ignore[misc]
        self.prompt = prompt_file(self.prompt)
        if self.max_tokens < 1:
            raise ClaimflowError(f"max_tokens is {self.max_tokens}: give 1 or more.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        requests = [self.request(case.claim, case.evidence) for case in cases]
        for case, reply in zip(cases, self.engine.generate(requests, ctx), strict=True):
            if reply.error:
                case.failed = reply.error
                continue
            question = first_question(reply.text)
            asked = {plain(pair.question) for pair in case.evidence}
            case.questions = [question] if question and plain(question) not in asked else []
        return cases

    def request(self, claim: Claim, evidence: list[Evidence]) -> Request:
        """What the model is asked."""
        text = filled(
            self.prompt,
            claim=claim.text.strip(),
            speaker=claim.speaker or "unknown",
            date=str(claim.date or "unknown"),
            evidence="\n".join(f"Question: {p.question}\nAnswer: {p.answer}" for p in evidence)
            or "Nothing is known yet.",
        )
        chat = [Message(role="user", content=text)]
        return Request(prompt=chat, max_tokens=self.max_tokens, stop=["?"])
