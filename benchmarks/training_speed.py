"""Real tokens a second of LoRA training: packed, grouped by length, padded to the longest.

    python -m benchmarks.training_speed out=FILE.json

Each way at sizes of its own, and all at as many slots a step (tokens, padding counted), by the
same Trainer, model and attention, without recomputed activations, after a warm-up. The claims are
AVeriTeC's training split with gold evidence. First of all the packed loss must equal that of the
examples one by one within 1e-5, in float32. Other arguments: steps=18, warm=8, compile=yes,
slots=65536, sizes=64,128 (examples), tokens=32768,65536 (packed). On a CPU, to try it:
steps=3 warm=1 compile=no slots=512 sizes=2 tokens=512 limit=40.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.common import argument, finish, row

ARGUMENTS = ("steps", "warm", "compile", "slots", "sizes", "tokens", "limit")
PARTS = 3  # stretches of a run that are timed on their own


def numbers(name: str, default: str) -> list[int]:
    return [int(value) for value in (argument(name) or default).split(",")]


def by_size(order: list[int], size: int) -> list[list[int]]:
    """Batches of `size` examples; what is left over is no whole one."""
    return [order[at : at + size] for at in range(0, len(order) - size + 1, size)]


def full_packs(lengths: list[int], tokens: int, rng: random.Random) -> list[list[int]]:
    """Packed batches, less the one that isn't full."""
    from components.train.packing import packs

    found = packs(lengths, tokens, rng)
    least = min(found, key=lambda pack: sum(lengths[i] for i in pack))
    return [pack for pack in found if pack is not least]


def by_slots(order: list[int], lengths: Sequence[int], slots: int) -> list[list[int]]:
    """Batches, in that order, of as many examples as `slots` hold when padded to the longest;
    what is left over is no whole one."""
    found: list[list[int]] = [[]]
    for i in order:
        longest = max(lengths[n] for n in [*found[-1], i])
        if found[-1] and longest * (len(found[-1]) + 1) > slots:
            found.append([])
        found[-1].append(i)
    return found[:-1]


def grouped(lengths: Sequence[int], rng: random.Random) -> list[int]:
    """All examples by length, those of one length in random order."""
    order = list(range(len(lengths)))
    rng.shuffle(order)
    return sorted(order, key=lambda i: lengths[i])


def plans(lengths: list[int]) -> dict[str, tuple[Any, bool, int]]:
    """{way and size: (batches of one pass, is each padded to its longest, least slots)}."""

    def shuffled(rng: random.Random) -> list[int]:
        return rng.sample(range(len(lengths)), len(lengths))

    def mixed(batches: list[list[int]], rng: random.Random) -> list[list[int]]:
        return rng.sample(batches, len(batches))

    [slots] = numbers("slots", "65536")
    found: dict[str, Any] = {}
    for tokens in dict.fromkeys([slots, *numbers("tokens", "32768,65536")]):
        found[f"packed, {tokens} slots"] = (
            functools.partial(full_packs, lengths, tokens),
            False,
            tokens,
        )
    found[f"grouped, {slots} slots"] = (
        lambda rng: mixed(by_slots(grouped(lengths, rng), lengths, slots), rng),
        True,
        0,
    )
    found[f"padded, {slots} slots"] = (lambda rng: by_slots(shuffled(rng), lengths, slots), True, 0)
    for size in numbers("sizes", "64,128"):
        found[f"grouped, {size} examples"] = (
            lambda rng, size=size: mixed(by_size(grouped(lengths, rng), size), rng),
            True,
            0,
        )
        found[f"padded, {size} examples"] = (
            lambda rng, size=size: by_size(shuffled(rng), size),
            True,
            0,
        )
    return found


def check_loss(judge: Any, rows: list[Any]) -> float:
    """The difference of the packed loss to that of the examples one by one, in float32."""
    import torch

    device, labels = judge.model.device, torch.tensor([row["labels"] for row in rows])

    def loss(parts: list[list[Any]], take: Callable[[Any], Any]) -> float:
        with torch.inference_mode():
            scores = torch.cat([take(part).cpu() for part in parts])
        return float(-scores.gather(1, labels[:, None]).double().mean())

    def packed(part: list[Any]) -> Any:
        batch = judge.batch(part)
        inputs = {k: x.to(device) if hasattr(x, "to") else x for k, x in batch.items()}
        return judge.log_probabilities(judge.model(**inputs))

    def alone(part: list[Any]) -> Any:
        ids = torch.tensor([part[0]["input_ids"]], device=device)
        return judge.log_probabilities(judge.model(ids, logits_to_keep=1))

    ours = judge.model.config._attn_implementation
    together = loss([rows], packed)
    judge.model.set_attn_implementation("sdpa")
    difference = abs(together - loss([[row] for row in rows], alone))
    judge.model.set_attn_implementation(ours)
    if difference > 1e-5:
        sys.exit(f"error: the packed loss differs by {difference} from that of the examples.")
    return difference


