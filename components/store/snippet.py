"""One window of sentences a document: where a search result's snippet stands."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Document
from components.step import Context
from components.store.chunk import Chunker, Piece


@dataclasses.dataclass(kw_only=True)
class SnippetWindow(Chunker):
    """One passage a document: `size` sentences around the middle of the shortest run of sentences
    that holds more than `cover` of the snippet's words (Papelo, AVeriTeC 2024: 5 and .7).

    Stores keep no snippets, so the search query that found the document stands for one, and the
    claim where none is known. Where no run holds as many words, the sentence with most of them is
    the middle.
    """

    reads: ClassVar = ("claim", "documents")
    size: int = 5
    cover: float = 0.7

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClaimflowError(f"chunker.size is {self.size}: give 1 or more sentences.")
        if not 0 <= self.cover < 1:
            raise ClaimflowError(f"chunker.cover is {self.cover}: give 0 or more, below 1.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            windows = ([self._window(d, case.claim.text)] for d in case.documents)
            case.passages = self.passages(case.documents, windows)
        return cases

    def _window(self, document: Document, claim: str) -> Piece:
        sentences = document.sentences
        snippet = _words(document.query or claim)
        middle = _middle(
            [_words(sentence) & snippet for sentence in sentences], snippet, self.cover
        )
        start = max(0, min(middle - self.size // 2, len(sentences) - self.size))
        return start, " ".join(sentences[start : start + self.size])


def _middle(held: list[set[str]], snippet: set[str], cover: float) -> int:
    """The middle of the shortest run (the first of equals) that holds enough of the snippet."""
    best: tuple[int, int] | None = None
    counts: Counter[str] = Counter()
    start = 0
    for end, words in enumerate(held):
        counts.update(words)
        while start <= end and len(counts) > cover * len(snippet):
            if best is None or end - start < best[1] - best[0]:
                best = start, end
            counts.subtract(held[start])
            counts = +counts  # only words that the run still holds
            start += 1
    if best is None:
        return max(range(len(held)), key=lambda i: len(held[i]), default=0)
    return sum(best) // 2


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
