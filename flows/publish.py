"""What a run leaves in its folder, and what a person sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.cache import key_of, open_cache
from components.errors import ClaimflowError, listed
from components.files import write_whole
from components.pipeline import CaseRef, load
from components.records import (
    AVERITEC_LABELS,
    Claim,
    Prediction,
    decode,
    encode,
    read_lines,
    write_lines,
)
from components.report.compare import Comparison, Point
from components.report.table import run_table
from components.report.trace import trace
from components.score.base import Rankings, Scores
from components.score.rows import groups_of
from components.step import code_version
from flows.log import say, since_start
from flows.stages import Data, ok, predictions_of, rankings_of

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log
    from flows.record import RunRecord


CLAIMS = 10  # of each kind that the report of a sweep shows
PRIMARY = "qa"  # what ranks the points of a sweep that has it, where the config names none


def publish(config: DictConfig, data: Data, refs: list[CaseRef], scores: Scores, log: Log) -> None:
    """Write predictions, submissions, scores, traces and the report into the run's folder."""
    record, folder = log.record, log.folder
    write_predictions(folder, data, refs, log)
    write_lines(folder / "per_claim.jsonl", scores.per_claim)
    claims = decode(open_cache(data.scope.cache).get(data.gold) or b"", list[Claim])
    known = [{"id": c.id, "groups": groups} for c in claims if (groups := groups_of(c))]
    if known:
        write_lines(folder / "groups.jsonl", known)
    write_lines(folder / "trace.jsonl", [{"id": r.id, "trace": r.trace} for r in refs])
    write_whole(folder / "traces.md", traces(data, refs))
    for name, rows in scores.tables.items():
        write_lines(folder / "tables" / f"{name}.jsonl", rows)

    record.measures, record.unmeasured = scores.measures, scores.unmeasured
    record.counts |= counts(data, refs)
    for kind in ("prompt_tokens", "completion_tokens"):
        record.tokens[kind] = round(sum(getattr(c, kind) for r in refs for c in r.trace))
    record.notes += [*scores.warnings, *scores.notes]  # the report, which is printed, has them
    for remark, ids in remarks(data, refs).items():
        log.note(f"{remark} ({len(ids)}): {listed(ids)}")
    for ref in refs:
        if ref.error:
            log.note(f"claim {ref.id} failed: {ref.error}")
    write_whole(folder / "report.md", run_table(record.name, scores, record.training).encode())


def traces(data: Data, refs: list[CaseRef]) -> Iterator[bytes]:
    """What the run did for each claim, for a person to read."""
    cache = open_cache(data.scope.cache)
    fields = ("claim", "questions", "queries", "hits", "rounds", "evidence", "verdict", "remarks")
    for ref in refs:
        yield trace(load(ref, fields, cache), ref.error).encode() + b"\n"


def write_predictions(folder: Path, data: Data, refs: list[CaseRef], log: Log) -> None:
    """What a system says: predictions, document rankings (as TREC run, too, with the qrels where
    relevant documents are known), and the official submission files."""
    predictions = predictions_of(refs, data.scope.cache)
    claims: list[Claim] = decode(open_cache(data.scope.cache).get(data.gold) or b"", list[Claim])
    write_lines(folder / "predictions.jsonl", predictions)
    write_submissions(folder, predictions, claims, log)
    rankings = rankings_of(refs, data.scope.cache, log.config)
    write_lines(folder / "rankings.jsonl", [{"id": k, "documents": v} for k, v in rankings.items()])
    if any(rankings.values()):
        write_trec(folder, claims, rankings)


def write_submissions(
    folder: Path, predictions: list[Prediction], claims: list[Claim], log: Log
) -> None:
    """The official files of the task that the labels are of. FEVER's needs a line for each claim:
    where one failed there is none, and a note says so."""
    from components.datasets import fever, scifact
    from components.datasets.submission import write_csv, write_json

    labels = {p.label for p in predictions} | {f.label for p in predictions for f in p.findings}
    if not labels.isdisjoint(AVERITEC_LABELS):
        write_json(folder / "submission_2024.json", predictions)
        write_csv(folder / "submission_2025.csv", predictions)
    if not labels.isdisjoint(fever.LABELS):
        try:
            fever.write_predictions(folder / "submission_fever.jsonl", predictions, claims)
        except ClaimflowError as error:
            log.note(f"no submission_fever.jsonl: {error}")
    if not labels.isdisjoint(scifact.LABELS):
        said = {p.id: p for p in predictions}
        none = [Prediction(id=c.id, claim=c.text, evidence=[], label="") for c in claims]
        whole = [said.get(prediction.id, prediction) for prediction in none]
        scifact.write_predictions(folder / "submission_scifact.jsonl", whole)


def write_trec(folder: Path, claims: list[Claim], rankings: Rankings) -> None:
    """run.trec and, where relevant documents are known, qrels.trec: TREC tools find the measures
    of the run in them."""
    from components.score.retrieval import paired, write_qrels, write_run

    named, qrels, _ = paired(claims, rankings)
    once: Rankings = {}
    for claim, ranking in named.items():
        first: dict[str, float] = {}
        for doc, score in ranking:  # two URLs of one page have one name, which TREC takes once
            first.setdefault(doc, score)
        once[claim] = list(first.items())
    write_run(folder / "run.trec", once)
    if any(qrels.values()):
        write_qrels(folder / "qrels.trec", qrels)


