"""MLflow: a run folder goes in, an MLflow run comes out.

Logging reads nothing but the folder, so it can be done later, on another machine, or again: when
the tracker can't be reached the run stays whole on disk and `python -m flows.track` logs it.
What belongs to the tracker stands in one file of the folder, `.mlflow.json`.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import json
import os
import posixpath
import re
import sqlite3
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import msgspec

from components.errors import ClaimflowError
from components.files import digest, folder_digest, write_whole
from components.records import Record, decode, encode
from flows.adapters import DIGEST, TRAINED
from flows.log import say
from flows.record import RunRecord, read_config

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from omegaconf import DictConfig

# MLflow's limits. Beyond them it cuts a value with a mere warning, or refuses the whole batch.
KEY_LIMIT = 250  # characters of a parameter's, metric's or tag's name
PARAM_LIMIT = 6000  # characters of a value
TAG_LIMIT = 8000
BATCH = {"params": 100, "tags": 100, "metrics": 800}  # items a call, which takes all three
BATCH_BYTES = 300_000  # of each in a call, as JSON

DATABASES = ("sqlite:", "postgresql", "mysql", "mssql")  # that MLflow keeps runs in
ANSWER = (4.0, 8.0)  # seconds for a server to be reached, and to answer

STATE = ".mlflow.json"
TABLE = "per_claim.json"  # the artifact that the UI shows as a table
# The page opens with runs and charts, not with traces of chat models.
EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}


class Tracked(Record):
    """Which MLflow run a folder is, and whether it was logged whole."""

    uri: str
    run_id: str
    whole: bool = False


def track(folder: Path, config: DictConfig) -> str | None:
    """Log the run in `folder` and return its MLflow id; None when there is no tracker, or when it
    can't be reached (then that is said, and the run waits for `python -m flows.track`)."""
    return _safely(log_folder, folder, config)


def track_training(
    name: str, settings: dict[str, Any], folder: Path, record: RunRecord, config: DictConfig
) -> None:
    """Log a fine-tuned model as an MLflow run: its settings, loss and validation curves, and its
    folder as artifact `model`, which becomes a version of the registered model `config.registry`
    unless that is null. Without a tracker that answers this is said, and the folder stays."""
    if not config.tracking.uri:
        return
    try:
        run_id = _log_training(name, settings, folder, record, config)
    except Exception as error:  # whatever a tracker does must not cost the model
        reason = _reason(error, str(config.tracking.uri))
        say(f"  {reason} The model is kept in {folder}, and not registered.")
    else:
        say(f"  {name}: MLflow run {run_id}")


def _log_training(
    name: str, settings: dict[str, Any], folder: Path, record: RunRecord, config: DictConfig
) -> str:
    from mlflow.entities import Metric, Param, RunTag

    client, experiment = connect(config)
    start = _milliseconds(record.started)
    run_id = str(client.create_run(experiment, start, run_name=f"train {name}").info.run_id)
    names: dict[str, str] = {}
    curve: list[dict[str, float]] = json.loads((folder / "curve.json").read_bytes())
    metrics = [
        Metric(key, entry[key], start, int(entry["step"]))
        for entry in curve
        for key in entry
        if key != "step"
    ]
    tags = {"claimflow.id": record.id, TRAINED: name, DIGEST: folder_digest(folder)}
    tags["mlflow.note.content"] = shortened((folder / "README.md").read_text("utf-8"))
    _log_batches(
        client,
        run_id,
        params=[Param(k, str(v)) for k, v in _named(_flat("", settings), names)],
        metrics=metrics,
        tags=[RunTag(key, value) for key, value in tags.items()],
    )
    _log_inputs(client, run_id, record)
    client.log_artifacts(run_id, str(folder), "model")
    client.set_terminated(run_id, "FINISHED")
    if registry := config.get("registry"):
        if not client.search_registered_models(f"name = '{registry}'"):
            client.create_registered_model(registry)
        source = f"{client.get_run(run_id).info.artifact_uri}/model"
        about = {DIGEST: folder_digest(folder), TRAINED: name}
        version = client.create_model_version(registry, source, run_id, about).version
        say(f"  {name}: registered as models:/{registry}/{version}")
    return run_id


