"""Submissions to the AVeriTeC shared tasks: the JSON of 2024 and the CSV of 2025.

Both name each claim by its id, and are paired with gold claims by id, never by order.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import msgspec

from components.datasets import findings
from components.datasets.base import checked_label
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import (
    AVERITEC_LABELS,
    BadLine,
    Evidence,
    Prediction,
    Record,
    read_lines,
    report,
)

FIRST = 10  # QAs of a claim that count
HEADER = ["id", "claim", "evi", "label", "split"]
INNER = "\t\t\n"  # between question and answer
OUTER = "\t\t\n\n"  # after each QA
LARGEST = 250 * 2**20  # bytes that the portal took


class _Evidence(Record):
    question: str | None = None
    answer: str | None = None
    url: str | list[str] | None = None


class _Prediction(Record):
    claim_id: int | str
    pred_label: str
    claim: str | None = None
    evidence: list[_Evidence] = []


# JSON, 2024


def write_json(path: Path, predictions: list[Prediction]) -> None:
    """Write the JSON list of 2024, by id. `scraped_text` is left out: nothing scores it, and with
    it submissions grew to gigabytes that the portal refused."""
    records = [
        {
            "claim_id": int(p.id) if p.id.isdecimal() else p.id,
            "claim": _valid(p.claim),
            "evidence": [
                {
                    "question": _valid(e.question),
                    "answer": _valid(e.answer),
                    "url": e.url or "",
                }
                for e in p.evidence
            ],
            "pred_label": checked_label(p.label, AVERITEC_LABELS),
        }
        for p in _by_id(predictions)
    ]
    text = json.dumps(records, ensure_ascii=False, indent=1)
    write_whole(path, text.encode("utf-8", "replace") + b"\n")


def _read_json(path: Path, on_error: str, bad: list[BadLine] | None) -> list[Prediction]:
    predictions: dict[str, Prediction] = {}
    for line, raw in read_lines(path, dict[str, Any], on_error, bad):
        try:
            if other := findings.prediction_from(raw):  # FEVER, SciFact
                if predictions.setdefault(other.id, other) is not other:
                    raise ClaimflowError(f"claim {other.id} stands here twice")
                continue
            if "pred_label" not in raw and {"id", "label"} <= raw.keys():
                ours = msgspec.convert(raw, Prediction)  # predictions.jsonl of a run
                checked_label(ours.label, AVERITEC_LABELS)
                if predictions.setdefault(ours.id, ours) is not ours:
                    raise ClaimflowError(f"claim {ours.id} stands here twice")
                continue
            record = msgspec.convert(raw, _Prediction)
            evidence = [
                Evidence(question=e.question or "", answer=e.answer or "", url=_first(e.url))
                for e in record.evidence
            ]
            _add(predictions, record.claim_id, record.claim, evidence, record.pred_label)
        except (msgspec.ValidationError, ClaimflowError) as error:
            report(BadLine(file=str(path), line=line, reason=str(error)), on_error, bad)
    return list(predictions.values())


def _first(url: str | list[str] | None) -> str | None:
    """One URL; some systems give a list."""
    if isinstance(url, list):
        url = url[0] if url else None
    return url or None


# CSV, 2025


def write_csv(path: Path, predictions: list[Prediction], split: str = "pred") -> None:
    """Write the CSV of 2025, by id: the first 10 QAs of each claim, joined by tabs and newlines.

    White space inside a question or an answer becomes single spaces, because the evaluator
    breaks on its own delimiters there. A claim without evidence gets the delimiter alone: an empty
    cell would be read as NaN, and the evaluator would stop.
    split: "pred" for a submission, "gold" for a solution.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for p in _by_id(predictions):
        evidence = "".join(
            f"{_clean(e.question)}{INNER}{_clean(e.answer)}{OUTER}" for e in p.evidence[:FIRST]
        )
        label = checked_label(p.label, AVERITEC_LABELS)
        writer.writerow([p.id, _clean(p.claim), evidence or OUTER, label, split])
    write_whole(path, out.getvalue().encode("utf-8"))


def _read_csv(path: Path, on_error: str, bad: list[BadLine] | None) -> list[Prediction]:
    text = path.read_bytes().decode("utf-8-sig", "replace").replace("\0", "")
    limit = csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [name for name in ("id", "evi", "label") if name not in (reader.fieldnames or [])]
        if missing:
            raise ClaimflowError(
                f"{path} has no column {', '.join(missing)}: its header must be {','.join(HEADER)}."
            )
        predictions: dict[str, Prediction] = {}
        for row in reader:
            try:
                if None in row or None in row.values():
                    raise ClaimflowError(f"{len(HEADER)} cells are due in each row")
                _add(
                    predictions,
                    row["id"],
                    row.get("claim"),
                    split_cell(row["evi"]),
                    row["label"],
                )
            except ClaimflowError as error:
                problem = BadLine(file=str(path), line=reader.line_num, reason=str(error))
                report(problem, on_error, bad)
    except csv.Error as error:
        raise ClaimflowError(f"{path} is no CSV file: {error}.") from None
    finally:
        csv.field_size_limit(limit)
    return list(predictions.values())


