"""Search queries that a language model writes."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from components.engines.base import Reply, Request
from components.errors import ClaimflowError
from components.numbers import check_number
from components.reason.prompted import Prompted
from components.reason.questions import lines, unique
from components.records import Case, Query
from components.step import Context


@dataclasses.dataclass(kw_only=True)
class WrittenQueries(Prompted):
    """Base of queries that a language model writes, for each claim or for each of its questions.

    prompt: with {question} and {n}, if wanted. per: "claim", or "question" (a claim without
    questions stands for one). n: of what is written, at most. temperature: 0 is greedy.
    with_original: claim or question is the first query. on_empty: what is searched where a reply
    has nothing of use: "original" (claim or question, with a remark) or "fail" (the claim fails).
    """

    reads: ClassVar = ("claim", "questions", "remarks")
    writes: ClassVar = ("queries", "remarks")
    stop: ClassVar = ("\n\n", "\nClaim:")
    sampled: ClassVar = False  # is each of the `n` a reply of its own?

    slot: ClassVar = "query"
    least: ClassVar = {"n": 1}
    choices: ClassVar = {"per": ("claim", "question"), "on_empty": ("original", "fail")}

    kind: str
    chat: bool = False
    per: str = "claim"
    n: int = 3
    temperature: float = 0.0
    top_p: float = 1.0
    with_original: bool = True
    on_empty: str = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "temperature", 0)
        check_number(self, "top_p", 0, 1)
        if self.per == "question" and "{question}" not in self.prompt.read_text(encoding="utf-8"):
            raise ClaimflowError(
                f"{self.prompt} has no {{question}}: every question would get the same queries."
            )

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
                case.remarks = unique([*case.remarks, remark])
            if self.with_original or not found:
                case.queries.append(original)
            case.queries += found
        return cases

    def _originals(self, case: Case) -> list[Query]:
        if self.per == "question" and case.questions:
            return [Query(text=q, kind="question", question=q) for q in case.questions]
        return [Query(text=case.claim.text)]

    def _request(self, case: Case, original: Query, sample: int, ctx: Context) -> Request:
        return self.ask(
            case.claim,
            {"question": original.text.strip(), "n": str(self.n), **self.values(sample)},
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stances and "{stance}" not in self.prompt.read_text(encoding="utf-8"):
            raise ClaimflowError(
                f"{self.prompt} has no {{stance}}: query.stances would change nothing."
            )

    def values(self, sample: int) -> dict[str, str]:
        return {"stance": self.stances[sample % len(self.stances)]} if self.stances else {}

    def queries(self, original: Query, replies: list[Reply]) -> list[Query]:
        texts = unique(" ".join(reply.text.split()) for reply in replies)
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
        texts = [text for text in unique(texts) if text.casefold() != original.text.casefold()]
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


_PAIR = re.compile(
    r"(?:Question|Q)\s*\d*\s*:\s*(?P<question>[^\n]*\S)\s*\n+\s*(?:Answer|A)\s*\d*\s*:\s*(?P<answer>[^\n]*\S)"
)


def pairs(reply: str) -> list[tuple[str, str]]:
    """(question, answer) of each `Question:` line that an `Answer:` line follows."""
    return [(found["question"], found["answer"]) for found in _PAIR.finditer(reply)]
