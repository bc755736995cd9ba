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
from typing import TYPE_CHECKING, Any, TypeAlias

from components.assets import nltk_ready

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tokens: TypeAlias = tuple[str, ...]
Ints: TypeAlias = "NDArray[np.integer[Any]]"
Pieces: TypeAlias = "tuple[list[str], Ints, Ints]"
"""The distinct pieces of some texts, by appearance; the number of each piece of each text among
them; how many each text has."""

_BLOCK = 1000  # texts at a time: their pieces stay in the processor's cache
GAP = "\ue000"  # a private character, which no rule of the tokeniser knows
# What may follow a sentence's last period, so that the period stands farther in front.
_CLOSING = re.compile(r"[\s\])}>\"'»”’]*")
# Where it can matter how a text is split in sentences: at a period that may end one, and at a
# quote that may begin or end one. Other sentences end and begin as if they were one.
_SPLIT_MATTERS = re.compile(r"\.(?![0-9A-Za-z]|\s*$)|[?!]\W*[\"'`]")
_QUOTES = "«»„“”‘’"
# Such a piece is parted by one expression: without ASCII's quotes and two of `:,` in a row.
_PLAIN = re.compile(rf"(?:[!#-&(-+\--9;-_a-~{_QUOTES}]|[^\W\x00-\x7f]|[:,](?![:,]))*")
_ALONE = rf";@#$%&?!*\[\](){{}}<>{_QUOTES}"
_PARTS = re.compile(
    rf"--|\.{{2,}}|[{_ALONE}]|[:,](?!\d)|(?:[^{_ALONE}:,.-]|-(?!-)|\.(?!\.)|[:,](?=\d))+"
)
# A sentence whose first quote no rule takes otherwise than one behind a space.
_QUOTED = re.compile(r"\"[A-Za-z0-9]")
# Ends at which it matters that nothing follows.
_OPEN_END = re.compile(r"[.']\W*\Z")
_PERIOD = re.compile(r"(.*[^.'\s])(\.[)\]}>\"»”’]{,4})", re.DOTALL)
# Where a sentence may end, by NLTK's sentence splitter; and those places that are plain.
_ENDS = re.compile(r"[.?!](?=[)\";}\]*:@'({\[‘’“”«»?!]|\s+\S)")
_PLAIN_ENDS = re.compile(
    r"(?<![^ \n])([A-Za-z0-9]++(?:[.-][A-Za-z0-9]++)*+)([.?!])"
    r"(?:(?<!\.)[ \n]+(?=[\"“(]?[A-Za-z0-9])|[ \n]+(?=([A-Za-z0-9]+)([,;:?!)]?(?:[ \n]|\Z))?))"
)


# Closing quotes and brackets behind the last mark: they belong to the last sentence in any case.
_TAIL = re.compile(r"(?<=[A-Za-z0-9])[.?!][\"')\]}’”»]+\s*\Z")


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
        found, numbers, counts = pieces(block)
        new = [piece for piece in found if piece not in known]
        known.update(zip(new, learn(new), strict=True))
        parts = map([known[piece] for piece in found].__getitem__, numbers.tolist())
        for text, count in zip(block, counts.tolist(), strict=True):
            tokens[text] = list(itertools.chain.from_iterable(itertools.islice(parts, count)))
    return [tokens[text].copy() for text in texts]


def pieces(texts: Iterable[str]) -> Pieces:
    """The distinct pieces of texts, of which `learn` gives the tokens.

    The last piece of a sentence ends in GAP. A sentence that NLTK must see whole begins with it.
    Raises UnicodeEncodeError for a lone surrogate.
    """
    import numpy as np
    import pyarrow.compute as pc

    nltk_ready()
    found: list[str] = []  # sentences
    counts: list[int] = []
    whole: list[str] = []
    for text in texts:
        before = len(found)
        within = sentences(text) if _SPLIT_MATTERS.search(text) else [text.rstrip()]
        for sentence in within:
            last = sentence[sentence.rfind(" ") + 1 :]
            if (
                (sentence[:1] in ('"', "'") and not _QUOTED.match(sentence))
                or not (last[-1:].isalnum() or not _CLOSING.fullmatch(last))
                or GAP in sentence
            ):
                found.append(f"{GAP}{len(whole)}")
                whole.append(GAP + sentence)
            else:
                found.append(sentence + GAP)
        counts.append(len(found) - before)
    parts = pc.split_pattern(_arrow(found), " ")
    ends = np.from_dlpack(parts.offsets)[np.cumsum([0, *counts])]
    distinct, numbers = _numbered(parts.values)
    distinct = [whole[int(piece[1:])] if piece[0:1] == GAP else piece for piece in distinct]
    return distinct, numbers, np.diff(ends)


def numbered(found: Sequence[str]) -> tuple[list[str], Ints]:
    """(the distinct ones among texts, by appearance; for each text its number among these)."""
    return _numbered(_arrow(found))


def _numbered(found: Any) -> tuple[list[str], Ints]:
    import numpy as np

    coded = found.dictionary_encode()
    numbers: Any = np.from_dlpack(coded.indices)
    return coded.dictionary.to_pylist(), numbers


def _arrow(texts: Sequence[str]) -> Any:
    """An Arrow array. `pyarrow.array` and `to_numpy` import pandas, which takes longer than
    scoring 500 claims."""
    from pyarrow.lib import StringBuilder

    builder = StringBuilder()
    builder.append_values(texts)
    return builder.finish()


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
    nltk_ready()
    from nltk.tokenize import PunktTokenizer

    return PunktTokenizer("english")


def sentences(text: str) -> list[str]:
    """What NLTK's `sent_tokenize` finds, which looks only at what lies between two plain ends."""
    found: list[str] = []
    start = plain = 0
    certain = True
    wary = _wary()
    for end in _PLAIN_ENDS.finditer(text):
        word, mark, following, alone = end.groups()
        plain += 1
        if mark == "." and (len(word) == 1 or not word.isalpha() or word.lower() in wary):
            if alone is None:
                certain = False
                continue
            if not _abbreviated_end(word, following):
                continue
        found.append(text[start : end.end(2)])
        start = end.end()
    others = len(_ENDS.findall(text)) - plain
    if rest := text[start:].rstrip():
        found.append(rest)
    if certain and (not others or (others == 1 and _TAIL.search(text))):
        return found
    split = _punkt().sentences_from_text
    return [s for part in found for s in (split(part) if _ENDS.search(part) else [part])]


@functools.lru_cache(2**16)
def _abbreviated_end(word: str, following: str) -> bool:
    """Whether a sentence ends at the period between two words, as Punkt decides."""
    from nltk.tokenize.punkt import PunktToken

    one, two = PunktToken(f"{word}."), PunktToken(following)
    _punkt()._first_pass_annotation(one)
    _punkt()._second_pass_annotation(one, two)
    return bool(one.sentbreak)


@functools.cache
def _wary() -> set[str]:
    """Words after which a period need not end the sentence."""
    parameters = _punkt()._params
    return parameters.abbrev_types | {first for first, _ in parameters.collocations}
