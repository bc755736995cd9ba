"""What benchmarks share: their argument, their data, their result."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from components.records import Case, Claim, Passage, Query
from components.step import Context

T = TypeVar("T")


def data(*parts: str) -> Path:
    """A file of the real data, below CLAIMFLOW_DATA."""
    path = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")).joinpath(*parts)
    if not path.exists():
        sys.exit(f"error: no {path}; CLAIMFLOW_DATA says where the real data are.")
    return path


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """(result, seconds) of `work()`."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def trainings(jobs: int, devices: int = 1) -> ProcessPoolExecutor:
    """Processes that train side by side, each on some GPUs, spread over those that there are."""
    import torch

    context = get_context("spawn")
    worker = context.Value("i", 0)
    return ProcessPoolExecutor(
        jobs, context, _take_gpus, (worker, torch.cuda.device_count(), devices)
    )


def _take_gpus(worker: Any, gpus: int, devices: int) -> None:
    with worker.get_lock():
        number, worker.value = worker.value, worker.value + 1
    if gpus > 1:
        mine = sorted({(number * devices + n) % gpus for n in range(devices)})
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, mine))


def retrieved(retriever: str, claims: list[Claim], passages: list[Passage], ctx: Context) -> Any:
    """Cases with the hits for each claim, by a choice of conf/retriever."""
    from flows.build import build_steps
    from flows.cli import composed

    cases = [
        Case(
            claim=claim,
            passages=passages,
            queries=[Query(text=claim.text)],
            digests={"passages": "scifact"},
        )
        for claim in claims
    ]
    for step in build_steps(composed([f"retriever={retriever}", "pipeline=[retriever]"])).values():
        cases = step.run(cases, ctx)
    return cases


def row(name: str, value: float, unit: str, against: float | None = None) -> dict[str, Any]:
    """A line of the result; ratio is how many times faster than the alternative."""
    ratio = round(against / value, 2) if against else None
    return {"name": name, "value": value, "unit": unit, "against": against, "ratio": ratio}


def argument(key: str) -> str:
    """What `key=…` on the command line says, or nothing."""
    for said in sys.argv[1:]:
        if said.startswith(f"{key}="):
            return said.removeprefix(f"{key}=")
    return ""


def finish(rows: list[dict[str, Any]], *others: str) -> None:
    """Print the rows, and write them to FILE.json if `out=FILE.json` was said.

    others: arguments that the benchmark has besides.
    """
    for line in rows:
        beside = f"  against {line['against']:.3f}, {line['ratio']} x" if line["against"] else ""
        print(f"{line['name']:<48} {line['value']:.3f} {line['unit']}{beside}")
    for said in sys.argv[1:]:
        key, _, value = said.partition("=")
        if key in others:
            continue
        if key != "out" or not value:
            sys.exit(f"error: '{said}' is not out=FILE.json.")
        Path(value).write_text(json.dumps(rows, indent=1) + "\n")
