"""Text to tokens, for lexical retrieval."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.errors import ClaimflowError, nearest
from components.words import tokenise

if TYPE_CHECKING:
    import regex

_WORD = re.compile(r"\w\w+")


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
    words = [_words(well_formed(text).lower()) for text in texts]
    # Each distinct word is looked up and stemmed once.
    known = sorted(set(itertools.chain.from_iterable(words)) - _stopwords(stopwords))
    stems = _stemmer(stemmer).stemWords(known) if stemmer else known
    term = dict(zip(known, stems, strict=True))
    return [[term[word] for word in text if word in term] for text in words]


def nltk_words(texts: Iterable[str]) -> list[list[str]]:
    """Tokens of each text by NLTK's `word_tokenize`, in their own case (AVeriTeC baseline)."""
    return tokenise(map(well_formed, texts))


def space_words(texts: Iterable[str]) -> list[list[str]]:
    """What stands between white space, in its own case."""
    return [text.split() for text in texts]


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
    if text.isascii():
        return _WORD.findall(text)
    words: list[str] = []
    for found in _any_script().finditer(unicodedata.normalize("NFC", text)):
        run = found.group()
        if found.lastgroup == "unspaced" and len(run) > 2:
            words.extend(run[i : i + 2] for i in range(len(run) - 1))
        else:
            words.append(run)
    return words


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
