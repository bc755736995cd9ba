"""Learners of SciFact: a reranker, and labels of claim and abstract by negative ratio.

    python -m benchmarks.scifact_training task=reranker out=FILE.json
    python -m benchmarks.scifact_training task=nli ratios=0,1,5,10,20 out=FILE.json
    python -m benchmarks.scifact_training task=pairs out=FILE.jsonl   entailment data at hand, for
                                                        verdict=nli verdict.also=FILE.jsonl

Trained on the training claims, settings chosen on a part of them that is held out, dev scored once
at the end, by the project's scorers. Candidates are the first 100 abstracts of the weighted sum of
BM25 and dense retrieval. Other arguments: seeds=13,14,15; candidates=FILE.json (written if it is
not there, else read: a machine without the packages of retrieval needs it); strategy=hard (or
random, annealed); epochs=N.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.common import argument, data, row
from components.records import Claim, Document, Record, decode, encode, write_lines
from components.train.entail import Entailed
from components.train.pairs import Candidates

ARGUMENTS = ("task", "ratios", "seeds", "candidates", "strategy", "epochs", "rate", "limit", "out")
NAMES = {"SUPPORTS": "SUPPORT", "REFUTES": "CONTRADICT"}  # FEVER's to SciFact's
VERDICTS = {
    "Supported": "SUPPORT",
    "Refuted": "CONTRADICT",
    "Not Enough Evidence": "NEI",
}  # AVeriTeC's


class Searched(Record):
    """What retrieval found for the claims of each part; cloze claims by BM25 alone."""

    train: list[Candidates]
    dev: list[Candidates]
    cloze: list[Candidates]


def search(claims: list[Claim], documents: list[Document], ctx: Any, dense: bool) -> Any:
    """Candidates of each claim, by the steps that conf/retriever/weighted.yaml describes."""
    from components.records import Case
    from components.retrieve.bm25 import Bm25s
    from components.retrieve.dense import Dense
    from components.retrieve.encoder import Encoder
    from components.retrieve.fuse import Weighted
    from components.retrieve.query import ClaimQuery
    from components.store.chunk import WholeDocument

    [passages] = WholeDocument().run([Case(claim=claims[0], documents=documents)], ctx)
    store = {"passages": "scifact corpus of the benchmark"}
    cases = [Case(claim=c, passages=passages.passages, digests=store) for c in claims]
    steps: list[Any] = [ClaimQuery()]
    if dense:
        encoder = Encoder(model=Path("all-MiniLM-L6-v2"))
        steps += [
            Bm25s(k=300, into="rankings.bm25"),
            Dense(k=300, encoder=encoder, into="rankings.dense"),
            Weighted(of=["rankings.bm25", "rankings.dense"], weights=[0.4, 0.6], depth=None, k=100),
        ]
    else:
        steps.append(Bm25s(k=30))
    for step in steps:
        cases = step.run(cases, ctx)
    return [
        Candidates(
            claim=case.claim,
            docs=[hit.doc for hit in case.hits],
            scores=[hit.score for hit in case.hits],
        )
        for case in cases
    ]


def searched(ctx: Any) -> tuple[Searched, dict[str, Document]]:
    """Candidates, from the file that `candidates` names if it is there; and the abstracts."""
    from components.datasets.scifact import SciFact
    from components.train.rerank import cloze_claims

    source = SciFact(path=data("scifact"))
    dev = source.claims()
    train = source.train(dev)[0]
    documents = source.read_documents(dev[0])
    path = Path(argument("candidates") or "")
    if argument("candidates") and path.exists():
        found = decode(path.read_bytes(), Searched)
    else:
        found = Searched(
            train=search(train, documents, ctx, dense=True),
            dev=search(dev, documents, ctx, dense=True),
            cloze=search(cloze_claims(documents), documents, ctx, dense=False),
        )
        if argument("candidates"):
            path.write_bytes(encode(found))
    return found, {document.id: document for document in documents}


def entailments() -> list[tuple[str, str, str]]:
    """Entailment data at hand: FEVER's symmetric pairs, and AVeriTeC's gold answers."""
    from components.datasets.averitec import Averitec
    from components.reason.tuned import gold_pairs

    found = []
    for line in data("fever", "symmetric", "dev.jsonl").read_text("utf-8").splitlines():
        pair = json.loads(line)
        found.append((pair["claim"], pair["evidence"], NAMES[pair["label"]]))
    source = Averitec(path=data("averitec"))
    for claim in source.read_claims("train"):
        if claim.label in VERDICTS and claim.questions:
            text = " ".join(f"{q} {a}" for q, a in gold_pairs(claim))
            found.append((claim.text, text, VERDICTS[claim.label]))
    return found


def settings(**more: Any) -> Any:
    from components.train.trainer import Training

    return Training(**({"held_out": 0.2, "patience": 100, "packing": False} | more))


def rerank(found: Searched, documents: dict[str, Document], ctx: Any) -> dict[str, Any]:
    """Train a reranker; what it and its sum with the first stage reach."""
    from components.score.retrieval import retrieval
    from components.train.negatives import Negatives
    from components.train.rerank import Reranker, summed

    step = Reranker(
        model=Path(_model()),
        trainer=settings(batch=16, max_length=320, evaluations=1),
        rate=float(argument("rate") or 1e-4),
        epochs=int(argument("epochs") or 4),
        warm=1,
        negatives=Negatives(ratio=15, strategy=argument("strategy") or "hard", depth=30),
    )
    with tempfile.TemporaryDirectory() as folder:
        trained = step.train(found.train, found.cloze, documents, Path(folder), ctx)
        scored = step.scores(step.load(Path(folder))[0], found.dev, documents)
    weight = trained.weight
    qrels = {one.claim.id: dict.fromkeys(one.claim.relevant, 1) for one in found.dev}

    def measured(values: list[list[float]]) -> Any:
        rankings = {
            one.claim.id: sorted(
                zip(one.docs, scores, strict=True), key=lambda hit: hit[1], reverse=True
            )
            for one, scores in zip(found.dev, values, strict=True)
        }
        return retrieval(rankings, qrels, 1000, 13).measures["ndcg_at_10"]

    both = [summed(o.scores, new, weight) for o, new in zip(found.dev, scored, strict=True)]
    return {
        "first stage": measured([one.scores for one in found.dev]),
        "alone": measured(scored),
        f"sum, weight {weight}": measured(both),
    }


def label(found: Searched, documents: dict[str, Document], ctx: Any, ratio: int) -> dict[str, Any]:
    """Train a labeller at a negative ratio; label-only measures on dev."""
    from components.score.scifact import scifact
    from components.train.entail import DEPTHS, Entailment, predictions
    from components.train.negatives import Negatives

    step = Entailment(
        model=Path(_model()),
        trainer=settings(batch=64, max_length=256, evaluations=1),
        rate=float(argument("rate") or 1e-4),
        epochs=int(argument("epochs") or 4),
        warm=2,
        negatives=Negatives(ratio=ratio, strategy=argument("strategy") or "hard", depth=20),
    )
    with tempfile.TemporaryDirectory() as folder:
        trained = step.train(
            found.train, entailments()[: 4 * len(found.train)], documents, Path(folder), ctx
        )
        scored = step.scores(step.load(Path(folder))[0], found.dev, documents)
    gold = [one.claim for one in found.dev]
    measures: dict[str, Any] = {}
    for name, threshold, depth in (
        ("as chosen", trained.threshold, trained.depth),
        ("argmax", 0.5, DEPTHS[-1]),
    ):
        scores = scifact(predictions(found.dev, scored, threshold, depth), gold)
        for part in ("precision", "recall", "f1"):
            measures[f"{name}: {part}"] = scores.measures[f"abstract_label_only_{part}"]
    print(f"  threshold {trained.threshold}, depth {trained.depth}, {trained.held_out}", flush=True)
    return measures


def _model() -> str:
    from components.assets import MINILM, model

    return str(model(MINILM))


def main() -> None:
    for said in sys.argv[1:]:
        if said.partition("=")[0] not in ARGUMENTS:
            sys.exit(f"error: '{said}': known are {', '.join(f'{name}=' for name in ARGUMENTS)}.")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from components.cache import Cache
    from components.files import home
    from components.step import Context

    task = argument("task")
    if task == "pairs":
        pairs = entailments()[: int(argument("limit") or 3236)]
        lines = [Entailed(claim=claim, text=text, label=name) for claim, text, name in pairs]
        write_lines(Path(argument("out")), lines)
        return
    seeds = [int(seed) for seed in (argument("seeds") or "13,14,15").split(",")]
    cache = Cache(os.environ.get("CLAIMFLOW_CACHE") or home() / "cache")
    found, documents = searched(Context(cache))
    if argument("limit"):
        limit = int(argument("limit"))
        found = Searched(
            train=found.train[:limit], dev=found.dev[:limit], cloze=found.cloze[:limit]
        )
    if task not in ("reranker", "nli"):
        print(f"{len(found.train)} and {len(found.dev)} claims searched; task=reranker or nli.")
        return
    cuda = torch.cuda.is_available()
    print(f"{task} on {torch.cuda.get_device_name() if cuda else 'cpu'}", flush=True)
    ratios = [int(r) for r in (argument("ratios") or "5").split(",")] if task == "nli" else [0]
    rows: list[dict[str, Any]] = []
    for ratio in ratios:
        runs = []
        for seed in seeds:
            start = time.perf_counter()
            ctx = Context(cache, seed=seed)
            if task == "nli":
                runs.append(label(found, documents, ctx, ratio))
            else:
                runs.append(rerank(found, documents, ctx))
            for name, m in runs[-1].items():
                print(f"  seed {seed}, {name}: {m.value:.4f} [{m.low:.4f}, {m.high:.4f}]")
            print(f"  {time.perf_counter() - start:.0f} s", flush=True)
        for name in dict.fromkeys(name.split(",")[0] for run in runs for name in run):
            values = [m.value for run in runs for n, m in run.items() if n.split(",")[0] == name]
            spread = stdev(values) if len(values) > 1 else 0.0
            prefix = f"r {ratio}, " if task == "nli" else ""
            rows.append(row(f"{prefix}{name}", mean(values), "") | {"sd": spread, "seeds": values})
            print(f"{prefix}{name:<28} {mean(values):.4f} sd {spread:.4f}", flush=True)
    if argument("out"):
        about = {"task": task, "strategy": argument("strategy") or "hard"}
        Path(argument("out")).write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
