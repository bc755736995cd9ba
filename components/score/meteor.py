"""METEOR as NLTK's `single_meteor_score` computes it, for many pairs of texts at once.

Stages: exact, then Porter stem, then WordNet synonym; alpha .9, beta 3, gamma .5 (Lavie and
Agarwal 2007). NLTK's quirk is kept, since published figures rest on it: words that the stem stage
leaves unmatched stay stemmed, so synonyms are looked up for stems ("automobile" is looked up as
"automobil" and has none).

NLTK goes from the last word to the first and takes the last partner that is free. Equal words are
so paired last with last, last but one with last but one: a word with its count from the end is a
*key* that a text has once, and the first two stages are look-ups of keys, done for all pairs in
one array. Few words come as far as the third.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from components import words
from components.score.wordnet import synonyms

ALPHA, BETA, GAMMA = 0.9, 3.0, 0.5

# What the suffixes of the stemmer's rules end in.
_STEMMED = (
    *("s", "ed", "ing", "y", "i", "e", "al", "er", "or", "ic", "ant", "ent", "ion", "ou", "ism"),
    *("ll", "ful"),
)
# Words for which NLTK's rules can differ from Porter's own: with a y, or an i under the first
# suffix; of a vowel, a consonant and suffixes; with a rare double letter; the irregular forms.
_OWN_RULES = re.compile(
    r".*y.*|.*i(?:s|es|eds?|ings?|eeds?)?|[aeiou][^aeiou](?:e.*|.{0,5})|.{0,4}"
    r"|.*([chjkqvwx])\1(?:ed|ing)s?|(?:inn|out|cann)ings?|howe|(?:proc|succ)eed"
)

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Job: TypeAlias = tuple[Sequence[str], Sequence[str]]
TABLE = 20_000_000  # cells of a table of keys; a text that repeats a word for ever has more
KNOWN = 1000  # jobs whose texts are tokenised at a time
AT_ONCE = 200  # of these: memory grows with the number of their references times that of words


def meteor(hypothesis: str, reference: str) -> float:
    """METEOR of two texts: 0 to below 1, higher is better; 0 if one is empty.

    Not symmetric: recall (the share of the reference that is matched) weighs nine times as much
    as precision. `meteors` is made for many pairs.
    """
    return float(meteors([([hypothesis], [reference])])[0][0, 0])


def meteors(jobs: Sequence[Job]) -> list[Floats]:
    """For each (hypotheses, references) the matrix (hypotheses, references) of METEOR."""
    matrices: list[Floats] = []
    with words.unwatched():
        for start in range(0, len(jobs), KNOWN):
            some = jobs[start : start + KNOWN]
            texts = dict.fromkeys(text for job in some for side in job for text in side)
            number = dict(zip(texts, range(len(texts)), strict=True))
            numbered = [tuple([number[text] for text in side] for side in job) for job in some]
            known = _Words.of(
                list(texts), {text for hypotheses, _ in numbered for text in hypotheses}
            )
            for n in range(0, len(some), AT_ONCE):
                matrices += _matrices(known, numbered[n : n + AT_ONCE])
    return matrices


def _matrices(known: _Words, jobs: Sequence[tuple[list[int], ...]]) -> list[Floats]:
    """`meteors` of texts given by number."""
    rows: dict[int, int] = {}
    for side in (1, 0):  # references first
        for job in jobs:
            for text in job[side]:
                rows.setdefault(text, len(rows))
    left = [rows[h] for hypotheses, references in jobs for h in hypotheses for _ in references]
    right = [rows[r] for hypotheses, references in jobs for _ in hypotheses for r in references]
    shapes = [(len(hypotheses), len(references)) for hypotheses, references in jobs]
    texts = _Texts.of(known, list(rows), references=max(right, default=-1) + 1)
    values = _scores(texts, np.array(left, np.int64), np.array(right, np.int64))
    ends = np.cumsum([n * m for n, m in shapes])[:-1]
    return [part.reshape(s) for part, s in zip(np.split(values, ends), shapes, strict=True)]


@dataclasses.dataclass
class _Words:
    """The words of texts by number, one text after the other: those of NLTK's `word_tokenize` in
    lower case."""

    size: Ints  # (texts): words
    word: Ints  # (words of all texts)
    stem_of: Ints  # (different words)
    related: _Lists  # (stems): of hypotheses, the stems that are synonyms

    @classmethod
    def of(cls, texts: Sequence[str], hypotheses: set[int]) -> _Words:
        """`hypotheses` are numbers of texts."""
        distinct, pieces, counts = words.pieces(texts)
        parts = words.learn(distinct)
        names: dict[str, int] = {}
        numbers = [names.setdefault(word.lower(), len(names)) for part in parts for word in part]
        width = np.array([len(part) for part in parts], np.int64)
        begin = np.cumsum(width) - width
        occurrence, place = _within(width[pieces])
        word = np.array(numbers, np.int64)[begin[pieces][occurrence] + place]
        ends = np.append(0, np.cumsum(width[pieces]))[np.cumsum(counts)]
        size = np.diff(ends, prepend=0)
        stems: dict[str, int] = {}
        stem_of = np.array([stems.setdefault(stem, len(stems)) for stem in _stem(names)], np.int64)
        asked = np.zeros(len(stems), bool)
        text, _ = _within(size)
        asked[stem_of[word[np.isin(text, list(hypotheses))]]] = True
        related = [
            [stems[s] for s in synonyms(stem) if s in stems and s != stem] if wanted else []
            for stem, wanted in zip(stems, asked.tolist(), strict=True)
        ]
        return cls(size, word, stem_of, _Lists.of(related))


@dataclasses.dataclass
class _Lists:
    """A list of numbers for each of many rows, one after the other."""

    size: Ints  # (rows)
    values: Ints

    @classmethod
    def of(cls, lists: list[list[int]]) -> _Lists:
        size = np.array([len(some) for some in lists], np.int64)
        return cls(size, np.array(list(itertools.chain.from_iterable(lists)), np.int64))

    def at(self, rows: Ints) -> tuple[Ints, Ints]:
        """The lists of these rows: (place among `rows`, value) of each element."""
        row, place = _within(self.size[rows])
        return row, self.values[(np.cumsum(self.size) - self.size)[rows][row] + place]

    def turned(self, count: int) -> _Lists:
        """For each value below `count` the rows that have it."""
        row, _ = _within(self.size)
        order = np.argsort(self.values, kind="stable")
        return _Lists(np.bincount(self.values, minlength=count), row[order])


@dataclasses.dataclass
class _Texts:
    """The words of some texts, one text after the other, and what the references among them
    have."""

    size: Ints  # (texts): words
    start: Ints  # (texts): where the first word stands
    key: Ints  # (words): a number for a word with the count of equal ones behind it; that of
    # words in references, from 1, else 0
    stem: Ints  # (words)
    related: _Lists  # (stems): of hypotheses, their synonyms in any reference
    place_of: NDArray[np.int32]  # (references, keys): place of the word in the text, or -1
    has_stem: Bools  # (references, stems)
    has_synonym: Bools  # (references, stems): whether it has a synonym of the stem

    @classmethod
    def of(cls, known: _Words, chosen: list[int], references: int) -> _Texts:
        """Texts by number; the first `references` are references."""
        size = known.size[chosen]
        text, place = _within(size)
        word = known.word[(np.cumsum(known.size) - known.size)[chosen][text] + place]
        stem, stems = _compact(known.stem_of[word], len(known.related.size))
        word, distinct = _compact(word, len(known.stem_of))
        later = _later(text * len(distinct) + word, place)
        own = text < references
        key = word * (later.max(initial=0) + 1) + later
        key = _numbered(key, own)
        place_of = np.full((references, key.max(initial=0) + 1), -1, np.int32)
        place_of[text[own], key[own]] = place[own]
        has_stem = np.zeros((references, len(stems)), bool)
        has_stem[text[own], stem[own]] = True

        local = np.full(len(known.related.size), -1)
        local[stems] = np.where(np.logical_or.reduce(has_stem, axis=0), np.arange(len(stems)), -1)
        row, other = known.related.at(stems)
        there = local[other] >= 0
        related = _Lists(np.bincount(row[there], minlength=len(stems)), local[other[there]])
        has_synonym = np.zeros_like(has_stem)
        place, other = related.turned(len(stems)).at(stem[own])
        has_synonym[text[own][place], other] = True
        return cls(
            size, np.cumsum(size) - size, key, stem, related, place_of, has_stem, has_synonym
        )


def _scores(texts: _Texts, left: Ints, right: Ints) -> Floats:
    """METEOR of each pair of a hypothesis left[n] and a reference right[n]."""
    # Words of all hypotheses, pair by pair, and the place of the partner of each.
    pair, place = _within(texts.size[left])
    at = texts.start[left][pair] + place
    reference = right[pair]
    match = _cells(texts.place_of, reference, texts.key[at]).astype(np.int64)
    ours = np.flatnonzero(match < 0)
    possible = texts.has_stem | texts.has_synonym
    ours = ours[_cells(possible, reference[ours], texts.stem[at[ours]])]

    # Words that are free in the references of pairs where a partner is possible.
    open_pairs = np.unique(pair[ours])
    number = np.full(len(left), -1)
    number[open_pairs] = np.arange(len(open_pairs))
    their_pair, their_place = _within(texts.size[right[open_pairs]])
    begin = np.cumsum(texts.size[right[open_pairs]]) - texts.size[right[open_pairs]]
    taken = np.flatnonzero((match >= 0) & (number[pair] >= 0))
    free = np.ones(len(their_pair), bool)
    free[begin[number[pair[taken]]] + match[taken]] = False
    their_pair, their_place = their_pair[free], their_place[free]
    their_stem = texts.stem[texts.start[right[open_pairs]][their_pair] + their_place]

    # Equal stems, last with last.
    stems = len(texts.related.size)
    a = number[pair[ours]] * stems + texts.stem[at[ours]]
    b = their_pair * stems + their_stem
    a_later, b_later = _later(a, place[ours]), _later(b, their_place)
    deep = max(a_later.max(initial=0), b_later.max(initial=0)) + 1
    both = np.intersect1d(a * deep + a_later, b * deep + b_later, True, return_indices=True)
    match[ours[both[1]]] = their_place[both[2]]
    free = np.ones(len(their_pair), bool)
    free[both[2]] = False

    # Synonyms, pair by pair: each word, from the last, with the last that is free.
    ours = ours[match[ours] < 0]
    ours = ours[_cells(texts.has_synonym, reference[ours], texts.stem[at[ours]])]
    what = texts.stem[at[ours]]
    place, wanted = texts.related.at(what)
    there = _cells(texts.has_stem, reference[ours[place]], wanted)
    place, wanted = place[there], wanted[there]
    free &= np.isin(b, number[pair[ours[place]]] * stems + wanted)
    allowed = set((what[place] * stems + wanted).tolist())
    waiting: dict[int, list[tuple[int, int]]] = {}
    columns = (their_pair, their_place, their_stem)
    for n, where, stem in zip(*(column[free].tolist() for column in columns), strict=True):
        waiting.setdefault(n, []).append((where, stem))
    columns = (ours[::-1], number[pair[ours]][::-1], what[::-1])
    for element, n, stem in zip(*(column.tolist() for column in columns), strict=True):
        candidates = waiting.get(n, [])
        for c in range(len(candidates) - 1, -1, -1):
            if stem * stems + candidates[c][1] in allowed:
                match[element] = candidates.pop(c)[0]
                break

    # A chunk is a run of matches that are neighbours in both texts.
    matched = match >= 0
    follows = matched[1:] & (match[1:] == match[:-1] + 1) & matched[:-1] & (pair[1:] == pair[:-1])
    matches = np.bincount(pair, matched, len(left))
    chunks = matches - np.bincount(pair[1:], follows, len(left))
    some = matches > 0
    matches, chunks = matches[some], chunks[some]
    precision, recall = matches / texts.size[left[some]], matches / texts.size[right[some]]
    mean = (precision * recall) / (ALPHA * precision + (1 - ALPHA) * recall)
    values = np.zeros(len(left))
    values[some] = (1 - GAMMA * (chunks / matches) ** BETA) * mean
    return values


def _within(size: Ints) -> tuple[Ints, Ints]:
    """(group, place in the group) of each element of groups of these sizes."""
    group = np.repeat(np.arange(len(size)), size)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(size) - size, size)


def _cells(table: NDArray[Any], row: Ints, column: Ints) -> NDArray[Any]:
    """table[row, column], faster."""
    return table.ravel().take(row * table.shape[1] + column)


def _compact(numbers: Ints, count: int) -> tuple[Ints, Ints]:
    """Numbers below `count` as places among the different ones, and these."""
    there = np.zeros(count, bool)
    there[numbers] = True
    return (np.cumsum(there) - 1)[numbers], np.flatnonzero(there)


def _numbered(key: Ints, own: NDArray[np.bool_]) -> Ints:
    """Each key as its place, from 1, among the sorted different `key[own]`; 0 for any other."""
    if key.max(initial=0) < TABLE:  # by a table, which is faster and takes as much room as the key
        number = np.zeros(key.max(initial=0) + 1, np.int64)
        number[key[own]] = 1
        number = np.cumsum(number) * number
        return number[key]
    known = np.unique(key[own])
    place = np.searchsorted(known, key)
    there = place < len(known)
    there[there] = known[place[there]] == key[there]
    return np.where(there, place + 1, 0)


def _later(group: Ints, place: Ints) -> Ints:
    """How many elements of the same group have a higher place."""
    order = np.argsort(group * (place.max(initial=0) + 1) - place)
    ordered = group[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    later = np.empty(len(group), np.int64)
    later[order] = np.arange(len(group)) - np.repeat(begins, np.diff(begins, append=len(group)))
    return later


def source() -> str:
    """The note on whose rules these are: the tokeniser's have changed between versions."""
    return f"METEOR with the words and stems of NLTK {importlib.metadata.version('nltk')}."


def _stem(given: Iterable[str]) -> Iterator[str]:
    """NLTK's Porter stem of each word.

    A third of the words end in nothing that a rule takes: they are not asked for. Most others have
    the stem of Porter's own algorithm, which PyStemmer finds twenty times as fast.
    """
    import Stemmer  # type: ignore[import-not-found]

    given = list(given)
    plain = [w for w in given if w.isascii() and w.isalpha() and not _OWN_RULES.fullmatch(w)]
    porter = Stemmer.Stemmer("porter")  # a new one: threads must not share it
    found = dict(zip(plain, porter.stemWords(plain), strict=True))
    return (found.get(word) or _by_nltk(word) for word in given)


@functools.cache
def _by_nltk(word: str) -> str:
    return str(_stemmer().stem(word)) if word.endswith(_STEMMED) else word


@functools.cache
def _stemmer() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
