"""Search queries from a claim and its questions."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Query
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class ClaimQuery(Step):
    """One query: the claim."""

    reads: ClassVar = ("claim",)
    writes: ClassVar = ("queries",)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.queries = [Query(text=case.claim.text)]
        return cases


@dataclasses.dataclass(kw_only=True)
class ClaimQuestion(Step):
    """One query for each question.

    with_claim: claim and question, not the question alone (EFC). allow_none: a claim without
    questions is itself the query; else it fails, and where no claim has any the run stops.
    """

    reads: ClassVar = ("claim", "questions")
    writes: ClassVar = ("queries",)
    with_claim: bool = True
    allow_none: bool = False

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            if case.questions:
                prefix = f"{case.claim.text} " if self.with_claim else ""
                kind = "claim_question" if self.with_claim else "question"
                case.queries = [
                    Query(text=prefix + question, kind=kind, question=question)
                    for question in case.questions
                ]
            elif self.allow_none:
                case.queries = [Query(text=case.claim.text)]
            elif "questions" not in case.digests:
                raise ClaimflowError(
                    "Queries are to be made of questions, and no step before makes any: choose "
                    "a questioner, or query=claim."
                )
            else:
                case.failed = "no questions to search with (query.allow_none=true: use the claim)"
        return cases
