"""BM25 on postings: the packages' scores, whatever the text, also when read back from the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.records import Case, Claim, Hit, Passage, Query
from components.retrieve import bm25, postings
from components.retrieve.bm25 import Bm25s
from components.retrieve.okapi import Okapi
from components.retrieve.postings import Postings, Weighted
from components.retrieve.search import Search
from components.step import Context, release_models
from components.text import NltkWords, SpaceWords, Words, analyse

WORDS = ["the", "bank", "rate", "Rate", "vaccine", "bridge", "of", "it's", "closed."]
stores = st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), max_size=9)
queries = st.lists(st.sampled_from([*WORDS, "unheard"]), max_size=15).map(" ".join)


@given(stores, queries)
@settings(max_examples=150, deadline=None)
def test_okapi_scores_are_the_packages_to_the_last_bit(texts: list[str], query: str) -> None:
    from rank_bm25 import BM25Okapi

    step = Okapi(tokens="whitespace")
    corpus = [text.split() for text in texts]
    index = step.weigh(Postings.of(texts, step.analysis()))
    ours = index.scores(query.split())
    if any(corpus):
        theirs = BM25Okapi(corpus).get_scores(query.split())
        found = [not set(query.split()).isdisjoint(passage) for passage in corpus]
        assert np.array_equal(ours, np.where(found, theirs, -np.inf))
    else:
        assert np.array_equal(ours, np.full(len(texts), -np.inf))


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
@given(texts=stores, query=queries)
@settings(max_examples=60, deadline=None)
def test_bm25s_scores_are_the_packages_to_the_last_bit(
    method: str, texts: list[str], query: str
) -> None:
    import bm25s

    step = Bm25s(method=method, stopwords=None, stemmer=None, k1=1.2, b=0.6)
    corpus = analyse(texts, step.analysis())
    [asked] = analyse([query], step.analysis())
    ours = step.weigh(Postings.of(texts, step.analysis())).scores(asked)
    known = set().union(*corpus)
    if not known.intersection(asked):
        assert np.array_equal(ours, np.full(len(texts), -np.inf))
        return
    theirs = bm25s.BM25(k1=1.2, b=0.6, method=method, backend="numpy")
    theirs.index(corpus, show_progress=False, create_empty_token=False)
    found = [not set(asked).isdisjoint(passage) for passage in corpus]
    assert ours.dtype == np.float32
    assert np.array_equal(ours, np.where(found, theirs.get_scores(asked), -np.inf))


def test_postings_worked() -> None:
    found = Postings.of(["b a b", "", "a c"], SpaceWords())
    assert found.terms == {"b": 0, "a": 1, "c": 2}
    assert found.start.tolist() == [0, 1, 3, 4]
    assert found.docs.tolist() == [0, 0, 2, 2]
    assert found.count.tolist() == [2, 1, 1, 1]
    assert found.lengths.tolist() == [3, 0, 2]
    assert found.frequency.tolist() == [1, 2, 1]


@given(st.lists(st.text(max_size=30), max_size=12))
@settings(max_examples=50, deadline=None)
@pytest.mark.parametrize("analysis", [Words(), NltkWords(), SpaceWords()], ids=type)
def test_blocks_change_nothing(analysis: Any, texts: list[str]) -> None:
    size = postings._BLOCK
    whole = Postings.of(texts, analysis)
    try:
        postings._BLOCK = 2
        parted = Postings.of(texts, analysis)
    finally:
        postings._BLOCK = size
    assert list(parted.terms) == list(whole.terms)
    for name in ("start", "docs", "count", "lengths"):
        assert np.array_equal(getattr(parted, name), getattr(whole, name))
    assert whole.lengths.tolist() == [len(terms) for terms in analyse(texts, analysis)]


def hits(step: Search, texts: list[str], ctx: Context) -> list[Hit]:
    case = Case(
        claim=Claim(id="1", text=""),
        passages=[Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)],
        queries=[Query(text="bank rate the the of")],
        digests={"passages": "texts"},
    )
    release_models()  # or the index that is still in memory would be searched
    return step.run([case], ctx)[0].hits


@pytest.mark.parametrize(
    "step",
    [Bm25s(), Bm25s(method="bm25+"), Okapi(tokens="nltk"), Okapi(tokens="whitespace")],
    ids=repr,
)
def test_an_index_from_the_cache_finds_the_same(
    step: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"The bank raised its rate {'of it ' * n} \ud800." for n in range(20)] + [""]
    plain = hits(step, texts, Context(Cache(tmp_path / "one")))
    monkeypatch.setattr(bm25, "KEPT", 0)
    kept = Context(Cache(tmp_path / "two"))
    assert hits(step, texts, kept) == plain
    monkeypatch.setattr(bm25.Bm25, "analysis", None)  # what lies there is not made again
    index = step.index("texts", texts, kept)
    assert isinstance(index, Weighted)
    assert not index.weights.flags.owndata
    assert not index.weights.flags.writeable


def test_a_store_without_terms_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "KEPT", 0)
    assert hits(Bm25s(), ["!", ""], Context(Cache(tmp_path))) == []
