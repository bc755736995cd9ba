"""Tokens of many texts at once, equal to those of NLTK's `word_tokenize`.

NLTK runs some thirty regular expressions over each sentence. They look no further than from one
space to the next, but at the ends of a sentence. So a text falls into *pieces*: what stands between
two spaces, the last of a sentence marked as such. Each distinct piece is tokenised once: the plain
ones, by far the most, by one expression of ours, all others in one string by NLTK itself.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from components.assets import nltk_ready

Tokens: TypeAlias = tuple[str, ...]

_BLOCK = 1000  # texts at a time: their pieces stay in the processor's cache
GAP = "\ue000"  # a private character, which no rule of the tokeniser knows
# What may follow a sentence's last period, so that the period stands farther in front.
_CLOSING = re.compile(r"[\s\])}>\"'»”’]*")
# Where it can matter how a text is split in sentences: at a period that may end one, and at a
# quote that may begin or end one. Other sentences end and begin as if they were one.
_SPLIT_MATTERS = re.compile(r"\.(?![0-9A-Za-z]|\s*$)|[?!]\W*[\"'`]")
# ASCII without quotes and without two of `:,` in a row: such a piece is parted by one expression.
_PLAIN = re.compile(r"(?:[!#-&(-+\--9;-_a-~]|[:,](?![:,]))*")
_PARTS = re.compile(
    r"--|\.{2,}|[;@#$%&?!*\[\](){}<>]|[:,](?!\d)"
    r"|(?:[^;@#$%&?!*\[\](){}<>:,.-]|-(?!-)|\.(?!\.)|[:,](?=\d))+"
)
# Ends at which it matters that nothing follows.
_OPEN_END = re.compile(r"[.']\W*\Z")
_PERIOD = re.compile(r"(.*[^.'\s])(\.[)\]}>\"»”’]{,4})", re.DOTALL)
# A plain word that ends a sentence, unless it is one of those that may be cut short by a period.
_PLAIN_END = re.compile(r"([A-Za-z]{2,})([.?!])\s+\S")


def tokenise(texts: Iterable[str]) -> list[list[str]]:
    """The tokens of each text, in their own case, as `nltk.tokenize.word_tokenize` gives them."""
    with unwatched():
        return _tokenise(list(texts))


@contextlib.contextmanager
def unwatched() -> Iterator[None]:
    """Keep Python from looking for cycles among what is made meanwhile: lists of words have none,
    and looking at a million of them again and again takes a quarter of the time."""
    watched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if watched:
            gc.enable()


def _tokenise(texts: list[str]) -> list[list[str]]:
    distinct = list(dict.fromkeys(texts))
    known: dict[str, Tokens] = {}
    tokens: dict[str, list[str]] = {}
    for start in range(0, len(distinct), _BLOCK):
        block = distinct[start : start + _BLOCK]
        found, counts = pieces(block)
        new = [piece for piece in dict.fromkeys(found) if piece not in known]
        known.update(zip(new, learn(new), strict=True))
        parts = map(known.__getitem__, found)
        for text, count in zip(block, counts, strict=True):
            tokens[text] = list(itertools.chain.from_iterable(itertools.islice(parts, count)))
    return [tokens[text].copy() for text in texts]


def pieces(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """(the pieces of all texts, how many each text has): what `learn` gives tokens of.

    The last piece of a sentence ends in GAP. A sentence that NLTK must see whole begins with it.
    """
    nltk_ready()
    found: list[str] = []
    counts: list[int] = []
    for text in texts:
        before = len(found)
        if _SPLIT_MATTERS.search(text):
            sentences = _punkt().sentences_from_text(text)
        else:
            sentences = [text.rstrip()]
        for sentence in sentences:
            parts = sentence.split(" ")
            last = parts[-1]
            if (
                sentence[:1] in ('"', "'")
                or not (last[-1:].isalnum() or not _CLOSING.fullmatch(last))
                or GAP in sentence
            ):
                found.append(GAP + sentence)
            else:
                parts[-1] = last + GAP
                found += parts
        counts.append(len(found) - before)
    return found, counts


def learn(distinct: Sequence[str]) -> list[Tokens]:
    """The tokens of each piece."""
    # A piece is another, as it stands inside a sentence, and what follows at its end.
    parts = [_inside(piece) for piece in distinct]
    known: dict[str, Tokens] = {"": ()}
    hard = []
    for inside in {part[0] for part in parts if part}:
        lower = inside.lower()
        if "nna" in lower or "mme" in lower or "cannot" in lower or "gotta" in lower:
            hard.append(inside)  # gonna, wanna, gimme, lemme: in two parts
        elif inside.isascii() and inside.isalnum():
            known[inside] = (inside,)
        elif _PLAIN.fullmatch(inside):
            known[inside] = tuple(_PARTS.findall(inside))
        elif inside:
            hard.append(inside)
    known.update(_by_nltk(hard))
    return [
        known[part[0]] + _closing(part[1]) if part else _alone(piece)
        for piece, part in zip(distinct, parts, strict=True)
    ]


def _inside(piece: str) -> tuple[str, str] | None:
    """(piece inside a sentence, period and what closes the sentence), or None: only NLTK knows."""
    if piece[:1] == GAP:
        return None
    if piece[-1:] != GAP:
        return piece, ""
    piece = piece[:-1]
    if not _OPEN_END.search(piece):
        return piece, ""
    end = _PERIOD.fullmatch(piece)
    return (end[1], end[2]) if end else None


@functools.cache
def _closing(end: str) -> Tokens:
    """Tokens of a period with closing brackets and quotes behind it, at a sentence's end."""
    return (".", *_by_nltk([f"x{end[1:]}"])[f"x{end[1:]}"][1:]) if end else ()


def _alone(piece: str) -> Tokens:
    if piece[0] == GAP:
        return tuple(_tokenizer().tokenize(piece[1:]))
    return tuple(_tokenizer().tokenize(f"{GAP} {piece[:-1]}")[1:])


def _by_nltk(new: list[str]) -> dict[str, Tokens]:
    tokens = _tokenizer().tokenize(f" {GAP} ".join(["", *new, ""]))
    known: dict[str, Tokens] = {}
    start = 1
    for piece in new:
        end = tokens.index(GAP, start)
        known[piece] = tuple(tokens[start:end])
        start = end + 1
    return known


@functools.cache
def _tokenizer() -> Any:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@functools.cache
def _punkt() -> Any:
    from nltk.tokenize import PunktTokenizer

    class Punkt(PunktTokenizer):  # type: ignore[misc]
        """NLTK's, that knows at once that a plain word with a period ends its sentence."""

        def __init__(self) -> None:
            super().__init__("english")
            # What may keep a sentence going after the period.
            self.wary = self._params.abbrev_types | {
                first for first, _ in self._params.collocations
            }

        def text_contains_sentbreak(self, text: str) -> bool:
            end = _PLAIN_END.match(text)
            if end and (end[2] != "." or end[1].lower() not in self.wary):
                return True
            return super().text_contains_sentbreak(text)

    return Punkt()
