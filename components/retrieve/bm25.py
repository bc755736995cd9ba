"""BM25 as two packages score it: rank_bm25, which published systems use, and bm25s.

Scores are theirs to the last bit (single precision for bm25s, double for rank_bm25); the index is
ours, since theirs hold a store as Python objects.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.cache import key_of
from components.errors import ClaimflowError
from components.retrieve.search import Search
from components.step import Context, code_version
from components.text import Analysis, NltkWords, SpaceWords, Words, analyse, check_terms

if TYPE_CHECKING:
    import numpy as np

    from components.retrieve.postings import Postings, Weighted

# An index that takes longer to build than to read, in characters of text, is kept in the cache:
# one claim's store is not, a corpus is.
KEPT = 50_000_000

_TOKENS: dict[str, Analysis] = {"nltk": NltkWords(), "whitespace": SpaceWords()}
_METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


@dataclasses.dataclass(kw_only=True)
class Bm25(Search):
    """Base of BM25: all passages that share a term with the query are scored."""

    k1: float
    b: float

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
        key = key_of(code_version(__name__), self._index_key(store))
        return Weighted.load(Path(ctx.cache.artifact(key, write).path))

    def scores(self, index: Weighted, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        for query in analyse(queries, self.analysis()):
            yield index.scores(query)


@dataclasses.dataclass(kw_only=True)
class RankBm25(Bm25):
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

    def analysis(self) -> Analysis:
        return _Lowered(_TOKENS[self.tokens]) if self.lower else _TOKENS[self.tokens]

    def weigh(self, postings: Postings) -> Weighted:
        import numpy as np

        from components.retrieve.postings import Weighted

        passages = len(postings.lengths)
        idf = _per_frequency(
            lambda df: math.log(passages - df + 0.5) - math.log(df + 0.5), postings.frequency
        )
        if len(idf):
            # Added up term by term, as the package does: NumPy's sum rounds otherwise.
            idf[idf < 0] = self.epsilon * (np.cumsum(idf)[-1] / len(idf))
        mean = postings.lengths.sum() / max(1, passages)
        length = self.k1 * (1 - self.b + self.b * postings.lengths / (mean or 1))
        parts = postings.count * (self.k1 + 1) / (postings.count + length[postings.docs])
        return Weighted(
            terms=postings.terms,
            start=postings.start,
            docs=postings.docs,
            weights=np.repeat(idf, postings.frequency) * parts,
            passages=passages,
        )


@dataclasses.dataclass(frozen=True)
class _Lowered:
    tokens: Analysis

    def pieces(self, texts: Iterable[str]) -> tuple[list[str], list[int]]:
        return self.tokens.pieces(text.lower() for text in texts)

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        return self.tokens.terms(pieces)


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
        check_terms(self.stopwords, self.stemmer)

    def analysis(self) -> Analysis:
        return Words(self.stopwords, self.stemmer)

    def weigh(self, postings: Postings) -> Weighted:
        import numpy as np

        from components.retrieve.postings import Weighted

        single = np.float32
        n = len(postings.lengths)
        mean = postings.lengths.mean() if n else 0.0
        idf = _per_frequency(lambda df: self._idf(df, n), postings.frequency)
        weights = np.empty(len(postings.docs), single)
        absent = None
        if self.method in ("bm25l", "bm25+"):
            without = self._part(np.zeros(1, single), np.ones(1)) if len(idf) else np.zeros(1)
            absent = (idf * without[0]).astype(single)
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

    def _part(self, count: np.ndarray, length: np.ndarray) -> np.ndarray:
        """What term counts give in texts of these lengths, 1 standing for the mean."""
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


def _per_frequency(idf: Callable[[int], float], frequency: np.ndarray) -> np.ndarray:
    """(terms) the idf of each, by Python's log, which need not be NumPy's in the last bit."""
    import numpy as np

    distinct, which = np.unique(frequency, return_inverse=True)
    return np.array([idf(int(df)) for df in distinct], np.float64)[which]
