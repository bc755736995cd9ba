"""What MLflow has of a run: all of it, also after limits, dead trackers and dead processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import mlflow  # noqa: F401  (what is logged from this process is said in it)
import psutil
import pytest

from components.score.base import Measure
from flows.log import Log, peak_mb, reset_peak
from flows.track import main as track_main
from flows.tracking import (
    TAG_LIMIT,
    begin,
    connect,
    end_killed,
    key_of,
    log_folder,
    parameters,
    read_record,
    tracked,
    waiting,
)
from tests.conftest import free_port
from tests.tracking_parts import config_of, flow, server, settings, write_data


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, and so one MLflow store, for all tests of the module."""
    folder = tmp_path_factory.mktemp("tracking")
    write_data(folder / "data")
    return folder


@pytest.fixture
def config(place: Path, tmp_path: Path) -> Any:
    return config_of(place, f"outputs={tmp_path}/outputs", "name=a run")


def mlflow_run(config: Any, folder: Path) -> Any:
    state = tracked(folder)
    assert state
    assert state.whole
    return connect(config)[0].get_run(state.run_id)


def files_of(config: Any, run_id: str, below: str | None = None) -> set[str]:
    client = connect(config)[0]
    found = set()
    for item in client.list_artifacts(run_id, below):
        found |= files_of(config, run_id, item.path) if item.is_dir else {item.path}
    return found


def test_everything_is_logged(config: Any) -> None:
    with Log(config, {"seed": "13", "+extra": "7"}) as log:
        with log.stage("index"):
            pass
        log.record.measures = {
            "qa": Measure(value=0.5, low=0.4, high=0.6),
            "accuracy": Measure(value=0.25),
        }
        log.record.tokens = {"prompt_tokens": 12}
        log.record.datasets = [
            {"name": "d", "split": "dev", "digest": "ab", "source": "x", "context": "evaluation"}
        ]
        (log.folder / "plots").mkdir()
        for name in ("report.md", "predictions.jsonl", "submission_2025.csv", "plots/a.png"):
            (log.folder / name).write_text(f"# {name}\n")
        (log.folder / "per_claim.jsonl").write_text('{"id": "007", "qa": 0.5}\n')
    run = mlflow_run(config, log.folder)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "a run"
    assert run.info.run_id == log.record.mlflow_run_id
    params = run.data.params
    for key, value in {
        "seed": "13",
        "axis.seed": "13",
        "axis.+extra": None,  # a name that MLflow refuses
        "axis._plus_extra": "7",
        "dataset.split": "dev",
        "retriever.tfidf.k": str(config.retriever.tfidf.k),
        "scorer.draws": "1000",
        "machine.cores": str(os.cpu_count()),
    }.items():
        assert params.get(key) == value, key
    assert params["version.mlflow"].startswith("3.")
    metrics = run.data.metrics
    assert (metrics["qa"], metrics["qa_low"], metrics["qa_high"]) == (0.5, 0.4, 0.6)
    assert metrics["accuracy"] == 0.25
    assert "accuracy_low" not in metrics
    assert metrics["tokens.prompt_tokens"] == 12
    assert metrics["peak_mb.index"] > 10
    assert metrics["seconds.index"] >= 0
    tags = run.data.tags
    assert tags["git_dirty"] in ("True", "False")
    assert tags["mlflow.source.git.commit"] == str(log.record.environment["git_commit"])
    assert tags["mlflow.note.content"] == "# report.md\n"
    assert tags["axes"] == "+extra, seed"
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("d dev", "ab")
    assert files_of(config, run.info.run_id) == {
        *("config.yaml", "run.json", "report.md", "predictions.jsonl", "submission_2025.csv"),
        *("plots/a.png", "per_claim.jsonl", "per_claim.json", "mlflow_names.json"),
    }
    where = connect(config)[0].download_artifacts(run.info.run_id, "per_claim.json")
    assert json.loads(Path(where).read_text()) == {"columns": ["id", "qa"], "data": [["007", 0.5]]}


def test_a_failed_run_is_logged_with_its_error(config: Any) -> None:
    log = Log(config)
    with pytest.raises(ZeroDivisionError), log, log.stage("half"):
        _ = 1 / 0
    run = mlflow_run(config, log.folder)
    assert run.info.status == "FAILED"
    assert run.data.tags["error"] == "ZeroDivisionError: division by zero"
    assert "half" in log.record.seconds


