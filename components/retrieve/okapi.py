"""Variants of BM25 as their papers have them, where bm25s has something else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from components.errors import ClaimflowError
from components.numbers import check_number
from components.retrieve.bm25 import Bm25, Bm25s, per_frequency
from components.text import Analysis, NltkWords, SpaceWords, Words, check_terms
from components.words import Pieces

if TYPE_CHECKING:
    from components.retrieve.postings import Postings, Weighted

TOKENS = ("words", "nltk", "whitespace")


@dataclasses.dataclass(kw_only=True)
class Okapi(Bm25):
    """Okapi BM25 (Robertson et al. 1995), with the scores of rank_bm25's BM25Okapi to the last bit.

    The idf log((N − df + .5) / (df + .5)) is negative for terms in over half of the passages; as
    there, such a term gets `epsilon` times the mean idf instead.

    tokens: "words" (those of `components.text.terms`, by `stopwords` and `stemmer`), "nltk"
    (`word_tokenize`) or "whitespace"; the latter two keep their case unless `lower` is set.
    """

    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    tokens: str = "words"
    lower: bool = False
    stopwords: str | None = "english"
    stemmer: str | None = "porter"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "epsilon", 0)
        if self.tokens not in TOKENS:
            raise ClaimflowError(f"No tokens '{self.tokens}': choose {' or '.join(TOKENS)}.")
        check_terms(self.stopwords, self.stemmer)

    def analysis(self) -> Analysis:
        if self.tokens == "words":
            return Words(self.stopwords, self.stemmer)
        plain = NltkWords() if self.tokens == "nltk" else SpaceWords()
        return _Lowered(plain) if self.lower else plain

    def weigh(self, postings: Postings) -> Weighted:
        import numpy as np

        from components.retrieve.postings import Weighted

        passages = len(postings.lengths)
        idf = per_frequency(
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

    def pieces(self, texts: Iterable[str]) -> Pieces:
        return self.tokens.pieces(text.lower() for text in texts)

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        return self.tokens.terms(pieces)


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

    def weigh(self, postings: Postings) -> Weighted:
        import numpy as np

        found = super().weigh(postings)
        if found.absent is not None:
            # What is kept is the difference to a passage without the term, which is added later.
            weights = found.weights + np.repeat(found.absent, postings.frequency)
            found = dataclasses.replace(found, weights=weights, absent=None)
        return found
