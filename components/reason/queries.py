"""Search queries that a language model writes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.reason.prompt import filled, prompt_file
from components.reason.questions import MARKER
from components.records import Case, Query
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class WrittenQueries(Step):
    """Base of queries that a language model writes, for each claim or for each of its questions.

    prompt: a file with {claim} and, if wanted, {question}, {n}, {speaker} and {date}; or the name
    of one in components/reason/prompts. per: "claim", or "question" (a claim without questions
    stands for one). n: of what is written, at most. max_tokens: of a reply. temperature: 0 is
    greedy. with_original: claim or question is the first query. on_empty: what is searched where a
    reply has nothing of use: "original" (claim or question, with a remark) or "fail" (the claim
    fails).
    """

    reads: ClassVar = ("claim", "questions", "remarks")
    writes: ClassVar = ("queries", "remarks")
    stop: ClassVar = ("\n\n", "\nClaim:")
    sampled: ClassVar = False  # is each of the `n` a reply of its own?

    engine: Engine
    prompt: Path
    kind: str
    per: str = "claim"
    n: int = 3
    max_tokens: int = 64
    temperature: float = 0.0
    top_p: float = 1.0
    with_original: bool = True
    on_empty: str = "original"

    def __post_init__(self) -> None:
        self.outside = self.engine.outside  # type: ignore[misc]
        self.prompt = prompt_file(self.prompt)
        if self.n < 1:
            raise ClaimflowError(f"query.n is {self.n}: give 1 or more, or set query=claim.")
        if self.per not in ("claim", "question"):
            raise ClaimflowError(f"query.per is {self.per}: choose claim or question.")
        if self.per == "question" and "{question}" not in self.prompt.read_text(encoding="utf-8"):
            raise ClaimflowError(
                f"{self.prompt} has no {{question}}: every question would get the same queries."
            )
        if self.on_empty not in ("original", "fail"):
            raise ClaimflowError(f"query.on_empty is {self.on_empty}: choose original or fail.")

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        return self.temperature > 0

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        """What the replies give for a claim or question, besides `original`."""
        raise NotImplementedError

    def samples(self) -> int:
        """How many replies are asked for; greedy ones would all be the same."""
        return self.n if self.sampled and self.temperature > 0 else 1

    def values(self, sample: int) -> dict[str, str]:
        """What else the prompt takes for a sample."""
        return {}

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked = [(case, original) for case in cases for original in self._originals(case)]
        requests = [
            self._request(case, original, sample, ctx)
            for case, original in asked
            for sample in range(self.samples())
        ]
        replies = iter(self.engine.generate(requests, ctx))
        for case in cases:
            case.queries = []
        for case, original in asked:
            mine = [next(replies) for _ in range(self.samples())]
            found = self.queries(original, [reply for reply in mine if not reply.error])
            error = next((reply.error for reply in mine if reply.error), None)
            if error:
                case.failed = error
            elif not found and self.on_empty == "fail":
                case.failed = f"no query in the model's reply {mine[0].text[:80]!r}"
            elif not found:
                remark = f"searched by claim or question, as the model wrote no {self.kind}"
                case.remarks = distinct([*case.remarks, remark])
            if self.with_original or not found:
                case.queries.append(original)
            case.queries += found
        return cases

    def _originals(self, case: Case) -> list[Query]:
        if self.per == "question" and case.questions:
            return [Query(text=q, kind="question", question=q) for q in case.questions]
        return [Query(text=case.claim.text)]

    def _request(self, case: Case, original: Query, sample: int, ctx: Context) -> Request:
        prompt = filled(
            self.prompt,
            claim=case.claim.text.strip(),
            question=original.text.strip(),
            n=str(self.n),
            speaker=case.claim.speaker or "unknown",
            date=str(case.claim.date or "unknown"),
            **self.values(sample),
        )
        return Request(
            prompt=prompt,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=ctx.seed_for("queries", str(sample)) if self.temperature > 0 else 0,
            stop=list(self.stop),
        )


@dataclasses.dataclass(kw_only=True)
class Hyde(WrittenQueries):
    """Hypothetical passages (Gao et al. 2023): `n` samples of what a fact-checking article might
    say (HerO, AVeriTeC 2024: 8 at temperature .7, of at most 512 tokens).

    Search them with `together=true`: BM25 by all texts as one, dense by their mean vector.

    stances: what the passages find the claim to be, in turn; it stands for {stance} in the prompt.
    """

    sampled: ClassVar = True
    kind: str = "hyde"
    n: int = 8
    temperature: float = 0.7
    stances: list[str] = dataclasses.field(default_factory=list)

    def values(self, sample: int) -> dict[str, str]:
        return {"stance": self.stances[sample % len(self.stances)]} if self.stances else {}

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        texts = distinct(" ".join(reply.text.split()) for reply in replies)
        return [
            Query(text=text, kind=self.kind, question=original.question) for text in texts if text
        ]


@dataclasses.dataclass(kw_only=True)
class Rewrites(WrittenQueries):
    """The lines of one reply, each a query: other wordings (OldJoe's multi-query, RAG-Fusion of
    Rackauckas 2024) or sub-claims (KnowComp), as the prompt asks.

    literal: put after claim or question, as one more query (OldJoe: "fact check"). None: no such.
    """

    literal: str | None = None

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        texts = [line for reply in replies for line in lines(reply.text)]
        texts = [text for text in distinct(texts) if text.casefold() != original.text.casefold()]
        texts = texts[: self.n]
        if self.literal and texts:
            texts.append(f"{original.text} {self.literal}")
        return [Query(text=text, kind=self.kind, question=original.question) for text in texts]


@dataclasses.dataclass(kw_only=True)
class Hypotheses(WrittenQueries):
    """Questions with the answers that a source might give, each pair a query for its question
    (SANCTUARY, AVeriTeC 2025: 5 to 10; FATHOM: 5).

    The reply is lines `Question: …` and `Answer: …`; the prompt ends with `Question:`.
    """

    kind: str = "qa_hypothesis"
    n: int = 5
    with_original: bool = False

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        found: dict[str, str] = {}
        for reply in replies:
            for question, answer in pairs(f"Question: {reply.text}"):
                found.setdefault(question, answer)
        return [
            Query(text=f"{question} {answer}", kind=self.kind, question=question)
            for question, answer in list(found.items())[: self.n]
        ]


@dataclasses.dataclass(kw_only=True)
class SyntheticAnswers(WrittenQueries):
    """Each question with the answer that the model gives without looking, as one query (FATHOM,
    SANCTUARY, AVeriTeC 2025); `n` samples of it where the temperature is above 0."""

    sampled: ClassVar = True
    kind: str = "synthetic_answer"
    per: str = "question"
    n: int = 1
    with_original: bool = False

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        answers = [" ".join(reply.text.split()) for reply in replies]
        return [
            Query(text=f"{original.text} {answer}", kind=self.kind, question=original.question)
            for answer in answers
            if answer
        ]


def distinct(texts: Iterable[str]) -> list[str]:
    """The first of equal texts, in their order; case doesn't count."""
    found: dict[str, str] = {}
    for text in texts:
        found.setdefault(text.casefold(), text)
    return list(found.values())


def lines(reply: str) -> list[str]:
    """The lines of a reply that hold a letter, without bullets, numbers and quotes around."""
    found = []
    for line in reply.splitlines():
        text = " ".join(line.split())
        while marker := MARKER.match(text):
            text = text[marker.end() :]
        text = text.strip(" \"'“”*_")
        if any(char.isalpha() for char in text):
            found.append(text)
    return found


_PAIR = re.compile(
    r"(?:Question|Q)\s*\d*\s*:\s*(?P<question>[^\n]*\S)\s*\n+\s*(?:Answer|A)\s*\d*\s*:\s*(?P<answer>[^\n]*\S)"
)


def pairs(reply: str) -> list[tuple[str, str]]:
    """(question, answer) of each `Question:` line that an `Answer:` line follows."""
    return [(found["question"], found["answer"]) for found in _PAIR.finditer(reply)]
