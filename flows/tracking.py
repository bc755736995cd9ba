"""MLflow: a run folder goes in, an MLflow run comes out.

Logging reads nothing but the folder, so it can be done later, on another machine, or again: when
the tracker can't be reached the run stays whole on disk and `python -m flows.track` logs it.

In MLflow a parameter has the name it has on the command line: `retriever` is the choice,
`retriever.bm25.k1` a value of it. A swept axis also stands as `axis.retriever`, so that it comes
first where MLflow sorts names. Metrics are the measures, each with `_low` and `_high`; what a run
cost and met is below `system/`, which MLflow shows apart.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import socket
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import msgspec

from components.errors import ClaimflowError
from components.files import digest, write_whole
from components.records import Record, decode, encode, read_lines
from flows.log import alive, say
from flows.record import RunRecord, save

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from omegaconf import DictConfig

# Limits of MLflow. It cuts long values without a word, and refuses the rest.
PARAM_LIMIT, TAG_LIMIT, KEY_LIMIT = 6000, 8000, 250  # characters
PARAM_BATCH, METRIC_BATCH = 100, 1000
SPELT = {"@": "_at_", "%": "_percent", "+": "_plus_"}  # refused in names
STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED", "running": "RUNNING"}
TRACKED = "mlflow.json"


class Tracked(Record, omit_defaults=False):
    """mlflow.json of a run folder: which MLflow run it is, and whether that one is complete."""

    uri: str
    run_id: str
    complete: bool = False


def track(folder: Path, config: DictConfig) -> str | None:
    """Log the run in `folder` and return its MLflow id; None when there is no tracker, or when it
    can't be reached (then that is said, and the run waits for `python -m flows.track`)."""
    if not config.tracking.uri:
        return None
    try:
        return log_folder(folder, config)
    except Exception as error:  # whatever a tracker does must not cost the run
        say(
            f"  not tracked: {_reason(error)} The run is whole in {folder}; "
            "`python -m flows.track` logs it later."
        )
        return None


def open_parent(folder: Path, config: DictConfig) -> None:
    """Begin the MLflow run of a sweep, so that its points can name it while they run."""
    if not config.tracking.uri:
        return
    try:
        with _logging(folder), connection(config) as (client, experiment):
            _begin(client, experiment, read_record(folder), folder, str(config.tracking.uri))
    except Exception as error:
        say(f"  not tracked for now: {_reason(error)} Going on without.")


def log_folder(folder: Path, config: DictConfig) -> str:
    """Log a run folder, whole. Logging it again completes the same MLflow run."""
    uri = str(config.tracking.uri)
    with _logging(folder), connection(config) as (client, experiment):
        record = read_record(folder)
        run_id = _begin(client, experiment, record, folder, uri)
        changed = _log_values(client, run_id, folder, record)
        if record.children:
            _share_view(client, experiment, run_id, folder, record)
        _log_inputs(client, run_id, record)
        _log_files(client, run_id, folder)
        if changed:
            client.log_dict(run_id, changed, "mlflow_limits.json")
            say(
                f"  MLflow takes {len(changed)} names or values not as they are "
                f"({', '.join(list(changed)[:3])} …): mlflow_limits.json of the run says how."
            )
        if record.status != "running":
            client.set_terminated(run_id, STATUS[record.status], _milliseconds(record.ended))
            tracked = Tracked(uri=uri, run_id=run_id, complete=True)
            write_whole(folder / TRACKED, encode(tracked))
    return run_id


@contextlib.contextmanager
def connection(config: DictConfig) -> Iterator[tuple[MlflowClient, str]]:
    """(client, experiment id). One process at a time works on a sqlite store: two that set up a
    new one at once would break it, and writers would time out on one another."""
    # Set here: MLflow's own defaults are minutes of retries.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    uri, name = str(config.tracking.uri), str(config.tracking.experiment)
    if not uri.startswith("sqlite:///"):
        _probe(uri)
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        yield client, _experiment(client, name, None)
        return
    from mlflow import MlflowClient

    database = Path(uri.removeprefix("sqlite:///")).absolute()
    database.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{database}.lock"):
        client = MlflowClient(uri)
        yield client, _experiment(client, name, (database.parent / "artifacts").as_uri())


