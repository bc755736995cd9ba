"""Tokens for lexical retrieval."""

from __future__ import annotations

import bm25s
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.text import check_terms, nltk_words, space_words, terms, well_formed


def test_stop_words_and_single_letters_go_and_stems_stay() -> None:
    assert terms(["The Mayors of Orla denied the claims, a U.S. paper says."]) == [
        ["mayor", "orla", "deni", "claim", "paper", "sai"]
    ]
    assert terms(["The mayors"], stopwords=None, stemmer=None) == [["the", "mayors"]]


@given(
    st.lists(st.text(st.characters(codec="ascii"), max_size=60), max_size=4),
    st.sampled_from([None, "english"]),
    st.sampled_from([None, "porter", "english"]),
)
def test_tokens_of_ascii_text_are_those_of_bm25s(
    texts: list[str], stopwords: str | None, stemmer: str | None
) -> None:
    theirs = bm25s.tokenize(
        texts,
        stopwords=stopwords or [],
        stemmer=Stemmer.Stemmer(stemmer) if stemmer else None,
        return_ids=False,
        show_progress=False,
    )
    assert terms(texts, stopwords, stemmer) == theirs


def test_scripts_without_spaces_give_pairs_of_characters() -> None:
    assert terms(["北京大学 opened in 1898"]) == [["北京", "京大", "大学", "open", "1898"]]
    assert terms(["東京タワー"]) == [["東京", "京タ", "タワ", "ワー"]]
    assert terms(["水"]) == [["水"]]


def test_marks_and_right_to_left_text_stay_whole() -> None:
    assert terms(["हिन्दी भाषा"], stemmer=None) == [["हिन्दी", "भाषा"]]
    assert terms(["كِتَاب جديد"], stemmer=None) == [["كِتَاب", "جديد"]]
    assert terms(["Zürich naïve"], stemmer=None) == [["zürich", "naïve"]]


def test_lone_surrogates_are_replaced() -> None:
    assert well_formed("a\ud800b") == "a?b"
    assert well_formed("plain") == "plain"
    assert terms(["town\ud800 hall"]) == [["town", "hall"]]
    assert nltk_words(["town\ud800 hall"]) == [["town", "?", "hall"]]


@given(st.text(max_size=40))
def test_any_text_survives(text: str) -> None:
    assert all(all(tokens) for tokens in terms([text]))
    assert space_words([text]) == [text.split()]


def test_unknown_names_are_errors_with_the_choices() -> None:
    with pytest.raises(ClaimflowError, match="Did you mean 'porter'"):
        check_terms("english", "portr")
    with pytest.raises(ClaimflowError, match="No stop-word list 'german'"):
        check_terms("german", None)
