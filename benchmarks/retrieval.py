"""Our retrievers beside rank_bm25 and sentence-transformers, from texts to ranked hits.

BM25: one claim's store of 20,000 made-up sentences, 10 queries, the best 10 of each. Both get the
same terms and the same formula (Robertson's; no term is in over half of the sentences, where
rank_bm25 has another), and must find the same. Dense: SciFact's first 2,000 sentences as they are,
encoded and searched.

`scifact=yes` also ranks all of SciFact for its dev claims by every retriever config (minutes).
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import argument, data, finish, retrieved, row, timed
from components.cache import Cache
from components.datasets.scifact import SciFact
from components.records import Case, Claim, Passage, Query
from components.retrieve.bm25 import Bm25s
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.step import Context
from components.text import terms

QUERIES = 10
BEST = 10
MODEL = Path("all-MiniLM-L6-v2")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(Cache(folder))
        rows = [*bm25(ctx), *dense(ctx)]
        if argument("scifact"):
            rows += scifact(ctx)
    finish(rows, "scifact")


def bm25(ctx: Context) -> list[dict[str, Any]]:
    from rank_bm25 import BM25Okapi

    draw = random.Random(13)
    words = [f"word{i}" for i in range(30_000)]
    weights = [1 / (i + 10) for i in range(len(words))]  # as words of a language are spread

    def sentence() -> str:
        return " ".join(draw.choices(words, weights, k=draw.randint(8, 30)))

    texts = [sentence() for _ in range(20_000)]
    queries = [sentence() for _ in range(QUERIES)]
    ours = Bm25s(method="robertson", k1=1.5, b=0.75, stopwords=None, stemmer=None, k=BEST)

    def plain() -> BM25Okapi:
        return BM25Okapi(terms(texts, None, None), k1=1.5, b=0.75)

    def search(index: BM25Okapi) -> list[list[tuple[int, float]]]:
        import numpy as np

        found = []
        for query in terms(queries, None, None):
            scores = index.get_scores(query)
            best = np.argsort(-scores, kind="stable")[:BEST]
            found.append([(int(i), float(scores[i])) for i in best])
        return found

    ours.run([case(texts[:9], queries)], ctx)  # imports
    fast, fast_seconds = timed(lambda: ours.run([case(texts, queries)], ctx)[0])
    again = case(texts, queries)
    _, again_seconds = timed(lambda: ours.run([again], ctx))
    index, index_seconds = timed(plain)
    slow, search_seconds = timed(lambda: search(index))
    for found in (fast, again):
        compare(found, slow, scale=1.5 + 1)  # bm25s leaves out the constant k1 + 1
    return [
        row(
            "BM25, 20,000 sentences, 10 queries",
            fast_seconds,
            "s",
            index_seconds + search_seconds,
        ),
        row("the same, both indexes made before", again_seconds, "s", search_seconds),
    ]


def dense(ctx: Context) -> list[dict[str, Any]]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import semantic_search

    abstracts = SciFact(path=data("scifact"), split="dev").read_documents(Claim(id="", text=""))
    texts = [sentence for abstract in abstracts for sentence in abstract.sentences][:2000]
    queries = [abstract.title or "" for abstract in abstracts[:QUERIES]]
    encoder = Encoder(model=MODEL)
    ours = Dense(encoder=encoder, k=BEST)
    model = SentenceTransformer(str(encoder.model), device="cpu")

    def plain() -> list[list[tuple[int, float]]]:
        found = semantic_search(
            model.encode(queries, convert_to_tensor=True),
            model.encode(texts, convert_to_tensor=True),
            top_k=BEST,
        )
        return [[(int(h["corpus_id"]), float(h["score"])) for h in hits] for hits in found]

    ours.run([case(texts[:9], queries)], ctx)  # loads the model
    model.encode(queries)
    fast, fast_seconds = timed(lambda: ours.run([case(texts, queries)], ctx)[0])
    slow, slow_seconds = timed(plain)
    compare(fast, slow)
    again, again_seconds = timed(lambda: ours.run([case(texts, queries)], ctx)[0])
    assert again.hits == fast.hits
    return [
        row("dense, 2,000 sentences, 10 queries", fast_seconds, "s", slow_seconds),
        row("the same, sentences encoded before", again_seconds, "s", slow_seconds),
    ]


def scifact(ctx: Context) -> list[dict[str, Any]]:
    from components.files import ROOT
    from components.score.retrieval import document_ranking, retrieval
    from components.store.chunk import WholeDocument

    dataset = SciFact(path=data("scifact"), split="dev")
    claims = dataset.claims()
    whole = Case(claim=claims[0], documents=dataset.read_documents(claims[0]))
    passages = WholeDocument(with_title=True).run([whole], ctx)[0].passages
    texts = [passage.text for passage in passages]
    _, seconds = timed(lambda: Encoder(model=MODEL).passages("scifact", texts, ctx))
    rows = [row("SciFact, 5,183 abstracts encoded", seconds, "s")]
    for path in sorted((ROOT / "conf" / "retriever").glob("*.yaml")):
        cases = retrieved(path.stem, claims, passages, ctx)
        scores = retrieval(
            {case.claim.id: document_ranking(case) for case in cases},
            {claim.id: dict.fromkeys(claim.relevant, 1) for claim in claims},
        )
        value = round(scores.measures["ndcg_at_10"].value, 4)
        rows.append(row(f"SciFact dev, {path.stem}", value, "nDCG@10"))
    return rows


def case(texts: list[str], queries: list[str]) -> Case:
    return Case(
        claim=Claim(id="1", text=""),
        passages=[Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)],
        queries=[Query(text=query) for query in queries],
    )


def compare(ours: Case, theirs: list[list[tuple[int, float]]], scale: float = 1) -> None:
    """Stop unless both found the same passages in the same order, with the same scores."""
    for query, expected in enumerate(theirs):
        hits = [hit for hit in ours.hits if hit.query == query]
        assert [int(hit.passage) for hit in hits] == [i for i, _ in expected], f"query {query}"
        worst = max(abs(h.score * scale - s) for h, (_, s) in zip(hits, expected, strict=True))
        assert worst < 1e-4, f"scores of query {query} differ by {worst}"


if __name__ == "__main__":
    main()
