"""Retrievers: values worked by hand, parity with the packages behind them, and laws."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.pipeline import store
from components.records import Case, Claim, Passage, Query, encode
from components.retrieve.bm25 import Bm25s
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.retrieve.rank import RankBm25
from components.retrieve.search import Recent, Search, check_k
from components.retrieve.tfidf import Tfidf
from components.step import Context

MODEL = Path("all-MiniLM-L6-v2")
TEXTS = [
    "The central bank raised its interest rate in July.",
    "Hospitals reported fewer patients after the vaccine.",
    "The minister said that the bank had raised nothing.",
    "Interest in the vaccine rose; the rate of patients fell.",
    "A bridge was closed.",
    "The bridge across the river was closed for repairs in July.",
]
QUERIES = ["Did the bank raise the interest rate?", "bridge closed", "vaccine patients patients"]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def case(texts: list[str], *queries: str, id: str = "1") -> Case:
    return Case(
        claim=Claim(id=id, text=""),
        passages=[Passage(id=f"d{i}#0", doc=f"d{i}", text=text) for i, text in enumerate(texts)],
        queries=[Query(text=query) for query in queries],
    )


def found(step: Search, texts: list[str], query: str, ctx: Context) -> list[tuple[int, float]]:
    """(index of the passage, score), best first."""
    [done] = step.run([case(texts, query)], ctx)
    return [(int(hit.passage[1:-2]), hit.score) for hit in done.hits]


def best_first(scores: Any) -> list[tuple[int, float]]:
    """A package's scores as `found` gives them; those of 0 are left out."""
    rounded = np.round(np.asarray(scores, dtype=np.float64), 6)
    order = np.argsort(-rounded, kind="stable")
    return [(int(i), float(rounded[i])) for i in order if rounded[i] > 0]


def searches() -> list[Search]:
    return [
        Bm25s(),
        Bm25s(method="bm25+", stemmer=None, stopwords=None),
        RankBm25(tokens="whitespace"),
        Tfidf(),
        Dense(encoder=Encoder(model=MODEL)),
    ]


# Values worked by hand

THREE = ["cat sat", "cat cat dog", "bird"]


def test_bm25s_worked(ctx: Context) -> None:
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    short, long = 1 / (1 + 0.9 * (0.6 + 0.4 * 2 / 2)), 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / 2))
    hits = found(Bm25s(stopwords=None, stemmer=None), THREE, "cat", ctx)
    assert [i for i, _ in hits] == [1, 0]
    assert [s for _, s in hits] == pytest.approx([idf * long, idf * short], abs=1e-6)


def test_rank_bm25_worked(ctx: Context) -> None:
    """A term in most passages gets a quarter of the mean idf, here of cat, sat, dog and bird."""
    rare = math.log(2.5) - math.log(1.5)
    common = 0.25 * (3 * rare - rare) / 4
    hits = found(RankBm25(tokens="whitespace"), THREE, "bird cat", ctx)
    bird = rare * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 1 / 2))
    long = common * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / 2))
    short = common * 2.5 / (1 + 1.5)
    assert [i for i, _ in hits] == [2, 1, 0]
    assert [s for _, s in hits] == pytest.approx([bird, long, short], abs=1e-6)


def test_tfidf_worked(ctx: Context) -> None:
    often, once = math.log(4 / 3) + 1, math.log(4 / 2) + 1  # cat; sat, dog, bird
    hits = found(Tfidf(sublinear=False, stopwords=None, stemmer=None), THREE, "cat", ctx)
    assert [i for i, _ in hits] == [1, 0]
    assert [s for _, s in hits] == pytest.approx(
        [2 * often / math.hypot(2 * often, once), often / math.hypot(often, once)], abs=1e-6
    )


