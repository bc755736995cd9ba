"""Text to tokens, for lexical retrieval."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from components import words
from components.errors import ClaimflowError, nearest
from components.words import Pieces

if TYPE_CHECKING:
    import regex

_WORD = re.compile(r"\w\w+")
# Letters of Latin and the punctuation of the web: composed, and words as ASCII has them.
_LATIN = re.compile(r"[\x00-\x7f\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u2010-\u2027\u20ac]*")


class Analysis(Protocol):
    """How texts become index terms: each falls into pieces, and a piece has its terms."""

    def pieces(self, texts: Iterable[str]) -> Pieces:
        """The distinct pieces of texts, and where they stand."""

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        """The terms of each of these distinct pieces: one as a rule, none, or several."""


def analyse(texts: Iterable[str], analysis: Analysis) -> list[list[str]]:
    """The terms of each text."""
    distinct, numbers, counts = analysis.pieces(texts)
    parts = map(list(analysis.terms(distinct)).__getitem__, numbers.tolist())
    chain = itertools.chain.from_iterable
    return [list(chain(itertools.islice(parts, count))) for count in counts.tolist()]


@dataclasses.dataclass(frozen=True)
class Words:
    """Lower-cased words of two characters or more: see `terms`."""

    stopwords: str | None = "english"
    stemmer: str | None = "porter"

    def pieces(self, texts: Iterable[str]) -> Pieces:
        return _flat(_words(well_formed(text).lower()) for text in texts)

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        stopped = _stopwords(self.stopwords)
        stems = _stemmer(self.stemmer).stemWords(list(pieces)) if self.stemmer else pieces
        return [
            () if piece in stopped else (stem,) for piece, stem in zip(pieces, stems, strict=True)
        ]


class NltkWords:
    """Tokens of NLTK's `word_tokenize`, in their own case (AVeriTeC baseline)."""

    def pieces(self, texts: Iterable[str]) -> Pieces:
        return words.pieces(map(well_formed, texts))

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        return words.learn(pieces)


class SpaceWords:
    """What stands between white space, in its own case."""

    def pieces(self, texts: Iterable[str]) -> Pieces:
        return _flat(well_formed(text).split() for text in texts)

    def terms(self, pieces: Sequence[str]) -> Sequence[Sequence[str]]:
        return [(piece,) for piece in pieces]


def _flat(parts: Iterable[list[str]]) -> Pieces:
    import numpy as np

    found: list[str] = []
    counts = []
    for part in parts:
        found += part
        counts.append(len(part))
    return *words.numbered(found), np.array(counts, np.int64)


def terms(
    texts: Iterable[str], stopwords: str | None = "english", stemmer: str | None = "porter"
) -> list[list[str]]:
    """The index terms of each text: lower-cased words of two characters or more.

    Scripts that don't part their words by spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese)
    give overlapping pairs of characters; vowel signs and other combining marks belong to their
    word, and composed and decomposed letters are the same (NFC). On other text these are the tokens
    of bm25s and scikit-learn.

    stopwords: "english" (the 33 words of Lucene and bm25s) or None. stemmer: an algorithm of
    PyStemmer ("porter", "english", "german", …) or None.
    """
    return analyse(texts, Words(stopwords, stemmer))


def nltk_words(texts: Iterable[str]) -> list[list[str]]:
    """Tokens of each text by NLTK's `word_tokenize`, in their own case (AVeriTeC baseline)."""
    return words.tokenise(map(well_formed, texts))


def space_words(texts: Iterable[str]) -> list[list[str]]:
    """What stands between white space, in its own case."""
    return analyse(texts, SpaceWords())


def sentences(texts: Iterable[str]) -> list[list[str]]:
    """The sentences of each text by NLTK's `sent_tokenize`; a text without any is one itself."""
    return [words.sentences(text) or [text] for text in map(well_formed, texts)]


def check_terms(stopwords: str | None, stemmer: str | None) -> None:
    """Raise ClaimflowError for a name that `terms` does not know."""
    if stopwords is not None and stopwords != "english":
        raise ClaimflowError(f"No stop-word list '{stopwords}': choose english or null.")
    if stemmer is not None:
        _stemmer(stemmer)


def well_formed(text: str) -> str:
    """`text` with lone surrogates, which no UTF-8 encoder takes, replaced by `?`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _words(text: str) -> list[str]:
    if _LATIN.fullmatch(text):
        return _WORD.findall(text)
    several: list[str] = []
    for found in _any_script().finditer(unicodedata.normalize("NFC", text)):
        run = found.group()
        if found.lastgroup == "unspaced" and len(run) > 2:
            several.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            several.append(run)
    return several


@functools.cache
def _any_script() -> regex.Pattern[str]:
    import regex

    scripts = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
    unspaced = "".join(rf"\p{{Script={script}}}" for script in scripts)
    return regex.compile(
        rf"(?V1)(?P<unspaced>[{unspaced}][{unspaced}\p{{M}}ー]*)|[[\w\p{{M}}]--[{unspaced}]]{{2,}}"
    )


def _stopwords(name: str | None) -> frozenset[str]:
    if name is None:
        return frozenset()
    from bm25s.stopwords import STOPWORDS_EN

    return frozenset(STOPWORDS_EN)


def _stemmer(name: str):  # type: ignore[no-untyped-def]
    """A new stemmer: PyStemmer's are not safe to share between threads."""
    import Stemmer  # type: ignore[import-not-found]

    try:
        return Stemmer.Stemmer(name)
    except KeyError:
        known = Stemmer.algorithms()
        raise ClaimflowError(
            f"No stemmer '{name}'.{nearest(name, known)} Choices: {', '.join(known)}, or null."
        ) from None
