"""Pools of evidence: the tables of the SciFact-Open paper, and making and judging a pool.

    python -m flows.pool claims=FILE predictions=FILE [corpus=FILE] [to=FOLDER] [out=FILE.json]
    python -m flows.pool do=sheets claims=FILE predictions=FILE corpus=FILE to=FOLDER
    python -m flows.pool do=merge claims=FILE to=FOLDER gold=NEW.jsonl

claims= and predictions= are claims.jsonl and the Parquet table of SciFact-Open. The tables say how
evidence and scores change with pool depth, number of systems and without a system's own evidence,
how systems overlap, and how far resampling moves scores; to= keeps them as CSV, out= as JSON.

`sheets` pools what the systems rank highest and writes a CSV for each annotator that shows nothing
of the systems. When they are filled in, `merge` counts agreement, adds what is evidence to the
claims, and writes to/judgements.csv and to/discuss.csv: the documents that annotators differ on, to
be filled in before merging again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flows.cli import entry

TABLES = {
    "properties": "Evidence (table 2a, section 3.3)",
    "by_systems": "Pooled documents by number of systems (table 2b)",
    "original_found": "Original evidence that pooling would have found (table 2c)",
    "allocation": "Claims by number of documents (figures 3, 8)",
    "scores": "Scores, mean and deviation over resamples (table 5)",
    "jaccard": "Overlap of predicted evidence (figure 4)",
    "pool_depth": "Pool depth (figures 5, 10, 12)",
    "system_count": "Number of pooled systems (figures 6, 11, 13)",
    "exclusion": "Without a system's own evidence (table 6)",
    "studied": "Claims by pooled evidence (table 7)",
    "studied_scores": "Well- and less-studied claims (table 11)",
    "confusions": "Confusion (figure 9)",
}
NEEDS = {
    "tables": ("claims", "predictions"),
    "sheets": ("claims", "predictions", "corpus", "to"),
    "merge": ("claims", "to", "gold"),
}


def main(config: Any) -> None:
    """Do the task and print its tables."""
    from components.errors import ClaimflowError, nearest
    from components.files import write_whole
    from components.records import BadLine, encode, skipped
    from components.report.table import csv_bytes, markdown

    if config.do not in NEEDS:
        raise ClaimflowError(
            f"No way to pool '{config.do}'.{nearest(config.do, NEEDS)} Choose: {', '.join(NEEDS)}."
        )
    for key in NEEDS[config.do]:
        if not config[key]:
            raise ClaimflowError(f"do={config.do} needs {key}: say {key}=…")
    bad: list[BadLine] = []
    run = {"tables": tables, "sheets": sheets, "merge": merge}[config.do]
    found, notes = run(config, bad)
    notes += skipped(bad)
    if config.to and config.do == "tables":
        for name, rows in found.items():
            write_whole(Path(config.to) / f"{name}.csv", csv_bytes(rows))
    if config.out:
        write_whole(Path(config.out), encode({"tables": found, "notes": notes, "skipped": bad}))
    for name, rows in found.items():
        if rows:
            columns = list(dict.fromkeys(column for row in rows for column in row))
            cells = [[cell(row.get(column)) for column in columns] for row in rows]
            print(f"## {TABLES.get(name, name)}\n\n{markdown(columns, cells)}\n")
    for note in notes:
        print(f"- {note}")


def tables(config: Any, bad: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """All tables of a pooled collection by name, and notes."""
    from components.datasets.gold import read_gold
    from components.datasets.scifact import read_corpus
    from components.pooling.study import Study

    claims = read_gold(Path(config.claims))
    original = {}
    if config.corpus:
        corpus = read_corpus(Path(config.corpus), config.on_error, bad)
        original = {document.id: orig for document, orig in corpus if orig is not None}
    notes = []
    if config.corpus and not original:
        notes.append(
            f"{config.corpus} does not say which documents are of SciFact (scifact_orig), so the "
            "overlap of predicted evidence is not parted into original and added."
        )
    study = Study(
        claims=claims,
        systems=systems_of(config, bad),
        pooled=list(config.pooled) if config.pooled else None,
        depth=config.depth,
        step=config.step,
        original=original,
        well_studied=config.well_studied,
        same_label=config.same_label,
        without_confidence=list(config.without_confidence),
        draws=config.draws,
        seed=config.seed,
    )
    found = {name: getattr(study, name)() for name in TABLES}
    return found, notes + study.notes


def sheets(config: Any, bad: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """Make a pool and write its annotation sheets."""
    from components.datasets.gold import read_gold
    from components.datasets.scifact import read_corpus
    from components.errors import ClaimflowError
    from components.pooling.annotate import pool, write_sheets
    from components.score.scifact_open import Retrieved

    claims, systems = read_gold(Path(config.claims)), systems_of(config, bad)
    if config.pooled:
        if unknown := [name for name in config.pooled if name not in systems]:
            raise ClaimflowError(
                f"No predictions of {', '.join(unknown)}. Systems: {', '.join(sorted(systems))}."
            )
        systems = {name: systems[name] for name in config.pooled}
    pooled = pool(claims, systems, config.depth)
    documents = (document for document, _ in read_corpus(Path(config.corpus), config.on_error, bad))
    paths = write_sheets(
        Path(config.to),
        pooled,
        claims,
        documents,
        config.annotators,
        config.judgements,
        config.seed,
    )
    counts = [
        {"systems": n, "documents": sum(within(p, config.depth) == n for p in pooled)}
        for n in range(1, len(systems) + 1)
    ]
    notes = [f"{len(pooled)} documents of {len(systems)} systems are to be judged."]
    known = {claim.id for claim in claims}
    for name, predictions in systems.items():  # what of it is in no ranking, so not in the pool
        said = Retrieved(claims, [p for p in predictions if p.id in known]).notes
        notes += [f"{name}: {note}" for note in said]
    notes += [f"{path}" for path in paths]
    return {"Pooled documents by number of systems": counts}, notes


def within(pooled: Any, depth: int) -> int:
    """How many systems rank a pooled document within the depth."""
    return sum(rank <= depth for rank in pooled.ranks.values())


def merge(config: Any, bad: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """Count agreement, and write the claims with the evidence that was found."""
    from components.datasets.gold import read_gold
    from components.datasets.scifact import LABELS, write_open_claims
    from components.errors import listed
    from components.pooling.annotate import (
        DISCUSS,
        agreement,
        merged,
        read_pool,
        read_sheet,
        read_sheets,
        settle,
        strangers,
        write_outcomes,
    )

    to = Path(config.to)
    claims, pooled = read_gold(Path(config.claims)), read_pool(to)
    judgements, missing = read_sheets(to, pooled, config.on_error, bad)
    discuss = to / DISCUSS
    unread: list[Any] = []
    discussed = read_sheet(discuss, pooled, config.on_error, unread) if discuss.is_file() else []
    bad += unread
    outcomes = settle(pooled, judgements, discussed)
    write_outcomes(to, outcomes, discuss=not unread)
    write_open_claims(Path(config.gold), merged(claims, outcomes))
    lacking = strangers(claims, outcomes)
    found = sum(o.label in LABELS and o.pooled.claim not in lacking for o in outcomes)
    still = sum(o.label is None for o in outcomes)
    notes = [
        f"{config.gold}: {len(claims)} claims, to which {found} of {len(outcomes)} pooled "
        f"documents are added as evidence; {still} stay open.",
        *missing,
    ]
    if any(len({doc for g in c.gold for doc, _ in g.items}) < len(c.gold) for c in claims):
        notes.append(
            f"{config.gold} has the form of SciFact-Open, in which the rationales of a document "
            "are one."
        )
    if lacking:
        notes.append(
            f"Claims of the pool that {config.claims} lacks, so that what was judged for them is "
            f"left out ({len(lacking)}): {listed(lacking)}. Give the claims that the pool is of."
        )
    if unread:
        notes.append(
            f"{discuss} is left as it is, as {len(unread)} of its rows can't be read: mend them, "
            "and merge again."
        )
    differ = any(
        o.label is None and len({j.label for j in o.judgements if j.label}) > 1 for o in outcomes
    )
    if differ:
        notes.append(f"Open documents: fill in {discuss} or the sheets, and merge again.")
    return {"Judgements": agreement(outcomes)}, notes


def systems_of(config: Any, bad: list[Any]) -> dict[str, Any]:
    """Predictions by system: all of a table; those of a submission under its file's name."""
    from components.datasets.scifact import read_systems
    from components.datasets.submission import read_submission, whole_file
    from components.errors import ClaimflowError
    from components.score.fit import form_of

    paths = [config.predictions] if isinstance(config.predictions, str) else config.predictions
    found: dict[str, Any] = {}
    for given in paths:
        path = whole_file(given, "predictions")
        with open(path, "rb") as file:
            is_table = file.read(4) == b"PAR1"
        new = (
            read_systems(path, config.on_error, bad)
            if is_table
            else {path.stem: read_submission(path, config.on_error, bad)}
        )
        if twice := found.keys() & new.keys():
            raise ClaimflowError(f"{path} has {', '.join(sorted(twice))} again, as a file before.")
        forms = {form_of(prediction) for said in new.values() for prediction in said} - {None}
        if forms and "SciFact" not in forms:
            raise ClaimflowError(
                f"{path} has predictions of {' and '.join(sorted(forms))}, and a pool takes "
                "documents with labels: give SciFact's or SciFact-Open's."
            )
        found |= new
    return found


def cell(value: Any) -> str:
    """A value in a printed table."""
    if value is None:
        return "–"
    return f"{value:z.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    entry(main, "pool")
