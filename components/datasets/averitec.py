"""AVeriTeC: real claims with questions, answers and a store of pages for each claim
(Schlichtkrull et al. 2023; shared tasks of 2024 and 2025), and the demo data in the same layout.

    train.json dev.json test.json …      a JSON list, or JSON lines; the position is the claim's id
    knowledge_store_SPLIT/ID.json        or knowledge_store/SPLIT/ID.json: JSON lines, or a list;
                                         either folder may be a packed store instead
    pages/SPLIT/ID/                      raw pages (HTML, PDF) that lines of the store name

A line of a store has url and url2text (sentences); claim_id, type and query when known. Beyond
the official format it may have date (ISO), title, lang, final_url (where redirects led), and
`file`, a raw page whose text stands for url2text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from components.datasets.base import Dataset, checked_label
from components.datasets.dates import format_date, parse_date
from components.errors import ClaimflowError, MissingFileError, plain
from components.files import ROOT, beginning, write_whole
from components.records import (
    AVERITEC_LABELS,
    Answer,
    BadLine,
    Claim,
    Document,
    Question,
    Record,
)
from components.store.extract import extract
from components.store.packed import Packed, open_packed
from components.words import unwatched

NO_SOURCE = ("", "Metadata")  # source URLs that name no page


class _Claim(Record):
    """A claim as published; fields that are not here are kept in `Claim.extra`."""

    claim: str
    claim_id: int | str | None = None
    label: str | None = None
    justification: str | None = None
    claim_date: str | None = None
    speaker: str | None = None
    original_claim_url: str | None = None
    fact_checking_article: str | None = None
    reporting_source: str | None = None
    location_ISO_code: str | None = None  # noqa: N815
    claim_types: list[str] | None = None
    fact_checking_strategies: list[str] | None = None
    questions: list[_Question] | None = None


class _Question(Record):
    question: str
    answers: list[Answer] | Answer | str | None = None


_READ = {field.name for field in msgspec.structs.fields(_Claim)} - {"claim_id"}


class _Page(Record):
    """A line of a store."""

    claim_id: Any = None  # of any type, as it decides nothing but whose page it is
    url: str | None = None
    final_url: str | None = None
    url2text: list[str] | str | None = None
    type: str | None = None
    query: str | None = None
    date: str | None = None
    title: str | None = None
    lang: str | None = None
    file: str | None = None


@dataclasses.dataclass(kw_only=True)
class Averitec(Dataset):
    """AVeriTeC as published in 2024 and 2025. See the module for the layout.

    store: another folder with the stores of the split: one file a claim, or a packed store.
    """

    name: ClassVar = "averitec"
    published: ClassVar = "https://fever.ai/dataset/averitec.html (AVeriTeC, knowledge stores)"
    splits: ClassVar[tuple[str, ...]] = ("train", "dev", "test")

    unkeyed: ClassVar = ("store",)
    store: Path | None = None

    def read_claims(self, split: str) -> list[Claim]:
        """All claims of a split. The id is `claim_id`, else the position from 0 in the file."""
        path = self.claim_file(split, [f"{split}.json", f"{split}.jsonl"])
        as_list = beginning(path, 1) == "["  # which may stand on one line
        claims: list[Claim] = []
        seen: dict[str, str] = {}
        known = len(self.bad)
        for line, raw in self.records(path, dict[str, Any]):
            position = len(claims) + len(self.bad) - known  # skipped records count
            record = f"record {position + 1}"
            try:
                claim = claim_from(raw, position)
                if claim.id in seen:
                    raise ClaimflowError(f"id {claim.id} again, as in {seen[claim.id]}")
            except (msgspec.ValidationError, ClaimflowError) as error:
                reason = f"{record}: {plain(error)}" if as_list else plain(error)
                self.bad_line(path, line, ClaimflowError(reason))
                continue
            seen[claim.id] = f"line {line}" + f" ({record})" * as_list
            claims.append(claim)
        return claims

    def sources(self, claim: Claim) -> list[Path]:
        packed = self._packed()
        store = Path(packed.part(claim.id)) if packed else self._store(claim)
        return [store, *self._pages(claim)]

    def versions(self, claim: Claim) -> list[str]:
        if packed := self._packed():
            return [packed.digest(claim.id), *map(self._version, self._pages(claim))]
        return super().versions(claim)

    def _stores(self) -> list[Path]:
        """Where the stores of the split may lie."""
        if self.store is not None:
            return [Path(self.store).absolute()]
        return [Path(f"knowledge_store_{self.split}"), Path("knowledge_store", self.split)]

    def _packed(self) -> Packed | None:
        """The packed store of the split, where it has one."""
        for folder in self._stores():
            if packed := open_packed(self.folder / folder):
                return packed
        return None

    def _store(self, claim: Claim) -> Path:
        name = f"{claim.id}.json"
        if Path(name).name != name:
            raise ClaimflowError(
                f"claim id {claim.id!r} can't name a knowledge store, a file of that name: give "
                "the claim one without slashes."
            )
        if self.store is not None and not (self._stores()[0] / name).exists():
            folder = self._stores()[0]
            what = f"no {name} in it" if folder.is_dir() else "there is no such folder"
            raise MissingFileError(
                f"dataset.store={self.store}: {what}, the knowledge store of claim {claim.id} "
                f"(looked for {folder / name}). Name the folder that has the split's stores, or "
                "null for those of the data set."
            )
        return self.find(
            [str(folder / name) for folder in self._stores()],
            f"the knowledge store of claim {claim.id}",
        )

    def _pages(self, claim: Claim) -> list[Path]:
        folder = self.folder / "pages" / self.split / claim.id
        return sorted(p for p in folder.rglob("*") if p.is_file())

    def _lines(self, packed: Packed, claim: Claim) -> Iterator[tuple[int, _Page]]:
        for line in packed.lines(claim.id):
            try:
                yield line.number, line.read(_Page)
            except (ValueError, RecursionError) as error:
                self.bad_line(packed.official(claim.id), line.number, error)

    def read_documents(self, claim: Claim) -> list[Document]:
        """The pages found for a claim. A document's id is its URL, or `@` and its position where
        there is none; where an earlier one has it both, as `URL#@7`, which is of the same page. A
        raw page that can't be read stays empty, and
        why stands in `bad`."""
        packed = self._packed()
        store = packed.official(claim.id) if packed else self._store(claim)
        lines = self._lines(packed, claim) if packed else None
        documents: list[Document] = []
        ids: set[str] = set()
        with unwatched():
            for line, page in self.records(store, _Page, lines):
                try:
                    document = self._document(page, claim, store, line)
                except ClaimflowError as error:
                    self.bad_line(store, line, error)
                    continue
                name = document.id
                if not name or name in ids:
                    name = f"{name}#@{len(documents)}" if name else f"@{len(documents)}"
                while name in ids:
                    name = f"@{name}"
                ids.add(name)
                documents.append(msgspec.structs.replace(document, id=name))
        if not any(text.strip() for document in documents for text in document.sentences):
            raise ClaimflowError(
                f"The knowledge store of claim {claim.id} ({store}) has no text in any of its "
                f"{len(documents)} documents, so there is no evidence to find. "
                "Fetch the store again, or go on without this claim: on_error=skip."
            )
        return documents

    def _document(self, page: _Page, claim: Claim, store: Path, line: int) -> Document:
        if page.url is None and page.url2text is None and page.file is None:
            raise ClaimflowError("no page of a store: it has neither url nor url2text")
        if page.claim_id is not None and str(page.claim_id) != claim.id:
            raise ClaimflowError(
                f"a page of claim {page.claim_id}, in the store of claim {claim.id}. Are these the "
                "stores of other claims? Name the folder of theirs (dataset.store=…), or give each "
                "claim its own claim_id"
            )
        text = page.url2text or []
        document = Document(
            id=page.url or "",
            url=page.url,
            final_url=page.final_url,
            title=page.title,
            date=parse_date(page.date),
            lang=page.lang,
            sentences=(text,) if isinstance(text, str) else tuple(text),
            query=page.query,
            kind=page.type,
        )
        if page.file:
            folder = self.folder / "pages" / self.split / claim.id
            path = (self.folder / page.file).resolve()
            if folder.resolve() not in path.parents:
                raise ClaimflowError(f"file '{page.file}' does not lie in {folder}")
            try:
                raw = extract(path.read_bytes(), page.lang)
            except (ClaimflowError, OSError) as error:
                reason = f"page '{page.file}' left empty: {error}"
                self.bad.append(BadLine(file=str(store), line=line, reason=reason))
            else:
                return msgspec.structs.replace(
                    document,
                    sentences=tuple(raw.sentences),
                    title=document.title or raw.title,
                    date=document.date or raw.date,
                    checked=tuple(raw.checked),
                )
        return document


@dataclasses.dataclass(kw_only=True)
class Demo(Averitec):
    """The data that comes with the project: 60 claims about places and people that don't exist."""

    name: ClassVar = "demo"
    published: ClassVar = ""
    splits: ClassVar = ("train", "dev")

    @property
    def folder(self) -> Path:
        return Path(self.path) if self.path is not None else ROOT / "data" / "demo"


