"""Run a logged run again from what it logged, and compare.

    python -m flows.reproduce run=ID               an MLflow run id or a run folder's id
    python -m flows.reproduce run=ID fresh=false   with the shared cache: checks the wiring only
    python -m flows.reproduce run=ID path=FOLDER   when the data set lies elsewhere now

Byte-identical predictions and rankings, or a list of what differs and what may be why; then exit
code 1. The run is taken from its folder below outputs/, else from the tracker.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.record import RunRecord

RESULTS = ("predictions.jsonl", "rankings.jsonl")


def main(config: DictConfig) -> None:
    """Rebuild, compare, report."""
    from components.errors import ClaimflowError
    from flows.experiment import run
    from flows.log import Log
    from flows.record import write_out
    from flows.tracking import read_record

    if not config.run:
        raise ClaimflowError("Which run? Give run=ID (of the MLflow page or of a run folder).")
    with tempfile.TemporaryDirectory() as scratch:
        folder = find(str(config.run), config, Path(scratch))
        old = read_record(folder)
        if old.children:
            raise ClaimflowError(
                f"{config.run} is a sweep: reproduce its runs, {', '.join(old.children)}."
            )
        if old.flow != "flows.experiment":
            raise ClaimflowError(
                f"{config.run} was made by {old.flow}, not by an experiment: give the id of one."
            )
        if old.status != "finished":
            raise ClaimflowError(
                f"Run {config.run} was {old.status}: it has no results. Give one that finished."
            )
        if lost := [n for n in ("config.yaml", *RESULTS) if not (folder / n).is_file()]:
            here = scratch not in str(folder)
            other = f": remove {folder} to take the run from the tracker" if here else ""
            raise ClaimflowError(
                f"Run {config.run} has lost {' and '.join(lost)}, so there is nothing to compare "
                f"with{other}, or give another run."
            )
        again = logged_config(folder, config)
        again.name = f"reproduces {old.name}"
        if config.fresh:
            again.cache = f"{scratch}/cache"
        log = Log(again, old.axes)
        log.record.choices = old.choices
        new = run(again, log)
        write_out(config, [new])
        found = differences(folder, log.folder) + changed_measures(old, new)
    if not found:
        print(
            f"Byte-identical: predictions and rankings of {old.counts['claims']} claims, and all "
            f"{len(old.measures)} measures, of run {old.id}."
        )
        return
    print("\n".join([*found, "What may be why:"]))
    for line in reasons(old, new) or ["nothing that was logged differs"]:
        print(f"  {line}")
    raise ClaimflowError(
        f"Run {old.id} was not reproduced, differences: {len(found)}. The lines above say what "
        "differs, and what of code, data or versions does."
    )


def find(run: str, config: DictConfig, scratch: Path) -> Path:
    """The folder of a run: below outputs/, or fetched from the tracker into `scratch`."""
    from components.errors import ClaimflowError
    from flows.tracking import connect, tracked

    for path in Path(config.outputs).glob("*/run.json"):
        state = tracked(path.parent)
        if run == path.parent.name or (state and state.run_id == run):
            return path.parent
    if config.tracking.uri:
        from mlflow.exceptions import MlflowException

        client, experiment = connect(config)
        try:
            named = client.search_runs([experiment], f"tags.`claimflow.id` = '{run}'")
            run_id = named[0].info.run_id if named else run
            folder = Path(client.download_artifacts(run_id, "", str(scratch)))
            if (folder / "run.json").exists():
                return folder
        except MlflowException:
            pass  # it has no such run
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
    if config.path:
        logged.path = logged.dataset.path = config.path
    return logged  # type: ignore[no-any-return]


def differences(old: Path, new: Path) -> list[str]:
    """What differs between two runs' results, a line a claim; empty when byte-identical."""
    from components.records import read_lines

    lines = []
    for name in RESULTS:
        first, second = old / name, new / name
        if first.read_bytes() == second.read_bytes():
            continue
        a, b = ({row["id"]: row for _, row in read_lines(p, dict)} for p in (first, second))
        found = []
        for i in [*a, *(i for i in b if i not in a)]:
            if i not in a or i not in b:
                found.append(f"claim {i}: in {name} of the {'old' if i in a else 'new'} run only")
            elif a[i] != b[i]:
                fields = sorted(f for f in a[i].keys() | b[i].keys() if a[i].get(f) != b[i].get(f))
                found.append(f"claim {i}: {', '.join(_change(f, a[i], b[i]) for f in fields)}")
        lines += found or [f"{name}: the order of the claims"]
    return lines


def _change(field: str, a: dict[str, Any], b: dict[str, Any]) -> str:
    then, now = a.get(field), b.get(field)
    if isinstance(then, str) and isinstance(now, str) and len(then) + len(now) < 80:
        return f"{field} {then} then, {now} now"
    if isinstance(then, list) and isinstance(now, list):
        pairs = zip(then, now, strict=False)
        place = next((n for n, (x, y) in enumerate(pairs, 1) if x != y), None)
        return f"{field} from number {place or min(len(then), len(now)) + 1} on"
    return field


def changed_measures(old: RunRecord, new: RunRecord) -> list[str]:
    """Measures whose value or interval is another."""
    lines = []
    for name in dict.fromkeys([*old.measures, *new.measures]):
        then, now = old.measures.get(name), new.measures.get(name)
        if then != now:
            values = [f"{m.value:.6f}" if m else "none" for m in (then, now)]
            if then and now and then.value == now.value:
                lines.append(f"measure {name}: its interval")
            else:
                lines.append(f"measure {name}: {values[0]} then, {values[1]} now")
    return lines


def reasons(old: RunRecord, new: RunRecord) -> list[str]:
    """What was logged of the two runs' data, code and surroundings and is not the same."""
    lines = []

    def compare(what: str, then: dict[str, Any], now: dict[str, Any]) -> None:
        for key in dict.fromkeys([*then, *now]):
            if then.get(key) != now.get(key):
                lines.append(f"{what}{key}: {then.get(key)} then, {now.get(key)} now")

    digests = [{f"{d['name']} {d['split']}": d["digest"] for d in r.datasets} for r in (old, new)]
    compare("data ", *digests)
    stages = [{stage.name: stage.identity for stage in run.stages} for run in (old, new)]
    compare("code, parameters or model of ", *stages)
    compare("package ", *(run.environment.get("versions", {}) for run in (old, new)))
    keys = ("git_commit", "git_dirty", "python", "platform", "processor")
    compare("", *({key: run.environment.get(key) for key in keys} for run in (old, new)))
    if old.environment.get("git_dirty") and new.environment.get("git_dirty"):
        lines.append("git_dirty: both runs had changes that no commit holds")
    return lines


if __name__ == "__main__":
    entry(main, "reproduce")
