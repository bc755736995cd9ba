"""Score a file of predictions against gold claims by official measures, with intervals.

    python -m flows.score predictions=FILE gold=FILE [scorer=averitec_2024] [out=FILE.json]
    python -m flows.score predictions=FILE gold=FILE scorer=fever     also scifact, scifact_open
    python -m flows.score predictions=TABLE:SYSTEM gold=FILE scorer=scifact_open
    python -m flows.score rankings=FILE gold=FILE scorer=retrieval
    python -m flows.score … to=FOLDER        metrics.json and the tables as CSV as well

Files are recognised by content. Predictions are paired with claims by id; those that are missing,
extra or repeated are listed below the table.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from flows.cli import entry, sweeping


def main(config: Any) -> None:
    """Score, print and write."""
    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.records import encode
    from components.score.base import Scores
    from flows.record import without

    run = score(config)
    scores = Scores(**{field: run[field] for field in Scores.__struct_fields__ if field in run})
    if config.out:
        del run["predictions"]
        run["measures"] = run["measures"] | without(run.pop("unmeasured"))
        write_whole(Path(config.out), encode([run]))
    if config.get("to"):
        write_tables(Path(config.to), scores)
    show(run["name"], scores)
    if scores.incomplete and scores.unmeasured and config.on_error != "skip":
        name, why = next(iter(scores.unmeasured.items()))
        raise ClaimflowError(
            f"{len(scores.unmeasured)} of {len(scores.unmeasured) + len(scores.measures)} measures "
            f"have no value: {name}, as {why}. on_error=skip takes the rest for a success."
        )


def score(config: Any, several: bool = False) -> dict[str, Any]:
    """Read what the scorer needs and score it, or find the scores in the cache: what `out=` holds,
    and the predictions. several: other files are scored by the same judge."""
    from components.cache import open_cache
    from components.datasets.gold import read_gold
    from components.datasets.submission import named_system, read_submission
    from components.errors import ClaimflowError
    from components.records import BadLine, skipped
    from components.score.base import Scores, merged, score_once
    from components.score.retrieval import read_run, ties
    from components.score.rows import groups_of
    from flows.build import build, scorer_configs

    scorers = [build(node) for node in scorer_configs(config).values()]
    check_judges(scorers if several or sweeping() else [])
    if len(scorers) > 1:  # of several, those that a file was given for
        scorers = [s for s in scorers if all(config.get(key) for key in s.reads)] or scorers
    reads = list(dict.fromkeys(key for scorer in scorers for key in scorer.reads))
    for key in (*reads, "gold"):
        path = config.get(key)
        if not path:
            raise ClaimflowError(f"Which file of {key}? Say {key}=FILE.")
        file = named_system(path)[0] if key == "predictions" else Path(path)
        if file.is_dir():
            raise ClaimflowError(f"{key}={path} is a folder: name a file in it.")
        if not file.is_file():
            raise ClaimflowError(f"{key}={path}: there is no such file ({Path(path).absolute()}).")
    start = time.perf_counter()
    gold = read_gold(Path(config.gold))
    bad: list[BadLine] = []
    warnings: list[str] = []
    predictions = system = None
    if "predictions" in reads:
        path, system = named_system(config.predictions)
        predictions = read_submission(path, config.on_error, bad, system, warnings, gold)
        if not predictions:
            why = f": {bad[0]}" if bad else ""
            raise ClaimflowError(f"{path} holds no prediction that can be read{why}.")
    aside: list[str] = []  # on the run
    rankings = read_run(Path(config.rankings), aside) if "rankings" in reads else None
    if rankings is not None and not rankings:
        raise ClaimflowError(f"{config.rankings} holds no ranking.")
    read = time.perf_counter()
    scores, hits = Scores(warnings=warnings), 0
    for scorer in scorers:
        part, hit = score_once(open_cache(config.cache), scorer, gold, predictions, rankings)
        scores, hits = merged(scores, part), hits + hit
    official = any(getattr(scorer, "official", False) for scorer in scorers)
    if rankings and not official and (tied := ties(rankings)):
        scores.notes.append(f"In the run {tied} by their rank; official=true: by id.")
    scores.notes = list(dict.fromkeys([*aside, *scores.notes, *asides(scorers)]))
    done = time.perf_counter()
    return {
        "name": config.name or system or Path(config[reads[0]]).stem,
        "axes": {},
        "official": official,
        "measures": scores.measures,
        "seconds": {"read": round(read - start, 3), "score": round(done - read, 3)},
        "cache": {"hits": hits, "misses": len(scorers) - hits},
        "tables": scores.tables,
        "per_claim": scores.per_claim,
        "texts": {claim.id: claim.text for claim in gold if claim.text},
        "groups": {claim.id: groups for claim in gold if (groups := groups_of(claim))},
        "warnings": scores.warnings,
        "notes": [*scores.notes, *skipped(bad)],
        "incomplete": scores.incomplete,
        "unmeasured": scores.unmeasured,
        "skipped": bad,
        "predictions": predictions,
    }


def asides(scorers: list[Any]) -> list[str]:
    """What judges say of files that they were to write, which no cached scores tell."""
    judges = [judge for scorer in scorers if (judge := getattr(scorer, "judge", None))]
    return list(dict.fromkeys(line for judge in judges for line in judge.asides()))


def check_judges(scorers: list[Any]) -> None:
    """Raise ClaimflowError when a judge can't be trusted with several files of evidence."""
    for scorer in scorers:
        if judge := getattr(scorer, "judge", None):
            judge.check_several()


