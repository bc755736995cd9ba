"""Compare runs: intervals, paired tests, rank stability, claim by claim, cost.

    python -m flows.compare runs=[a.json,b.json]           files that out= of a flow wrote
    python -m flows.compare runs=[ID,ID,ID]                MLflow ids or run folders; a sweep: all
    python -m flows.compare runs=[TEAM.json,TEAM.csv] gold=dev.json     files of predictions
    python -m flows.compare runs=[TABLE:ONE,TABLE:TWO] gold=FILE scorer=scifact_open
    python -m flows.compare runs='{HerO: hero.json, ours: ID}' primary=qa out=FILE.json

Any mix will do. What was found is printed; the whole report lies in the folder of the comparison
below outputs/ (report.html has it all in one file; CSV tables beside it) and in MLflow, as a run of
its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from components.report.compare import Point


KEPT = ("runs", "gold", "primary", "shown", "pair", "claims", "draws", "seed")  # of the config


def main(config: DictConfig) -> None:
    """Read the runs, compare them, keep, print and write the report."""
    from omegaconf import OmegaConf

    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.records import encode
    from components.report import page
    from components.report.brief import brief
    from components.report.compare import check_measures, compare, unlike
    from components.report.sections import two_of
    from components.score.base import Measure
    from flows.contrast import differing
    from flows.log import Log, say

    settings: Any = OmegaConf.to_container(config)
    given = settings["runs"] or []
    points = read(given if isinstance(given, (list, dict)) else [given], config)
    if len([point for point in points if not point.error]) < 2:
        raise ClaimflowError(
            f"A comparison needs two runs, and {points[0].name if points else 'none'} is here: "
            "runs=[FILE,ID,…] takes files of out=, files of predictions (with gold=FILE), run "
            "folders and MLflow ids."
        )
    if reason := unlike(points):
        raise ClaimflowError(f"These runs can't be compared claim by claim: {reason}.")
    shared = [set(point.measures) for point in points if not point.error]
    if not set.union(*(a & b for a, b in itertools.combinations(shared, 2))):
        raise ClaimflowError(
            "No two of these runs have a measure in common: score them by the same scorer."
        )
    shown = list(config.shown or [])
    own = dict.fromkeys(name for point in points for name in point.measures)
    check_measures(list(own), config.primary, shown)
    pair = _pair(config, points)
    names = [point.name for point in points]
    if not config.name:
        config.name = " and ".join(names) if len(names) == 2 else f"{len(names)} runs"
    log = Log(config)
    log.record.flow = "flows.compare"
    log.record.choices = {}  # of no system: those compared have their own
    log.keep_config({key: settings[key] for key in KEPT} | {"name": config.name})
    with log:
        with log.stage("compare"):
            gold = _gold(config)
            found = compare(
                f"Comparison of {config.name}", points, config.primary, shown, gold,
                config.draws, config.seed,
            )  # fmt: skip
            found.contrasts = differing(points)
        with log.stage("report"):
            page.write(log.folder, found, pair, config.claims)
        two = two_of(found, pair)
        for name in found.values if two else ():
            if test := found.pair(name, *two):
                value = Measure(value=test.value, low=test.low, high=test.high)
                log.record.measures[f"difference.{name}"] = value
                log.record.measures[f"p.{name}"] = Measure(value=test.p)
        log.record.notes += found.notes
    if config.out:
        kept = {"folder": str(log.folder), "mlflow_run_id": log.record.mlflow_run_id}
        write_whole(Path(config.out), encode({**page.public(found, two), **kept}) + b"\n")
    print(brief(found, pair, notes=True))
    say(f"Report: {log.folder / 'report.html'}")
    if log.record.mlflow_run_id:
        say(f"MLflow run {log.record.mlflow_run_id} in {config.tracking.uri} (`make dashboard`)")


def _pair(config: DictConfig, points: list[Point]) -> tuple[str, str] | None:
    """The runs of `pair=`, by name or by the values of their axes."""
    from components.errors import ClaimflowError, nearest
    from components.report.compare import labels

    if not config.pair:
        return None
    whole = [point for point in points if not point.error]
    known = {", ".join(point.axes.values()): point.name for point in whole}
    known |= {label: name for name, label in labels(whole).items() if label}
    known |= {point.name: point.name for point in whole}
    for name in config.pair:
        if name not in known:
            raise ClaimflowError(
                f"pair: no run is called {name}.{nearest(name, known)} "
                f"They are: {', '.join(dict.fromkeys(known.values()))}."
            )
    if len(pair := {known[name]: None for name in config.pair}) != 2:
        raise ClaimflowError("pair takes the names of two runs: pair=[NAME,NAME].")
    first, second = pair
    return first, second


def _gold(config: DictConfig) -> dict[str, Any]:
    from components.datasets.gold import read_gold

    return {claim.id: claim for claim in read_gold(Path(config.gold))} if config.gold else {}


# Reading runs


def read(given: list[Any] | dict[str, Any], config: DictConfig) -> list[Point]:
    """The runs that were named, whatever form they have; each with a name of its own."""
    import msgspec

    from flows.contrast import fill

    names = list(given) if isinstance(given, dict) else [None] * len(given)
    sources = list(given.values()) if isinstance(given, dict) else given
    points: list[Point] = []
    for name, source in zip(names, sources, strict=True):
        found = list(_of(str(source), config))
        for point in found:
            called = point.name if name is None else str(name)
            if name is not None and len(found) > 1:
                called = f"{name}: {point.name}"
            points.append(
                msgspec.structs.replace(
                    point, name=called, named=name is not None, source=str(source)
                )
            )
    fill(points)
    names_of = [point.name for point in points]
    for point in points:
        if point.axes and not point.named and names_of.count(point.name) > 1:
            point.name = ",".join(f"{axis}={value}" for axis, value in point.axes.items())
    for i, point in enumerate(points):
        taken = [other.name for other in points[:i]]
        number, name = 2, point.name
        while point.name in taken:
            point.name, number = f"{name} ({number})", number + 1
    return points


def _of(source: str, config: DictConfig) -> Iterator[Point]:
    from components.datasets.submission import named_system

    path, system = named_system(source)
    if path.is_file():
        runs = None if system else _out_file(path)
        if runs is None:
            yield _scored(source, path, config)
            return
        for run in runs:
            yield _from_out(run, path, config)
    elif (path / "run.json").is_file():
        yield from _folder(path, config)
    else:
        yield from _by_id(source, config)


def _out_file(path: Path) -> list[dict[str, Any]] | None:
    """The runs in a file that `out=` wrote; None for any other file."""
    import msgspec

    with open(path, "rb") as file:
        if file.read(1) != b"[":
            return None
    try:
        runs = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # the reader of predictions says what is wrong with it
    return runs if runs and all({"name", "measures"} <= run.keys() for run in runs) else None


def _from_out(run: dict[str, Any], path: Path, config: DictConfig) -> Point:
    """A run of `out=`: whole in the file itself, or in the folder or MLflow run that it names."""
    import msgspec

    from components.errors import ClaimflowError
    from components.report.compare import Point

    if run.get("error"):
        return Point(name=run["name"], axes=run.get("axes", {}), error=run["error"])
    if "per_claim" not in run and run.get("folder"):
        folder = Path(run["folder"])
        if (folder / "run.json").is_file():
            return next(_folder(folder, config))
        if run.get("mlflow_run_id"):
            return next(_by_id(run["mlflow_run_id"], config))
        raise ClaimflowError(
            f"{path}: the folder of run {run['name']}, {folder}, is gone, and with it what each "
            "claim scored. Run it again, or compare the file of its predictions with gold=FILE."
        )
    known = {key: run[key] for key in _fields(run) if key in run}
    known["measures"] = {m: v for m, v in run["measures"].items() if v["value"] is not None}
    try:
        return msgspec.convert(known, Point)
    except msgspec.ValidationError as error:
        raise ClaimflowError(f"{path}: run {run['name']}: {error}.") from None


def _scored(source: str, path: Path, config: DictConfig) -> Point:
    """A file of predictions or rankings, scored now or before. source: as it was named."""
    from omegaconf import OmegaConf

    from components.errors import ClaimflowError
    from components.report.compare import Point
    from flows.score import score

    if not config.gold:
        raise ClaimflowError(
            f"{path} is no file of out=, so it is taken for predictions: give gold=FILE to score "
            "them against."
        )
    kind = "rankings" if _is_trec(path) else "predictions"
    settings = OmegaConf.create({**config, "predictions": None, "rankings": None, kind: source})
    settings.name = None
    try:
        run = score(settings, several=True)
    except ClaimflowError as error:  # of many files, which one?
        raise ClaimflowError(
            str(error) if str(path) in str(error) else f"{path}: {error}"
        ) from error
    point = Point(**{key: run[key] for key in _fields(run) if key in run})
    if kind == "predictions":
        point.evidence = {p.id: p.evidence for p in run["predictions"]}
    return point


def _fields(run: dict[str, Any]) -> list[str]:
    """What a comparison takes of a run. What scoring took is no cost of the system: seconds and
    cache only of runs that say what their steps cost."""
    from components.report.compare import Point

    timed = run.get("compute")
    return [key for key in Point.__struct_fields__ if timed or key not in ("seconds", "cache")]


def _is_trec(path: Path) -> bool:
    from components.files import beginning

    words = beginning(path).split()
    return len(words) == 6 and words[1] == "Q0"


def _folder(folder: Path, config: DictConfig) -> Iterator[Point]:
    """The run of a folder; of a sweep all its points."""
    import msgspec

    from components.errors import ClaimflowError
    from flows.publish import point_of
    from flows.record import read_config
    from flows.tracking import read_record

    record = read_record(folder)
    if record.flow == "flows.compare":
        raise ClaimflowError(f"{record.id} is a comparison itself: name the runs that it is of.")
    if not record.children:
        settings = read_config(folder) if (folder / "config.yaml").is_file() else {}
        yield msgspec.structs.replace(
            point_of(record, folder),
            sweep=record.parent or "", choices=record.choices, config=settings,
        )  # fmt: skip
    for child in record.children:
        beside = folder.parent / child
        yield from _folder(beside, config) if beside.is_dir() else _by_id(child, config)


def _by_id(run: str, config: DictConfig) -> Iterator[Point]:
    import tempfile

    from components.errors import ClaimflowError
    from flows.reproduce import find

    if Path(run).is_dir():
        raise ClaimflowError(f"{run} is a folder without run.json: name a run's own, or a file.")
    with tempfile.TemporaryDirectory() as scratch:
        try:
            folder = find(run, config, Path(scratch))
        except ClaimflowError as error:
            if "/" in run or "." in run:
                raise ClaimflowError(f"{run}: there is no such file or run.") from error
            raise
        yield from _folder(folder, config)


if __name__ == "__main__":
    entry(main, "compare")