# Parity with the packages


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
@pytest.mark.parametrize("query", QUERIES)
def test_bm25s_is_the_package(method: str, query: str, ctx: Context) -> None:
    import bm25s
    import Stemmer

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(
            texts,
            stopwords="en",
            stemmer=Stemmer.Stemmer("porter"),
            return_ids=False,
            show_progress=False,
        )

    theirs = bm25s.BM25(k1=1.2, b=0.6, delta=0.7, method=method)
    theirs.index(tokens(TEXTS), show_progress=False)
    [query_tokens] = tokens([query])
    # bm25l and bm25+ score passages without any of the terms too; we don't find those.
    shared = [not set(query_tokens).isdisjoint(passage) for passage in tokens(TEXTS)]
    scores = np.where(shared, theirs.get_scores(query_tokens), 0)
    ours = found(Bm25s(k1=1.2, b=0.6, delta=0.7, method=method), TEXTS, query, ctx)
    assert ours == best_first(scores)
    assert ours


@pytest.mark.parametrize("query", QUERIES)
def test_rank_bm25_is_the_package_on_nltk_tokens(query: str, ctx: Context) -> None:
    from nltk.tokenize import word_tokenize
    from rank_bm25 import BM25Okapi

    ours = found(RankBm25(), TEXTS, query, ctx)
    theirs = BM25Okapi([word_tokenize(text) for text in TEXTS]).get_scores(word_tokenize(query))
    assert ours == best_first(theirs)
    assert ours


@pytest.mark.parametrize("query", QUERIES)
def test_tfidf_is_scikit_learn(query: str, ctx: Context) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    vectorizer = TfidfVectorizer(sublinear_tf=True)  # its words are ours, on plain English
    theirs = cosine_similarity(vectorizer.fit_transform(TEXTS), vectorizer.transform([query]))
    ours = found(Tfidf(stopwords=None, stemmer=None), TEXTS, query, ctx)
    assert ours == best_first(theirs[:, 0])


def test_dense_is_sentence_transformers(ctx: Context) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import semantic_search

    model = SentenceTransformer(str(Encoder(model=MODEL).model), device="cpu")
    theirs = semantic_search(
        model.encode(QUERIES, convert_to_tensor=True),
        model.encode(TEXTS, convert_to_tensor=True),
        top_k=4,
    )
    for query, hits in zip(QUERIES, theirs, strict=True):
        ours = found(Dense(encoder=Encoder(model=MODEL), k=4), TEXTS, query, ctx)
        assert [i for i, _ in ours] == [hit["corpus_id"] for hit in hits]
        assert [s for _, s in ours] == pytest.approx([hit["score"] for hit in hits], abs=2e-6)


# Named pitfalls


@pytest.mark.parametrize("step", searches(), ids=lambda step: type(step).__name__)
def test_text_late_in_a_long_store_is_found(step: Search, ctx: Context) -> None:
    """Public code ranked only the first 5,000 sentences of a store (pitfall 3)."""
    size = 300 if isinstance(step, Dense) else 20_000
    texts = [f"Filler sentence {i % 97} about nothing" for i in range(size)]
    texts.append("The bridge was closed in July")
    assert found(step, texts, "bridge closed July", ctx)[0][0] == size


@pytest.mark.parametrize("step", searches(), ids=lambda step: type(step).__name__)
class TestNothingToRank:
    """Empty documents, no tokens, a k above the store, stop-words alone (pitfall 5)."""

    def test_k_above_the_store(self, step: Search, ctx: Context) -> None:
        hits = found(_with_k(step, 10), ["The bridge is closed.", "A bridge."], "bridge", ctx)
        assert {i for i, _ in hits} <= {0, 1}
        if not isinstance(step, RankBm25):  # its white-space tokens keep the full stop
            assert len(hits) == 2

    def test_no_passages_and_no_queries(self, step: Search, ctx: Context) -> None:
        assert step.run([case([], "bridge"), case(["A bridge."])], ctx)[0].hits == []
        assert step.run([case(["A bridge."])], ctx)[0].hits == []

    def test_a_store_without_tokens(self, step: Search, ctx: Context) -> None:
        hits = found(step, ["", "?!", " "], "bridge", ctx)
        assert all(math.isfinite(score) for _, score in hits)
        if not isinstance(step, Dense):
            assert hits == []

    def test_an_empty_passage_among_others(self, step: Search, ctx: Context) -> None:
        assert found(step, ["", "bridge closed", ""], "bridge closed", ctx)[0][0] == 1

    def test_a_query_without_tokens(self, step: Search, ctx: Context) -> None:
        [done] = step.run([case(["the bridge", "it was"], "", "!?", "bridge")], ctx)
        assert next(h.passage for h in done.hits if h.query == 2) == "d0#0"
        if not isinstance(step, Dense):
            assert {h.query for h in done.hits} == {2}


