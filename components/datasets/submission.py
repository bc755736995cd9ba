"""Submissions to the AVeriTeC shared tasks: the JSON of 2024 and the CSV of 2025; and the forms
before them.

Both name each claim by its id, and are paired with gold claims by id, never by order. In the forms
before, a record without an id has its position in the file as id.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from components.datasets import fever, findings, scifact
from components.datasets.base import checked_label
from components.datasets.forms import FACTS, Forms, is_sentence, misnamed, several
from components.datasets.label_keys import Labels, SeveralLabelsError, calls_gold
from components.errors import ClaimflowError, listed, plain
from components.files import beginning, check_file, check_text, open_text, write_whole
from components.records import (
    AVERITEC_LABELS,
    Answer,
    BadLine,
    Claim,
    Evidence,
    Prediction,
    Record,
    all_alike,
    read_lines,
    report,
)

FIRST = 10  # QAs of a claim that count
HEADER = ["id", "claim", "evi", "label", "split"]
INNER = "\t\t\n"  # between question and answer
OUTER = "\t\t\n\n"  # after each QA
NO_ANSWER = "No answer could be found."


# JSON: what a record of each form holds


class _Evidence(Record):
    question: str | None = None
    answer: str | None = None
    url: str | list[str | None] | None = None


class _Task(Record):
    """The shared task of 2024."""

    claim_id: int | str
    pred_label: str | None
    claim: str | None = None
    evidence: list[_Evidence] = []
    string_evidence: list[str] = []

    def prediction(self, position: int) -> Prediction:
        evidence = [
            Evidence(question=e.question or "", answer=e.answer or "", url=_first(e.url))
            for e in self.evidence
        ]
        evidence += [Evidence(question="", answer=text) for text in self.string_evidence]
        return _prediction(self.claim_id, self.claim, evidence, self.pred_label or "")


class _Question(Record):
    question: str
    answers: list[Answer | str] | Answer | str | None = None


class _First(Record):
    """The first evaluation script: keys of the data set, claims told by their order."""

    label: str | None
    claim_id: int | str | None = None
    id: int | str | None = None
    claim: str | None = None
    questions: list[_Question] = []
    string_evidence: list[str] = []
    justification: str | None = None

    def prediction(self, position: int) -> Prediction:
        evidence = []
        for asked in self.questions:
            answers = asked.answers if isinstance(asked.answers, list) else [asked.answers]
            for answer in answers or [None]:
                evidence.append(_answered(asked.question, answer))
        evidence += [Evidence(question="", answer=text) for text in self.string_evidence]
        found = _prediction(self._name(position), self.claim, evidence, self.label or "")
        found.justification = self.justification
        questions = [asked.question for asked in self.questions]
        known = [e.question for e in evidence if e.question]
        if questions != known and any(q.strip() for q in questions):  # else it has none
            found.asked = questions
        return found

    def _name(self, position: int) -> int | str:
        names = (name for name in (self.claim_id, self.id) if name is not None)
        return next(names, position)


class _Flat(Record):
    """The first EvalAI page: evidence as texts. Its evaluator reads label and evidence, though the
    page names predicted_label and predicted_evidence."""

    label: str | None = None
    predicted_label: str | None = None
    id: int | str | None = None
    claim_id: int | str | None = None
    claim: str | None = None
    evidence: list[str] = []
    predicted_evidence: list[str] = []

    def prediction(self, position: int) -> Prediction:
        label = self.predicted_label if self.label is None else self.label
        if label is None:
            raise ClaimflowError("no label")
        texts = self.evidence or self.predicted_evidence
        evidence = [Evidence(question="", answer=text) for text in texts]
        names = (name for name in (self.id, self.claim_id) if name is not None)
        return _prediction(next(names, position), self.claim, evidence, label)


FORMS: dict[str, Any] = {
    "2024": _Task,
    "first script": _First,
    "first EvalAI": _Flat,
    "run": Prediction,  # predictions.jsonl of a run
}


# Where evidence may stand that no evaluator reads: by the key's name, or in a list of objects or of
# [page, line]
_LIKE = re.compile(r"(?i)evi(d|s?$)|qa|quest|answer")
_LIKE_QUESTION = re.compile(r"(?i)quest|query|^q$")
_PAGE = {"scraped_text", "passages"}  # what an answer was taken from
_NO_ANSWER = {"question", "url", "answer_type", "source_url", "source_medium", "cached_source_url"}
_NO_ANSWER |= _PAGE
_LIKE_ANSWER = re.compile(r"(?i)answer|respon|reply|text|passage|content|output")


def unread(holder: dict[str, Any], due: str) -> list[str]:
    """The keys of a record, QA, question or answer under which that seems to stand which is due,
    where it does not stand under its own; [] is none, and stands. So does an answer that is null,
    unless another key is named like one. Where none is there, not even null, the text of the page
    is in its place too."""
    if holder.get(due) is not None or holder.get("string_evidence"):
        return []
    found = [key for key, v in holder.items() if _is_said(v)]
    if due == "question":
        return [key for key in found if _LIKE_QUESTION.search(key)]
    if due in ("answer", "answers"):
        others = [key for key in found if key not in _NO_ANSWER]
        like = [key for key in others if _LIKE_ANSWER.search(key)]
        if like or due in holder:
            return like
        return others or [key for key in found if key in _PAGE]
    return [key for key in found if _LIKE.search(key) or _is_evidence(holder[key])]


def _is_said(value: Any) -> bool:
    return bool(
        value.strip() if isinstance(value, str) else isinstance(value, (list, dict)) and value
    )


def _is_evidence(value: Any) -> bool:
    """Whether it is a list of objects, or of [page, line] with or without more."""
    first = value[0] if isinstance(value, list) else None
    return isinstance(first, dict) or (isinstance(first, list) and is_sentence(first[:2]))


def said_elsewhere(due: str, keys: list[str]) -> str:
    """What is to be said of what `unread` finds."""
    names = " and ".join(f"'{key}'" for key in keys)
    return f"no {due}, and {names} in its place, which no evaluator reads"


def _refuse_unread(raw: dict[str, Any], form: str) -> None:
    """Raise ClaimflowError for a record with evidence that would not be read."""
    key, answer = ("questions", "answers") if form == "first script" else ("evidence", "answer")
    items = raw.get(key)
    places = [("", raw, key)]
    for n, item in enumerate(items if isinstance(items, list) else ()):
        if not isinstance(item, dict):
            continue
        places += [(f"{key}[{n}]: ", item, "question"), (f"{key}[{n}]: ", item, answer)]
        given = item.get("answers") if answer == "answers" else None
        for m, one in enumerate(given if isinstance(given, list) else [given]):
            places += [(f"{key}[{n}].answers[{m}]: ", one, "answer")] * isinstance(one, dict)
    for at, holder, due in places:
        if keys := unread(holder, due):
            said = f"{at}{said_elsewhere(due, keys)}"
            raise ClaimflowError(f"{said}: write it as {due} (`python -m flows.lint` says where)")


def _answered(question: str, answer: Answer | str | None) -> Evidence:
    """A QA as the first script compares it."""
    if answer is None:
        return Evidence(question=question, answer=NO_ANSWER)
    if isinstance(answer, str):
        return Evidence(question=question, answer=answer)
    text = answer.answer
    if answer.answer_type == "Boolean" and answer.boolean_explanation is not None:
        text += f". {answer.boolean_explanation}"
    return Evidence(question=question, answer=text, url=answer.source_url)


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


def _read_json(
    path: Path,
    on_error: str,
    bad: list[BadLine],
    warnings: list[str] | None = None,
    claims: Iterable[Claim] | None = None,
) -> Iterator[tuple[int, Prediction]]:
    forms = Forms(path, claims)
    position = 0  # of the record in the file, those that are no JSON included
    unread = len(bad)
    twice: dict[str, list[Any]] | None = None if warnings is None else {}
    differing: list[str] = []
    found: dict[str, list[int]] = {}  # lines of the records of each form
    for line, raw in read_lines(path, dict[str, Any], on_error, bad, twice):
        position += len(bad) - unread
        differing += [f"line {line}, '{k}'" for k, v in (twice or {}).items() if not all_alike(v)]
        try:
            form = forms.of(raw)
            forms.check(raw, form)
            found.setdefault(form, []).append(line)
            yield line, _from_record(raw, form, position)
        except SeveralLabelsError:
            raise  # it is the file's
        except (msgspec.ValidationError, ClaimflowError) as error:
            where = f"record {position + 1}: " if line != position + 1 else ""
            nan = next(nans(raw), None)
            reason = f"{where}{f'{nan} is NaN, which is no text' if nan else plain(error)}"
            report(BadLine(file=str(path), line=line, reason=reason), on_error, bad)
        position += 1
        unread = len(bad)
    if warnings is not None and (mixed := several(found)):
        warnings.append(
            f"{path.name} has {mixed}. All are read, each in its own; `python -m flows.lint` says "
            "what else is wrong."
        )
    if warnings is not None and differing:
        warnings.append(
            f"{path.name} has a key twice in one object, with values that differ; the last counts, "
            f"as official scorers read it ({listed(differing, 3)})."
        )


def _from_record(raw: dict[str, Any], form: str, position: int) -> Prediction:
    for name in ("claim_id", "id"):
        if isinstance(raw.get(name), float) and raw[name].is_integer():  # as in a CSV
            raw[name] = int(raw[name])
    if names := misnamed(raw, form):
        wrong = [f"'{key}' for {due}" for key, due in names.items()]
        raise ClaimflowError(
            f"this is a prediction in the form of {form} but for its keys, {' and '.join(wrong)}: "
            "rename (`python -m flows.lint … fix=true` does)"
        )
    if form == "FEVER" and (keys := unread(raw, "predicted_evidence")):
        said = said_elsewhere("predicted_evidence", keys)
        raise ClaimflowError(f"{said}: write it as predicted_evidence, in lists of [page, line]")
    if form in FACTS:
        return (fever if form == "FEVER" else scifact).prediction_from(raw)
    if "predicted_evidence" not in raw:
        _refuse_unread(raw, form)
    if form == "run" and type(raw["id"]) is int:
        raw["id"] = str(raw["id"])
    record = msgspec.convert(raw, FORMS[form])
    return record if isinstance(record, Prediction) else record.prediction(position)


def nans(value: Any, at: str = "") -> Iterator[str]:
    """Where in a record NaN stands."""
    if isinstance(value, float) and math.isnan(value):
        yield at.removeprefix(".")
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from nans(item, f"{at}.{key}")
    for n, item in enumerate(value if isinstance(value, list) else ()):
        yield from nans(item, f"{at}[{n}]")


def _first(url: str | list[str | None] | None) -> str | None:
    """One URL; some systems give a list, with null for none."""
    urls = url if isinstance(url, list) else [url]
    return next(filter(None, urls), None)


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


def whole_number(value: Any) -> int | None:
    """The number that an id means: 5, 5.0, "5", "005" and "5.0" mean 5; None where it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and (found := _NUMBER.fullmatch(value.strip())):
        return int(found[1])
    return value if type(value) is int else None


