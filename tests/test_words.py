"""Words of many texts at once are those of NLTK's `word_tokenize`, text by text."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.assets import nltk_ready
from components.words import GAP, sentences, tokenise

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "averitec"

# Pieces that NLTK's rules look at, at their beginning, inside and at their end.
PIECES = [
    "a",
    "B.",
    "U.S.",
    "Mr.",
    "e.g.",
    "3.5",
    "1,000",
    "2:30",
    "foo.)",
    '(foo."',
    "so?!",
    "...",
]
PIECES += ["'", "''", '"', '""', "``", "`", "'s", "can't", "a's'", "dogs'", "d'ye", "'tis", "'twas"]
PIECES += [
    "cannot",
    "gonna",
    "wanna",
    "gimme",
    "more'n",
    "Cannot.",
    "“so”",
    "‘so’",
    "’",
    "it’s",
    "»",
]
PIECES += ["--", "—", "$5", "50%", "a@b.c", "#x", "&", "*", "<i>", "[1]", "{", "}", ",", ":", ";"]
PIECES += [
    "\n",
    "\t",
    "\u00a0",
    " ",
    "",
    "?",
    "!",
    ".",
    "..",
    "a.\n",
    "x\ny",
    "İ",
    "ß",
    "日本。",
    GAP,
]
PIECES += ["...", "»", GAP]
texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=9).flatmap(
    lambda pieces: st.sampled_from(["", " "]).map(lambda gap: gap.join(pieces))
)


def nltk_words(text: str) -> list[str]:
    nltk_ready()
    from nltk.tokenize import word_tokenize

    return word_tokenize(text)


ABBREVIATED = ["U.S.", "Mr.", "a.m.", "J.", "No.", "5.", "3.5.", "co-op.", "e.g.", "he.", "What?"]
FOLLOWING = [
    "end.”",
    'end."',
    "U.S.”",
    "what?')",
    "end.)]",
    "a.’”\n",
    "The",
    "the",
    "He",
    "Lee",
    "Smith",
    "washington",
    "5",
    "2020,",
    "It!",
    "A",
    "is",
    "--",
    "“There",
    '"In',
    "(Ed.",
    "(IPS)?",
    "it?",
    "?",
    "...",
]
GAPS = st.sampled_from([*" " * 9, "\n", "\n\n", "\xa0", "  ", "\t", "\r\n", ""])


@given(
    st.lists(
        st.tuples(st.sampled_from(ABBREVIATED + FOLLOWING), GAPS).map("".join), max_size=12
    ).map("".join)
)
@settings(max_examples=800, deadline=None)
def test_sentences_are_nltks(text: str) -> None:
    nltk_ready()
    from nltk.tokenize import sent_tokenize

    assert sentences(text) == sent_tokenize(text)
    assert tokenise([text]) == [nltk_words(text)]


@given(st.lists(texts, max_size=6))
@settings(max_examples=400, deadline=None)
def test_equal_to_nltk(many: list[str]) -> None:
    assert tokenise(many) == [nltk_words(text) for text in many]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ()),
        ("The fine is 40 crowns.", ("The", "fine", "is", "40", "crowns", ".")),
        ('He said "no."', ("He", "said", "``", "no", ".", "''")),
        ("Mr. Lee can't.", ("Mr.", "Lee", "ca", "n't", ".")),
        ("Is it? It is. So", ("Is", "it", "?", "It", "is", ".", "So")),
    ],
)
def test_worked(text: str, words: tuple[str, ...]) -> None:
    assert tokenise([text]) == [nltk_words(text)] == [list(words)]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no AVeriTeC data")
def test_equal_on_real_texts() -> None:
    many = [
        text
        for path in sorted((DATA / "predictions_dev").glob("*.json"))
        for record in json.loads(path.read_text())
        for e in record["evidence"]
        for text in (e["question"], f"{e['question']} {e['answer']}")
    ]
    many = many[::4]  # benchmarks.tokenise compares all
    assert len(many) > 2500
    assert tokenise(many) == [nltk_words(text) for text in many]
