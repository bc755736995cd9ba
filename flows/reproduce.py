"""Run a logged run again from what it logged, and compare.

    python -m flows.reproduce +run=ID              an MLflow run id or a run folder's id
    python -m flows.reproduce +run=ID +fresh=false with the shared cache: checks the wiring only

Byte-identical predictions, or a list of what differs and what may be why; then exit code 1.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.record import RunRecord


def main(config: DictConfig) -> None:
    """Rebuild, compare, report."""
    from components.errors import ClaimflowError
    from flows.experiment import run
    from flows.tracking import read_record

    if not config.get("run"):
        raise ClaimflowError("Which run? Give +run=ID (of the MLflow page or of a run folder).")
    folder = find(str(config.run), config)
    old = read_record(folder)
    if not (folder / "predictions.jsonl").exists():
        raise ClaimflowError(
            f"Run {config.run} kept no predictions ({old.status}): nothing to compare."
        )
    with tempfile.TemporaryDirectory() as fresh:
        again = logged_config(folder, config)
        again.name = f"reproduces {old.name}"
        if config.get("fresh", True):
            again.cache = fresh
        new = run(again)
    found = differences(folder, Path(config.outputs) / new.id)
    if not found:
        print(f"Byte-identical: {old.counts.get('claims', 0)} predictions of run {old.id}.")
        return
    for line in found:
        print(line)
    print("What may be why:")
    for line in reasons(old, new) or ["nothing that was logged differs"]:
        print(f"  {line}")
    raise ClaimflowError(f"Run {old.id} was not reproduced: {len(found)} differences.")


def find(run: str, config: DictConfig) -> Path:
    """The folder of a run: below outputs/, or fetched from the tracker."""
    from components.errors import ClaimflowError
    from flows.tracking import connect, read_record

    for path in Path(config.outputs).glob("*/run.json"):
        if path.parent.name == run or read_record(path.parent).mlflow_run_id == run:
            return path.parent
    if config.tracking.uri:
        from mlflow.exceptions import MlflowException

        client, _ = connect(config)
        try:
            return Path(client.download_artifacts(run, "", tempfile.mkdtemp()))
        except MlflowException:
            pass
    raise ClaimflowError(
        f"No run {run} below {config.outputs}/ or in {config.tracking.uri}. "
        "`make dashboard` shows the ids."
    )


def logged_config(folder: Path, config: DictConfig) -> DictConfig:
    """The config that a run logged; where things lie on this machine is taken from here."""
    from omegaconf import OmegaConf

    logged: Any = OmegaConf.load(folder / "config.yaml")
    for key in ("cache", "outputs", "tracking", "out"):
        logged[key] = config[key]
    return logged  # type: ignore[no-any-return]


def differences(old: Path, new: Path) -> list[str]:
    """What differs between two runs' predictions, one line each; empty when byte-identical."""
    from components.records import read_lines

    first, second = (folder / "predictions.jsonl" for folder in (old, new))
    if first.read_bytes() == second.read_bytes():
        return []
    a, b = ({row["id"]: row for _, row in read_lines(p, dict)} for p in (first, second))
    lines = [
        f"claim {i}: only in the {'old' if i in a else 'new'} run" for i in a.keys() ^ b.keys()
    ]
    for i in a.keys() & b.keys():
        fields = [f for f in sorted(a[i].keys() | b[i].keys()) if a[i].get(f) != b[i].get(f)]
        if fields:
            lines.append(f"claim {i}: {', '.join(fields)}")
    return sorted(lines) or ["the order of the claims"]


def reasons(old: RunRecord, new: RunRecord) -> list[str]:
    """What was logged of the two runs' surroundings and is not the same."""
    lines = []
    for key in ("git_commit", "git_dirty", "python", "platform"):
        then, now = old.environment.get(key), new.environment.get(key)
        if then != now or (key == "git_dirty" and now):
            lines.append(f"{key}: {then} then, {now} now")
    versions = [run.environment.get("versions", {}) for run in (old, new)]
    for package in sorted(versions[0].keys() | versions[1].keys()):
        then, now = (v.get(package, "none") for v in versions)
        if then != now:
            lines.append(f"package {package}: {then} then, {now} now")
    for then, now in zip(old.datasets, new.datasets, strict=False):
        if then["digest"] != now["digest"]:
            lines.append(
                f"data {then['name']} {then['split']}: {then['digest']} then, {now['digest']} now"
            )
    return lines


if __name__ == "__main__":
    entry(main)
