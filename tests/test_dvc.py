"""The DVC pipeline, on a fresh clone without network."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.errors import ClaimflowError
from components.files import ROOT
from flows.cli import composed, from_file
from flows.params import main, text


def test_params_yaml_says_what_conf_says() -> None:
    assert (ROOT / "params.yaml").read_text(encoding="utf-8") == text([]), (
        "params.yaml is stale: run `python -m flows.params`"
    )


def resolved(config: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config, resolve=True)


@pytest.fixture
def params(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    main([], path)
    return path


def test_params_yaml_means_what_conf_means(params: Path) -> None:
    assert resolved(from_file(params, [])) == resolved(composed(["name=dvc"]))


def test_what_places_share_changes_in_all_of_them_each_time(params: Path) -> None:
    """As `dvc exp run -S` changes it, one time after another."""
    from dvc.utils.hydra import apply_overrides

    before = yaml.safe_load(params.read_text())
    apply_overrides(params, ["embedder.max_length=128", "limit=5"])
    apply_overrides(params, ["embedder.max_length=64"])
    config = resolved(from_file(params, []))
    retriever = config["retriever"]
    users = [retriever["dense"], retriever["mmr"], config["verdict"]]
    assert [user["encoder"]["max_length"] for user in users] == [64] * 3
    assert config["dataset"]["limit"] == config["limit"] == 5
    before["limit"] = 5
    before["embedder"]["max_length"] = 64
    assert yaml.safe_load(params.read_text()) == before


def test_a_choice_is_no_parameter(params: Path) -> None:
    from dvc.utils.hydra import apply_overrides

    apply_overrides(params, ["retriever=bm25s"])
    with pytest.raises(ClaimflowError, match=r"flows\.params retriever=bm25s"):
        from_file(params, [])


def test_stages_depend_on_every_setting_that_they_read() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    settings = yaml.safe_load(text([]))
    idle = {"name", "primary", "shown", "runner"}  # they change no result
    assert {key for stage in stages.values() for key in stage["params"]} == set(settings) - idle
    for name, stage in stages.items():
        own = yaml.safe_dump({key: settings[key] for key in stage["params"]})
        shared = set(re.findall(r"\$\((\w+)\)", own))
        assert shared <= set(stage["params"]), name
    # What they give depends on all steps that run before, also where those keep no file.
    slots = set(settings["pipeline"]) - {"guard"}  # of the stage data
    for name in ("train", "predict"):
        assert {*slots, "pipeline", "seed"} <= set(stages[name]["params"])


@pytest.mark.parametrize("active", [True, False])
def test_stages_find_the_python_of_the_project(tmp_path: Path, active: bool) -> None:
    """`.venv/bin/dvc repro` works with nothing activated; an active environment comes first."""
    for where in (".venv", "other"):
        program = tmp_path / where / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho {where} $@\n")
        program.chmod(0o755)
    path = f"{tmp_path}/other/bin:/usr/bin:/bin" if active else "/usr/bin:/bin"
    done = subprocess.run(
        ["sh", ROOT / "flows" / "python.sh", "-m", "x"], cwd=tmp_path,
        env={"PATH": path, **({"VIRTUAL_ENV": f"{tmp_path}/other"} if active else {})},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ("other -m x\n" if active else ".venv -m x\n")


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


def locked(where: Path) -> dict[str, Any]:
    """Stages of the DVC pipeline, and what each gave when it was last recorded."""
    stages = yaml.safe_load((where / "dvc.lock").read_text())["stages"]
    return {name: stage["outs"] for name, stage in stages.items()}


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_repro_on_a_fresh_clone_gives_the_recorded_metrics(clone: Path) -> None:
    assert (clone / "data" / "demo" / "dev.json").exists()
    recorded = json.loads((clone / "pipeline" / "scores" / "metrics.json").read_text())
    sh("dvc repro --force -q", clone)
    again = json.loads((clone / "pipeline" / "scores" / "metrics.json").read_text())
    assert again == recorded
    # Another kind of processor rounds otherwise: that reaches the weights of the verdict's head and
    # the last digits of probabilities, and must reach nothing else.
    changed = sh("git diff --name-only", clone).split()
    assert set(changed) <= {"dvc.lock", "pipeline/scores/calibration.csv"}
    now, then = locked(clone), locked(ROOT)
    assert now.keys() == then.keys() == {"data", "index", "train", "predict", "score"}
    assert {name for name in now if now[name] != then[name]} <= {"train", "predict", "score"}
    assert "up to date" in sh("dvc repro", clone)
    assert "qa" in sh("dvc metrics show", clone)
    plots = ROOT / "dvc.yaml"
    for plot in yaml.safe_load(plots.read_text())["stages"]["score"]["plots"]:
        [(file, axes)] = plot.items()
        vega = json.loads(sh(f"dvc plots show --show-vega {file}", clone))
        drawn = vega["data"]["values"]
        assert drawn
        assert all({axes["x"], axes["y"]} <= point.keys() for point in drawn)
    page = sh("dvc plots show", clone)
    assert "dvc_plots/index.html" in page
    assert "dvc_plots" not in sh("git status --porcelain", clone)


@pytest.mark.slow
@pytest.mark.xdist_group("demo")
def test_a_changed_parameter_is_an_experiment(clone: Path) -> None:
    [said] = re.findall(r"^dvc exp run (.+)$", (ROOT / "README.md").read_text("utf-8"), re.M)
    done = sh(f"dvc exp run -n other {said}", clone)
    stages = re.findall(r"Running stage '(\w+)'", done)
    assert stages == ["train", "predict", "score"]  # data and index don't read it
    shown = json.loads(sh("dvc params diff --json", clone))["params.yaml"]
    changed = {name: (was["old"], was["new"]) for name, was in shown.items()}
    assert changed == {"answerer.limit": (10, 5)}
    assert "other" in sh("dvc exp show --csv --only-changed", clone)
