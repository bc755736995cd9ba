"""Chunkers that pack sentences up to a length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from components.errors import ClaimflowError
from components.numbers import check_number
from components.records import Document
from components.store.chunk import Chunker, Piece

CHARACTERS_PER_TOKEN = 4  # of English text, as CTU AIC and SANCTUARY reckon


@dataclasses.dataclass(kw_only=True)
class Characters(Chunker):
    """Sentences packed to at most `size` characters, without overlap.

    A longer sentence stands alone, whole. CTU AIC: 2,048 (512 tokens), with the neighbouring
    passages as context; FATHOM (AVeriTeC 2025): 256.
    """

    size: int = 2048
    neighbours: bool = True

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ClaimflowError(f"chunker.size is {self.size}: give 1 or more characters.")

    def cut(self, document: Document) -> list[Piece]:
        return packed(document.sentences, self.size, self.size)


@dataclasses.dataclass(kw_only=True)
class Paragraphs(Chunker):
    """Paragraphs of about `tokens` tokens, at four characters a token (SANCTUARY, AVeriTeC 2025).

    A paragraph ends once it has as many; a sentence that would bring it above `slack` times as
    many begins the next, and stands alone where it is longer.
    """

    tokens: int = 500
    slack: float = 1.25

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ClaimflowError(f"chunker.tokens is {self.tokens}: give 1 or more.")
        check_number(self, "slack", 1)

    def cut(self, document: Document) -> list[Piece]:
        enough = self.tokens * CHARACTERS_PER_TOKEN
        return packed(document.sentences, enough, int(self.slack * enough))


def packed(sentences: Sequence[str], enough: int, most: int) -> list[Piece]:
    """Sentences joined by spaces to pieces that end once they have `enough` characters, and have
    `most` at most unless a sentence alone has more."""
    pieces: list[Piece] = []
    start, text = 0, ""
    for number, sentence in enumerate(sentences):
        if text and len(text) + 1 + len(sentence) > most:
            pieces.append((start, text))
            text = ""
        start, text = (start, f"{text} {sentence}") if text else (number, sentence)
        if len(text) >= enough:
            pieces.append((start, text))
            text = ""
    return [*pieces, (start, text)] if text else pieces
