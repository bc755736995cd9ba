"""Run folders become MLflow runs: on sqlite, on a server, later, and within MLflow's limits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from omegaconf import OmegaConf

from components.files import ROOT
from components.records import write_lines
from components.score.base import Measure
from flows.log import Log, peak_mb, reset_peak
from flows.tracking import (
    KEY_LIMIT,
    TAG_LIMIT,
    log_folder,
    metrics_of,
    names,
    open_parent,
    read_record,
    tracked,
    unlogged,
)


def config(folder: Path, uri: str | None, **more: Any) -> Any:
    return OmegaConf.create(
        {
            "name": "test",
            "outputs": str(folder),
            "tracking": {"uri": uri, "experiment": "claimflow"},
            "seed": 13,
            "retriever": {"bm25": {"k1": 0.9, "stopwords": None}},
            **more,
        }
    )


def fill(log: Log, qa: float = 0.3) -> None:
    """What a run leaves."""
    log.record.choices = {"retriever": "bm25s"}
    log.record.measures = {"qa": Measure(value=qa, low=qa - 0.05, high=qa + 0.05)}
    log.record.datasets = [
        {"name": "demo", "split": s, "digest": d * 32, "source": "/data/demo", "context": c}
        for s, d, c in (("dev", "a", "evaluation"), ("train", "b", "training"))
    ]
    log.record.tokens = {"prompt_tokens": 120}
    with log.stage("retriever.bm25"):
        pass
    write_lines(log.folder / "per_claim.jsonl", [{"id": "0", "qa": qa}, {"id": "1", "qa": None}])
    write_lines(log.folder / "predictions.jsonl", [{"id": "0", "label": "Refuted"}])
    (log.folder / "plots").mkdir()
    (log.folder / "plots" / "sweep.png").write_bytes(b"\x89PNG")
    (log.folder / "report.md").write_text("# a report\n\n| measure |\n|---|\n")


def sweep(setting: Any) -> tuple[Log, list[Log]]:
    """A parent with two points, logged as `flows.sweep` does it."""
    parent = Log(OmegaConf.merge(setting, {"name": "sweep of two"}))
    open_parent(parent.folder, setting)
    points = []
    for number, k1 in enumerate(("0.9", "1.2")):
        log = Log(
            OmegaConf.merge(setting, {"name": f"k1={k1}"}),
            {"retriever.bm25.k1": k1},
            parent.record.id,
        )
        with log:
            fill(log, 0.3 + number / 10)
        points.append(log)
    with parent:
        parent.record.children = [log.record.id for log in points]
    return parent, points


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One sqlite store for all tests here: a new one costs seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server with a store of its own."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    words = [
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/server.db"),
        *("--artifacts-destination", f"{folder}/files"),
    ]
    with open(folder / "log", "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *words],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def wait_for(url: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


def check_sweep(uri: str, parent: Log, points: list[Log]) -> None:
    """The tracker has the sweep and its points, with all that they left."""
    client = MlflowClient(uri)
    top = client.get_run(tracked(parent.folder).run_id)  # type: ignore[union-attr]
    assert top.info.status == "FINISHED"
    note = top.data.tags["mlflow.note.content"]
    for log, k1 in zip(points, ("0.9", "1.2"), strict=True):
        run = client.get_run(log.record.mlflow_run_id)
        assert run.info.status == "FINISHED"
        assert run.info.run_id in note
        assert run.data.tags["mlflow.parentRunId"] == top.info.run_id
        assert run.data.params["axis.retriever.bm25.k1"] == k1
        assert run.data.params["retriever"] == "bm25s"
        assert run.data.params["retriever.bm25.stopwords"] == "null"
        assert run.data.params["seed"] == "13"
        qa = log.record.measures["qa"]
        assert [run.data.metrics[f"qa{end}"] for end in ("_low", "", "_high")] == [
            qa.low,
            qa.value,
            qa.high,
        ]
        assert run.data.metrics["system/peak_mb/retriever.bm25"] > 20
        assert run.data.metrics["system/tokens/prompt_tokens"] == 120
        assert "system/seconds/retriever.bm25" in run.data.metrics
        assert run.data.tags["version.mlflow"] and run.data.tags["git_dirty"]
        assert run.data.tags["mlflow.note.content"].startswith("# a report")
        inputs = {d.dataset.name: d.dataset.digest for d in run.inputs.dataset_inputs}
        assert inputs == {"demo dev": "a" * 32, "demo train": "b" * 32}
        files = {a.path for a in client.list_artifacts(run.info.run_id)}
        assert files >= {"run.json", "config.yaml", "predictions.jsonl", "report.md", "plots"}
        assert not [name for name in files if name.startswith(".")]
        table = client.load_table(run.info.experiment_id, "per_claim.json", [run.info.run_id])
        assert list(table["id"]) == ["0", "1"]


def runs_of(uri: str, record_id: str) -> list[Any]:
    client = MlflowClient(uri)
    experiments = [e.experiment_id for e in client.search_experiments()]
    return list(client.search_runs(experiments, f"tags.`claimflow.id` = '{record_id}'"))


def test_sweep_in_sqlite(store: str, tmp_path: Path) -> None:
    parent, points = sweep(config(tmp_path, store))
    check_sweep(store, parent, points)
    assert len(runs_of(store, parent.record.id)) == 1
    assert unlogged(tmp_path) == []


def test_logging_again_completes_the_same_run(store: str, tmp_path: Path) -> None:
    setting = config(tmp_path, store)
    with Log(setting) as log:
        fill(log)
    first = log.record.mlflow_run_id
    text = (log.folder / "config.yaml").read_text()
    (log.folder / "config.yaml").write_text(text.replace("k1: 0.9", "k1: 0.7"))
    assert log_folder(log.folder, setting) == first
    run = MlflowClient(store).get_run(first)
    assert run.data.params["retriever.bm25.k1"] == "0.9"  # MLflow keeps the first …
    said = MlflowClient(store).download_artifacts(first, "mlflow_limits.json", str(tmp_path))
    assert '"was logged as 0.9 before and stays, is 0.7"' in Path(said).read_text()  # … said
    table = MlflowClient(store).load_table(run.info.experiment_id, "per_claim.json", [first])
    assert len(table) == 2


def test_limits_are_met_and_said(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompt, key = "p" * 8000, "k" * 300
    many = {f"value_{i}": i for i in range(250)}
    with Log(config(tmp_path, store, prompt=prompt, many=many, **{key: 1, key + "x": 2})) as log:
        fill(log)
        log.record.measures = {f"m{i}": Measure(value=i) for i in range(1100)}
        log.record.measures |= {"nDCG@10": Measure(value=0.5), "nDCG_at_10": Measure(value=0.25)}
        log.record.measures["undefined"] = Measure(value=float("nan"))
        (log.folder / "report.md").write_text("r" * 9000)
    run = MlflowClient(store).get_run(log.record.mlflow_run_id)
    assert run.data.params["prompt"].startswith("8000 characters, digest ")
    assert {run.data.params[k] for k in run.data.params if k.startswith("kkk")} == {"1", "2"}
    assert run.data.params["many.value_249"] == "249"
    assert run.data.metrics["m1099"] == 1099
    assert {v for k, v in run.data.metrics.items() if k.startswith("nDCG_at_10")} == {0.5, 0.25}
    assert "undefined" not in run.data.metrics
    assert any("undefined" in note for note in read_record(log.folder).notes)
    note = run.data.tags["mlflow.note.content"]
    assert len(note) == TAG_LIMIT
    assert "cut here" in note
    assert "not as they are" in capsys.readouterr().err
    path = MlflowClient(store).download_artifacts(run.info.run_id, "config.yaml", str(tmp_path))
    assert prompt in Path(path).read_text()


def test_names_stay_apart_and_are_taken() -> None:
    from mlflow.utils.validation import _validate_metric_name

    keys = ["a@1", "a_at_1", "f1+", "5%", "../x", "a//b", "/a", ".", "ü é", "k" * 999, "k" * 998]
    found, changed = names(keys)
    assert len(set(found.values())) == len(keys)
    for name in found.values():
        _validate_metric_name(name)
        assert len(name) <= KEY_LIMIT
    assert "ü é" not in changed


@pytest.mark.slow
def test_sweep_on_a_server(server: str, tmp_path: Path) -> None:
    parent, points = sweep(config(tmp_path, server))
    check_sweep(server, parent, points)


@pytest.mark.slow
def test_tracker_down_then_logged_later(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    parent, points = sweep(config(tmp_path, f"http://127.0.0.1:{free_port()}"))
    assert time.monotonic() - begun < 10
    assert "No MLflow server at http://127.0.0.1" in (said := capsys.readouterr().err)
    assert "python -m flows.track" in said
    assert all(log.record.mlflow_run_id is None for log in (parent, *points))
    assert all((log.folder / "predictions.jsonl").exists() for log in points)
    done = flow("track", f"outputs={tmp_path}", f"tracking.uri={server}")
    assert done.returncode == 0, done.stderr
    assert "3 runs were waiting, 3 are logged" in done.stdout
    for log in points:
        log.record.mlflow_run_id = read_record(log.folder).mlflow_run_id
    check_sweep(server, parent, points)
    again = flow("track", f"outputs={tmp_path}", f"tracking.uri={server}")
    assert "0 runs were waiting" in again.stdout


def test_track_without_a_tracker_is_one_line(tmp_path: Path) -> None:
    done = flow("track", f"outputs={tmp_path}", f"tracking.uri=http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("error: No MLflow server at ")
    assert done.stderr.count("\n") == 1


KILLED = """
import sys
from pathlib import Path
from tests.test_tracking import config, fill
from flows.log import Log
from flows.tracking import open_parent
setting = config(Path(sys.argv[1]), sys.argv[2])
parent = Log(setting)
open_parent(parent.folder, setting)
point = Log(setting, {"seed": "13"}, parent.record.id)
fill(point)
print(parent.record.id, point.record.id, flush=True)
sys.stdin.read()
"""


def test_killed_runs_are_closed_and_live_ones_left(store: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path), store]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(words, cwd=ROOT, text=True, **pipes)
    ids = process.stdout.readline().split()
    assert unlogged(tmp_path) == []
    run = runs = None
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()
    live = Log(config(tmp_path, store))
    waiting = unlogged(tmp_path)
    assert [folder.name for folder in waiting] == ids
    stale = MlflowClient(store).get_run(tracked(waiting[0]).run_id)
    assert stale.info.status == "RUNNING"
    for folder in waiting:
        log_folder(folder, config(tmp_path, store))
    client = MlflowClient(store)
    assert client.get_run(stale.info.run_id).info.status == "KILLED"
    (runs,) = runs_of(store, ids[1])
    run = client.get_run(runs.info.run_id)
    assert run.info.status == "KILLED"
    assert run.info.end_time >= run.info.start_time
    assert run.data.tags["mlflow.parentRunId"] == stale.info.run_id
    assert read_record(live.folder).status == "running"


def test_an_interrupted_run_waits_as_killed(store: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Log(config(tmp_path, store)) as log:
        raise KeyboardInterrupt
    assert read_record(log.folder).status == "killed"
    assert unlogged(tmp_path) == [log.folder]


FIRST_USE = """
import sys
from pathlib import Path
from tests.test_tracking import config, fill
from flows.log import Log
with Log(config(Path(sys.argv[1]), sys.argv[2])) as log:
    fill(log)
