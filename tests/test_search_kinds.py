"""Retrievers beyond the first ones: parity with packages, values worked by hand, and laws."""

from __future__ import annotations

import importlib
import math
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components import step as step_module
from components.cache import Cache
from components.errors import ClaimflowError
from components.records import Case, Claim, Document, Hit, Passage, Query
from components.retrieve import bm25
from components.retrieve.bm25 import Bm25s
from components.retrieve.cutoff import PrefixCutoff
from components.retrieve.dense import Dense
from components.retrieve.drqa import HashedTfidf
from components.retrieve.encoder import Encoder
from components.retrieve.fulltext import FullText
from components.retrieve.hnsw import Hnsw
from components.retrieve.okapi import LowerBounded, Okapi
from components.retrieve.rank import RankBm25
from components.retrieve.search import Search
from components.retrieve.sentences import SentenceMax
from components.retrieve.title import TitleLookup
from components.step import Context, _parse, code_version, identity
from components.text import terms
from tests.test_retrieve import MODEL, QUERIES, TEXTS


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def case(texts: list[str], *queries: Query | str, titles: list[str | None] | None = None) -> Case:
    return Case(
        claim=Claim(id="1", text=""),
        documents=[Document(id=f"d{i}", title=title) for i, title in enumerate(titles or [])],
        passages=[Passage(id=f"d{i}#0", doc=f"d{i}", text=text) for i, text in enumerate(texts)],
        queries=[Query(text=query) if isinstance(query, str) else query for query in queries],
    )


def hits(step: Any, ctx: Context, made: Case) -> list[Hit]:
    [done] = step.run([made], ctx)
    return list(done.hits)


def found(step: Search, texts: list[str], query: str, ctx: Context) -> list[tuple[int, float]]:
    """(index of the passage, score), best first."""
    return [(int(hit.passage[1:-2]), hit.score) for hit in hits(step, ctx, case(texts, query))]


# Okapi

words = st.sampled_from(["bank", "rate", "bridge", "july", "closed", "vaccine", "river", "fell"])
stores = st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=12)
asked = st.lists(words, min_size=1, max_size=4).map(" ".join)


def rank_bm25_scores(texts: list[str], query: str) -> Any:
    from rank_bm25 import BM25Okapi

    theirs = BM25Okapi(terms(texts, None, None), k1=1.2, b=0.6, epsilon=0.3)
    return theirs.get_scores(terms([query], None, None)[0])


@settings(max_examples=60, deadline=None)
@given(stores.filter(any), asked)
def test_okapi_is_rank_bm25_with_its_floor(ctx: Context, texts: list[str], query: str) -> None:
    step = Okapi(k1=1.2, b=0.6, epsilon=0.3, stopwords=None, stemmer=None)
    expected = rank_bm25_scores(texts, query)
    sharing = {i for i, text in enumerate(texts) if set(text.split()) & set(query.split())}
    ours = dict(found(step, texts, query, ctx))
    assert ours.keys() == sharing
    for i, score in ours.items():
        assert score == pytest.approx(expected[i], abs=2e-6)


def test_a_term_in_most_passages_gets_the_floor(ctx: Context) -> None:
    texts = ["cat sat", "cat cat dog", "bird"]
    rare = math.log(2.5) - math.log(1.5)
    floor = 0.25 * (3 * rare - rare) / 4  # of cat, sat, dog and bird
    step = Okapi(stopwords=None, stemmer=None)
    long = floor * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2))
    assert found(step, texts, "cat", ctx) == [
        (1, pytest.approx(long, abs=1e-6)),
        (0, pytest.approx(floor * 2.5 / (1 + 1.5), abs=1e-6)),
    ]


# BM25L and BM25+


