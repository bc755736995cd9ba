"""Retrievers, fusion, re-ranking and queries on small stores."""

from __future__ import annotations

import dataclasses
import math
import threading
from pathlib import Path

import numpy as np
import pytest
import sentence_transformers
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from sklearn.feature_extraction.text import TfidfVectorizer

from components import assets
from components.cache import Cache
from components.errors import ClaimflowError
from components.pipeline import CaseRef, load, run_step, store
from components.records import Case, Claim, Hit, Passage, Query, encode
from components.retrieve import encoder as encoder_module
from components.retrieve.bm25 import Bm25s, RankBm25
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import Fuse, Rrf, Weighted, min_max
from components.retrieve.mmr import Mmr
from components.retrieve.query import ClaimQuery, ClaimQuestion
from components.retrieve.search import Recent, Search, top
from components.retrieve.tfidf import Tfidf
from components.step import Context, Step

TOWN = [
    "The mayor of Orla opened the new bridge in May.",
    "Bridges in Orla were closed after the flood.",
    "A bakery won the county prize for rye bread.",
    "The flood of 2019 damaged two bridges and a mill.",
    "Trains to Velm run every hour.",
]
ENCODER = Encoder(model=assets.model("all-MiniLM-L6-v2"))
RETRIEVERS: dict[str, Search] = {
    "rank_bm25": RankBm25(k=10),
    "whitespace": RankBm25(k=10, tokens="whitespace", lower=True),
    "lucene": Bm25s(k=10),
    "bm25+": Bm25s(k=10, method="bm25+"),
    "tfidf": Tfidf(k=10),
    "dense": Dense(k=10, encoder=ENCODER),
}
LEXICAL = ["rank_bm25", "whitespace", "lucene", "bm25+", "tfidf"]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path / "cache"))


def passages(texts: list[str]) -> list[Passage]:
    return [Passage(id=f"d{i}#0", doc=f"d{i}", text=text) for i, text in enumerate(texts)]


def case(texts: list[str], *queries: str, id: str = "1") -> Case:
    return Case(
        claim=Claim(id=id, text=queries[0] if queries else "-"),
        passages=passages(texts),
        queries=[Query(text=query) for query in queries],
    )


def found(step: Search, ctx: Context, texts: list[str], *queries: str) -> list[Hit]:
    return step.run([case(texts, *queries)], ctx)[0].hits


def docs(hits: list[Hit]) -> list[str]:
    return [hit.doc for hit in hits]


def ranking(scores: dict[str, float], query: int = 0) -> list[Hit]:
    best_first = sorted(scores.items(), key=lambda item: -item[1])
    return [Hit(passage=p, doc=p, score=score, query=query) for p, score in best_first]


# Right values


def test_lucene_bm25_by_hand(ctx: Context) -> None:
    hits = found(Bm25s(), ctx, ["flood mill", "flood", "bread"], "mill flood")

    def weight(matching: int, length: int) -> float:
        idf = math.log(1 + (3 - matching + 0.5) / (matching + 0.5))
        return idf / (1 + 0.9 * (1 - 0.4 + 0.4 * length / (4 / 3)))

    assert docs(hits) == ["d0", "d1"]  # nothing of the query is in d2
    assert hits[0].score == pytest.approx(weight(1, 2) + weight(2, 2), abs=2e-6)
    assert hits[1].score == pytest.approx(weight(2, 1), abs=2e-6)
    assert hits[0].query == 0
    assert hits[0].passage == "d0#0"


def test_rank_bm25_gives_the_scores_of_the_package(ctx: Context) -> None:
    query = "Which bridges did the flood damage?"
    theirs = BM25Okapi([text.lower().split() for text in TOWN]).get_scores(query.lower().split())
    hits = found(RETRIEVERS["whitespace"], ctx, TOWN, query)
    assert [(hit.doc, hit.score) for hit in hits] == [
        (f"d{i}", round(float(theirs[i]), 6)) for i in np.argsort(-theirs, kind="stable")
        if set(TOWN[i].lower().split()) & set(query.lower().split())
    ]  # fmt: skip


