"""The stages of a run: prepare data, run the steps, score.

Each is made of Prefect tasks, one a stage and shard. They pass digests and small configs, never
payloads: those stay in the cache.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from omegaconf import OmegaConf
from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from components.cache import key_of, open_cache
from components.datasets.base import Dataset, case_refs
from components.engines.base import engines_in
from components.engines.threads import release_helpers
from components.errors import ClaimflowError, MissingFileError, nearest
from components.pipeline import CaseRef, Stored, from_cache, load, run_step
from components.records import AVERITEC_LABELS, Claim, Passage, Prediction, Record, decode, encode
from components.retrieve.search import Search, check_k
from components.score.base import UNSCORED, Rankings, Scorer, Scores, merged, score_once
from components.step import Context, Step, TrainedStep, identity
from flows.adapters import find, references
from flows.build import build, build_steps, check_settings, scorer_configs, step_configs
from flows.log import say
from flows.record import StageReport
from flows.runners import limited

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log


class Scope(Record):
    """What a worker needs to work on a run: where the cache is, training claims, seed."""

    cache: str
    train: str  # digest of the training claims
    seed: int
    cases: str = ""  # digest of the training claims' cases, for a step that learns from them


class Data(Record):
    """The prepared data of a run."""

    scope: Scope
    refs: list[CaseRef]
    gold: str  # digest of the evaluated claims


# Tasks


@task(cache_policy=NO_CACHE, task_run_name="fit {name}")
def fit(name: str, config: dict[str, Any], scope: dict[str, Any]) -> str:
    """Fit a trained step, unless the cache has it; the model's digest."""
    digest = context(Scope(**scope), name).model(build(config)).digest
    release_helpers()
    return digest


@task(cache_policy=NO_CACHE, task_run_name="{name} shard {number}")
def shard(
    name: str, number: int, config: dict[str, Any], made: str, refs: str, scope: dict[str, Any]
) -> str:
    """Run a step on a shard. `refs` and the result are digests of lists of case references, `made`
    is the key of the step's identity: another process may find other code."""
    ctx = context(Scope(**scope), name)
    step = build(config)
    if key_of(identity(step)) != made:
        raise ClaimflowError(
            f"Code, or a file, that step {name} is made of was edited while the run was going. "
            "Start again: what is finished is kept."
        )
    cases = decode(ctx.cache.get(refs) or b"", list[CaseRef])
    done = ctx.cache.put(encode(run_step(step, name, cases, ctx)))
    release_helpers()
    return done


@task(cache_policy=NO_CACHE, task_run_name="index {name} {passages}")
def index(name: str, config: dict[str, Any], passages: str, scope: dict[str, Any]) -> bool:
    """Build what a retriever searches of one store, by the digest of its passages."""
    ctx = context(Scope(**scope), name)
    texts = [p.text for p in decode(ctx.cache.get(passages) or b"", list[Passage])]
    if texts:
        build(config).index(passages, texts, ctx)
    return bool(texts)


@task(cache_policy=NO_CACHE, task_run_name="{name}")
def cached(name: str, cases: int) -> Any:
    """Shows in the Prefect UI that a stage had nothing to do."""
    return Completed(name="Cached", message=f"{cases} cases from cache")


def context(scope: Scope, stage: str = "") -> Context:
    """A context for one task; the training claims are decoded once a process."""
    cases = _cases(scope.cache, scope.cases) if scope.cases else None
    train = _train(scope.cache, scope.train)
    return Context(open_cache(scope.cache), train, scope.seed, stage, cases)


def plain(scope: Scope) -> dict[str, Any]:
    """A scope as Prefect passes it."""
    return {name: getattr(scope, name) for name in Scope.__struct_fields__}


@functools.lru_cache(maxsize=4)
def _train(cache: str, digest: str) -> list[Claim]:
    data = open_cache(cache).get(digest)
    if data is None:
        raise ClaimflowError("The cache lost the training claims while in use. Start again.")
    return decode(data, list[Claim])


@functools.lru_cache(maxsize=4)
def _cases(cache: str, digest: str) -> Stored:
    data = open_cache(cache).get(digest)
    if data is None:
        raise ClaimflowError("The cache lost the training cases while in use. Start again.")
    return Stored(decode(data, list[CaseRef]), open_cache(cache))


# Stages


