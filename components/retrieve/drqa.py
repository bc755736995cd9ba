"""TF-IDF over hashed word pairs, as DrQA finds pages."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.retrieve.search import Search
from components.step import Context
from components.text import terms

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class HashedTfidf(Search):
    """Dot product of unnormalised TF-IDF vectors over words and neighbouring pairs of words, hashed
    by MurmurHash3 (DrQA, Chen et al. 2017, section 3.1; FEVER baseline: 5 pages).

    Weights are log(1 + tf) · idf; idf is log((N − df + .5) / (df + .5)), at least 0, in query and
    passage. Words and pairs that hold one of Lucene's 33 stop-words are left out; DrQA's list is
    longer. length: words in a row, at most. bits: hashes are below 2 to this power.
    """

    length: int = 2
    bits: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length < 1:
            raise ClaimflowError(f"HashedTfidf needs a length of at least 1, not {self.length}.")
        if not 1 <= self.bits <= 30:
            raise ClaimflowError(f"HashedTfidf takes 1 to 30 bits, not {self.bits}.")

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import numpy as np

        hashed = list(self._hashes(texts))
        column = {name: i for i, name in enumerate(sorted(set().union(*hashed)))}
        counts = _matrix(hashed, column).tocsc()
        df = np.diff(counts.indptr)
        idf = np.maximum(np.log((len(texts) - df + 0.5) / (df + 0.5)), 0)
        counts.data = np.log1p(counts.data) * np.repeat(idf, df)
        return counts, idf, column

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        weights, idf, column = index
        asked = _matrix(self._hashes(queries), column)
        asked.data = np.log1p(asked.data) * idf[asked.indices]
        for row in range(len(queries)):
            scores = (weights @ asked[[row]].T).toarray().ravel()
            yield np.where(scores > 0, scores, -np.inf)

    def _hashes(self, texts: list[str]) -> Iterator[Counter[int]]:
        """How often each hash stands in each text."""
        from bm25s.stopwords import STOPWORDS_EN
        from sklearn.utils import murmurhash3_32

        stop = frozenset(STOPWORDS_EN)

        @functools.cache
        def hashed(gram: str) -> int:
            return int(murmurhash3_32(gram, positive=True)) % 2**self.bits

        for words in terms(texts, None, None):
            yield Counter(
                hashed(" ".join(words[at : at + size]))
                for size in range(1, self.length + 1)
                for at in range(len(words) - size + 1)
                if stop.isdisjoint(words[at : at + size])
            )


def _matrix(counts: Iterable[Counter[int]], column: dict[int, int]) -> Any:
    """Counts as a sparse matrix (texts, columns), without hashes that have no column."""
    from scipy.sparse import csr_matrix

    values: list[float] = []
    columns: list[int] = []
    ends = [0]
    for text in counts:
        for name, count in text.items():
            if name in column:
                columns.append(column[name])
                values.append(count)
        ends.append(len(columns))
    return csr_matrix((values, columns, ends), shape=(len(ends) - 1, len(column)), dtype=float)
