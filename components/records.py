"""Typed records of a fact-checking run, and their codec.

Terms are those of the AVeriTeC papers: a *claim* is checked with *questions* and *answers*
drawn from a *knowledge store* of *documents*; a retriever works on *passages* (chunks of
documents); question and answer together are *evidence*; the *verdict* is a label.
"""

from __future__ import annotations

import codecs
import collections
import datetime
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from components.errors import ClaimflowError, listed, plain
from components.files import beginning, check_kind, open_utf8, write_whole

AVERITEC_LABELS = (
    "Supported",
    "Refuted",
    "Not Enough Evidence",
    "Conflicting Evidence/Cherrypicking",
)
NOT_ENOUGH = "Not Enough Evidence"


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Base of all records: keyword-only, defaults are left out of files."""


class Answer(Record):
    """A gold answer to a question (AVeriTeC)."""

    answer: str
    answer_type: str | None = None  # Extractive, Abstractive, Boolean, Unanswerable
    source_url: str | None = None
    source_medium: str | None = None
    cached_source_url: str | None = None
    boolean_explanation: str | None = None


class Question(Record):
    """A gold question with its answers (AVeriTeC)."""

    question: str
    answers: list[Answer] = []


class GoldSet(Record):
    """One sufficient set of gold evidence (FEVER, SciFact): pairs of document id and sentence.

    A sentence of None stands for the whole document. provenance, ranks: where SciFact-Open has it
    from ("citation" or "pooling"), and how high each system ranked a pooled document (from 1).
    spelt: how the file names documents, where these are not their ids (FEVER).
    """

    label: str | None = None
    items: list[tuple[str, int | None]] = []
    provenance: str | None = None
    ranks: dict[str, int] = {}
    spelt: dict[str, str] = {}


class Claim(Record):
    """A claim with its metadata and, on splits that show it, its gold annotation."""

    id: str
    text: str
    date: datetime.date | None = None
    speaker: str | None = None
    label: str | None = None
    justification: str | None = None
    types: list[str] = []
    strategies: list[str] = []
    questions: list[Question] = []
    original_url: str | None = None
    fact_check_url: str | None = None
    reporting_source: str | None = None
    location: str | None = None
    gold: list[GoldSet] = []
    relevant: list[str] = []  # ids or URLs of relevant documents, for retrieval measures
    grades: dict[str, int] = {}  # how relevant these are, where that is known; else 1
    extra: dict[str, Any] = {}  # official fields that no step reads, kept so that files round-trip


class Document(Record, frozen=True):  # type: ignore[misc]
    """A page or an abstract, as sentences. Many cases share one: it can't be changed."""

    id: str
    url: str | None = None
    final_url: str | None = None  # where redirects led from it, when that is another page
    title: str | None = None
    date: datetime.date | None = None
    lang: str | None = None
    sentences: tuple[str, ...] = ()
    query: str | None = None  # the search query that found it
    kind: str | None = None  # the kind of that query
    checked: tuple[str, ...] = ()  # claims that its markup says it checks (ClaimReview)


class Passage(Record, frozen=True):  # type: ignore[misc]
    """A chunk of a document: what a retriever ranks. Many cases share one: it can't be changed."""

    id: str  # document id, '#', index of its first sentence; .1, .2 … where it begins in one again
    doc: str
    text: str
    url: str | None = None
    before: str | None = None  # neighbouring text of the same document, when the chunker keeps it
    after: str | None = None
    also: tuple[str, ...] = ()  # URLs of other pages with the same text, which the chunker dropped


class Query(Record):
    """A search query, and the question that it looks for an answer to (None: the claim itself)."""

    text: str
    kind: str = "claim"
    question: str | None = None


class Hit(Record):
    """A passage found for a query. Selection steps fill in `text` and `url`."""

    passage: str
    doc: str
    score: float
    query: int = 0  # index into Case.queries
    text: str | None = None
    url: str | None = None


class Evidence(Record):
    """A question with its answer, as submitted."""

    question: str
    answer: str
    url: str | None = None
    passages: list[str] = []


class Verdict(Record):
    """A label with its probabilities (they sum to 1) and a justification."""

    label: str
    probabilities: dict[str, float] = {}
    justification: str | None = None


