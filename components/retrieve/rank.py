"""BM25 by the package rank_bm25, which published systems use."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.numbers import check_number
from components.retrieve.search import Search
from components.step import Context
from components.text import nltk_words, space_words

if TYPE_CHECKING:
    import numpy as np

_TOKENS = {"nltk": nltk_words, "whitespace": space_words}


@dataclasses.dataclass(kw_only=True)
class RankBm25(Search):
    """`BM25Okapi` of the package rank_bm25 (AVeriTeC baseline: NLTK tokens, 100 sentences).

    Terms in more than half of the passages get `epsilon` times the mean idf. Tokens keep their
    case. Unlike the baseline, which looks at the first passages of a store alone, and fills up
    with passages that share no token with the query, this searches all and finds only what shares
    one.

    `components.retrieve.okapi.Okapi` gives the same scores, many times as fast.

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
        if self.k1 == 0:  # the package divides 0 by 0 for each term that a passage lacks
            raise ClaimflowError("k1=0 of RankBm25 is wrong: give more, or take retriever=okapi.")
        check_number(self, "k1", 0)
        check_number(self, "b", 0, 1)
        check_number(self, "epsilon", 0)

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
