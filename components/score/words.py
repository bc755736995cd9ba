"""The words that METEOR compares: those of NLTK's `word_tokenize`, lower-cased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from components import words

Tokens: TypeAlias = tuple[str, ...]


def tokens(text: str) -> Tokens:
    """The tokens of NLTK's `word_tokenize`, lower-cased."""
    return tokenise([text])[0]


def tokenise(texts: Sequence[str]) -> list[Tokens]:
    """The `tokens` of each text."""
    return [tuple(map(str.lower, found)) for found in words.tokenise(texts)]