class Finding(Record):
    """What a system says of one document: the sentences (from 0) that are evidence.

    label: of the document (SciFact); None where the claim alone has one (FEVER), or where the
    system finds no evidence in the document (NEI in SciFact-Open).
    rank: place among all findings for all claims, from 1. probabilities: of the labels. spelt: how
    the file names the document, where that is not its id (FEVER).
    """

    doc: str
    sentences: list[int] = []
    label: str | None = None
    rank: int | None = None
    probabilities: dict[str, float] = {}
    spelt: str | None = None


class Prediction(Record):
    """What a system submits for one claim.

    evidence: questions and answers (AVeriTeC). findings: documents with sentences, best first
    (FEVER, SciFact); the label is empty where only documents are labelled (SciFact).
    asked: its questions, where they are not those of `evidence` one by one, since one may have
    several answers (first AVeriTeC script).
    """

    id: str
    claim: str
    evidence: list[Evidence]
    label: str
    probabilities: dict[str, float] = {}
    justification: str | None = None
    findings: list[Finding] = []
    asked: list[str] = []


class Case(Record):
    """All that is known of one claim while it is worked on.

    A step sees only the fields that it names in `reads`. Rankings of single retrievers that wait
    to be fused stand in `rankings`, under the names that the fuser gives them.
    `digests` holds the content digest of every field; steps use it to key indexes and embeddings.
    """

    claim: Claim
    documents: list[Document] = []
    dropped: dict[str, int] = {}  # documents that the guard kept out, by reason
    undecided: int = 0  # documents with a date that the guard kept, as the claim has none
    passages: list[Passage] = []
    questions: list[str] = []
    asked: list[str] = []  # in the rounds of a loop that are over, with an answer or without
    queries: list[Query] = []
    rankings: dict[str, list[Hit]] = {}
    hits: list[Hit] = []
    evidence: list[Evidence] = []
    verdict: Verdict | None = None
    findings: list[Finding] = []
    remarks: list[str] = []  # what a reader of the run should know; counted in its notes
    rounds: list[str] = []  # what a loop did for this claim, a line for each thing
    failed: str | None = None  # set by a step that could not do its work for this case
    digests: dict[str, str] = {}


FIELD_TYPES: dict[str, Any] = {
    "claim": Claim,
    "documents": list[Document],
    "dropped": dict[str, int],
    "undecided": int,
    "passages": list[Passage],
    "questions": list[str],
    "asked": list[str],
    "queries": list[Query],
    "hits": list[Hit],
    "evidence": list[Evidence],
    "verdict": Verdict,
    "findings": list[Finding],
    "remarks": list[str],
    "rounds": list[str],
}


def field_type(field: str) -> Any:
    """The type of a case field; `rankings.NAME` is a list of hits."""
    return list[Hit] if field.startswith("rankings.") else FIELD_TYPES[field]


_encoder = msgspec.json.Encoder(order="deterministic")
T = TypeVar("T")


def encode(value: Any) -> bytes:
    """`value` as JSON. Equal values give equal bytes."""
    return _encoder.encode(value)


def decode(data: bytes | str, type: type[T] | Any) -> T:
    """Read one record from JSON; msgspec.ValidationError names the field that is wrong."""
    return msgspec.json.decode(data, type=type)


class BadLine(Record):
    """A line that a reader could not use. rest: nor what stands behind it, be it records.
    whole: nothing is lost by it."""

    file: str
    line: int
    reason: str
    rest: bool = False
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


def skipped(bad: list[BadLine], most: int = 3) -> list[str]:
    """The note on skipped lines, if there are any: how many, and the first of them."""
    if not bad:
        return []
    shown = "; ".join(map(str, bad[:most]))
    more = f"; and {len(bad) - most} more (out=FILE.json has all)" if len(bad) > most else ""
    note = f"Skipped, as they can't be read ({len(bad)}): {shown}{more}."
    rest = next((problem for problem in bad if problem.rest and not problem.whole), None)
    return [f"{note} Nothing was read from line {rest.line} on." if rest else note]


