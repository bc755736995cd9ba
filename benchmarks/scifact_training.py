"""Learners of SciFact: a reranker, and labels of claim and abstract by negative ratio.

    python -m benchmarks.scifact_training task=reranker out=FILE.json
    python -m benchmarks.scifact_training task=nli ratios=0,1,5,10,20 out=FILE.json
    python -m benchmarks.scifact_training task=nli choose=yes    compare settings, on train alone
    python -m benchmarks.scifact_training task=pairs out=FILE.jsonl   entailment data at hand, for
                                                        verdict=nli verdict.also=FILE.jsonl

Trained on the training claims, settings chosen on a part of them that is held out, dev scored once
at the end, by the project's scorers. Candidates are the first 100 abstracts of the weighted sum of
BM25 and dense retrieval. Other arguments: seeds=13,14,15; candidates=FILE.json (written if it is
not there, else read: a machine without the packages of retrieval needs it); strategy=hard (or
random, annealed); epochs=N; rate=X; warm=N; jobs=N (trainings at a time on one device). `choose`
trains each setting of GRID with the first seed and prints the measures on the claims held out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from msgspec.structs import asdict

from benchmarks.common import argument, data, row
from components.records import Claim, Document, Record, decode, encode, write_lines
from components.train.entail import Entailed
from components.train.pairs import Candidates

SETTINGS = {"strategy": "hard", "epochs": 4, "rate": 1e-4}  # and `warm`, by task
WARM = {"reranker": 1, "nli": 2}
ARGUMENTS = ("task", "ratios", "seeds", "candidates", "limit", "choose", "jobs", "out", "warm")
GRID: dict[str, list[dict[str, Any]]] = {
    "reranker": [{}, {"rate": 5e-5}, {"rate": 2e-4}, {"warm": 0}, {"epochs": 8}],
    "nli": [{}, {"rate": 5e-5}, {"rate": 2e-4}, {"warm": 4}, {"epochs": 8}],
}
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


def rerank(
    found: Searched, documents: dict[str, Document], ctx: Any, ratio: int, said: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Train a reranker; what it reached on the claims held out, and what it and its sum with the
    first stage reach on dev."""
    from components.score.retrieval import retrieval
    from components.train.negatives import Negatives
    from components.train.rerank import Reranker, sums

    step = Reranker(
        model=Path(_model()),
        trainer=settings(batch=16, max_length=320, evaluations=1),
        rate=said["rate"],
        epochs=said["epochs"],
        warm=said["warm"],
        negatives=Negatives(ratio=ratio, strategy=said["strategy"], depth=30),
    )
    with tempfile.TemporaryDirectory() as folder:
        trained = step.train(found.train, found.cloze, documents, Path(folder), ctx)
        if said["choose"]:
            return values(trained.held_out), {}
        scored = step.scores(step.load(Path(folder))[0], found.dev, documents)
    qrels = {one.claim.id: dict.fromkeys(one.claim.relevant, 1) for one in found.dev}

    def measured(found_scores: list[list[float]]) -> Any:
        rankings = {
            one.claim.id: sorted(
                zip(one.docs, scores, strict=True), key=lambda hit: hit[1], reverse=True
            )
            for one, scores in zip(found.dev, found_scores, strict=True)
        }
        return retrieval(rankings, qrels, 1000, 13).measures["ndcg_at_10"]

    both = sums(found.dev, scored, trained.weight)
    return values(trained.held_out), {
        "first stage": measured([one.scores for one in found.dev]),
        "alone": measured(scored),
        "sum": measured(both),
    }