def test_tfidf_is_the_cosine_of_the_package(ctx: Context) -> None:
    vectorizer = TfidfVectorizer(token_pattern=r"\w\w+", sublinear_tf=True)
    matrix = vectorizer.fit_transform(TOWN)
    cosine = (matrix @ vectorizer.transform(["flood bridges"]).T).toarray().ravel()
    hits = found(Tfidf(stopwords=None, stemmer=None), ctx, TOWN, "flood bridges")
    assert {hit.doc: hit.score for hit in hits} == pytest.approx(
        {f"d{i}": value for i, value in enumerate(cosine) if value > 0}, abs=1e-6
    )


def test_dense_search_is_that_of_sentence_transformers(ctx: Context) -> None:
    model = sentence_transformers.SentenceTransformer(str(ENCODER.model), device="cpu")
    theirs = sentence_transformers.util.semantic_search(
        model.encode(["Which bridges did the flood damage?"]), model.encode(TOWN), top_k=5
    )[0]
    hits = found(Dense(encoder=ENCODER), ctx, TOWN, "Which bridges did the flood damage?")
    assert docs(hits) == [f"d{hit['corpus_id']}" for hit in theirs]
    assert [hit.score for hit in hits] == pytest.approx([hit["score"] for hit in theirs], abs=2e-6)


def test_rrf_by_hand() -> None:
    one = Case(
        claim=Claim(id="1", text="-"),
        rankings={"a": ranking({"x": 9, "y": 8, "z": 7}), "b": ranking({"z": 2, "x": 1})},
    )
    hits = Rrf(of=["rankings.a", "rankings.b"]).run([one], None)[0].hits  # type: ignore[arg-type]
    assert [(hit.passage, hit.score) for hit in hits] == [
        ("x", pytest.approx(1 / 61 + 1 / 62)),
        ("z", pytest.approx(1 / 63 + 1 / 61)),
        ("y", pytest.approx(1 / 62)),
    ]
    shallow = Rrf(of=["rankings.a", "rankings.b"], depth=1, k=1, constant=0)
    assert [(h.passage, h.score) for h in shallow.run([one], None)[0].hits] == [("x", 1.0)]  # type: ignore[arg-type]


def test_weighted_by_hand() -> None:
    one = Case(
        claim=Claim(id="1", text="-"),
        rankings={
            "a": ranking({"x": 30, "y": 20, "z": 10}) + ranking({"w": 3}, query=1),
            "b": ranking({"z": 0.9, "y": 0.7, "v": 0.5}),
        },
    )
    fuse = Weighted(of=["rankings.a", "rankings.b"], weights=[0.4, 0.6])
    hits = fuse.run([one], None)[0].hits  # type: ignore[arg-type]
    assert [(hit.query, hit.passage, round(hit.score, 9)) for hit in hits] == [
        (0, "z", 0.6),
        (0, "y", 0.5),
        (0, "x", 0.4),
        (0, "v", 0.0),
        (1, "w", 0.4),
    ]


def test_mmr_by_hand(ctx: Context) -> None:
    texts = ["A flood hit the mill.", "The mill was hit by a flood.", "Bread won a prize."]
    one = case(texts, "flood")
    one.hits = [
        Hit(passage=f"d{i}#0", doc=f"d{i}", score=score) for i, score in enumerate([0.9, 0.8, 0.6])
    ]
    vectors = ENCODER.encode(texts, ctx)
    cosine = vectors @ vectors.T
    assert 0.7 * 0.8 - 0.3 * cosine[0, 1] < 0.7 * 0.6 - 0.3 * cosine[0, 2]
    Mmr(encoder=ENCODER, k=2, fetch=3, scale=False).run([one], ctx)
    assert [(hit.doc, hit.score) for hit in one.hits] == [("d0", 0.9), ("d2", 0.6), ("d1", 0.8)]


# Laws

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 4), max_size=8)


