"""Questions, answers and verdict in one reply of a language model."""

from __future__ import annotations

import dataclasses
import itertools
import math
from pathlib import Path
from typing import Annotated, ClassVar

import msgspec

from components.datasets.submission import NO_ANSWER
from components.engines.base import Request
from components.engines.structured import Structured, structured
from components.reason.examples import examples
from components.reason.fit import CUT, fitted
from components.reason.prompted import Prompted
from components.reason.verdict import check_ties, verdict
from components.records import AVERITEC_LABELS, Case, Claim, Evidence, Passage, Record
from components.retrieve.search import per_query
from components.step import Context

BAD_SOURCE = "answers that cite no source there is"
NO_PAIR = "verdicts without evidence, as the model's reply had no question and answer"
Rating = Annotated[int, msgspec.Meta(ge=1, le=5)]


class Answered(Record):
    question: str
    answer: str
    source: int  # number of the source, from 1

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise ValueError("a question without text")


class Ratings(Record):
    supported: Rating
    refuted: Rating
    not_enough_evidence: Rating
    conflicting_evidence: Rating


class Reasoned(Record):
    """What the model replies."""

    evidence: list[Answered]
    ratings: Ratings


def asked_for(n: int, sources: int) -> type:
    """`Reasoned` with the limits that a model is held to: n pairs, 300 characters a question and
    600 an answer, and sources that exist."""
    limits = {
        "question": Annotated[str, msgspec.Meta(min_length=1, max_length=300)],
        "answer": Annotated[str, msgspec.Meta(max_length=600)],
        "source": Annotated[int, msgspec.Meta(ge=1, le=sources)],
    }
    answered = msgspec.defstruct("Answered", list(limits.items()))
    pairs = Annotated[list[answered], msgspec.Meta(min_length=1, max_length=n)]  # type: ignore[valid-type]
    return msgspec.defstruct("Reasoned", [("evidence", pairs), ("ratings", Ratings)])


@dataclasses.dataclass(kw_only=True)
class JointReasoning(Prompted):
    """One call gives questions, answers with their sources, and a rating of each verdict.

    CTU AIC (AVeriTeC 2024, table 1; 2025): the best `sources` passages are shown with their
    neighbouring text and numbered; the reply is a JSON object of questions, answers, the number of
    the source of each, and for every label how strongly it holds from 1 to 5. Ratings become
    probabilities by the softmax of (rating − 3); `ties` is the order in which equal ones win.

    prompt: with {sources} and, if wanted, {examples} and {n}. n: pairs at most. examples: training
    claims in the prompt. attempts: a reply that does not fit is asked for again with the reason;
    after the last the claim fails, and no label stands in for it. An answer whose source does not
    exist is replaced by "No answer could be found.", as theirs is, with a remark; a verdict without
    any pair gets a remark, too. Sources too long for the model's context are all cut to the same
    length, with a remark.
    """

    reads: ClassVar = ("claim", "hits", "passages", "remarks")
    writes: ClassVar = ("evidence", "verdict", "remarks")

    least: ClassVar = {"n": 1, "sources": 1, "examples": 0, "attempts": 1}

    prompt: Path = Path("joint.txt")
    n: int = 10
    sources: int = 10
    examples: int = 10
    max_tokens: int = 2000
    attempts: int = 3
    ties: list[str] = dataclasses.field(default_factory=lambda: list(AVERITEC_LABELS))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_ties(self.ties, "answerer")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        near = examples([case.claim for case in cases], self.examples, ctx)
        shown = [best_first(case)[: self.sources] for case in cases]
        requests = []
        for case, passages, like in zip(cases, shown, near, strict=True):
            request, cut = fitted(
                self.engine,
                lambda size: self.request(case.claim, passages, like, size),  # noqa: B023
                max((len(text_of(passage)) for passage in passages), default=0),
                ctx,
            )
            requests.append(request)
            case.remarks = [*case.remarks, CUT] if cut else list(case.remarks)
        replies = self._replies(requests, [len(passages) for passages in shown], ctx)
        for case, passages, reply in zip(cases, shown, replies, strict=True):
            if reply.value is None:
                case.failed = reply.failed
                continue
            case.evidence = [pair(one, passages) for one in reply.value.evidence[: self.n]]
            if any(not 0 < one.source <= len(passages) for one in reply.value.evidence[: self.n]):
                case.remarks.append(BAD_SOURCE)
            if not case.evidence:
                case.remarks.append(NO_PAIR)
            case.verdict = verdict(likert(reply.value.ratings), ties=self.ties)
        return cases

    def _replies(
        self, requests: list[Request], sources: list[int], ctx: Context
    ) -> list[Structured[Reasoned]]:
        """The replies; each is held to the sources that were shown for it."""
        found: dict[int, Structured[Reasoned]] = {}
        for count in sorted(set(sources)):
            alike = [i for i, shown in enumerate(sources) if shown == count]
            limits = asked_for(self.n, max(count, 1))
            asked = [requests[i] for i in alike]
            said = structured(self.engine, asked, Reasoned, ctx, self.attempts, limits)
            found |= zip(alike, said, strict=True)
        return [found[i] for i in range(len(requests))]

    def request(
        self, claim: Claim, passages: list[Passage], near: list[Claim], size: int | None
    ) -> Request:
        """What the model is asked, each source cut to `size` characters."""
        sources = "\n\n".join(
            f"[{i}] {passage.url or passage.doc}\n{text_of(passage)[:size]}"
            for i, passage in enumerate(passages, 1)
        )
        examples = "\n\n".join(_example(one) for one in near)
        return self.ask(claim, {"n": str(self.n), "sources": sources, "examples": examples})


def likert(ratings: Ratings) -> dict[str, float]:
    """Probabilities of AVeriTeC's labels, in its order: the softmax of rating − 3."""
    values = (
        ratings.supported,
        ratings.refuted,
        ratings.not_enough_evidence,
        ratings.conflicting_evidence,
    )
    powers = [math.exp(value - 3) for value in values]
    return dict(zip(AVERITEC_LABELS, (power / sum(powers) for power in powers), strict=True))


def best_first(case: Case) -> list[Passage]:
    """The passages found for a claim, each once; queries take turns."""
    by_id = {passage.id: passage for passage in case.passages}
    turns = itertools.zip_longest(*per_query(case.hits).values())
    return [by_id[name] for name in dict.fromkeys(h.passage for turn in turns for h in turn if h)]


def text_of(passage: Passage) -> str:
    """A passage with the text before and after it, where the chunker kept them."""
    return " ".join(filter(None, (passage.before, passage.text, passage.after)))


def pair(said: Answered, passages: list[Passage]) -> Evidence:
    """Evidence of a pair; without its answer where the source does not exist."""
    if not 0 < said.source <= len(passages):
        return Evidence(question=said.question.strip(), answer=NO_ANSWER)
    source = passages[said.source - 1]
    return Evidence(
        question=said.question.strip(),
        answer=said.answer.strip() or NO_ANSWER,
        url=source.url,
        passages=[source.id],
    )


def _example(claim: Claim) -> str:
    lines = [f"Claim: {claim.text.strip()}"]
    for question in claim.questions:
        for answer in question.answers:
            kind = f" ({answer.answer_type})" if answer.answer_type else ""
            lines.append(f"Question: {question.question}\nAnswer{kind}: {answer.answer}")
    return "\n".join([*lines, f"Verdict: {claim.label}"])
