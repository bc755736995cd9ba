"""Running a step over cases that live in the cache.

Between steps a case is a `CaseRef`: the digests of its fields. The key of a step on a case is the
step's identity and the digests of just the fields that it reads, so pipelines that agree on those
share the work, whatever else differs; and a change that leaves a field as it was stops there.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import msgspec

from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError
from components.records import Case, Claim, Record, decode, encode, field_type
from components.step import Context, Step, TrainedStep, identity, keyed_by_train


class Cost(Record):
    """What one step cost for one case. Shared work is split evenly over its batch."""

    step: str
    seconds: float
    prompt_tokens: float = 0
    completion_tokens: float = 0
    cached: bool = False


class CaseRef(Record):
    """A case whose fields lie in the cache. `error` says why no later step touches it."""

    id: str
    fields: dict[str, str]
    trace: list[Cost] = []
    error: str | None = None


class Stored:
    """Cases in the cache that a step learns from."""

    def __init__(self, refs: list[CaseRef], cache: Cache) -> None:
        self.refs = [ref for ref in refs if not ref.error]
        self.cache = cache

    def digest(self, fields: tuple[str, ...]) -> str:
        """Of the content of these fields."""
        return key_of([[ref.fields.get(field) for field in fields] for ref in self.refs])

    def load(self, fields: tuple[str, ...]) -> list[Case]:
        """The cases with these fields."""
        return [load(ref, fields, self.cache) for ref in self.refs]


def keys_of(step: Step, refs: list[CaseRef], ctx: Context) -> list[str]:
    """The cache key of `step` on each case. Fits a trained step first if that hasn't happened."""
    base = [identity(step)]
    if isinstance(step, TrainedStep):
        base.append(ctx.model(step).digest)
    if keyed_by_train(step):
        base.append(ctx.train_digest)
    if step.seeded:
        base.append(ctx.seed)
    prefix = key_of(*base)
    return [key_of(prefix, [ref.fields.get(name) for name in step.reads]) for ref in refs]


def from_cache(step: Step, name: str, refs: list[CaseRef], ctx: Context) -> list[CaseRef | None]:
    """Each case with the step's output, where the cache has it, else None.

    A failed case comes back as it is.
    """
    keys = keys_of(step, refs, ctx)
    return [
        ref if ref.error else _with_output(ref, step, name, ctx.cache.lookup(key), cached=True)
        for ref, key in zip(refs, keys, strict=True)
    ]


def run_step(step: Step, name: str, refs: list[CaseRef], ctx: Context) -> list[CaseRef]:
    """Run `step` on the cases that the cache doesn't have, and return all with its output.

    Cases that agree on what the step reads are computed once. Another process with the same
    batch waits and then finds the work done. A case that the step marks with `failed` gets its
    error and is not cached, so the next run tries it again. Raises ClaimflowError inside another
    step whose key lacks what this one uses.
    """
    ctx.check_inside(step)
    keys = keys_of(step, refs, ctx)
    failed: dict[str, str] = {}
    done: set[str] = set()
    with ctx.cache.lock(key_of("batch", keys)):
        todo: dict[str, CaseRef] = {}
        for ref, key in zip(refs, keys, strict=True):
            if not ref.error and key not in todo and ctx.cache.lookup(key) is None:
                todo[key] = ref
        if todo:
            cases = [load(ref, step.reads, ctx.cache) for ref in todo.values()]
            if "claim" not in step.reads:  # a name that says no more than the key does
                for key, case in zip(todo, cases, strict=True):
                    case.claim = Claim(id=key, text="")
            ids = [case.claim.id for case in cases]
            before = dict(ctx.tokens)
            start = time.perf_counter()
            results = step.run(cases, ctx.held(step))
            share = len(todo)
            cost = {"seconds": round((time.perf_counter() - start) / share, 6)}
            for kind in before:
                cost[f"{kind}_tokens"] = (ctx.tokens[kind] - before[kind]) / share
            if [result.claim.id for result in results] != ids:
                raise ClaimflowError(f"Step {name} must return the cases that it was given.")
            if keys_of(step, list(todo.values()), ctx) != list(todo):
                raise ClaimflowError(
                    f"A file that step {name} reads – a prompt, a model – was edited while it ran, "
                    "and nobody knows which text counted. Start again: what is finished is kept."
                )
            for key, result in zip(todo, results, strict=True):
                if result.failed:
                    failed[key] = f"{name}: {result.failed}"
                    continue
                outputs = [ctx.cache.put(encode(_value(result, field))) for field in step.writes]
                ctx.cache.record(key, Action(outputs=outputs, cost=cost))
                done.add(key)
    finished = []
    for ref, key in zip(refs, keys, strict=True):
        if ref.error:
            finished.append(ref)
        elif key in failed:
            finished.append(msgspec.structs.replace(ref, error=failed[key]))
        else:
            action = ctx.cache.lookup(key)
            out = _with_output(ref, step, name, action, cached=key not in done)
            assert out, f"{name}: output vanished"
            finished.append(out)
    return finished


def _with_output(
    ref: CaseRef, step: Step, name: str, action: Action | None, cached: bool
) -> CaseRef | None:
    if action is None:
        return None
    fields = {**ref.fields, **dict(zip(step.writes, action.outputs, strict=True))}
    cost = Cost(
        step=name,
        seconds=action.cost.get("seconds", 0),
        prompt_tokens=action.cost.get("prompt_tokens", 0),
        completion_tokens=action.cost.get("completion_tokens", 0),
        cached=cached,
    )
    return CaseRef(id=ref.id, fields=fields, trace=[*ref.trace, cost])


def load(ref: CaseRef, fields: tuple[str, ...] | list[str], cache: Cache) -> Case:
    """A case with only the named fields, read from the cache.

    A step that does not read the claim gets one with its id alone.
    """
    values: dict[str, Any] = {"claim": Claim(id=ref.id, text="")}
    rankings: dict[str, Any] = {}
    for field in fields:
        if field not in ref.fields:
            continue
        value = _field(cache, field, ref.fields[field])
        if field.startswith("rankings."):
            rankings[field.removeprefix("rankings.")] = value
        else:
            values[field] = value
    digests = {field: ref.fields[field] for field in fields if field in ref.fields}
    return Case(**values, rankings=rankings, digests=digests)


def store(case: Case, fields: tuple[str, ...] | list[str], cache: Cache) -> CaseRef:
    """Put the named fields of a case into the cache: how a pipeline begins."""
    return CaseRef(id=case.claim.id, fields={f: cache.put(encode(_value(case, f))) for f in fields})


def _value(case: Case, field: str) -> Any:
    if field.startswith("rankings."):
        return case.rankings[field.removeprefix("rankings.")]
    return getattr(case, field)


def _field(cache: Cache, field: str, name: str) -> Any:
    # A shared corpus is one blob for all claims: decode it once. Its records can't be changed, and
    # the list is each case's own. Other fields are decoded anew, and may be changed in place.
    if field in ("documents", "passages"):
        return list(_shared(cache, field, name))
    return _decode(cache, field, name)


@functools.lru_cache(maxsize=64)
def _shared(cache: Cache, field: str, name: str) -> Any:
    return _decode(cache, field, name)


def _decode(cache: Cache, field: str, name: str) -> Any:
    data = cache.get(name)
    if data is None:
        raise ClaimflowError(
            f"The cache lost {field} ({name}) while it was in use. Start again: it is rebuilt."
        )
    return decode(data, field_type(field))