def prepare(config: DictConfig, log: Log) -> Data:
    """Read the data set: cases to evaluate, and training claims that don't overlap with them."""
    check_settings(config)
    warn_of_servers(config)
    with log.stage("data"):
        dataset = build(config.dataset)
        cache = open_cache(str(config.cache))
        claims = dataset.claims()
        train, overlap = training(dataset, claims, steps_of(config))
        if overlap:
            log.note(
                f"{len(overlap)} training claims stand word for word in {dataset.split} "
                "and were dropped."
            )
        refs = case_refs(dataset, claims, cache)
        for bad in dataset.bad:
            log.note(f"skipped {bad}")
        gold, train_digest = cache.put(encode(claims)), cache.put(encode(train))
        documents = key_of(sorted({r.fields["documents"] for r in refs if not r.error}))
    log.record.counts["claims"] = len(claims)
    log.record.counts["train_claims"] = len(train)
    log.record.datasets = [
        {
            "name": dataset.name,
            "split": split,
            "digest": digest,
            "source": str(dataset.folder),
            "context": context,
        }
        for split, digest, context in (
            (dataset.split, gold, "evaluation"),
            ("documents", documents, "evaluation"),
            (dataset.train_split if train else None, train_digest, "training"),
        )
        if split
    ]
    for key in (*config.pipeline, "scorer"):
        node = OmegaConf.to_container(config[key], resolve=True) if config.get(key) else {}
        for name, reference in references(node, f"{key}."):
            found = find(reference, config)
            log.record.adapters[name] = {
                "reference": reference,
                "version": found.version,
                "run_id": found.run,
            }
    scope = Scope(cache=str(config.cache), train=train_digest, seed=config.seed)
    return Data(scope=scope, refs=refs, gold=gold)


def warn_of_servers(config: DictConfig) -> None:
    """Say at once which servers of language models can't be asked. It is no error yet: the cache
    may have every reply."""
    parts = [*steps_of(config).values(), *map(build, scorer_configs(config).values())]
    engines = {repr(engine): engine for engine in engines_in(parts)}
    for text in dict.fromkeys(filter(None, (engine.away() for engine in engines.values()))):
        say(f"  warning: {text} Until then there are only the replies in the cache.")


# For each slot a choice that needs no training claims.
WITHOUT_TRAINING = {
    "questioner": "questioner=rules",
    "reranker": "reranker=none",
    "answerer": "answerer=passage",
    "verdict": "verdict=rules",
}
SLOW = " (or verdict=llm, which asks the language model about each claim: slow without a GPU)"


def without_training(name: str, step: Step) -> str | None:
    """What to choose in the place of a step where there are no training claims."""
    if "findings" in step.writes:  # labels of documents, which no other kind of verdict gives
        return "verdict=none"
    return WITHOUT_TRAINING.get(name.split(".")[0])


def steps_of(config: DictConfig) -> dict[str, Step]:
    """The steps of a run by name, in order. Raises ClaimflowError where there is none."""
    if steps := build_steps(config):
        return steps
    raise ClaimflowError(
        f"pipeline=[{','.join(map(str, config.pipeline))}] has no step, so nothing would be "
        "predicted: leave it out, or name slots that are filled."
    )


def training(
    dataset: Dataset, evaluated: list[Claim], steps: dict[str, Step]
) -> tuple[list[Claim], list[Claim]]:
    """(training claims, those dropped because their text is among `evaluated`) for the steps that
    learn from them or show them to a model. Where no step does, none are read."""
    names = [
        name
        for name, step in steps.items()
        if step.needs_train and not (isinstance(step, TrainedStep) and step.given())
    ]
    if not names:
        return [], []
    try:
        kept, dropped = dataset.train(evaluated)
        reason = f"All {len(dropped)} of {dataset.train_split} are evaluated here."
    except MissingFileError as error:
        kept, dropped, reason = [], [], str(error)
    if dataset.train_split is None:
        reason = "dataset.train_split=null says that there are none."
    if not kept:
        others = [without_training(name, steps[name]) for name in names]
        one = len(names) == 1
        raise ClaimflowError(
            f"{' and '.join(names)} {'learns' if one else 'learn'} from training claims. {reason} "
            "Name a split that has some with dataset.train_split=…, or choose what needs none: "
            f"{' '.join(dict.fromkeys(filter(None, others)))}"
            + (SLOW if WITHOUT_TRAINING["verdict"] in others else "")
        )
    return kept, dropped