@settings(max_examples=60, deadline=None)
@given(
    stores.filter(any),
    asked,
    st.sampled_from(["bm25l", "bm25+"]),
    st.sampled_from([LowerBounded, Bm25s]),
    st.sampled_from([0, 1.2]),
    st.sampled_from([0, 0.7]),
)
def test_lower_bounds_by_their_formulas(
    ctx: Context,
    texts: list[str],
    query: str,
    method: str,
    kind: type[Bm25s],
    k1: float,
    delta: float,
) -> None:
    """Lv and Zhai 2011: sums over the terms in query and passage; bm25s also counts those that the
    passage lacks. k1 = 0 is the limit: a term counts the same however often it is there."""
    b, size = 0.6, len(texts)
    step = kind(method=method, k1=k1, b=b, delta=delta, stopwords=None, stemmer=None)
    k1 = k1 or 1e-12
    mean = sum(len(text.split()) for text in texts) / size
    expected = {}
    for i, text in enumerate(texts):
        held = text.split()
        parts = []
        for term in query.split():
            df = sum(term in other.split() for other in texts)
            norm = 1 - b + b * len(held) / mean
            tf = held.count(term)
            if not df or (kind is LowerBounded and not tf):
                continue
            if method == "bm25+":
                weight = delta + (k1 + 1) * tf / (k1 * norm + tf)
                parts.append(math.log((size + 1) / df) * weight)
            else:
                c = tf / norm
                weight = (k1 + 1) * (c + delta) / (k1 + c + delta)
                parts.append(math.log((size + 1) / (df + 0.5)) * weight)
        if not set(query.split()).isdisjoint(held):
            expected[i] = sum(parts)
    assert dict(found(step, texts, query, ctx)) == pytest.approx(expected, abs=1e-5)


# Hashed TF-IDF


def test_hashed_tfidf_worked(ctx: Context) -> None:
    texts = ["red fox red fox", "the red hen", "blue hen", "blue sky"]
    idf = {df: max(math.log((4 - df + 0.5) / (df + 0.5)), 0) for df in (1, 2)}
    # The query has red, fox, red fox; "the red" holds a stop-word. Idf of red (df 2) is 0.
    often, once = math.log(3), math.log(2)
    expected = idf[2] ** 2 * often * once + 2 * idf[1] ** 2 * often * once
    assert idf[2] == 0
    assert found(HashedTfidf(), texts, "the red fox", ctx) == [
        (0, pytest.approx(expected, abs=1e-6))
    ]
    assert found(HashedTfidf(length=1), texts, "fox red", ctx) == [
        (0, pytest.approx(idf[1] ** 2 * often * once, abs=1e-6))
    ]


def test_hashed_tfidf_is_scikit_learn_with_its_hash(ctx: Context) -> None:
    """The same numbers by HashingVectorizer, whose hash is the same but for the sign."""
    from sklearn.feature_extraction.text import HashingVectorizer

    texts = ["a" + text.replace("the ", "").replace("The ", "") for text in TEXTS] * 2 + ["rain"]
    query = "bank raised interest rate bridge"
    counter = HashingVectorizer(
        n_features=2**22, alternate_sign=False, norm=None, ngram_range=(1, 2), stop_words=None,
        analyzer=lambda text: [
            gram
            for size in (1, 2)
            for gram in _grams(terms([text], None, None)[0], size)
        ],
    )  # fmt: skip
    counts, wanted = counter.transform(texts), counter.transform([query])
    df = np.diff(counts.tocsc().indptr)
    idf = np.maximum(np.log((len(texts) - df + 0.5) / (df + 0.5)), 0)
    theirs = (counts.log1p().multiply(idf)) @ (wanted.log1p().multiply(idf)).T
    expected = np.asarray(theirs.todense()).ravel()
    ours = dict(found(HashedTfidf(), texts, query, ctx))
    assert ours
    assert ours == pytest.approx({i: s for i, s in enumerate(expected) if s > 0}, abs=1e-5)


def _grams(tokens: list[str], size: int) -> list[str]:
    from bm25s.stopwords import STOPWORDS_EN

    runs = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return [" ".join(run) for run in runs if not set(run) & set(STOPWORDS_EN)]