def test_a_query_of_stop_words_alone_finds_nothing(ctx: Context) -> None:
    assert found(Bm25s(), TEXTS, "it was the", ctx) == []
    assert found(Tfidf(), TEXTS, "it was the", ctx) == []


def test_a_k_that_no_store_can_fill(ctx: Context) -> None:
    cases = [case(TEXTS, "bridge"), case(TEXTS[:3], "bank")]
    refs = [store(c, ("claim", "passages"), ctx.cache) for c in cases]
    with pytest.raises(ClaimflowError, match=r"that of claim 1, has 6\. Set r\.bm25\.k to 6 or"):
        check_k(Bm25s(k=100_000), "r.bm25", refs, ctx.cache)
    # The usual says nothing of these stores: those of claims differ in size.
    assert check_k(Bm25s(k=300), "r.bm25", refs, ctx.cache) is None
    assert check_k(Bm25s(k=6), "r.bm25", refs, ctx.cache) is None
    remark = check_k(Bm25s(k=7), "r.bm25", refs, ctx.cache)
    assert remark == (
        "r.bm25.k=7 passages a query, but the largest store here, that of claim 1, has 6: "
        "all that match are kept."
    )
    done = Bm25s(k=300).run(cases, ctx)
    assert [len(c.hits) for c in done] == [2, 2]


# Laws

words = st.sampled_from(["bank", "rate", "bridge", "july", "closed", "vaccine", "river", "fell"])
texts = st.lists(st.lists(words, max_size=6).map(" ".join), min_size=1, max_size=12)
queries = st.lists(words, min_size=1, max_size=4).map(" ".join)
lexical = st.sampled_from([s for s in searches() if not isinstance(s, Dense)])


@settings(max_examples=60, deadline=None)
@given(lexical, texts, queries, st.integers(1, 15))
def test_a_smaller_k_is_a_prefix(step: Any, texts: list[str], query: str, k: int) -> None:
    ctx = Context(Cache(CACHE))
    hits = found(step, texts, query, ctx)
    assert found(_with_k(step, k), texts, query, ctx) == hits[:k]
    assert len({i for i, _ in hits}) == len(hits) <= len(texts)
    assert [s for _, s in hits] == sorted((s for _, s in hits), reverse=True)


@settings(max_examples=60, deadline=None)
@given(lexical, texts, queries, st.randoms(use_true_random=False))
def test_order_of_the_store_moves_ties_alone(
    step: Any, texts: list[str], query: str, random: Any
) -> None:
    ctx = Context(Cache(CACHE))
    order = list(range(len(texts)))
    random.shuffle(order)
    moved = [(order[i], s) for i, s in found(step, [texts[i] for i in order], query, ctx)]
    plain = found(step, texts, query, ctx)
    assert sorted(i for i, _ in moved) == sorted(i for i, _ in plain)
    # Sums in another order may differ in the last of six decimals.
    assert dict(moved) == pytest.approx(dict(plain), abs=2e-6)


@settings(max_examples=40, deadline=None)
@given(lexical, texts, queries)
def test_equal_texts_tie_in_the_order_of_the_store(step: Any, texts: list[str], query: str) -> None:
    hits = found(step, texts + texts, query, Context(Cache(CACHE)))
    scores = dict(hits)
    for i in scores:
        assert scores[i] == scores[(i + len(texts)) % (2 * len(texts))]
    assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    global CACHE
    CACHE = tmp_path_factory.mktemp("laws")


CACHE: Path


def _with_k(step: Search, k: int) -> Search:
    step = copy.copy(step)
    step.k = k
    return step


# A batch, or one by one


