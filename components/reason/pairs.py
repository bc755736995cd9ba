"""Steps on the pairs of question and answer that a claim has: which stay, and in what words."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import ClassVar

from components.errors import ClaimflowError
from components.reason.answers import plain
from components.reason.llm_answers import UNANSWERED
from components.reason.prompted import Prompted
from components.records import Case, Hit, Passage, Query
from components.retrieve.rerank import Rerank
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class RewrittenAnswers(Prompted):
    """Each answer put by the model so that it answers its question; where it says none, as the
    text holds no answer, the pair is dropped with a remark (HerO 2, AVeriTeC 2025).

    prompt: with {question} and {answer}. characters: of the answer in it.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("evidence", "remarks")
    least: ClassVar = {"characters": 1}

    prompt: Path = Path("rewrite.txt")
    max_tokens: int = 96
    characters: int = 4000

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        held = [(case, pair) for case in cases for pair in case.evidence]
        requests = [
            self.ask(
                case.claim,
                {"question": pair.question, "answer": pair.answer[: self.characters]},
            )
            for case, pair in held
        ]
        for case in cases:
            case.evidence, case.remarks = [], list(case.remarks)
        replies = self.engine.generate(requests, ctx)
        for (case, pair), reply in zip(held, replies, strict=True):
            answer = " ".join(reply.text.split())
            if reply.error:
                case.failed = reply.error
            elif plain(answer) not in ("", "none"):
                pair.answer = answer
                case.evidence.append(pair)
            elif UNANSWERED not in case.remarks:
                case.remarks.append(UNANSWERED)
        return cases


@dataclasses.dataclass(kw_only=True)
class BestPairs(Step):
    """Only the `k` pairs that fit the claim best, best first; each is compared with the claim as
    one text of question and answer (UHH and SK_DU, AVeriTeC 2024).

    by: what compares them, a re-ranker of passages. Equal ones stand in the order that they had.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("evidence",)
    by: Rerank
    k: int = 3

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ClaimflowError(f"BestPairs needs a k of at least 1, not {self.k}.")
        fetch = max(self.by.fetch, self.k)
        self.by = dataclasses.replace(self.by, into="hits", fetch=fetch, k=fetch)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        asked = []
        for case in cases:
            texts = [f"{pair.question} {pair.answer}" for pair in case.evidence]
            names = [str(i) for i in range(len(texts))]
            asked.append(
                Case(
                    claim=case.claim,
                    queries=[Query(text=case.claim.text)],
                    passages=[
                        Passage(id=name, doc=name, text=text)
                        for name, text in zip(names, texts, strict=True)
                    ],
                    hits=[Hit(passage=name, doc=name, score=0.0) for name in names],
                )
            )
        for case, ranked in zip(cases, self.by.run(asked, ctx), strict=True):
            case.evidence = [case.evidence[int(hit.passage)] for hit in ranked.hits[: self.k]]
        return cases


@dataclasses.dataclass(kw_only=True)
class Repeated(Step):
    """Pairs begin again from the first until there are `to` (Papelo, AVeriTeC 2024: 10), which
    raises the scores of AVeriTeC, as only what is missing costs. None stay none."""

    reads: ClassVar = ("evidence",)
    writes: ClassVar = ("evidence",)
    to: int = 10

    def __post_init__(self) -> None:
        if self.to < 1:
            raise ClaimflowError(f"Repeated.to is {self.to}: give 1 or more.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            missing = max(0, self.to - len(case.evidence))
            again = itertools.islice(itertools.cycle(case.evidence), missing)
            case.evidence = [*case.evidence, *again]
        return cases
