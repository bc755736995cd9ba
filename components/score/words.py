"""Words of many texts at once, equal to those of NLTK's `word_tokenize`.

NLTK runs some thirty regular expressions over each sentence. They look no further than from one
space to the next, but at the ends of a sentence, so the pieces between spaces are tokenised all in
one string, each once, and a sentence is put together from them.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from components.assets import nltk_ready

Tokens: TypeAlias = tuple[str, ...]

GAP = "\ue000"  # a private character, which no rule of the tokeniser knows
# What may follow a sentence's last period, so that the period stands farther in front.
_CLOSING = re.compile(r"[\s\])}>\"'»”’]*")
# Where it can matter how a text is split in sentences: at a period that may end one, and at a
# quote that may begin or end one. Other sentences end and begin as if they were one.
_SPLIT_MATTERS = re.compile(r"\.(?![0-9A-Za-z]|\s*$)|[?!]\W*[\"'`]")

_pieces: dict[str, Tokens] = {"": ()}


def tokens(text: str) -> Tokens:
    """The tokens of NLTK's `word_tokenize`, lower-cased."""
    return tokenise([text])[0]


def tokenise(texts: Sequence[str]) -> list[Tokens]:
    """The `tokens` of each text."""
    nltk_ready()
    sentences = {text: _sentences(text) for text in texts}
    plans = {
        sentence: _plan(sentence)
        for sentence in dict.fromkeys(itertools.chain.from_iterable(sentences.values()))
    }
    _learn(itertools.chain.from_iterable(plan[0] for plan in plans.values() if plan))
    known: dict[str, Tokens] = {}
    for sentence, plan in plans.items():
        if plan is None:
            known[sentence] = _lower(_tokenizer().tokenize(sentence))
        else:
            pieces, end = plan
            inside = itertools.chain.from_iterable(map(_pieces.__getitem__, pieces))
            known[sentence] = (*inside, *end)
    return [
        tuple(itertools.chain.from_iterable(map(known.__getitem__, sentences[text])))
        for text in texts
    ]


def _sentences(text: str) -> list[str]:
    if not _SPLIT_MATTERS.search(text):
        return [text.rstrip()]
    from nltk.tokenize import sent_tokenize

    return sent_tokenize(text)


def _plan(sentence: str) -> tuple[list[str], Tokens] | None:
    """(pieces to tokenise as inside a sentence, tokens after them), or None: only NLTK knows."""
    *pieces, last = sentence.split(" ")
    if sentence[:1] in "\"'" or _CLOSING.fullmatch(last) or GAP in sentence:
        return None
    if "." not in last and "'" not in last:
        return [*pieces, last], ()
    if last[-1] == "." and last[-2:-1] not in ("", "."):
        return [*pieces, last[:-1]], (".",)
    return pieces, _at_end(last)


def _learn(pieces: Iterable[str]) -> None:
    new = [piece for piece in dict.fromkeys(pieces) if piece not in _pieces]
    found = _lower(_tokenizer().tokenize(f" {GAP} ".join(["", *new, ""])))
    start = 1
    for piece in new:
        end = found.index(GAP, start)
        _pieces[piece] = found[start:end]
        start = end + 1


@functools.cache
def _at_end(piece: str) -> Tokens:
    return _lower(_tokenizer().tokenize(f"{GAP} {piece}"))[1:]


def _lower(words: list[str]) -> Tokens:
    return tuple(word.lower() for word in words)


@functools.cache
def _tokenizer() -> Any:
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()
