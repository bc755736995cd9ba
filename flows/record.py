"""A run as a folder: everything that is known of it, before and apart from any tracker.

outputs/ID/
  run.json           this record
  config.yaml        the resolved config
  predictions.jsonl  one prediction a claim
  per_claim.jsonl    one row a claim: its scores; groups.jsonl: its types and strategies, if known
  trace.jsonl        one row a claim and step: seconds, tokens, from cache or not
  rankings.jsonl     documents found for each claim, best first; run.trec: the same as a TREC run,
                     qrels.trec: what is relevant
  report.md, plots/, submission files, tables/
"""

from __future__ import annotations

import datetime
import functools
import getpass
import importlib.metadata
import os
import platform
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec.yaml

from components.files import ROOT, write_whole
from components.records import Record, encode
from components.score.base import Measure

if TYPE_CHECKING:
    from omegaconf import DictConfig

PACKAGES = (
    "bm25s",
    "dvc",
    "hydra-core",
    "mlflow",
    "nltk",
    "peft",
    "prefect",
    "rank-bm25",
    "sentence-transformers",
    "torch",
    "transformers",
    "vllm",
)


class StageReport(Record, omit_defaults=False):
    """One stage of a run, as logged: what, how many, how long, how many from cache."""

    name: str
    cases: int
    cached: int
    failed: int
    seconds: float
    identity: str = ""  # digest of parameters, code and model files behind the stage


class RunRecord(Record, omit_defaults=False):
    """What is known of a run. Times are UTC; seconds and peak memory are by stage."""

    id: str
    name: str
    flow: str = "flows.experiment"
    axes: dict[str, str] = {}
    choices: dict[str, str] = {}  # Hydra group to choice
    status: str = "running"  # running, finished, failed, killed
    error: str | None = None
    parent: str | None = None  # id of the sweep's record
    children: list[str] = []  # of a sweep: ids of its points
    started: str = ""
    ended: str = ""
    measures: dict[str, Measure] = {}
    unmeasured: dict[str, str] = {}  # measures without a value, and why
    seconds: dict[str, float] = {}
    peak_mb: dict[str, float] = {}
    tokens: dict[str, float] = {}
    cache: dict[str, int] = {}  # hits, misses
    stages: list[StageReport] = []
    counts: dict[str, int] = {}  # claims, documents, dropped ones by reason, failed cases
    adapters: dict[str, dict[str, str]] = {}  # by config key: reference, version, MLflow run
    training: dict[str, dict[str, float]] = {}  # by step: what it cost, what it learned
    notes: list[str] = []
    datasets: list[dict[str, str]] = []  # name, split, digest, source, context
    environment: dict[str, Any] = {}
    predictions_digest: str | None = None
    mlflow_run_id: str | None = None  # for `out=`; the folder keeps it in .mlflow.json


def new_record(name: str, axes: dict[str, str], parent: str | None = None) -> RunRecord:
    """A record with an id that no other start shares, also within one second."""
    now = datetime.datetime.now(datetime.UTC)
    return RunRecord(
        id=f"{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}",
        name=name,
        axes=axes,
        choices=choices(),
        parent=parent,
        started=now.isoformat(),
        environment=environment(),
    )


def choices() -> dict[str, str]:
    """What each Hydra group was set to, when Hydra runs this process; none of those left null."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return {}
    chosen = HydraConfig.get().runtime.choices
    return {
        group: str(choice)
        for group, choice in chosen.items()
        if "hydra" not in group and not str(choice).startswith("None")  # `system` and its models
    }


def save(record: RunRecord, folder: Path) -> None:
    """Write run.json, whole."""
    write_whole(folder / "run.json", encode(record))


@functools.cache  # what this process runs: an edit during a sweep does not change that
def environment() -> dict[str, Any]:
    """Commit, whether the tree was dirty, versions, machine."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        # Files in no commit count where code and config are: other ones change no run.
        "git_dirty": bool(
            _git("status", "--porcelain", "--untracked-files=no")
            or _git("status", "--porcelain", "components", "conf", "flows")
        ),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "user": _user(),
        "versions": versions,
    }


def _processor() -> str:
    """The kind of processor. Libraries choose instructions by it, which round differently: a
    probability may be another in its last digit."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
    except OSError:  # not Linux
        return platform.processor()
    known = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    words = ("model name", "cpu family", "model", "CPU implementer", "CPU part")
    flags = known.get("flags", "").split()
    vectors = [name for name in ("avx2", "avx512f") if name in flags][-1:]
    return ", ".join([*(f"{word} {known[word]}" for word in words if word in known), *vectors])


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return ""


def _git(*words: str) -> str | None:
    try:
        out = subprocess.run(
            ["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # not a checkout: the record says so by null
    return out.stdout.strip()


def without(unmeasured: dict[str, str]) -> dict[str, Any]:
    """How `out=` holds measures that have no value."""
    return {name: {"value": None, "reason": why} for name, why in unmeasured.items()}


def public(record: RunRecord, outputs: Path) -> dict[str, Any]:
    """What `out=FILE.json` holds for a run; its folder has the rest."""
    return {
        "name": record.name,
        "folder": str((outputs / record.id).absolute()),
        "axes": record.axes,
        "status": record.status,
        "error": record.error,
        "measures": record.measures | without(record.unmeasured),
        "seconds": record.seconds,
        "cache": record.cache,
        "training": record.training,
        "stages": record.stages,
        "mlflow_run_id": record.mlflow_run_id,
    }


def write_out(config: DictConfig, records: list[RunRecord]) -> None:
    """Write the list of runs to `out=`; nothing when it is null."""
    if config.out:
        runs = [public(record, Path(config.outputs)) for record in records]
        write_whole(Path(config.out), encode(runs) + b"\n")


def read_config(folder: Path) -> dict[str, Any]:
    """The resolved config of a run's folder. Raises FileNotFoundError where it has none."""
    return dict(msgspec.yaml.decode((folder / "config.yaml").read_bytes()))
