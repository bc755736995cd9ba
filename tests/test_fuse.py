"""Fusion, maximal marginal relevance, queries; and what retriever configs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.files import ROOT
from components.pipeline import CaseRef, keys_of, load, run_step, store
from components.records import Case, Claim, Hit, Passage, Query
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import Concat, Fuse, Rrf, Union, Weighted
from components.retrieve.mmr import Mmr
from components.retrieve.query import ClaimQuery, ClaimQuestion
from components.step import Context, Step
from flows.build import build_steps
from flows.resolvers import register

Ranking = list[tuple[str, float]]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def hits(ranking: Ranking, query: int = 0) -> list[Hit]:
    return [Hit(passage=p, doc=p, score=s, query=query) for p, s in ranking]


def fused(step: Fuse, **rankings: Ranking) -> Ranking:
    case = Case(
        claim=Claim(id="1", text=""), rankings={name: hits(r) for name, r in rankings.items()}
    )
    [done] = step.run([case], Context.__new__(Context))  # fusion needs nothing of a context
    return [(hit.passage, hit.score) for hit in done.hits]


OF = ["rankings.a", "rankings.b"]
A: Ranking = [("x", 9.0), ("y", 5.0), ("z", 1.0)]
B: Ranking = [("y", 0.8), ("w", 0.2)]


def test_rrf_worked() -> None:
    assert fused(Rrf(of=OF), a=A, b=B) == [
        ("y", pytest.approx(1 / 62 + 1 / 61)),
        ("x", pytest.approx(1 / 61)),
        ("w", pytest.approx(1 / 62)),
        ("z", pytest.approx(1 / 63)),
    ]


def test_weighted_worked() -> None:
    assert fused(Weighted(of=OF, weights=[0.4, 0.6]), a=A, b=B) == [
        ("y", pytest.approx(0.4 * 0.5 + 0.6)),
        ("x", pytest.approx(0.4)),
        ("w", 0),  # of equal scores the better rank stands first
        ("z", 0),
    ]


def test_equal_scores_are_all_the_best() -> None:
    step = Weighted(of=OF, weights=[0.4, 0.6])
    assert fused(step, a=[("x", 2.0), ("y", 2.0)], b=[]) == [("x", 0.4), ("y", 0.4)]


def test_depth_and_k() -> None:
    assert [p for p, _ in fused(Rrf(of=OF, depth=1), a=A, b=B)] == ["x", "y"]
    assert [p for p, _ in fused(Rrf(of=OF, k=2), a=A, b=B)] == ["y", "x"]


def test_queries_are_fused_apart() -> None:
    case = Case(
        claim=Claim(id="1", text=""),
        rankings={
            "a": hits([("x", 2.0)]) + hits([("y", 2.0)], query=1),
            "b": hits([("x", 1.0)], query=2),
        },
    )
    [done] = Rrf(of=OF).run([case], Context.__new__(Context))
    assert [(h.query, h.passage) for h in done.hits] == [(0, "x"), (1, "y"), (2, "x")]
    assert {h.score for h in done.hits} == {1 / 61}


def test_union_and_concat_worked() -> None:
    assert fused(Union(of=OF), a=A, b=B) == [
        ("x", 1), ("y", 1), ("w", 1 / 2), ("z", 1 / 3)
    ]  # fmt: skip
    assert fused(Concat(of=OF), a=A, b=B) == [
        ("x", 2), ("y", 1 + 1 / 2), ("z", 1 + 1 / 3), ("w", 1 / 2)
    ]  # fmt: skip
    assert [p for p, _ in fused(Concat(of=OF, depth=[1, None]), a=A, b=B)] == ["x", "y", "w"]


def test_a_depth_for_each_ranking() -> None:
    """OldJoe: 8 hits of each list, constant 4."""
    assert fused(Rrf(of=OF, constant=4, depth=[2, 1]), a=A, b=B) == [
        ("y", pytest.approx(1 / 6 + 1 / 5)), ("x", pytest.approx(1 / 5))
    ]  # fmt: skip


def test_across_queries_of_a_question() -> None:
    queries = [Query(text="p"), Query(text="q", question="Q"), Query(text="r", question="Q")]
    case = Case(
        claim=Claim(id="1", text=""),
        queries=queries,
        rankings={
            "a": hits([("x", 1.0)]) + hits([("x", 2.0), ("y", 1.0)], query=1)
            + hits([("y", 2.0)], query=2),
            "b": hits([("z", 1.0)], query=2),
        },
    )  # fmt: skip
    step = Rrf(of=OF, across=True)
    assert "queries" in step.reads
    assert "queries" not in Rrf(of=OF).reads  # so that rewording a query fuses nothing again
    [done] = step.run([case], Context.__new__(Context))
    assert [(h.query, h.passage, h.score) for h in done.hits] == [
        (0, "x", pytest.approx(1 / 61)),
        (1, "y", pytest.approx(1 / 62 + 1 / 61)),
        (1, "x", pytest.approx(1 / 61)),
        (1, "z", pytest.approx(1 / 61)),
    ]


def test_pooled_over_the_queries_of_a_question() -> None:
    """A ranking's depth counts over all queries (OldJoe): worked by hand."""
    queries = [Query(text="q", question="Q"), Query(text="r", question="Q")]
    case = Case(
        claim=Claim(id="1", text=""),
        queries=queries,
        rankings={
            "a": hits([("x", 3.0), ("y", 1.0)]) + hits([("z", 4.0), ("x", 2.0)], query=1),
            "b": hits([("y", 0.9), ("w", 0.8)]) + hits([("w", 0.5)], query=1),
        },
    )
    step = Rrf(of=OF, across=True, pooled=True, depth=[3, 2], constant=4)
    [done] = step.run([case], Context.__new__(Context))
    # a gives z, x, x again; b gives y, w.
    assert [(h.query, h.passage, h.score) for h in done.hits] == [
        (0, "x", pytest.approx(1 / 6 + 1 / 7)),
        (0, "y", pytest.approx(1 / 5)),
        (0, "z", pytest.approx(1 / 5)),
        (0, "w", pytest.approx(1 / 6)),
    ]
    with pytest.raises(ClaimflowError, match="say across=true, too"):
        Rrf(of=OF, pooled=True)


