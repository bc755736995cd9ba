"""SciFact: scientific claims checked against abstracts (Wadden et al. 2020).

claims_train.jsonl claims_dev.jsonl claims_test.jsonl    corpus.jsonl
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from components.datasets.base import Dataset, checked_label
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Claim, Document, GoldSet, Record, encode, read_lines

LABELS = ("SUPPORT", "CONTRADICT")


class _Rationale(Record):
    label: str
    sentences: list[int]


class _Claim(Record):
    id: int
    claim: str
    evidence: dict[str, list[_Rationale]] = {}
    cited_doc_ids: list[int] = []


class _Abstract(Record):
    doc_id: int
    title: str
    abstract: list[str]


class Finding(Record):
    """What a system says of one abstract: its label, and the sentences (from 0) that show it."""

    doc: str
    label: str
    sentences: list[int] = []


class SciFact(Dataset):
    """SciFact. All claims share one corpus: a document is an abstract, sentences as given.

    A claim's gold sets are its rationales, each with the label of its abstract; `relevant` are the
    cited abstracts, which is what retrieval is measured by. `Claim.label` stays empty: SciFact
    labels pairs of claim and abstract.
    """

    name: ClassVar = "scifact"
    published: ClassVar = "https://github.com/allenai/scifact (data.tar.gz)"
    splits: ClassVar = ("train", "dev", "test")

    def read_claims(self, split: str) -> list[Claim]:
        path = self.claim_file(split, [f"claims_{split}.jsonl"])
        claims = []
        for line, record in self.records(path, _Claim):
            try:
                gold = [
                    GoldSet(
                        label=checked_label(rationale.label, LABELS),
                        items=[(doc, sentence) for sentence in rationale.sentences],
                    )
                    for doc, rationales in record.evidence.items()
                    for rationale in rationales
                ]
            except ClaimflowError as error:
                self.bad_line(path, line, error)
                continue
            cited = list(dict.fromkeys(map(str, record.cited_doc_ids)))
            claims.append(Claim(id=str(record.id), text=record.claim, gold=gold, relevant=cited))
        return claims

    def sources(self, claim: Claim) -> list[Path]:
        return [self.find(["corpus.jsonl"], "the abstracts")]

    def read_documents(self, claim: Claim) -> list[Document]:
        return [
            Document(id=str(a.doc_id), title=a.title, sentences=a.abstract, lang="en")
            for _, a in self.records(self.sources(claim)[0], _Abstract)
        ]


def write_predictions(path: Path, findings: dict[str, list[Finding]]) -> None:
    """Write findings by claim id as the official scorer reads them, in the order of the dict.

    A claim without findings gets an empty `evidence`; give all claims of the split.
    """
    records = []
    for claim, found in findings.items():
        evidence = {f.doc: {"label": f.label, "sentences": f.sentences} for f in found}
        for finding in found:
            checked_label(finding.label, LABELS)
        records.append({"id": int(claim), "evidence": evidence})
    write_whole(path, b"".join(encode(record) + b"\n" for record in records))


def read_predictions(path: Path) -> dict[str, list[Finding]]:
    """Findings by claim id from a file in the official form."""

    class _Prediction(Record):
        id: int
        evidence: dict[str, _Rationale]

    records: Any = read_lines(path, _Prediction)
    return {
        str(record.id): [
            Finding(doc=doc, label=found.label, sentences=found.sentences)
            for doc, found in record.evidence.items()
        ]
        for _, record in records
    }
