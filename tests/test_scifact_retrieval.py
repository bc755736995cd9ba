"""Retrieval on SciFact's dev claims and abstracts.

BM25 ranks all 5,183 abstracts. Encoding them takes minutes, so dense retrieval works on the first
60 claims, the abstracts that they cite and the first 150 others; `benchmarks/retrieval.py` measures
the whole.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from components.cache import Cache
from components.datasets.scifact import SciFact
from components.records import Case, Claim, Document, Query
from components.retrieve.bm25 import Bm25s
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.score.retrieval import document_ranking, retrieval
from components.step import Context
from components.store.chunk import WholeDocument

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data"), "scifact")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA.exists(), reason="needs the published SciFact"),
]


@pytest.fixture(scope="module")
def claims() -> list[Claim]:
    return SciFact(path=DATA, split="dev").claims()


@pytest.fixture(scope="module")
def abstracts(claims: list[Claim]) -> list[Document]:
    return SciFact(path=DATA, split="dev").read_documents(claims[0])


def cases(claims: list[Claim], abstracts: list[Document], ctx: Context) -> list[Case]:
    whole = WholeDocument(with_title=True)
    [first] = whole.run([Case(claim=claims[0], documents=abstracts)], ctx)
    return [
        Case(
            claim=claim,
            passages=first.passages,
            queries=[Query(text=claim.text)],
            digests={"passages": "abstracts"},
        )
        for claim in claims
    ]


@pytest.mark.parametrize(
    ("k1", "b", "stemmer", "expected"),
    [
        (0.9, 0.4, "porter", 0.6713),
        (1.5, 0.75, "porter", 0.6869),
        (0.9, 0.4, "english", 0.6762),
        (0.9, 0.4, None, 0.6569),
    ],
)
def test_bm25(
    k1: float,
    b: float,
    stemmer: str | None,
    expected: float,
    claims: list[Claim],
    abstracts: list[Document],
    tmp_path: Path,
) -> None:
    ctx = Context(Cache(tmp_path))
    found = Bm25s(k1=k1, b=b, stemmer=stemmer).run(cases(claims, abstracts, ctx), ctx)
    scores = retrieval(
        {case.claim.id: document_ranking(case) for case in found},
        {claim.id: dict.fromkeys(claim.relevant, 1) for claim in claims},
    )
    assert scores.measures["ndcg_at_10"].value == pytest.approx(expected, abs=0.003)


def test_dense_ranks_as_sentence_transformers(
    claims: list[Claim], abstracts: list[Document], tmp_path: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import semantic_search

    ctx = Context(Cache(tmp_path))
    claims = claims[:60]
    cited = {doc for claim in claims for doc in claim.relevant}
    others = [a for a in abstracts if a.id not in cited][:150]
    abstracts = [a for a in abstracts if a.id in cited] + others
    encoder = Encoder(model=Path("all-MiniLM-L6-v2"))
    todo = cases(claims, abstracts, ctx)
    found = Dense(encoder=encoder, k=20).run(todo, ctx)

    model = SentenceTransformer(str(encoder.model), device="cpu")
    model.max_seq_length = 256
    texts = [passage.text for passage in todo[0].passages]
    theirs = semantic_search(
        model.encode([claim.text for claim in claims], convert_to_tensor=True),
        model.encode(texts, convert_to_tensor=True),
        top_k=20,
    )
    for case, hits in zip(found, theirs, strict=True):
        assert [h.doc for h in case.hits] == [abstracts[int(h["corpus_id"])].id for h in hits]
        assert [h.score for h in case.hits] == pytest.approx([h["score"] for h in hits], abs=2e-6)