# Claims, in and out


def claim_from(raw: dict[str, Any], position: int) -> Claim:
    """The claim in one official record. Raises ValidationError or ClaimflowError for a bad one."""
    official = msgspec.convert(raw, _Claim)
    questions = [
        Question(question=question.question, answers=_answers(question.answers))
        for question in official.questions or []
    ]
    urls = [answer.source_url or "" for question in questions for answer in question.answers]
    return Claim(
        id=str(position if official.claim_id is None else official.claim_id),
        text=official.claim,
        date=parse_date(official.claim_date),
        speaker=official.speaker,
        label=checked_label(official.label, AVERITEC_LABELS),
        justification=official.justification,
        types=official.claim_types or [],
        strategies=official.fact_checking_strategies or [],
        questions=questions,
        original_url=official.original_claim_url,
        fact_check_url=official.fact_checking_article,
        reporting_source=official.reporting_source,
        location=official.location_ISO_code,
        relevant=list(dict.fromkeys(url for url in urls if url.strip() not in NO_SOURCE)),
        extra={name: value for name, value in raw.items() if name not in _READ},
    )


def _answers(answers: list[Answer] | Answer | str | None) -> list[Answer]:
    """Answers as a list; some files have one answer, or its text alone."""
    if isinstance(answers, str):
        answers = Answer(answer=answers)
    return [answers] if isinstance(answers, Answer) else answers or []