# Full text


def test_fulltext(ctx: Context) -> None:
    step = FullText()
    assert [i for i, _ in found(step, TEXTS, "bridge", ctx)] == [4, 5]  # the shorter first
    assert {i for i, _ in found(step, TEXTS, "bridges river", ctx)} == {4, 5}  # stems; any
    assert {i for i, _ in found(FullText(match="all"), TEXTS, "bridges river", ctx)} == {5}
    plain = FullText(tokenizer="unicode61")
    assert {i for i, _ in found(plain, TEXTS, "bridges river", ctx)} == {5}
    trigram = FullText(tokenizer="trigram")
    assert {i for i, _ in found(trigram, TEXTS, "vaccin", ctx)} == {1, 3}
    assert found(step, TEXTS, 'NEAR( "', ctx) == []  # no syntax of the database gets through
    assert found(step, TEXTS, "it was the", ctx) == []
    index = step.index("lone surrogate", ["a \ud800 bridge"], ctx)
    assert next(iter(step.scores(index, ["bridge"], ctx)))[0] > 0


def test_fulltext_scores_are_those_of_bm25(ctx: Context) -> None:
    """FTS5: k1 1.2, b .75, idf log((N − df + .5) / (df + .5)), with (k1 + 1)."""
    texts = ["river bridge", "river", "bank bank rate", "rate july", "july"]
    idf = math.log((5 - 1 + 0.5) / (1 + 0.5))
    score = idf * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / (9 / 5)))
    assert found(FullText(), texts, "bank", ctx) == [(2, pytest.approx(score, abs=1e-6))]


# Dense: metrics, mean vectors, graphs, poolings


def test_l2_is_the_distance(ctx: Context) -> None:
    encoder = Encoder(model=MODEL, normalise=False)
    vectors, [query] = encoder.encode(TEXTS, ctx), encoder.encode([QUERIES[0]], ctx)
    distances = np.linalg.norm(vectors - query, axis=1)
    ours = found(Dense(encoder=encoder, metric="l2"), TEXTS, QUERIES[0], ctx)
    assert [i for i, _ in ours] == np.argsort(distances).tolist()
    assert [-s for _, s in ours] == pytest.approx(sorted(distances), abs=1e-5)
    unit = Encoder(model=MODEL)
    cosine = found(Dense(encoder=unit), TEXTS, QUERIES[0], ctx)
    l2 = found(Dense(encoder=unit, metric="l2"), TEXTS, QUERIES[0], ctx)
    assert [i for i, _ in l2] == [i for i, _ in cosine]  # of unit vectors it is the same order


def test_together_is_one_query(ctx: Context) -> None:
    queries = [Query(text="bank rate"), Query(text="closed", question="q"),
               Query(text="bridge", question="q")]  # fmt: skip
    one = hits(Bm25s(together=True), ctx, case(TEXTS, *queries))
    assert {h.query for h in one} == {0, 1}
    joined = found(Bm25s(), TEXTS, "closed bridge", ctx)
    assert [(h.passage, h.score) for h in one if h.query == 1] == [
        (f"d{i}#0", score) for i, score in joined
    ]
    encoder = Encoder(model=MODEL)
    dense = hits(Dense(encoder=encoder, together=True), ctx, case(TEXTS, *queries))
    mean = encoder.encode(["closed", "bridge"], ctx).mean(axis=0)
    cosines = encoder.encode(TEXTS, ctx) @ mean / np.linalg.norm(mean)
    scores = {h.passage: h.score for h in dense if h.query == 1}
    assert scores == pytest.approx({f"d{i}#0": c for i, c in enumerate(cosines)}, abs=2e-6)


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_a_graph_finds_the_true_neighbours(metric: str, ctx: Context, tmp_path: Path) -> None:
    texts = [f"{text} {i}" for i in range(20) for text in TEXTS]
    encoder = Encoder(model=MODEL)
    exact = Dense(encoder=encoder, metric=metric, k=10)
    graph = Hnsw(encoder=encoder, metric=metric, k=10)
    for query in QUERIES:
        expected = found(exact, texts, query, ctx)
        ours = found(graph, texts, query, ctx)
        assert [i for i, _ in ours] == [i for i, _ in expected]
        assert [s for _, s in ours] == pytest.approx([s for _, s in expected], abs=1e-5)
    for name in ("one", "two"):  # built anew, it is the same to the byte
        graph.index("store", texts, Context(Cache(tmp_path / name)))
    one, two = (file.read_bytes() for file in tmp_path.rglob("hnsw.faiss"))
    assert one == two
    assert len(found(Hnsw(encoder=encoder, k=500), texts, QUERIES[0], ctx)) == len(texts)


