"""BM25 by two packages: rank_bm25, which published systems use, and bm25s, which is fast."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.retrieve.search import Search
from components.step import Context
from components.text import check_terms, nltk_words, space_words, terms

if TYPE_CHECKING:
    import numpy as np

_TOKENS = {"nltk": nltk_words, "whitespace": space_words}
_METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


@dataclasses.dataclass(kw_only=True)
class RankBm25(Search):
    """`BM25Okapi` of the package rank_bm25 (AVeriTeC baseline: NLTK tokens, 100 sentences).

    Terms in more than half of the passages get `epsilon` times the mean idf. Tokens keep their
    case. Unlike the baseline, which looks at the first passages of a store alone, and fills up
    with passages that share no token with the query, this searches all and finds only what shares
    one.

    tokens: "nltk" (`word_tokenize`) or "whitespace". lower: lower-case the text first.
    """

    tokens: str = "nltk"
    lower: bool = False
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens not in _TOKENS:
            raise ClaimflowError(f"No tokens '{self.tokens}': choose {' or '.join(_TOKENS)}.")

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        from rank_bm25 import BM25Okapi

        corpus = self._tokens(texts)
        # The package divides by the number of distinct terms.
        return (
            BM25Okapi(corpus, k1=self.k1, b=self.b, epsilon=self.epsilon) if any(corpus) else None
        )

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        if index is None:
            return
        for tokens in self._tokens(queries):
            asked = set(tokens)
            found = [not asked.isdisjoint(passage) for passage in index.doc_freqs]
            yield np.where(found, index.get_scores(tokens), -np.inf)

    def _tokens(self, texts: list[str]) -> list[list[str]]:
        return _TOKENS[self.tokens]([text.lower() for text in texts] if self.lower else texts)


@dataclasses.dataclass(kw_only=True)
class Bm25s(Search):
    """BM25 by the package bm25s (Lù 2024), which scores every term and passage beforehand.

    method: lucene, robertson, atire, bm25l or bm25+ (Kamphuis et al. 2020); `delta` counts for
    the last two. k1 .9 and b .4 are Anserini's values. stopwords, stemmer: see
    `components.text.terms`.
    """

    method: str = "lucene"
    k1: float = 0.9
    b: float = 0.4
    delta: float = 0.5
    stopwords: str | None = "english"
    stemmer: str | None = "porter"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in _METHODS:
            raise ClaimflowError(f"No BM25 '{self.method}': choose {', '.join(_METHODS)}.")
        check_terms(self.stopwords, self.stemmer)

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import bm25s

        logging.getLogger("bm25s").setLevel(logging.WARNING)  # the package sets DEBUG
        vocabulary: dict[str, int] = {}
        ids = [
            [vocabulary.setdefault(term, len(vocabulary)) for term in text]
            for text in terms(texts, self.stopwords, self.stemmer)
        ]
        if not vocabulary:
            return None
        index = bm25s.BM25(
            k1=self.k1, b=self.b, delta=self.delta, method=self.method, backend="numpy"
        )
        index.index((ids, vocabulary), create_empty_token=False, show_progress=False)
        return index

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        if index is None:
            return
        starts, passages = index.scores["indptr"], index.scores["indices"]
        for query in terms(queries, self.stopwords, self.stemmer):
            scores = np.full(index.scores["num_docs"], -np.inf)
            ids = index.get_tokens_ids(query)
            if ids:
                found = np.concatenate([passages[starts[i] : starts[i + 1]] for i in ids])
                scores[found] = index.get_scores_from_ids(ids)[found]
            yield scores