def overlong(log: Log) -> dict[str, Any]:
    """Fill a run with what breaks MLflow's limits; the config that it had."""
    config = {f"prompt{n}": "ü" * 6000 for n in range(150)}
    config |= {"long": "x" * 8000, "k" * 300: 1, "p@q+r%": 2, "p_at_q_plus_r_percent_": 3}
    log.keep_config({**config, "a//b": 4, "../c": 5, ".": 6, "empty": ""})
    log.record.measures = {f"m{n}": Measure(value=n) for n in range(1200)}
    log.record.measures |= {"nDCG@10": Measure(value=0.5), "R+%": Measure(value=0.25)}
    (log.folder / "report.md").write_text("r" * 20_000)
    return config


def check_overlong(run: Any, folder: Path) -> None:
    params = run.data.params
    assert all(params[f"prompt{n}"] == "ü" * 6000 for n in range(150))
    assert params["long"].startswith("8000 characters, digest ")
    assert "x" * 8000 in (folder / "config.yaml").read_text()
    assert params[key_of("k" * 300)] == "1"
    values = {v for k, v in params.items() if k.startswith("p_at_q_plus_r_percent_")}
    assert values == {"2", "3"}
    assert {"4", "5", "6"} <= set(params.values())
    assert params["empty"] == ""
    assert run.data.metrics["nDCG_at_10"] == 0.5
    assert run.data.metrics["R_plus__percent_"] == 0.25
    assert run.data.metrics["m1199"] == 1199
    note = run.data.tags["mlflow.note.content"]
    assert len(note) <= TAG_LIMIT
    assert note.endswith("(20000 characters, the whole is below Artifacts)")


def test_limits_of_mlflow_cut_nothing_in_silence(config: Any) -> None:
    with Log(config) as log:
        overlong(log)
    run = mlflow_run(config, log.folder)
    check_overlong(run, log.folder)
    assert len(run.data.params) >= len(dict(parameters(log.folder, log.record)))
    client = connect(config)[0]
    names = json.loads(
        Path(client.download_artifacts(run.info.run_id, "mlflow_names.json")).read_text()
    )
    assert names["nDCG_at_10"] == "nDCG@10"
    assert names[key_of("k" * 300)] == "k" * 300


def test_logging_again_completes_the_same_run(config: Any) -> None:
    with Log(config) as log:
        pass
    first = mlflow_run(config, log.folder)
    log.keep_config({"seed": 99, "new": 1})
    assert log_folder(log.folder, config) == first.info.run_id
    again = mlflow_run(config, log.folder)
    assert again.data.params["seed"] == "13"  # MLflow holds on to the first value …
    assert again.data.tags["parameters_changed"] == "seed: 13 is kept, now 99"  # … and we say so
    assert again.data.params["new"] == "1"


def test_a_sweep_whose_tracker_went_elsewhere(config: Any, tmp_path: Path) -> None:
    """Folders begun in one store are logged whole into another, with the relation kept."""
    parent = Log(config)
    begin(parent.folder, config)
    with Log(config, {"seed": "1"}, parent.record.id) as child:
        pass
    parent.record.children = [child.record.id]
    with parent:
        pass
    here = mlflow_run(config, child.folder)
    assert here.data.tags["mlflow.parentRunId"] == mlflow_run(config, parent.folder).info.run_id
    note = mlflow_run(config, parent.folder).data.tags["mlflow.note.content"]
    assert note.startswith("[Compare the points](#/compare-runs?runs=")
    assert here.info.run_id in note
    other = config.copy()
    other.tracking.uri = f"sqlite:///{tmp_path}/other/mlflow.db"
    other.tracking.artifacts = f"{tmp_path}/other/artifacts"
    assert waiting(Path(config.outputs)) == []
    assert waiting(Path(config.outputs), other.tracking.uri) == [parent.folder, child.folder]
    log_folder(child.folder, other)  # the child first: its parent is begun on the way
    log_folder(parent.folder, other)
    there = mlflow_run(other, child.folder)
    assert there.data.tags["mlflow.parentRunId"] == mlflow_run(other, parent.folder).info.run_id
    assert there.info.run_id != here.info.run_id


