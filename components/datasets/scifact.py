"""SciFact: scientific claims checked against abstracts (Wadden et al. 2020), and the files of
SciFact-Open, which has evidence from 500,000 abstracts (Wadden et al. 2022).

claims_train.jsonl claims_dev.jsonl claims_test.jsonl    corpus.jsonl
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from components.datasets.base import Dataset, checked_label
from components.errors import ClaimflowError, plain
from components.files import write_whole
from components.labels import exact_label
from components.records import (
    BadLine,
    Claim,
    Document,
    Finding,
    GoldSet,
    Prediction,
    Record,
    encode,
    read_lines,
    report,
)

LABELS = ("SUPPORT", "CONTRADICT")

# Systems whose probabilities in SciFact-Open's table are no confidences: its script gives no AP.
WITHOUT_CONFIDENCE = ("arsjoint",)
NEI = ("NEI", "NOT_ENOUGH_INFO")  # in SciFact-Open's predictions; SciFact leaves such documents out


class _Rationale(Record):
    label: str
    sentences: list[int] = []
    provenance: str | None = None
    model_ranks: dict[str, int | None] | None = None


class _Claim(Record):
    id: int | str
    claim: str
    evidence: dict[str, list[_Rationale] | _Rationale] = {}
    cited_doc_ids: list[int | str] = []


class _Abstract(Record):
    doc_id: int | str
    title: str
    abstract: tuple[str, ...]
    scifact_orig: bool | None = None  # in SciFact-Open: is it of the corpus of SciFact?

    def document(self) -> Document:
        return Document(id=str(self.doc_id), title=self.title, sentences=self.abstract, lang="en")


class _Labelled(Record):
    label: str | None
    sentences: list[int] = []

    @property
    def verdict(self) -> str | None:
        return None if means_nei(self.label or "") else self.label or ""


class _Prediction(Record):
    id: int | str
    evidence: dict[str, _Labelled]


class _Row(Record):
    """A row of SciFact-Open's table of predictions."""

    model: str
    claim_id: int | str
    doc_id: int | str
    predicted_label: str
    rank: float | None = None  # a whole number; a column with gaps is read as floats
    p_support: float | None = None
    p_contradict: float | None = None


class SciFact(Dataset):
    """SciFact. All claims share one corpus: a document is an abstract, sentences as given.

    A claim's gold sets are its rationales, each with the label of its abstract; `relevant` are the
    cited abstracts, which is what retrieval is measured by. `Claim.label` stays empty: SciFact
    labels pairs of claim and abstract.
    """

    name: ClassVar = "scifact"
    shared: ClassVar = True
    published: ClassVar = "https://github.com/allenai/scifact (data.tar.gz)"
    splits: ClassVar = ("train", "dev", "test")

    def read_claims(self, split: str) -> list[Claim]:
        path = self.claim_file(split, [f"claims_{split}.jsonl"])
        claims = []
        for line, raw in self.records(path, dict[str, Any]):
            try:
                claims.append(claim_from(raw))
            except (msgspec.ValidationError, ClaimflowError) as error:
                self.bad_line(path, line, error)
        return claims

    def sources(self, claim: Claim) -> list[Path]:
        return [self.find(["corpus.jsonl"], "the abstracts")]

    def read_documents(self, claim: Claim) -> list[Document]:
        return [a.document() for _, a in self.records(self.sources(claim)[0], _Abstract)]


