"""Answers to questions from the passages found for them."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import ClassVar

from components.datasets.submission import NO_ANSWER
from components.errors import ClaimflowError
from components.records import Case, Evidence, Hit, Passage
from components.retrieve.search import per_query
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class PassageAnswers(Step):
    """The passages found for a question are its answers, word for word.

    Questions take turns: each gets its best passage, then each its second, and so on, until
    `limit` pairs are there (AVeriTeC counts 10). per_question: pairs of one question at most;
    None: as many as `limit` leaves. No text is used twice for a claim; a question whose passage
    is gone takes its next. Several queries of one question take turns in the same way.

    question: what stands for the question of a query that has none (query=claim); `{claim}` in it
    is the claim's text.
    copy_ratio: a passage that says nothing but the claim is no evidence: it is left out when it
    contains the claim and the claim makes up more than this share of its length (HerO: .92; upper
    case and punctuation don't count). None: copies stay.
    A claim for which nothing was found has no evidence; what that means is up to the verdict.
    """

    reads: ClassVar = ("claim", "queries", "hits", "passages")
    writes: ClassVar = ("evidence",)
    limit: int = 10
    per_question: int | None = None
    question: str = "What is known about this: {claim}"
    copy_ratio: float | None = 0.92

    def __post_init__(self) -> None:
        for name in ("limit", "per_question"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ClaimflowError(f"PassageAnswers needs a {name} of at least 1, not {value}.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.evidence = self._evidence(case)
        return cases

    def _evidence(self, case: Case) -> list[Evidence]:
        passages = {passage.id: passage for passage in case.passages}
        claim = plain(case.claim.text)
        used: set[str] = set()
        evidence: list[Evidence] = []
        turns = {question: iter(hits) for question, hits in self._by_question(case).items()}
        for _ in range(self.per_question or self.limit):
            for question, hits in turns.items():
                if len(evidence) == self.limit:
                    return evidence
                for hit in hits:
                    passage = passages[hit.passage]
                    text = plain(passage.text)
                    if not text or text in used or self._copies(claim, text):
                        continue
                    used.add(text)
                    evidence.append(
                        Evidence(
                            question=question,
                            answer=passage.text,
                            url=passage.url,
                            passages=[passage.id],
                        )
                    )
                    break
        return evidence

    def _by_question(self, case: Case) -> dict[str, list[Hit]]:
        """The hits of each question, best first; those of its several queries alternate."""
        found = per_query(case.hits)
        rankings: dict[str, list[list[Hit]]] = {}
        for number, query in enumerate(case.queries):
            question = query.question or self.question.replace("{claim}", case.claim.text)
            rankings.setdefault(question, []).append(found.get(number, []))
        return {
            question: [hit for rank in itertools.zip_longest(*lists) for hit in rank if hit]
            for question, lists in rankings.items()
        }

    def _copies(self, claim: str, text: str) -> bool:
        if self.copy_ratio is None:
            return False
        return claim in text and len(claim) > self.copy_ratio * len(text)


@dataclasses.dataclass(kw_only=True)
class ConcatenatedAnswers(Step):
    """The best `k` passages for a question, one behind the other, are its answer (SANCTUARY and
    FATHOM, AVeriTeC 2025: 8).

    limit: pairs a claim. unanswered: a question without passages is "drop"ped, or kept with the
    answer "No answer could be found." ("keep"). The pair's URL is that of its best passage.
    """

    reads: ClassVar = ("queries", "hits", "passages")
    writes: ClassVar = ("evidence",)
    k: int = 8
    limit: int = 10
    unanswered: str = "keep"

    def __post_init__(self) -> None:
        if min(self.k, self.limit) < 1:
            raise ClaimflowError("answerer.k and answerer.limit are 1 or more.")
        if self.unanswered not in ("drop", "keep"):
            raise ClaimflowError(f"answerer.unanswered is {self.unanswered}: choose drop or keep.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.evidence = []
            for question, passages in passages_of(case, self.k).items():
                if len(case.evidence) == self.limit:
                    break
                if passages:
                    case.evidence.append(
                        Evidence(
                            question=question,
                            answer=" ".join(passage.text for passage in passages),
                            url=passages[0].url,
                            passages=[passage.id for passage in passages],
                        )
                    )
                elif self.unanswered == "keep":
                    case.evidence.append(Evidence(question=question, answer=NO_ANSWER))
        return cases


def passages_of(case: Case, k: int) -> dict[str, list[Passage]]:
    """The best `k` passages for each question, each once; a claim's own query asks nothing."""
    by_id = {passage.id: passage for passage in case.passages}
    hits = per_query(case.hits)
    found: dict[str, dict[str, Passage]] = {}
    for number, query in enumerate(case.queries):
        if query.question:
            passages = found.setdefault(query.question, {})
            for hit in hits.get(number, []):
                if len(passages) < k:
                    passages.setdefault(hit.passage, by_id[hit.passage])
    return {question: list(passages.values()) for question, passages in found.items()}


def plain(text: str) -> str:
    """The words of `text` in lower case, with one space between: what texts are compared by."""
    return " ".join(re.findall(r"\w+", text.casefold()))
