"""FEVER: claims about Wikipedia, with sets of gold sentences (Thorne et al. 2018).

train.jsonl paper_dev.jsonl paper_test.jsonl shared_task_dev.jsonl shared_task_test.jsonl
wiki-pages/*.jsonl       pages: id, text, lines ("number TAB sentence TAB link TAB …")
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from components.datasets.base import Dataset, checked_label
from components.errors import ClaimflowError
from components.files import write_whole
from components.labels import exact_label
from components.records import (
    AVERITEC_LABELS,
    Answer,
    Claim,
    Document,
    Finding,
    GoldSet,
    Prediction,
    Question,
    Record,
    encode,
)

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFO")
FIRST = 5  # sentences that count as evidence
QUESTION = "What is known about this: {claim}"  # as it stands before passages for a claim
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}


class _Claim(Record):
    id: int | str
    claim: str
    label: str | None = None
    evidence: list[list[tuple[Any, Any, str | None, int | None]]] = []


class _Page(Record):
    id: str
    lines: str = ""


class _Prediction(Record):
    id: int | str
    predicted_label: str | None
    predicted_evidence: list[tuple[str, int]]


class Fever(Dataset):
    """FEVER. All claims share one corpus: a document is the introduction of a wiki page.

    A document's id is the page's title as FEVER writes it (`Soul_Food_-LRB-film-RRB-`) in Unicode
    form NFC, in pages and gold sets alike, since the official files mix NFC and NFD. Sentence
    numbers are indexes into `Document.sentences`, so empty sentences are kept. The pages of
    `path` are held in memory together: give a sample, the whole dump has 5.4 million.
    """

    name: ClassVar = "fever"
    shared: ClassVar = True
    published: ClassVar = "https://fever.ai/dataset/fever.html (claims, wiki-pages.zip)"
    splits: ClassVar = (
        "train",
        "dev",
        "test",
        "paper_dev",
        "paper_test",
        "shared_task_test",
    )

    def read_claims(self, split: str) -> list[Claim]:
        """All claims of a split: SPLIT.jsonl, else paper_SPLIT.jsonl or shared_task_SPLIT.jsonl."""
        names = [f"{prefix}{split}.jsonl" for prefix in ("", "paper_", "shared_task_")]
        path = self.claim_file(split, names)
        claims = []
        for line, raw in self.records(path, dict[str, Any]):
            try:
                claims.append(claim_from(raw))
            except (msgspec.ValidationError, ClaimflowError) as error:
                self.bad_line(path, line, error)
        return claims

    def sources(self, claim: Claim) -> list[Path]:
        pages = sorted((self.folder / "wiki-pages").glob("*.jsonl"))
        return pages or [self.find(["wiki-pages/wiki-001.jsonl"], "the wiki pages")]

    def read_documents(self, claim: Claim) -> list[Document]:
        documents: dict[str, Document] = {}
        for path in self.sources(claim):
            for line, page in self.records(path, _Page):
                if not page.id:  # the dump begins with an empty page
                    continue
                try:
                    sentences = page_sentences(page.lines)
                except ClaimflowError as error:
                    self.bad_line(path, line, error)
                    continue
                name = page_id(page.id)
                documents[name] = Document(
                    id=name, title=page_title(name), sentences=tuple(sentences), lang="en"
                )
        return list(documents.values())

    def train(self, evaluated: list[Claim]) -> tuple[list[Claim], list[Claim]]:
        """The training claims as verdicts learn from them; see `learnable`."""
        kept, dropped = super().train(evaluated)
        reader = dataclasses.replace(self, bad=[])  # who makes cases reports what is skipped
        pages = {page.id: page for page in reader.read_documents(kept[0])} if kept else {}
        titles = {key: page for page in pages.values() if (key := _key(page.title or ""))}
        return [learnable(claim, pages, titles) for claim in kept], dropped


def learnable(claim: Claim, pages: dict[str, Document], titles: dict[str, Document]) -> Claim:
    """A claim in AVeriTeC's terms, which every verdict learns in: its label by their name, and one
    question, which sentences answer.

    These are the first five of its gold sets that `pages`, by id, have. NOT ENOUGH INFO has the
    first five of the page with the longest title that stands in the claim, as FEVER's baseline
    takes sentences of the nearest page. titles: pages by the words of their titles. Without a
    sentence there is no question, and verdicts that need one leave the claim out.
    """
    found: dict[tuple[str, int], str] = {}
    for doc, line in (item for gold in claim.gold for item in gold.items):
        if line is not None and doc in pages and line < len(pages[doc].sentences):
            found[doc, line] = pages[doc].sentences[line]
    if claim.label == LABELS[-1] and (page := _named(claim.text, titles)):
        found = {(page.id, n): text for n, text in enumerate(page.sentences) if text}
    answers = [
        Answer(answer=text, source_url=doc) for (doc, _), text in list(found.items())[:FIRST]
    ]
    question = Question(question=QUESTION.replace("{claim}", claim.text), answers=answers)
    return msgspec.structs.replace(
        claim,
        label=exact_label(claim.label, AVERITEC_LABELS) if claim.label else None,
        questions=[question] if answers else [],
    )


def _named(text: str, titles: dict[str, Document]) -> Document | None:
    """The page with the longest title that stands in a text, the first of equally long ones."""
    words = _key(text).split()
    for size in range(len(words), 0, -1):
        for at in range(len(words) - size + 1):
            if page := titles.get(" ".join(words[at : at + size])):
                return page
    return None


def _key(title: str) -> str:
    """The words of a title in lower case, without what stands in brackets at its end."""
    return " ".join(re.findall(r"\w+", re.sub(r"\s*\([^()]*\)\s*$", "", title).casefold()))


def claim_from(raw: dict[str, Any]) -> Claim:
    """The claim in one official record; sets that annotators repeat stand once.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    record = msgspec.convert(raw, _Claim)
    label = checked_label(record.label, LABELS)
    sets: dict[tuple[tuple[str, int | None], ...], dict[str, str]] = {}  # annotators repeat
    for annotated in record.evidence:
        named = [(page, line) for _, _, page, line in annotated if page is not None]
        items = tuple((page_id(page), line) for page, line in named)
        if items:
            sets[items] = {page_id(page): page for page, _ in named if page != page_id(page)}
    pages = dict.fromkeys(page for items in sets for page, _ in items)
    return Claim(
        id=str(record.id),
        text=record.claim,
        label=label,
        gold=[GoldSet(label=label, items=list(i), spelt=spelt) for i, spelt in sets.items()],
        relevant=list(pages),
    )