@given(SCORES, SCORES, SCORES, st.randoms())
def test_rrf_and_weights_do_not_depend_on_the_order_of_the_rankings(
    first: dict[str, int], second: dict[str, int], third: dict[str, int], random: object
) -> None:
    rankings = {
        name: ranking({p: float(s) for p, s in scores.items()})
        for name, scores in zip("xyz", (first, second, third), strict=True)
    }
    weights = dict(zip("xyz", (0.5, 0.3, 0.2), strict=True))
    orders = []
    for names in ("xyz", "zxy"):
        of = [f"rankings.{name}" for name in names]
        for fuse in (Rrf(of=of), Weighted(of=of, weights=[weights[n] for n in names])):
            one = Case(claim=Claim(id="1", text="-"), rankings=rankings)
            orders.append(fuse.run([one], None)[0].hits)  # type: ignore[arg-type]
    assert orders[0] == orders[2]
    assert orders[1] == orders[3]
    assert {hit.passage for hit in orders[0]} == {*first, *second, *third}


@given(st.lists(st.floats(-5, 5), max_size=30), st.integers(1, 40))
def test_top_is_the_stable_order_cut_to_k(scores: list[float], k: int) -> None:
    whole = sorted(enumerate(scores), key=lambda item: (-round(item[1], 6), item[0]))
    assert [i for i, _ in top(np.array(scores), k)] == [i for i, _ in whole[:k]]


def test_scores_that_differ_by_rounding_alone_stand_in_the_order_of_the_store() -> None:
    assert [i for i, _ in top(np.float32([0.5, 0.50000006, 0.7]), 3)] == [2, 0, 1]


@given(st.lists(st.floats(0, 50), min_size=1, max_size=9))
def test_min_max_is_between_0_and_1_and_keeps_the_order(scores: list[float]) -> None:
    scaled = min_max(scores)
    assert max(scaled) == 1
    assert min(scaled) >= 0
    assert all(
        (scaled[i] <= scaled[j]) for i in range(len(scores)) for j in range(len(scores))
        if scores[i] <= scores[j]
    )  # fmt: skip


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("embedded")))


@given(
    scores=st.lists(st.floats(0, 1), min_size=1, max_size=5).map(lambda s: sorted(s, reverse=True)),
    balance=st.floats(0, 1),
    k=st.integers(1, 3),
    fetch=st.integers(3, 6),
)
def test_mmr_keeps_the_best_hit_first_and_every_hit(
    embedded: Context, scores: list[float], balance: float, k: int, fetch: int
) -> None:
    one = case(TOWN, "flood")
    before = [Hit(passage=f"d{i}#0", doc=f"d{i}", score=score) for i, score in enumerate(scores)]
    one.hits = list(before)
    Mmr(encoder=ENCODER, k=k, fetch=fetch, balance=balance).run([one], embedded)
    assert one.hits[0] == before[0]
    assert sorted(docs(one.hits)) == docs(before)
    assert one.hits[fetch:] == before[fetch:]
    one.hits = list(before)
    Mmr(encoder=ENCODER, k=k, fetch=fetch, balance=1).run([one], embedded)
    assert one.hits == before


# Stores and queries that break public code


@pytest.mark.parametrize("name", RETRIEVERS)
def test_k_larger_than_the_store_gives_what_it_has(name: str, ctx: Context) -> None:
    hits = found(dataclasses.replace(RETRIEVERS[name], k=10), ctx, TOWN[:2], "bridge Orla Orla.")
    assert 1 <= len(hits) <= 2
    best = found(dataclasses.replace(RETRIEVERS[name], k=1), ctx, TOWN[:2], "bridge Orla Orla.")
    assert best == hits[:1]


@pytest.mark.parametrize("name", RETRIEVERS)
def test_empty_stores_texts_and_queries_survive(name: str, ctx: Context) -> None:
    step = RETRIEVERS[name]
    assert found(step, ctx, [], "flood") == []
    assert found(step, ctx, TOWN) == []
    for texts in ([""], ["", " "], ["!", "…"], ["", "flood", ""]):
        for query in ("flood", "", "the of and", "\ud800", "🜁"):
            hits = found(step, ctx, texts, query)
            assert len(hits) <= len(texts)
            assert all(math.isfinite(hit.score) for hit in hits)


