"""Look-up of documents by their titles."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import ClassVar

from components.cache import key_of
from components.errors import ClaimflowError
from components.records import Case, Hit
from components.retrieve.search import USUAL_K, Ranker, put_hits, recent
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
            queries = terms([query.text for query in case.queries], None, self.stemmer)
            found = []
            for number, query in enumerate(queries):
                words = set(query)
                scores = {
                    document: float(len(title))
                    for document, title in self._titles(case, ctx)
                    if words.issuperset(title) and (self.match == "words" or _run(title, query))
                }
                found += self._hits(case, scores, number)
            put_hits(case, self.into, found)
        return cases

    def _titles(self, case: Case, ctx: Context) -> list[tuple[str, list[str]]]:
        """The id of each document that has a title, and the title's terms."""

        def make() -> list[tuple[str, list[str]]]:
            titled = [(d.id, _bare(d.title)) for d in case.documents if d.title]
            stems = terms([title for _, title in titled], None, self.stemmer)
            pairs = zip(titled, stems, strict=True)
            return [(name, title) for (name, _), title in pairs if title]

        store = case.digests.get("documents")
        if store is None:
            return make()
        found: list[tuple[str, list[str]]] = recent(ctx).get(
            key_of(__name__, self.stemmer, store), make
        )
        return found

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


def _run(title: list[str], query: list[str]) -> bool:
    """Do the words of the title stand in a row in the query?"""
    return any(query[at : at + len(title)] == title for at in range(len(query) - len(title) + 1))


def _bare(title: str) -> str:
    return re.sub(r"\s*\([^()]*\)\s*$", "", title)
