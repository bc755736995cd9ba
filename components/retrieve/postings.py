"""Postings: in which passages each term stands, and how often.

Texts are read block by block, so that only numbers of the whole collection are in memory: a
passage and a term are integers, and the postings of a term lie side by side, by passage. Written to
a folder they are memory-mapped, so that a large index is open at once and takes the memory that
queries touch.
"""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from components.text import Analysis
from components.words import unwatched

Ints: TypeAlias = NDArray[np.integer[Any]]
Floats: TypeAlias = NDArray[np.floating[Any]]

_BLOCK = 10_000  # passages at a time


class Vocabulary:
    """Numbers of terms, from 0, in the order in which they appear first."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.terms: dict[str, int] = {}
        self._pieces = _Numbers()
        self._start = array("q", [0])  # (pieces + 1): where the terms of a piece begin in `_term`
        self._term = array("i")

    def learn(self, texts: list[str]) -> tuple[Ints, Ints]:
        """(terms of all texts, how many each text has); new terms get the next numbers."""
        with unwatched():
            found, numbers, counts = self.analysis.pieces(texts)
            known = len(self._pieces)
            pieces = np.fromiter(map(self._pieces.__getitem__, found), np.int32, len(found))
            new = list(itertools.islice(self._pieces, known, None))
            for terms in self.analysis.terms(new):
                self._term.extend(self.terms.setdefault(term, len(self.terms)) for term in terms)
                self._start.append(len(self._term))
        pieces = pieces[numbers]
        start, term = np.array(self._start), np.array(self._term)
        size = np.diff(start)[pieces]
        # The terms of piece after piece: where each begins, and the count inside it.
        ends = np.cumsum(size)
        total = int(ends[-1]) if len(ends) else 0
        at = np.repeat(start[pieces] - ends + size, size) + np.arange(total)
        ends = np.concatenate([[0], ends])
        bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return term[at] if total else np.zeros(0, np.int32), np.diff(ends[bounds])


class _Numbers(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = number = len(self)
        return number


@dataclasses.dataclass
class Postings:
    """Term t stands in the passages docs[start[t]:start[t + 1]], `count` times in each."""

    terms: dict[str, int]
    start: Ints  # (terms + 1)
    docs: Ints  # (postings): ascending for a term
    count: Ints  # (postings)
    lengths: Ints  # (passages): terms in all

    @classmethod
    def of(cls, texts: Sequence[str], analysis: Analysis) -> Postings:
        """The postings of texts. Memory: some 20 bytes for each different term of each text."""
        vocabulary = Vocabulary(analysis)
        blocks, lengths = [], []
        for first in range(0, len(texts), _BLOCK):
            terms, sizes = vocabulary.learn(list(texts[first : first + _BLOCK]))
            blocks.append(_counted(terms, sizes, first))
            lengths.append(sizes)
        start = np.zeros(len(vocabulary.terms) + 1, np.int64)
        for terms, _, _ in blocks:
            start[1:] += np.bincount(terms, minlength=len(start) - 1)
        np.cumsum(start, out=start)
        docs = np.empty(start[-1], np.int32)
        count = np.empty(start[-1], np.int32)
        free = start[:-1].copy()  # where the next posting of a term goes
        for index, (terms, there, times) in enumerate(blocks):
            size = np.bincount(terms, minlength=len(free))
            at = np.arange(len(terms)) + np.repeat(free - np.cumsum(size) + size, size)
            docs[at], count[at] = there, times
            free += size
            blocks[index] = (terms[:0], there[:0], times[:0])  # let go
        return cls(
            terms=vocabulary.terms,
            start=start,
            docs=docs,
            count=count,
            lengths=np.concatenate([np.zeros(0, np.int64), *lengths]),
        )

    @property
    def frequency(self) -> Ints:
        """(terms): in how many passages each stands."""
        return np.diff(self.start)


def _counted(terms: Ints, sizes: Ints, first: int) -> tuple[Ints, Ints, Ints]:
    """(term, passage, how often), by term and passage, of a block that begins at `first`."""
    # One number for both, as numbers are sorted fast.
    keys = terms.astype(np.int64) * len(sizes) + np.repeat(np.arange(len(sizes)), sizes)
    keys.sort()
    new = np.flatnonzero(np.diff(keys, prepend=-1))
    times = np.diff(new, append=len(keys))
    term, doc = np.divmod(keys[new], max(1, len(sizes)))
    return term.astype(np.int32), (doc + first).astype(np.int32), times.astype(np.int32)


@dataclasses.dataclass
class Weighted:
    """Postings with what each adds to the score of its passage.

    absent: (terms) what a query term adds to every passage, if the formula has such a thing.
    """

    terms: dict[str, int]
    start: Ints
    docs: Ints
    weights: Floats  # (postings); the scores are of the same precision
    passages: int
    absent: Floats | None = None

    def scores(self, query: Sequence[str]) -> Floats:
        """(passages): the sum of the weights of the query's terms, those that stand in it twice
        counted twice, added up in their order; -inf for passages without any of them."""
        asked = [self.terms[term] for term in query if term in self.terms]
        scores = np.zeros(self.passages, self.weights.dtype)
        found = np.zeros(self.passages, np.bool_)
        rows: dict[int, Floats] = {}  # of frequent terms that are asked for again
        for term in asked:
            if term in rows:
                scores += rows[term]
                continue
            docs, weights = self._postings(term)
            found[docs] = True
            if len(docs) * 8 > self.passages and asked.count(term) > 1:
                rows[term] = row = np.zeros_like(scores)
                row[docs] = weights
                scores += row
            else:
                scores[docs] += weights
        if self.absent is not None and asked:
            scores += self.absent[asked].sum()
        return np.where(found, scores, np.asarray(-np.inf, scores.dtype))

    def _postings(self, term: int) -> tuple[Ints, Floats]:
        here = slice(self.start[term], self.start[term + 1])
        return self.docs[here], self.weights[here]

    def save(self, folder: Path) -> None:
        """Write the index into a folder; `load` opens it."""
        text = "\n".join(self.terms)  # no term has a line break in it
        (folder / "terms.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
        for name in ("start", "docs", "weights", "absent"):
            if (values := getattr(self, name)) is not None:
                np.save(folder / f"{name}.npy", values)
        np.save(folder / "passages.npy", np.array(self.passages))

    @classmethod
    def load(cls, folder: Path) -> Weighted:
        """Open what `save` wrote, memory-mapped."""
        text = (folder / "terms.txt").read_bytes().decode("utf-8", "surrogatepass")

        def array(name: str) -> Any:
            # Plain arrays over the map: slicing a memmap object takes longer than its content.
            return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))

        return cls(
            terms={term: number for number, term in enumerate(text.split("\n"))} if text else {},
            start=array("start"),
            docs=array("docs"),
            weights=array("weights"),
            passages=int(np.load(folder / "passages.npy")),
            absent=array("absent") if (folder / "absent.npy").exists() else None,
        )
