"""TF-IDF over hashed word pairs, as DrQA finds pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
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

        counts = self._counts(texts).tocsc()
        df = np.diff(counts.indptr)
        idf = np.maximum(np.log((len(texts) - df + 0.5) / (df + 0.5)), 0)
        counts.data = np.log1p(counts.data) * np.repeat(idf, df)
        counts.eliminate_zeros()
        return counts, idf

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        weights, idf = index
        asked = self._counts(queries)
        asked.data = np.log1p(asked.data) * idf[asked.indices]
        found = (weights @ asked.T).T.tocsr()  # (queries, passages)
        for row in range(len(queries)):
            scores = np.asarray(found[[row]].todense()).ravel()
            yield np.where(scores > 0, scores, -np.inf)

    def _counts(self, texts: list[str]) -> Any:
        """How often each hash stands in each text: a sparse matrix (texts, 2 ** bits)."""
        from bm25s.stopwords import STOPWORDS_EN
        from scipy.sparse import csr_matrix
        from sklearn.utils import murmurhash3_32

        stop, known = frozenset(STOPWORDS_EN), dict[str, int]()
        columns: list[int] = []
        ends = [0]
        for words in terms(texts, None, None):
            for size in range(1, self.length + 1):
                for at in range(len(words) - size + 1):
                    part = words[at : at + size]
                    if stop.isdisjoint(part):
                        gram = " ".join(part)
                        if gram not in known:
                            known[gram] = murmurhash3_32(gram, positive=True) % 2**self.bits
                        columns.append(known[gram])
            ends.append(len(columns))
        counts = csr_matrix(([1.0] * len(columns), columns, ends), shape=(len(texts), 2**self.bits))
        counts.sum_duplicates()
        return counts