def begin(folder: Path, config: DictConfig) -> str | None:
    """Begin the MLflow run of a sweep, so that it shows while its points run, and end those below
    `outputs` whose process was killed; its MLflow id."""

    def open_run(folder: Path, config: DictConfig) -> str:
        return _begin(*connect(config), folder, str(config.tracking.uri))

    run_id = _safely(open_run, folder, config)
    if run_id:
        end_killed(config)
    return run_id


def end(folder: Path, config: DictConfig) -> str | None:
    """Say of an interrupted run that was begun in the tracker that it goes on no more; what it
    left is logged by `python -m flows.track`. Its MLflow id."""

    def terminate(folder: Path, config: DictConfig) -> str | None:
        if state := tracked(folder):
            connect(config)[0].set_terminated(state.run_id, "KILLED")
            return state.run_id
        return None

    return _safely(terminate, folder, config)


def end_killed(config: DictConfig) -> None:
    """The same of runs below `outputs` that were begun and whose process was killed since."""
    import filelock

    from flows.log import alive

    for folder in waiting(Path(config.outputs)):
        state = tracked(folder)
        if state is None or state.uri != str(config.tracking.uri):
            continue
        with contextlib.suppress(filelock.Timeout), alive(folder):
            end(folder, config)
            say(f"  {folder} was killed: `python -m flows.track` logs what it left.")


def _safely(do: Any, folder: Path, config: DictConfig) -> str | None:
    if not config.tracking.uri:
        return None
    try:
        run_id: str | None = do(folder, config)
    except Exception as error:  # whatever a tracker does must not cost the run
        say(
            f"  {_reason(error, str(config.tracking.uri))} The run is kept in {folder}: "
            "`python -m flows.track` logs it later."
        )
        return None
    return run_id


def _reason(error: Exception, uri: str) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, ClaimflowError):
        return text
    text = text if len(text) <= 200 else f"{text[:200]}…"
    return f"Tracker {uri}: {type(error).__name__}: {text}."


def log_folder(folder: Path, config: DictConfig) -> str:
    """Log a run folder, whole. Logging it again completes the same MLflow run."""
    from mlflow.entities import Metric, Param, RunTag

    record = read_record(folder)
    client, experiment = connect(config)
    uri = str(config.tracking.uri)
    run_id = _begin(client, experiment, folder, uri)
    known = client.get_run(run_id)

    names: dict[str, str] = {}
    params, changed = [], []
    for key, value in _named(parameters(folder, record), names):
        before = known.data.params.get(key)
        if before is None:
            params.append(Param(key, value))
        elif before != value:  # MLflow holds on to the first value
            changed.append(f"{key}: {before} is kept, now {value}")
    ended = _milliseconds(record.ended) if record.ended else _last_write(folder)
    metrics = [Metric(k, v, ended, 0) for k, v in _named(metrics_of(record), names)]
    tags = _tags(folder, record, experiment)
    if changed:
        tags["parameters_changed"] = "\n".join(changed)
        say(f"  MLflow run {run_id} has other parameters: {'; '.join(changed)[:300]}")
    _log_batches(
        client,
        run_id,
        params=params,
        metrics=metrics,
        tags=[RunTag(key, shortened(value)) for key, value in tags.items()],
    )
    if not known.inputs.dataset_inputs:
        _log_inputs(client, run_id, record)
    # `log_table` adds to a table that is there, so one of an earlier attempt must not be.
    there = client.list_artifacts(run_id) if known.data.params else []
    _log_files(client, run_id, folder, names, table=all(a.path != TABLE for a in there))
    status = {"finished": "FINISHED", "failed": "FAILED"}.get(record.status, "KILLED")
    client.set_terminated(run_id, status, end_time=ended)
    _save(Tracked(uri=uri, run_id=run_id, whole=True), folder)
    return run_id


# The tracker


