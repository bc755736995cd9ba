"""Recursive splitting of text at ever finer separators."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Iterator

from components.errors import ClaimflowError
from components.records import Document
from components.store.chunk import Chunker, Piece

_SEPARATORS = ("\n\n", "\n", " ")


@dataclasses.dataclass(kw_only=True)
class Recursive(Chunker):
    """Pieces of at most `size` characters, cut at the coarsest separator that makes them fit:
    blank lines, line ends, spaces, anywhere (the scheme of LangChain's
    RecursiveCharacterTextSplitter; OldJoe, AVeriTeC 2025: 2,048).

    Sentences are joined by line ends, so one is cut only where it is longer than a piece.
    """

    size: int = 2048

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClaimflowError(f"chunker.size is {self.size}: give 1 or more characters.")

    def cut(self, document: Document) -> list[Piece]:
        text = "\n".join(document.sentences)
        lengths = (len(sentence) + 1 for sentence in document.sentences)
        starts = list(itertools.accumulate(lengths, initial=0))
        pieces = []
        for start, end in self._spans(text, 0, len(text), 0):
            piece = text[start:end]
            first = start + len(piece) - len(piece.lstrip())
            pieces.append((bisect.bisect_right(starts, first) - 1, piece))
        return pieces

    def _spans(self, text: str, start: int, end: int, level: int) -> Iterator[tuple[int, int]]:
        """Where the pieces of text[start:end] stand."""
        if end - start <= self.size:
            yield start, end
            return
        waiting = at = start  # text[waiting:at] fits into a piece
        for stop in self._stops(text, start, end, level):
            if stop - at > self.size:
                if at > waiting:
                    yield waiting, at
                yield from self._spans(text, at, stop, level + 1)
                waiting = stop
            elif stop - waiting > self.size:
                yield waiting, at
                waiting = at
            at = stop
        if end > waiting:
            yield waiting, end

    def _stops(self, text: str, start: int, end: int, level: int) -> list[int]:
        """The ends of the parts of text[start:end] at this level's separator, which stays with
        the part before it."""
        if level == len(_SEPARATORS):
            return [*range(start + self.size, end, self.size), end]
        mark = re.compile(re.escape(_SEPARATORS[level]))
        stops = [found.end() for found in mark.finditer(text, start, end)]
        return [*(stop for stop in stops if stop < end), end]
