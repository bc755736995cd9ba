"""METEOR as NLTK's `single_meteor_score` computes it, with everything about a string done once.

Stages: exact, then Porter stem, then WordNet synonym; alpha .9, beta 3, gamma .5 (Lavie and
Agarwal 2007). NLTK's quirk is kept, since published figures rest on it: words that the stem stage
leaves unmatched stay stemmed, so synonyms are looked up for stems ("automobile" is looked up as
"automobil" and has none).
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from components.assets import nltk_ready
from components.score.wordnet import synonyms

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5

Words = list[tuple[int, str]]  # with their positions in the text


def meteor(hypothesis: tuple[str, ...], reference: tuple[str, ...]) -> float:
    """METEOR of two texts given as `tokens`: 0 to below 1, higher is better; 0 if one is empty.

    Not symmetric: recall (the share of the reference that is matched) weighs nine times as much
    as precision.
    """
    pairs: list[tuple[int, int]] = []
    left, right = _match(list(enumerate(hypothesis)), list(enumerate(reference)), pairs)
    if left and right:
        left, right = _match(_stemmed(left), _stemmed(right), pairs)
    if left and right:
        _match_synonyms(left, right, pairs)
    if not pairs:
        return 0.0
    pairs.sort()
    matches, chunks = len(pairs), 1
    for (i, j), following in itertools.pairwise(pairs):
        chunks += following != (i + 1, j + 1)
    precision = matches / len(hypothesis)
    recall = matches / len(reference)
    mean = (precision * recall) / (ALPHA * precision + (1 - ALPHA) * recall)
    return (1 - GAMMA * (chunks / matches) ** BETA) * mean


@functools.lru_cache(maxsize=100_000)
def tokens(text: str) -> tuple[str, ...]:
    """The tokens of NLTK's `word_tokenize`, lower-cased."""
    nltk_ready()
    from nltk.tokenize import word_tokenize

    return tuple(word.lower() for word in word_tokenize(text))


def _match(left: Words, right: Words, pairs: list[tuple[int, int]]) -> tuple[Words, Words]:
    """Add pairs of equal words to `pairs`, last with last; what is left on each side."""
    places = _places(right)
    rest: Words = []
    taken = set()
    for i, word in reversed(left):
        if found := places.get(word):
            j = found.pop()
            taken.add(j)
            pairs.append((i, j))
        else:
            rest.append((i, word))
    return rest[::-1], [place for place in right if place[0] not in taken]


def _match_synonyms(left: Words, right: Words, pairs: list[tuple[int, int]]) -> None:
    """Pair each word, from the last, with the last free reference word among its synonyms."""
    places = _places(right)
    for i, word in reversed(left):
        common = {word, *synonyms(word)} & places.keys()
        if common:
            best = max(common, key=lambda synonym: places[synonym][-1])
            pairs.append((i, places[best].pop()))
            if not places[best]:
                del places[best]


def _places(words: Words) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for position, word in words:
        places.setdefault(word, []).append(position)
    return places


def _stemmed(words: Words) -> Words:
    return [(position, _stem(word)) for position, word in words]


@functools.cache
def _stem(word: str) -> str:
    return _stemmer().stem(word)


@functools.cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