def claim_from(raw: dict[str, Any]) -> Claim:
    """The claim in one record of SciFact, which gives a document's rationales one by one, or of
    SciFact-Open, which gives their union with its provenance.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    record = msgspec.convert(raw, _Claim)
    gold = []
    for doc, found in record.evidence.items():
        rationales = found if isinstance(found, list) else [found]
        if len({rationale.label for rationale in rationales}) > 1:
            raise ClaimflowError(f"document {doc} has two labels; a document has one")
        for rationale in rationales:
            items: list[tuple[str, int | None]] = [(doc, number) for number in rationale.sentences]
            gold.append(
                GoldSet(
                    label=checked_label(rationale.label, LABELS),
                    items=items or [(doc, None)],
                    provenance=rationale.provenance,
                    ranks={
                        m: rank
                        for m, rank in (rationale.model_ranks or {}).items()
                        if rank is not None
                    },
                )
            )
    cited = list(dict.fromkeys(map(str, record.cited_doc_ids)))
    return Claim(id=str(record.id), text=record.claim, gold=gold, relevant=cited)


def read_corpus(
    path: Path, on_error: str = "stop", bad: list[BadLine] | None = None
) -> Iterator[tuple[Document, bool | None]]:
    """(abstract, whether it is of the corpus of SciFact) of a corpus.jsonl, line by line; None
    where the file does not say."""
    for _, abstract in read_lines(path, _Abstract, on_error, bad):
        yield abstract.document(), abstract.scifact_orig


def write_open_claims(path: Path, claims: list[Claim]) -> None:
    """Write claims in the form of SciFact-Open: the rationales of a document as one; with
    cited_doc_ids (SciFact's) where they are known."""
    records = []
    for claim in claims:
        evidence: dict[str, dict[str, Any]] = {}
        for found in claim.gold:
            for doc, sentence in found.items:
                entry = evidence.setdefault(
                    doc,
                    {
                        "provenance": found.provenance or "citation",
                        "label": found.label,
                        "sentences": [],
                        "model_ranks": found.ranks or None,
                    },
                )
                if sentence is not None and sentence not in entry["sentences"]:
                    entry["sentences"].append(sentence)
        for entry in evidence.values():
            entry["sentences"].sort()
        cited = {"cited_doc_ids": list(map(_number, claim.relevant))} if claim.relevant else {}
        records.append({"id": _number(claim.id), "claim": claim.text, "evidence": evidence} | cited)
    write_whole(path, b"".join(encode(record) + b"\n" for record in records))


def write_predictions(path: Path, predictions: list[Prediction]) -> None:
    """Write predictions as the official scorer reads them, in the order given.

    A claim without findings gets an empty `evidence`; give all claims of the split in its order,
    because the official scorer asks for it.
    """
    records = []
    for prediction in predictions:
        evidence = {
            found.doc: {"label": checked_label(found.label, LABELS), "sentences": found.sentences}
            for found in prediction.findings
            if found.label is not None
        }
        records.append({"id": _number(prediction.id), "evidence": evidence})
    write_whole(path, b"".join(encode(record) + b"\n" for record in records))


def prediction_from(raw: dict[str, Any]) -> Prediction:
    """The prediction in one official record; NEI is no label, however it is spelt, others are kept,
    whatever they are.

    Raises ValidationError or ClaimflowError for a bad one.
    """
    for doc, said in raw["evidence"].items() if isinstance(raw.get("evidence"), dict) else ():
        if isinstance(said, list):
            raise ClaimflowError(
                f"document {doc} has a list of rationales, as in a gold file; in a prediction it "
                'has one {"label": …, "sentences": […]}'
            )
        if isinstance(said, dict) and (elsewhere := misplaced(said)):
            raise ClaimflowError(f"document {doc} has {elsewhere}: write them as sentences")
    if is_listed(raw.get("evidence")):
        raise ClaimflowError(
            f"{LISTED} (`python -m flows.lint … fix=true` writes it where each names another "
            "document by doc_id)"
        )
    if not raw.get("evidence") and not isinstance(raw.get("evidence"), dict):
        raise ClaimflowError(
            f"its evidence is {lacking(raw)}, where SciFact has {{}} for none "
            "(`python -m flows.lint … fix=true` writes it)"
        )
    record = msgspec.convert(raw, _Prediction)
    return Prediction(
        id=str(record.id).strip(),
        claim=str(raw.get("claim") or ""),
        evidence=[],
        label="",
        findings=[
            Finding(doc=doc, label=found.verdict, sentences=found.sentences)
            for doc, found in record.evidence.items()
        ],
    )


@functools.lru_cache(1000)
def means_nei(label: str) -> bool:
    """Whether a document's label says that it is no evidence, in the spelling of any data set."""
    return exact_label(label, ("NEI",)) is not None


def misplaced(said: dict[str, Any]) -> str | None:
    """What is to be said where a document's sentences seem to stand under another key; else None.
    [] is none, and stands."""
    if said.get("sentences") is not None:
        return None
    keys = [f"'{key}'" for key, value in said.items() if value and isinstance(value, list)]
    names = " and ".join(keys)
    return f"no sentences, and {names} in their place, which no evaluator reads" if keys else None


LISTED = "its evidence is a list, where an object {doc_id: {label, sentences}} stands"


def is_listed(evidence: Any) -> bool:
    """Whether evidence is a list of what SciFact has by document."""
    keys = {"doc_id", "label", "sentences"}
    return (
        isinstance(evidence, list)
        and bool(evidence)
        and all(isinstance(x, dict) and len(keys & x.keys()) > 1 for x in evidence)
    )


def lacking(raw: dict[str, Any]) -> str:
    """How the evidence of a record that has none lacks, in a word."""
    if "evidence" not in raw:
        return "missing"
    return "null" if raw["evidence"] is None else "empty"


def read_systems(
    path: Path, on_error: str = "stop", bad: list[BadLine] | None = None
) -> dict[str, list[Prediction]]:
    """{system: its predictions} of SciFact-Open's Parquet table, findings of a claim by rank.

    Columns: model, claim_id, doc_id, predicted_label (SUPPORT, CONTRADICT, NEI), rank (over all
    claims of a system, from 1; ranks that begin below are moved up), p_support, p_contradict; the
    last three may be missing or null, and documents without rank stand last. A bad row
    (pair of claim and document that stands there twice) stops, or is skipped; any label is kept.
    """
    from pyarrow import ArrowInvalid, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (ArrowInvalid, OSError) as error:
        what = str(error).rstrip(".")
        raise ClaimflowError(f"{path} is no whole Parquet file: {what}. Write it anew.") from None
    systems: dict[str, dict[str, Prediction]] = {}
    seen: set[tuple[str, str, str]] = set()
    for number, raw in enumerate(rows, 1):
        try:
            for name in ("claim_id", "doc_id"):  # a column with gaps is read as floats
                if isinstance(raw.get(name), float) and raw[name].is_integer():
                    raw[name] = int(raw[name])
            row = msgspec.convert(raw, _Row)
            claim, doc = str(row.claim_id), str(row.doc_id)
            if (row.model, claim, doc) in seen:
                raise ClaimflowError(f"{row.model}, claim {claim}, document {doc} again")
            finding = Finding(
                doc=doc,
                label=None if means_nei(row.predicted_label) else row.predicted_label,
                rank=None if row.rank is None or not math.isfinite(row.rank) else int(row.rank),
                probabilities=_probabilities(row),
            )
        except (msgspec.ValidationError, ClaimflowError) as error:
            report(BadLine(file=str(path), line=number, reason=plain(error)), on_error, bad)
            continue
        seen.add((row.model, claim, doc))
        predictions = systems.setdefault(row.model, {})
        if claim not in predictions:
            predictions[claim] = Prediction(id=claim, claim="", evidence=[], label="")
        predictions[claim].findings.append(finding)
    for predictions in systems.values():
        findings = [finding for p in predictions.values() for finding in p.findings]
        first = min((f.rank for f in findings if f.rank is not None), default=1)
        for finding in findings if first < 1 else ():
            finding.rank = None if finding.rank is None else finding.rank + 1 - first
        for prediction in predictions.values():
            prediction.findings.sort(key=lambda f: math.inf if f.rank is None else f.rank)
    return {name: list(predictions.values()) for name, predictions in systems.items()}


def _probabilities(row: _Row) -> dict[str, float]:
    """Probabilities of the labels; none where one of the two is missing or not finite."""
    scores = (row.p_support, row.p_contradict)
    if any(score is None or not math.isfinite(score) for score in scores):
        return {}
    return dict(zip(LABELS, scores, strict=True))  # type: ignore[arg-type]


def _number(id: str) -> int | str:
    """Official ids are numbers."""
    return int(id) if id.isdecimal() else id