PROCESS = """
import sys, time
from pathlib import Path
from tests.tracking_parts import config_of
from flows.log import Log
from flows.tracking import begin
config = config_of(Path(sys.argv[1]), "outputs=" + sys.argv[2])
if sys.argv[3] == "log":
    with Log(config) as log:
        pass
    sys.exit(not log.record.mlflow_run_id)
parent = Log(config)
begin(parent.folder, config)
child = Log(config, {"seed": "1"}, parent.record.id)
print(parent.record.id, child.record.id, flush=True)
time.sleep(600)
"""


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_three_processes_at_first_use_of_a_store(tmp_path: Path) -> None:
    write_data(tmp_path / "data")
    started = [process(tmp_path, f"{tmp_path}/outputs", "log") for _ in range(3)]
    for one in started:
        _, errors = one.communicate(timeout=200)
        assert one.returncode == 0, errors
    client, experiment = connect(config_of(tmp_path))
    runs = client.search_runs([experiment])
    assert [run.info.status for run in runs] == ["FINISHED"] * 3


@pytest.mark.slow
def test_killed_runs_are_closed_and_live_ones_left_alone(
    config: Any, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = [process(place, config.outputs, "sleep") for _ in range(2)]
    try:
        dead, live = (
            [Path(config.outputs) / i for i in p.stdout.readline().split()] for p in started
        )
        started[0].kill()
        started[0].wait()
        parent = tracked(dead[0])
        assert parent
        client = connect(config)[0]
        assert client.get_run(parent.run_id).info.status == "RUNNING"
        settings = config_of(place, f"outputs={config.outputs}", name="track")
        end_killed(settings)  # as the next sweep does
        assert client.get_run(parent.run_id).info.status == "KILLED"
        [works] = [found for folder in live if (found := tracked(folder))]
        assert client.get_run(works.run_id).info.status == "RUNNING"
        track_main(settings)
        out = capsys.readouterr().out
        assert all(f"{folder}  killed, logged as" in out for folder in dead)
        assert all(f"{folder}  still at work" in out for folder in live)
        assert client.get_run(parent.run_id).info.status == "KILLED"
        child = mlflow_run(config, dead[1])
        assert child.info.status == "KILLED"
        assert child.data.tags["mlflow.parentRunId"] == parent.run_id
        assert read_record(dead[1]).status == "killed"
        assert read_record(live[1]).status == "running"
        assert waiting(Path(config.outputs)) == sorted(live)
    finally:
        for one in started:
            one.kill()
            one.communicate()


@pytest.mark.parametrize("fault", ["hangs", "fails"])
def test_a_tracker_in_health_that_does_no_work(
    fault: str, config: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its /health answers, but not what needs its database: MLflow alone waits for a minute."""
    monkeypatch.setattr("flows.tracking.ANSWER", (1.0, 0.3))
    ended = threading.Event()

    class Half(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            healthy = self.path == "/health"
            if fault == "hangs" and not healthy:
                ended.wait(60)
            self.send_response(200 if healthy else 503)
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Half) as half:
        threading.Thread(target=half.serve_forever, daemon=True).start()
        config.tracking.uri = f"http://127.0.0.1:{half.server_port}"
        start = time.perf_counter()
        with Log(config) as run:
            pass
        assert time.perf_counter() - start < 5
        ended.set()
        half.shutdown()
    assert run.record.status == "finished"
    assert waiting(Path(config.outputs)) == [run.folder]
    said = capsys.readouterr().err
    assert f"No tracking server answers at {config.tracking.uri}" in said
    assert "`python -m flows.track` logs it later" in said


@pytest.mark.parametrize("place", ["/proc/x.db", "folder", "text", "text/x.db", "sqlite:other"])
def test_a_database_that_cannot_be_opened_costs_a_line(
    place: str, config: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MLflow tries ten times, and the lock beside a file may wait without end."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("A text that is no database, whatever its name says.")
    config.tracking.uri = place if ":" in place else f"sqlite:///{tmp_path / place}"
    start = time.perf_counter()
    with Log(config) as run:
        pass
    assert time.perf_counter() - start < 20
    assert run.record.status == "finished"
    [said] = (line for line in capsys.readouterr().err.splitlines() if "racker" in line)
    assert f"The tracker's database {config.tracking.uri} can't be opened: " in said
    assert "`python -m flows.track` logs it later" in said


@pytest.mark.slow
def test_tracker_down_then_a_real_server(
    config: Any, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    config.tracking.uri = f"http://127.0.0.1:{port}"
    start = time.perf_counter()
    parent = Log(config)
    begin(parent.folder, config)
    with Log(config, {"seed": "1"}, parent.record.id) as child:
        overlong(child)
    parent.record.children = [child.record.id]
    with parent:
        pass
    assert time.perf_counter() - start < 10
    said = capsys.readouterr().err
    assert f"No tracking server answers at {config.tracking.uri}" in said
    assert "`python -m flows.track` logs it later" in said
    assert child.record.mlflow_run_id is None
    assert read_record(child.folder).status == "finished"
    arguments = [f"outputs={config.outputs}", f"tracking.uri={config.tracking.uri}"]
    with server(tmp_path, port):
        track_main(config_of(place, *arguments, name="track"))
        run = mlflow_run(config, child.folder)
        check_overlong(run, child.folder)
        above = tracked(parent.folder)
        assert above
        assert run.data.tags["mlflow.parentRunId"] == above.run_id
        assert {"run.json", "config.yaml"} <= files_of(config, run.info.run_id)
        assert waiting(Path(config.outputs)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_a_sweep_killed_in_the_middle(place: Path, tmp_path: Path, kind: signal.Signals) -> None:
    """The whole path: a real sweep, kill -9 or SIGTERM, as Ctrl-C, while its third point runs, then
    `flows.track`."""
    keep = [a for a in settings(place) if not a.startswith("outputs=")]
    keep.append(f"outputs={tmp_path}/outputs")
    points = ",".join(map(str, range(50)))
    command = [sys.executable, "-m", "flows.experiment", "-m", *keep, f"seed={points}"]
    sweep = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert sweep.stderr
    for line in sweep.stderr:
        if line.startswith("[3]"):
            break
    os.killpg(sweep.pid, kind)
    _, said = sweep.communicate()
    config = config_of(place, f"outputs={tmp_path}/outputs")
    before = waiting(Path(config.outputs))
    if kind == signal.SIGTERM:
        assert sweep.returncode == 143
        assert said.splitlines()[-1].startswith("error: Interrupted.")
        parent = read_record(before[0])
        assert (parent.status, parent.error) == ("killed", "Ended by SIGTERM.")
        begun = tracked(before[0])
        assert begun
        assert connect(config)[0].get_run(begun.run_id).info.status == "KILLED"
    else:
        assert read_record(before[0]).status == "running"
    done = flow("track", *keep)
    assert done.returncode == 0, done.stderr
    assert "killed, logged as" in done.stdout
    assert waiting(Path(config.outputs)) == []
    folders = [path.parent for path in sorted(Path(config.outputs).glob("*/run.json"))]
    runs = [mlflow_run(config, folder) for folder in folders]
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert parent.info.status == "KILLED"
    assert parent.data.params["axis.seed"] == points
    assert "seed" not in parent.data.params
    children = [run for run in runs if run is not parent]
    assert len(children) >= 2
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert [run.data.params["axis.seed"] for run in children[:2]] == ["0", "1"]


def test_track_without_a_tracker_is_one_line() -> None:
    done = flow("track", "tracking=none")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().splitlines() == [
        "error: No tracker to log to: give tracking=mlflow or tracking.uri=…"
    ]


def test_peak_memory_is_of_the_stage_and_counts_workers() -> None:
    reset_peak()
    before = peak_mb()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert 55 < peak_mb() - before < 90
    del block
    reset_peak()
    assert peak_mb() < before + 20  # the block of the stage before doesn't count
    code = (
        "b = bytearray(96 << 20); b[::4096] = b'x' * len(b[::4096]); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout
        worker.stdout.readline()
        assert 95 < peak_mb() - before < 140
        worker.communicate(b"\n")


def test_a_folder_that_cannot_be_read_costs_the_others_nothing(
    config: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    config.tracking.uri = None
    logs = [Log(config) for _ in range(2)]
    for log in logs:
        with log:
            pass
    (logs[0].folder / "run.json").write_text('{"id": 3}')
    assert waiting(Path(config.outputs)) == [logs[1].folder]
    assert f"{logs[0].folder}/run.json can't be read" in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_that_hangs_in_the_middle(config: Any, tmp_path: Path) -> None:
    """It answered the first run; the second goes on without it after a few seconds."""
    port = free_port()
    config.tracking.uri = f"http://127.0.0.1:{port}"
    with server(tmp_path, port):
        with Log(config) as first:
            pass
        assert first.record.mlflow_run_id
        family = [p for p in psutil.Process().children(recursive=True) if "mlflow" in cmd(p)]
        assert family
        for process in family:
            process.suspend()
        try:
            start = time.perf_counter()
            with Log(config) as second:
                pass
            assert second.record.mlflow_run_id is None
            assert time.perf_counter() - start < 15
        finally:
            for process in family:
                process.resume()
        assert log_folder(second.folder, config)


def cmd(process: psutil.Process) -> str:
    return " ".join(process.cmdline())