def predict(config: DictConfig, data: Data, log: Log, until: str | None = None) -> list[CaseRef]:
    """Run the steps of the pipeline, in order, over all cases; `until` names the last slot."""
    slots = list(config.pipeline)
    if until and until not in slots:
        raise ClaimflowError(
            f"No slot '{until}' in the pipeline.{nearest(until, slots)} Slots: {', '.join(slots)}."
        )
    wanted = slots[: slots.index(until) + 1] if until else slots
    refs = data.refs
    for name, step in step_configs(config).items():
        if name.split(".")[0] not in wanted:
            continue
        scope = learning(config, name, step, data.scope, log)
        search = build(step)
        if isinstance(search, Search) and (
            remark := check_k(search, name, refs, open_cache(data.scope.cache))
        ):
            log.note(remark)
        with log.stage(name):
            refs, report = run_stage(name, step, refs, scope, config.runner.shard)
        log.line(report)
        check_through(refs)
        note_training(name, step, scope, log)
    return refs


def learning(config: DictConfig, name: str, node: dict[str, Any], scope: Scope, log: Log) -> Scope:
    """The scope of a step: of one that learns from the cases of the training claims with those,
    run through the steps before it as far as they write what it learns from."""
    learner = build(node)
    if not isinstance(learner, TrainedStep) or not learner.learns or learner.given():
        return scope
    if not (claims := _train(scope.cache, scope.train)):
        learner.check_train([])
    dataset = build(config.dataset)
    dataset = dataclasses.replace(dataset, split=dataset.train_split, limit=None, ids=None)
    steps = step_configs(config)
    before = {other: steps[other] for other in list(steps)[: list(steps).index(name)]}
    needed = set(learner.learns)
    for other, step in reversed({o: build(n) for o, n in before.items()}.items()):
        if needed.isdisjoint(step.writes):
            del before[other]
        else:
            needed |= set(step.reads)
    with log.stage("train.data"):
        refs = case_refs(dataset, claims, open_cache(scope.cache))
    for other, earlier in before.items():
        within = learning(config, other, earlier, scope, log)
        with log.stage(f"train.{other}"):
            refs, report = run_stage(other, earlier, refs, within, config.runner.shard)
        log.line(msgspec.structs.replace(report, name=f"train.{other}"))
        check_through(refs)
    return msgspec.structs.replace(scope, cases=open_cache(scope.cache).put(encode(refs)))


def note_training(name: str, node: dict[str, Any], scope: Scope, log: Log) -> None:
    """Keep what a step learned in numbers, how many parameters it trained, and how long that took,
    beside the measures."""
    step = build(node)
    if not isinstance(step, TrainedStep):
        return
    ctx = context(scope)
    model = Path(ctx.model(step).path)
    known = {
        "trained_parameters": step.trained(model),
        "training_seconds": ctx.fit_seconds(step),
        **step.learned(model),
    }
    log.record.training[name] = {key: value for key, value in known.items() if value is not None}


def run_stage(
    name: str, config: dict[str, Any], refs: list[CaseRef], scope: Scope, shard_size: int
) -> tuple[list[CaseRef], StageReport]:
    """Run one step over all cases, as tasks over shards of those that the cache doesn't have."""
    from tqdm import tqdm

    start = time.perf_counter()
    step = build(config)
    made = key_of(identity(step))
    ctx = context(scope, name)
    if isinstance(step, TrainedStep):
        fit(name, config, plain(scope))
    found = from_cache(step, name, refs, ctx)
    todo = [i for i, ref in enumerate(found) if ref is None]
    if not todo:
        cached(name, len(refs))
    # A tag lets Prefect limit how many of a slot run at once.
    tags = [name.split(".")[0]] if limited() else []
    retry = {"retries": 3, "retry_delay_seconds": [2, 8, 30]} if step.outside else {}
    futures = []
    for number, at in enumerate(range(0, len(todo), shard_size)):
        part = todo[at : at + shard_size]
        digest = ctx.cache.put(encode([refs[i] for i in part]))
        submitted = shard.with_options(tags=tags, **retry).submit(
            name, number, config, made, digest, plain(scope)
        )
        futures.append((part, submitted))
    with tqdm(total=len(todo), desc=name, unit="case", delay=2, leave=False, disable=None) as bar:
        for part, future in futures:
            done = decode(ctx.cache.get(future.result()) or b"", list[CaseRef])
            for i, ref in zip(part, done, strict=True):
                found[i] = ref
            bar.update(len(part))
    finished = [ref for ref in found if ref is not None]
    report = StageReport(
        name=name,
        cases=len(refs),
        cached=sum(1 for r in finished if not r.error and r.trace and r.trace[-1].cached),
        failed=sum(1 for ref in finished if ref.error),
        seconds=round(time.perf_counter() - start, 3),
        identity=made,
    )
    return finished, report