def _probe(uri: str) -> None:
    """Fail at once where nothing listens."""
    address = urllib.parse.urlsplit(uri)
    if address.scheme not in ("http", "https") or not address.hostname:
        return
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname, port), timeout=5).close()
    except OSError as error:
        raise ClaimflowError(f"No MLflow server at {uri} ({error.strerror or error}).") from error


def _experiment(client: MlflowClient, name: str, artifacts: str | None) -> str:
    from mlflow.exceptions import MlflowException

    kind = {"mlflow.experimentKind": "custom_model_development"}  # which pages the UI shows
    if not client.get_experiment_by_name(name):
        # A server may get the same wish from another process in between.
        with contextlib.suppress(MlflowException):
            client.create_experiment(name, artifacts, tags=kind)
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        raise ClaimflowError(f"The tracker has no experiment '{name}' and did not make one.")
    return str(experiment.experiment_id)


def _begin(client: MlflowClient, experiment: str, record: RunRecord, folder: Path, uri: str) -> str:
    """The MLflow run of a folder: the one begun before in this tracker, or a new one."""
    from mlflow.exceptions import MlflowException

    begun = tracked(folder)
    if begun and begun.uri == uri:
        with contextlib.suppress(MlflowException):  # it was deleted there: begin again
            return str(client.get_run(begun.run_id).info.run_id)
    tags = {}
    parent = tracked(folder.parent / record.parent) if record.parent else None
    if parent and parent.uri == uri:
        tags["mlflow.parentRunId"] = parent.run_id
    run = client.create_run(
        experiment, start_time=_milliseconds(record.started), tags=tags, run_name=record.name
    )
    run_id = str(run.info.run_id)
    write_whole(folder / TRACKED, encode(Tracked(uri=uri, run_id=run_id)))
    record.mlflow_run_id = run_id
    save(record, folder)
    return run_id


def _log_values(
    client: MlflowClient, run_id: str, folder: Path, record: RunRecord
) -> dict[str, str]:
    """Log parameters, metrics and tags; {name: how it was changed} of what MLflow won't take."""
    from mlflow.entities import Metric, Param, RunTag

    values = parameters(folder, record)
    params, changed = names(values)
    known = client.get_run(run_id).data.params
    batch = []
    for key, value in values.items():
        if len(value) > PARAM_LIMIT:
            changed[key] = f"{len(value)} characters: the value is in config.yaml"
            value = f"{len(value)} characters, digest {digest(value.encode())}: see config.yaml"
        if params[key] not in known:
            batch.append(Param(params[key], value))
        elif known[params[key]] != value:
            changed[key] = f"was logged as {known[params[key]]} before and stays, is {value}"
    for at in range(0, len(batch), PARAM_BATCH):
        client.log_batch(run_id, params=batch[at : at + PARAM_BATCH])

    figures = dict(metrics_of(record))
    metrics, renamed = names(figures)
    changed |= renamed
    now = _milliseconds(record.ended or record.started)
    numbers = [Metric(metrics[key], value, now, 0) for key, value in figures.items()]
    for at in range(0, len(numbers), METRIC_BATCH):
        client.log_batch(run_id, metrics=numbers[at : at + METRIC_BATCH])

    tags = []
    for key, value in tags_of(folder, record, client, run_id).items():
        if len(value) > TAG_LIMIT:
            changed[key] = f"{len(value)} characters: whole in run.json or report.md"
            end = "\n\n… cut here by MLflow's limit; the whole text is among the artifacts."
            value = value[: TAG_LIMIT - len(end)] + end
        tags.append(RunTag(key, value))
    for at in range(0, len(tags), PARAM_BATCH):
        client.log_batch(run_id, tags=tags[at : at + PARAM_BATCH])
    return changed


