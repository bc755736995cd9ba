"""The demo data in the form of FEVER: its claims, and the pages of their gold answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from components.datasets.averitec import Demo
from components.datasets.fever import page_id
from components.records import Document
from tests.scifact_demo import SENTENCES, rationale

LABELS = {
    "Supported": "SUPPORTS",
    "Refuted": "REFUTES",
    "Not Enough Evidence": "NOT ENOUGH INFO",
}


def write(folder: Path) -> Path:
    """train.jsonl, paper_dev.jsonl and wiki-pages/wiki-001.jsonl in `folder`. The sentences of a
    page that share most words with its gold answers are a gold set, and another page has the
    longest name in a claim for its title."""
    pages: dict[str, dict[str, str]] = {}
    for split, file in (("train", "train"), ("dev", "paper_dev")):
        dataset, lines = Demo(split=split), []
        for claim in dataset.claims():
            if claim.label not in LABELS:
                continue
            sets: list[list[list[Any]]] = []
            documents = dataset.read_documents(claim)
            name = max(re.findall(r"[A-Z]\w+(?: [A-Z]\w+)*", claim.text), key=len)
            pages.setdefault(page_id(name), page_of(page_id(name), documents[0]))
            for document in documents:
                if document.id not in claim.relevant:
                    continue
                page = page_id(document.title or document.id)
                pages[page] = page_of(page, document)
                if found := rationale(claim, document):
                    sets.append([[1, 1, page, number] for number in found])
            if claim.label == "Not Enough Evidence" or not sets:
                sets = [[[1, None, None, None]]]
            label = LABELS[claim.label] if sets[0][0][2] else "NOT ENOUGH INFO"
            number = int(claim.id) + (1000 if split == "dev" else 0)
            lines.append({"id": number, "label": label, "claim": claim.text, "evidence": sets})
        _lines(folder / f"{file}.jsonl", lines)
    (folder / "wiki-pages").mkdir()
    _lines(folder / "wiki-pages" / "wiki-001.jsonl", list(pages.values()))
    return folder


def page_of(name: str, document: Document) -> dict[str, str]:
    """A page of the dump with the first sentences of a document."""
    lines = [f"{n}\t{text}\t" for n, text in enumerate(document.sentences[:SENTENCES])]
    return {"id": name, "text": "", "lines": "\n".join(lines)}


def _lines(path: Path, records: list[Any]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