def read_lines(
    path: Path,
    type: Any,
    on_error: str | None = None,
    bad: list[BadLine] | None = None,
    twice: dict[str, list[Any]] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, record) of a file of JSON lines, or of one JSON list.

    on_error: "stop" raises ClaimflowError at the first bad line; "skip" appends it to `bad`
    and goes on, so that a bad record costs itself alone. None stops, where no setting skips. "mend"
    skips, and reads on where nothing but a comma or a newline is wrong, or a list follows on a
    list. Blank lines are passed over. Bytes that are no UTF-8 (`check_text` refuses them) and lone
    surrogates, which no JSON writer takes back, become U+FFFD.
    A list that breaks off, or is no JSON from some point on, gives the records before it. One
    object over several lines is one bad line.

    twice: holds the keys that stand twice in one object of the record that was given last, with
    their values; where it happens in several objects, of one in which the values differ. Of
    these the last counts, as other readers have it.
    """
    check_kind(path)
    as_list = beginning(path, 1).startswith("[")
    again = json.JSONDecoder(  # of a line: msgspec does not tell
        object_pairs_hook=None if twice is None else _noting(twice), parse_int=str
    )
    with open_utf8(path) as file:
        mend = on_error == "mend"
        items = _list_items(file, mend, twice) if as_list else _lines(file, mend)
        commas = 0
        for count, (number, item) in enumerate(items, 1):
            record = count - commas
            commas += isinstance(item, _CommaError)
            try:
                if isinstance(item, ClaimflowError):
                    raise item
                if isinstance(item, bytes):
                    if not item.strip():
                        continue
                    value = decode_line(item, type)
                    if twice is not None:
                        twice.clear()
                        again.decode(item.decode("utf-8-sig", "replace"))
                    yield number, value
                else:
                    yield number, msgspec.convert(item, type)
            except (ValueError, ClaimflowError, RecursionError) as error:
                whole = None if as_list or record > 1 else _over_lines(path)
                # A list may stand on one line.
                at = f"record {record}: " if not isinstance(error, _UnclosedError) else ""
                reason = f"{at}{plain(error)}" if as_list else whole or plain(error)
                rest = bool(whole) or isinstance(error, _BrokenOffError)
                problem = BadLine(
                    file=str(path),
                    line=number,
                    reason=reason,
                    rest=rest,
                    whole=isinstance(error, (_CommaError, _UnclosedError)),
                )
                nothing = rest and record == 1  # that a skip would leave
                report(problem, None if nothing and on_error == "stop" else on_error, bad)
                if whole:
                    return


class _BrokenOffError(ClaimflowError):
    """Nothing can be read from here on."""


class _UnclosedError(_BrokenOffError):
    """The list has no end, and all that stands there is read."""

    def __init__(self) -> None:
        super().__init__("the list ends without its ], so that it may be cut off here")


class _CommaError(ClaimflowError):
    """A comma too much or too few, a newline too few, or another list: what stands behind it is
    read."""


def report(problem: BadLine, on_error: str | None, bad: list[BadLine] | None) -> None:
    """Raise ClaimflowError for a bad line, or with on_error="skip" ("mend") append it to `bad`."""
    if on_error not in ("skip", "mend"):
        what, left = ("file", "what stands before") if problem.rest else ("line", "the rest")
        remedy = f", or set on_error=skip to use {left}" if on_error else ""
        raise ClaimflowError(f"{problem}. Mend the {what}{remedy}.")
    if bad is not None:
        bad.append(problem)


def decode_line(line: bytes, type: Any) -> Any:
    """The record in a line, as `read_lines` reads it. Raises ValueError for what is none."""
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return msgspec.json.decode(line, type=type)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            raise error from None
        return msgspec.convert(_whole(value), type)


def _lines(file: BinaryIO, mend: bool) -> Iterator[tuple[int, bytes | ClaimflowError]]:
    """(number, line) whether lines end in LF, CR LF or CR: in JSON none of them is part of one. A
    ClaimflowError for an object with a comma behind it, or for several on one line, as where the
    first of two files that are joined has no newline at its end; to mend: with the objects."""
    number = 0
    for part in file:
        for line in part.rstrip(b"\r\n").split(b"\r"):
            number += 1
            alone = line.rstrip().removesuffix(b",")
            if line.rstrip() != alone and _is_object(alone):
                kind = _CommaError if mend else ClaimflowError
                yield number, kind("a comma stands behind the object, and no list around it")
                line = alone if mend else b""
            parts = _objects(line) if _JOINED.search(line) else []
            if len(parts) > 1:
                kind = _CommaError if mend else ClaimflowError
                yield (
                    number,
                    kind(f"{len(parts)} records stand on one line, where each has its own"),
                )
                yield from ((number, part.encode()) for part in parts if mend)
            else:
                yield number, line


def _objects(line: bytes) -> list[str]:
    """The objects of a line one by one; what can't be read stays together, at its end."""
    text = line.decode("utf-8", "replace")
    found, at = [], 0
    while at < len(text):
        try:
            end = _parse(text, at)[1]
        except (ValueError, RecursionError):
            end = len(text)
        found.append(text[at:end])
        at = _LINE_GAP.match(text, end).end()  # type: ignore[union-attr]
    return found


