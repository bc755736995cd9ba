"""Chunkers: documents to passages."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Document, Passage
from components.step import Context, Step


@dataclasses.dataclass(kw_only=True)
class Sentences(Step):
    """`size` sentences of one document a passage, without overlap (`size=1`: AVeriTeC baseline).

    dedupe: keep only the first of passages whose text is equal but for case and outer space.
    """

    reads: ClassVar = ("documents",)
    writes: ClassVar = ("passages",)
    size: int = 1
    dedupe: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClaimflowError(f"chunker.size is {self.size}: give 1 or more sentences.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            seen: set[str] = set()
            case.passages = []
            for document in case.documents:
                for start in range(0, len(document.sentences), self.size):
                    text = " ".join(document.sentences[start : start + self.size]).strip()
                    if not text or (self.dedupe and text.lower() in seen):
                        continue
                    seen.add(text.lower())
                    case.passages.append(passage(document, start, text))
        return cases


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


def passage(document: Document, start: int, text: str) -> Passage:
    """A passage of `document` whose first sentence is number `start`, from 0."""
    return Passage(id=f"{document.id}#{start}", doc=document.id, text=text, url=document.url)
