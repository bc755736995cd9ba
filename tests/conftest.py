"""What all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from components.files import ROOT

os.environ.setdefault("CLAIMFLOW_DATA", str(ROOT.parent / "shared" / "data"))
DATA = Path(os.environ["CLAIMFLOW_DATA"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: a plain mistake shows within seconds."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


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
    import hydra

    from flows.cli import CONF
    from flows.resolvers import register

    register()
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return hydra.compose("config", overrides=list(overrides))


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., Ran]:
    """Run an experiment in this process, below tmp_path; nothing is tracked unless asked."""
    from flows.experiment import run

    def go(*overrides: str) -> Ran:
        places = [f"outputs={tmp_path}/outputs", f"cache={tmp_path}/cache", "tracking=none"]
        record = run(compose("name=test", *places, *overrides))
        return Ran(record, tmp_path / "outputs" / record.id)

    return go


def command(*words: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m WORDS` as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
