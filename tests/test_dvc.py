"""The DVC pipeline, on a fresh clone without network."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from components.files import ROOT
from flows.params import text


def test_params_yaml_says_what_conf_says() -> None:
    assert (ROOT / "params.yaml").read_text(encoding="utf-8") == text([]), (
        "params.yaml is stale: run `python -m flows.params`"
    )


def sh(command: str, cwd: Path) -> str:
    """Run a command in a clone, with this Python's programs first on the path."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CLAIMFLOW_HOME": os.environ.get("CLAIMFLOW_HOME", str(ROOT / ".claimflow")),
        "CLAIMFLOW_CACHE": str(cwd / "cache"),
        "DVC_NO_ANALYTICS": "1",
    }
    done = subprocess.run(
        shlex.split(command), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, demo_cache: Path) -> Path:
    where = tmp_path_factory.mktemp("clone") / "claimflow"
    sh(f"git clone -q {ROOT} {where}", ROOT)
    (where / "cache").symlink_to(demo_cache)
    sh("git config user.email test@example.org", where)
    sh("git config user.name Test", where)
    sh("dvc pull -q", where)
    return where


@pytest.mark.slow
@pytest.mark.serverless
@pytest.mark.xdist_group("demo")
def test_repro_on_a_fresh_clone_gives_the_recorded_metrics(clone: Path) -> None:
    assert (clone / "data" / "demo" / "dev.json").exists()
    recorded = json.loads((clone / "pipeline" / "scores" / "metrics.json").read_text())
    sh("dvc repro --force -q", clone)
    again = json.loads((clone / "pipeline" / "scores" / "metrics.json").read_text())
    assert again == recorded
    assert sh("git status --porcelain --untracked-files=no", clone) == ""  # dvc.lock included
    assert "up to date" in sh("dvc repro", clone)
    assert "qa" in sh("dvc metrics show", clone)
    assert "confidence" in sh("dvc plots show --show-vega pipeline/scores/calibration.csv", clone)


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_a_changed_parameter_is_an_experiment(clone: Path) -> None:
    sh("dvc exp run -q -n other -S retriever.mmr.balance=0.5 -S answerer.limit=5", clone)
    shown = json.loads(sh("dvc params diff --json", clone))["params.yaml"]
    changed = {name: (was["old"], was["new"]) for name, was in shown.items()}
    assert changed["answerer.limit"] == (10, 5)
    assert changed["retriever.mmr.balance"][1] == 0.5
    assert "other" in sh("dvc exp show --csv --only-changed", clone)
