"""Re-rankers and evidence filters: values worked by hand or by the package behind, and laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.reason.evidence import (
    ClaimCopies,
    NearDuplicates,
    ScoreFloor,
    SimilarityFloor,
    TopPerQuestion,
    UrlSeen,
    pair_cosine,
)
from components.records import Case, Claim, Hit, Passage, Query
from components.retrieve.encoder import Encoder
from components.retrieve.rerank import CrossEncoderRerank, DenseRerank, MaxSim, QaSimilarity
from components.step import Context, identity

ENCODER = Encoder(model=Path("all-MiniLM-L6-v2"))
TEXTS = [
    "The central bank raised its interest rate in July.",
    "Hospitals reported fewer patients after the vaccine.",
    "The minister said that the bank had raised nothing.",
    "A bridge was closed.",
    "The bridge across the river was closed for repairs in July.",
]
QUERY = "Did the bank raise the interest rate?"


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def case(
    *rankings: list[int],
    queries: list[Query] | None = None,
    claim: str = "",
    texts: list[str] = TEXTS,
    urls: list[str | None] | None = None,
) -> Case:
    """A case in which each query found the texts with these numbers."""
    return Case(
        claim=Claim(id="1", text=claim),
        queries=queries or [Query(text=QUERY) for _ in rankings],
        passages=[
            Passage(id=str(i), doc=f"d{i}", text=text, url=urls[i] if urls else None)
            for i, text in enumerate(texts)
        ],
        hits=[
            Hit(passage=str(i), doc=f"d{i}", score=9.0 - rank, query=query)
            for query, ranking in enumerate(rankings)
            for rank, i in enumerate(ranking)
        ],
    )


def ran(step: Any, made: Case, ctx: Context) -> list[list[tuple[int, float]]]:
    """(number of the text, score) for each query."""
    found: list[list[tuple[int, float]]] = [[] for _ in made.queries]
    for hit in step.run([made], ctx)[0].hits:
        found[hit.query].append((int(hit.passage), hit.score))
    return found


def by(values: dict[int, float]) -> list[tuple[int, Any]]:
    order = sorted(values.items(), key=lambda item: -item[1])
    return [(i, pytest.approx(value, abs=2e-6)) for i, value in order]


# Re-rankers


def test_dense_rerank_is_the_cosine(ctx: Context) -> None:
    made = case([4, 3, 0, 1], [2], queries=[Query(text=QUERY), Query(text="bridge")])
    [query, bridge] = ENCODER.encode([QUERY, "bridge"], ctx)
    vectors = ENCODER.encode(TEXTS, ctx)
    assert ran(DenseRerank(encoder=ENCODER), made, ctx) == [
        by({i: vectors[i] @ query for i in (4, 3, 0, 1)}),
        by({2: vectors[2] @ bridge}),
    ]


def test_dense_rerank_by_a_mean_query(ctx: Context) -> None:
    queries = [Query(text="bank", question="q"), Query(text="rate", question="q")]
    made = case([3, 0, 2], queries=queries)
    mean = ENCODER.encode(["bank", "rate"], ctx).mean(axis=0)
    vectors = ENCODER.encode(TEXTS, ctx)
    expected = by({i: vectors[i] @ mean / np.linalg.norm(mean) for i in (3, 0, 2)})
    assert ran(DenseRerank(encoder=ENCODER, together=True), made, ctx)[0] == expected


def test_a_shared_corpus_is_encoded_once(tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))
    step = DenseRerank(encoder=ENCODER)
    alone = [ran(step, case(found), ctx)[0] for found in ([4, 0], [1, 0])]
    assert ctx.cache.sizes()["artifacts"][0] == 0
    together = [
        [(int(h.passage), h.score) for h in done.hits]
        for done in step.run([case([4, 0]), case([1, 0])], ctx)
    ]
    assert ctx.cache.sizes()["artifacts"][0] == 1
    for one, other in zip(alone, together, strict=True):
        assert dict(one) == pytest.approx(dict(other), abs=2e-6)


def test_maxsim_by_definition(ctx: Context) -> None:
    """Each query token's best cosine, summed; every passage by itself."""
    [query] = ENCODER.token_vectors([QUERY], ctx)
    values = {}
    for i in (1, 3, 0):
        [tokens] = ENCODER.token_vectors([TEXTS[i]], ctx)
        values[i] = sum(max(float(q @ t) for t in tokens) for q in query)
    [found] = ran(MaxSim(encoder=ENCODER), case([1, 3, 0]), ctx)
    assert found == [(i, pytest.approx(v.expected, abs=1e-4)) for i, v in by(values)]
    [itself] = ran(MaxSim(encoder=ENCODER), case([0], queries=[Query(text=TEXTS[0])]), ctx)
    assert itself[0][1] == pytest.approx(len(ENCODER.token_vectors([TEXTS[0]], ctx)[0]), abs=1e-3)


