"""Verdict models on AVeriTeC's gold evidence: three seeds each, beside the zero-shot prompt.

    python -m benchmarks.verdict_training choose=yes       compare settings, on train alone
    python -m benchmarks.verdict_training out=FILE.json    those of conf/verdict, measured on dev
    python -m benchmarks.verdict_training settings=CHOSEN.json    the best that choose wrote there
    python -m benchmarks.verdict_training models=lora_llm devices=2 accumulate=2    on two GPUs each

Other arguments: models=lora_llm,encoder,lora_encoder; seeds=13,14,15; jobs=6 (trainings at a time,
spread over the GPUs); limit=N (training claims, and as many of dev); devices, accumulate, tokens,
batch and updates of the trainer. `choose` trains each setting of GRID with one seed and measures on
the held-out fifth of train; dev is not looked at. Trained models stay in the cache, so a run that
was cut short goes on. Needs the packages of components/ alone (torch, transformers, peft,
accelerate, scikit-learn, msgspec, filelock, tqdm, PyYAML), no network.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from benchmarks.common import argument, data, row, trainings

CONF = Path(__file__).resolve().parent.parent / "conf"
GRID: dict[str, list[dict[str, Any]]] = {
    "lora_llm": [
        {},
        {"shuffle": False},
        {"class_weight": 0.0},
        {"class_weight": 0.5},
        {"rate": 5e-4},
        {"rate": 2e-3},
        {"lora": {"r": 64, "alpha": 64}},
        {"lora": {"dropout": 0.15}},
    ],
    "encoder": [{"rate": rate, "class_weight": w} for rate in (1e-4, 3e-4) for w in (0.0, 0.5)],
    "lora_encoder": [
        {"rate": rate, "epochs": epochs, "lora": {"r": r, "alpha": 2 * r}}
        for rate in (3e-4, 5e-4, 1e-3)
        for epochs in (10, 20)
        for r in (16, 64)
    ],
}


def step_of(model: str, changes: dict[str, Any], limit: int | None, held_out: float | None) -> Any:
    """The step that conf/verdict/MODEL.yaml describes, with some values changed."""
    import yaml

    from components.reason.tuned import TunedVerdict
    from components.train.trainer import Lora, Training

    def read(group: str, name: str) -> dict[str, Any]:
        found = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
        return {key: value for key, value in found.items() if key not in ("_target_", "defaults")}

    settings = read("verdict", model)
    import torch

    training = read("trainer", "full")
    if torch.cuda.is_available():
        training |= read("trainer", "gpu")
    training |= {"limit": limit} | changes.get("trainer", {})
    if held_out:
        training["held_out"] = held_out
    lora = settings.pop("lora")
    if lora:
        lora = {k: v for k, v in lora.items() if k != "_target_"} | changes.get("lora", {})
    settings |= {key: value for key, value in changes.items() if key not in ("lora", "trainer")}
    settings |= {"lora": lora and Lora(**lora), "trainer": Training(**training)}
    return TunedVerdict(**settings)


def claims(limit: int | None) -> tuple[list[Any], list[Any]]:
    """(training claims, dev claims with gold evidence)."""
    from components.datasets.averitec import Averitec

    source = Averitec(path=data("averitec"), limit=limit)
    dev = source.claims()
    return source.train(dev)[0], dev


def train(
    model: str, changes: dict[str, Any], seed: int, limit: int | None, choose: bool
) -> dict[str, Any]:
    """Train one model; its probabilities for dev, unless settings are being chosen."""
    from components.cache import Cache
    from components.files import home
    from components.reason.tuned import about, gold_pairs
    from components.records import Case, Evidence
    from components.step import Context

    start = time.perf_counter()
    known, dev = claims(limit)
    ctx = Context(Cache(os.environ.get("CLAIMFLOW_CACHE") or home() / "cache"), known, seed)
    step = step_of(model, changes, limit, 0.2 if choose else None)
    folder = Path(ctx.model(step).path)
    seconds = time.perf_counter() - start
    tuned = about(folder)
    chances = []
    if not choose:
        cases = [
            Case(claim=c, evidence=[Evidence(question=q, answer=a) for q, a in gold_pairs(c)])
            for c in dev
        ]
        step.run(cases, ctx)
        chances = [case.verdict.probabilities if case.verdict else None for case in cases]
    curve = json.loads((folder / "curve.json").read_bytes())
    return {
        "model": model,
        "changes": changes,
        "seed": seed,
        "seconds": seconds,
        "training_seconds": ctx.fit_seconds(step),
        "losses": [entry["loss"] for entry in curve if "loss" in entry],
        "updates": max(int(entry["step"]) for entry in curve),
        "evaluations": [entry for entry in curve if "eval_loss" in entry],
        "temperature": tuned.temperature,
        "trained_parameters": tuned.trained,
        "held_out": tuned.held_out,
        "dev": chances,
    }


def zero_shot(limit: int | None) -> list[dict[str, float]]:
    """Probabilities for dev of the language model as it is, asked with the same prompt."""
    from components.reason.tuned import Judge, gold_pairs, softmax
    from components.records import AVERITEC_LABELS

    step = step_of("lora_llm", {}, limit, None)
    judge = Judge(step.untrained({}), step.model, step.prompt)
    rows = [judge.row(claim, gold_pairs(claim)) for claim in claims(limit)[1]]
    chances = softmax(judge.scores([row for row in rows if row]), 1.0)
    return [dict(zip(AVERITEC_LABELS, values, strict=True)) for values in chances.tolist()]


class Dev:
    """Measures of one system on dev: over its seeds, each claim resampled in all of them alike."""

    def __init__(self, gold: Sequence[str], runs: list[list[dict[str, float] | None]]) -> None:
        from components.records import AVERITEC_LABELS
        from components.score import bootstrap, calibration

        self.statistics: dict[str, list[Callable[[Any], Any]]] = {
            name: [] for name in ("accuracy", "f1_macro", "ece")
        }
        for chances in runs:
            guess = [max(c, key=c.__getitem__) if c else "" for c in chances]
            right = [float(a == b) for a, b in zip(guess, gold, strict=True)]
            sure = [max(c.values()) if c else 0.0 for c in chances]
            found = (
                bootstrap.mean(right),
                bootstrap.f1(gold, guess, AVERITEC_LABELS),
                calibration.calibration_error(sure, right),
            )
            for each, statistic in zip(self.statistics.values(), found, strict=True):
                each.append(statistic)

    def mean(self, name: str) -> Callable[[Any], Any]:
        """The mean over the seeds, as a statistic."""
        return lambda weights: (
            sum(s(weights) for s in self.statistics[name]) / len(self.statistics[name])
        )


def report(gold: Sequence[str], systems: dict[str, Dev]) -> list[dict[str, Any]]:
    """Rows: each measure of each system, and its difference to others, with intervals."""
    import statistics

    import numpy as np

    from components.score import bootstrap

    weights = bootstrap.resamples(len(gold), 2000, 13)
    one = np.ones((1, len(gold)))
    rows = []
    for name, dev in systems.items():
        for measure in dev.statistics:
            found = bootstrap.measure(dev.mean(measure), weights)
            seeds = [float(s(one)[0]) for s in dev.statistics[measure]]
            more = {"low": found.low, "high": found.high, "seeds": seeds}
            if len(seeds) > 1:
                more["sd"] = statistics.stdev(seeds)
            rows.append(row(f"{name}: {measure}", found.value, "") | more)
    pairs = [(name, "zero_shot") for name in systems] + [("lora_encoder", "encoder")]
    for first, second in pairs:
        if first == second or not {first, second} <= systems.keys():
            continue
        for measure in systems[first].statistics:
            gap = bootstrap.paired_bootstrap(
                systems[first].mean(measure), systems[second].mean(measure), weights
            )
            more = {"low": gap.low, "high": gap.high, "p": gap.p}
            rows.append(row(f"{first} - {second}: {measure}", gap.value, "") | more)
    return rows


def chosen(model: str) -> dict[str, Any]:
    """The settings of the highest held-out mean in the file that `settings` names."""
    if not argument("settings"):
        return {}
    found = json.loads(Path(argument("settings")).read_text(encoding="utf-8"))["runs"]
    runs = [run for run in found if run["model"] == model]

    def held_out(run: dict[str, Any]) -> float:
        return sum(float(run["held_out"][name]["value"]) for name in ("accuracy", "f1_macro"))

    return dict(max(runs, key=held_out)["changes"]) if runs else {}


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    trainer = ("devices", "accumulate", "tokens", "batch", "updates")
    known = ("out", "choose", "settings", "models", "seeds", "jobs", "limit", *trainer)
    for said in sys.argv[1:]:
        if said.partition("=")[0] not in known:
            sys.exit(f"error: '{said}': known are {', '.join(f'{name}=' for name in known)}.")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from components.records import encode

    cuda = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if cuda else "cpu"
    models = (argument("models") or "lora_llm,lora_encoder,encoder").split(",")
    seeds = [int(seed) for seed in (argument("seeds") or "13,14,15").split(",")]
    limit = int(argument("limit")) if argument("limit") else None
    given = {name: int(argument(name)) for name in trainer if argument(name)}
    devices = given.get("devices", 1)
    side = min(9, os.cpu_count() or 1) if cuda and devices == 1 else 1
    jobs = int(argument("jobs") or side)
    choose = argument("choose") == "yes"
    if choose:
        plan = [(model, changes, seeds[0]) for model in models for changes in GRID[model]]
    else:
        best = {model: chosen(model) for model in models}
        plan = [(model, best[model], seed) for model in models for seed in seeds]
    if given:
        plan = [(model, changes | {"trainer": given}, seed) for model, changes, seed in plan]
    say(f"{len(plan)} trainings on {device}, {jobs} at a time")
    start = time.perf_counter()
    done: list[dict[str, Any]] = []
    with trainings(jobs, devices) as pool:
        futures = [pool.submit(train, *job, limit, choose) for job in plan]
        for future in as_completed(futures):
            run = future.result()
            done.append(run)
            held = "  ".join(
                f"{name} {m.value:.3f} [{m.low:.3f}, {m.high:.3f}]"
                for name, m in run["held_out"].items()
            )
            say(
                f"{time.perf_counter() - start:6.0f} s  {run['model']} {run['changes'] or ''} "
                f"seed {run['seed']}: {run['updates']} updates in {run['seconds']:.0f} s, "
                f"{run['training_seconds']:.1f} of them in training; "
                f"held out: {held}; temperature {run['temperature']}"
            )
    done.sort(key=lambda run: (run["model"], str(run["changes"]), run["seed"]))
    rows: list[dict[str, Any]] = []
    if choose:
        for run in done:
            values = [run["held_out"][name].value for name in ("accuracy", "f1_macro")]
            rows.append(row(f"{run['model']} {run['changes']}", sum(values) / 2, "held-out mean"))
        rows.sort(key=lambda line: (line["name"].split()[0], -line["value"]))
    else:
        gold = [str(claim.label) for claim in claims(limit)[1]]
        systems = {"zero_shot": Dev(gold, [list(zero_shot(limit))])}
        for model in models:
            systems[model] = Dev(gold, [run["dev"] for run in done if run["model"] == model])
        rows = report(gold, systems)
    for line in rows:
        interval = f"  [{line['low']:+.3f}, {line['high']:+.3f}]" if "low" in line else ""
        sd = f"  sd {line['sd']:.3f}" if "sd" in line else ""
        say(f"{line['name']:<60} {line['value']:+.3f} {line['unit']}{interval}{sd}")
    for run in done:
        del run["dev"]
    if argument("out"):
        versions = {"torch": str(torch.__version__), "device": device, "jobs": jobs, "limit": limit}
        Path(argument("out")).write_bytes(encode({"rows": rows, "runs": done} | versions) + b"\n")


if __name__ == "__main__":
    main()