def names(keys: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    """({key: name that MLflow takes}, {key: name} of those that differ). No two keys share one."""
    found: dict[str, str] = {}
    changed: dict[str, str] = {}
    for key in keys:
        name = re.sub(r"[@%+]", lambda sign: SPELT[sign.group()], key)
        name = re.sub(r"[^/\w.\- :]", "_", name)
        name = "/".join(part for part in name.split("/") if part.strip(".")) or "_"
        if len(name) > KEY_LIMIT or (name != key and name in found.values()):
            name = f"{name[: KEY_LIMIT - 9]}_{digest(key.encode())[:8]}"
        found[key] = name
        if name != key:
            changed[key] = name
    return found, changed


def parameters(folder: Path, record: RunRecord) -> dict[str, str]:
    """Every swept axis, choice of a group and config value; pages show them in this order."""
    import yaml

    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    config.pop("name", None)  # the run's name says it
    values: dict[str, Any] = {f"axis.{axis}": value for axis, value in record.axes.items()}
    values |= record.choices
    values |= {key: value for key, value in _flat("", config) if key not in values}
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in values.items()
    }


def _flat(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), value)
    else:
        yield prefix, node


def metrics_of(record: RunRecord) -> Iterator[tuple[str, float]]:
    """Measures with the ends of their intervals, seconds and peak memory by stage, tokens …"""
    for name, measure in record.measures.items():
        yield name, measure.value
        if measure.low is not None and measure.high is not None:
            yield f"{name}_low", measure.low
            yield f"{name}_high", measure.high
    for group in ("seconds", "peak_mb", "tokens", "cache", "counts"):
        for name, value in getattr(record, group).items():
            yield f"system/{group}/{name}", float(value)
    yield "system/seconds/total", round(sum(record.seconds.values()), 3)


def tags_of(folder: Path, record: RunRecord, client: MlflowClient, run_id: str) -> dict[str, str]:
    """Where a run comes from, and its report as the description."""
    environment = record.environment
    tags = {
        "claimflow.id": record.id,
        "mlflow.source.name": "flows.experiment",
        "mlflow.source.type": "LOCAL",
        "git_dirty": json.dumps(environment.get("git_dirty")),
        "python": str(environment.get("python")),
        "platform": str(environment.get("platform")),
        **{f"version.{k}": v for k, v in environment.get("versions", {}).items()},
    }
    if environment.get("git_commit"):
        tags["mlflow.source.git.commit"] = environment["git_commit"]
    if record.axes:
        tags["axes"] = ", ".join(record.axes)
    if record.parent:
        tags["claimflow.parent"] = record.parent
    if record.predictions_digest:
        tags["predictions_digest"] = record.predictions_digest
    if record.error:
        tags["error"] = record.error
    report = folder / "report.md"
    note = [report.read_text(encoding="utf-8")] if report.exists() else []
    note += [f"Ended as {record.status}: {record.error}"] if record.error else []
    children = [tracked(folder.parent / child) for child in record.children]
    if ids := [child.run_id for child in children if child]:
        experiment = client.get_run(run_id).info.experiment_id
        query = f"runs={json.dumps(ids)}&experiments={json.dumps([experiment])}"
        table = f"#/experiments/{experiment}/runs?viewStateShareKey={run_id}"
        compare = f"#/compare-runs?{urllib.parse.quote(query, safe='=&')}"
        note.insert(0, f"{len(ids)} points: [as a table]({table}), [compared]({compare})")
    if note:
        tags["mlflow.note.content"] = "\n\n".join(note)
    return tags


