"""The records of a JSON or CSV file, checked one by one, and written again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from components.datasets.forms import FACTS, Forms, misnamed, several
from components.datasets.label_keys import Labels, SeveralLabelsError
from components.datasets.submission import (
    FORMS,
    HEADER,
    OUTER,
    csv_rows,
    is_header,
    is_said,
    misnamed_columns,
    nans,
)
from components.errors import ClaimflowError, listed, plain
from components.files import beginning, open_text
from components.lint import averitec, facts
from components.lint.linter import MISSING, Linter, kind_of
from components.lint.report import Finding, cut
from components.records import AVERITEC_LABELS, BadLine, all_alike, read_lines

# Share of the cells of a CSV with wrong delimiters from which on all of it is wrong
_MOST_BROKEN = 0.95
_MOST_TORN = 0.5  # the same for rows with other cells than the header: one open quote tears some
# What a CSV may have under `split` in the place of "pred"
_SPLITS = {"gold", "train", "dev", "val", "validation", "test", "pred", "predictions"}
_SPLITS |= {name.casefold() for name in MISSING}


def read_json(linter: Linter) -> str:
    """Check a JSON list or JSON lines; its form."""
    bad: list[BadLine] = []
    forms = Forms(linter.source, (linter.claims or {}).values())
    found: dict[str, list[int]] = {}  # lines of the records of each form
    position = 0
    unread = 0
    twice: dict[str, list[Any]] = {}
    for line, raw in read_lines(linter.source, Any, "mend", bad, twice):
        linter.line, linter.record = line, None
        position += 1 + sum(not problem.whole for problem in bad[unread:])
        unread = len(bad)
        try:
            if not isinstance(raw, dict):
                how = ': in pandas, orient="records" writes such' * isinstance(raw, list)
                raise ClaimflowError(f"the record is {kind_of(raw)}, no JSON object{how}")
            for key in ("claim_id", "id"):
                if raw.get(key) != raw.get(key):
                    linter.find("nan", f"{key} is NaN, which is no JSON", "Write null", True)
                    raw[key] = None
            form = forms.of(raw)
            forms.check(raw, form)
            _rename(linter, raw, form)
            if form in FACTS and raw.get("id") is None:
                linter.placed = True
                raise ClaimflowError("the record has no id")
        except SeveralLabelsError:
            raise  # it is the file's
        except ClaimflowError as error:
            where = f"record {position}: " if line != position else ""
            said = f"{where}{error}"
            linter.lose(linter.find("schema", said, "Write one of the published forms"))
            if isinstance(raw, dict):
                linter.count_gold(raw, {"verifiable"})
            continue
        found.setdefault(form, []).append(line)
        known = len(linter.findings)
        _MEND[form](linter, raw, position - 1)
        _null(linter, raw)
        try:
            msgspec.convert(raw, FORMS.get(form, Any))
        except msgspec.ValidationError as error:
            if all(f.fixable or f.level == "warning" for f in linter.findings[known:]):
                linter.find("schema", plain(error), "Write what the form has there")
        for key, values in twice.items():
            same = all_alike(values)
            linter.differing += [] if same else [f"line {line}, '{cut(key)}'"]
            shown = " and ".join(cut(json.dumps(v, ensure_ascii=False)) for v in values)
            what = "" if same else f", with other values, {shown}"
            message = f"'{cut(key)}' stands twice in one object{what}; evaluators read the last"
            linter.find("json", message, "Keep one", same, done="Deleted, but for one")
        linter.keep(raw, raw.get("claim"))
    for problem in bad:
        linter.line, linter.record = problem.line, None
        remedy = "Write it as JSON has it" if problem.whole else "Write it anew"
        finding = linter.find("json", problem.reason, remedy, problem.whole)
        if problem.rest and problem.whole:
            finding.done = "Closed: look whether records are missing"
            linter.unread.append(f"what may have stood behind line {problem.line}")
        elif problem.rest:
            finding.fixed, finding.done = linter.fix, "Deleted"
            linter.unread.append(f"the rest of the file, from line {problem.line}")
        elif not problem.whole:
            linter.lose(finding)
    linter.line = linter.record = None
    if linter.beside and 1 < linter.without == len(linter.order):
        names = " and ".join(f"'{cut(key)}'" for key in sorted(linter.beside))
        message = f"no record has evidence, and QAs stand under {names}, which no evaluator reads"
        linter.find("schema", message, "Write them under evidence, or leave them out")
    if mixed := several(found):
        linter.find("schema", mixed, "Write one")
        linter.mixed = True
    elif found:
        _layout(linter, *found)
    return " and ".join(found) or "JSON"


def _null(linter: Linter, raw: dict[str, Any]) -> None:
    """Write null for each NaN that no rule of a field is about."""
    held = {key: value for key, value in raw.items() if key not in _LABELS}
    if places := list(nans(held)):
        linter.find("nan", f"{listed(places, 3)}: NaN, which is no JSON", "Write null", True)
        raw |= {key: _without_nan(value) for key, value in held.items()}


_LABELS = {"label", "pred_label", "predicted_label"}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if value != value else value


def _layout(linter: Linter, form: str) -> None:
    """Whether the file is a list or lines, as evaluators of the form read it."""
    as_list = beginning(linter.source).startswith("[")
    if form in FACTS and as_list:
        message = "a JSON list, where evaluators read a record from each line"
        linter.find("json", message, "Write JSON lines", True)
    elif form not in (*FACTS, "run") and not as_list:
        message = "JSON lines, where evaluators read one list"
        linter.find("json", message, "Write a JSON list", True)
    elif form in FACTS:
        with open(linter.source, "rb") as lines:
            blank = [number for number, line in enumerate(lines, 1) if not line.strip()]
        if blank:
            linter.line = blank[0]
            message = f"{len(blank)} blank lines, at which evaluators stop"
            linter.find("json", message, "Delete them", True, done="Deleted")


def _rename(linter: Linter, raw: dict[str, Any], form: str) -> None:
    """Give label, evidence and id of a record the names that they have in its form."""
    where = "the form of 2024" if form == "2024" else form
    for key, due in misnamed(raw, form).items():
        linter.find("schema", f"'{key}', where {where} has '{due}'", f"Call it {due}", True)
        raw[due] = raw.pop(key)


def read_csv(linter: Linter) -> str:
    """Check a CSV; its form."""
    with open_text(linter.source) as lines:
        header = next(csv.reader(lines), [])
    if header != HEADER:
        linter.line = 1
        called = misnamed_columns(header)
        for name, due in called.items():
            message = f"column '{name}', where the form of 2025 has '{due}'"
            linter.find("schema", message, f"Call it {due}", True)
        others = [cut(name) or "one without a name" for name in header
                  if name not in HEADER and name not in called]  # fmt: skip
        done = f"Mended; without {', '.join(others)}" if others else "Mended"
        message, remedy = f"header {','.join(header)}", f"Write {','.join(HEADER)}"
        if others or [called.get(name, name) for name in header] != HEADER:
            level = "warning" if set(HEADER) <= set(header) else ""  # evaluators go by the names
            linter.find("schema", message, remedy, True, level, done)
    before = 1
    cells = 0  # with evidence
    broken: list[Finding] = []  # in what is wrong with delimiters
    broken_cells = 0
    torn: list[Finding] = []  # rows without their cells
    rows = 0
    labels = Labels()
    for line, row in csv_rows(linter.source, rename=True):
        linter.line, linter.record = line, None
        labels.add({name: cell for name, cell in row.items() if is_said(name)})
        over, before = line - before, line
        if is_header(row):
            message = "the header again, as where files are joined"
            linter.find("schema", message, "Take it out", True, done="Deleted")
            continue
        rows += 1
        if row.get("split", "") is None and row["label"] in AVERITEC_LABELS:
            row["split"] = ""  # the one cell that is not there
        if None in row or None in row.values():  # type: ignore[comparison-overlap]
            where = f", which runs over {over} lines" if over > 1 else ""
            message = f"not {len(HEADER)} cells in the row{where}"
            finding = linter.find("schema", message, "Quote the cells, and close quotes")
            torn.append(finding)
            linter.ids.setdefault(str(row["id"]).strip(), "")
            if over > 1:  # what stands between two quotes may be several
                finding.fixed, finding.done = linter.fix, "Deleted"
                linter.unread.append(f"lines {line - over + 1} to {line}")
            else:
                linter.lose(finding)
            continue
        linter.name(row["id"])
        claim = given = row.get("claim", "")
        if claim.strip() in MISSING:
            gold = (linter.claims or {}).get(linter.record or "")
            claim = gold.text if gold else f"Claim {linter.record}"
            done = f"Written as '{cut(claim)}'"
            linter.find("nan", "the claim is read as missing", "Write the claim", True, done=done)
        label, split = row["label"], row.get("split", "pred")
        if label == "pred" and split in AVERITEC_LABELS:
            linter.find("schema", "label and split stand for each other", "Exchange them", True)
            label, split = split, label
        label = linter.label(label)
        if split != "pred" and split.strip().casefold() in _SPLITS:
            linter.marked += split == "gold"
            if split == "gold":  # a prediction is made of none
                message = "split 'gold', which marks the gold file"
                linter.find("schema", message, "Leave only the predictions, with split pred")
            else:
                linter.find("schema", f"split '{split}'", "Write pred", True)
                split = "pred"
        elif split != "pred":
            message = f"split '{cut(split)}' is none: cells stand in others' places"
            remedy = "Put each under its name, quote those with commas, double quotes in them"
            torn.append(linter.find("schema", message, remedy))
        known = len(linter.findings)
        evidence = averitec.cell(linter, row["evi"])
        cells += evidence != OUTER
        found = linter.findings[known:]
        if any(finding.rule == "delimiter" and not finding.fixable for finding in found):
            broken_cells += 1
            broken += found
        claim = linter.text(claim, "the claim")
        linter.keep([linter.record, claim, evidence, label, split], given)
    if rivals := labels.rivals():
        raise SeveralLabelsError(linter.source, rivals, "label", "2025")
    if len(torn) > max(5, _MOST_TORN * rows):
        message = f"{len(torn)} of {rows} rows have other cells than the header"
        remedy = (
            "Write it again by a CSV writer: quotes around each cell, and those in it doubled, not "
            "as they stand or behind a \\"
        )
        _no_structure(linter, linter.findings, "schema", message, remedy)
    elif broken_cells > max(1, _MOST_BROKEN * cells):
        what = "no cell has"
        if broken_cells < cells:
            what = f"only {cells - broken_cells} of {cells} cells have"
        message = f"{what} the delimiter (TAB TAB NEWLINE) once in each QA"
        _no_structure(linter, broken, "delimiter", message, "Write it again")
    return "2025"


def _no_structure(
    linter: Linter, broken: list[Finding], rule: str, message: str, remedy: str
) -> None:
    """Say once, in the place of what was found in each cell, that the file has lost its structure:
    what is question and what answer, nobody knows."""
    gone = set(map(id, broken))
    linter.findings = [finding for finding in linter.findings if id(finding) not in gone]
    linter.line = linter.record = None
    linter.find(rule, f"{message}: the file has lost its structure", remedy)
    linter.shapeless = True


_MEND: dict[str, Callable[[Linter, dict[str, Any], int], None]] = {
    "2024": averitec.task,
    "first script": averitec.first_script,
    "first EvalAI": averitec.flat,
    "run": averitec.run,
    "FEVER": facts.fever,
    "SciFact": facts.scifact,
}


def as_json(form: str, path: Path, records: list[Any]) -> bytes:
    """A list or lines, as evaluators of the form read it; of a run's as the file was."""
    as_list = beginning(path).startswith("[") if form == "run" else form not in FACTS
    if as_list:
        return json.dumps(records, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return "".join(lines).encode("utf-8", "replace")


def as_csv(path: Path, rows: list[Any]) -> bytes:
    """The rows as a CSV of 2025."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([HEADER, *rows])
    return out.getvalue().encode("utf-8", "replace")