def write_stages(folder: Path, data: Data, refs: list[CaseRef], log: Log, more: Any) -> None:
    """stages.json: the digests of what the stages gave, so that DVC sees when it changes."""
    summary = {
        "data": {f"{d['name']} {d['split']}": d["digest"] for d in log.record.datasets},
        "counts": dict(sorted((log.record.counts | counts(data, refs)).items())),
        "cases": {ref.id: ref.fields for ref in refs},
        **more,
    }
    write_whole(folder / "stages.json", encode(summary))


def counts(data: Data, refs: list[CaseRef]) -> dict[str, int]:
    """Documents and passages, what the guard dropped by reason or left undecided, failed cases."""
    cache = open_cache(data.scope.cache)
    total: dict[str, int] = {"failed": sum(1 for ref in refs if ref.error)}
    seen: set[str] = set()
    for ref in ok(refs):
        case = load(ref, ("dropped", "undecided"), cache)
        if case.undecided:
            total["kept_undecided"] = total.get("kept_undecided", 0) + case.undecided
        for reason, count in case.dropped.items():
            total[f"dropped_{reason}"] = total.get(f"dropped_{reason}", 0) + count
        for field in ("documents", "passages"):
            name = ref.fields.get(field)
            if name and (field + name) not in seen:
                seen.add(field + name)
                total[field] = total.get(field, 0) + len(getattr(load(ref, (field,), cache), field))
    return total


def remarks(data: Data, refs: list[CaseRef]) -> dict[str, list[str]]:
    """What steps remarked, and the claims that they remarked it of."""
    cache = open_cache(data.scope.cache)
    found: dict[str, list[str]] = {}
    for ref in ok(refs):
        case = load(ref, ("remarks", "evidence"), cache)
        if "evidence" in ref.fields and not case.evidence:
            found.setdefault("Claims that no evidence was found for", []).append(ref.id)
        for remark in case.remarks:
            found.setdefault(remark, []).append(ref.id)
    return found


def show(record: RunRecord, config: DictConfig) -> None:
    """Print the table of a finished run and where it is kept."""
    folder = Path(config.outputs) / record.id
    print((folder / "report.md").read_text(encoding="utf-8"))
    took = sum(record.seconds.values())
    say(
        f"{since_start():.1f} s in all, {took:.1f} s of them in stages; "
        f"{record.cache.get('hits', 0)} results from cache, "
        f"{record.cache.get('misses', 0)} computed. Files: {folder}"
    )
    if record.mlflow_run_id:
        say(f"MLflow run {record.mlflow_run_id} in {config.tracking.uri} (`make dashboard`)")


def publish_sweep(config: DictConfig, records: list[RunRecord], log: Log) -> Comparison:
    """Write the comparison of a sweep's points: Markdown, HTML, CSV and plots."""
    from components.report import page
    from components.report.compare import compare, primary_of

    points = [point_of(record, Path(config.outputs) / record.id) for record in records]
    title = f"{log.record.name}: {len(points)} points"
    asked = (config.primary or primary_of(points, PRIMARY), list(config.shown))
    same = [point.lasting() for point in points]
    cache = open_cache(str(config.cache))
    found: Comparison = cache.value(
        key_of("comparison", code_version(compare.__module__), title, same, *asked, config.seed),
        lambda: compare(title, points, *asked, seed=config.seed),
        Comparison,
    )
    now = {point.name: point for point in points}
    found.runs = [now[point.name] for point in found.runs]
    found.failed = [now[point.name] for point in found.failed]
    for note in found.notes:
        log.note(note)
    page.write(log.folder, found, None, CLAIMS, cache)
    log.record.measures = found.runs[0].measures if found.runs else {}
    for record in records:
        for stage, seconds in record.seconds.items():
            log.record.seconds[stage] = round(log.record.seconds.get(stage, 0) + seconds, 3)
        for kind, count in record.cache.items():
            log.record.cache[kind] = log.record.cache.get(kind, 0) + count
    return found


def point_of(record: RunRecord, folder: Path) -> Point:
    """A run as the comparison wants it."""
    rows = folder / "per_claim.jsonl"
    groups = folder / "groups.jsonl"
    predictions = folder / "predictions.jsonl"
    said = [p for _, p in read_lines(predictions, Prediction)] if predictions.exists() else []
    compute: dict[str, float] = {}
    trace = folder / "trace.jsonl"
    for _, row in read_lines(trace, dict[str, Any]) if trace.exists() else ():
        for cost in row["trace"]:
            compute[cost["step"]] = compute.get(cost["step"], 0) + cost["seconds"]
    return Point(
        name=record.name,
        axes=record.axes,
        source=record.id,
        data=next((f"{d['name']} {d['split']}" for d in record.datasets), ""),
        measures=record.measures,
        per_claim=[row for _, row in read_lines(rows, dict[str, Any])] if rows.exists() else [],
        texts={p.id: p.claim for p in said},
        groups={row["id"]: row["groups"] for _, row in read_lines(groups, dict[str, Any])}
        if groups.exists()
        else {},
        evidence={p.id: p.evidence for p in said},
        seconds=record.seconds,
        compute={step: round(seconds, 3) for step, seconds in compute.items()},
        tokens=record.tokens,
        cache=record.cache,
        notes=record.notes,
        training=record.training,
        error=record.error,
    )
