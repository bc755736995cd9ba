"""Near-duplicate pages: reprints, mirrors, print views."""

from __future__ import annotations

import collections
import dataclasses
import zlib
from typing import TYPE_CHECKING, ClassVar

from components.errors import ClaimflowError
from components.records import Case, Document
from components.step import Context, Step
from components.text import terms

if TYPE_CHECKING:
    import numpy as np

DUPLICATE = "near-duplicate of another page"
BINS = 128  # values of a signature
ROWS = 4  # of them in a band


@dataclasses.dataclass(kw_only=True)
class NearDuplicates(Step):
    """Keeps the first of pages whose text is nearly the same; counts the others in `dropped`.

    Pages are compared as sets of `shingle` words in a row. MinHash with one permutation (Li, Owen
    and Zhang 2012; empty bins filled by rotation, Shrivastava and Li 2014) and bands finds pairs
    that may be alike; those of a Jaccard index of `threshold` or more are. At .8 a pair escapes
    the bands once in 10 million times, at .5 once in eight.
    """

    reads: ClassVar = ("documents", "dropped")
    writes: ClassVar = ("documents", "dropped")

    threshold: float = 0.8
    shingle: int = 5

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1 or self.shingle < 1:
            raise ClaimflowError(
                f"duplicates.threshold={self.threshold} must be above 0 and 1 at most, "
                f"shingle={self.shingle} 1 or more."
            )

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            kept = self.first_of_each(case.documents)
            if repeated := len(case.documents) - len(kept):
                before = case.dropped.get(DUPLICATE, 0)
                case.dropped = {**case.dropped, DUPLICATE: before + repeated}
            case.documents = kept
        return cases

    def first_of_each(self, documents: list[Document]) -> list[Document]:
        """`documents` without those that nearly repeat an earlier one. Without text none does."""
        words = terms(
            [" ".join(document.sentences) for document in documents], stopwords=None, stemmer=None
        )
        kept: list[Document] = []
        sets: list[np.ndarray] = []
        buckets: dict[tuple[int, bytes], list[int]] = collections.defaultdict(list)
        for document, text in zip(documents, words, strict=True):
            found = shingles(text, self.shingle)
            if found.size:
                mark = signature(found)
                bands = [(i, mark[i : i + ROWS].tobytes()) for i in range(0, BINS, ROWS)]
                near = {number for band in bands for number in buckets[band]}
                if any(jaccard(found, sets[number]) >= self.threshold for number in near):
                    continue
                for band in bands:
                    buckets[band].append(len(sets))
                sets.append(found)
            kept.append(document)
        return kept


def shingles(words: list[str], size: int) -> np.ndarray:
    """Distinct 64-bit hashes of each `size` words in a row, ascending. A shorter text is one."""
    import numpy as np

    if not words:
        return np.empty(0, np.uint64)
    known = {word: zlib.crc32(word.encode()) for word in set(words)}
    codes = np.fromiter(map(known.__getitem__, words), np.uint64, len(words))
    size = min(size, len(words))
    mixed = np.zeros(len(words) - size + 1, np.uint64)
    for i in range(size):
        mixed = _mix(mixed + codes[i : len(codes) - size + 1 + i])
    return np.unique(mixed)


def _mix(values: np.ndarray) -> np.ndarray:
    """A permutation of 64-bit numbers that leaves no pattern (the finaliser of splitmix64)."""
    import numpy as np

    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def signature(hashes: np.ndarray) -> np.ndarray:
    """The least hash in each of BINS equal ranges; an empty one takes the next, and its distance.

    `hashes` are ascending and not empty.
    """
    import numpy as np

    width = np.uint64(2**64 // BINS)
    edges = np.arange(BINS, dtype=np.uint64) * width
    first = np.searchsorted(hashes, edges)
    full = np.append(first[1:], len(hashes)) > first
    filled = np.flatnonzero(full)
    at = np.searchsorted(filled, np.arange(BINS))  # the next full bin, round the end
    source = filled[at % len(filled)]
    distance = (source - np.arange(BINS)) % BINS
    within = hashes[first[source]] - edges[source]
    return within + distance.astype(np.uint64) * width


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """Shared of all distinct values of two ascending arrays."""
    import numpy as np

    shared = np.intersect1d(one, other, assume_unique=True).size
    return float(shared / (one.size + other.size - shared))