_NUMBER = re.compile(r"0*([0-9]{1,18})(?:\.0*)?")


def _read_csv(
    path: Path, on_error: str, bad: list[BadLine], splits: list[str]
) -> Iterator[tuple[int, Prediction]]:
    labels = Labels()
    for line, row in csv_rows(path):
        try:
            if is_header(row):
                raise ClaimflowError("the header again, as where files are joined: take it out")
            splits.append(row.get("split") or "")
            labels.add({name: cell for name, cell in row.items() if is_said(name)})
            more: Any = row.pop(None, ())  # type: ignore[call-overload]
            cells = sum(value is not None for value in row.values()) + len(more)
            if cells != len(row):
                raise ClaimflowError(
                    f"the row of claim {row['id']!r} has {cells} cells, and the header {len(row)}: "
                    "a cell with commas or quotes stands in quotes, its own quotes doubled"
                )
            evidence = split_cell(row["evi"])
            number = whole_number(row["id"])  # as pandas reads the column
            name = row["id"] if number is None else number
            yield line, _prediction(name, row.get("claim"), evidence, row["label"])
        except ClaimflowError as error:
            report(BadLine(file=str(path), line=line, reason=str(error)), on_error, bad)
    if rivals := labels.rivals():
        raise SeveralLabelsError(path, rivals, "label", "2025")


