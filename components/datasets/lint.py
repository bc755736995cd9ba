"""What is wrong with a submission to AVeriTeC, FEVER or SciFact before an evaluator says so, and
its repair.

Errors are what an official evaluator or portal stops at, or counts for another claim; warnings
are what costs points or breaks rules of the task without a word. A file without errors is accepted.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from components.datasets import findings
from components.datasets.submission import (
    FIRST,
    FORMS,
    HEADER,
    INNER,
    NO_ANSWER,
    OUTER,
    csv_rows,
    form_of,
    is_json,
    is_table,
    line_feeds,
    misnamed,
    read_submission,
    whole_number,
)
from components.errors import ClaimflowError, listed, plain
from components.files import (
    beginning,
    check_file,
    check_kind,
    digest,
    encoding_fault,
    encoding_of,
    open_text,
    unmarked_utf16,
    write_whole,
)
from components.labels import exact_label, nearest_label
from components.records import (
    AVERITEC_LABELS,
    BadLine,
    Claim,
    Record,
    all_alike,
    read_lines,
)
from components.score import fit
from components.urls import same_url

FEVER_LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
FEVER_FIRST = 5  # sentences that count
SCIFACT_LABELS = ("SUPPORT", "CONTRADICT")
TABLE = ("model", "claim_id", "doc_id", "predicted_label")  # columns of SciFact-Open's
SCIFACT_FIRST = 3  # sentences of a document that count
UNKNOWN = "unknown"
LARGEST = 250 * 2**20  # bytes; portals refused 270 MB

RULES = {
    "gold": "Nothing of the gold file stands in it, and it is not the gold file.",
    "json": "The file is one JSON list, or JSON lines, to its end; no object has a key twice.",
    "encoding": "The file is UTF-8 without byte order mark, lone surrogates or NUL characters.",
    "size": f"The file has at most {LARGEST // 2**20} MB; portals refused 270 MB.",
    "scraped-text": "No page texts: nothing scores them, and they make the file large.",
    "claim": "Claims stand under their own ids.",
    "schema": "Records have the keys, cells and types that the evaluator reads.",
    "nan": "No NaN, and no cell that pandas reads as missing (empty, NA, None).",
    "id": "Each claim stands once, in order; ids run from 0 without gap.",
    "label": "Labels are spelt as in the data set.",
    "delimiter": "In a CSV, TAB TAB NEWLINE parts question and answer; texts have neither.",
    "no-evidence": "Each claim has evidence; without, it scores 0.",
    "empty-qa": "Questions and answers have text.",
    "long-evidence": "Answers are no longer than a passage.",
    "many-qas": f"At most {FIRST} QAs; the others don't count.",
    "repeated-qa": "No QA stands twice: repeats raise Hungarian METEOR, a known flaw.",
    "repeated-question": "No question stands twice, with another answer.",
    "boolean": "A yes or no comes with its explanation, as in gold answers.",
    "late-evidence": "No page dated after the claim.",
    "fact-check": "No fact-checking site, and not the claim's own fact-check.",
    "rank": "Ranks run from 1 over all claims of a system; average precision goes down them.",
}
FORM_RULES = {  # where a rule means something else in a form
    "FEVER": {
        "many-qas": f"At most {FEVER_FIRST} sentences; the others don't count.",
        "repeated-qa": "No sentence stands twice: each time it counts again.",
    },
    "SciFact": {
        "many-qas": f"At most {SCIFACT_FIRST} sentences of a document; the others don't count.",
    },
}
WARNINGS = {"scraped-text", "no-evidence", "empty-qa", "long-evidence", "many-qas", "repeated-qa"}
WARNINGS |= {"repeated-question", "late-evidence", "fact-check", "gold", "rank"}

# Fields of the data set that no submission has; the form of 2024 has neither label nor questions.
_GOLD = {"fact_checking_article", "fact_checking_strategies", "claim_types"}
_GOLD_SCIFACT = {"provenance", "model_ranks"}
_GOLD_FORM = _GOLD_SCIFACT | {"evidence in lists", "verifiable"}  # that of SciFact's or FEVER's
_ANNOTATED = {"justification", "fact_checking_strategies"}  # only annotators write both
_GOLD_2024 = _GOLD | {"label", "questions"}

_MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"}
_MISSING |= {"1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
_UNRANKED = "Without it the document stands in no ranking"
_BOOLEAN = re.compile(r"(?i)\W*(yes|no|true|false)\W*")


def about(rule: str, form: str) -> str:
    """The rule in words, as it is in a form."""
    return FORM_RULES.get(form, {}).get(rule, RULES[rule])


class Finding(Record):
    """One thing that is wrong. line: where the record begins (JSON) or ends (CSV), from 1.
    record: the claim id. fixable: a repair is clear. fixed: the repaired file does not have it;
    done: what was done for that."""

    rule: str
    level: str  # error, warning
    message: str
    remedy: str
    line: int | None = None
    record: str | None = None
    fixable: bool = False
    fixed: bool = False
    done: str = "Mended"

    def __str__(self) -> str:
        where = "" if self.record is None else f"claim {_cut(self.record)}: "
        at = "" if self.line is None else f"line {self.line}: "
        return f"{at}{where}{self.text}"

    @property
    def text(self) -> str:
        """Message and remedy as sentences."""
        end = "" if self.message.endswith((".", "?")) else "."
        return f"{self.message}{end} {self.done if self.fixed else self.remedy}."


class Report(Record):
    """What `lint` found in a file. left: what it finds in the repaired file."""

    file: str
    form: str
    records: int
    findings: list[Finding] = []
    unchecked: list[str] = []  # rules that lacked the gold claims
    repaired: str | None = None
    left: list[Finding] = []
    left_out: int = 0  # records that the repaired file does not have
    lost: int = 0  # of these, such as can't be read
    unread: list[str] = []  # lines of the file that may hold records which it does not have
    unrepaired: str | None = None  # why no repaired file was written, where one was asked for

    @property
    def errors(self) -> list[Finding]:
        """Errors: of the repaired file, if there is one."""
        return self._of("error")

    @property
    def warnings(self) -> list[Finding]:
        """Warnings, likewise."""
        return self._of("warning")

    def _of(self, level: str) -> list[Finding]:
        found = self.findings if self.repaired is None else self.left
        return [finding for finding in found if finding.level == level]


@dataclasses.dataclass
class _Qa:
    """A QA wherever it stands. question: None for evidence that is a text alone. explanation: of a
    Boolean answer, which scorers compare with it."""

    question: str | None
    answer: str
    urls: list[str] = dataclasses.field(default_factory=list)
    explanation: str | None = None
    drop: bool = False


class _Linter:
    def __init__(
        self,
        path: Path,
        claims: list[Claim] | None,
        sites: Iterable[str],
        longest: int,
        fix: bool,
    ) -> None:
        self.path = path
        self.source = path  # what is read: the file, or its text in UTF-8
        self.fix = fix
        self.claims = None if claims is None else {claim.id: claim for claim in claims}
        self.sites = list(sites)
        self.longest = longest
        self.findings: list[Finding] = []
        self.kept: list[tuple[str, Any]] = []  # (claim id, repaired record)
        self.ids: dict[str, str] = {}  # with a digest of what the record says
        self.order: list[str] = []
        self.strangers: list[tuple[Finding, str, Any]] = []  # records of no claim
        self.texts: list[tuple[str, str, int | None]] = []  # (claim id, claim, line)
        self.right = 0  # records with the gold label
        self.gold_fields: dict[str, int] = {}
        self.annotated = 0  # records of the first script with all of _ANNOTATED
        self.marked = 0  # rows of a CSV with split "gold"
        self.misplaced = False  # the claims stand under other ids
        self.differing: list[str] = []  # where a key has several values
        self.of_gold = False  # it is the gold file
        self.illegible = False  # bytes were lost, as the encoding is not known
        self.scraped = 0
        self.lost = 0  # records that can't be read
        self.unread: list[str] = []  # lines that hold who knows how many
        self.size = path.stat().st_size
        self.numbered = True  # ids run from 0
        self.line: int | None = None
        self.record: str | None = None

    def find(
        self,
        rule: str,
        message: str,
        remedy: str,
        fixable: bool = False,
        level: str = "",
        done: str = "Mended",
    ) -> Finding:
        finding = Finding(
            rule=rule,
            level=level or ("warning" if rule in WARNINGS else "error"),
            message=message,
            remedy=remedy,
            line=self.line,
            record=self.record,
            fixable=fixable,
            fixed=fixable and self.fix,
            done=done,
        )
        self.findings.append(finding)
        return finding

    def lose(self, finding: Finding) -> None:
        """Count the record of a finding as one that can't be read: no repaired file has it."""
        finding.fixed, finding.done = self.fix, "Deleted"
        self.lost += 1

    # The file

    def read(self, scratch: Path) -> tuple[str, Callable[[Path, list[Any]], bytes]]:
        """Check the file; (its form, what writes records of it)."""
        as_file: Callable[[Path, list[Any]], bytes] = _as_json
        try:
            if is_table(self.path):
                as_file = _as_table
                return self.table(), as_file
            check_kind(self.path)
            self.decode(scratch)
            if is_json(self.source):
                form = self.json()
            else:
                as_file = _as_csv
                form = self.csv()
        except ClaimflowError as error:  # no form that is known, or it breaks off
            self.line = self.record = None
            said = str(error).replace(str(self.source), "the file")
            said = " ".join(said.replace(str(self.path), "the file").split())
            self.find("schema", said.rstrip("."), "Write one of the published forms")
            self.lost += 1
            return UNKNOWN, as_file
        self.pairing()
        self.gold()
        return form, as_file

    def unrepaired(self, form: str, records: list[Any]) -> str | None:
        """Why no repaired file can be written, if so."""
        if self.of_gold:
            return "it is the gold file, or made from it"
        if 2 * self.marked > len(self.order):
            return f"{self.marked} of {len(self.order)} rows have split 'gold'"
        if self.misplaced:
            return "its claims stand under other ids than the gold file's"
        if self.differing:
            where = listed(self.differing, 3)
            return f"a key stands twice with values that differ, and which is meant? ({where})"
        if self.illegible:
            return "which encoding it is in is not known"
        if form == UNKNOWN:
            return "the file can't be read to its end"
        return None if records else "there is no record that can be kept"

    def decode(self, scratch: Path) -> None:
        """The encoding; text in another one is read from a copy in `scratch`."""
        utf16, fault = encoding_of(self.path) == "utf-16", encoding_fault(self.path)
        with open(self.path, "rb") as file:
            marked = file.read(3) == codecs.BOM_UTF8
        self.line = 1
        if marked:
            self.find("encoding", "a byte order mark", "Save as UTF-8 without it", True)
        if utf16:
            self.find("encoding", "the file is UTF-16", "Save as UTF-8", True)
        if fault or utf16:
            western = False
            if fault:
                self.line, what = fault
                western = not utf16 and "NUL" not in what and _is_western(self.path)
            self.source = scratch / "text"
            encoding = "cp1252" if western else encoding_of(self.path)
            nuls, self.illegible = _copy_text(self.path, self.source, encoding)
            if unmarked := unmarked_utf16(self.path):
                remedy = f"Save as UTF-8 (`iconv -f {unmarked} -t UTF-8`)"
                self.find("encoding", "UTF-16 without its mark", remedy)
            elif nuls:
                remedy = "Take them out, and save as UTF-8"
                self.find("encoding", "NUL characters", remedy, True, done="Deleted")
            elif fault:
                what += "; all of it reads as Windows-1252" if western else ""
                done = "Written as UTF-8: look whether the letters are right"
                self.find("encoding", what, "Save as UTF-8", western, done=done)
        self.line = None

    def sizes(self) -> None:
        """What makes the file large, once all of it is read."""
        self.line = self.record = None
        if not self.order and not self.lost and not self.unread:
            self.find("schema", "no records", "Write one for each claim")
        if self.scraped:
            self.find(
                "scraped-text",
                f"scraped_text takes {self.scraped / 2**20:.1f} of {self.size / 2**20:.1f} MB",
                "Leave it out",
                True,
                done="Deleted",
            )
        if self.size > LARGEST:
            small = self.size - self.scraped < LARGEST
            self.find(
                "size", f"{self.size // 2**20} MB", "Leave scraped_text out", small, done="Deleted"
            )

    def pairing(self) -> None:
        """Which claims are there, and in what order, once all records are read."""
        self.line = self.record = None
        self.claim_texts()
        due = list(self.claims) if self.claims is not None else None
        if due is None and not self.numbered:
            due = self.order
        if due is None:
            numbers = sorted(n for n in map(whole_number, self.ids) if n is not None and n >= 0)
            if numbers and numbers[-1] > 2 * len(numbers) + 1000:
                self.find("id", f"ids up to {numbers[-1]}", "Number the claims from 0")
            else:
                numbers = list(range(numbers[-1] + 1)) if numbers else []
            due = list(map(str, numbers))
        missing = [i for i in due if i not in self.ids]
        if missing:
            shown = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
            what = "claim is" if len(missing) == 1 else "claims are"
            self.find("id", f"{len(missing)} {what} missing: {shown}", "Predict a label for each")
        self.settle_strangers(bool(missing))
        place = {name: n for n, name in enumerate(due)}
        known = [place[i] for i in dict.fromkeys(self.order) if i in place]
        if known != sorted(known):
            self.find(
                "id",
                "records are not in the order of the claims, by which evaluators pair",
                "Sort them by id",
                True,
            )
        self.kept.sort(key=lambda item: place.get(item[0], len(place)))

    def claim_texts(self) -> None:
        """Whether claims stand under their own ids, by the rule of the scorers (score/fit.py)."""
        if self.claims is None:
            return
        texts = {id: claim.text for id, claim in self.claims.items()}
        found = fit.apart(((id, text) for id, text, _ in self.texts), texts)
        if found.message:
            self.find("claim", found.message, found.remedy)
            self.misplaced = True
            return
        places = {fit.letters(text): id for id, text in texts.items()}
        lines = {(id, text): line for id, text, line in self.texts}
        for id, text in found.other:
            self.line, self.record = lines[id, text], id
            if (own := places.get(fit.letters(text))) is not None:
                remedy = f"Call it {own}"
                self.find("claim", f"this is claim {own}: '{_cut(text)}'", remedy)
            else:
                mine, theirs = fit.differing(text, texts[id])
                message = f"the claim is '{mine}', in the gold file '{theirs}'"
                self.find("claim", message, "See whether the id is right", level="warning")
        self.line = self.record = None

    def settle_strangers(self, missing: bool) -> None:
        """Records of no claim are left out if each claim has its own, else kept: they may be those
        of claims that miss theirs."""
        for finding, name, record in self.strangers if missing or self.misplaced else ():
            finding.fixable = finding.fixed = False
            finding.remedy = "Give it the id of its claim: others have no record"
            self.kept.append((name, record))

    def gold(self) -> None:
        """Whether the file is the gold file, or has fields of it. This comes first of all."""
        self.line = self.record = None
        known = len(self.findings)
        said = (
            read_submission(self.source, "skip")
            if self.claims and self.right and self.right == len(self.order)
            else []
        )
        if said and self.claims and fit.is_gold(said, list(self.claims.values())):
            message = "every record has the gold label and the gold evidence, word for word"
            self.find("gold", message, "Give what the system predicts", level="error")
        elif self.marked and self.marked == len(self.order):
            message = f"all {self.marked} rows have split 'gold', which marks the gold file"
            self.find("gold", message, "Give what the system predicts", level="error")
        if self.gold_fields:
            names = ", ".join(f"{name} ({n} times)" for name, n in self.gold_fields.items())
            # The form of the first script is that of the data set, whose fields predictions may
            # copy; gold labels and evidence tell better than fields do.
            known_gold = any(c.label and c.questions for c in (self.claims or {}).values())
            every = not known_gold and 0 < self.annotated == len(self.order)
            if every or _GOLD_FORM & self.gold_fields.keys():
                message = f"this is a file of the data set, by its fields: {names}"
                self.find("gold", message, "Give what the system predicts", level="error")
            else:
                self.find("gold", f"fields of the gold file: {names}", "Leave them out")
        self.of_gold = any(finding.level == "error" for finding in self.findings[known:])
        self.findings = self.findings[known:] + self.findings[:known]

    # Parts of a record

    def name(self, value: Any, number: bool) -> int | str:
        """The claim id as it should be written; finds repeats, strangers, numbers that are written
        otherwise (5.0, "005") and, with `number`, texts."""
        self.record = str(value).strip()
        known = self.claims is not None and self.record in self.claims
        meant, shown = whole_number(value), _cut(repr(value))
        if meant is not None and not known and self.record != str(meant):
            self.record = str(meant)
            self.find("id", f"id {shown} means {meant}", f"Write {meant}", True)
        elif number and type(value) is not int:
            mended = meant is not None and self.record == str(meant)
            self.find("id", f"id {shown} is no number", "Write a number", mended, "warning")
        if self.claims is None and (meant is None or meant < 0) and self.record not in self.ids:
            self.find("id", f"id {shown} is no number from 0", "Use the ids of the claims")
        return self.record if meant is None or self.record != str(meant) else meant

    def keep(self, record: Any, claim: Any) -> None:
        """Take the record into the repaired file, unless it stands there already. What only it
        says is never left out, but for claims that nobody asks for (`settle_strangers`)."""
        name = self.record or ""
        said = digest(json.dumps(_said(record), sort_keys=True).encode("utf-8", "replace"))
        again = name in self.ids
        same = self.ids.setdefault(name, said) == said
        self.order.append(name)
        if isinstance(claim, str):
            self.texts.append((name, claim, self.line))
        if again:
            message = f"the id stands here again{'' if same else ', and says something else'}"
            self.find("id", message, "Keep one; the first counts", same, done="Deleted")
            if same:
                return
        elif self.claims is not None and name not in self.claims:
            stranger = self.find(
                "id", "no claim has this id", "Take the record out", True, done="Deleted"
            )
            self.strangers.append((stranger, name, record if self.fix else None))
            return
        if self.fix:
            self.kept.append((name, record))

    def label(self, value: Any, labels: tuple[str, ...] = AVERITEC_LABELS) -> Any:
        """The label, mended where it is clear which is meant."""
        if value in labels:
            claim = (self.claims or {}).get(self.record or "")
            self.right += claim is not None and claim.label == value
            return value
        remedy = f"Use one of: {', '.join(labels)}"
        if value is None or value != value or str(value).strip() in _MISSING:
            missing = {None: "no label", "": "an empty label"}
            message = missing.get(value, f"the label is {value}, which is read as missing")
            self.find("label" if value in missing else "nan", message, remedy)
            return value
        text = value if isinstance(value, str) else ""
        # Only a text that is a label: what prose means is for its writer to say.
        meant, hint = exact_label(text, labels), nearest_label(text, labels)
        message = f"label {_cut(repr(value))} is none of the task's.{hint}"
        self.find("label", message, remedy, meant is not None)
        return meant or value

    def text(self, value: Any, what: str) -> str:
        """A text on one line, for a value that should be one."""
        if isinstance(value, float) and math.isnan(value):
            self.find("nan", f"{what} is NaN", "Write a text", True)
            return ""
        if not isinstance(value, str):
            kind = "missing" if value is None else f"{_kind(value)}, no text"
            # What a list or an object was meant to say, nobody knows.
            plain = not isinstance(value, (list, dict))
            self.find("schema", f"{what} is {kind}", "Write a text, an empty one for none", plain)
            if not plain:
                return json.dumps(value, ensure_ascii=False)
            return "" if value is None else str(value)
        if "\0" in value:
            remedy = "Take them out"
            self.find("encoding", f"{what} has NUL characters", remedy, True, done="Deleted")
            value = value.replace("\0", "")
        if "\ufffd" in value:
            self.find(
                "encoding",
                f"{what} has characters that were lost (U+FFFD, or half a character)",
                "Read and write texts as UTF-8",
                level="warning",
            )
        if "\t" in value or "\n" in value or "\r" in value:
            self.find(
                "delimiter",
                f"{what} has tabs or newlines, on which a CSV of it breaks",
                "Write single spaces",
                True,
                "warning",
            )
            value = " ".join(value.split())
        return value.replace("\0", "")

    def text_at(self, holder: dict[str, Any], key: str) -> str:
        """The text under a key, mended there, but for a list or an object."""
        given = holder.get(key)
        text = self.text(given, key)
        if not isinstance(given, (list, dict)):
            holder[key] = text
        return text

    def qas(self, qas: list[_Qa]) -> list[_Qa]:
        """Those that the repaired file keeps: of the first ones, by which scorers go, what is
        neither empty nor said before. All evidence of a claim counts together. None behind the
        first moves up, which would score higher than the file does."""
        claim = (self.claims or {}).get(self.record or "")
        if not any(qa.answer.strip() or (qa.question or "").strip() for qa in qas):
            self.find("no-evidence", "no evidence", "Give a QA")
        seen: set[tuple[str, str, str]] = set()
        questions: set[str] = set()
        for qa in qas:
            question, answer = _plain(qa.question or ""), _plain(qa.answer)
            said = (question, answer, _plain(qa.explanation or ""))
            if not any(said):
                self.find("empty-qa", "an empty QA", "Take it out", True, done="Deleted")
                qa.drop = True
            elif said in seen:
                shown = _cut(qa.question or qa.answer)
                self.find("repeated-qa", f"QA again: '{shown}'", "Drop it", True, done="Deleted")
                qa.drop = True
            elif not answer or (qa.question is not None and not question):
                what = "question" if answer else "answer"
                self.find("empty-qa", f"an empty {what}", "Fill it or take the QA out")
            elif question and question in questions:
                self.find(
                    "repeated-question",
                    f"question again, with another answer: '{_cut(qa.question or '')}'",
                    "Ask something else, or join the answers",
                )
            seen.add(said)
            questions.add(question)
            if len(qa.answer) > self.longest:
                self.find(
                    "long-evidence",
                    f"an answer of {len(qa.answer)} characters",
                    f"Give the passage that matters, below {self.longest} characters",
                )
            if _BOOLEAN.fullmatch(qa.answer) and qa.explanation is None:
                self.find(
                    "boolean",
                    f"'{qa.answer.strip()}' without explanation",
                    "Say why in the answer",
                    level="warning",
                )
        for url in dict.fromkeys(url for qa in qas for url in qa.urls):
            self.url(url, claim)
        if len(qas) > FIRST:
            done = f"Deleted behind the first {FIRST}"
            self.find("many-qas", f"{len(qas)} QAs", f"Keep the best {FIRST}", True, done=done)
        for qa in qas[FIRST:]:
            qa.drop = True
        return [qa for qa in qas if not qa.drop]

    def url(self, url: str, claim: Claim | None) -> None:
        from components.store.guard import checks_facts, url_date

        own = claim.fact_check_url if claim else None
        if own and same_url(url) == same_url(own):
            self.find("fact-check", f"the claim's own fact-check: {url}", "Leave it out")
        elif checks_facts(url, self.sites):
            self.find("fact-check", f"a fact-checking site: {url}", "Leave it out")
        date = url_date(url, archive_stamps=False)
        if date and claim and claim.date and date > claim.date:
            self.find(
                "late-evidence", f"of {date}, the claim of {claim.date}: {url}", "Leave it out"
            )

    # Records of each form

    def json(self) -> str:
        bad: list[BadLine] = []
        forms: dict[str, int] = {}
        position = 0
        unread = 0
        twice: dict[str, list[Any]] = {}
        for line, raw in read_lines(self.source, Any, "skip", bad, twice):
            self.line, self.record = line, None
            position += 1 + len(bad) - unread
            unread = len(bad)
            try:
                if not isinstance(raw, dict):
                    raise ClaimflowError("the record is no JSON object")
                self.rename(raw)
                form = _form(raw)
            except ClaimflowError as error:
                self.lose(self.find("schema", str(error), "Write one of the published forms"))
                if isinstance(raw, dict):
                    self.count_gold(raw, {"verifiable"})
                continue
            forms[form] = forms.get(form, 0) + 1
            known = len(self.findings)
            _MEND[form](self, raw, position - 1)
            try:
                msgspec.convert(raw, FORMS.get(form, Any))
            except msgspec.ValidationError as error:
                if all(f.fixable or f.level == "warning" for f in self.findings[known:]):
                    self.find("schema", plain(error), "Write what the form has there")
            for key, values in twice.items():
                same = all_alike(values)
                self.differing += [] if same else [f"line {line}, '{_cut(key)}'"]
                shown = " and ".join(_cut(json.dumps(v, ensure_ascii=False)) for v in values)
                what = "" if same else f", with other values, {shown}"
                message = (
                    f"'{_cut(key)}' stands twice in one object{what}; evaluators read the last"
                )
                self.find("json", message, "Keep one", same, done="Deleted, but for one")
            self.keep(raw, raw.get("claim"))
        for problem in bad:
            self.line, self.record = problem.line, None
            finding = self.find("json", problem.reason, "Write it anew", problem.whole)
            if problem.rest:
                finding.fixed, finding.done = self.fix, "Deleted"
                self.unread.append(f"the rest of the file, from line {problem.line}")
            elif not problem.whole:
                self.lose(finding)
        if len(forms) > 1:
            self.line = self.record = None
            self.find("schema", f"records of several forms: {', '.join(forms)}", "Write one")
        return " and ".join(forms) or "JSON"

    def rename(self, raw: dict[str, Any]) -> None:
        """Give label and id of a record of 2024 the names that they have there."""
        for key, due in misnamed(raw).items() if findings.form_of(raw) is None else ():
            message = f"'{key}', where the form of 2024 has '{due}'"
            self.find("schema", message, f"Call it {due}", True)
            raw[due] = raw.pop(key)

    def count_gold(self, raw: dict[str, Any], fields: set[str]) -> None:
        for name in sorted(fields & raw.keys()):
            self.gold_fields[name] = self.gold_fields.get(name, 0) + 1

    def task(self, raw: dict[str, Any], position: int) -> None:
        self.count_gold(raw, _GOLD_2024)
        given = "claim_id" in raw
        raw["claim_id"] = self.name(raw.get("claim_id", position), True)
        if not given:
            self.find("id", "no claim_id", "Give the id of the claim")
        raw["pred_label"] = self.label(raw["pred_label"])
        raw["claim"] = raw.get("claim") or ""
        self.text_at(raw, "claim")
        evidence = self.evidence(raw.get("evidence"))
        strings = self.strings(raw["string_evidence"]) if "string_evidence" in raw else []
        self.qas([qa for qa, _ in (*evidence, *strings)])
        raw["evidence"] = _left(evidence)
        if "string_evidence" in raw:
            raw["string_evidence"] = _left(strings)

    def evidence(self, items: Any) -> list[tuple[_Qa, Any]]:
        """`evidence` of 2024 and of a run: a list of question, answer, url."""
        qas = []
        for item in self.items(items, "evidence"):
            if isinstance(item, str):
                self.find("schema", "evidence that is a text alone", "Write it as answer", True)
                item = {"question": "", "answer": item, "url": ""}
            if not isinstance(item, dict):
                message = "evidence that is no question and answer"
                self.find("schema", message, "Drop it", True, done="Deleted")
                continue
            self.scraped += len(str(item.pop("scraped_text", "")).encode("utf-8", "replace"))
            pair = self.text_at(item, "question"), self.text_at(item, "answer")
            urls = item.get("url")
            if isinstance(urls, float) and math.isnan(urls):
                self.find("nan", "url is NaN", "Write null", True)
                item["url"] = urls = None
            urls = [u for u in (urls if isinstance(urls, list) else [urls]) if isinstance(u, str)]
            qas.append((_Qa(*pair, urls), item))
        return qas

    def items(self, value: Any, what: str) -> list[Any]:
        """What stands in a list, or should."""
        if isinstance(value, list):
            return value
        if isinstance(value, (dict, str)) and value:
            self.find("schema", f"{what} is one, in no list", "Put it into a list", True)
            return [value]
        done = "Mended" if value in (None, "", {}) else "Deleted"
        self.find("schema", f"{what} is no list", "Write [] for none", True, done=done)
        return []

    def strings(self, items: Any) -> list[tuple[_Qa, Any]]:
        """Evidence as texts, but for what is a list or an object."""
        qas = []
        for item in self.items(items, "string evidence"):
            qa = _Qa(None, self.text(item, "evidence"))
            qas.append((qa, item if isinstance(item, (list, dict)) else qa.answer))
        return qas

    def first_script(self, raw: dict[str, Any], position: int) -> None:
        self.count_gold(raw, _GOLD)
        self.annotated += raw.keys() >= _ANNOTATED
        key = next((key for key in ("claim_id", "id") if raw.get(key) is not None), None)
        name = self.name(raw[key] if key else position, False)
        if key:
            raw[key] = name
        raw["label"] = self.label(raw.get("label"))
        qas: list[tuple[dict[str, Any], list[tuple[_Qa, Any]]]] = []
        questions = raw.get("questions", [])
        if not isinstance(questions, list) or not all(isinstance(q, dict) for q in questions):
            self.find("schema", "questions is no list of questions", "Write [] for none", True)
            questions = []
        for asked in questions:
            question = self.text_at(asked, "question")
            answers = asked.get("answers")
            if not isinstance(answers, list):
                answers = [] if answers is None else [answers]
                self.find("schema", "answers is no list", "Write a list of answers", True)
            if not all(isinstance(a, dict) for a in answers):
                remedy = 'Write {"answer": …} for each'
                self.find("schema", "an answer is no object", remedy, True)
            answers = [a if isinstance(a, dict) else {"answer": a} for a in answers]
            said = [(self.answer(question, answer), answer) for answer in answers]
            # Scorers read a question without answers as one that has this.
            qas.append((asked, said or [(_Qa(question, NO_ANSWER), None)]))
        strings = self.strings(raw["string_evidence"]) if "string_evidence" in raw else []
        self.qas([qa for _, said in qas for qa, _ in said] + [qa for qa, _ in strings])
        kept = []
        for asked, said in qas:
            if not all(qa.drop for qa, _ in said):
                asked["answers"] = [answer for answer in _left(said) if answer is not None]
                kept.append(asked)
        if "questions" in raw:
            raw["questions"] = kept
        if "string_evidence" in raw:
            raw["string_evidence"] = _left(strings)

    def answer(self, question: str, answer: dict[str, Any]) -> _Qa:
        """An answer of the first script, mended in its place."""
        text = self.text_at(answer, "answer")
        explanation = answer.get("boolean_explanation")
        if answer.get("answer_type") != "Boolean":
            explanation = None
        elif not isinstance(explanation, str):
            self.find(
                "boolean",
                "a Boolean answer without boolean_explanation, at which the script stops",
                "Explain it, or leave answer_type out",
                True,
            )
            explanation = ""
            del answer["answer_type"]
            answer.pop("boolean_explanation", None)
        url = answer.get("source_url")
        return _Qa(question, text, [url] if isinstance(url, str) else [], explanation)

    def flat(self, raw: dict[str, Any], position: int) -> None:
        if raw.get("id") is None and raw.get("claim_id") is not None:
            self.find("schema", "'claim_id', where this form has 'id'", "Call it id", True)
            raw["id"] = raw.pop("claim_id")
        raw["id"] = self.name(position if raw.get("id") is None else raw["id"], False)
        for key in ("label", "evidence"):
            if f"predicted_{key}" in raw:
                self.find(
                    "schema",
                    f"predicted_{key}, which the evaluator does not read",
                    f"Call it {key}",
                    key not in raw,
                )
                raw.setdefault(key, raw.pop(f"predicted_{key}"))
        raw["label"] = self.label(raw.get("label"))
        strings = self.strings(raw.get("evidence"))
        self.qas([qa for qa, _ in strings])
        raw["evidence"] = _left(strings)

    def run(self, raw: dict[str, Any], position: int) -> None:
        raw["id"] = str(self.name(raw["id"], False))
        raw["label"] = self.label(raw["label"])
        raw["claim"] = raw.get("claim") or ""
        self.text_at(raw, "claim")
        evidence = self.evidence(raw.get("evidence"))
        self.qas([qa for qa, _ in evidence])
        raw["evidence"] = _left(evidence)

    def fever(self, raw: dict[str, Any], position: int) -> None:
        self.numbered = False
        raw["id"] = self.name(raw.get("id", position), False)
        label = raw.get("predicted_label")
        if not isinstance(label, str) or label.upper() not in FEVER_LABELS:
            label = raw["predicted_label"] = self.label(label, FEVER_LABELS)
        items = raw.get("predicted_evidence")
        if items is None:
            self.find("schema", "predicted_evidence is no list", "Write [] for none", True)
            items = raw["predicted_evidence"] = []
        elif not isinstance(items, list):  # what it was meant to say, nobody knows
            self.find("schema", "predicted_evidence is no list", "Write lists of [page, line]")
            return
        # Each of the first ones keeps its place, repeats and what is no sentence too: one from
        # behind would count that did not, and a miss less raises precision.
        first = items[:FEVER_FIRST]
        for n, item in enumerate(items):
            if not _is_sentence(item):
                message = f"{_cut(json.dumps(item))} is no [page, line]"
                behind = n >= FEVER_FIRST
                self.find("schema", message, "Write a text and a number", behind, done="Deleted")
            elif n < FEVER_FIRST and item in first[:n]:
                self.find("repeated-qa", f"{item} again, which counts again", "Name it once")
        if len(items) > FEVER_FIRST:
            message = f"{len(items)} sentences, of which {FEVER_FIRST} count"
            done = f"Deleted behind the first {FEVER_FIRST}"
            self.find("many-qas", message, f"Keep the best {FEVER_FIRST}", True, done=done)
        if not items and label != "NOT ENOUGH INFO":
            self.find("no-evidence", "no evidence", "Give a sentence")
        raw["predicted_evidence"] = first

    def scifact(self, raw: dict[str, Any], position: int) -> None:
        self.numbered = False
        given = "id" in raw
        raw["id"] = self.name(raw.get("id", position), True)
        if not given:
            self.find("id", "no id", "Give the id of the claim")
        kept = {}
        in_gold: set[str] = set()
        for doc, item in raw["evidence"].items():
            if not isinstance(item, dict):  # left as it is: what it was meant to say, nobody knows
                message = f"document {doc} has {_kind(item)}, where label and sentences stand"
                self.find("schema", message, "Write one object for a document")
                kept[doc] = item
                if isinstance(item, list) and item and all(map(_is_rationale, item)):
                    in_gold.add("evidence in lists")
                continue
            sentences = item.get("sentences")
            in_gold |= _GOLD_SCIFACT & item.keys()
            if exact_label(str(item.get("label")), ("NOT ENOUGH INFO",)):
                self.find(
                    "schema",
                    f"document {doc} without verdict",
                    "Leave it out",
                    True,
                    done="Deleted",
                )
                continue
            if not doc.isdecimal():
                self.find("schema", f"'{doc}' is no document id", "Use those of the corpus")
            if not isinstance(sentences, list) or not all(type(n) is int for n in sentences):
                self.find("schema", f"document {doc} has no list of sentences", "Write numbers")
            elif min(sentences, default=0) < 0:
                message = f"document {doc} has no sentence {min(sentences)}"
                self.find("schema", message, "Write numbers from 0")
            elif len(sentences) > SCIFACT_FIRST:
                message = f"{len(sentences)} sentences of {doc}, of which {SCIFACT_FIRST} count"
                self.find("many-qas", message, "Put the best first")
            kept[doc] = item | {"label": self.label(item.get("label"), SCIFACT_LABELS)}
        raw["evidence"] = kept
        for name in sorted(in_gold):
            self.gold_fields[name] = self.gold_fields.get(name, 0) + 1

    # Parquet, SciFact-Open

    def table(self) -> str:
        from pyarrow import ArrowInvalid, parquet

        from components.datasets.scifact import LABELS, NEI

        try:
            rows = parquet.read_table(self.path).to_pylist()
        except (ArrowInvalid, OSError) as error:
            raise ClaimflowError(
                f"{self.path} is no whole Parquet file: {str(error).rstrip('.')}. Write it anew."
            ) from None
        columns = set(rows[0]) if rows else set()
        if missing := [name for name in TABLE if name not in columns]:
            self.find("schema", f"no column {', '.join(missing)}", f"Write {', '.join(TABLE)}")
            self.lost = len(rows)
            return "SciFact-Open"
        seen: dict[tuple[str, ...], dict[str, Any]] = {}
        texts: set[str] = set()  # columns of ids that are texts
        ranks: dict[str, list[float]] = {}
        unranked: dict[str, list[tuple[int, str, str]]] = {}  # (line, claim, message)
        for self.line, row in enumerate(rows, 1):
            for name in ("claim_id", "doc_id"):
                if (meant := whole_number(row[name])) is not None:
                    if row[name] == str(meant):
                        texts.add(name)
                    elif isinstance(row[name], str):
                        message = f"{name} {_cut(repr(row[name]))} means {meant}"
                        self.find("id", message, f"Write {meant}", True)
                    row[name] = meant
            self.record = str(row["claim_id"])
            self.order.append(self.record)
            pair = (str(row["model"]), self.record, str(row["doc_id"]))
            known = self.claims is None or self.record in self.claims
            if absent := [name for name in TABLE[:3] if row[name] is None]:
                self.find("schema", f"no {', '.join(absent)}", "Fill it in, or drop the row")
            elif not known:
                found = self.find(
                    "id", "no claim has this id", "Take the row out", True, done="Deleted"
                )
                self.strangers.append((found, self.record, row))
            if row["predicted_label"] not in NEI:
                row["predicted_label"] = self.label(row["predicted_label"], (*LABELS, "NEI"))
            for name in ("rank", "p_support", "p_contradict"):
                value = row.get(name)
                if name not in row:
                    continue
                message = f"{name} of {pair[2]} is {value}"
                if isinstance(value, (int, float)) and math.isfinite(value):
                    if name != "rank" and not 0 <= value <= 1:
                        remedy = "Give a probability, 0 to 1"
                        self.find("schema", message, remedy, level="warning")
                    continue
                if name == "rank":
                    unranked.setdefault(pair[0], []).append((self.line, self.record, message))
                else:
                    self.find("nan", message, _UNRANKED, level="warning")
            if absent or not known:
                continue
            if pair in seen:
                same = _alike(row, seen[pair])
                message = f"document {pair[2]} of {pair[0]} again"
                message += "" if same else ", with other values"
                self.find("id", message, "Keep one", same, done="Deleted")
                if same:
                    continue
            seen[pair] = dict(row)
            self.kept.append((self.record, row))
            if type(row.get("rank")) in (int, float) and math.isfinite(row["rank"]):
                ranks.setdefault(pair[0], []).append(row["rank"])
        for model, gaps in unranked.items():
            for self.line, self.record, message in gaps if model in ranks else ():
                self.find("nan", message, _UNRANKED, level="warning")
        self.line = self.record = None
        for name in sorted(texts):
            message = f"{name} is a column of texts, and the official script joins it with numbers"
            self.find("id", message, "Write numbers", True, "warning")
        for model, given in ranks.items():
            if again := len(given) - len(set(given)):
                message = f"{again} of {len(given)} ranks of {model} stand there again"
                self.find("rank", message, "Count on over all claims, the surest document first")
            if min(given) < 1:
                message = f"the ranks of {model} begin with {min(given):g}, which is read as 1"
                self.find("rank", message, "Count from 1")
        self.settle_strangers(bool(set(self.claims or ()) - set(self.order)))
        return "SciFact-Open"

    # CSV

    def csv(self) -> str:
        with open_text(self.source) as lines:
            header = next(csv.reader(lines), [])
        if header != HEADER:
            self.line = 1
            self.find("schema", f"header {','.join(header)}", f"Write {','.join(HEADER)}", True)
        before = 1
        for line, row in csv_rows(self.source):
            self.line, self.record = line, None
            over, before = line - before, line
            if None in row or None in row.values():  # type: ignore[comparison-overlap]
                where = f", which runs over {over} lines" if over > 1 else ""
                message = f"not {len(HEADER)} cells in the row{where}"
                finding = self.find("schema", message, "Quote the cells, and close quotes")
                self.ids.setdefault(str(row["id"]).strip(), "")
                if over > 1:  # what stands between two quotes may be several
                    finding.fixed, finding.done = self.fix, "Deleted"
                    self.unread.append(f"lines {line - over + 1} to {line}")
                else:
                    self.lose(finding)
                continue
            self.name(row["id"], False)
            claim = given = row.get("claim", "")
            if claim.strip() in _MISSING:
                gold = (self.claims or {}).get(self.record or "")
                self.find("nan", "the claim is read as missing", "Write the claim", True)
                claim = gold.text if gold else f"Claim {self.record}"
            label = self.label(row["label"])
            split = row.get("split", "pred")
            if split != "pred":
                self.marked += split == "gold"
                what = ", which marks the gold file" if split == "gold" else ""
                self.find("schema", f"split '{split}'{what}", "Write pred", True)
                split = "pred"
            cell = self.cell(row["evi"])
            self.keep([self.record, " ".join(claim.split()), cell, label, split], given)
        return "2025"

    def cell(self, cell: str) -> str:
        """The `evi` cell, mended."""
        if cell.strip(" ") in _MISSING:
            self.find(
                "nan", "the evidence is read as missing", "Write TAB TAB NEWLINE NEWLINE", True
            )
            cell = OUTER
        if "\r" in cell:
            ends = "CR LF" if "\r\n" in cell else "CR"
            message = f"lines of the cell end in {ends}, so that the evaluator finds no delimiter"
            self.find("delimiter", message, "End them in LF", True)
            cell = line_feeds(cell)
        qas = []
        for part in cell.split(OUTER):
            if not part:
                continue
            question, *answers = part.split(INNER)
            if len(answers) != 1:
                self.find(
                    "delimiter",
                    f"a QA with {len(answers)} delimiters, at which the evaluator stops: "
                    f"'{_cut(part)}'",
                    "Put one between question and answer",
                    True,
                )
            answer = " ".join(answers)
            pair = (self.text(question, "question"), self.text(answer, "answer"))
            qas.append(_Qa(*pair))
        kept = self.qas(qas)
        return "".join(f"{qa.question}{INNER}{qa.answer}{OUTER}" for qa in kept) or OUTER


