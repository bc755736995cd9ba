"""Learners of SciFact: a reranker, and labels of claim and abstract by negative ratio.

    python -m benchmarks.scifact_training task=reranker out=FILE.json
    python -m benchmarks.scifact_training task=nli ratio=0,1,5,10,20 out=FILE.json
    python -m benchmarks.scifact_training task=nli choose=yes    compare settings, on train alone
    python -m benchmarks.scifact_training task=pairs out=FILE.jsonl   entailment data at hand, for
                                                        verdict=nli verdict.also=FILE.jsonl

Trained on the training claims, settings chosen on a part of them that is held out, dev scored once
at the end, by the project's scorers. Candidates are the first 100 abstracts of
retriever=weighted_sentences. Other arguments: model=minilm (or smollm2); seeds=13,14,15;
candidates=FILE.json (written if it is not there, else read: a machine without the packages of
retrieval needs it); strategy=hard (or random, annealed); each of SETTINGS, as ratio=0,1,5,10,20 or
r=16 (of LoRA; 0: all weights are trained); jobs=N (trainings at a time, spread over the GPUs).
`choose` trains each setting of GRID with the first seed and prints the measures on the claims held
out.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from concurrent.futures import as_completed
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from msgspec.structs import asdict

from benchmarks.common import argument, data, retrieved, row, trainings
from components.assets import MINILM, SMOLLM2, model
from components.records import Claim, Document, Record, decode, encode, write_lines
from components.train.entail import Entailed
from components.train.pairs import Candidates

SETTINGS: dict[str, dict[str, Any]] = {
    "reranker": {"ratio": 15, "epochs": 4, "rate": 1e-4, "warm": 1, "r": 0, "batch": 16},
    "reranker smollm2": {"ratio": 15, "epochs": 3, "rate": 5e-4, "warm": 1, "r": 16, "batch": 4},
    "nli": {"ratio": 5, "epochs": 4, "rate": 1e-4, "warm": 2, "r": 0, "batch": 64},
    "nli smollm2": {"ratio": 5, "epochs": 4, "rate": 5e-4, "warm": 2, "r": 16, "batch": 64},
}
UPDATE = {"reranker": 16, "nli": 64}  # claims or sentences of an update
ARGUMENTS = ("task", "model", "strategy", "seeds", "candidates", "limit", "choose", "jobs", "out")
GRID: dict[str, list[dict[str, Any]]] = {
    "reranker": [{}, {"rate": 5e-5}, {"rate": 2e-4}, {"warm": 0}, {"epochs": 8}],
    "reranker smollm2": [{}, {"rate": 1e-3}, {"r": 0, "rate": 5e-5}, {"r": 0, "rate": 1e-4}],
    "nli": [{}, {"rate": 5e-5}, {"rate": 2e-4}, {"warm": 4}, {"epochs": 8}],
    "nli smollm2": [
        {},
        {"rate": 1e-3},
        {"r": 0, "rate": 5e-5},
        {"r": 0, "rate": 1e-4},
        {"warm": 4},
        {"epochs": 8},
        {"ratio": 10},
    ],
}
FIRST_STAGE = "weighted_sentences"  # of conf/retriever
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


def search(claims: list[Claim], documents: list[Document], ctx: Any, retriever: str) -> Any:
    """Candidates of each claim, by a choice of conf/retriever."""
    from components.records import Case
    from components.store.chunk import WholeDocument
    from components.train.pairs import candidates

    whole = Case(claim=claims[0], documents=documents)
    passages = WholeDocument(with_title=True).run([whole], ctx)[0].passages
    return [candidates(case) for case in retrieved(retriever, claims, passages, ctx)]


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
            train=search(train, documents, ctx, FIRST_STAGE),
            dev=search(dev, documents, ctx, FIRST_STAGE),
            cloze=search(cloze_claims(documents), documents, ctx, "bm25s"),
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


def settings(step: Any, said: dict[str, Any], max_length: int, depth: int) -> dict[str, Any]:
    """What both learners are given."""
    from components.train.negatives import Negatives
    from components.train.trainer import Lora, Training

    trainer = Training(
        held_out=0.2,
        patience=100,
        batch=said["batch"],
        accumulate=UPDATE[step.task] // said["batch"],
        max_length=max_length,
    )
    return {
        "model": Path(said["model"]),
        "trainer": trainer,
        "lora": Lora(r=said["r"], alpha=2 * said["r"]) if said["r"] else None,
        "negatives": Negatives(ratio=said["ratio"], strategy=said["strategy"], depth=depth),
    } | {name: said[name] for name in ("rate", "epochs", "warm")}


def rerank(
    found: Searched, documents: dict[str, Document], ctx: Any, said: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Train a reranker; what it reached on the claims held out, and what it and its sum with the
    first stage reach on dev."""
    from components.score.retrieval import retrieval
    from components.train.rerank import Reranker, sums

    step = Reranker(**settings(Reranker, said, max_length=320, depth=30))
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
    found: Searched, documents: dict[str, Document], ctx: Any, said: dict[str, Any]
) -> tuple[dict[str, float], dict[str, Any]]:
    """Train a labeller at a negative ratio; what it reached on the claims held out, and
    label-only measures on dev."""
    from components.score.scifact import scifact
    from components.train.entail import Decision, Entailment, predictions

    step = Entailment(**settings(Entailment, said, max_length=256, depth=20))
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
    task: str, seed: int, said: dict[str, Any]
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
    return *work(found, documents, ctx, said), time.perf_counter() - start