def _over_lines(path: Path) -> str | None:
    """What a file is whose beginning is one JSON object over several lines, in words; else None."""
    with open_utf8(path) as file:
        text = file.read(OUTLINE).decode("utf-8-sig", "replace")
    start = _after_gap(text, 0)
    first = text.find("\n", start)
    second = text[first + 1 :].partition("\n")[0]
    if first < 0 or text[start] != "{" or _is_object(second):  # of a file of lines
        return None
    try:
        value, end = _parse(text, start)
    except json.JSONDecodeError as error:
        if error.pos <= first + 1 + len(second):
            return None
        line = text.count("\n", 0, error.pos) + 1
        at = f"which ends in: {error.msg}, line {line}" if len(text) < OUTLINE else "a large one"
        return f"one JSON object over several lines, no list and no lines of JSON; {at}"
    except (ValueError, RecursionError):
        return None
    if end <= first:
        return None
    if text[_after_gap(text, end) :][:1] == "{":
        return (
            "JSON objects over several lines each: write each on one line (`jq -c .`), or all of "
            "them as one list (`jq -s .`)"
        )
    return f"one JSON object over several lines, where a list is due; {outline(value)}"


def _is_object(line: str | bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def outline(value: dict[str, Any], alone: bool = True) -> str:
    """The keys of an object that stands where records should, and where in it these are. alone: it
    may be a record in no list."""
    keys = f"its keys are {listed(value, 6)}" if value else "it is empty"
    if layout := layout_of(value):
        return f"{keys}: {layout}"
    lists = [k for k, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)]
    if alone and _OF_RECORDS & value.keys():
        return f"{keys}: it is one record, so put it into a list, or on one line"
    if len(lists) == 1 and lists[0] not in _OF_RECORDS:
        number = len(value[lists[0]])
        return f"{keys}: the list of {number} under '{lists[0]}' is what should stand there alone"
    if value and all(isinstance(item, dict) for item in value.values()):
        how = f" ({_RECORDS})" if len(set(map(frozenset, value.values()))) == 1 else ""
        return f"{keys}: write the objects under them as a list, each with its id in it{how}"
    return keys


def layout_of(value: Any) -> str | None:
    """What an object is, and what to write for it, if it is a table as pandas writes one: column by
    column, or its parts apart; else None. One that is a record a row is told by `outline`."""
    if not isinstance(value, dict) or len(value) < 2:
        return None
    columns = list(value.values())
    of_rows = all(isinstance(c, dict) and c.keys() == columns[0].keys() for c in columns)
    of_lists = all(isinstance(c, list) and len(c) == len(columns[0]) for c in columns)
    if value.keys() == {"columns", "index", "data"} or value.keys() == {"schema", "data"}:
        return f"it is a table with its columns and rows apart: {_RECORDS}"
    if _OF_RECORDS & value.keys() and (of_rows or of_lists):
        return f"it is a table column by column: {_RECORDS}"
    return None


_RECORDS = 'in pandas, orient="records" writes a list of records'