def test_a_ranking_that_no_step_wrote() -> None:
    with pytest.raises(ClaimflowError, match=r"No step before wrote rankings\.b"):
        fused(Rrf(of=OF), a=A)


ranking = st.dictionaries(
    st.sampled_from("abcdefgh"), st.integers(-20, 20).map(float), max_size=8
).map(lambda scores: sorted(scores.items(), key=lambda item: (-item[1], item[0])))


@settings(deadline=None)
@given(ranking, ranking, ranking)
def test_rrf_does_not_ask_which_ranking_is_first(a: Ranking, b: Ranking, c: Ranking) -> None:
    of = [*OF, "rankings.c"]
    expected = fused(Rrf(of=of), a=a, b=b, c=c)
    assert fused(Rrf(of=of[::-1]), a=a, b=b, c=c) == expected
    assert fused(Rrf(of=[of[1], of[2], of[0]]), a=a, b=b, c=c) == expected


@settings(deadline=None)
@given(ranking)
def test_fusing_a_ranking_with_itself_keeps_its_order(a: Ranking) -> None:
    assert [p for p, _ in fused(Rrf(of=OF), a=a, b=a)] == [p for p, _ in a]


@settings(deadline=None)
@given(ranking, ranking, st.sampled_from([Union, Concat]))
def test_union_is_idempotent_and_loses_nothing(a: Ranking, b: Ranking, kind: type[Union]) -> None:
    order = [p for p, _ in a]
    assert [p for p, _ in fused(kind(of=OF), a=a, b=a)] == order
    assert [p for p, _ in fused(kind(of=OF), a=a, b=[])] == order
    both = [p for p, _ in fused(kind(of=OF), a=a, b=b)]
    assert set(both) == {p for p, _ in a} | {p for p, _ in b}
    again = fused(kind(of=OF), a=[(p, 1 / i) for i, p in enumerate(both, 1)], b=b)
    assert {p for p, _ in again} == set(both)
    if kind is Concat:
        assert both[: len(order)] == order


@settings(deadline=None)
@given(ranking, ranking, st.integers(1, 7))
def test_rrf_is_monotone(a: Ranking, b: Ranking, at: int) -> None:
    """What rises in one ranking doesn't fall in the fused one."""
    if at >= len(a):
        return
    risen = [*a[: at - 1], a[at], a[at - 1], *a[at + 1 :]]
    before, after = ([p for p, _ in fused(Rrf(of=OF), a=r, b=b)] for r in (a, risen))
    assert after.index(a[at][0]) <= before.index(a[at][0])


@settings(deadline=None)
@given(ranking, ranking, st.floats(0, 1), st.floats(0.01, 1))
def test_weighted_lies_between_nothing_and_all_weights(
    a: Ranking, b: Ranking, first: float, second: float
) -> None:
    found = fused(Weighted(of=OF, weights=[first, second]), a=a, b=b)
    assert {p for p, _ in found} == {p for p, _ in a} | {p for p, _ in b}
    assert all(0 <= s <= first + second + 1e-12 for _, s in found)


