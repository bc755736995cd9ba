"""The adversarial tests of the Ev2R study (Akhtar et al. 2024, section 4.1, tables 5 and 6): what
a measure of evidence does when the evidence is spoilt, and when it only looks different.

A perturbation maps predictions to new ones and never touches those it was given. What it draws
depends on the seed, its name and the claim's id; `noise` and `entity_swap` take from other claims.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import re
from collections.abc import Callable, Iterable

import msgspec

from components.datasets.submission import FIRST
from components.errors import ClaimflowError, nearest
from components.records import Claim, Evidence, Prediction
from components.score.averitec import first_asked
from components.score.evidence import gold_pairs
from components.score.numerals import VALUES
from components.score.pairing import by_number

Rng = random.Random
Others = list[Evidence]  # QAs of other claims


@dataclasses.dataclass(frozen=True)
class Perturbation:
    """name; kind: "altering" (the score should drop) or "preserving" (it should stay); about: what
    is done, and where it departs from the study; row: its row in table 5 of the paper, if any."""

    name: str
    kind: str
    about: str
    row: str | None
    change: Callable[[list[Evidence], Rng, Others], list[Evidence]]


def base_of(claims: Iterable[Claim]) -> list[Prediction]:
    """Gold evidence as predictions: the base of the study. Claims without any are left out."""
    found = []
    for claim in claims:
        pairs = gold_pairs(claim)[:FIRST]
        if pairs and claim.label:
            evidence = [Evidence(question=q, answer=a) for q, a in pairs]
            found.append(
                Prediction(id=claim.id, claim=claim.text, evidence=evidence, label=claim.label)
            )
    return found


def sample(predictions: list[Prediction], n: int | None, seed: int) -> list[Prediction]:
    """`n` of the predictions that have evidence, in their order, with the first 10 QAs of each.
    Which these are depends on the seed and on all their ids, which must differ.

    Only those 10 count in scores, and an order or a copy must not change which they are. A question
    with several answers is one QA with each, as in the form of 2024: `asked` would stay as it is
    where evidence is perturbed.
    """
    filled = [
        msgspec.structs.replace(p, evidence=p.evidence[:FIRST], asked=[])
        for p in predictions
        if p.evidence
    ]
    if n is None or n >= len(filled):
        return filled
    ids = sorted((p.id for p in filled), key=by_number)  # whatever order a file has them in
    chosen = set(Rng(seed).sample(ids, n))
    return [p for p in filled if p.id in chosen]


def perturbed(predictions: list[Prediction], name: str, seed: int) -> list[Prediction]:
    """The predictions after the perturbation `name`, without `asked` (see `sample`). The same input
    and seed give the same."""
    test = TESTS.get(name)
    if test is None:
        raise ClaimflowError(
            f"No perturbation '{name}'.{nearest(name, TESTS)} Choices: {', '.join(TESTS)}."
        )
    result = []
    ordered = sorted(predictions, key=lambda p: by_number(p.id))
    place = {p.id: i for i, p in enumerate(ordered)}
    for p in predictions:
        rng = Rng(f"{seed} {name} {p.id}")
        others = _neighbours(ordered, place[p.id], Rng(f"{seed} others {p.id}"))
        evidence = [msgspec.structs.replace(e) for e in p.evidence]
        changed = test.change(evidence, rng, others)
        result.append(msgspec.structs.replace(p, evidence=changed, asked=[]))
    return result


def _neighbours(predictions: list[Prediction], at: int, rng: Rng) -> Others:
    """The QAs of up to 20 other claims."""
    drawn = rng.sample(range(len(predictions) - 1), min(20, len(predictions) - 1))
    return [e for i in drawn for e in predictions[i + (i >= at)].evidence]


# On single texts


def _each_text(change: Callable[[str, Rng], str]) -> Callable[..., list[Evidence]]:
    """A change of every question and answer."""

    def apply(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
        return [
            msgspec.structs.replace(
                e, question=change(e.question, rng), answer=change(e.answer, rng)
            )
            for e in evidence
        ]

    return apply


def _typos(text: str, rng: Rng) -> str:
    words = text.split()
    if not words:
        return text
    for _ in range(math.ceil(len(words) / 10)):
        at = rng.randrange(len(words))
        word = words[at]
        if len(word) > 1:
            i = rng.randrange(len(word) - 1)
            words[at] = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
    return " ".join(words)


def _word_drop(text: str, rng: Rng) -> str:
    from components.assets import stopwords

    return " ".join(word for word in text.split() if word not in stopwords())


_NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d+)*(?:\.\d+)?(?!\w)")


def _num2text(text: str, rng: Rng) -> str:
    return _NUMBER.sub(lambda found: in_words(found.group()), text)


@functools.cache
def in_words(numeral: str) -> str:
    """`1,200` in words; what has over 15 digits stays as it is."""
    from num2words import num2words

    plain = numeral.replace(",", "")
    if sum(map(str.isdigit, plain)) > 15:
        return numeral
    return str(num2words(float(plain) if "." in plain else int(plain)))


def _text2num(text: str, rng: Rng) -> str:
    return re.sub(
        r"[^\W\d_]+", lambda found: str(VALUES.get(found.group().lower(), found.group())), text
    )


def _synonyms(text: str, rng: Rng) -> str:
    return re.sub(r"\b[a-z]{3,}\b", lambda found: _synonym(found.group()), text)


@functools.cache
def _synonym(word: str) -> str:
    """The first other lemma of the first synset of a word whose first sense is a noun."""
    from components.assets import stopwords, wordnet

    net = wordnet()
    senses = [] if word in stopwords() else net.synsets(word)
    if not senses or senses[0].pos() != "n":
        return word
    own = {word, net.morphy(word, "n")}
    names = (name.replace("_", " ") for name in senses[0].lemma_names())
    return next((name for name in names if name.lower() not in own), word)


_SHORT = {
    "is not": "isn't", "are not": "aren't", "was not": "wasn't", "were not": "weren't",
    "do not": "don't", "does not": "doesn't", "did not": "didn't", "has not": "hasn't",
    "have not": "haven't", "had not": "hadn't", "will not": "won't", "would not": "wouldn't",
    "could not": "couldn't", "should not": "shouldn't", "cannot": "can't", "can not": "can't",
    "it is": "it's", "that is": "that's", "there is": "there's", "what is": "what's",
    "who is": "who's", "where is": "where's", "he is": "he's", "she is": "she's", "i am": "I'm",
    "we are": "we're", "you are": "you're", "they are": "they're", "i have": "I've",
    "we have": "we've", "you have": "you've", "they have": "they've", "i will": "I'll",
    "we will": "we'll", "they will": "they'll", "he will": "he'll", "she will": "she'll",
    "it will": "it'll", "let us": "let's",
}  # fmt: skip
_LONG = {short.lower(): long for long, short in _SHORT.items() if long != "can not"}


def _replacing(table: dict[str, str]) -> Callable[[str, Rng], str]:
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, table)) + r")\b", re.IGNORECASE)

    def put(found: re.Match[str]) -> str:
        text = found.group()
        new = table[text.lower()]
        return new[0].upper() + new[1:] if text[0].isupper() else new

    return lambda text, rng: pattern.sub(put, text.replace("’", "'"))


def _doubled_words(text: str, rng: Rng) -> str:
    words = text.split()
    twice = set(rng.sample(range(len(words)), math.ceil(len(words) / 5)))
    return " ".join(f"{word} {word}" if i in twice else word for i, word in enumerate(words))


def _shifted_numbers(text: str, rng: Rng) -> str:
    def shift(found: re.Match[str]) -> str:
        numeral = found.group()
        value = float(numeral.replace(",", "")) * rng.choice((0.9, 1.1))
        decimals = len(numeral.partition(".")[2])
        new = f"{value:,.{decimals}f}" if "," in numeral else f"{value:.{decimals}f}"
        return new if new != numeral else f"{value + rng.choice((-1, 1)):.{decimals}f}"

    return _NUMBER.sub(shift, text)


# On the evidence as a whole


def _no_answers(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    return [msgspec.structs.replace(e, answer="") for e in evidence]


_BOOLEAN = re.compile(r"(?i)(yes|no)\b[.,:;]?\s+")


def _shuffled_words(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    """A yes or no in front of its explanation stays there."""

    def shuffle(text: str) -> str:
        words = text.split()
        rng.shuffle(words)
        return " ".join(words)

    found = []
    for e in evidence:
        kept = _BOOLEAN.match(e.answer)
        start = kept.group() if kept else ""
        answer = start + shuffle(e.answer[len(start) :])
        found.append(msgspec.structs.replace(e, question=shuffle(e.question), answer=answer))
    return found


def _noise(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    middle = len(evidence) // 2
    added = [msgspec.structs.replace(rng.choice(others))] if others else []
    return [*evidence[:middle], *added, *evidence[middle:]]


def _copy_of_one(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    return [*evidence, msgspec.structs.replace(rng.choice(evidence))]


def _other_order(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    return rng.sample(evidence, len(evidence))


def _thrice(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    return [msgspec.structs.replace(e) for _ in range(3) for e in evidence]


def _once(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    return [evidence[i] for i in first_asked([e.question for e in evidence])]


_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)*")


def _swapped_names(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    """Each name becomes one of another claim with as many words, the same everywhere."""
    pool: dict[int, list[str]] = {}
    for name in _names(others):
        pool.setdefault(len(name.split()), []).append(name)
    swaps: dict[str, str] = {}
    for name in _names(evidence):
        choices = [other for other in pool.get(len(name.split()), []) if other != name]
        if choices:
            swaps[name] = rng.choice(choices)
    if not swaps:
        return evidence
    longest_first = sorted(swaps, key=len, reverse=True)
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, longest_first)) + r")\b")

    def swap(text: str) -> str:
        return pattern.sub(lambda found: swaps[found.group()], text)

    return [
        msgspec.structs.replace(e, question=swap(e.question), answer=swap(e.answer))
        for e in evidence
    ]


def _names(evidence: list[Evidence]) -> list[str]:
    texts = [text for e in evidence for text in (e.question, e.answer)]
    return list(dict.fromkeys(name for text in texts for name in _NAME.findall(text)))


def _summary(evidence: list[Evidence], rng: Rng, others: Others) -> list[Evidence]:
    """Of each answer the sentence that shares most words with the question."""

    def nearest_sentence(e: Evidence) -> str:
        sentences = re.split(r"(?<=[.!?])\s+", e.answer.strip())
        asked = set(re.findall(r"\w+", e.question.lower()))
        return max(sentences, key=lambda s: len(asked & set(re.findall(r"\w+", s.lower()))))

    return [msgspec.structs.replace(e, answer=nearest_sentence(e)) for e in evidence]


ALTERING, PRESERVING = "altering", "preserving"

TESTS: dict[str, Perturbation] = {
    test.name: test
    for test in (
        Perturbation(
            "completeness", ALTERING, "all answers blank", "Completeness", _no_answers
        ),
        Perturbation(
            "random_shuffle", ALTERING,
            "words shuffled in each question and answer; of a yes or no with an explanation only "
            "the explanation", "Random shuffle", _shuffled_words,
        ),
        Perturbation(
            "contraction", PRESERVING, "contractions put in (we are → we're), as the paper says",
            "Invariance contraction", _each_text(_replacing(_SHORT)),
        ),
        Perturbation(
            "num2text", PRESERVING, "numerals in words", "Invariance num2text",
            _each_text(_num2text),
        ),
        Perturbation(
            "text2num", PRESERVING, "each number word as a numeral", "Invariance text2num",
            _each_text(_text2num),
        ),
        Perturbation(
            "synonyms", PRESERVING,
            "nouns replaced by the first other lemma of their first synset in WordNet; a noun is "
            "a word whose first sense is one, for want of a tagger", "Invariance synonyms",
            _each_text(_synonyms),
        ),
        Perturbation(
            "redundancy_sentence", PRESERVING, "a random QA once more at the end",
            "Redundancy sent", _copy_of_one,
        ),
        Perturbation(
            "redundancy_words", PRESERVING, "20 % of the words doubled", "Redundancy words",
            _each_text(_doubled_words),
        ),
        Perturbation(
            "fluency_typos", PRESERVING,
            "neighbouring characters swapped in 10 % of the words, drawn with replacement",
            "Fluency", _each_text(_typos),
        ),
        Perturbation(
            "fluency_word_drop", PRESERVING, "NLTK's stop-words removed, lower-case ones",
            "Fluency", _each_text(_word_drop),
        ),
        Perturbation(
            "noise", PRESERVING, "a random QA of another claim in the middle", "Noise", _noise
        ),
        Perturbation(
            "argument_structure", PRESERVING, "QAs in another order", "Argument structure",
            _other_order,
        ),
        Perturbation(
            "expansion", PRESERVING, "contractions written out, as the study's code does", None,
            _each_text(_replacing(_LONG)),
        ),
        Perturbation(
            "duplicates", PRESERVING, "every QA three times (Schlichtkrull et al. 2024)", None,
            _thrice,
        ),
        Perturbation(
            "repeats_removed", PRESERVING, "of QAs with the same question the first", None, _once
        ),
        Perturbation(
            "summary", PRESERVING,
            "of each answer the sentence nearest to the question, where the study's code asks T5",
            None, _summary,
        ),
        Perturbation(
            "entity_swap", ALTERING,
            "names replaced by names of other claims, where the study's code asks Wikidata", None,
            _swapped_names,
        ),
        Perturbation(
            "number_shift", ALTERING, "numerals 10 % up or down", None,
            _each_text(_shifted_numbers),
        ),
    )
}  # fmt: skip
