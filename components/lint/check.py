"""What is wrong with a submission to AVeriTeC, FEVER or SciFact before an evaluator says so, and
its repair.

Errors are what an official evaluator or portal stops at, or counts for another claim; warnings
are what costs points or breaks rules of the task without a word. A file without errors is accepted.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from components.datasets.forms import FACTS
from components.datasets.label_keys import SeveralLabelsError
from components.datasets.submission import is_json, is_table
from components.errors import ClaimflowError, listed
from components.files import check_file, check_kind, write_whole
from components.lint import rules
from components.lint.encoding import decode
from components.lint.linter import Linter
from components.lint.records import as_csv, as_json, read_csv, read_json
from components.lint.report import Report
from components.lint.table import as_table, table
from components.records import Claim

_UNKNOWN = "unknown"


def lint(
    path: Path,
    claims: list[Claim] | None = None,
    sites: Iterable[str] = (),
    longest: int = 3000,
    repaired: Path | None = None,
) -> Report:
    """Check a submission of any form against RULES, record by record; the file may be large.

    claims: gold claims, or the claims as published: which ids are due, their dates and
    fact-checks. sites: fact-checking sites, as `Guard` takes them. longest: characters of an
    answer. repaired: where to write the file with all that can be mended mended, if anything is;
    that is linted again.

    A file of no form that is known has that as its finding. Raises ClaimflowError when there is
    no file.
    """
    check_file(path, "submission")
    linter = Linter(path, claims, sites, longest, repaired is not None)
    with tempfile.TemporaryDirectory() as scratch:
        form, as_file = _read(linter, Path(scratch))
        linter.sizes()
        records = [record for _, record in linter.kept]
        reason = _unrepaired(linter, form, records) if repaired is not None else None
        if not any(finding.fixed for finding in linter.findings):
            reason = reason or "there is nothing to mend"
        if repaired is not None and reason is None:
            write_whole(repaired, as_file(linter.source, records))
    if repaired is None or reason:
        reason = reason if repaired is not None else None
        repaired = None
        for finding in linter.findings:
            finding.fixed = False
    else:
        small = repaired.stat().st_size <= rules.LARGEST
        for finding in linter.findings:
            finding.fixed = small if finding.rule == "size" else finding.fixed
    return Report(
        file=str(path),
        form=form,
        records=len(linter.order),
        findings=linter.findings,
        unchecked=[] if claims is not None else ["late-evidence", "claim", "id (which are due)"],
        repaired=None if repaired is None else str(repaired),
        left=[] if repaired is None else lint(repaired, claims, sites, longest).findings,
        lost=0 if repaired is None else linter.lost,
        left_out=0 if repaired is None else len(linter.order) + linter.lost - len(records),
        unread=[] if repaired is None else linter.unread,
        unrepaired=reason,
    )


def _read(linter: Linter, scratch: Path) -> tuple[str, Callable[[Path, list[Any]], bytes]]:
    """Check the file; (its form, what writes records of it)."""
    as_file: Callable[[Path, list[Any]], bytes] = as_csv
    try:
        if is_table(linter.path):
            as_file = as_table
            return table(linter), as_file
        check_kind(linter.path)
        decode(linter, scratch)
        if is_json(linter.source):
            form = read_json(linter)
            as_file = functools.partial(as_json, form)
        else:
            form = read_csv(linter)
    except SeveralLabelsError as error:
        linter.line = linter.record = None
        said = error.cause.replace(str(linter.source), "the file")
        linter.find("schema", said, error.remedy)
        linter.lost += 1
        linter.several_labels = True
        return error.form, as_file
    except ClaimflowError as error:  # no form that is known, or it breaks off
        linter.line = linter.record = None
        said = str(error).replace(str(linter.source), "the file")
        said = " ".join(said.replace(str(linter.path), "the file").split())
        linter.find("schema", said.rstrip("."), "Write one of the published forms")
        linter.lost += 1
        return _UNKNOWN, as_file
    linter.pairing()
    linter.gold(form if form in FACTS else "AVeriTeC")
    return form, as_file


def _unrepaired(linter: Linter, form: str, records: list[Any]) -> str | None:
    """Why no repaired file can be written, if so."""
    if linter.several_labels:
        return "which of its labels are the predictions?"
    if linter.of_gold:
        return "it is the gold file, or made from it"
    if linter.marked:
        return f"{linter.marked} of {len(linter.order)} rows have split 'gold'"
    if linter.misplaced:
        return "its claims stand under other ids than the gold file's"
    if linter.differing:
        where = listed(linter.differing, 3)
        return f"a key stands twice with values that differ, and which is meant? ({where})"
    if linter.shapeless:
        return "it has lost its structure"
    if linter.mixed:
        return "its records are of several forms, and which is meant?"
    whole = len(records) == len(linter.order) and not linter.lost and not linter.unread
    if linter.placed and not whole:
        return "records without an id are told by their place, which the others would lose"
    if linter.placed and linter.unsorted:
        return "records without an id are told by their place, and others would have to move"
    if linter.illegible:
        return "which encoding it is in is not known"
    if form == _UNKNOWN:
        return "the file can't be read to its end"
    return None if records else "there is no record that can be kept"
