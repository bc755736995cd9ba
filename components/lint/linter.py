"""The parts of a check that all forms share: findings, ids, labels, texts, QAs, and what only the
file as a whole shows."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.datasets.submission import FIRST, read_submission, whole_number
from components.files import digest
from components.labels import exact_label, nearest_label
from components.lint import rules
from components.lint.report import Finding, cut
from components.lint.rules import WARNINGS
from components.records import AVERITEC_LABELS, Claim
from components.score import fit
from components.urls import same_url

# Cells that pandas reads as missing
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND"}
MISSING |= {"1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}

# Fields that only the data set's own files have
GOLD_SCIFACT = {"provenance", "model_ranks"}
_GOLD_FORM = GOLD_SCIFACT | {"evidence in lists", "verifiable"}  # that of SciFact's or FEVER's
ANNOTATED = {"justification", "fact_checking_strategies"}  # only annotators write both

_BOOLEAN = re.compile(r"(?i)\W*(yes|no|true|false)\W*")


@dataclasses.dataclass
class Qa:
    """A QA wherever it stands. question: None for evidence that is a text alone. explanation: of a
    Boolean answer, which scorers compare with it."""

    question: str | None
    answer: str
    urls: list[str] = dataclasses.field(default_factory=list)
    explanation: str | None = None
    drop: bool = False


class Linter:
    """One file under check: what was found so far, and the records that a repair keeps."""

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
        self.strangers: list[tuple[Finding, Any]] = []  # records of no claim, kept for now
        self.texts: list[tuple[str, str, int | None]] = []  # (claim id, claim, line)
        self.right = 0  # records with the gold label
        self.gold_fields: dict[str, int] = {}
        self.annotated = 0  # records of the first script with all of ANNOTATED
        self.marked = 0  # rows of a CSV with split "gold"
        self.misplaced = False  # the claims stand under other ids
        self.differing: list[str] = []  # where a key has several values
        self.of_gold = False  # it is the gold file
        self.illegible = False  # bytes were lost, as the encoding is not known
        self.without = 0  # records with [] for evidence
        self.beside: set[str] = set()  # keys with QAs in these
        self.scraped = 0
        self.lost = 0  # records that can't be read
        self.unread: list[str] = []  # lines that hold who knows how many
        self.size = path.stat().st_size
        self.numbered = True  # ids run from 0
        self.shapeless = False  # a CSV that has lost its delimiters or quotes
        self.several_labels = False  # labels stand under several keys
        self.mixed = False  # records have several forms
        self.placed = False  # some record has no id, and is told by its place
        self.unsorted = False  # records are not in the order of the claims
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
        if self.size > rules.LARGEST:
            small = self.size - self.scraped < rules.LARGEST
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
        self.unsorted = known != sorted(known)
        if self.unsorted:
            self.find(
                "id",
                "records are not in the order of the claims, by which evaluators pair",
                "Give all of them ids, and sort by these" if self.placed else "Sort them by id",
                not self.placed,
            )
        if not self.placed:  # else those behind would be of other claims
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
        lines = {(id, text): line for id, text, line in self.texts}
        for id, text in found.other:
            self.line, self.record = lines[id, text], id
            if (own := found.moved.get((id, text))) is not None:
                remedy = f"Call it {own}"
                self.find("claim", f"this is claim {own}: '{cut(text)}'", remedy)
            else:
                mine, theirs = fit.differing(text, texts[id])
                message = f"the claim is '{mine}', in the gold file '{theirs}'"
                self.find("claim", message, "See whether the id is right", level="warning")
        self.line = self.record = None

    def settle_strangers(self, missing: bool) -> None:
        """Records of no claim are left out if each claim has its own, else kept: they may be those
        of claims that miss theirs."""
        if not missing and not self.misplaced:
            gone = {id(record) for _, record in self.strangers}
            self.kept = [item for item in self.kept if id(item[1]) not in gone]
            return
        for finding, _ in self.strangers:
            finding.fixable = finding.fixed = False
            finding.remedy = "Give it the id of its claim: others have no record"

    def gold(self, form: str) -> None:
        """Whether the file is the gold file, or has fields of it. This comes first of all. form: of
        the scorers that read it, AVeriTeC, FEVER or SciFact."""
        self.line = self.record = None
        known = len(self.findings)
        claims = list((self.claims or {}).values())
        right = form != "AVeriTeC" or 0 < self.right == len(self.order)
        said = read_submission(self.source, "skip", claims=claims) if claims and right else []
        if said and fit.is_gold(said, claims, form):
            message = "every record has the gold label and the gold evidence, word for word"
            if form != "AVeriTeC":
                message = "the records have the gold labels and sentences, and no others"
            self.find("gold", message, "Give what the system predicts", level="error")
        elif fit.ALL_RIGHT <= self.right == len(self.order):
            message = f"every label is the gold label ({self.right} claims)"
            self.find("gold", message, "See that it is none of the gold file's")
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

    def count_gold(self, raw: dict[str, Any], fields: set[str]) -> None:
        for name in sorted(fields & raw.keys()):
            self.gold_fields[name] = self.gold_fields.get(name, 0) + 1

    # Parts of a record

    def place(self, position: int) -> None:
        """Take a record without an id for the claim at its place, as evaluators do."""
        self.record, self.placed = str(position), True

    def name(self, value: Any, number: str = "", texts: bool = False) -> int | str:
        """The claim id as it should be written; finds repeats, strangers, numbers that are written
        otherwise (5.0, "005") and, at the level `number`, such as are texts. texts: evaluators of
        the form go by the order of records, so that an id may be any text."""
        self.record = str(value).strip()
        known = self.claims is not None and self.record in self.claims
        meant, shown = whole_number(value), cut(repr(value))
        if meant is not None and not known and self.record != str(meant):
            self.record = str(meant)
            self.find("id", f"id {shown} means {meant}", f"Write {meant}", True)
        elif number and meant is not None and type(value) is not int:
            mended = self.record == str(meant)
            self.find("id", f"id {shown} is no number", "Write a number", mended, number)
        wrong = not (texts and isinstance(value, str)) and (meant is None or meant < 0)
        if self.claims is None and wrong and self.record not in self.ids:
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
            self.strangers.append((stranger, record if self.fix else None))
        if self.fix:
            self.kept.append((name, record))

    def label(self, value: Any, labels: tuple[str, ...] = AVERITEC_LABELS) -> Any:
        """The label, mended where it is clear which is meant."""
        if value in labels:
            claim = (self.claims or {}).get(self.record or "")
            self.right += claim is not None and claim.label == value
            return value
        remedy = f"Use one of: {', '.join(labels)}"
        if value is None or value != value or str(value).strip() in MISSING:
            missing = {None: "no label", "": "an empty label"}
            message = missing.get(value, f"the label is {value}, which is read as missing")
            self.find("label" if value in missing else "nan", message, remedy)
            return value
        text = value if isinstance(value, str) else ""
        # Only a text that is a label: what prose means is for its writer to say.
        meant, hint = exact_label(text, labels), nearest_label(text, labels)
        message = f"label {cut(repr(value))} is none of the task's.{hint}"
        self.find("label", message, remedy, meant is not None)
        return meant or value

    def text(self, value: Any, what: str) -> str:
        """A text on one line, for a value that should be one."""
        if isinstance(value, float) and math.isnan(value):
            self.find("nan", f"{what} is NaN", "Write a text", True)
            return ""
        if not isinstance(value, str):
            kind = "missing" if value is None else f"{kind_of(value)}, no text"
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

    def qas(self, qas: list[Qa], beside: Iterable[str] = ()) -> list[Qa]:
        """Those that the repaired file keeps: of the first ones, by which scorers go, what is
        neither empty nor said before. All evidence of a claim counts together. None behind the
        first moves up, which would score higher than the file does. beside: keys with QAs that
        nobody reads, where there is no evidence."""
        claim = (self.claims or {}).get(self.record or "")
        if not any(qa.answer.strip() or (qa.question or "").strip() for qa in qas):
            others = " and ".join(f"'{cut(key)}'" for key in beside)
            message = f", and QAs under {others}, which no evaluator reads" if others else ""
            self.find("no-evidence", f"no evidence{message}", "Give a QA")
        seen: set[tuple[str, str, str]] = set()
        questions: set[str] = set()
        for qa in (qa for qa in qas if not qa.drop):
            question, answer = _plain(qa.question or ""), _plain(qa.answer)
            said = (question, answer, _plain(qa.explanation or ""))
            if not any(said):
                self.find("empty-qa", "an empty QA", "Take it out", True, done="Deleted")
                qa.drop = True
            elif said in seen:
                shown = cut(qa.question or qa.answer)
                self.find("repeated-qa", f"QA again: '{shown}'", "Drop it", True, done="Deleted")
                qa.drop = True
            elif not answer or (qa.question is not None and not question):
                what = "question" if answer else "answer"
                self.find("empty-qa", f"an empty {what}", "Fill it or take the QA out")
            elif question and question in questions:
                self.find(
                    "repeated-question",
                    f"question again, with another answer: '{cut(qa.question or '')}'",
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


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list"}
    kinds |= {str: "a text", type(None): "null"}
    return kinds.get(type(value), "an object")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _said(record: Any) -> Any:
    """A record without its id."""
    if isinstance(record, list):  # a row of a CSV
        return record[1:]
    return {key: value for key, value in record.items() if key not in ("id", "claim_id")}
