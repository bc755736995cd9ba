"""Retrieval on the real SciFact: the published and measured figures come out.

300 claims of dev as queries, 5,183 abstracts (title, space, sentences), `cited_doc_ids` relevant.
The abstracts are encoded once in about four minutes of a core; with CLAIMFLOW_CACHE they stay.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import nDCG

from components import assets
from components.cache import Cache
from components.files import digest
from components.records import Case, Claim, Hit, Passage, Query, encode
from components.retrieve.bm25 import Bm25s, RankBm25
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import Rrf, Weighted
from components.retrieve.search import Ranker, get_hits
from components.step import Context

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "scifact"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # where other work has the cores, encoding takes its time
    pytest.mark.skipif(not DATA.is_dir(), reason="CLAIMFLOW_DATA has no scifact"),
]
WHOLE = 5183
BOTH = ["rankings.bm25", "rankings.dense"]


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    corpus = []
    for line in lines("corpus.jsonl"):
        doc, text = str(line["doc_id"]), " ".join([line["title"], *line["abstract"]])
        corpus.append(Passage(id=f"{doc}#0", doc=doc, text=text))
    assert len(corpus) == WHOLE
    store = digest(encode(corpus))
    return [
        Case(
            claim=Claim(
                id=str(line["id"]), text=line["claim"], relevant=[*map(str, line["cited_doc_ids"])]
            ),
            queries=[Query(text=line["claim"])],
            passages=corpus,
            digests={"passages": store},
        )
        for line in lines("claims_dev.jsonl")
    ]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = os.environ.get("CLAIMFLOW_CACHE") or tmp_path_factory.mktemp("scifact")
    return Context(Cache(folder))


@pytest.fixture(scope="module")
def searched(cases: list[Case], ctx: Context) -> list[Case]:
    """The cases with the first thousand of BM25 and dense retrieval in `rankings`."""
    encoder = Encoder(model=assets.model("all-MiniLM-L6-v2"))
    Dense(encoder=encoder, k=1000, into="rankings.dense").run(cases, ctx)
    return Bm25s(k=1000, into="rankings.bm25").run(cases, ctx)


def ndcg(cases: list[Case], field: str = "hits") -> float:
    qrels = [ir_measures.Qrel(c.claim.id, doc, 1) for c in cases for doc in c.claim.relevant]

    def ranked(hits: list[Hit], query: str) -> list[Any]:
        return [ir_measures.ScoredDoc(query, hit.doc, -i) for i, hit in enumerate(hits)]

    run = [doc for c in cases for doc in ranked(get_hits(c, field), c.claim.id)]
    return float(ir_measures.calc_aggregate([nDCG @ 10], qrels, run)[nDCG @ 10])


@pytest.mark.parametrize(
    ("step", "value"),
    [
        (Bm25s(k1=0.9, b=0.4), 0.6713),
        (Bm25s(k1=1.5, b=0.75), 0.6869),
        (Bm25s(stemmer="english"), 0.6762),
        (Bm25s(stemmer=None), 0.6569),
        (RankBm25(tokens="whitespace", lower=True), 0.5597),
    ],
    ids=["bm25", "k1 1.5", "snowball", "no stems", "rank_bm25"],
)
def test_lexical(step: Ranker, value: float, cases: list[Case], ctx: Context) -> None:
    assert ndcg(step.run(cases, ctx)) == pytest.approx(value, abs=0.0005)


def test_dense(searched: list[Case]) -> None:
    assert ndcg(searched, "rankings.dense") == pytest.approx(0.6451, abs=0.0005)


@pytest.mark.parametrize(
    ("step", "value"),
    [
        (Rrf(of=BOTH, depth=100), 0.7188),
        (Rrf(of=BOTH), 0.7197),
        (Weighted(of=BOTH, weights=[0.4, 0.6], depth=100), 0.7245),
        (Weighted(of=BOTH, weights=[0.4, 0.6]), 0.7303),
    ],
    ids=["rrf 100", "rrf 1000", "weighted 100", "weighted 1000"],
)
def test_fusion(step: Ranker, value: float, searched: list[Case], ctx: Context) -> None:
    assert ndcg(step.run(searched, ctx)) == pytest.approx(value, abs=0.0005)


def test_whole_rankings(searched: list[Case], ctx: Context) -> None:
    """The published setting of both fusions; passages without a term of the query don't rank."""
    encoder = Encoder(model=assets.model("all-MiniLM-L6-v2"))
    deep = [Case(claim=c.claim, queries=c.queries, passages=c.passages, digests=c.digests)
            for c in searched]  # fmt: skip
    Dense(encoder=encoder, k=WHOLE, into="rankings.dense").run(deep, ctx)
    Bm25s(k=WHOLE, into="rankings.bm25").run(deep, ctx)
    weighted = Weighted(of=BOTH, weights=[0.4, 0.6]).run(deep, ctx)
    assert ndcg(weighted) == pytest.approx(0.7360, abs=0.003)
    Bm25s(k=WHOLE, k1=1.5, b=0.75, into="rankings.bm25").run(deep, ctx)
    assert ndcg(Rrf(of=BOTH).run(deep, ctx)) == pytest.approx(0.7227, abs=0.003)