def measure(
    rows: list[Any], plan: Callable[[random.Random], list[list[int]]], padded: bool, least: int
) -> dict[str, Any]:
    """Train `warm` and then `steps` steps; tokens a second of these, in stretches."""
    import torch
    from transformers import TrainerCallback

    from benchmarks.verdict_training import step_of
    from components.reason.tuned import Judge
    from components.train.trainer import Training, tune

    [warm], [steps] = numbers("warm", "8"), numbers("steps", "18")
    cuda = torch.cuda.is_available()
    rng, batches = random.Random(13), []
    while len(batches) < warm + steps:
        batches += [[rows[i] for i in batch] for batch in plan(rng)]
    batches = batches[: warm + steps]
    real = [sum(len(row["input_ids"]) for row in batch) for batch in batches]
    stamps: dict[int, float] = {}
    ends = [warm + steps * part // PARTS for part in range(PARTS + 1)]

    class Stamp(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step in ends:
                if cuda:
                    torch.cuda.synchronize()
                stamps[state.global_step] = time.perf_counter()

    settings = Training(
        compile=argument("compile") != "no", threads=torch.get_num_threads(), evaluations=1
    )
    step = step_of("lora_llm", {}, None, None)
    judge = Judge(step.untrained({}), step.model, step.prompt, half=settings.half)
    model = step.lora.wrap(judge.model, judge.task)
    if cuda:
        torch._dynamo.reset()
        torch.cuda.reset_peak_memory_stats()

    def collate(some: list[Any]) -> dict[str, Any]:
        return judge.batch(some, padded, least)

    with tempfile.TemporaryDirectory() as folder:
        tune(
            model,
            batches,
            [rows[:4]],
            collate=collate,
            log_probabilities=judge.log_probabilities,
            weights=[1.0] * 4,
            settings=settings,
            rate=1e-4,
            epochs=1,
            seed=13,
            folder=Path(folder),
            callbacks=[Stamp()],
        )
    spans = list(itertools.pairwise(ends))
    rates = [sum(real[a:b]) / (stamps[b] - stamps[a]) for a, b in spans]
    seconds = stamps[ends[-1]] - stamps[ends[0]]
    return {
        "rates": rates,
        "value": sum(real[warm:]) / seconds,
        "ms": 1000 * seconds / steps,
        "examples": sum(map(len, batches[warm:])) / seconds,
        "filled": sum(real) / sum(collate(batch)["input_ids"].numel() for batch in batches),
        "gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
    }


def main() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import torch

    from benchmarks.verdict_training import claims, step_of
    from components.reason.tuned import Judge, gold_pairs
    from components.records import AVERITEC_LABELS

    known = (*ARGUMENTS, "out")
    for said in sys.argv[1:]:
        if said.partition("=")[0] not in known:
            sys.exit(f"error: '{said}': known are {', '.join(f'{name}=' for name in known)}.")
    cuda = torch.cuda.is_available()
    device = torch.cuda.get_device_name() if cuda else "cpu"
    step = step_of("lora_llm", {}, None, None)
    judge = Judge(step.untrained({}), step.model, step.prompt)
    limit = int(argument("limit")) if argument("limit") else None
    learned = [c for c in claims(limit)[0][:limit] if c.questions and c.label in AVERITEC_LABELS]
    rows = [r for c in learned if (r := judge.row(c, gold_pairs(c), c.label))]
    lengths = [len(row["input_ids"]) for row in rows]
    gap = check_loss(judge, rows[:16])
    del judge
    print(f"{device}: {len(rows)} examples, {mean(lengths):.0f} tokens; loss differs by {gap:.1e}")
    found: dict[str, dict[str, Any]] = {}
    for name, (plan, padded, least) in plans(lengths).items():
        try:
            found[name] = one = measure(rows, plan, padded, least)
        except torch.cuda.OutOfMemoryError:
            print(f"{name:<28} out of memory", flush=True)
            continue
        finally:
            torch.cuda.empty_cache()
        spread = stdev(one["rates"]) if len(one["rates"]) > 1 else 0.0
        memory = f", {one['gib']:.1f} GiB" if cuda else ""
        print(
            f"{name:<28} {one['value']:9,.0f} ± {spread:,.0f} real tokens/s, "
            f"{one['examples']:.0f} examples/s, {one['ms']:.0f} ms a step, filled "
            f"{one['filled']:.3f}{memory}",
            flush=True,
        )
    best = {
        way: max((name for name in found if name.startswith(way)), key=lambda n: found[n]["value"])
        for way in ("packed", "grouped", "padded")
    }
    [slots] = numbers("slots", "65536")
    rows_out = [
        row(f"{device}: {name}", one["value"], "real tokens/s")
        | {key: one[key] for key in ("rates", "ms", "filled", "gib")}
        for name, one in found.items()
    ]
    for way in ("grouped", "padded"):
        at_best = found[best["packed"]]["value"] / found[best[way]]["value"]
        rows_out.append(row(f"{best['packed']} / {best[way]} (each at its best)", at_best, "x"))
        names = [f"{name}, {slots} slots" for name in ("packed", way)]
        if set(names) <= found.keys():
            ratio = found[names[0]]["value"] / found[names[1]]["value"]
            rows_out.append(row(f"packed / {way} at {slots} slots", ratio, "x"))
    finish(rows_out, *ARGUMENTS)


if __name__ == "__main__":
    main()
