"""How far retrieval on SciFact goes without training a model.

BM25, dense retrieval and the best sentence of each abstract are fused by a weighted sum of min–max
scaled scores. Settings are chosen on the 809 train claims; the dev claims are ranked once, by what
was chosen, by the best without sentences, and by the two fusions of `conf/retriever` before, with
paired intervals. `dtype=bfloat16` encodes faster, with the same ranking but for rounding;
`depth=300` says how many hits of each ranking are fused.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import argument, data, finish, row
from components.cache import Cache
from components.datasets.scifact import SciFact
from components.records import Case
from components.retrieve.bm25 import Bm25s
from components.retrieve.dense import Dense
from components.retrieve.encoder import Encoder
from components.retrieve.search import Search
from components.retrieve.sentences import SentenceMax
from components.score.bootstrap import mean, paired_bootstrap, resamples
from components.step import Context
from components.store.chunk import WholeDocument

BM25 = {"k1": (0.9, 1.2, 1.5), "b": (0.4, 0.6, 0.75)}
WEIGHTS = [w / 10 for w in range(11)]


def main() -> None:
    depth = int(argument("depth") or 300)
    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(Cache(os.environ.get("CLAIMFLOW_CACHE", folder)))
        splits = {name: SciFact(path=data("scifact"), split=name) for name in ("train", "dev")}
        claims = {name: split.claims() for name, split in splits.items()}
        whole = Case(
            claim=claims["dev"][0], documents=splits["dev"].read_documents(claims["dev"][0])
        )
        passages = WholeDocument(with_title=True).run([whole], ctx)[0].passages
        texts = [passage.text for passage in passages]
        place = {passage.doc: i for i, passage in enumerate(passages)}
        encoder = Encoder(model=Path("all-MiniLM-L6-v2"), dtype=argument("dtype") or "float32")

        def ranked(step: Search, split: str) -> np.ndarray:
            """(claims, passages): scores scaled to 0…1 over the first `depth`, 0 behind them."""
            index = step.index("scifact", texts, ctx)
            found = step.scores(index, [claim.text for claim in claims[split]], ctx)
            return np.stack([scaled(np.asarray(scores, np.float64), depth) for scores in found])

        def values(scores: np.ndarray, split: str) -> np.ndarray:
            relevant = [[place[d] for d in claim.relevant] for claim in claims[split]]
            return ndcg(scores, relevant)

        lexical = [Bm25s(k1=k1, b=b) for k1, b in itertools.product(BM25["k1"], BM25["b"])]
        vectors: list[Search] = [Dense(encoder=encoder), SentenceMax(encoder=encoder)]
        dense, best = (ranked(step, "train") for step in vectors)
        tried: list[tuple[float, int, float, float]] = []
        for number, step in enumerate(lexical):
            words = ranked(step, "train")
            for w, s in itertools.product(WEIGHTS, WEIGHTS):
                if w + s <= 1:
                    fused = w * words + s * best + (1 - w - s) * dense
                    tried.append((values(fused, "train").mean(), number, w, s))
        chosen = {
            "with sentences": max(tried),
            "without": max(one for one in tried if one[3] == 0),
        }
        dense, best = (ranked(step, "dev") for step in vectors)
        rows = []
        found: dict[str, np.ndarray] = {}
        for name, (train, number, w, s) in chosen.items():
            step = lexical[number]
            fused = w * ranked(step, "dev") + s * best + (1 - w - s) * dense
            found[name] = values(fused, "dev")
            print(f"{name}: k1 {step.k1}, b {step.b}, weights {w}, {1 - w - s:.1f}, {s}")
            rows.append(row(f"train, {name}", train, "nDCG@10"))
            rows.append(row(f"dev, {name}", found[name].mean(), "nDCG@10"))
        words = ranked(Bm25s(), "dev")
        found["weighted"] = values(0.4 * words + 0.6 * dense, "dev")
        rows.append(row("dev, retriever=weighted", found["weighted"].mean(), "nDCG@10"))
        weights = resamples(len(claims["dev"]), 10_000, 13)
        for other in ("without", "weighted"):
            gain = paired_bootstrap(mean(found["with sentences"]), mean(found[other]), weights)
            print(f"with sentences less {other}: {gain}")
    finish(rows, "dtype", "depth")


def scaled(scores: np.ndarray, depth: int) -> np.ndarray:
    """As `components.retrieve.fuse.Weighted` scales: the first 1, the last of `depth` 0."""
    kept = np.full(len(scores), -np.inf)
    best = np.argsort(-scores, kind="stable")[:depth]
    kept[best] = scores[best]
    there = np.isfinite(kept)
    if not there.any():
        return np.zeros(len(scores))
    low, high = kept[there].min(), kept[there].max()
    return np.where(there, (kept - low) / ((high - low) or 1), 0)


def ndcg(scores: np.ndarray, relevant: list[list[int]]) -> np.ndarray:
    """nDCG@10 of each claim, all relevant documents of grade 1."""
    discount = 1 / np.log2(np.arange(2, 12))
    first = np.argsort(-np.round(scores, 6), axis=1, kind="stable")[:, :10]
    return np.array(
        [
            np.isin(best, docs) @ discount / discount[: len(docs)].sum()
            for best, docs in zip(first, relevant, strict=True)
        ]
    )


if __name__ == "__main__":
    main()