def claim_to(claim: Claim) -> dict[str, Any]:
    """The official record of a claim. What a split may hide is left out when it is not known."""
    record: dict[str, Any] = {
        "claim": claim.text,
        "claim_date": format_date(claim.date) if claim.date else None,
        "speaker": claim.speaker,
        "original_claim_url": claim.original_url,
        "reporting_source": claim.reporting_source,
        "location_ISO_code": claim.location,
        **claim.extra,
    }
    hidden = {
        "label": claim.label,
        "justification": claim.justification,
        "fact_checking_article": claim.fact_check_url,
        "claim_types": claim.types,
        "fact_checking_strategies": claim.strategies,
        "questions": [
            {"question": q.question, "answers": [_answer_to(a) for a in q.answers]}
            for q in claim.questions
        ],
    }
    return record | {name: value for name, value in hidden.items() if value not in (None, [])}


def _answer_to(answer: Answer) -> dict[str, Any]:
    optional = {
        "cached_source_url": answer.cached_source_url,
        "boolean_explanation": answer.boolean_explanation,
    }
    return {
        "answer": answer.answer,
        "answer_type": answer.answer_type,
        "source_url": answer.source_url,
        "source_medium": answer.source_medium,
    } | {name: value for name, value in optional.items() if value is not None}


def write_claims(path: Path, claims: list[Claim]) -> None:
    """Write claims as the official JSON list; an id that is not the position as `claim_id`."""
    records = []
    for position, claim in enumerate(claims):
        own = {} if claim.id == str(position) else {"claim_id": claim.id}
        records.append(own | claim_to(claim))
    text = json.dumps(records, ensure_ascii=False, indent=1)
    write_whole(path, text.encode() + b"\n")