@pytest.mark.parametrize("name", ["lucene", "bm25+", "tfidf"])
def test_a_query_of_stop_words_finds_nothing(name: str, ctx: Context) -> None:
    hits = found(RETRIEVERS[name], ctx, TOWN, "the of and", "flood")
    assert {hit.query for hit in hits} == {1}


@pytest.mark.parametrize("name", LEXICAL)
def test_only_passages_that_share_a_term_are_found(name: str, ctx: Context) -> None:
    assert set(docs(found(RETRIEVERS[name], ctx, TOWN, "flood Trains"))) == {"d1", "d3", "d4"} - (
        {"d1"} if name == "whitespace" else set()  # there "flood." is another token
    )


@pytest.mark.parametrize("name", RETRIEVERS)
def test_a_gold_text_late_in_the_store_is_found(name: str, ctx: Context) -> None:
    size = 60 if name == "dense" else 6000
    filler = [f"Report {i} on the price of grain in district {i % 90}." for i in range(size)]
    gold = "Orla closed its lighthouse for good."
    query = "When was the lighthouse of Orla closed for good?"
    assert found(RETRIEVERS[name], ctx, [*filler, gold], query)[0].doc == f"d{size}"
    assert found(RETRIEVERS[name], ctx, [gold, *filler], query)[0].doc == "d0"


@pytest.mark.parametrize("name", RETRIEVERS)
def test_the_order_of_the_store_does_not_matter(name: str, ctx: Context) -> None:
    query = "Which bridges did the flood of 2019 damage?"
    forward = case(TOWN, query)
    backward = case(TOWN, query, id="2")
    backward.passages = backward.passages[::-1]
    RETRIEVERS[name].run([forward, backward], ctx)
    assert {h.doc: h.score for h in forward.hits} == {h.doc: h.score for h in backward.hits}
    assert forward.hits[0] == backward.hits[0]


def test_chinese_claims_find_chinese_passages(ctx: Context) -> None:
    texts = ["奥拉市长去年辞职。", "面包店获得了奖项。", "The mill burnt down."]
    for step in (Bm25s(), Tfidf()):
        assert docs(found(step, ctx, texts, "市长辞职了吗")) == ["d0"]


# Batches and the cache


def stored(cases: list[Case], cache: Cache) -> list[CaseRef]:
    return [store(one, ("claim", "passages", "queries"), cache) for one in cases]


def three_claims() -> list[Case]:
    return [
        case(TOWN, "Which bridges were damaged?", "flood", id="1"),
        case(TOWN, "bread", id="2"),
        case(TOWN[::-1], "Trains to Velm stopped in Orla after a very long flood.", id="3"),
    ]


def run_all(steps: list[Step], refs: list[CaseRef], ctx: Context) -> list[CaseRef]:
    for step in steps:
        refs = run_step(step, type(step).__name__, refs, ctx)
    return refs


def hybrid_mmr() -> list[Step]:
    return [
        Bm25s(into="rankings.bm25"),
        Dense(encoder=ENCODER, into="rankings.dense"),
        Rrf(of=["rankings.bm25", "rankings.dense"]),
        Mmr(encoder=ENCODER, k=2, fetch=4),
    ]


@pytest.mark.parametrize("steps", [[RETRIEVERS[n]] for n in RETRIEVERS] + [hybrid_mmr()])
def test_cases_one_by_one_give_the_bytes_of_the_batch(steps: list[Step], tmp_path: Path) -> None:
    batch = Context(Cache(tmp_path / "batch"))
    single = Context(Cache(tmp_path / "single"))
    together = run_all(steps, stored(three_claims(), batch.cache), batch)
    alone = [
        run_all(steps, [ref], single)[0] for ref in stored(three_claims()[::-1], single.cache)
    ][::-1]
    assert [ref.fields["hits"] for ref in together] == [ref.fields["hits"] for ref in alone]


