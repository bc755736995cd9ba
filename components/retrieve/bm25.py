"""BM25 as the package bm25s scores it, to the last bit; the index is ours, since theirs holds a
store as Python objects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import ClaimflowError
from components.numbers import check_number
from components.retrieve.search import Search
from components.step import Context
from components.text import Analysis, Words, analyse, check_terms

if TYPE_CHECKING:
    import numpy as np

    from components.retrieve.postings import Postings, Weighted

# An index that takes longer to build than to read, in characters of text, is kept in the cache:
# one claim's store is not, a corpus is.
KEPT = 50_000_000

_METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


@dataclasses.dataclass(kw_only=True)
class Bm25(Search):
    """Base of BM25: all passages that share a term with the query are scored."""

    k1: float
    b: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "k1", 0)
        check_number(self, "b", 0, 1)

    def analysis(self) -> Analysis:
        """How passages and queries become terms."""
        raise NotImplementedError

    def weigh(self, postings: Postings) -> Weighted:
        """What each posting adds to a score."""
        raise NotImplementedError

    def index(self, store: str, texts: list[str], ctx: Context) -> Weighted:
        from components.retrieve.postings import Postings, Weighted

        def build() -> Weighted:
            return self.weigh(Postings.of(texts, self.analysis()))

        def write(folder: Path) -> None:
            build().save(folder)

        if sum(map(len, texts)) < KEPT:
            return build()
        return Weighted.load(Path(ctx.cache.artifact(self.index_key(store), write).path))

    def scores(self, index: Weighted, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        for query in analyse(queries, self.analysis()):
            yield index.scores(query)


@dataclasses.dataclass(kw_only=True)
class Bm25s(Bm25):
    """BM25 as the package bm25s has it (Lù 2024), scored for every term and passage beforehand.

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
        check_number(self, "delta", 0)
        check_terms(self.stopwords, self.stemmer)

    def analysis(self) -> Analysis:
        return Words(self.stopwords, self.stemmer)

    def weigh(self, postings: Postings) -> Weighted:
        import numpy as np

        from components.retrieve.postings import Weighted

        single = np.float32
        n = len(postings.lengths)
        mean = postings.lengths.mean() if n else 0.0
        idf = per_frequency(lambda df: self._idf(df, n), postings.frequency)
        weights = np.empty(len(postings.docs), single)
        bounded = self.method in ("bm25l", "bm25+")
        absent = (idf * self._absent()).astype(single) if bounded else None
        length = 1 - self.b + self.b * postings.lengths / (mean or 1)
        idf = idf.astype(single)
        for first in range(0, len(weights), _SLICE):
            here = slice(first, first + _SLICE)
            term = np.searchsorted(
                postings.start, np.arange(first, min(first + _SLICE, len(weights))), side="right"
            )
            part = self._part(postings.count[here].astype(single), length[postings.docs[here]])
            value = idf[term - 1] * part
            weights[here] = value if absent is None else value - absent[term - 1]
        return Weighted(
            terms=postings.terms,
            start=postings.start,
            docs=postings.docs,
            weights=weights,
            passages=n,
            absent=absent,
        )

    def _idf(self, df: int, n: int) -> float:
        match self.method:
            case "lucene":
                return math.log(1 + (n - df + 0.5) / (df + 0.5))
            case "robertson":
                return math.log(max(1, (n - df + 0.5) / (df + 0.5)))
            case "atire":
                return math.log(n / df)
            case "bm25l":
                return math.log((n + 1) / (df + 0.5))
            case _:
                return math.log((n + 1) / df)

    def _absent(self) -> float:
        """What bm25l or bm25+ gives where the term isn't, in a text of mean length; with k1 = 0 the
        limit of its formula, which divides 0 by 0."""
        if self.method == "bm25+" or not self.delta:
            return self.delta
        return ((self.k1 + 1) * self.delta) / (self.k1 + self.delta)

    def _part(self, count: np.ndarray, length: np.ndarray) -> np.ndarray:
        """What term counts, of 1 or more, give in texts of these lengths, 1 standing for the
        mean."""
        k1 = self.k1
        match self.method:
            case "lucene" | "robertson":
                return count / (k1 * length + count)
            case "atire":
                return (count * (k1 + 1)) / (count + k1 * length)
            case "bm25l":
                scaled = count / length
                return ((k1 + 1) * (scaled + self.delta)) / (k1 + scaled + self.delta)
            case _:
                return ((k1 + 1) * count) / (k1 * length + count) + self.delta


_SLICE = 4_000_000  # postings weighed at a time


def per_frequency(idf: Callable[[int], float], frequency: np.ndarray) -> np.ndarray:
    """(terms) the idf of each, by Python's log, which need not be NumPy's in the last bit."""
    import numpy as np

    distinct, which = np.unique(frequency, return_inverse=True)
    return np.array([idf(int(df)) for df in distinct], np.float64)[which]
