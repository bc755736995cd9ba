"""Okapi BM25 with a floor under negative idf, as rank_bm25 has it, at the speed of bm25s."""

from __future__ import annotations

import dataclasses
from typing import Any

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
