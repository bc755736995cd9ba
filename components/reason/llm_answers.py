"""Answers that a language model gives to questions, from the passages found for them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from components.datasets.submission import NO_ANSWER
from components.engines.base import Engine, Message, Request
from components.errors import ClaimflowError
from components.reason.answers import plain
from components.reason.fit import CUT, fitted
from components.reason.prompt import filled, prompt_file
from components.records import Case, Claim, Evidence, Passage
from components.retrieve.search import per_query
from components.step import Context, Step

UNANSWERED = "questions left out, as no passage answers them"


@dataclasses.dataclass(kw_only=True)
class LlmAnswers(Step):
    """Each question answered in the model's words, from the best passages found for it.

    sources=1 is an answer from one document (InFact, AVeriTeC 2024); more is retrieval-augmented
    generation over k (FZI-WIM, OldJoe), with the best passage nearest to the question where
    `reverse` is set. The reply is greedy. The pair names the passages that were shown, and the
    URL of the best.

    prompt: a file with {claim}, {question} and {sources}. limit: pairs a claim. unanswered: a
    reply that says there is no answer, or says nothing, is "drop"ped with a remark, or kept as
    "No answer could be found." ("keep"). max_tokens: of a reply. Passages too long for the
    model's context are all cut to the same length, with a remark.
    """

    reads: ClassVar = ("claim", "queries", "hits", "passages", "remarks")
    writes: ClassVar = ("evidence", "remarks")

    engine: Engine
    prompt: Path = Path("answer.txt")
    sources: int = 3
    reverse: bool = False
    limit: int = 10
    unanswered: str = "drop"
    max_tokens: int = 96

    def __post_init__(self) -> None:
        self.outside = self.engine.outside  # type: ignore[misc]
        self.prompt = prompt_file(self.prompt)
        for name in ("sources", "limit", "max_tokens"):
            if getattr(self, name) < 1:
                raise ClaimflowError(f"answerer.{name} is {getattr(self, name)}: give 1 or more.")
        if self.unanswered not in ("drop", "keep"):
            raise ClaimflowError(f"answerer.unanswered is {self.unanswered}: choose drop or keep.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked: list[tuple[Case, str, list[Passage]]] = []
        requests = []
        for case in cases:
            case.evidence, case.remarks = [], list(case.remarks)
            for question, passages in list(self._found(case).items())[: self.limit]:
                request, cut = fitted(
                    self.engine,
                    lambda size: self.request(case.claim, question, passages, size),  # noqa: B023
                    max((len(passage.text) for passage in passages), default=0),
                    ctx,
                )
                if cut and CUT not in case.remarks:
                    case.remarks.append(CUT)
                asked.append((case, question, passages))
                requests.append(request)
        replies = self.engine.generate(requests, ctx)
        for (case, question, passages), reply in zip(asked, replies, strict=True):
            if reply.error:
                case.failed = reply.error
                continue
            answer = " ".join(reply.text.split())
            if not plain(answer) or plain(NO_ANSWER) in plain(answer):
                if UNANSWERED not in case.remarks and self.unanswered == "drop":
                    case.remarks.append(UNANSWERED)
                if self.unanswered == "keep":
                    case.evidence.append(Evidence(question=question, answer=NO_ANSWER))
                continue
            case.evidence.append(
                Evidence(question=question, answer=answer, url=passages[0].url,
                         passages=[passage.id for passage in passages])
            )  # fmt: skip
        return cases

    def request(
        self, claim: Claim, question: str, passages: list[Passage], size: int | None
    ) -> Request:
        """What the model is asked, each passage cut to `size` characters."""
        shown = passages[::-1] if self.reverse else passages
        text = filled(
            self.prompt,
            claim=claim.text.strip(),
            question=question,
            sources="\n\n".join(passage.text[:size] for passage in shown),
        )
        return Request(prompt=[Message(role="user", content=text)], max_tokens=self.max_tokens)

    def _found(self, case: Case) -> dict[str, list[Passage]]:
        """The best passages for each question, each once; a claim's own query asks nothing."""
        by_id = {passage.id: passage for passage in case.passages}
        hits = per_query(case.hits)
        found: dict[str, dict[str, Passage]] = {}
        for number, query in enumerate(case.queries):
            if query.question:
                passages = found.setdefault(query.question, {})
                for hit in hits.get(number, []):
                    if len(passages) < self.sources:
                        passages.setdefault(hit.passage, by_id[hit.passage])
        return {question: list(passages.values()) for question, passages in found.items()
                if passages}  # fmt: skip
