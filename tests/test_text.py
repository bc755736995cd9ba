"""Index terms in every script, and text that no encoder takes (pitfall 17)."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.records import Case, Claim, Passage, Query
from components.retrieve.bm25 import Bm25s
from components.retrieve.rank import RankBm25
from components.retrieve.tfidf import Tfidf
from components.step import Context
from components.text import nltk_words, space_words, terms, well_formed


def words(text: str) -> list[str]:
    return terms([text], stopwords=None, stemmer=None)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The U.S. bank's rate: 5,3 % a year", ["the", "bank", "rate", "year"]),
        ("STRAẞE Größe naïve", ["straße", "größe", "naïve"]),
        ("疫苗是安全的", ["疫苗", "苗是", "是安", "安全", "全的"]),
        ("水 と 疫苗", ["水", "と", "疫苗"]),
        ("ワクチンは安全です", ["ワク", "クチ", "チン", "ンは", "は安", "安全", "全で", "です"]),
        ("COVID疫苗2021年", ["covid", "疫苗", "2021", "年"]),
        ("백신은 안전하다", ["백신은", "안전하다"]),
        ("اللقاح آمن", ["اللقاح", "آمن"]),
        ("החיסון בטוח", ["החיסון", "בטוח"]),
        ("टीका सुरक्षित है", ["टीका", "सुरक्षित", "है"]),
        ("вакцина безопасна", ["вакцина", "безопасна"]),
        ("", []),
        ("a I ? 😀", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("政府表示疫苗是安全的。", "疫苗安全吗"),
        ("ワクチンは安全です。", "ワクチンの安全性"),
        ("วัคซีนปลอดภัย", "วัคซีน"),
        ("اللقاح آمن للأطفال.", "هل اللقاح آمن؟"),
        ("החיסון בטוח לילדים.", "האם החיסון בטוח?"),
    ],
)
@pytest.mark.parametrize("step", [Bm25s(), Tfidf()], ids=["bm25s", "tfidf"])
def test_every_script_is_found(step: Any, text: str, query: str, ctx: Context) -> None:
    assert first(step, ["The bridge is closed.", text, "桥梁关闭了"], query, ctx) == 1


@pytest.mark.parametrize(
    "step", [Bm25s(), Tfidf(), RankBm25(), RankBm25(tokens="whitespace")], ids=repr
)
def test_lone_surrogates_cost_nothing(step: Any, ctx: Context) -> None:
    texts = ["\ud83d the bridge closed", "bank rate", "river fell", "vaccine trial", "\udc00"]
    assert first(step, texts, "bridge closed \ud800", ctx) == 0


def test_a_single_line_of_two_megabytes(ctx: Context) -> None:
    line = "bridge closed river " * 100_000
    assert first(Bm25s(), ["bank rate", line], "river", ctx) == 1


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def first(step: Any, texts: list[str], query: str, ctx: Context) -> int:
    case = Case(
        claim=Claim(id="1", text=""),
        passages=[Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)],
        queries=[Query(text=query)],
        digests={"passages": repr(texts)},
    )
    return int(step.run([case], ctx)[0].hits[0].passage)


def test_composed_and_decomposed_letters_are_one_term() -> None:
    text = "Café in São Paulo, Größe, Việt Nam, 한국어"
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))


def test_stop_words_and_stems() -> None:
    [found] = terms(["The banks were raising it and the rates of the bank"])
    assert found == ["bank", "were", "rais", "rate", "bank"]
    assert terms(["Häuser des Hauses"], stemmer="german") == [["haus", "des", "haus"]]


def test_baseline_tokens_keep_their_case() -> None:
    assert nltk_words(["The bank's rate isn't 5%."]) == [
        ["The", "bank", "'s", "rate", "is", "n't", "5", "%", "."]
    ]
    assert space_words([" The  bank's\trate\n"]) == [["The", "bank's", "rate"]]


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=127)))
def test_plain_text_has_the_tokens_of_bm25s(text: str) -> None:
    import bm25s

    theirs = bm25s.tokenize([text], stopwords=None, return_ids=False, show_progress=False)
    assert words(text) == theirs[0]


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_has_terms_that_encode(text: str) -> None:
    assert all(word and word.encode() for word in words(text))
    well_formed(text).encode()
    assert well_formed(well_formed(text)) == well_formed(text)


@given(st.lists(st.text(), max_size=4))
def test_a_text_has_its_terms_in_any_company(texts: list[str]) -> None:
    assert terms(texts) == [terms([text])[0] for text in texts]


@given(st.text(st.characters(max_codepoint=0x2030) | st.sampled_from("éüß’“”–…€中ァก\u0301")))
def test_words_of_latin_text_are_those_of_any_script(text: str) -> None:
    """A text of Latin letters takes a shorter way to the same words."""
    found = terms([text, f"{text} 中"], stopwords=None, stemmer=None)
    assert found[0] == [word for word in found[1] if word != "中"] or "中" in text