def test_maxsim_of_several_claims_is_that_of_each(ctx: Context) -> None:
    step = MaxSim(encoder=ENCODER)
    found = ([1, 3, 0], [], [4, 0])
    alone = [ran(step, case(hits), ctx)[0] for hits in found]
    done = step.run([case(hits) for hits in found], ctx)
    assert [[int(hit.passage) for hit in each.hits] for each in done] == [
        [i for i, _ in expected] for expected in alone
    ]
    for each, expected in zip(done, alone, strict=True):
        assert [h.score for h in each.hits] == pytest.approx([v for _, v in expected], abs=1e-4)


def test_qa_similarity(ctx: Context) -> None:
    queries = [Query(text="x", question="What did the bank do?"), Query(text="y")]
    made = case([3, 0], [2], queries=queries, claim=QUERY)
    [claim] = ENCODER.encode([QUERY], ctx)
    joined = ENCODER.encode([f"What did the bank do? {TEXTS[i]}" for i in (3, 0)], ctx)
    assert ran(QaSimilarity(encoder=ENCODER), made, ctx) == [
        by(dict(zip((3, 0), joined @ claim, strict=True))),
        by({2: ENCODER.encode([TEXTS[2]], ctx)[0] @ claim}),
    ]


def test_cross_encoder_is_sentence_transformers(ctx: Context, cross_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder

    theirs = CrossEncoder(str(cross_encoder), device="cpu").predict(
        [(QUERY, TEXTS[i]) for i in (0, 1, 4)]
    )
    assert np.ptp(theirs) > 1e-3
    made = case([0, 1, 4], [], queries=[Query(text=QUERY), Query(text="none")])
    step = CrossEncoderRerank(model=cross_encoder)
    assert ran(step, made, ctx) == [by(dict(zip((0, 1, 4), theirs.tolist(), strict=True))), []]
    small = CrossEncoderRerank(model=cross_encoder, batch=1)
    assert ran(small, made, ctx)[0] == by(dict(zip((0, 1, 4), theirs.tolist(), strict=True)))
    assert identity(small) == identity(step)


def test_a_class_that_loads_otherwise_has_a_model_of_its_own(
    ctx: Context, cross_encoder: Path
) -> None:
    class Short(CrossEncoderRerank):
        def _load(self) -> Any:
            model = super()._load()
            model.max_seq_length = 8
            return model

    made = [case([0, 1, 4]) for _ in range(2)]
    whole, short = (
        ran(step(model=cross_encoder), one, ctx)
        for step, one in zip((CrossEncoderRerank, Short), made, strict=True)
    )
    assert whole != short


def test_fetch_and_k(ctx: Context) -> None:
    [found] = ran(DenseRerank(encoder=ENCODER, fetch=3, k=2), case([4, 3, 1, 0]), ctx)
    assert {i for i, _ in found} < {4, 3, 1}
    assert len(found) == 2
    assert ran(DenseRerank(encoder=ENCODER), case([]), ctx) == [[]]
    with pytest.raises(ClaimflowError, match="can't keep k=5 of fetch=4"):
        DenseRerank(encoder=ENCODER, fetch=4, k=5)
    with pytest.raises(ClaimflowError, match="No model folder 'none-such'"):
        CrossEncoderRerank(model=Path("none-such"))


def test_equal_texts_keep_their_order(ctx: Context, cross_encoder: Path) -> None:
    texts = [TEXTS[0], TEXTS[3], TEXTS[0]]
    for step in (
        DenseRerank(encoder=ENCODER), MaxSim(encoder=ENCODER), QaSimilarity(encoder=ENCODER),
        CrossEncoderRerank(model=cross_encoder),
    ):  # fmt: skip
        [found] = ran(step, case([2, 1, 0], texts=texts, claim=QUERY), ctx)
        order = [i for i, _ in found]
        assert order.index(2) < order.index(0), step


# Evidence filters


def test_claim_copies(ctx: Context) -> None:
    claim = "The bank raised its interest rate to two per cent in July 2020."
    texts = [
        claim,
        "the bank raised its interest rate to two per cent, in July 2020",  # signs don't count
        f"So: {claim}",  # contains it, and little else
        f"It is wrong to say: {claim} It did so in August",  # contains it, and much else
        "In July 2020 the bank raised its interest rate to two per cent.",  # the same words
        "The bank raised its interest rate to three per cent in July 2020.",
    ]
    made = case([0, 1, 2, 3, 4, 5], claim=claim, texts=texts)
    assert [i for i, _ in ran(ClaimCopies(), made, ctx)[0]] == [3, 5]
    made = case([2], claim=claim, texts=texts)
    assert ran(ClaimCopies(ratio=1.0, cosine=0.99), made, ctx)[0]


words = st.lists(st.sampled_from(["bank", "rate", "a", "July", "river"]), max_size=8)


@settings(max_examples=80, deadline=None)
@given(words, words)
def test_pair_cosine_is_scikit_learn(one: list[str], other: list[str]) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [" ".join(one), " ".join(other)]
    try:
        vectors = TfidfVectorizer(lowercase=False).fit_transform(texts)
        expected = float((vectors[[0]] @ vectors[[1]].T).sum())
    except ValueError:  # no words at all
        expected = 0.0
    assert pair_cosine(*texts) == pytest.approx(expected)


def test_near_duplicates(ctx: Context) -> None:
    texts = [TEXTS[0], TEXTS[3], "In July the central bank raised its interest rate."]
    two = [Query(text="p", question="P"), Query(text="q", question="Q")]
    step = NearDuplicates(encoder=ENCODER)
    assert ran(step, case([0, 2, 1], texts=texts), ctx) == [[(0, 9.0), (1, 7.0)]]
    # Of two queries the first hits come first, whatever their order in the list.
    made = case([1, 0], [2, 1], queries=two, texts=texts)
    assert ran(step, made, ctx) == [[(1, 9.0)], [(2, 9.0)]]
    made = case([1, 0], [2, 1], queries=two, texts=texts)
    step = NearDuplicates(encoder=ENCODER, within="question")
    assert ran(step, made, ctx) == [[(1, 9.0), (0, 8.0)], [(2, 9.0), (1, 8.0)]]


def test_similarity_floor(ctx: Context) -> None:
    cosines = ENCODER.encode(TEXTS, ctx) @ ENCODER.encode([QUERY], ctx)[0]
    floor = float(np.sort(cosines)[2])
    kept = {i for i, cosine in enumerate(cosines) if round(float(cosine), 6) >= floor}
    made = case(list(range(5)))
    assert {i for i, _ in ran(SimilarityFloor(encoder=ENCODER, floor=floor), made, ctx)[0]} == kept
    assert ran(SimilarityFloor(encoder=ENCODER, floor=1.0), made, ctx) == [[]]


def test_url_seen(ctx: Context) -> None:
    urls = ["https://a.org/1", "http://www.a.org/1/", None, None, "https://a.org/2"]
    queries = [Query(text="p", question="P"), Query(text="q", question="P"), Query(text="r")]
    made = case([0, 1, 2], [1, 4, 3], [0, 4], queries=queries, urls=urls)
    assert [[i for i, _ in q] for q in ran(UrlSeen(), made, ctx)] == [[0, 2], [4, 3], [0, 4]]
    made = case([0, 1, 2], [1, 4, 3], [0, 4], queries=queries, urls=urls)
    step = UrlSeen(within="claim")
    assert [[i for i, _ in q] for q in ran(step, made, ctx)] == [[0, 2], [4, 3], []]


def test_a_text_of_several_pages_is_of_all_of_them(ctx: Context) -> None:
    urls: list[str | None] = ["https://a.org", "https://b.org", "https://c.org", None, None]
    made = case([0, 1, 2], urls=urls)
    first = msgspec.structs.replace(made.passages[0], also=("http://www.b.org/",))
    made.passages = [first, *made.passages[1:]]
    assert [i for i, _ in ran(UrlSeen(), made, ctx)[0]] == [0, 2]


def test_score_floor(ctx: Context) -> None:
    assert ran(ScoreFloor(floor=8.0), case([3, 1, 2]), ctx) == [[(3, 9.0), (1, 8.0)]]
    assert ran(ScoreFloor(), case([3, 1, 2]), ctx)[0]


def test_top_per_question(ctx: Context) -> None:
    queries = [Query(text="p", question="P"), Query(text="q", question="P"), Query(text="r")]
    made = case([0, 1, 2], [0, 3, 4], [4, 1], queries=queries)
    found = ran(TopPerQuestion(k=3), made, ctx)
    assert [[i for i, _ in q] for q in found] == [[0, 1], [3], [4, 1]]


FILTERS = [
    ClaimCopies(), NearDuplicates(encoder=ENCODER), SimilarityFloor(encoder=ENCODER, floor=0.3),
    UrlSeen(), UrlSeen(within="claim"), TopPerQuestion(k=2), ScoreFloor(floor=7.5),
]  # fmt: skip
rankings = st.lists(st.lists(st.integers(0, 4), unique=True, max_size=5), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FILTERS), rankings, st.integers(1, 2))
def test_filters_keep_the_order_and_are_idempotent(
    ctx: Context, step: Any, found: list[list[int]], questions: int
) -> None:
    queries = [Query(text="bank", question=str(i % questions)) for i in range(len(found))]
    made = case(*found, queries=queries, claim=TEXTS[0])
    before = list(made.hits)
    [once] = step.run([made], ctx)
    after = list(once.hits)
    assert after == [hit for hit in before if hit in after]
    assert step.run([once], ctx)[0].hits == after


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClaimCopies(ratio=2), "ratio=2 of ClaimCopies is wrong: give 0 to 1"),
        (lambda: NearDuplicates(encoder=ENCODER, within="page"), "within=page"),
        (lambda: UrlSeen(within="all"), "choose question or claim"),
        (lambda: SimilarityFloor(encoder=ENCODER, floor=-1), "give 0 to 1"),
        (lambda: TopPerQuestion(k=0), "k of at least 1, not 0"),
    ],
)
def test_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        make()