_COLUMNS = {
    "id": ("claimid",),
    "claim": ("claimtext",),
    "evi": ("evidence", "predevidence", "predictedevidence"),
    "label": ("predlabel", "predictedlabel", "prediction", "pred", "verdict"),
    "split": (),
}  # of HEADER, and what else they are called, letters alone


def misnamed_columns(header: Iterable[str]) -> dict[str, str]:
    """{column: the name that it should have} of the CSV of 2025, where one column alone can be
    meant by one that is missing."""
    header = list(header)
    found: dict[str, str] = {}
    for due, others in _COLUMNS.items():
        meant = [name for name in header if re.sub(r"[\W_]", "", name).lower() in (due, *others)]
        if due not in header and len(meant) == 1:
            found[meant[0]] = due
    return found


def csv_rows(path: Path, rename: bool = False) -> Iterator[tuple[int, dict[str, str]]]:
    """(number of its last line, row) of a CSV of 2025, one at a time. rename: take columns by
    another name (`misnamed_columns`) for those that are missing.

    Raises ClaimflowError when columns are missing or the file is no CSV.
    """
    limit = csv.field_size_limit(2**31 - 1)
    try:
        with open_text(path) as lines:
            reader = csv.DictReader(lines)
            missing = [x for x in ("id", "evi", "label") if x not in (reader.fieldnames or [])]
            names = list(reader.fieldnames or [])
            if len(set(names)) < len(names):
                what = "columns without a name" if names.count("") > 1 else "a column twice"
                raise ClaimflowError(f"{path} has {what}: its header must be {','.join(HEADER)}.")
            called = misnamed_columns(names)
            if rename and set(missing) <= set(called.values()):
                reader.fieldnames = [called.get(name, name) for name in names]
            elif missing:
                but = [f"{name!r} for {due}" for name, due in called.items() if due in missing]
                mends = "; `flows.lint … fix=true` renames" * (len(but) == len(missing))
                raise ClaimflowError(
                    f"{path} has no column {', '.join(missing)}{' but ' * bool(but)}"
                    f"{', '.join(but)}: its header must be {','.join(HEADER)}{mends}."
                )
            for row in reader:
                yield reader.line_num, row
    except csv.Error as error:
        raise ClaimflowError(f"{path} is no CSV file: {error}.") from None
    finally:
        csv.field_size_limit(limit)