_MEND: dict[str, Callable[[_Linter, dict[str, Any], int], None]] = {
    "2024": _Linter.task,
    "first script": _Linter.first_script,
    "first EvalAI": _Linter.flat,
    "run": _Linter.run,
    "FEVER": _Linter.fever,
    "SciFact": _Linter.scifact,
}


def _form(raw: dict[str, Any]) -> str:
    return findings.form_of(raw) or form_of(raw)


def _left(qas: list[tuple[_Qa, Any]]) -> list[Any]:
    """What stands in the file for the QAs that are kept."""
    return [item for qa, item in qas if not qa.drop]


def _alike(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows of a table say the same; NaN is like NaN."""
    return row.keys() == other.keys() and all(
        row[name] == other[name] or (row[name] != row[name] and other[name] != other[name])
        for name in row
    )


def _is_rationale(item: Any) -> bool:
    """Whether it is one of a document's rationales in SciFact's gold file."""
    return isinstance(item, dict) and {"sentences", "label"} <= item.keys()


def _is_sentence(item: Any) -> bool:
    return (
        isinstance(item, list)
        and len(item) == 2
        and isinstance(item[0], str)
        and type(item[1]) is int
    )


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
    linter = _Linter(path, claims, sites, longest, repaired is not None)
    with tempfile.TemporaryDirectory() as scratch:
        form, as_file = linter.read(Path(scratch))
        linter.sizes()
        records = [record for _, record in linter.kept]
        reason = linter.unrepaired(form, records) if repaired is not None else None
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
        small = repaired.stat().st_size <= LARGEST
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


def _as_json(path: Path, records: list[Any]) -> bytes:
    """A list or lines, as the file was."""
    if beginning(path).startswith("["):
        return json.dumps(records, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    return "".join(lines).encode("utf-8", "replace")


def _as_csv(path: Path, rows: list[Any]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([HEADER, *rows])
    return out.getvalue().encode("utf-8", "replace")


def _as_table(path: Path, rows: list[Any]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    out, schema = pyarrow.BufferOutputStream(), parquet.read_schema(path).remove_metadata()
    for i, name in enumerate(schema.names):
        if rows and all(type(row[name]) is int for row in rows):  # maybe mended
            schema = schema.set(i, pyarrow.field(name, pyarrow.int64()))
        elif schema.types[i] in (pyarrow.string(), pyarrow.large_string()):  # some are numbers
            for row in rows:
                row[name] = None if row[name] is None else str(row[name])
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema), out)
    return bytes(out.getvalue())


def sarif(report: Report) -> dict[str, Any]:
    """The report as SARIF 2.1.0, which code hosts and editors show. The file's URI is relative to
    the working directory where it lies below it, which is what these look it up by."""
    results = []
    path, here = Path(report.file).absolute(), Path.cwd()
    if path.is_relative_to(here):
        path = path.relative_to(here)
    uri = quote(path.as_posix()) if path != path.absolute() else path.as_uri()
    for finding in report.findings:
        if finding.fixed:
            continue
        where: dict[str, Any] = {"artifactLocation": {"uri": uri}}
        if finding.line is not None:
            where["region"] = {"startLine": finding.line}
        results.append(
            {
                "ruleId": finding.rule,
                "level": finding.level,
                "message": {"text": finding.text},
                "locations": [{"physicalLocation": where}],
                "properties": {"claim": finding.record},
            }
        )
    rules = [{"id": name, "shortDescription": {"text": about(name, report.form)}} for name in RULES]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {"tool": {"driver": {"name": "claimflow lint", "rules": rules}}, "results": results}
        ],
    }


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    kinds |= {str: "a text", type(None): "null"}
    return kinds.get(type(value), "an object")


def _said(record: Any) -> Any:
    """A record without its id."""
    if isinstance(record, list):  # a row of a CSV
        return record[1:]
    return {key: value for key, value in record.items() if key not in ("id", "claim_id")}


def _copy_text(path: Path, to: Path, encoding: str) -> tuple[bool, bool]:
    """Write the text of a file as UTF-8, piece by piece: without NULs, and with U+FFFD for what is
    none in the encoding; (whether there were NULs, whether there was such)."""
    decode = codecs.getincrementaldecoder(encoding)("replace").decode
    without = codecs.getincrementaldecoder(encoding)("ignore").decode
    nuls = lost = False
    with open(path, "rb") as file, open(to, "w", encoding="utf-8", newline="") as out:
        while True:
            data = file.read(2**22)
            text = decode(data, final=not data)
            lost = lost or text != without(data, final=not data)
            nuls = nuls or "\0" in text
            out.write(text.replace("\0", ""))
            if not data:
                return nuls, lost


def _is_western(path: Path) -> bool:
    """Whether a file that is no UTF-8 reads well as Windows-1252: letters beyond ASCII stand among
    others, and none is in UTF-8."""
    utf8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
    other = re.compile(rb"[\x80-\xff]{5}|[\x81\x8d\x8f\x90\x9d]|" + utf8)
    before = b""
    with open(path, "rb") as file:
        while data := file.read(2**22):
            if other.search(before + data):
                return False
            before = data[-4:]
    return True
