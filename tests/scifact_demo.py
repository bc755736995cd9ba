"""The demo data in the form of SciFact: its claims, and the pages of their gold answers."""

from __future__ import annotations

import json
from pathlib import Path

from components.datasets.averitec import Demo
from components.records import Claim, Document

LABELS = {"Supported": "SUPPORT", "Refuted": "CONTRADICT"}
SENTENCES = 4  # of a page
PAGES = 3  # of a claim, besides those of its gold answers


def write(folder: Path) -> Path:
    """claims_train.jsonl, claims_dev.jsonl and corpus.jsonl in `folder`. The sentence of a page
    that shares most words with a gold answer is a rationale."""
    ids: dict[str, int] = {}
    corpus: list[dict[str, object]] = []
    for split in ("train", "dev"):
        lines = []
        dataset = Demo(split=split)
        for claim in dataset.claims():
            cited, evidence = [], {}
            pages = dataset.read_documents(claim)
            others = [page.id for page in pages if page.id not in claim.relevant][:PAGES]
            for document in pages:
                if document.id not in (*claim.relevant, *others):
                    continue
                if document.id not in ids:
                    ids[document.id] = len(ids) + 1
                    corpus.append(
                        {"doc_id": ids[document.id], "title": document.title or "",
                         "abstract": document.sentences[:SENTENCES]}
                    )  # fmt: skip
                if document.id in claim.relevant:
                    cited.append(ids[document.id])
                    sentences = rationale(claim, document)
                    if claim.label in LABELS and sentences:
                        found = {"sentences": sentences, "label": LABELS[claim.label]}
                        evidence[str(ids[document.id])] = [found]
            lines.append(
                {"id": int(claim.id) + (1000 if split == "dev" else 0), "claim": claim.text,
                 "evidence": evidence, "cited_doc_ids": cited}
            )  # fmt: skip
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"claims_{split}.jsonl").write_text(text, encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in corpus)
    (folder / "corpus.jsonl").write_text(text, encoding="utf-8")
    return folder


def rationale(claim: Claim, document: Document) -> list[int]:
    answers = [
        set(answer.answer.casefold().split())
        for question in claim.questions
        for answer in question.answers
        if answer.source_url == document.id and answer.answer
    ]
    texts = [set(text.casefold().split()) for text in document.sentences[:SENTENCES]]
    return sorted({max(range(len(texts)), key=lambda n: len(texts[n] & a)) for a in answers})