@settings(deadline=None)
@given(ranking, ranking, st.floats(0.1, 10), st.integers(-5, 5))
def test_weighted_does_not_ask_for_the_scale(
    a: Ranking, b: Ranking, factor: float, shift: int
) -> None:
    step = Weighted(of=OF, weights=[0.4, 0.6])
    scaled = [(p, factor * s + shift) for p, s in a]
    assert dict(fused(step, a=scaled, b=b)) == pytest.approx(dict(fused(step, a=a, b=b)), abs=1e-9)


# Maximal marginal relevance

TEXTS = [
    "The central bank raised its interest rate in July.",
    "In July the central bank raised its interest rate.",
    "Interest rates were raised by the bank this summer.",
    "Hospitals reported fewer patients after the vaccine.",
    "A bridge across the river was closed for repairs.",
    "The vaccine reached every hospital by spring.",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(model=Path("all-MiniLM-L6-v2"))


def reordered(step: Mmr, ranking: Ranking, texts: list[str], ctx: Context) -> list[str]:
    """The passages, named by their index, as `step` orders them; scores must stay."""
    passages = [Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)]
    case = Case(claim=Claim(id="1", text=""), passages=passages, hits=hits(ranking))
    [done] = step.run([case], ctx)
    assert {h.passage: h.score for h in done.hits} == dict(ranking)
    assert len(done.hits) == len(ranking)
    return [hit.passage for hit in done.hits]


def test_mmr_puts_a_repetition_behind(encoder: Encoder, ctx: Context) -> None:
    """The second hit says what the first says: .5 · .9 − .5 · 1 is below 0 − .5 · (almost 0)."""
    step = Mmr(encoder=encoder, k=3, balance=0.5)
    texts = [TEXTS[0], TEXTS[0], TEXTS[4]]
    assert reordered(step, [("0", 10.0), ("1", 9.0), ("2", 0.0)], texts, ctx) == ["0", "2", "1"]


scores = st.lists(st.integers(0, 30), min_size=1, max_size=6).map(
    lambda values: [(str(i), float(s)) for i, s in enumerate(sorted(values, reverse=True))]
)


@settings(max_examples=40, deadline=None)
@given(scores, st.integers(1, 6), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]))
def test_mmr_by_definition(
    ctx: Context, encoder: Encoder, ranking: Ranking, k: int, balance: float
) -> None:
    """The formula of Carbonell and Goldstein, literally."""
    step = Mmr(encoder=encoder, k=k, fetch=6, balance=balance, scale=False)
    vectors = encoder.encode(TEXTS, ctx)
    relevance = dict(ranking)
    left, chosen = [p for p, _ in ranking], []
    while left and len(chosen) < k:
        value = {
            p: balance * relevance[p]
            - (1 - balance)
            * max((float(vectors[int(p)] @ vectors[int(c)]) for c in chosen), default=0)
            for p in left
        }
        chosen.append(max(left, key=lambda p: round(value[p], 6)))
        left.remove(chosen[-1])
    assert reordered(step, ranking, TEXTS, ctx) == chosen + left


@settings(max_examples=40, deadline=None)
@given(scores, st.integers(1, 6), st.floats(0.01, 1), st.booleans())
def test_mmr_starts_with_the_best_and_at_balance_1_keeps_the_order(
    ctx: Context, encoder: Encoder, ranking: Ranking, k: int, balance: float, scale: bool
) -> None:
    step = Mmr(encoder=encoder, k=k, fetch=6, balance=balance, scale=scale)
    assert reordered(step, ranking, TEXTS, ctx)[0] == ranking[0][0]
    step = Mmr(encoder=encoder, k=k, fetch=6, balance=1, scale=scale)
    assert reordered(step, ranking, TEXTS, ctx) == [p for p, _ in ranking]


def test_hits_beyond_fetch_stay_behind(encoder: Encoder, ctx: Context) -> None:
    ranking = [(str(i), float(9 - i)) for i in range(6)]
    order = reordered(Mmr(encoder=encoder, k=2, fetch=4, balance=0.3), ranking, TEXTS, ctx)
    assert order[4:] == ["4", "5"]
    assert order[:2] == ["0", order[1]]
    assert order[1] != "1"
    assert order[2:4] == sorted(order[2:4])


