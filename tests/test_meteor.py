"""METEOR equals NLTK's."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.assets import nltk_ready
from components.score import meteor as module
from components.score.meteor import meteor
from components.score.wordnet import synonyms

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "averitec"


def nltk_meteor(hypothesis: str, reference: str) -> float:
    nltk_ready()
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import single_meteor_score

    return float(single_meteor_score(word_tokenize(reference), word_tokenize(hypothesis)))


@pytest.mark.parametrize(
    ("hypothesis", "reference", "value"),
    [
        ("the cat sat", "the cat sat", 0.981481),
        ("The CAT sat", "the cat sat", 0.981481),
        ("cat", "cat", 0.5),
        ("cats running", "cat run", 0.9375),
        ("auto", "car", 0.5),
        ("automobile", "car", 0.0),  # looked up as its stem
        ("the cat", "the cat sat on the mat", 0.178571),
        ("the cat sat on the mat", "the cat", 0.416667),
        ("", "cat", 0.0),
        ("cat", "", 0.0),
        ("", "", 0.0),
        ("cat", "house", 0.0),
    ],
)
def test_worked_values(hypothesis: str, reference: str, value: float) -> None:
    assert meteor(hypothesis, reference) == pytest.approx(value, abs=5e-7)
    assert nltk_meteor(hypothesis, reference) == pytest.approx(value, abs=5e-7)


# Words that meet in every stage, again and again: equal, equal stems, synonyms, none.
WORDS = ["car", "auto", "automobile", "cars", "run", "running", "runs", "big", "large", "Large"]
WORDS += ["the", "the", ".", "big-town", "film", "movie"]
sentences = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@given(sentences, sentences)
@settings(max_examples=300, deadline=None)
def test_equals_nltk_on_repeated_and_related_words(hypothesis: str, reference: str) -> None:
    ours = meteor(hypothesis, reference)
    assert ours == pytest.approx(nltk_meteor(hypothesis, reference), abs=1e-9)


@given(st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_equals_nltk_on_any_text(hypothesis: str, reference: str) -> None:
    ours = meteor(hypothesis, reference)
    assert ours == pytest.approx(nltk_meteor(hypothesis, reference), abs=1e-9)
    assert 0 <= ours < 1


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=40))
def test_keys_are_numbered_alike_with_and_without_a_table(found: list[tuple[int, bool]]) -> None:
    key = np.array([k for k, _ in found], np.int64)
    own = np.array([o for _, o in found], bool)
    known = sorted({k for k, o in found if o})
    expected = [known.index(k) + 1 if k in known else 0 for k, _ in found]
    for table in (module.TABLE, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "TABLE", table)
            assert module._numbered(key, own).tolist() == expected


def test_a_word_repeated_half_a_million_times() -> None:
    assert 0 < meteor("word " * 500_000, "a word") < 0.5


def test_first_use_in_many_threads_at_once() -> None:
    code = """if True:
        from concurrent.futures import ThreadPoolExecutor
        from components.score.meteor import meteor
        pairs = [("auto", "car"), ("cats running", "cat run")] * 8
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda pair: meteor(*pair), pairs))
        assert found == [0.5, 0.9375] * 8, found
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_synonyms_are_those_of_nltks_reader() -> None:
    nltk_ready()
    from nltk.corpus import wordnet

    lemmas = sorted(wordnet.all_lemma_names())[::50]
    irregular = [form for part in "nvar" for form in sorted(wordnet._exception_map[part])[::50]]
    endings = ("", "s", "es", "ed", "ing", "er", "est", "men", "ies")
    for word in [lemma + ending for lemma in lemmas for ending in endings] + irregular:
        theirs = {name for synset in wordnet.synsets(word) for name in synset.lemma_names()}
        assert synonyms(word) == {name for name in theirs if "_" not in name}, word


SUFFIXES = (
    "ational tional enci anci izer bli abli alli entli eli ousli ization ation ator alism iveness "
    "fulness ousness aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance "
    "ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize e ll s es ies ed ied "
    "eed ing y sses ss"
)


def test_stems_are_those_of_nltks_stemmer() -> None:
    nltk_ready()
    from nltk.corpus import wordnet
    from nltk.stem.porter import PorterStemmer

    stemmer = PorterStemmer()
    lemmas = sorted(wordnet.all_lemma_names())[::10]
    # Before what stands last in a word: a vowel, a consonant, a double one.
    endings = [a + b for a in ("a", "t", "ll") for b in "abcdefghijklmnopqrstuvwxyz0'"]
    # And after a start of few letters, up to three of the suffixes that rules take.
    draw = random.Random(13)
    made = {
        "".join(draw.choices("aeioubcdhklstvwxz", k=draw.randint(0, 5)))
        + "".join(draw.choices(SUFFIXES.split(), k=draw.randint(1, 3)))
        for _ in range(50_000)
    }
    words = [
        *lemmas, *(lemma + e for lemma in lemmas[::20] for e in endings), *stemmer.pool, *made
    ]  # fmt: skip
    for word, stem in zip(words, module._stem(words), strict=True):
        assert stem == stemmer.stem(word), word


@pytest.mark.skipif(not DATA.is_dir(), reason="no AVeriTeC data")
def test_equals_nltk_on_real_pairs() -> None:
    claims = json.loads((DATA / "dev.json").read_text())
    systems = [json.loads(p.read_text()) for p in sorted((DATA / "predictions_dev").glob("*.json"))]
    draw = random.Random(13)
    assert systems
    for _ in range(500):
        number = draw.randrange(len(claims))
        evidence = draw.choice(draw.choice(systems)[number]["evidence"])
        question = draw.choice(claims[number]["questions"])
        reference = f"{question['question']} {question['answers'][0]['answer']}"
        hypothesis = f"{evidence['question']} {evidence['answer']}"
        ours = meteor(hypothesis, reference)
        assert ours == pytest.approx(nltk_meteor(hypothesis, reference), abs=1e-9)