def main() -> None:
    task = argument("task")
    models = {"minilm": MINILM, "smollm2": SMOLLM2}
    name = argument("model") or "minilm"
    given = SETTINGS.get(task if name == "minilm" else f"{task} {name}", {})
    known = (*ARGUMENTS, *given)
    for word in sys.argv[1:]:
        if word.partition("=")[0] not in known:
            sys.exit(f"error: '{word}': known are {', '.join(f'{name}=' for name in known)}.")
    import torch

    from components.cache import Cache
    from components.files import home
    from components.step import Context

    if task == "pairs":
        pairs = entailments()[: int(argument("limit") or 3236)]
        lines = [Entailed(claim=claim, text=text, label=name) for claim, text, name in pairs]
        write_lines(Path(argument("out")), lines)
        return
    if not given:
        cache = Cache(os.environ.get("CLAIMFLOW_CACHE") or home() / "cache")
        found, _ = searched(Context(cache))
        print(f"{len(found.train)} and {len(found.dev)} claims searched; task=reranker or nli.")
        return
    seeds = [int(seed) for seed in (argument("seeds") or "13,14,15").split(",")]
    choose = argument("choose") == "yes"
    fixed = {
        "model": str(model(models[name])),
        "strategy": argument("strategy") or "hard",
        "choose": choose,
    }
    said = {
        name: [type(value)(part) for part in argument(name).split(",")]
        for name, value in given.items()
        if argument(name)
    }
    grid = GRID[task if name == "minilm" else f"{task} {name}"] if choose else [{}]
    points = [dict(zip(said, values, strict=True)) for values in product(*said.values())]
    plan = [
        (task, seed, given | changes | point | fixed)
        for point in points
        for changes in grid
        for seed in (seeds[:1] if choose else seeds)
    ]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    print(f"{len(plan)} trainings of {task} ({name}) on {device}", flush=True)
    measures: dict[tuple[str, str], list[Any]] = {}
    with trainings(int(argument("jobs") or 1)) as pool:
        futures = {pool.submit(trained, *job): job for job in plan}
        for future in as_completed(futures):
            _, seed, used = futures[future]
            held_out, dev, seconds = future.result()
            point = ", ".join(f"{key} {used[key]}" for key in given)
            held = ", ".join(f"{name} {value:.4g}" for name, value in held_out.items())
            print(f"{point}, seed {seed}: {seconds:.0f} s; held out: {held}", flush=True)
            for key, m in dev.items():
                print(f"    {key}: {m.value:.4f} [{m.low:.4f}, {m.high:.4f}]", flush=True)
                measures.setdefault((f"r {used['ratio']}", key), []).append(m.value)
    rows: list[dict[str, Any]] = []
    for (ratio, key), found in sorted(measures.items()):
        spread = stdev(found) if len(found) > 1 else 0.0
        rows.append(row(f"{ratio}, {key}", mean(found), "") | {"sd": spread, "seeds": found})
        print(f"{ratio}, {key:<28} {mean(found):.4f} sd {spread:.4f}", flush=True)
    if argument("out"):
        Path(argument("out")).write_text(
            json.dumps({"task": task, "device": device, "rows": rows} | given | said, indent=1)
            + "\n"
        )


if __name__ == "__main__":
    main()