def page_id(title: str) -> str:
    """A page title as an id: FEVER's spelling in Unicode form NFC."""
    return unicodedata.normalize("NFC", title).replace(" ", "_")


def escaped(title: str) -> str:
    """A page title in FEVER's spelling, which has codes for brackets and colons, and _ for
    spaces: "Soul Food (film)" is `Soul_Food_-LRB-film-RRB-`. It keeps its Unicode form."""
    for code, bracket in _BRACKETS.items():
        title = title.replace(bracket, code)
    return title.replace(" ", "_")


def page_title(name: str) -> str:
    """A page id for people: `Soul_Food_-LRB-film-RRB-` is "Soul Food (film)"."""
    for code, bracket in _BRACKETS.items():
        name = name.replace(code, bracket)
    return name.replace("_", " ")


def page_sentences(lines: str) -> list[str]:
    """The sentences of the field `lines`, at their numbers; links after a sentence are cut off.

    A row that does not begin with a number belongs to the sentence before it. Raises
    ClaimflowError when the numbers don't run from 0.
    """
    sentences: list[str] = []
    for row in lines.split("\n"):
        number, tab, rest = row.partition("\t")
        if number.isdecimal() and tab:
            if int(number) != len(sentences):
                raise ClaimflowError(f"sentence {number} of a page where {len(sentences)} is due")
            sentences.append(rest.partition("\t")[0])
        elif sentences:
            sentences[-1] = f"{sentences[-1]} {row}".strip()
        elif row.strip() and not number.isdecimal():
            raise ClaimflowError(f"'{row[:40]}' is not a numbered sentence")
    return sentences


def write_predictions(path: Path, predictions: list[Prediction], claims: list[Claim]) -> None:
    """Write predictions in the order of `claims`: the official scorer pairs lines by order.

    Raises ClaimflowError when a claim has none.
    """
    by_id = {prediction.id: prediction for prediction in predictions}
    missing = [claim.id for claim in claims if claim.id not in by_id]
    if missing:
        raise ClaimflowError(
            f"No prediction for {len(missing)} of {len(claims)} claims, the first {missing[0]}: "
            "FEVER's scorer pairs lines by order, so every claim needs one."
        )
    lines = []
    for claim in claims:
        prediction = by_id[claim.id]
        record = {
            "id": int(claim.id) if claim.id.isdecimal() else claim.id,
            "predicted_label": checked_label(prediction.label, LABELS),
            "predicted_evidence": sentences_of(prediction),
        }
        lines.append(encode(record) + b"\n")
    write_whole(path, b"".join(lines))


def sentences_of(prediction: Prediction, spelt: bool = False) -> list[tuple[str, int]]:
    """Predicted evidence as FEVER counts it: (page id, line), best first; spelt: with pages as the
    file names them."""
    return [
        ((found.spelt if spelt else None) or found.doc, line)
        for found in prediction.findings
        for line in found.sentences
    ]


def prediction_from(raw: dict[str, Any]) -> Prediction:
    """The prediction in one official record; page ids in NFC, any label, in capitals.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    items = raw.get("predicted_evidence")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, str):
            raise ClaimflowError(
                f"'{item[:60]}' in its evidence is a text, where FEVER has [page, line], such as "
                '["Soul_Food_-LRB-film-RRB-", 0]'
            )
    record = msgspec.convert(raw, _Prediction)
    return Prediction(
        id=str(record.id).strip(),
        claim=str(raw.get("claim") or ""),
        evidence=[],
        label=(record.predicted_label or "").upper(),  # the official scorer compares without case
        findings=[
            Finding(
                doc=page_id(page), sentences=[line], spelt=page if page != page_id(page) else None
            )
            for page, line in record.predicted_evidence
        ],
    )
