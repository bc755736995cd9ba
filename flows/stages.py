"""Prefect tasks: one a stage and shard. They pass digests and small configs, never payloads."""

from __future__ import annotations

import functools
import time
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from components.cache import open_cache
from components.errors import ClaimflowError
from components.pipeline import CaseRef, from_cache, run_step
from components.records import Claim, Record, decode, encode
from components.step import Context, TrainedStep
from flows.build import build


class Scope(Record):
    """What a worker needs to work on a run: where the cache is, training claims, seed."""

    cache: str
    train: str  # digest of the training claims
    seed: int


class StageReport(Record):
    """One stage of a run, as logged: what, how many, how long, how many from cache."""

    name: str
    cases: int
    cached: int
    failed: int
    seconds: float


def context(scope: Scope) -> Context:
    """A context for one task; the training claims are decoded once a process."""
    return Context(open_cache(scope.cache), _train(scope.cache, scope.train), scope.seed)


@functools.lru_cache(maxsize=4)
def _train(cache: str, digest: str) -> list[Claim]:
    data = open_cache(cache).get(digest)
    if data is None:
        raise ClaimflowError("The cache lost the training claims while in use. Start again.")
    return decode(data, list[Claim])


@task(cache_policy=NO_CACHE, task_run_name="fit {name}")
def fit(name: str, config: dict[str, Any], scope: dict[str, Any]) -> str:
    """Fit a trained step; the model's digest."""
    return context(Scope(**scope)).model(build(config)).digest


@task(cache_policy=NO_CACHE, task_run_name="{name} shard {number}")
def shard(name: str, number: int, config: dict[str, Any], refs: str, scope: dict[str, Any]) -> str:
    """Run a step on a shard. `refs` and the result are digests of lists of case references."""
    ctx = context(Scope(**scope))
    cases = decode(ctx.cache.get(refs) or b"", list[CaseRef])
    return ctx.cache.put(encode(run_step(build(config), name, cases, ctx)))


@task(cache_policy=NO_CACHE, task_run_name="{name}")
def cached(name: str, cases: int) -> Any:
    """Shows in the Prefect UI that a stage had nothing to do."""
    return Completed(name="Cached", message=f"{cases} cases from cache")


def run_stage(
    name: str, config: dict[str, Any], refs: list[CaseRef], scope: Scope, shard_size: int
) -> tuple[list[CaseRef], StageReport]:
    """Run one step over all cases, as tasks over shards of those that the cache doesn't have."""
    start = time.perf_counter()
    step = build(config)
    plain = {"cache": scope.cache, "train": scope.train, "seed": scope.seed}
    ctx = context(scope)
    if isinstance(step, TrainedStep):
        fit(name, config, plain)
    found = from_cache(step, name, refs, ctx)
    todo = [i for i, ref in enumerate(found) if ref is None]
    hits = len(refs) - len(todo)
    if not todo:
        cached(name, len(refs))
    futures = []
    retry = {"retries": 3, "retry_delay_seconds": [2, 8, 30]} if step.outside else {}
    for number, at in enumerate(range(0, len(todo), shard_size)):
        part = todo[at : at + shard_size]
        digest = ctx.cache.put(encode([refs[i] for i in part]))
        futures.append(
            (part, shard.with_options(**retry).submit(name, number, config, digest, plain))
        )
    for part, future in futures:
        done = decode(ctx.cache.get(future.result()) or b"", list[CaseRef])
        for i, ref in zip(part, done, strict=True):
            found[i] = ref
    finished = [ref for ref in found if ref is not None]
    report = StageReport(
        name=name,
        cases=len(refs),
        cached=hits,
        failed=sum(1 for ref in finished if ref.error),
        seconds=round(time.perf_counter() - start, 3),
    )
    return finished, report