def test_a_hybrid_takes_the_search_of_its_parts_from_the_cache(ctx: Context) -> None:
    refs = stored(three_claims(), ctx.cache)
    alone = run_step(Bm25s(), "bm25", refs, ctx)
    shared = run_step(Bm25s(into="rankings.other"), "bm25", refs, ctx)
    assert [ref.trace[-1].cached for ref in alone + shared] == [False] * 3 + [True] * 3
    for one, other in zip(alone, shared, strict=True):
        assert one.fields["hits"] == other.fields["rankings.other"]
        assert "hits" not in other.fields
    # The names of rankings don't count for a fuser either, their content and order do.
    both = run_step(Dense(encoder=ENCODER, into="rankings.dense"), "dense", shared, ctx)
    fused = run_step(Rrf(of=["rankings.other", "rankings.dense"]), "fuse", both, ctx)
    renamed = [
        CaseRef(id=r.id, fields={**r.fields, "rankings.new": r.fields["rankings.other"]})
        for r in both
    ]
    again = run_step(Rrf(of=["rankings.new", "rankings.dense"]), "fuse", renamed, ctx)
    assert [ref.trace[-1].cached for ref in again] == [True] * 3
    assert [r.fields["hits"] for r in again] == [r.fields["hits"] for r in fused]
    deeper = run_step(Bm25s(k=1), "bm25", refs, ctx)
    assert not any(ref.trace[-1].cached for ref in deeper)


def test_one_index_serves_all_claims_of_a_corpus(ctx: Context) -> None:
    built: list[str] = []

    class Watched(Bm25s):
        def index(self, store: str, texts: list[str], ctx: Context) -> object:
            built.append(store)
            return super().index(store, texts, ctx)

    corpus = [*TOWN, "A sixth passage, of this test alone."]
    cases = [case(corpus, f"flood {i}", id=str(i)) for i in range(6)]
    Watched().run(cases[:3], ctx)
    Watched(k=2).run(cases[3:], ctx)
    assert len(built) == 1


def test_embeddings_are_kept_and_depend_on_the_passages_alone(ctx: Context) -> None:
    first = ENCODER.passages("store", TOWN, ctx)
    assert isinstance(first, np.memmap)
    assert first.shape == (5, 384)
    assert np.linalg.norm(first, axis=1) == pytest.approx(1)
    # Texts stand for nothing once the store is known, nor does the number of threads.
    again = dataclasses.replace(ENCODER, threads=1).passages("store", [], ctx)
    assert np.array_equal(first, again)
    assert not np.array_equal(
        first, dataclasses.replace(ENCODER, max_length=4).passages("store", TOWN, ctx)
    )


def test_vectors_do_not_depend_on_threads_and_hardly_on_batches(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(TOWN[: i % 5 + 1]) for i in range(40)] + [""]
    one = ENCODER.encode(texts, ctx)
    assert np.array_equal(one, dataclasses.replace(ENCODER, threads=1).encode(texts, ctx))
    monkeypatch.setattr(encoder_module, "_BATCH_TOKENS", 64)
    assert ENCODER.encode(texts, ctx) == pytest.approx(one, abs=1e-6)
    assert ENCODER.encode([], ctx).shape == (0, 384)