def label(
    found: Searched, documents: dict[str, Document], ctx: Any, ratio: int, said: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Train a labeller at a negative ratio; what it reached on the claims held out, and
    label-only measures on dev."""
    from components.score.scifact import scifact
    from components.train.entail import Decision, Entailment, predictions
    from components.train.negatives import Negatives

    step = Entailment(
        model=Path(_model()),
        trainer=settings(batch=64, max_length=256, evaluations=1),
        rate=said["rate"],
        epochs=said["epochs"],
        warm=said["warm"],
        negatives=Negatives(ratio=ratio, strategy=said["strategy"], depth=20),
    )
    with tempfile.TemporaryDirectory() as folder:
        trained = step.train(
            found.train, entailments()[: 4 * len(found.train)], documents, Path(folder), ctx
        )
        decision = step.decision(trained)
        held_out = values(trained.held_out) | asdict(decision)
        if said["choose"]:
            return held_out, {}
        scored = step.scores(step.load(Path(folder))[0], found.dev, documents)
    gold = [one.claim for one in found.dev]
    measures: dict[str, Any] = {}
    for name, one in (
        ("as chosen", decision),
        ("argmax", Decision()),
    ):
        scores = scifact(predictions(found.dev, scored, one), gold)
        for part in ("precision", "recall", "f1"):
            measures[f"{name}: {part}"] = scores.measures[f"abstract_label_only_{part}"]
    return held_out, measures


def values(measures: dict[str, Any]) -> dict[str, float]:
    return {name: measure.value for name, measure in measures.items()}


def trained(
    task: str, ratio: int, seed: int, said: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any], float]:
    """(measures on the claims held out, measures on dev, seconds) of one training."""
    from components.cache import Cache
    from components.files import home
    from components.step import Context

    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    start = time.perf_counter()
    ctx = Context(Cache(os.environ.get("CLAIMFLOW_CACHE") or home() / "cache"), seed=seed)
    found, documents = searched(ctx)
    if argument("limit"):
        n = int(argument("limit"))
        found = Searched(train=found.train[:n], dev=found.dev[:n], cloze=found.cloze[:n])
    work = label if task == "nli" else rerank
    return *work(found, documents, ctx, ratio, said), time.perf_counter() - start


def _model() -> str:
    from components.assets import MINILM, model

    return str(model(MINILM))


def main() -> None:
    known = (*ARGUMENTS, *SETTINGS)
    for word in sys.argv[1:]:
        if word.partition("=")[0] not in known:
            sys.exit(f"error: '{word}': known are {', '.join(f'{name}=' for name in known)}.")
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
    if task not in WARM:
        cache = Cache(os.environ.get("CLAIMFLOW_CACHE") or home() / "cache")
        found, _ = searched(Context(cache))
        print(f"{len(found.train)} and {len(found.dev)} claims searched; task=reranker or nli.")
        return
    seeds = [int(seed) for seed in (argument("seeds") or "13,14,15").split(",")]
    given = {"warm": WARM[task]} | SETTINGS
    given = {name: type(value)(argument(name) or value) for name, value in given.items()}
    choose = argument("choose") == "yes"
    ratios = [int(r) for r in (argument("ratios") or {"nli": "5"}.get(task, "15")).split(",")]
    plan = [
        (task, ratio, seed, given | changes | {"choose": choose})
        for ratio in ratios
        for changes in (GRID[task] if choose else [{}])
        for seed in (seeds[:1] if choose else seeds)
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    print(f"{len(plan)} trainings of {task} on {device}", flush=True)
    measures: dict[tuple[str, str], list[Any]] = {}
    with ProcessPoolExecutor(int(argument("jobs") or 1), get_context("spawn")) as pool:
        futures = {pool.submit(trained, *job): job for job in plan}
        for future in as_completed(futures):
            _, ratio, seed, used = futures[future]
            held_out, dev, seconds = future.result()
            changed = {name: value for name, value in used.items() if value != given.get(name)}
            held = ", ".join(f"{name} {value:.4g}" for name, value in held_out.items())
            about = f"r {ratio}, seed {seed}, {changed}: {seconds:.0f} s; held out: {held}"
            print(f"{about}", flush=True)
            for name, m in dev.items():
                print(f"    {name}: {m.value:.4f} [{m.low:.4f}, {m.high:.4f}]", flush=True)
                measures.setdefault((f"r {ratio}", name), []).append(m.value)
    rows: list[dict[str, Any]] = []
    for (ratio_name, name), values in sorted(measures.items()):
        spread = stdev(values) if len(values) > 1 else 0.0
        rows.append(
            row(f"{ratio_name}, {name}", mean(values), "") | {"sd": spread, "seeds": values}
        )
        print(f"{ratio_name}, {name:<28} {mean(values):.4f} sd {spread:.4f}", flush=True)
    if argument("out"):
        Path(argument("out")).write_text(
            json.dumps({"task": task, "device": device, "rows": rows} | given, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
