"""Dense encoding, beside sentence-transformers as it comes.

On the CPU (`device=cpu`): SciFact's first 1,000 abstracts (`texts=1000`; `texts=all` ranks all
5,183 for the dev claims too and compares nDCG@10), by the default encoder and in bfloat16. On a GPU
(`device=cuda`): one claim's full store, 100,000 made-up sentences of 2.5 million tokens, in
bfloat16, from texts to vectors on the host. Vectors are compared first: the default's with
sentence-transformers' to rounding, those of bfloat16 by their cosine.

`model=FOLDER` names the model's folder; with it the benchmark needs nothing but torch, transformers
and sentence-transformers, and with `device=cuda` no data. Model loading and one small batch come
before the clock starts.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import argument, data, finish, row, timed
from components.retrieve.forward import Forward

MAX_LENGTH = 256
LEAST_COSINE = 0.999


def main() -> None:
    device = argument("device") or "cpu"
    if folder := argument("model"):
        model = Path(folder)
    else:
        from components import assets

        model = assets.model(assets.MINILM)
    rows = on_gpu(model) if device == "cuda" else on_cpu(model)
    finish(rows, "device", "model", "texts", "dtype")


def on_gpu(model: Path) -> list[dict[str, Any]]:
    import torch
    from sentence_transformers import SentenceTransformer

    texts = store(100_000)
    dtype = argument("dtype") or "bfloat16"
    ours = Forward(model, "cuda", dtype)
    plain = SentenceTransformer(str(model), device="cuda")
    for one in (lambda: ours.encode(texts[:5000], MAX_LENGTH), lambda: plain.encode(texts[:500])):
        one()
    seconds = []
    for _ in range(3):
        vectors, took = timed(lambda: ours.encode(texts, MAX_LENGTH))
        seconds.append(took)
    tokens, tokenised = timed(lambda: ours.tokens(texts, MAX_LENGTH))
    expected, slow = timed(lambda: plain.encode(texts))
    least = compare(vectors, expected)
    count = sum(map(len, tokens))
    name = f"{torch.cuda.get_device_name()}, {dtype}: 100,000 sentences, {count:,} tokens"
    return [
        row(name, min(seconds), "s", slow),
        row("  slowest of 3", max(seconds), "s"),
        row("  of which tokenising", tokenised, "s"),
        row("  least cosine with float32", least, ""),
        row("  peak memory of the card", torch.cuda.max_memory_allocated() / 2**20, "MiB"),
    ]


def store(sentences: int) -> list[str]:
    """Made-up sentences of 25 tokens on average, common words as frequent as Zipf has them."""
    draw = random.Random(13)
    words = ["the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "was", "on", "claim"]
    words += ["".join(draw.choices("aeioulnrstdm", k=draw.randint(3, 7))) for _ in range(5000)]
    weights = [1 / (i + 2) for i in range(len(words))]
    return [
        " ".join(draw.choices(words, weights, k=draw.randint(3, 18))) + "."
        for _ in range(sentences)
    ]


def on_cpu(model: Path) -> list[dict[str, Any]]:
    from sentence_transformers import SentenceTransformer

    lines = data("scifact", "corpus.jsonl").read_text().splitlines()
    abstracts = [json.loads(line) for line in lines]
    said = argument("texts") or "1000"
    size = len(abstracts) if said == "all" else int(said)
    texts = [" ".join([a["title"], *a["abstract"]]) for a in abstracts[:size]]
    plain = SentenceTransformer(str(model), device="cpu")
    plain.encode(texts[:2])
    expected, slow = timed(lambda: plain.encode(texts))
    rows = [row(f"sentence-transformers, {size:,} abstracts", slow, "s")]
    for dtype in ("float32", "bfloat16"):
        ours = Forward(model, "cpu", dtype)
        ours.encode(texts[:2], MAX_LENGTH, threads=2)
        vectors, fast = timed(lambda: ours.encode(texts, MAX_LENGTH, threads=2))  # noqa: B023
        least = compare(vectors, expected)
        rows.append(row(f"{dtype}, {size:,} abstracts", fast, "s", slow))
        rows.append(row("  least cosine with sentence-transformers", least, ""))
        if said == "all":
            value = measure(ours, vectors, abstracts)
            rows.append(row("  SciFact dev", value, "nDCG@10"))
    if said == "all":
        value = measure(plain, expected, abstracts)
        rows.append(row("sentence-transformers, SciFact dev", value, "nDCG@10"))
    return rows


def measure(model: Any, vectors: np.ndarray, abstracts: list[dict[str, Any]]) -> float:
    """nDCG@10 of the dev claims."""
    claims = [json.loads(line) for line in data("scifact", "claims_dev.jsonl").open()]
    asked = [claim["claim"] for claim in claims]
    queries = model.encode(asked, MAX_LENGTH) if isinstance(model, Forward) else model.encode(asked)
    scores = unit(queries) @ unit(vectors).T
    place = {str(a["doc_id"]): i for i, a in enumerate(abstracts)}
    discount = 1 / np.log2(np.arange(2, 12))
    values = []
    for claim, row_ in zip(claims, scores, strict=True):
        relevant = [place[doc] for doc in dict.fromkeys(map(str, claim["cited_doc_ids"]))]
        best = np.argsort(-np.round(row_, 6), kind="stable")[:10]
        values.append(np.isin(best, relevant) @ discount / discount[: len(relevant)].sum())
    return float(np.mean(values))


def compare(vectors: np.ndarray, expected: np.ndarray) -> float:
    """The least cosine of two encodings of a text; stop where it is too small."""
    least = float((unit(vectors) * unit(expected)).sum(axis=1).min())
    assert least > LEAST_COSINE, f"a vector differs: cosine {least}"
    return least


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


if __name__ == "__main__":
    main()
