"""Run a logged run again from what it logged, and compare.

    python -m flows.reproduce run=ID              an MLflow run id or a run folder's id
    python -m flows.reproduce run=ID fresh=false  with the shared cache: checks the wiring only

A run whose folder is gone is fetched from the tracker. Byte-identical predictions, or a list of
what differs and what may be why; then exit code 1.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.record import RunRecord


COMPARED = ("predictions.jsonl", "rankings.jsonl")


def main(config: DictConfig) -> None:
    """Rebuild, compare, report."""
    from components.errors import ClaimflowError
    from flows.experiment import run
    from flows.log import Log
    from flows.record import write_out
    from flows.tracking import parameters, read_record

    if not config.run:
        raise ClaimflowError("Which run? Give run=ID (of the MLflow page or of a run folder).")
    with found(str(config.run), config) as folder, tempfile.TemporaryDirectory() as fresh:
        old = read_record(folder)
        if old.children:
            raise ClaimflowError(
                f"Run {config.run} is a sweep. Reproduce one of its points: run="
                + ", ".join(old.children)
            )
        if not all((folder / name).exists() for name in (*COMPARED, "trace.jsonl")):
            raise ClaimflowError(
                f"Run {config.run} kept no predictions ({old.status}): nothing to compare."
            )
        again = logged_config(folder, config)
        again.name = f"reproduces {old.name} of {old.id}"
        if config.fresh:
            again.cache = fresh
        log = Log(again, old.axes)
        log.record.choices = old.choices
        new = run(again, log)
        write_out(config.out, [new])
        lines = differences(folder, log.folder)
        why = reasons(old, new) + settings(parameters(folder, old), parameters(log.folder, new))
    if not lines:
        print(f"Byte-identical: {old.counts.get('claims', 0)} predictions of run {old.id}.")
        if why:
            print("Though these differ:")
            print("\n".join(f"  {line}" for line in why))
        return
    print("\n".join(lines))
    print("What may be why:")
    print("\n".join(f"  {line}" for line in why or ["nothing that was logged differs"]))
    raise ClaimflowError(f"Run {old.id} was not reproduced: {len(lines)} differences.")


@contextlib.contextmanager
def found(run: str, config: DictConfig) -> Iterator[Path]:
    """The folder of a run: below outputs/, or fetched from the tracker for the time being."""
    from components.errors import ClaimflowError
    from flows.tracking import connection, read_record

    for path in Path(config.outputs).glob("*/run.json"):
        if path.parent.name == run or read_record(path.parent).mlflow_run_id == run:
            yield path.parent
            return
    with tempfile.TemporaryDirectory() as fetched:
        if config.tracking.uri:
            from mlflow.exceptions import MlflowException

            with contextlib.suppress(MlflowException), connection(config) as (client, _):
                client.download_artifacts(run, "", fetched)
        if not (Path(fetched) / "run.json").exists():
            raise ClaimflowError(
                f"No run {run} below {config.outputs}/ or in {config.tracking.uri}. "
                "`make dashboard` shows the ids."
            )
        yield Path(fetched)


def logged_config(folder: Path, config: DictConfig) -> DictConfig:
    """The config that a run logged; where things lie on this machine is taken from here."""
    from omegaconf import OmegaConf

    logged: Any = OmegaConf.load(folder / "config.yaml")
    for key in ("cache", "outputs", "tracking", "out"):
        logged[key] = config[key]
    if config.path:
        logged.path = logged.dataset.path = config.path
    return logged  # type: ignore[no-any-return]


def differences(old: Path, new: Path) -> list[str]:
    """What differs between two runs' predictions and rankings, one line a claim: which parts of
    it, and the first result on the way there that isn't the same. Empty when byte-identical."""
    if all((old / name).read_bytes() == (new / name).read_bytes() for name in COMPARED):
        return []
    a, b = (rows(folder, *COMPARED) for folder in (old, new))
    traces = [rows(folder, "trace.jsonl") for folder in (old, new)]
    lines = []
    for i in dict.fromkeys([*a, *b]):
        if i not in a or i not in b:
            lines.append(f"claim {i}: only in the {'old' if i in a else 'new'} run")
        elif parts := [f for f in dict.fromkeys([*a[i], *b[i]]) if a[i].get(f) != b[i].get(f)]:
            then, now = (trace.get(i, {}).get("digests", {}) for trace in traces)
            apart = [f for f in sorted(now, key=_stage) if then.get(f) != now[f]]
            lines.append(f"claim {i}: {', '.join(parts)} (first apart: {(apart or parts)[0]})")
    return lines or ["the order of the claims"]


def _stage(field: str) -> int:
    """How early in a pipeline a field is filled in: `Case` names them in that order."""
    from components.records import Case

    return Case.__struct_fields__.index(field.partition(".")[0])


def rows(folder: Path, *files: str) -> dict[str, dict[str, Any]]:
    """The rows of a run's files by claim; what several files say of one is joined."""
    from components.records import read_lines

    found: dict[str, dict[str, Any]] = {}
    for file in files:
        for _, row in read_lines(folder / file, dict):
            found.setdefault(row["id"], {}).update(row)
    return found


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
    data = [{(d["name"], d["split"]): d["digest"] for d in run.datasets} for run in (old, new)]
    for name, split in sorted(data[0].keys() | data[1].keys()):
        then, now = (d.get((name, split), "none") for d in data)
        if then != now:
            lines.append(f"data {name} {split}: {then} then, {now} now")
    return lines


def settings(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Config values that are not the same; where things are kept doesn't count."""
    return [
        f"setting {key}: {old.get(key, 'none')} then, {new.get(key, 'none')} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
        and key.partition(".")[0] not in ("cache", "outputs", "tracking", "out")
    ]


if __name__ == "__main__":
    entry(main, "reproduce")