def write_tables(folder: Path, scores: Any) -> None:
    """metrics.json (a number for each measure), a CSV for each table, and labels.csv: gold and
    predicted label of each claim, which DVC counts for its confusion plot."""
    from components.files import write_whole
    from components.records import encode
    from components.report.table import csv_bytes

    figures: dict[str, float | None] = {
        name: round(measure.value, 6) for name, measure in scores.measures.items()
    }
    figures |= dict.fromkeys(scores.unmeasured)
    write_whole(folder / "metrics.json", encode(figures) + b"\n")
    for name, rows in scores.tables.items():
        write_whole(folder / f"{name}.csv", csv_bytes(rows))
    if labels := [row for row in scores.per_claim if {"gold", "predicted"} <= row.keys()]:
        rows = [{name: row[name] for name in ("id", "gold", "predicted")} for row in labels]
        write_whole(folder / "labels.csv", csv_bytes(rows))


def show(name: str, scores: Any) -> None:
    """Print warnings, measures with their intervals, and notes."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from components.report.table import fewer, heading
    from flows.log import number

    names = [*scores.measures, *scores.unmeasured]
    # Names are what one types elsewhere: on a narrow terminal the headings wrap, not they.
    title = f"{name}, {number(len(scores.per_claim), 'claim')}"
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title=title, title_justify="left")
    table.add_column("measure", overflow="fold")
    table.add_column("name", overflow="fold", no_wrap=max(map(len, names)) <= 40)
    table.add_column("value", justify="right", no_wrap=True, min_width=6)
    table.add_column("95 % interval", justify="right", no_wrap=True, min_width=15)
    for measure, found in scores.measures.items():
        interval = f"{found.low:z.4f} – {found.high:z.4f}" if found.low is not None else ""
        table.add_row(heading(measure), measure, f"{found.value:z.4f}", interval)
    for measure in scores.unmeasured:
        table.add_row(heading(measure), measure, "–", "")
    console = Console()
    for warning in scores.warnings:
        console.print(f"warning: {warning}", markup=False, highlight=False)
    console.print(table)
    for note in [*fewer(scores), *scores.notes]:
        console.print(f"- {note}", markup=False, highlight=False)


if __name__ == "__main__":
    entry(main, "score")
