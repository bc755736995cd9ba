"""Typed records of a fact-checking run, and their codec.

Terms are those of the AVeriTeC papers: a *claim* is checked with *questions* and *answers*
drawn from a *knowledge store* of *documents*; a retriever works on *passages* (chunks of
documents); question and answer together are *evidence*; the *verdict* is a label.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from components.errors import ClaimflowError

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

    A sentence of None stands for the whole document.
    """

    label: str | None = None
    items: list[tuple[str, int | None]] = []


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
    extra: dict[str, Any] = {}  # official fields that no step reads, kept so that files round-trip


class Document(Record):
    """A page or an abstract, as sentences."""

    id: str
    url: str | None = None
    title: str | None = None
    date: datetime.date | None = None
    lang: str | None = None
    sentences: list[str] = []
    query: str | None = None  # the search query that found it
    kind: str | None = None  # the kind of that query


class Passage(Record):
    """A chunk of a document: what a retriever ranks."""

    id: str  # document id, '#', index of its first sentence
    doc: str
    text: str
    url: str | None = None
    before: str | None = None  # neighbouring text of the same document, when the chunker keeps it
    after: str | None = None


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


class Prediction(Record):
    """What a system submits for one claim."""

    id: str
    claim: str
    evidence: list[Evidence]
    label: str
    probabilities: dict[str, float] = {}
    justification: str | None = None


class Case(Record):
    """All that is known of one claim while it is worked on.

    A step sees only the fields that it names in `reads`. Rankings of single retrievers that wait
    to be fused stand in `rankings`, under the names that the fuser gives them.
    `digests` holds the content digest of every field; steps use it to key indexes and embeddings.
    """

    claim: Claim
    documents: list[Document] = []
    dropped: dict[str, int] = {}  # documents that the guard kept out, by reason
    passages: list[Passage] = []
    questions: list[str] = []
    queries: list[Query] = []
    rankings: dict[str, list[Hit]] = {}
    hits: list[Hit] = []
    evidence: list[Evidence] = []
    verdict: Verdict | None = None
    failed: str | None = None  # set by a step that could not do its work for this case
    digests: dict[str, str] = {}


FIELD_TYPES: dict[str, Any] = {
    "claim": Claim,
    "documents": list[Document],
    "dropped": dict[str, int],
    "passages": list[Passage],
    "questions": list[str],
    "queries": list[Query],
    "hits": list[Hit],
    "evidence": list[Evidence],
    "verdict": Verdict,
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
    """A line that a reader could not use."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


def read_lines(
    path: Path, type: Any, on_error: str = "stop", bad: list[BadLine] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield (line number from 1, record) of a JSON-lines file.

    on_error: "stop" raises ClaimflowError at the first bad line; "skip" appends it to `bad`
    and goes on, so that a bad line costs itself alone. Blank lines are passed over.
    """
    decoder = msgspec.json.Decoder(type)
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield number, decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                problem = BadLine(file=str(path), line=number, reason=str(error))
                if on_error != "skip":
                    raise ClaimflowError(
                        f"{problem}. Mend the line, or set on_error=skip to use the rest."
                    ) from None
                if bad is not None:
                    bad.append(problem)


def write_lines(path: Path, records: Any) -> None:
    """Write records as JSON lines; the file appears under its name only when it is whole."""
    from components.files import write_whole

    write_whole(path, b"".join(encode(record) + b"\n" for record in records))
