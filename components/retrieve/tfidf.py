"""TF-IDF retrieval by scikit-learn."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.retrieve.search import Search
from components.step import Context
from components.text import check_terms, terms

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class Tfidf(Search):
    """Cosine of TF-IDF vectors, with scikit-learn's smoothed idf.

    sublinear: 1 + log(tf) instead of tf. stopwords, stemmer: see `components.text.terms`.
    """

    sublinear: bool = True
    stopwords: str | None = "english"
    stemmer: str | None = "porter"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_terms(self.stopwords, self.stemmer)

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        corpus = terms(texts, self.stopwords, self.stemmer)
        if not any(corpus):
            return None
        vectorizer = TfidfVectorizer(analyzer=_as_it_is, sublinear_tf=self.sublinear)
        return vectorizer, vectorizer.fit_transform(corpus)

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        if index is None:
            return
        vectorizer, matrix = index
        for query in terms(queries, self.stopwords, self.stemmer):
            scores = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
            yield np.where(scores > 0, scores, -np.inf)


def _as_it_is(tokens: list[str]) -> list[str]:
    return tokens