@pytest.mark.parametrize("step", searches(), ids=lambda step: type(step).__name__)
def test_a_batch_gives_the_bytes_of_one_by_one(step: Search, tmp_path: Path) -> None:
    cases = [
        case(TEXTS, QUERIES[0], id="shared"),
        case(TEXTS[:2], *QUERIES, id="own"),
        case([], QUERIES[0], id="empty"),
        case(TEXTS, *QUERIES[1:], id="shared too"),
        case(TEXTS[::-1], *QUERIES, id="other order"),
    ]
    batch = step.run(copy.deepcopy(cases), Context(Cache(tmp_path / "batch")))
    single = Context(Cache(tmp_path / "single"))
    assert [encode(c) for c in batch] == [
        encode(step.run([c], single)[0]) for c in copy.deepcopy(cases)
    ]


# The encoder


def test_vectors_do_not_depend_on_threads(ctx: Context) -> None:
    texts = [" ".join(TEXTS[: i % 6 + 1]) + f" {i}" for i in range(120)]
    one, three = (Encoder(model=MODEL, threads=n).encode(texts, ctx) for n in (1, 3))
    assert one.tobytes() == three.tobytes()
    assert np.linalg.norm(one, axis=1) == pytest.approx(1)


def test_vectors_hardly_depend_on_their_batch(ctx: Context) -> None:
    encoder = Encoder(model=MODEL)
    together = encoder.encode([*TEXTS, " ".join(TEXTS) * 3], ctx)
    alone = np.vstack([encoder.encode([text], ctx) for text in TEXTS])
    assert np.abs(alone - together[: len(TEXTS)]).max() < 1e-6


def test_equal_texts_have_equal_vectors(ctx: Context) -> None:
    vectors = Encoder(model=MODEL).encode([TEXTS[0], *TEXTS, "", TEXTS[0], "\ud800", "?"], ctx)
    assert np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(vectors[0], vectors[8])
    assert np.array_equal(vectors[9], vectors[10])  # a lone surrogate counts as a question mark
    assert np.isfinite(vectors).all()
    assert Encoder(model=MODEL).encode([], ctx).shape == (0, 384)


def test_prompts_are_put_before(ctx: Context) -> None:
    plain, prompted = Encoder(model=MODEL), Encoder(model=MODEL, query_prompt="query: ")
    assert np.array_equal(prompted.queries(["rate"], ctx), plain.encode(["query: rate"], ctx))


def test_text_beyond_max_length_does_not_count(ctx: Context) -> None:
    encoder = Encoder(model=MODEL, max_length=8)
    long, longer = encoder.encode(
        ["one two three four five six", "one two three four five six seven"], ctx
    )
    assert np.array_equal(long, longer)


def test_passages_are_encoded_once(tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))
    encoder = Encoder(model=MODEL)
    first = encoder.passages("store", TEXTS, ctx)
    again = encoder.passages("store", ["not looked at"], ctx)
    assert np.array_equal(first, again)
    assert ctx.cache.sizes()["artifacts"][0] == 1


# Errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bm25s(k=0), "Bm25s needs a k of at least 1"),
        (lambda: Bm25s(method="okapi"), "No BM25 'okapi': choose lucene"),
        (lambda: Bm25s(stemmer="portre"), "No stemmer 'portre'.*porter"),
        (lambda: Tfidf(stopwords="german"), "No stop-word list 'german'"),
        (lambda: RankBm25(tokens="spacy"), "No tokens 'spacy': choose nltk or whitespace"),
        (lambda: Bm25s(into="ranking"), "Hits can't stand in 'ranking'"),
        (lambda: Encoder(model=MODEL, threads=0), "at least 1 thread"),
    ],
)
def test_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        make()


# Indexes kept in memory


def test_recent_forgets_the_least_recent() -> None:
    made: list[str] = []
    recent = Recent(size=2)
    for key in "abacab":
        assert recent.get(key, lambda key=key: made.append(key) or key) == key  # type: ignore[misc]
    assert made == ["a", "b", "c", "b"]


def test_recent_makes_again_what_failed() -> None:
    recent = Recent()

    def fail() -> None:
        raise ClaimflowError("no")

    with pytest.raises(ClaimflowError):
        recent.get("a", fail)
    assert recent.get("a", lambda: 1) == 1