def connect(config: DictConfig) -> tuple[MlflowClient, str]:
    """(client, experiment id). Raises ClaimflowError when no tracker answers at the URI."""
    uri, name, artifacts = (str(config.tracking[key]) for key in ("uri", "experiment", "artifacts"))
    with one_line(uri):
        check_answers(uri)  # each time: a server may go down or hang during a sweep
        return _connect(uri, name, artifacts)


@contextlib.contextmanager
def one_line(uri: str) -> Iterator[None]:
    """Raise whatever MLflow, a database or the system says of the tracker as a ClaimflowError."""
    try:
        yield
    except Exception as error:
        raise ClaimflowError(_reason(error, uri)) from error


@functools.lru_cache(maxsize=8)
def _connect(uri: str, name: str, artifacts: str) -> tuple[MlflowClient, str]:
    # Of a server that stops answering half-way: by default MLflow waits two minutes, seven times.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    if not uri.startswith("sqlite:///"):
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        return client, _experiment(client, name, None)
    # A new store is set up by one process at a time: MLflow's migrations don't wait for another.
    with filelock.FileLock(f"{_file(uri)}.lock"):
        from mlflow import MlflowClient

        client = MlflowClient(uri)
        return client, _experiment(client, name, Path(artifacts).absolute().as_uri())


def check_answers(uri: str) -> None:
    """Ask a server for what it keeps, for a few seconds at most, and open a database once: MLflow
    itself waits longer, and tries again. A server's health alone says nothing: one whose database
    hangs is in health."""
    if uri.startswith(DATABASES):
        _check_opens(uri)
    if not uri.startswith(("http://", "https://")):
        return
    import requests

    try:
        api = f"{uri.rstrip('/')}/api/2.0/mlflow/experiments/get?experiment_id=0"
        answer = requests.get(api, timeout=ANSWER)
        if answer.status_code >= 500:
            raise requests.HTTPError(f"it says {answer.status_code}")
    except requests.RequestException as error:
        raise ClaimflowError(
            f"No tracking server answers at {uri}: start it, or name another with tracking.uri=…"
        ) from error


def _check_opens(uri: str) -> None:
    try:
        if not uri.startswith("sqlite:///"):
            from mlflow.store.db.utils import create_sqlalchemy_engine

            create_sqlalchemy_engine(uri).connect().close()
            return
        _file(uri).parent.mkdir(parents=True, exist_ok=True)
        # Another process may be setting the store up, and hold it.
        with contextlib.closing(sqlite3.connect(_file(uri), timeout=30)) as database:
            database.execute("PRAGMA schema_version")
    except Exception as error:  # whatever a driver raises
        reason = (str(error) or repr(error)).splitlines()[0]
        raise ClaimflowError(
            f"The tracker's database {uri} can't be opened: {reason}. Name another with "
            "tracking.uri=…"
        ) from error