def is_said(column: str | None) -> bool:
    """Whether a column of the CSV of 2025 may hold a prediction beside that of `label`: not one
    that calls itself gold."""
    return column is not None and column != "split" and not calls_gold(column)


def is_header(row: dict[str, str]) -> bool:
    """Whether a row of a CSV of 2025 is its header once more."""
    return all(row[name] == name for name in ("id", "evi", "label"))


def split_cell(cell: str) -> list[Evidence]:
    """The QAs in an `evi` cell; a cell without text has none.

    Raises ClaimflowError where the official reader would stop: a QA must be a question and an
    answer with one delimiter between them.
    """
    evidence = []
    for part in line_feeds(cell).split(OUTER):
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


def line_feeds(text: str) -> str:
    """`text` with the line ends of Windows and of old Macs as line feeds; CR CR LF is one line end,
    that of Windows written twice over."""
    return _LINE_END.sub("\n", text)


_LINE_END = re.compile(r"\r{0,2}\n|\r")


# Both


def read_submission(
    path: str | Path,
    on_error: str = "stop",
    bad: list[BadLine] | None = None,
    system: str | None = None,
    warnings: list[str] | None = None,
    claims: Iterable[Claim] | None = None,
) -> list[Prediction]:
    """Predictions from a submission of any form, AVeriTeC's, FEVER's, SciFact's or SciFact-Open's,
    or from a run's predictions.jsonl, in the order of the file. Forms are told apart by content,
    record by record, and where a record does not tell, by the others (see `Forms`). The file is
    read piece by piece, and what nothing scores (scraped_text) is dropped on the way. Labels that a
    task does not have and ids that stand there again are kept: what these count as is the scorer's
    rule.

    system: whose predictions, where the table of SciFact-Open has several systems.
    on_error: "stop" raises ClaimflowError at the first bad record (missing field, broken cell);
    "skip" appends it to `bad` and goes on. A file in another encoding than UTF-8 or UTF-16 stops in
    any case.
    warnings: takes what is to be said before any figure: that a CSV calls itself the gold file,
    that a system's probabilities are no confidences, that records have several forms, that an
    object has a key twice with values that differ.
    claims: the gold claims, which tell the form where no record of the file does.

    Raises SeveralLabelsError, whatever `on_error` is, for a file with labels under several keys of
    which none says that it is the prediction; ClaimflowError for a CSV with some gold rows.
    """
    path = Path(path)
    problems: list[BadLine] = [] if bad is None else bad
    check_file(path, "submission")
    if is_table(path):
        return findings.read_table(path, system, on_error, problems, warnings)
    if system is not None:
        raise ClaimflowError(f"{path} is no table of several systems: name it without '{system}'.")
    check_text(path)
    if is_json(path):
        return [
            prediction for _, prediction in _read_json(path, on_error, problems, warnings, claims)
        ]
    splits: list[str] = []
    found = [prediction for _, prediction in _read_csv(path, on_error, problems, splits)]
    marked = splits.count("gold")
    if 0 < marked < len(splits):
        raise ClaimflowError(
            f"{marked} of {len(splits)} rows of {path} have split 'gold', which marks the gold "
            "file: leave only the predictions, with split 'pred'."
        )
    if warnings is not None and marked:
        warnings.append(
            f"{marked} of {len(splits)} rows of {path.name} have split 'gold', which marks the "
            "gold file; those of a submission have 'pred'."
        )
    return found


