"""Chunkers: documents to passages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

import msgspec

from components.errors import ClaimflowError
from components.records import Case, Document, Passage
from components.step import Context, Step

Piece: TypeAlias = tuple[int, str]
"""The number of a passage's first sentence, from 0, and its text."""


@dataclasses.dataclass(kw_only=True)
class Chunker(Step):
    """Base of chunkers that cut documents into runs of sentences.

    dedupe: keep only the first of passages whose text is equal but for case and outer space; the
    URLs of the others stand in its `also`.
    neighbours: keep the text before and after each passage, that of the next ones of its document
    (`Passage.before`, `Passage.after`).
    """

    reads: ClassVar[tuple[str, ...]] = ("documents",)
    writes: ClassVar = ("passages",)
    dedupe: bool = True
    neighbours: bool = False

    def cut(self, document: Document) -> list[Piece]:
        """The pieces of one document, in order."""
        raise NotImplementedError

    def pieces(self, documents: list[Document], ctx: Context) -> Iterable[list[Piece]]:
        """The pieces of each document."""
        return (self.cut(document) for document in documents)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.passages = self.passages(case.documents, self.pieces(case.documents, ctx))
        return cases

    def passages(self, documents: list[Document], pieces: Iterable[list[Piece]]) -> list[Passage]:
        """Passages of the pieces that have text."""
        places: dict[str, int] = {}  # of a text in `found`
        also: dict[int, list[str]] = {}
        found: list[Passage] = []
        for document, cut in zip(documents, pieces, strict=True):
            texts = [(start, text.strip()) for start, text in cut]
            texts = [(start, text) for start, text in texts if text]
            last, part = -1, 0
            for i, (start, text) in enumerate(texts):
                part = part + 1 if start == last else 0
                last = start
                first = places.get(text.lower()) if self.dedupe else None
                if first is not None:
                    others = also.setdefault(first, [])
                    if document.url and document.url not in (found[first].url, *others):
                        others.append(document.url)
                    continue
                places[text.lower()] = len(found)
                before = texts[i - 1][1] if self.neighbours and i else None
                after = texts[i + 1][1] if self.neighbours and i + 1 < len(texts) else None
                found.append(passage(document, start, text, part, before, after))
        for n, urls in also.items():
            found[n] = msgspec.structs.replace(found[n], also=tuple(urls))
        return found


@dataclasses.dataclass(kw_only=True)
class Sentences(Chunker):
    """`size` sentences of one document a passage, without overlap (`size=1`: AVeriTeC baseline;
    4: EFC, AVeriTeC 2025)."""

    size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClaimflowError(f"chunker.size is {self.size}: give 1 or more sentences.")

    def cut(self, document: Document) -> list[Piece]:
        return [
            (start, " ".join(document.sentences[start : start + self.size]))
            for start in range(0, len(document.sentences), self.size)
        ]


@dataclasses.dataclass(kw_only=True)
class WholeDocument(Step):
    """Each document as one passage: its sentences joined by spaces.

    with_title: the title and a space come first, as in retrieval over SciFact or FEVER.
    Documents without text give no passage.
    """

    reads: ClassVar = ("documents",)
    writes: ClassVar = ("passages",)
    with_title: bool = True

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            case.passages = []
            for document in case.documents:
                title = [document.title] if self.with_title and document.title else []
                text = " ".join([*title, *document.sentences]).strip()
                if text:
                    case.passages.append(passage(document, 0, text))
        return cases


def passage(
    document: Document,
    start: int,
    text: str,
    part: int = 0,
    before: str | None = None,
    after: str | None = None,
) -> Passage:
    """A passage of `document` whose first sentence is number `start`, from 0; `part` counts those
    that begin in the same sentence. before, after: neighbouring text that is kept."""
    name = f"{document.id}#{start}" + (f".{part}" if part else "")
    url = document.url
    return Passage(id=name, doc=document.id, text=text, url=url, before=before, after=after)