def test_threads_may_encode_at_once(ctx: Context) -> None:
    alone = ENCODER.encode(TOWN, ctx)
    results: list[np.ndarray] = []
    threads = [
        threading.Thread(target=lambda: results.append(ENCODER.encode(TOWN, ctx))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(alone, result) for result in results)


def test_prompts_stand_before_queries_and_passages(ctx: Context) -> None:
    prompted = dataclasses.replace(ENCODER, query_prompt="query: ", passage_prompt="passage: ")
    assert np.array_equal(prompted.queries(["flood"], ctx), ENCODER.encode(["query: flood"], ctx))
    assert np.array_equal(
        prompted.passages("store", ["flood"], ctx), ENCODER.encode(["passage: flood"], ctx)
    )


def test_recent_keeps_a_few_and_makes_each_once() -> None:
    recent = Recent(size=2)
    made: list[str] = []
    gate = threading.Barrier(4)

    def ask() -> None:
        gate.wait()
        recent.get("a", lambda: made.append("a"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"]
    for key in "bac":  # c pushes out b, which was used longest ago
        recent.get(key, lambda key=key: made.append(key))  # type: ignore[misc]
    assert made == ["a", "b", "c"]
    recent.get("a", lambda: made.append("a"))
    recent.get("b", lambda: made.append("b"))
    assert made == ["a", "b", "c", "b"]


# Queries


def test_queries_of_claims_and_questions() -> None:
    claim = Claim(id="1", text="Orla flooded.")
    asked = Case(claim=claim, questions=["When?", "Where?"])
    ctx: Context = None  # type: ignore[assignment]
    assert ClaimQuery().run([asked], ctx)[0].queries == [Query(text="Orla flooded.")]
    assert ClaimQuestion().run([asked], ctx)[0].queries == [
        Query(text="Orla flooded. When?", kind="claim_question", question="When?"),
        Query(text="Orla flooded. Where?", kind="claim_question", question="Where?"),
    ]
    assert ClaimQuestion(with_claim=False).run([asked], ctx)[0].queries[1] == Query(
        text="Where?", kind="question", question="Where?"
    )


def test_a_claim_without_questions_fails_alone_unless_it_may_ask_itself(ctx: Context) -> None:
    cases = [
        Case(claim=Claim(id="1", text="Orla flooded."), questions=["When?"]),
        Case(claim=Claim(id="2", text="Velm flooded.")),
    ]
    refs = [store(one, ("claim", "questions"), ctx.cache) for one in cases]
    first, second = run_step(ClaimQuestion(), "query", refs, ctx)
    assert first.error is None
    assert second.error is not None
    assert "no questions" in second.error
    _, allowed = run_step(ClaimQuestion(allow_none=True), "query", refs, ctx)
    assert load(allowed, ("queries",), ctx.cache).queries == [Query(text="Velm flooded.")]
    with pytest.raises(ClaimflowError, match="choose a questioner, or query=claim"):
        run_step(ClaimQuestion(), "query", [store(cases[1], ("claim",), ctx.cache)], ctx)


# Mistakes


def test_mistakes_in_parameters_are_one_line() -> None:
    for make, message in (
        (lambda: Bm25s(method="okapi"), "choose lucene"),
        (lambda: Bm25s(stemmer="portr"), "Did you mean 'porter'"),
        (lambda: Bm25s(k=0), "k of at least 1"),
        (lambda: Bm25s(into="passages"), "rankings.NAME"),
        (lambda: RankBm25(tokens="spacy"), "nltk or whitespace"),
        (lambda: Rrf(of=["bm25"]), "rankings.NAME"),
        (lambda: Weighted(of=["rankings.a"], weights=[0.4, 0.6]), "2 weights for 1 rankings"),
        (lambda: Mmr(encoder=ENCODER, k=50, fetch=40), "k=50 of fetch=40"),
        (lambda: Mmr(encoder=ENCODER, balance=7), "between 0 and 1"),
        (lambda: Encoder(model=Path("all-MiniLM-L6")), "Did you mean 'all-MiniLM-L6-v2'"),
    ):
        with pytest.raises(ClaimflowError, match=message):
            make()  # type: ignore[no-untyped-call]


def test_a_ranking_that_nobody_wrote_is_named(ctx: Context) -> None:
    refs = stored(three_claims(), ctx.cache)
    fuse: Fuse = Rrf(of=["rankings.bm52"])
    with pytest.raises(ClaimflowError, match=r"No step before wrote rankings\.bm52"):
        run_step(fuse, "fuse", refs, ctx)


def test_hits_survive_their_codec(ctx: Context) -> None:
    refs = run_step(Bm25s(), "bm25", stored(three_claims(), ctx.cache), ctx)
    hits = load(refs[0], ("hits",), ctx.cache).hits
    assert encode(hits) == ctx.cache.get(refs[0].fields["hits"])
