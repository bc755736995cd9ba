"""MLflow: a run folder goes in, an MLflow run comes out.

Logging reads nothing but the folder, so it can be done later, on another machine, or again: when
the tracker can't be reached the run stays whole on disk and `python -m flows.track` logs it.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from components.files import digest, write_whole
from components.records import decode, encode
from flows.log import alive, say
from flows.record import RunRecord, save

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from omegaconf import DictConfig

PARAM_LIMIT = 6000  # characters; MLflow cuts longer values without a word
BATCH = 100  # parameters a call
LOGGED = "logged.json"  # marks a folder that a tracker has whole: its URI and the run's id


def track(folder: Path, config: DictConfig) -> str | None:
    """Log the run in `folder` and return its MLflow id; None when there is no tracker, or when it
    can't be reached (then that is said, and the run waits for `python -m flows.track`)."""
    if not config.tracking.uri:
        return None
    try:
        return log_folder(folder, config)
    except Exception as error:  # whatever a tracker does must not cost the run
        reason = " ".join(str(error).split())[:200]
        say(
            f"  tracker {config.tracking.uri} failed ({type(error).__name__}: {reason}). "
            f"The run is whole in {folder}; log it later with `python -m flows.track`."
        )
        return None


def open_parent(folder: Path, config: DictConfig) -> None:
    """Begin the MLflow run of a sweep, so that its points can name it while they run."""
    if not config.tracking.uri:
        return
    try:
        record = read_record(folder)
        client, experiment = connect(config)
        _begin(client, experiment, record, folder, None)
    except Exception as error:
        say(f"  tracker {config.tracking.uri} failed ({type(error).__name__}); going on without.")


def log_folder(folder: Path, config: DictConfig) -> str:
    """Log a run folder, whole. Logging it again completes the same MLflow run."""
    from mlflow.entities import Metric, Param

    record = read_record(folder)
    client, experiment = connect(config)
    parent = _parent_id(record, folder)
    run_id = _begin(client, experiment, record, folder, parent)
    known = client.get_run(run_id).data.params
    params = [Param(k, v) for k, v in parameters(folder, record) if k not in known]
    for at in range(0, len(params), BATCH):
        client.log_batch(run_id, params=params[at : at + BATCH])
    now = int(datetime.datetime.now().timestamp() * 1000)
    metrics = [Metric(k, v, now, 0) for k, v in metrics_of(record) if math.isfinite(v)]
    for at in range(0, len(metrics), 1000):
        client.log_batch(run_id, metrics=metrics[at : at + 1000])
    _log_inputs(client, run_id, record)
    client.log_artifacts(run_id, str(folder))
    rows = folder / "per_claim.jsonl"
    if rows.exists() and rows.stat().st_size:
        import pandas

        table = pandas.read_json(rows, lines=True, dtype={"id": str})
        if "per_claim.json" not in {a.path for a in client.list_artifacts(run_id)}:
            client.log_table(run_id, table, "per_claim.json")
    status = {"finished": "FINISHED", "failed": "FAILED"}.get(record.status, "KILLED")
    client.set_terminated(run_id, status, end_time=_milliseconds(record.ended))
    write_whole(folder / LOGGED, encode({"uri": str(config.tracking.uri), "run_id": run_id}))
    return run_id


def connect(config: DictConfig) -> tuple[MlflowClient, str]:
    """(client, experiment id). A new sqlite store is set up by one process at a time."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    from mlflow import MlflowClient

    uri, name = str(config.tracking.uri), str(config.tracking.experiment)
    if not uri.startswith("sqlite:///"):
        client = MlflowClient(uri)
        return client, _experiment(client, name, None)
    database = Path(uri.removeprefix("sqlite:///"))
    database.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(f"{database}.lock"):
        client = MlflowClient(uri)
        artifacts = Path(config.tracking.artifacts).absolute().as_uri()
        return client, _experiment(client, name, artifacts)


def _experiment(client: MlflowClient, name: str, artifacts: str | None) -> str:
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found else client.create_experiment(name, artifacts))


def read_record(folder: Path) -> RunRecord:
    """The record of a run folder."""
    record: RunRecord = decode((folder / "run.json").read_bytes(), RunRecord)
    return record


def parameters(folder: Path, record: RunRecord) -> Iterator[tuple[str, str]]:
    """Every choice, swept axis and config value. A value too long for MLflow is replaced by its
    digest and where to read it."""
    import yaml

    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    values = dict(_flat("", config))
    values.update({f"choice.{group}": choice for group, choice in record.choices.items()})
    values.update({f"axis.{axis}": value for axis, value in record.axes.items()})
    for key, value in values.items():
        text = str(value)
        if len(text) > PARAM_LIMIT:
            text = f"{len(text)} characters, digest {digest(text.encode())}: see config.yaml"
        yield key, text


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
            yield f"{group}.{name}", float(value)
    yield "seconds.total", round(sum(record.seconds.values()), 3)


def _begin(
    client: MlflowClient, experiment: str, record: RunRecord, folder: Path, parent: str | None
) -> str:
    """The MLflow run of a record: the one begun before, or a new one."""
    if record.mlflow_run_id:
        return record.mlflow_run_id
    tags = {
        "claimflow.id": record.id,
        "mlflow.source.name": "flows.experiment",
        "mlflow.source.git.commit": str(record.environment.get("git_commit")),
        "git_dirty": str(record.environment.get("git_dirty")),
        **{f"version.{k}": v for k, v in record.environment.get("versions", {}).items()},
    }
    if parent:
        tags["mlflow.parentRunId"] = parent
    run = client.create_run(
        experiment, start_time=_milliseconds(record.started), tags=tags, run_name=record.name
    )
    record.mlflow_run_id = run.info.run_id
    save(record, folder)
    return str(run.info.run_id)


def _parent_id(record: RunRecord, folder: Path) -> str | None:
    if record.parent and (folder.parent / record.parent / "run.json").exists():
        return read_record(folder.parent / record.parent).mlflow_run_id
    return None


def _log_inputs(client: MlflowClient, run_id: str, record: RunRecord) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    if client.get_run(run_id).inputs.dataset_inputs:
        return
    client.log_inputs(
        run_id,
        [
            DatasetInput(
                Dataset(
                    name=f"{data['name']} {data['split']}",
                    digest=data["digest"],
                    source_type="local",
                    source=data["source"],
                ),
                [InputTag("mlflow.data.context", data["context"])],
            )
            for data in record.datasets
        ],
    )


def _milliseconds(time: str) -> int:
    return int(datetime.datetime.fromisoformat(time).timestamp() * 1000)


def unlogged(outputs: Path) -> list[Path]:
    """Run folders that no tracker has whole and no process works on: parents first, by age."""
    folders = [p.parent for p in sorted(outputs.glob("*/run.json"))]
    waiting = [f for f in folders if not (f / LOGGED).exists() and not _running(f)]
    return sorted(waiting, key=lambda f: (read_record(f).parent is not None, f.name))


def _running(folder: Path) -> bool:
    try:
        alive(folder).release()
        return False
    except filelock.Timeout:
        return True