def split_cell(cell: str) -> list[Evidence]:
    """The QAs in an `evi` cell; a cell without text has none.

    Raises ClaimflowError where the official reader would stop: a QA must be a question and an
    answer with one delimiter between them.
    """
    evidence = []
    for part in cell.replace("\r\n", "\n").split(OUTER):
        if not part:
            continue
        pair = part.split(INNER)
        if len(pair) != 2:
            raise ClaimflowError(
                f"a QA with {len(pair) - 1} delimiters (TAB TAB NEWLINE) where one is due: "
                f"'{part[:40]}'"
            )
        evidence.append(Evidence(question=pair[0], answer=pair[1]))
    return evidence


# Both


def read_submission(
    path: Path,
    on_error: str = "stop",
    bad: list[BadLine] | None = None,
    system: str | None = None,
) -> list[Prediction]:
    """Predictions from a submission of either form, from a run's predictions.jsonl, or of FEVER,
    SciFact or SciFact-Open, told apart by content; claim ids are unique.

    system: whose predictions, where the table of SciFact-Open has several systems.
    on_error: "stop" raises ClaimflowError at the first bad record (unknown label, repeated id,
    broken cell); "skip" appends it to `bad` and goes on.
    """
    if not path.is_file():
        raise ClaimflowError(f"No submission {path.absolute()}.")
    start = path.read_bytes()[:256].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        raise ClaimflowError(f"{path} is empty.")
    if start.startswith(b"PAR1"):
        return findings.read_table(path, system, on_error, bad)
    read = _read_json if start[:1] in (b"[", b"{") else _read_csv
    return read(path, on_error, bad)


def check_submission(path: Path) -> list[str]:
    """What the official readers would stumble over, one line each; an empty list: nothing.

    Both: labels, ids 0 to n-1 without gap or repeat, more than 10 QAs. CSV, read with pandas as
    the evaluator does: the header, cells taken for missing (empty, "NA", "None" …), broken QAs.
    JSON: texts where texts are due, and a size that the portal takes.
    """
    problems: list[BadLine] = []
    predictions = read_submission(path, "skip", problems)
    found = [str(problem) for problem in problems]
    ids = [p.id for p in predictions]
    if not found and sorted(ids) != sorted(map(str, range(len(ids)))):
        due = next(str(i) for i in range(len(ids) + 1) if str(i) not in ids)
        found.append(f"ids must run from 0 to {len(ids) - 1}; {due} is missing")
    for p in predictions:
        if len(p.evidence) > FIRST:
            found.append(f"claim {p.id} has {len(p.evidence)} QAs, of which {FIRST} count")
    if path.read_bytes()[:16].lstrip()[:1] not in (b"[", b"{"):
        found += _missing_cells(path)
    elif path.stat().st_size > LARGEST:
        found.append(f"{path.stat().st_size // 2**20} MB: the portal refused files of 270 MB")
    return found


def _missing_cells(path: Path) -> list[str]:
    import pandas

    table = pandas.read_csv(path)
    if list(table.columns) != HEADER:
        return [f"header {','.join(map(str, table.columns))} where {','.join(HEADER)} is due"]
    found = []
    if set(table["split"]) - {"pred", "gold"}:
        found.append("column split must hold pred, in a solution gold")
    for name in ("id", "claim", "evi", "label"):
        rows = table.index[table[name].isna()]
        found += [f"row {row + 1}: {name} is read as missing" for row in rows]
    return found


def _add(
    predictions: dict[str, Prediction],
    id: int | str,
    claim: str | None,
    evidence: list[Evidence],
    label: str,
) -> None:
    name = str(id).strip()
    if name in predictions:
        raise ClaimflowError(f"claim id {name} again")
    checked_label(label, AVERITEC_LABELS)
    predictions[name] = Prediction(id=name, claim=claim or "", evidence=evidence, label=label)


def _by_id(predictions: list[Prediction]) -> list[Prediction]:
    """Sorted by id, numbers by value; an id may stand once."""
    ids = [p.id for p in predictions]
    if len(set(ids)) < len(ids):
        again = next(i for i in ids if ids.count(i) > 1)
        raise ClaimflowError(f"Two predictions for claim {again}: a submission has one a claim.")
    return sorted(
        predictions,
        key=lambda p: (0, int(p.id), "") if p.id.isdecimal() else (1, 0, p.id),
    )


def _valid(text: str) -> str:
    """`text` with U+FFFD for lone surrogates, which UTF-8 can't hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _clean(text: str) -> str:
    """`text` on one line, single-spaced."""
    return " ".join(_valid(text).replace("\0", " ").split())
