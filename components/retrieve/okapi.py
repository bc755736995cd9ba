"""Variants of BM25 as their papers have them, where bm25s has something else, on its engine."""

from __future__ import annotations

import dataclasses
from typing import Any

from components.errors import ClaimflowError
from components.retrieve.bm25 import Bm25s
from components.retrieve.search import Search
from components.step import Context
from components.text import check_terms, terms


@dataclasses.dataclass(kw_only=True)
class Okapi(Bm25s):
    """Okapi BM25 (Robertson et al. 1995) on the terms of `components.text.terms`.

    The idf log((N − df + .5) / (df + .5)) is negative for terms in over half of the passages; as
    in rank_bm25's BM25Okapi, such a term gets `epsilon` times the mean idf instead.
    """

    method: str = dataclasses.field(init=False, default="okapi")
    delta: float = dataclasses.field(init=False, default=0.0)
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25

    def __post_init__(self) -> None:
        Search.__post_init__(self)
        check_terms(self.stopwords, self.stemmer)

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import bm25s
        import numpy as np

        vocabulary: dict[str, int] = {}
        ids = [
            [vocabulary.setdefault(term, len(vocabulary)) for term in text]
            for text in terms(texts, self.stopwords, self.stemmer)
        ]
        if not vocabulary:
            return None
        # ATIRE has Okapi's term frequency; Lucene's idf is never 0, so it can be divided out.
        index = bm25s.BM25(
            k1=self.k1, b=self.b, method="atire", idf_method="lucene", dtype="float64",
            backend="numpy",
        )  # fmt: skip
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        size, df = len(texts), np.diff(index.scores["indptr"])
        idf = np.log(size - df + 0.5) - np.log(df + 0.5)
        okapi = np.where(idf < 0, self.epsilon * idf.mean(), idf)
        lucene = np.log(1 + (size - df + 0.5) / (df + 0.5))
        index.scores["data"] *= np.repeat(okapi / lucene, df)
        return index


@dataclasses.dataclass(kw_only=True)
class LowerBounded(Bm25s):
    """BM25L and BM25+ (Lv and Zhai 2011): a term that is in a passage counts for more than one that
    isn't, however long the passage.

    The sum goes over the query's terms that are in the passage. bm25s and rank_bm25 let `delta`
    count for terms that are not, too; in BM25+ that shifts all scores alike, so that the ranking is
    ATIRE's. method: bm25l or bm25+.
    """

    method: str = "bm25+"
    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("bm25l", "bm25+"):
            raise ClaimflowError(f"'{self.method}' has no lower bound: choose bm25l or bm25+.")

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import numpy as np

        index = super().index(store, texts, ctx)
        if index is not None:
            # What is kept is the difference to a passage without the term, which is added later.
            absent = index.nonoccurrence_array
            index.scores["data"] += np.repeat(absent, np.diff(index.scores["indptr"]))
            index.nonoccurrence_array = np.zeros_like(absent)
        return index