def _file(uri: str) -> Path:
    """The file of an SQLite database."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def _experiment(client: MlflowClient, name: str, artifacts: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if not found:
        try:
            return str(client.create_experiment(name, artifacts, EXPERIMENT_TAGS))
        except MlflowException:  # another process was quicker
            found = client.get_experiment_by_name(name)
            if not found:
                raise
    return str(found.experiment_id)


def _begin(client: MlflowClient, experiment: str, folder: Path, uri: str) -> str:
    """The MLflow run of a folder: the one begun before in this tracker, or a new one, below that
    of the sweep."""
    record = read_record(folder)
    above = folder.parent / (record.parent or "")
    parent = None
    if record.parent and (above / "run.json").exists():
        parent = _begin(client, experiment, above, uri)
    with filelock.FileLock(folder / ".mlflow.lock"):
        state = tracked(folder)
        if state and state.uri == uri and _has(client, state.run_id):
            return state.run_id
        tags = {"claimflow.id": record.id, "mlflow.user": record.environment.get("user", "")}
        if parent:
            tags["mlflow.parentRunId"] = parent
        run = client.create_run(
            experiment,
            start_time=_milliseconds(record.started),
            tags=tags,
            run_name=shortened(record.name, KEY_LIMIT),
        )
        _save(Tracked(uri=uri, run_id=run.info.run_id), folder)
    return str(run.info.run_id)


def _has(client: MlflowClient, run_id: str) -> bool:
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode

    try:
        return bool(client.get_run(run_id).info.lifecycle_stage == "active")
    except MlflowException as error:
        if error.error_code == ErrorCode.Name(RESOURCE_DOES_NOT_EXIST):
            return False  # the store was deleted since
        raise


# What is logged


def read_record(folder: Path) -> RunRecord:
    """The record of a run folder."""
    try:
        record: RunRecord = decode((folder / "run.json").read_bytes(), RunRecord)
    except (OSError, msgspec.DecodeError) as error:
        raise ClaimflowError(
            f"{folder}/run.json can't be read: {error}. Remove the folder and run it again."
        ) from error
    return record


def parameters(folder: Path, record: RunRecord) -> Iterator[tuple[str, str]]:
    """Every config value by its dotted key, every group's choice by the group's name, the versions
    of packages; and each swept axis as `axis.NAME`, which MLflow's comparison so shows first.

    A value too long for MLflow is replaced by its digest and where to read it.
    """
    values = dict(_flat("", read_config(folder)))
    values.pop("name", None)  # that of the run
    values.update(record.choices)  # a group's own key is free, or says {} for the choice `none`
    values.update({f"axis.{axis}": value for axis, value in record.axes.items()})
    for package, version in record.environment.get("versions", {}).items():
        values[f"version.{package}"] = version
    for key in ("python", "platform", "cores"):
        values[f"machine.{key}"] = record.environment.get(key)
    for key, value in values.items():
        text = str(value)
        if len(text) > PARAM_LIMIT:
            text = (
                f"{len(text)} characters, digest {digest(text.encode())}: "
                "whole in config.yaml or run.json below Artifacts"
            )
        yield key, text


def _flat(prefix: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), value)
    else:
        yield prefix, node


def metrics_of(record: RunRecord) -> Iterator[tuple[str, float]]:
    """Measures with the ends of their intervals, seconds and peak memory by stage, tokens …

    Those of a sweep are its best point's, as `best.NAME`: a chart of all runs shows none twice.
    """
    best = "best." if record.children else ""
    for name, measure in record.measures.items():
        yield best + name, measure.value
        if measure.low is not None and measure.high is not None:
            yield f"{best}{name}_low", measure.low
            yield f"{best}{name}_high", measure.high
    for group in ("seconds", "peak_mb", "tokens", "cache", "counts"):
        for name, value in getattr(record, group).items():
            yield f"{group}.{name}", float(value)
    for step, learned in record.training.items():
        for name, value in learned.items():
            yield f"{step}.{name}", value
    yield "seconds.total", round(sum(record.seconds.values()), 3)


def _tags(folder: Path, record: RunRecord, experiment: str) -> dict[str, str]:
    """What the runs page shows beside parameters and measures; the report as description."""
    report = folder / "report.md"
    tags = {
        "git_dirty": str(record.environment.get("git_dirty")),
        "mlflow.source.name": record.flow,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": str(record.environment.get("git_commit")),
        "mlflow.note.content": report.read_text(encoding="utf-8") if report.exists() else "",
    }
    if record.axes:
        tags["axes"] = ", ".join(record.axes)
    for name, found in record.adapters.items():
        tags |= {f"{name}.{key}": value for key, value in found.items() if value}
    if record.error:
        tags["error"] = record.error
        tags["mlflow.note.content"] += f"\n**{record.status}:** {record.error}\n"
    points = [
        state.run_id for child in record.children if (state := tracked(folder.parent / child))
    ]
    if points:
        page = f"runs={json.dumps(points)}&experiments={json.dumps([experiment])}"
        link = f"[Compare the points](#/compare-runs?{urllib.parse.quote(page, safe='=&')})"
        tags["mlflow.note.content"] = f"{link}\n\n{tags['mlflow.note.content']}"
    return tags


def _log_inputs(client: MlflowClient, run_id: str, record: RunRecord) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = [
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
    ]
    if inputs:
        client.log_inputs(run_id, inputs)


def _log_files(
    client: MlflowClient, run_id: str, folder: Path, names: dict[str, str], table: bool
) -> None:
    """The files of the folder as artifacts, and with `table` that of the claims as one that the UI
    shows."""
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        if path.is_file() and not any(part.startswith(".") for part in below.parts):
            where = below.parent.as_posix()
            client.log_artifact(run_id, str(path), where if where != "." else None)
    if names:
        client.log_dict(run_id, names, "mlflow_names.json")
    rows = folder / "per_claim.jsonl"
    if table and rows.exists() and rows.stat().st_size:
        import pandas

        client.log_table(run_id, pandas.read_json(rows, lines=True, dtype={"id": str}), TABLE)


# Limits


def key_of(name: str) -> str:
    """`name` as MLflow takes it: nDCG@10 is nDCG_at_10, a long one ends in its digest."""
    words = {"@": "_at_", "+": "_plus_", "%": "_percent_"}
    key = re.sub(r"[^\w/.\- :]", lambda found: words.get(found[0], "_"), name)
    if not key or posixpath.normpath(key) != key or key.startswith(("/", ".")):
        key = "_" + key.replace("/", "_")  # MLflow takes names for paths
    if len(key) > KEY_LIMIT:
        key = f"{key[: KEY_LIMIT - 33]}-{digest(name.encode())}"
    return key


def _named(pairs: Iterable[tuple[str, Any]], names: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """The pairs under names that MLflow takes, each used once; `names` gets those that differ."""
    used: set[str] = set()
    for name, value in pairs:
        key = key_of(name)
        if key in used:
            key = f"{key[: KEY_LIMIT - 33]}-{digest(name.encode())}"
        used.add(key)
        if key != name:
            names[key] = name
        yield key, value


def shortened(text: str, limit: int = TAG_LIMIT) -> str:
    """`text`, or as much of it as fits with a word on how much is missing."""
    if len(text) <= limit:
        return text
    end = f" … ({len(text)} characters, the whole is below Artifacts)"
    return text[: limit - len(end)] + end


def _log_batches(client: MlflowClient, run_id: str, **items: list[Any]) -> None:
    """Log params, metrics and tags in as few calls as take them."""
    parts = [[*_batches(some, BATCH[kind])] for kind, some in items.items()]
    for call in itertools.zip_longest(*parts, fillvalue=()):
        client.log_batch(run_id, **dict(zip(items, call, strict=True)))


def _batches(items: list[Any], most: int) -> Iterator[list[Any]]:
    """Parts of `items` that one call may carry: by number and by size."""
    part: list[Any] = []
    size = 0
    for item in items:
        bytes_ = len(json.dumps([item.key, item.value])) + 100
        if part and (len(part) == most or size + bytes_ > BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(item)
        size += bytes_
    if part:
        yield part


# Folders


def tracked(folder: Path) -> Tracked | None:
    """The MLflow run that a folder was begun as."""
    try:
        state: Tracked = decode((folder / STATE).read_bytes(), Tracked)
    except FileNotFoundError:
        return None
    return state


def _save(state: Tracked, folder: Path) -> None:
    write_whole(folder / STATE, encode(state))


def waiting(outputs: Path, uri: str | None = None) -> list[Path]:
    """Run folders that no tracker has whole (with `uri`: that this one hasn't), sweeps first."""
    found: list[tuple[bool, str, Path]] = []
    for path in sorted(outputs.glob("*/run.json")):
        folder = path.parent
        state = tracked(folder)
        if state and state.whole and uri in (None, state.uri):
            continue
        try:
            found.append((read_record(folder).parent is not None, folder.name, folder))
        except ClaimflowError as error:  # costs the others nothing
            say(f"  {error}")
    return [folder for _, _, folder in sorted(found)]


def _milliseconds(time: str) -> int:
    return int(datetime.datetime.fromisoformat(time).timestamp() * 1000)


def _last_write(folder: Path) -> int:
    """When a process that was killed last wrote into its folder."""
    return int(max(path.stat().st_mtime for path in folder.rglob("*")) * 1000)
