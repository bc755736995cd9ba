"""Look-up of documents by their titles."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Hit
from components.retrieve.search import USUAL_K, Ranker, put_hits
from components.step import Context
from components.text import check_terms, terms


@dataclasses.dataclass(kw_only=True)
class TitleLookup(Ranker):
    """Passages of the documents whose title stands in the query (FEVER 2018: UNC-NLP, UCLMR and
    Athene find pages so).

    match: "phrase" (the title's words in a row) or "words" (all of them somewhere: Athene). The
    score is the number of words in the title, so that a longer one, which says more, stands first;
    of equals the order of the store. What stands in brackets at the end of a title ("Heat (film)")
    doesn't count. stemmer: see `components.text.terms`. k: hits a query, at most.
    per_document: passages of one document, at most, the first ones. Documents without a title are
    never found.
    """

    reads: ClassVar = ("queries", "passages", "documents")
    match: str = "phrase"
    stemmer: str | None = "porter"
    per_document: int | None = None
    k: int = USUAL_K

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.match not in ("phrase", "words"):
            raise ClaimflowError(f"No match '{self.match}': choose phrase or words.")
        if self.per_document is not None and self.per_document < 1:
            raise ClaimflowError("TitleLookup needs at least 1 passage per_document, or null.")
        check_terms(None, self.stemmer)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            titled = [document for document in case.documents if document.title]
            titles = terms([_bare(document.title or "") for document in titled], None, self.stemmer)
            found = []
            queries = terms([query.text for query in case.queries], None, self.stemmer)
            for number, query in enumerate(queries):
                scores = {
                    document.id: float(len(title))
                    for document, title in zip(titled, titles, strict=True)
                    if title and self._stands_in(title, query)
                }
                found += self._hits(case, scores, number)
            put_hits(case, self.into, found)
        return cases

    def _stands_in(self, title: list[str], query: list[str]) -> bool:
        if self.match == "words":
            return set(title) <= set(query)
        return any(
            query[at : at + len(title)] == title for at in range(len(query) - len(title) + 1)
        )

    def _hits(self, case: Case, scores: dict[str, float], query: int) -> list[Hit]:
        taken: Counter[str] = Counter()
        hits = []
        for passage in case.passages:
            limit = self.per_document
            if passage.doc in scores and (limit is None or taken[passage.doc] < limit):
                taken[passage.doc] += 1
                score = scores[passage.doc]
                hits.append(Hit(passage=passage.id, doc=passage.doc, score=score, query=query))
        return sorted(hits, key=lambda hit: -hit.score)[: self.k]


def _bare(title: str) -> str:
    return re.sub(r"\s*\([^()]*\)\s*$", "", title)