# What an index is known by


def own_module(folder: Path, name: str, code: str) -> Any:
    """A module of a user's own, as a process that begins now finds it."""
    (folder / f"{name}.py").write_text(code)
    sys.modules.pop(name, None)
    step_module._BEGAN = time.time_ns()
    code_version.cache_clear()
    _parse.cache_clear()
    return importlib.import_module(name)


OWN = """
import dataclasses
from {module} import {base}

@dataclasses.dataclass(kw_only=True)
class Own({base}):
    pass
"""


@pytest.mark.parametrize("base", [LowerBounded, FullText, Hnsw], ids=lambda base: base.__name__)
def test_a_kept_index_is_built_anew_when_its_code_changes(
    base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bm25, "KEPT", 0)
    name, code = f"own_{uuid.uuid4().hex}", OWN.format(module=base.__module__, base=base.__name__)
    ctx = Context(Cache(tmp_path / "cache"))
    counts = []
    for edit in ("", "# a comment", "LIMIT = 3"):
        own = own_module(tmp_path, name, f"{edit}\n{code}").Own
        step = own(encoder=Encoder(model=MODEL)) if base is Hnsw else own()
        step.index("store", TEXTS, ctx)
        counts.append(ctx.cache.sizes()["artifacts"][0] - (base is Hnsw))  # less the embeddings
    assert counts == [1, 1, 2]


def test_kept_indexes_serve_all_that_differ_in_what_they_do_not_read(tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))
    encoder = Encoder(model=MODEL)
    for step in (
        FullText(),
        FullText(match="all", stopwords=None, k=5, into="rankings.text", together=True),
        Hnsw(encoder=encoder),
        Hnsw(encoder=encoder, ef_search=50),
    ):
        step.index("store", TEXTS, ctx)
    assert ctx.cache.sizes()["artifacts"][0] == 3  # with the embeddings
    FullText(tokenizer="unicode61").index("store", TEXTS, ctx)
    assert ctx.cache.sizes()["artifacts"][0] == 4


