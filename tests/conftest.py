"""What all tests share."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest

import flows.cli  # noqa: F401 sets what libraries, and the server, read at their start
from components.files import ROOT
from tests import warm

# A machine that is busy is no fault of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

os.environ.setdefault("CLAIMFLOW_DATA", str(ROOT.parent / "shared" / "data"))
DATA = Path(os.environ["CLAIMFLOW_DATA"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(command: list[str], port: int, health: str = "health") -> Iterator[str]:
    """Start a server, wait until it answers, and end it with all its workers."""
    quiet = {
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, **quiet},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    uri = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert process.poll() is None, f"{command} ended"
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{uri}/{health}", timeout=2).close()
                break
            time.sleep(0.2)
        else:
            raise AssertionError(f"{command} never answered")
        yield uri
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Prefect server of this worker, with a database of its own: each process that starts its
    own takes seconds for it."""
    from flows.runners import own_server

    store = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('prefect')}/prefect.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", store)
        url = own_server()
    urllib.request.urlopen(f"{url}/health", timeout=180).close()
    return url


@pytest.fixture(autouse=True)
def _prefect(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow tests of commands use the server; those marked `serverless` go without, as a user does.
    What runs in this process uses it anyway."""
    marked = request.node.get_closest_marker
    if marked("slow") and not marked("serverless") and "experiment" not in request.fixturenames:
        monkeypatch.setenv("PREFECT_API_URL", request.getfixturevalue("prefect_server"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: a plain mistake shows within seconds."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture(scope="session")
def demo_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the tests that need results of the default system, whoever computed them."""
    base = tmp_path_factory.getbasetemp()  # with several workers, below that of all
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo-cache"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with random weights: one small layer over MiniLM's words."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    from components.assets import MINILM, model

    folder = tmp_path_factory.mktemp("cross-encoder")
    words = AutoTokenizer.from_pretrained(model(MINILM))
    torch.manual_seed(13)
    config = BertConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=1, initializer_range=0.5,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


class Ran(NamedTuple):
    """A run made in this process: its record and its folder."""

    record: Any
    folder: Path

    def computed(self) -> dict[str, int]:
        """How many cases each stage computed; stages served from the cache are left out."""
        stages = {s.name: s.cases - s.cached for s in self.record.stages}
        return {name: count for name, count in stages.items() if count}

    def predictions(self) -> bytes:
        return (self.folder / "predictions.jsonl").read_bytes()


def compose(*overrides: str) -> Any:
    """The config that a command line would give."""
    from flows.cli import composed

    return composed(list(overrides))


@pytest.fixture
def experiment(tmp_path: Path, prefect_server: str) -> Callable[..., Ran]:
    """Run an experiment in this process, below tmp_path; nothing is tracked unless asked."""
    from flows.experiment import run

    def go(*overrides: str) -> Ran:
        places = [f"outputs={tmp_path}/outputs", f"cache={tmp_path}/cache", "tracking=none"]
        record = run(compose("name=test", *places, *overrides))
        return Ran(record, tmp_path / "outputs" / record.id)

    return go


def swept(*words: str, out: Path) -> list[dict[str, Any]]:
    """A sweep as from the command line, but in this process; what `out=` holds."""
    from flows.cli import entry
    from flows.experiment import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["flows.experiment", *words, f"out={out}"])
        entry(main)
    found: list[dict[str, Any]] = json.loads(out.read_text())
    return found


def command(
    *words: str, cwd: Path = ROOT, fresh: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`python -m WORDS`, as a fork that has the libraries; fresh: as a user calls it."""
    env = {**os.environ, **environment}
    if not fresh:
        return warm.run(list(words), cwd, env)
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