print(log.record.mlflow_run_id)
"""


@pytest.mark.slow
def test_three_processes_at_first_use(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlruns/mlflow.db"
    words = [sys.executable, "-c", FIRST_USE, str(tmp_path), uri]
    started = [
        subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    ids = set()
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "not tracked" not in err
        ids.add(out.strip())
    client = MlflowClient(uri)
    assert len(ids) == 3
    assert {client.get_run(i).info.status for i in ids} == {"FINISHED"}
    assert len(client.search_experiments(filter_string="name = 'claimflow'")) == 1


def test_a_failed_run_says_why(store: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such"), Log(config(tmp_path, store)) as log:
        raise ValueError("no such thing")
    run = MlflowClient(store).get_run(log.record.mlflow_run_id)
    assert run.info.status == "FAILED"
    assert run.data.tags["error"] == "ValueError: no such thing"
    assert "no such thing" in run.data.tags["mlflow.note.content"]


def test_peak_memory_of_a_stage_and_of_workers() -> None:
    bytearray(300 * 2**20)[::4096] = b"x" * (300 * 256)
    assert peak_mb() >= 300
    reset_peak()
    idle = peak_mb()
    block = bytearray(150 * 2**20)
    block[::4096] = b"x" * (150 * 256)
    assert 140 <= peak_mb() - idle <= 170
    del block
    reset_peak()
    assert peak_mb() - idle < 30
    code = (
        "x = bytearray(120 * 2**20); x[::4096] = b'x' * (120 * 256); print(1, flush=True); input()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as worker:
        worker.stdout.readline()
        assert peak_mb() - idle >= 120
        worker.communicate(b"\n")


def test_metrics_need_no_interval() -> None:
    from flows.record import new_record

    record = new_record("x", {})
    record.measures = {"qa": Measure(value=0.5)}
    assert dict(metrics_of(record)) == {"qa": 0.5, "system/seconds/total": 0}


def flow(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"flows.{name}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
