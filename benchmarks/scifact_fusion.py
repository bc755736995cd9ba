"""How far retrieval on SciFact goes without training a model.

BM25, dense retrieval and the best sentence of each abstract are fused by a weighted sum of min–max
scaled scores. Settings, the number of hits that are fused among them, are chosen on the 809 train
claims; the dev claims are ranked once, by what was chosen, by the best that 300 hits give, by the
best without sentences, and by `retriever=weighted`, with paired intervals. `dtype=bfloat16` encodes
faster, with the same ranking but for rounding.
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
from components.retrieve.search import USUAL_K, Search
from components.retrieve.sentences import SentenceMax
from components.score.bootstrap import mean, paired_bootstrap, resamples
from components.step import Context
from components.store.chunk import WholeDocument

K1, B = (0.9, 1.2, 1.5), (0.4, 0.6, 0.75)
DEPTHS = (USUAL_K, 1000, 10_000)  # hits of each ranking that are fused; the last: all
WEIGHTS = [w / 10 for w in range(11)]


def main() -> None:
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
        dense, best = Dense(encoder=encoder), SentenceMax(encoder=encoder)

        def scores(step: Search, split: str) -> np.ndarray:
            """(claims, passages), double precision as hits have it."""
            index = step.index("scifact", texts, ctx)
            found = step.scores(index, [claim.text for claim in claims[split]], ctx)
            return np.stack([np.asarray(one, np.float64) for one in found])

        def values(fused: np.ndarray, split: str) -> np.ndarray:
            return ndcg(fused, [[place[d] for d in claim.relevant] for claim in claims[split]])

        lexical = [Bm25s(k1=k1, b=b) for k1, b in itertools.product(K1, B)]
        raw = {number: scores(step, "train") for number, step in enumerate(lexical)}
        raw_dense, raw_best = scores(dense, "train"), scores(best, "train")
        tried: list[tuple[float, int, int, float, float]] = []
        for depth in DEPTHS:
            by_dense, by_best = scaled(raw_dense, depth), scaled(raw_best, depth)
            for number in raw:
                by_words = scaled(raw[number], depth)
                for w, s in itertools.product(WEIGHTS, WEIGHTS):
                    if w + s < 1:
                        fused = w * by_words + s * by_best + (1 - w - s) * by_dense
                        tried.append((values(fused, "train").mean(), depth, number, w, s))
        rows = []
        found: dict[str, np.ndarray] = {}
        chosen = {
            "three": max(tried),
            "three, of 300": max(one for one in tried if one[1] == USUAL_K),
            "without sentences": max(one for one in tried if one[4] == 0),
        }
        raw_dense, raw_best = scores(dense, "dev"), scores(best, "dev")
        for name, (train, depth, number, w, s) in chosen.items():
            step = lexical[number]
            parts = [scaled(one, depth) for one in (scores(step, "dev"), raw_dense, raw_best)]
            weights = [w, 1 - w - s, s]
            fused = sum(weight * part for weight, part in zip(weights, parts, strict=True))
            found[name] = values(fused, "dev")
            said = ", ".join(f"{weight:.1f}" for weight in weights)
            print(f"{name}: depth {depth}, k1 {step.k1}, b {step.b}, weights {said}")
            rows.append(row(f"train, {name}", train, "nDCG@10"))
            rows.append(row(f"dev, {name}", found[name].mean(), "nDCG@10"))
        words = scaled(scores(Bm25s(), "dev"), USUAL_K)
        found["weighted"] = values(0.4 * words + 0.6 * scaled(raw_dense, USUAL_K), "dev")
        rows.append(row("dev, retriever=weighted", found["weighted"].mean(), "nDCG@10"))
        draws = resamples(len(claims["dev"]), 10_000, 13)
        for first, second in itertools.combinations(found, 2):
            gain = paired_bootstrap(mean(found[first]), mean(found[second]), draws)
            print(f"{first} less {second}: {gain}")
    finish(rows, "dtype")


def scaled(scores: np.ndarray, depth: int) -> np.ndarray:
    """As `components.retrieve.fuse.Weighted` scales: the first 1, the last of `depth` 0."""
    result = np.zeros(scores.shape)
    for row_, into in zip(scores, result, strict=True):
        best = np.argsort(-row_, kind="stable")[:depth]
        best = best[np.isfinite(row_[best])]
        if len(best):
            high, low = row_[best[0]], row_[best[-1]]
            into[best] = (row_[best] - low) / ((high - low) or 1)
    return result


def ndcg(scores: np.ndarray, relevant: list[list[int]]) -> np.ndarray:
    """nDCG@10 of each claim, all relevant documents of grade 1."""
    discount = 1 / np.log2(np.arange(2, 12))
    # Among the first 30, in the order of the store, so that ties stand in it.
    near = np.sort(np.argpartition(-scores, 30, axis=1)[:, :30], axis=1)
    there = np.round(np.take_along_axis(scores, near, 1), 6)
    order = np.argsort(-there, axis=1, kind="stable")[:, :10]
    first = np.take_along_axis(near, order, 1)
    return np.array(
        [
            np.isin(best, docs) @ discount / discount[: len(docs)].sum()
            for best, docs in zip(first, relevant, strict=True)
        ]
    )


if __name__ == "__main__":
    main()