def test_mmr_of_nothing(encoder: Encoder, ctx: Context) -> None:
    empty = Case(claim=Claim(id="1", text=""))
    none_found = Case(claim=Claim(id="2", text=""), passages=[Passage(id="0", doc="0", text="a")])
    assert [c.hits for c in Mmr(encoder=encoder).run([empty, none_found], ctx)] == [[], []]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 50, "fetch": 40}, "can't choose k=50 of fetch=40"),
        ({"balance": 1.2}, "balance=1.2 of Mmr is wrong: give 0 to 1"),
        ({"k": 0}, "k of at least 1"),
    ],
)
def test_bad_mmr(parameters: dict[str, Any], message: str, encoder: Encoder) -> None:
    with pytest.raises(ClaimflowError, match=message):
        Mmr(encoder=encoder, **parameters)


def test_bad_fusion() -> None:
    with pytest.raises(ClaimflowError, match="1 weights for 2 rankings"):
        Weighted(of=OF, weights=[1])
    with pytest.raises(ClaimflowError, match="Hits can't stand in 'bm25'"):
        Rrf(of=["bm25"])
    with pytest.raises(ClaimflowError, match="depth of at least 1"):
        Rrf(of=OF, depth=0)
    with pytest.raises(ClaimflowError, match="3 depths for 2 rankings"):
        Rrf(of=OF, depth=[1, 2, 3])


# Queries


def test_queries(ctx: Context) -> None:
    claim = Claim(id="1", text="The bridge is closed.")
    [done] = ClaimQuery().run([Case(claim=claim)], ctx)
    assert done.queries == [Query(text="The bridge is closed.")]
    case = Case(claim=claim, questions=["Is it?", "Since when?"])
    [done] = ClaimQuestion().run([case], ctx)
    assert [(q.text, q.kind, q.question) for q in done.queries] == [
        ("The bridge is closed. Is it?", "claim_question", "Is it?"),
        ("The bridge is closed. Since when?", "claim_question", "Since when?"),
    ]
    [done] = ClaimQuestion(with_claim=False).run([case], ctx)
    assert [(q.text, q.kind) for q in done.queries] == [
        ("Is it?", "question"),
        ("Since when?", "question"),
    ]


def test_a_claim_without_questions(ctx: Context) -> None:
    claim = Claim(id="1", text="The bridge is closed.")
    with pytest.raises(ClaimflowError, match="choose a questioner, or query=claim"):
        ClaimQuestion().run([Case(claim=claim)], ctx)
    asked = {"questions": "digest of an empty list"}
    [done] = ClaimQuestion().run([Case(claim=claim, digests=asked)], ctx)
    assert done.failed
    assert "no questions" in done.failed
    [done] = ClaimQuestion(allow_none=True).run([Case(claim=claim, digests=asked)], ctx)
    assert done.failed is None
    assert [q.text for q in done.queries] == ["The bridge is closed."]


# What configs share

RETRIEVERS = sorted(path.stem for path in (ROOT / "conf" / "retriever").glob("[!_]*.yaml"))


def steps(retriever: str, *overrides: str) -> dict[str, Step]:
    register()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = compose("config", [f"retriever={retriever}", "pipeline=[retriever]", *overrides])
    return build_steps(config)


def ref(ctx: Context) -> CaseRef:
    passages = [Passage(id=f"{i}#0", doc=str(i), text=text) for i, text in enumerate(TEXTS)]
    case = Case(
        claim=Claim(id="1", text=""),
        passages=passages,
        queries=[Query(text="Was the interest rate raised?")],
    )
    return store(case, ["claim", "passages", "queries"], ctx.cache)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_every_config_gives_hits(retriever: str, ctx: Context) -> None:
    refs = [ref(ctx)]
    for name, step in steps(retriever).items():
        refs = run_step(step, name, refs, ctx)
    hits = load(refs[0], ("hits",), ctx.cache).hits
    assert hits
    assert hits[0].doc in "012"


def test_fusion_shares_the_work_of_its_retrievers(ctx: Context) -> None:
    """A sweep searches once for each retriever: where its hits go is no part of the key."""
    refs = [ref(ctx)]
    points = [steps(name) for name in ("hybrid", "weighted", "hybrid_mmr")]
    for single, part in (("bm25s", "retriever.bm25"), ("dense", "retriever.dense")):
        expected = keys_of(steps(single)[part], refs, ctx)
        assert [keys_of(point[part], refs, ctx) for point in points] == [expected] * 3
    assert keys_of(steps("bm25s")["retriever.bm25"], refs, ctx) != keys_of(
        steps("bm25s", "retriever.bm25.k1=1.2")["retriever.bm25"], refs, ctx
    )


def test_mmr_and_dense_share_embeddings(tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path))
    refs = [ref(ctx)]
    for name, step in steps("hybrid_mmr").items():
        refs = run_step(step, name, refs, ctx)
    assert ctx.cache.sizes()["artifacts"][0] == 1
    assert np.isfinite([hit.score for hit in load(refs[0], ("hits",), ctx.cache).hits]).all()
