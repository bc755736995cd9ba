"""Our retrievers beside the obvious alternative, on SciFact: the same results first, then time.

BM25: rank_bm25 on the same tokens, with the one setting in which both compute the same (Robertson's
idf, floor 0). Encoding: sentence-transformers' `encode` with its own batches. Search: its
`semantic_search` on the same vectors, beside our query encoding and search for each claim.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import numpy as np

from benchmarks.common import data, finish, row, timed
from components import assets
from components.cache import Cache
from components.files import digest
from components.records import Case, Claim, Passage, Query, encode
from components.retrieve.bm25 import Bm25s
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import Rrf
from components.retrieve.search import Search
from components.step import Context
from components.text import terms

ENCODED = 400  # passages, of 5,183
K = 100


def cases() -> list[Case]:
    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(x) for x in data("scifact", name).read_text("utf-8").splitlines()]

    corpus = [
        Passage(
            id=f"{x['doc_id']}#0", doc=str(x["doc_id"]), text=" ".join([x["title"], *x["abstract"]])
        )
        for x in lines("corpus.jsonl")
    ]
    store = digest(encode(corpus))
    return [
        Case(
            claim=Claim(id=str(x["id"]), text=x["claim"]),
            queries=[Query(text=x["claim"])],
            passages=corpus,
            digests={"passages": store},
        )
        for x in lines("claims_dev.jsonl")
    ]


def same(ours: list[Case], scores: np.ndarray) -> None:
    """Every hit has the score that the alternative gives it, and none is better than the last."""
    position = {p.id: i for i, p in enumerate(ours[0].passages)}
    for case, theirs in zip(ours, scores, strict=True):
        mine = [hit.score for hit in case.hits]
        assert np.allclose(mine, theirs[[position[hit.passage] for hit in case.hits]], rtol=1e-4)
        assert np.allclose(mine, np.sort(theirs)[::-1][: len(mine)], rtol=1e-4)


def bm25(todo: list[Case], ctx: Context) -> list[dict[str, Any]]:
    from rank_bm25 import BM25Okapi

    texts = [p.text for p in todo[0].passages]
    step = Bm25s(method="robertson", k1=1.5, b=0.75, k=K)
    _, index = timed(lambda: step.index("", texts, ctx))
    _, whole = timed(lambda: step.run(todo, ctx))

    okapi, their_index = timed(lambda: BM25Okapi(terms(texts), epsilon=0))
    scores, their_search = timed(
        lambda: np.stack([okapi.get_scores(q) for q in terms([c.queries[0].text for c in todo])])
    )
    same(todo, scores / 2.5)  # rank_bm25 multiplies by k1 + 1
    return [
        row("bm25s: tokenise and index 5,183 abstracts", index, "s", their_index),
        row("bm25s: 300 claims, index included", whole, "s", their_index + their_search),
    ]


def dense(todo: list[Case], ctx: Context) -> list[dict[str, Any]]:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import semantic_search

    part = todo[0].passages[:ENCODED]
    texts = [p.text for p in part]
    encoder = Encoder(model=assets.model("all-MiniLM-L6-v2"), threads=1)
    step = Dense(encoder=encoder, k=K)
    encoder.encode(texts[:8], ctx)  # load
    vectors, ours = timed(lambda: encoder.encode(texts, ctx))
    model = SentenceTransformer(str(encoder.model), device="cpu")
    torch.set_num_threads(1)
    their_vectors, theirs = timed(lambda: model.encode(texts))
    assert np.allclose(vectors, their_vectors, atol=1e-5)
    rows = [row(f"encode {ENCODED} abstracts, one thread", ours, "s", theirs)]

    small = [
        Case(claim=c.claim, queries=c.queries, passages=part, digests={"passages": "part"})
        for c in todo
    ]
    index(step, small, ctx)
    _, ours = timed(lambda: step.run(small, ctx))
    queries = [c.queries[0].text for c in small]
    found, theirs = timed(
        lambda: semantic_search(
            np.stack([model.encode(query) for query in queries]), their_vectors, top_k=K
        )
    )
    for case, hits in zip(small, found, strict=True):
        assert np.allclose([h.score for h in case.hits], [h["score"] for h in hits], atol=1e-5)
    rows.append(row("dense: 300 claims one by one, vectors kept", ours, "s", theirs))
    for case in todo:
        case.rankings = {"a": case.hits, "b": case.hits[::-1]}
    _, fuse = timed(lambda: Rrf(of=["rankings.a", "rankings.b"], k=K).run(todo, ctx))
    return [*rows, row("rrf: 300 claims, two rankings of 100", fuse, "s")]


def index(step: Search, todo: list[Case], ctx: Context) -> None:
    """Fill the cache with what a step searches."""
    store = todo[0].digests["passages"]
    step.index(store, [p.text for p in todo[0].passages], ctx)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(Cache(folder))
        todo = cases()
        finish([*bm25(todo, ctx), *dense(todo, ctx)])


if __name__ == "__main__":
    main()