def test_retrievers_of_one_name_have_indexes_of_their_own(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
import dataclasses
import numpy as np
from components.retrieve.search import Search

@dataclasses.dataclass(kw_only=True)
class Overlap(Search):
    def index(self, store, texts, ctx):
        return [{word[:LETTERS] for word in text.split()} for text in texts]

    def scores(self, index, queries, ctx):
        for query in queries:
            words = {word[:LETTERS] for word in query.split()}
            yield np.array([float(len(words & passage)) for passage in index])
"""
    monkeypatch.syspath_prepend(tmp_path)
    cut = {}
    for letters in (10, 4):
        module = own_module(tmp_path, f"overlap_{letters}_{uuid.uuid4().hex}", code)
        module.LETTERS = letters
        [best, *_] = found(module.Overlap(), ["banks lent", "the bank"], "banking lent", ctx)
        cut[letters] = best
    assert cut == {10: (0, 1.0), 4: (0, 2.0)}


def test_sentences_that_end_elsewhere_are_encoded_anew(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder keeps vectors by what it is given, which another splitter changes."""
    texts = ["The bridge closed. The bank raised its rate."]
    step = SentenceMax(encoder=Encoder(model=MODEL))
    assert len(step.index("store of two", texts, ctx)[0]) == 2
    monkeypatch.setattr(
        "components.retrieve.sentences.sentences", lambda texts: [[text] for text in texts]
    )
    assert len(step.index("store of two", texts, ctx)[0]) == 1


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_poolings(pooling: str, ctx: Context) -> None:
    encoder = Encoder(model=MODEL, pooling=pooling)
    [vector] = encoder.encode([TEXTS[0]], ctx)
    [tokens] = Encoder(model=MODEL, pooling=pooling).token_vectors([TEXTS[0]], ctx)
    assert np.linalg.norm(vector) == pytest.approx(1)
    assert np.linalg.norm(tokens, axis=1) == pytest.approx(1)
    plain = Encoder(model=MODEL).encode([TEXTS[0]], ctx)[0]
    if pooling == "mean":  # the model's own
        assert vector == pytest.approx(plain, abs=1e-6)
    else:
        assert abs(vector - plain).max() > 0.01
    if pooling == "cls":
        assert vector == pytest.approx(tokens[0], abs=1e-5)
    assert identity(encoder) != identity(Encoder(model=MODEL))


# Titles


def test_titles(ctx: Context) -> None:
    titles = ["Oliver Stone", None, "Stone", "Savages (2012 film)", "", "Los Angeles, California"]
    made = case(TEXTS, "Savages was directed by Oliver Stone in Los Angeles", titles=titles)
    assert [(h.doc, h.score) for h in hits(TitleLookup(), ctx, made)] == [
        ("d0", 2.0), ("d2", 1.0), ("d3", 1.0)
    ]  # fmt: skip
    made = case(TEXTS, "Stone, Oliver", titles=titles)
    assert [h.doc for h in hits(TitleLookup(), ctx, made)] == ["d2"]
    assert [h.doc for h in hits(TitleLookup(match="words"), ctx, made)] == ["d0", "d2"]
    made = case(TEXTS, "stones", titles=titles)
    assert [h.doc for h in hits(TitleLookup(), ctx, made)] == ["d2"]  # stems
    assert hits(TitleLookup(stemmer=None), ctx, made) == []
    assert hits(TitleLookup(), ctx, case(TEXTS, "stones")) == []  # no documents are known


def test_passages_of_a_titled_document(ctx: Context) -> None:
    made = Case(
        claim=Claim(id="1", text=""),
        documents=[Document(id="a", title="Stone"), Document(id="b", title="Oliver Stone")],
        passages=[Passage(id=f"{d}#{i}", doc=d, text="x") for d in "ab" for i in range(3)],
        queries=[Query(text="Oliver Stone")],
    )
    found = hits(TitleLookup(per_document=2), ctx, made)
    assert [h.passage for h in found] == ["b#0", "b#1", "a#0", "a#1"]
    assert [h.passage for h in hits(TitleLookup(k=1), ctx, made)] == ["b#0"]


# The cut-off


def cut(step: PrefixCutoff, texts: list[str], *queries: str, ctx: Context) -> list[int]:
    [done] = step.run([case(texts, *queries)], ctx)
    return [int(passage.id[1:-2]) for passage in done.passages]


def test_cutoff_in_store_order_loses_late_text(ctx: Context) -> None:
    assert cut(PrefixCutoff(n=2), TEXTS, "bridge", ctx=ctx) == [0, 1]
    assert cut(PrefixCutoff(n=100), TEXTS, "bridge", ctx=ctx) == list(range(6))
    assert PrefixCutoff(n=2).reads == ("passages",)  # other queries cut nothing else


def test_cutoff_in_score_order_keeps_what_fits(ctx: Context) -> None:
    step = PrefixCutoff(n=3, by=Bm25s())
    assert cut(step, TEXTS, "bridge river", ctx=ctx) == [0, 4, 5]  # filled up from the start
    assert cut(step, TEXTS, "bridge", "patients", ctx=ctx) == [1, 3, 4]  # as one text
    assert cut(step, TEXTS, ctx=ctx) == [0, 1, 2]
    assert "queries" in step.reads


@settings(max_examples=40, deadline=None)
@given(stores, asked, st.integers(1, 14), st.booleans())
def test_a_longer_prefix_keeps_more(
    ctx: Context, texts: list[str], query: str, n: int, scored: bool
) -> None:
    by = Bm25s(stopwords=None, stemmer=None) if scored else None
    shorter = cut(PrefixCutoff(n=n, by=by), texts, query, ctx=ctx)
    longer = cut(PrefixCutoff(n=n + 1, by=by), texts, query, ctx=ctx)
    assert set(shorter) <= set(longer)
    assert len(shorter) == min(n, len(texts))
    assert shorter == sorted(shorter)


# Nothing to rank, and errors


@pytest.mark.parametrize(
    "step",
    [Okapi(), LowerBounded(), HashedTfidf(), FullText(), Hnsw(encoder=Encoder(model=MODEL))],
    ids=lambda step: type(step).__name__,
)
def test_nothing_to_rank(step: Search, ctx: Context) -> None:
    """Empty stores and texts, k above the store, queries without a word (pitfall 5)."""
    assert hits(step, ctx, case([], "bridge")) == []
    assert hits(step, ctx, case(TEXTS)) == []
    for texts in (["", "?!", " "], ["bridge"]):
        assert all(math.isfinite(score) for _, score in found(step, texts, "bridge", ctx))
    assert found(step, ["", *TEXTS], "bridge closed", ctx)[0][0] in (5, 6)
    made = case([f"{t} {i}" for i, t in enumerate(TEXTS)], "", "!?", "bridge closed")
    last = [h for h in hits(step, ctx, made) if h.query == 2]
    assert last[0].passage in ("d4#0", "d5#0")
    long = [f"Filler sentence {i % 97} about nothing" for i in range(300)]
    assert found(step, [*long, TEXTS[5]], "river bridge repairs", ctx)[0][0] == 300


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dense(encoder=Encoder(model=MODEL), metric="cos"), "No metric 'cos': choose dot"),
        (lambda: Hnsw(encoder=Encoder(model=MODEL), neighbours=1), "at least 2 of neighbours"),
        (lambda: Encoder(model=MODEL, pooling="first"), "No pooling 'first': choose mean, cls"),
        (lambda: FullText(match="some"), "No match 'some': choose any or all"),
        (lambda: FullText(tokenizer="ascii'"), "No tokenizer 'ascii''"),
        (lambda: HashedTfidf(bits=40), "1 to 30 bits, not 40"),
        (lambda: HashedTfidf(length=0), "length of at least 1"),
        (lambda: TitleLookup(match="stem"), "No match 'stem': choose phrase or words"),
        (lambda: TitleLookup(per_document=0), "at least 1 passage"),
        (lambda: PrefixCutoff(n=0), r"cutoff\.n is 0"),
        (lambda: LowerBounded(method="atire"), "'atire' has no lower bound"),
        (lambda: Okapi(stemmer="portre"), "No stemmer 'portre'"),
    ],
)
def test_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        make()


@given(st.lists(st.sampled_from(["a b", "The cat's", "b c, d", "", "a a b."]), max_size=6))
def test_okapi_on_nltk_tokens_is_the_package_to_the_last_bit(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(Cache(Path(folder)))
        for query in ("a cat", "b b d", "none"):
            ours, theirs = (
                list(step.scores(step.index("", texts, ctx), [query], ctx))
                for step in (Okapi(tokens="nltk"), RankBm25())
            )
            for one, other in zip(ours, theirs, strict=False):
                assert one.tolist() == other.tolist()
