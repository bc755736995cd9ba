"""The process beside a run that logs it: all is logged, nothing is lost when one of both ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from components.files import ROOT
from flows.tracking import connect, tracked, waiting
from tests.tracking_parts import config_of

pytestmark = pytest.mark.slow

RUN = """
import json, sys, time
from pathlib import Path
from tests.tracking_parts import config_of
from flows import tracker
from flows.log import Log, alive

config = config_of(Path(sys.argv[1]), *sys.argv[3:])
tracker.start(config)
parent = Log(config, {"seed": "0,1"}, None)
tracker.ask("begin", parent.folder, config)
for seed in "01":
    with Log(config, {"seed": seed}, parent.record.id) as log:
        parent.record.children.append(log.record.id)
    print(log.record.id, flush=True)
    try:
        alive(log.folder).release()
        print("free", flush=True)
    except TimeoutError:  # nobody else may log it meanwhile
        print("held", flush=True)
if sys.argv[2] == "sleep":
    print(tracker._beside().process.pid, flush=True)
    time.sleep(600)
with parent:
    pass
alive(log.folder).release()  # logged before its parent
print(parent.record.id, parent.record.mlflow_run_id, "mlflow" in sys.modules)
"""


def run(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def outputs(folder: Path) -> str:
    return f"outputs={folder}/outputs"


def ended(pid: int) -> bool:
    for _ in range(300):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def test_points_are_logged_while_the_sweep_goes_on(tmp_path: Path) -> None:
    out, errors = run(tmp_path, "log", outputs(tmp_path)).communicate(timeout=200)
    first, held, second, also_held, last = out.splitlines()
    parent, run_id, imported = last.split()
    assert (held, also_held, imported) == ("held", "held", "False"), errors
    config = config_of(tmp_path, outputs(tmp_path))
    client = connect(config)[0]
    for point in (first, second):
        state = tracked(tmp_path / "outputs" / point)
        assert state
        assert state.whole
        found = client.get_run(state.run_id)
        assert found.info.status == "FINISHED"
        assert found.data.tags["mlflow.parentRunId"] == run_id
        assert state.run_id in client.get_run(run_id).data.tags["mlflow.note.content"]
    assert tracked(tmp_path / "outputs" / parent)
    assert waiting(tmp_path / "outputs") == []


def test_a_tracker_that_is_killed_costs_the_run_nothing(tmp_path: Path) -> None:
    started = run(tmp_path, "sleep", outputs(tmp_path))
    assert started.stdout
    lines = [started.stdout.readline() for _ in range(5)]
    beside = psutil.Process(int(lines[4]))
    started.kill()  # kill -9 of the run: what it has asked for is logged, then the other ends
    started.communicate()
    assert ended(beside.pid)

    code = RUN.replace("parent = Log", "tracker._beside().process.kill(); parent = Log")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "log", outputs(tmp_path)],
        cwd=ROOT, text=True, capture_output=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    parent, run_id, _ = done.stdout.splitlines()[-1].split()
    assert run_id == "None"
    folder = tmp_path / "outputs" / parent
    assert f"has ended. The run is kept in {folder}: `python -m flows.track` logs" in done.stderr
    assert folder in waiting(tmp_path / "outputs")


def test_a_server_that_is_not_there_is_said_once_a_run(tmp_path: Path) -> None:
    words = (outputs(tmp_path), "tracking.uri=http://127.0.0.1:9")
    out, errors = run(tmp_path, "log", *words).communicate(timeout=200)
    assert out.splitlines()[-1].split()[1:] == ["None", "False"]
    said = [line for line in errors.splitlines() if "No tracking server answers" in line]
    assert len(said) == 4  # the sweep as it began, its two points, the sweep
    assert len(waiting(tmp_path / "outputs")) == 3


def test_ctrl_c_reaches_the_run_alone(tmp_path: Path) -> None:
    started = run(tmp_path, "sleep", outputs(tmp_path))
    assert started.stdout
    pid = int([started.stdout.readline() for _ in range(5)][4])
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does
    started.communicate(timeout=60)
    assert ended(pid)
    states = [json.loads(p.read_text()) for p in (tmp_path / "outputs").glob("*/.mlflow.json")]
    assert sorted(state.get("whole", False) for state in states) == [False, True, True]