def _share_view(
    client: MlflowClient, experiment: str, run_id: str, folder: Path, record: RunRecord
) -> None:
    """Give the page of runs a view of a sweep: its points, with axes and measures as columns."""
    points = [read_record(folder.parent / child) for child in record.children]
    axes = dict.fromkeys(axis for point in points for axis in point.axes)
    measures = dict.fromkeys(name for point in points for name in point.measures)
    view = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{run_id}'",
        "runsExpanded": {run_id: True},
        "selectedColumns": [
            *(f"params.`{name}`" for name in names(f"axis.{axis}" for axis in axes)[0].values()),
            *(f"metrics.`{name}`" for name in names(measures)[0].values()),
        ],
    }
    client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{run_id}", json.dumps(view))


def _log_inputs(client: MlflowClient, run_id: str, record: RunRecord) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    if not record.datasets or client.get_run(run_id).inputs.dataset_inputs:
        return
    client.log_inputs(
        run_id,
        [
            DatasetInput(
                Dataset(
                    name=f"{data['name']} {data['split']}",
                    digest=data["digest"],
                    source_type="local",
                    source=json.dumps({"uri": data["source"]}),
                ),
                [InputTag("mlflow.data.context", data["context"])],
            )
            for data in record.datasets
        ],
    )


def _log_files(client: MlflowClient, run_id: str, folder: Path) -> None:
    """All files of the folder but those about logging it; scores of each claim also as a table."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not inside.name.startswith(".") and inside.name != TRACKED:
            to = inside.parent.as_posix()
            client.log_artifact(run_id, str(path), None if to == "." else to)
    rows = folder / "per_claim.jsonl"
    table = [row for _, row in read_lines(rows, dict)] if rows.exists() else []
    # log_table appends: a second logging must not double the rows.
    if table and "per_claim.json" not in {a.path for a in client.list_artifacts(run_id)}:
        columns = dict.fromkeys(key for row in table for key in row)
        client.log_table(
            run_id, {c: [row.get(c) for row in table] for c in columns}, "per_claim.json"
        )


def read_record(folder: Path) -> RunRecord:
    """The record of a run folder."""
    try:
        record: RunRecord = decode((folder / "run.json").read_bytes(), RunRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise ClaimflowError(f"{folder / 'run.json'} can't be read: {error}") from error
    return record


def tracked(folder: Path) -> Tracked | None:
    """Which MLflow run a folder is, if it is one."""
    path = folder / TRACKED
    return decode(path.read_bytes(), Tracked) if path.exists() else None


def unlogged(outputs: Path) -> list[Path]:
    """Run folders that no tracker has whole and no process works on: parents first, by age.

    A run that was killed is closed as such on the way.
    """
    waiting = []
    for path in sorted(outputs.glob("*/run.json")):
        folder = path.parent
        begun = tracked(folder)
        if begun and begun.complete:
            continue
        try:
            lock = alive(folder)
        except filelock.Timeout:
            continue
        try:
            record = read_record(folder)
            if record.status == "running":
                _close(record, folder)
            waiting.append((record.parent is not None, folder))
        except ClaimflowError as error:
            say(str(error))
        finally:
            lock.release()
    return [folder for _, folder in sorted(waiting)]


def _close(record: RunRecord, folder: Path) -> None:
    """Mark a run whose process is gone."""
    last = max(p.stat().st_mtime for p in folder.rglob("*") if p.is_file())
    record.status = "killed"
    record.error = "The process ended before the run did."
    record.ended = datetime.datetime.fromtimestamp(last, datetime.UTC).isoformat()
    save(record, folder)


def _logging(folder: Path) -> filelock.FileLock:
    """Held while a folder is logged, so that it becomes one MLflow run."""
    return filelock.FileLock(folder / ".logging")


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    text = text if isinstance(error, ClaimflowError) else f"{type(error).__name__}: {text}"
    return f"{text[:300].rstrip('.')}."


def _milliseconds(time: str) -> int:
    return int(datetime.datetime.fromisoformat(time).timestamp() * 1000)
