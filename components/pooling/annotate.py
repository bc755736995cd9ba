"""Making a pool of evidence and having it judged (Wadden et al. 2022, section 3.1, appendix A.2).

The pool is the union of what each system ranks highest. Annotators get sheets that show a claim
and a document, and nothing of the systems: not which found it, how high, nor with which label.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from components.datasets.base import checked_label
from components.datasets.scifact import LABELS
from components.errors import ClaimflowError
from components.files import check_text, open_text, write_whole
from components.records import (
    BadLine,
    Claim,
    Document,
    GoldSet,
    Prediction,
    Record,
    read_lines,
    report,
    write_lines,
)
from components.score.scifact_open import Retrieved

NOT_ENOUGH = "NEI"
CHOICES = (*LABELS, NOT_ENOUGH)
COLUMNS = ("claim_id", "claim", "doc_id", "title", "abstract", "label", "sentences", "comment")
KEY = "pool.jsonl"
DISCUSS = "discuss.csv"


class Pooled(Record):
    """A document to be judged for a claim; ranks: of every system that retrieved it.

    sentences: how many its abstract has; judges: the annotators who are due to judge it. Neither is
    known before there are sheets, nor from the key of an older claimflow.
    """

    claim: str
    doc: str
    ranks: dict[str, int]
    sentences: int | None = None
    judges: list[str] = []


class Judgement(Record):
    """What one annotator says of a pooled document; label None: nothing yet."""

    annotator: str
    claim: str
    doc: str
    label: str | None = None
    sentences: list[int] = []
    comment: str = ""


class Outcome(Record):
    """The judgements of a pooled document; the label, if all agree or it was discussed."""

    pooled: Pooled
    judgements: list[Judgement] = []
    discussed: Judgement | None = None
    label: str | None = None
    sentences: list[int] = []


def pool(
    claims: list[Claim], systems: dict[str, list[Prediction]], depth: int = 250
) -> list[Pooled]:
    """The documents that some system ranks within `depth` over all claims, by its confidence in
    SUPPORT or CONTRADICT, whichever is larger; without those that are evidence already.

    Raises ClaimflowError for a system without confidences.
    """
    ids = {claim.id for claim in claims}
    known = {(claim.id, doc) for claim in claims for gold in claim.gold for doc, _ in gold.items}
    ranks: dict[tuple[str, str], dict[str, int]] = {}
    for name, predictions in systems.items():
        retrieved = Retrieved(claims, [p for p in predictions if p.id in ids])
        if not retrieved.rank:
            raise ClaimflowError(
                f"{name} has no confidences (p_support, p_contradict) for these claims, so nothing "
                "of it can be pooled."
            )
        for (claim, doc), rank in retrieved.rank.items():
            ranks.setdefault((claims[claim].id, doc), {})[name] = rank
    return [
        Pooled(claim=claim, doc=doc, ranks=dict(sorted(found.items())))
        for (claim, doc), found in sorted(ranks.items())
        if min(found.values()) <= depth and (claim, doc) not in known
    ]


def write_sheets(
    folder: Path,
    pooled: list[Pooled],
    claims: list[Claim],
    documents: Iterable[Document],
    annotators: int = 3,
    judgements: int = 2,
    seed: int = 13,
) -> list[Path]:
    """Write sheets/annotator_1.csv … and the key pool.jsonl, which annotators must not see: it also
    says who is due to judge what.

    Each document goes to `judgements` annotators drawn at random, as many to each; each sheet has
    its own order. Annotators fill in label (SUPPORT, CONTRADICT, NEI) and, where they wish,
    sentences (numbers, as the abstract shows them) and comment.
    Raises ClaimflowError when there are sheets already, nothing is to be judged, or the text of a
    document is missing.
    """
    if not 1 <= judgements <= annotators:
        raise ClaimflowError(
            f"judgements={judgements}, annotators={annotators}: give 1 or more judgements of a "
            "document, and as many annotators at least."
        )
    if list((folder / "sheets").glob("*.csv")):
        raise ClaimflowError(f"{folder / 'sheets'} has sheets already: give another folder.")
    if not pooled:
        raise ClaimflowError(
            "Nothing is to be judged: all that the systems rank within the depth is evidence "
            "already. Give a larger depth, or other systems."
        )
    texts = {claim.id: claim.text for claim in claims}
    wanted = {item.doc for item in pooled}
    abstracts = {document.id: document for document in documents if document.id in wanted}
    if missing := sorted(wanted - abstracts.keys()):
        raise ClaimflowError(
            f"The corpus lacks {len(missing)} of {len(wanted)} pooled documents, the first "
            f"{missing[0]}: give the corpus that the systems searched."
        )
    rng = random.Random(seed)
    order = rng.sample(pooled, len(pooled))
    sheets: list[list[Pooled]] = [[] for _ in range(annotators)]
    for item in order:
        # Those with the fewest documents so far, in random order where they are equal.
        turn = sorted(sheets, key=lambda sheet: (len(sheet), rng.random()))
        for sheet in turn[:judgements]:
            sheet.append(item)
    judges: dict[tuple[str, str], list[str]] = {}
    paths = []
    for number, sheet in enumerate(sheets, 1):
        rows = [
            _sheet_row(i, texts[i.claim], abstracts[i.doc]) for i in rng.sample(sheet, len(sheet))
        ]
        paths.append(folder / "sheets" / f"annotator_{number}.csv")
        for item in sheet:
            judges.setdefault((item.claim, item.doc), []).append(paths[-1].stem)
        _write_csv(paths[-1], COLUMNS, rows)
    key = [
        msgspec.structs.replace(
            item,
            sentences=len(abstracts[item.doc].sentences),
            judges=judges[item.claim, item.doc],
        )
        for item in pooled
    ]
    write_lines(folder / KEY, key)
    return paths


def _sheet_row(item: Pooled, claim: str, document: Document) -> dict[str, Any]:
    numbered = (f"[{n}] {sentence.strip()}" for n, sentence in enumerate(document.sentences))
    return {
        "claim_id": item.claim,
        "claim": claim,
        "doc_id": item.doc,
        "title": document.title or "",
        "abstract": " ".join(numbered),
    }


def _write_csv(path: Path, columns: Iterable[str], rows: Iterable[dict[str, Any]]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(
        path, text.getvalue().encode("utf-8-sig", "replace")
    )  # spreadsheets ask for the mark


# Judgements, in


def read_pool(folder: Path) -> list[Pooled]:
    """The key that `write_sheets` wrote."""
    if not (folder / KEY).is_file():
        raise ClaimflowError(f"No {KEY} in {folder.absolute()}: that is where do=sheets wrote it.")
    return [item for _, item in read_lines(folder / KEY, Pooled)]


def read_sheets(
    folder: Path, pooled: list[Pooled], on_error: str = "stop", bad: list[BadLine] | None = None
) -> tuple[list[Judgement], list[str]]:
    """(the judgements of all sheets, notes on sheets, rows and labels that are missing).

    Raises ClaimflowError when there is no sheet, or one that nobody was given.
    """
    paths = {path.stem: path for path in sorted((folder / "sheets").glob("*.csv"))}
    if not paths:
        raise ClaimflowError(f"No sheets in {(folder / 'sheets').absolute()}.")
    due: dict[str, set[tuple[str, str]]] = {}
    for item in pooled:
        for name in item.judges:
            due.setdefault(name, set()).add((item.claim, item.doc))
    for name, path in paths.items() if due else ():
        lost: list[BadLine] = []
        # A sheet may have no row, where there were few documents.
        if name not in due and (read_sheet(path, pooled, "skip", lost) or lost):
            raise ClaimflowError(
                f"{path} is nobody's: the sheets are {', '.join(sorted(due))}. Give it the name "
                "that it had, or take it out if it is a copy."
            )
    judgements = [j for path in paths.values() for j in read_sheet(path, pooled, on_error, bad)]
    notes = []
    if not due:
        notes.append(
            f"{folder / KEY} does not say who is due to judge what, nor how long abstracts are: "
            "an older claimflow wrote it. A sheet or a row that is missing is not seen."
        )
    for name, pairs in due.items():
        if name not in paths:
            notes.append(
                f"{name}.csv is missing from {folder / 'sheets'}: the documents that it judges "
                f"({len(pairs)}) stay open."
            )
            continue
        pairs -= {(j.claim, j.doc) for j in judgements if j.annotator == name}
        if pairs:
            claim, doc = min(pairs)
            notes.append(
                f"{paths[name]} has no row that counts for documents that it judges "
                f"({len(pairs)}), which stay open; the first: claim {claim}, document {doc}."
            )
    for name, path in paths.items():
        own = [j for j in judgements if j.annotator == name]
        if empty := [j for j in own if j.label is None]:
            notes.append(
                f"{path} has no label yet in {len(empty)} of {len(own)} rows; the first: claim "
                f"{empty[0].claim}, document {empty[0].doc}."
            )
    return judgements, notes


def read_sheet(
    path: Path, pooled: list[Pooled], on_error: str = "stop", bad: list[BadLine] | None = None
) -> list[Judgement]:
    """The judgements of a sheet, named by its file; rows without a label have none yet.

    A bad row (unknown label, document that is not in the pool, stands there twice or is another
    annotator's, sentence that is no number or that the abstract does not have) stops with its line,
    or with on_error="skip" is appended to `bad`. Raises ClaimflowError for a file in another
    encoding than UTF-8: its letters would be lost.
    """
    known = {(item.claim, item.doc): item for item in pooled}
    check_text(path)
    found: dict[tuple[str, str], Judgement] = {}
    with open_text(path) as lines:
        reader = csv.DictReader(lines)
        try:
            missing = {"claim_id", "doc_id", "label"} - set(reader.fieldnames or [])
            if missing:
                header = ",".join(reader.fieldnames or [])
                other = next((c for c in ";\t|" if "claim_id" in header.split(c)), None)
                how = f": its cells are parted by {other!r}, save it with commas" if other else ""
                raise ClaimflowError(f"{path} has no column {', '.join(sorted(missing))}{how}.")
            for row in reader:
                try:
                    judgement = _judgement(path.stem, row)
                    pair = (judgement.claim, judgement.doc)
                    _check(judgement, known.get(pair))
                    if found.setdefault(pair, judgement) is not judgement:
                        raise ClaimflowError(f"claim {pair[0]}, document {pair[1]} again")
                except ClaimflowError as error:
                    problem = BadLine(file=str(path), line=reader.line_num, reason=str(error))
                    report(problem, on_error, bad)
        except csv.Error as error:
            raise ClaimflowError(
                f"{path}, line {reader.line_num + 1}: no CSV from here on, {error}. Look for a "
                "quote that is not closed."
            ) from None
    return list(found.values())


def _judgement(annotator: str, row: dict[str, str | None]) -> Judgement:
    cells = {name: (cell or "").strip() for name, cell in row.items() if isinstance(cell, str)}
    numbers = [n.strip("[]") for n in re.split(r"[\s,;]+", cells.get("sentences", "")) if n]
    if wrong := [n for n in numbers if not (n.isdecimal() and len(n) < 10)]:
        raise ClaimflowError(f"'{wrong[0]}' is not the number of a sentence")
    return Judgement(
        annotator=annotator,
        claim=cells.get("claim_id", ""),
        doc=cells.get("doc_id", ""),
        label=checked_label(cells.get("label", "").upper() or None, CHOICES),
        sentences=[int(n) for n in numbers],
        comment=cells.get("comment", ""),
    )


def _check(judgement: Judgement, item: Pooled | None) -> None:
    """Raise ClaimflowError for a judgement that the pool has no place for."""
    where = f"claim {judgement.claim}, document {judgement.doc}"
    if item is None:
        raise ClaimflowError(f"{where} is not in the pool")
    annotators = item.judges if judgement.annotator != Path(DISCUSS).stem else ()
    if annotators and judgement.annotator not in annotators:
        raise ClaimflowError(f"{where} is for {' and '.join(annotators)} to judge")
    last = max(judgement.sentences, default=-1)
    if item.sentences is not None and last >= item.sentences:
        raise ClaimflowError(
            f"{where} has no sentence {last}: its abstract has {item.sentences}, from [0]"
        )


def settle(
    pooled: list[Pooled], judgements: list[Judgement], discussed: Iterable[Judgement] = ()
) -> list[Outcome]:
    """The outcome of each pooled document: the label that all its annotators give, or what they
    agreed on when they discussed it. It stays open while one who is due to judge it has not, with
    or without a row in a sheet, or they differ.

    The sentences are those of all judgements with the label.
    """
    by_pair: dict[tuple[str, str], list[Judgement]] = {}
    for judgement in judgements:
        by_pair.setdefault((judgement.claim, judgement.doc), []).append(judgement)
    last = {(judgement.claim, judgement.doc): judgement for judgement in discussed}
    outcomes = []
    for item in pooled:
        found = by_pair.get((item.claim, item.doc), [])
        given = {judgement.annotator for judgement in found}
        found += [
            Judgement(annotator=name, claim=item.claim, doc=item.doc)
            for name in item.judges
            if name not in given
        ]
        labels = {judgement.label for judgement in found}
        decision = last.get((item.claim, item.doc))
        label = labels.pop() if len(labels) == 1 else None
        if decision and decision.label:
            label = decision.label
        agreeing = [j for j in [*found, decision] if j and label and j.label == label]
        outcomes.append(
            Outcome(
                pooled=item,
                judgements=found,
                discussed=decision,
                label=label,
                sentences=sorted({n for judgement in agreeing for n in judgement.sentences}),
            )
        )
    return outcomes


def agreement(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Numbers of documents: judged, by two annotators or more, how many of these agree on the label
    or at least on whether it is evidence, before any discussion; what is open, and evidence."""
    given = [[j.label for j in o.judgements if j.label] for o in outcomes]
    several = [labels for labels in given if len(labels) > 1]
    numbers = {
        "pooled": len(outcomes),
        "judged": sum(bool(labels) for labels in given),
        "judged by two or more": len(several),
        "same label": sum(len(set(labels)) == 1 for labels in several),
        "same whether it is evidence": sum(
            len({label == NOT_ENOUGH for label in labels}) == 1 for labels in several
        ),
        "open": sum(o.label is None for o in outcomes),
        "evidence": sum(o.label in LABELS for o in outcomes),
    }
    return [{"documents": name, "number": number} for name, number in numbers.items()]


def merged(claims: list[Claim], outcomes: list[Outcome]) -> list[Claim]:
    """The claims with what was judged to be evidence, as pooled gold sets; no input is changed."""
    new: dict[str, list[GoldSet]] = {}
    for outcome in outcomes:
        item = outcome.pooled
        if outcome.label in LABELS:
            items: list[tuple[str, int | None]] = [(item.doc, n) for n in outcome.sentences]
            gold = GoldSet(
                label=outcome.label,
                items=items or [(item.doc, None)],
                provenance="pooling",
                ranks=item.ranks,
            )
            new.setdefault(item.claim, []).append(gold)
    return [
        msgspec.structs.replace(claim, gold=[*claim.gold, *new.get(claim.id, [])])
        for claim in claims
    ]


def strangers(claims: list[Claim], outcomes: list[Outcome]) -> list[str]:
    """Ids of claims that the pool has and `claims` lacks, so that `merged` leaves them out."""
    known = {claim.id for claim in claims}
    return list(dict.fromkeys(o.pooled.claim for o in outcomes if o.pooled.claim not in known))


def write_outcomes(folder: Path, outcomes: list[Outcome], discuss: bool = True) -> None:
    """judgements.csv with every pooled document, its judgements and its label, and discuss.csv
    with those that annotators differ on: there they fill in the label that they agree on.

    discuss: False leaves discuss.csv as it is, where not all that was filled in could be read.
    """
    rows: list[dict[str, Any]] = []
    differing = []
    for outcome in outcomes:
        judged = [j for j in outcome.judgements if j.label]
        row = {
            "claim_id": outcome.pooled.claim,
            "doc_id": outcome.pooled.doc,
            "judgements": " ".join(f"{j.annotator}:{j.label}" for j in judged),
        }
        ranks = " ".join(f"{name}:{rank}" for name, rank in outcome.pooled.ranks.items())
        sentences = " ".join(map(str, outcome.sentences))
        rows.append(row | {"label": outcome.label or "", "sentences": sentences, "ranks": ranks})
        last = outcome.discussed
        if last or len({j.label for j in judged}) > 1:
            differing.append(
                row
                | {
                    "label": (last and last.label) or "",
                    "sentences": " ".join(map(str, last.sentences)) if last else "",
                    "comment": last.comment if last else "",
                }
            )
    columns = ["claim_id", "doc_id", "judgements", "label", "sentences"]
    _write_csv(folder / "judgements.csv", [*columns, "ranks"], rows)
    if discuss:
        _write_csv(folder / DISCUSS, [*columns, "comment"], differing)