def named_system(given: str) -> tuple[Path, str | None]:
    """The file and the system that FILE:SYSTEM means; a file alone, or none at all, names none.
    Both may have colons in them: the longest name that is a file is it."""
    ends = [n for n, letter in enumerate(given) if letter == ":"]
    for end in reversed(ends if not Path(given).exists() else []):
        if Path(given[:end]).is_file():
            return Path(given[:end]), given[end + 1 :]
    return Path(given), None


def whole_file(given: str, what: str) -> Path:
    """The file, where all systems of a table are taken. Raises ClaimflowError for FILE:SYSTEM, and
    where there is none; what: it is, as `check_file` has it."""
    path, system = named_system(given)
    if system is not None:
        raise ClaimflowError(
            f"{given}: all systems of a table are taken here, so leave ':{system}' out."
        )
    check_file(path, what)
    return path


def is_table(path: Path) -> bool:
    """Whether a submission is a Parquet table (SciFact-Open)."""
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def is_json(path: Path) -> bool:
    """Whether a submission is JSON, else it is CSV. Raises ClaimflowError when there is nothing, or
    what is neither."""
    start = beginning(path)
    if not start:
        raise ClaimflowError(f"{path} is empty.")
    if start[0] in "[{":
        return True
    if not _named(start.split(",")) or {"model", "doc_id"} <= set(start.split(",")):
        words = start.split()
        what = "it begins with " + repr(start[:40] + "…" * (len(start) > 40))
        if start[0] == "<":
            what = "it is a web page, or XML"
        elif other := next((c for c in ";\t|" if _named(start.split(c))), None):
            what = f"its cells are parted by {other!r}: save it with commas"
        elif {"model", "doc_id"} <= set(start.split(",")):
            what = "a table of systems (SciFact-Open) is read as Parquet, so save it as that"
        elif len(words) == 6 and words[1] == "Q0":
            what = "it is a TREC run, which scorer=retrieval takes as rankings=FILE"
        raise ClaimflowError(
            f"{path} is no submission: neither JSON, which begins with [ or {{, nor a CSV with the "
            f"header {','.join(HEADER)}; {what}."
        )
    return False


def _named(cells: list[str]) -> bool:
    """Whether cells, which begin with a header, name a column of a submission, or two that are
    called otherwise."""
    names = [cell.strip(' "') for cell in cells]
    due = {"id", "evi", "label"}
    called = misnamed_columns(name for name in names[: len(HEADER) + 3] if name.isprintable())
    return not due.isdisjoint(names) or len(due & set(called.values())) > 1


def _prediction(
    id: int | str, claim: str | None, evidence: list[Evidence], label: str
) -> Prediction:
    return Prediction(id=str(id).strip(), claim=claim or "", evidence=evidence, label=label)


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