class _Text:
    """The text of a file, in a window that moves on."""

    def __init__(self, file: BinaryIO, twice: dict[str, list[Any]] | None) -> None:
        self.file = file
        self.twice = twice  # see `read_lines`
        hook = None if twice is None else _noting(twice)
        self.parse = json.JSONDecoder(object_pairs_hook=hook).raw_decode
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self.text = ""
        self.at = 0  # where to read on
        self.line = 1  # the line of `at`
        self.whole = False  # nothing is left in the file

    def more(self) -> bool:
        """Drop what is read, and as much again as is there; False at the end of the file."""
        if self.whole:
            return False
        rest = self.text[self.at :]
        data = self.file.read(max(WINDOW, len(rest)))
        self.whole = not data
        self.text = rest + self.decoder.decode(data, final=self.whole)
        self.at = 0
        return True

    def move(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def next(self) -> str:
        """The next character that is no white space, or nothing at the end."""
        while True:
            self.move(_after_gap(self.text, self.at))
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def item(self) -> Any:
        """The JSON value that begins here. JSONDecodeError, with `pos` after the start, if none; a
        ClaimflowError in its place if it has a number of more digits than can be read."""
        parse = self.parse
        while True:
            if self.twice:
                self.twice.clear()
            try:
                value, end = parse(self.text, self.at)
            except json.JSONDecodeError as error:
                # What breaks off at the end of the window may go on behind it.
                inside = error.pos < len(self.text) - 64 and "Unterminated" not in error.msg
                if inside or not self.more():
                    self.move(error.pos)
                    raise
            except ValueError:
                parse = _pass_over
            else:
                # A number may go on, be it with `.5` or `e-7`.
                if end < len(self.text) - 3 or not self.more():
                    lone = _SURROGATE.search(self.text, self.at, end)
                    self.move(end)
                    if parse is _pass_over:
                        return ClaimflowError("a number in it has more digits than can be read")
                    return _whole(value) if lone else value


def all_alike(values: list[Any]) -> bool:
    """Whether JSON values say the same."""
    return len({json.dumps(value, sort_keys=True) for value in values}) == 1


def _noting(twice: dict[str, list[Any]]) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """Makes objects for a JSON parser, and adds to `twice` the keys that stand twice in one."""

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            counts = collections.Counter(key for key, _ in pairs)
            for key in (key for key, n in counts.items() if n > 1):
                if key not in twice or all_alike(twice[key]):
                    twice[key] = [given for name, given in pairs if name == key]
        return value

    return note


def _list_items(
    file: BinaryIO, mend: bool, twice: dict[str, list[Any]] | None = None
) -> Iterator[tuple[int, Any]]:
    """(line number, item) of a JSON list, read piece by piece; a ClaimflowError as item where it
    can't be read on. To mend: of all lists, whose items may lack commas."""
    text = _Text(file, twice)
    text.next()
    text.move(text.at + 1)
    while True:
        for line, item in _items(text, mend):
            yield line, item
            if isinstance(item, _BrokenOffError):
                return
        if not text.next():
            yield text.line, _UnclosedError()
            return
        text.move(text.at + 1)
        if not (after := text.next()):
            return
        if after != "[":
            yield text.line, _BrokenOffError("more stands behind the end of the list")
            return
        kind = _CommaError if mend else _BrokenOffError
        yield text.line, kind("another list begins here: one file has one")
        if not mend:
            return
        text.move(text.at + 1)


def _items(text: _Text, mend: bool) -> Iterator[tuple[int, Any]]:
    """(line number, item) up to the end of a list, or to what can't be read."""
    while text.next() not in ("]", ""):
        line = text.line
        try:
            item = text.item()
        except (json.JSONDecodeError, RecursionError) as error:
            what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
            what = what.removesuffix(" at")
            reason = f"{what}; the list can't be read on from here"
            yield text.line, _BrokenOffError(reason)
            return
        yield line, item
        after = text.next()
        if after == ",":
            text.move(text.at + 1)
            if text.next() == "]":
                yield text.line, _CommaError("a comma before the end of the list")
        elif not after:
            yield text.line, _UnclosedError()
            return
        elif after != "]":
            kind = _CommaError if mend and after == "{" else _BrokenOffError
            yield text.line, kind(f"a comma is missing before the '{after}' that stands here")
            if kind is _BrokenOffError:
                return


def _after_gap(text: str, at: int) -> int:
    return _GAP.match(text, at).end()  # type: ignore[union-attr]


WINDOW = 2**22  # bytes read at once
OUTLINE = 2**26  # bytes by which one object is told from lines
_OF_RECORDS = {"id", "claim_id", "claim", "evidence", "label", "pred_label", "questions"}
_OF_RECORDS |= {"predicted_label"}
_parse = json.JSONDecoder().raw_decode
_pass_over = json.JSONDecoder(parse_int=str).raw_decode  # any number of digits
_GAP = re.compile(r"\s*")
_JOINED = re.compile(rb"\}\s*(\xef\xbb\xbf)?\{")
_LINE_GAP = re.compile(r"[\s\ufeff]*")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _whole(value: Any) -> Any:
    """`value` with U+FFFD for each lone surrogate in its texts."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return value


def write_lines(path: Path, records: Any) -> None:
    """Write records as JSON lines; the file appears under its name only when it is whole."""
    write_whole(path, b"".join(encode(record) + b"\n" for record in records))
