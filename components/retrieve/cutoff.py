"""Searching only a part of a store, as published systems do because the rest takes too long."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case
from components.retrieve.search import Search
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class PrefixCutoff(Step):
    """Only `n` passages of a store are searched, in its order; what lies behind is never found.

    by: None takes the first (store order: EFC the first 1,500 chunks, the AVeriTeC 2025 baseline
    5,000 sentences). A retriever takes those that it scores highest for all of the claim's queries
    as one text, and of those that it does not find the first (score order: CTU AIC keeps 4,000
    chunks, HerO 10,000 sentences, by BM25).
    """

    writes: ClassVar = ("passages",)
    n: int = 5000
    by: Search | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ClaimflowError(f"cutoff.n is {self.n}: give 1 or more passages.")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("passages", "queries") if self.by else ("passages",)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            if self.by and len(case.passages) > self.n:
                best = self._best(self.by, case, ctx)
                case.passages = [case.passages[i] for i in sorted(best)]
            else:
                case.passages = case.passages[: self.n]
        return cases

    def _best(self, by: Search, case: Case, ctx: Context) -> list[int]:
        import numpy as np

        index = by.index("", [passage.text for passage in case.passages], ctx)
        found = list(by.joint_scores(index, [[query.text for query in case.queries]], ctx))
        scores = np.round(found[0], 6) if found else np.zeros(len(case.passages))
        best: list[int] = np.argsort(-scores, kind="stable")[: self.n].tolist()
        return best