def evaluate(config: DictConfig, data: Data, refs: list[CaseRef], log: Log) -> Scores:
    """Score predictions and rankings with every scorer of `config.scorer`."""
    cache = open_cache(data.scope.cache)
    predictions = cache.put(encode(predictions_of(refs, data.scope.cache)))
    rankings = cache.put(encode(rankings_of(refs, data.scope.cache, config)))
    log.record.predictions_digest = predictions
    scores = Scores()
    claims = decode(cache.get(data.gold) or b"", list[Claim])
    fields = {field for ref in refs for field in ref.fields}
    for name, scorer in scorer_configs(config).items():
        if missing := lacking(build(scorer), claims, fields):
            log.note(f"{UNSCORED} {name}: {missing}")
            continue
        with log.stage(f"score.{name}"):
            start = time.perf_counter()
            digest, hit = score(scorer, predictions, data.gold, rankings, data.scope.cache)
            part = decode(cache.get(digest) or b"", Scores)
        scores = merged(scores, part)
        log.line(
            StageReport(
                name=f"score.{name}",
                cases=len(refs),
                cached=len(refs) if hit else 0,
                failed=0,
                seconds=round(time.perf_counter() - start, 3),
                identity=key_of(identity(build(scorer))),
            )
        )
    return scores


def measures(config: DictConfig, claims: list[Claim]) -> list[str]:
    """The measures that a run of `config` on these claims can have, by its scorers and steps."""
    fields = {field for step in build_steps(config).values() for field in step.writes}
    scorers = [build(node) for node in scorer_configs(config).values()]
    names = [s.names() for s in scorers if not lacking(s, claims, fields)]
    return list(dict.fromkeys(itertools.chain.from_iterable(names)))


def lacking(scorer: Scorer, claims: list[Claim], fields: set[str]) -> str | None:
    """What a scorer needs and a run with these claims and fields of cases lacks, in words."""
    if "rankings" in scorer.reads:
        if not any(claim.relevant for claim in claims):
            return "no claim names a relevant document"
        if "hits" not in fields:
            return "the pipeline has no retriever"
    if "predictions" in scorer.reads:
        if not any(claim.label or claim.gold for claim in claims):
            return "the claims have no gold labels"
        labels = {claim.label for claim in claims}
        if scorer.form == "AVeriTeC" and labels.isdisjoint(AVERITEC_LABELS):
            return "no claim has a label of AVeriTeC"
        if fields.isdisjoint({"verdict", "findings"}):
            return "the pipeline gives no verdict"
    return None


@task(cache_policy=NO_CACHE, task_run_name="score {config[_target_]}")
def score(
    config: dict[str, Any], predictions: str, gold: str, rankings: str, folder: str
) -> tuple[str, bool]:
    """Score by one scorer; (digest of the scores, whether the cache had them)."""
    cache = open_cache(folder)
    scores, hit = score_once(
        cache,
        build(config),
        decode(cache.get(gold) or b"", list[Claim]),
        decode(cache.get(predictions) or b"", list[Prediction]),
        decode(cache.get(rankings) or b"", Rankings),
    )
    return cache.put(encode(scores)), hit


def predictions_of(refs: list[CaseRef], folder: str) -> list[Prediction]:
    """What a system says of each claim. A failed case has no prediction."""
    cases = [
        load(r, ("claim", "evidence", "verdict", "findings"), open_cache(folder)) for r in ok(refs)
    ]
    return [
        Prediction(
            id=case.claim.id,
            claim=case.claim.text,
            evidence=case.evidence,
            label=case.verdict.label if case.verdict else "",
            probabilities=case.verdict.probabilities if case.verdict else {},
            findings=case.findings,
            justification=case.verdict.justification if case.verdict else None,
        )
        for case in cases
    ]


def rankings_of(refs: list[CaseRef], folder: str, config: DictConfig) -> Rankings:
    """Documents found for each claim, best first; also for one that failed on a step behind all
    that rank."""
    from components.score.retrieval import document_ranking

    rank = {name for name, step in build_steps(config).items() if "hits" in step.writes}
    found = [ref for ref in refs if not ref.error or rank <= {cost.step for cost in ref.trace}]
    cases = [load(ref, ("hits", "queries"), open_cache(folder)) for ref in found]
    return {case.claim.id: document_ranking(case) for case in cases}


def check_through(refs: list[CaseRef]) -> None:
    """Raise ClaimflowError where a step has failed on the last claim that was left."""
    if refs and not ok(refs):
        raise ClaimflowError(
            f"No claim came through: all {len(refs)} failed, claim {refs[0].id} as {refs[0].error}"
        )


def ok(refs: list[CaseRef]) -> list[CaseRef]:
    """The cases that no step failed on."""
    return [ref for ref in refs if not ref.error]
