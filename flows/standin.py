"""Stand-in for the readers of submissions and gold files, until those of components.datasets are
merged; flows/score.py imports `read_submission` and `read_gold` from here."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

from components.errors import ClaimflowError
from components.records import Answer, Claim, Evidence, Prediction, Question
from components.score.retrieval import read_qrels


def read_submission(path: Path) -> list[Prediction]:
    if _is_json(path):
        return [
            Prediction(
                id=str(record["claim_id"]).strip(),
                claim=record.get("claim") or "",
                label=record["pred_label"],
                evidence=[
                    Evidence(question=e["question"], answer=e["answer"]) for e in record["evidence"]
                ],
            )
            for record in _json(path)
        ]
    return [
        Prediction(
            id=row["id"].strip(),
            claim=row["claim"],
            label=row["label"],
            evidence=[Evidence(question=q, answer=a) for q, a in _qas(row["evi"])],
        )
        for row in _rows(path)
    ]


def read_gold(path: Path) -> list[Claim]:
    """Claims of an AVeriTeC JSON file or 2025 CSV, or relevant documents of TREC qrels."""
    if _is_json(path):
        return [
            Claim(
                id=str(record.get("claim_id", number)),
                text=record["claim"],
                label=record.get("label"),
                types=record.get("claim_types") or [],
                strategies=record.get("fact_checking_strategies") or [],
                fact_check_url=record.get("fact_checking_article"),
                questions=[
                    Question(
                        question=q["question"],
                        answers=[
                            Answer(
                                answer=a["answer"],
                                answer_type=a.get("answer_type"),
                                boolean_explanation=a.get("boolean_explanation"),
                            )
                            for a in q["answers"]
                        ],
                    )
                    for q in record.get("questions", [])
                ],
            )
            for number, record in enumerate(_json(path))
        ]
    with open(path, encoding="utf-8") as file:
        if "," in file.readline():
            return [
                Claim(
                    id=row["id"].strip(),
                    text=row["claim"],
                    label=row["label"],
                    questions=[
                        Question(question=q, answers=[Answer(answer=a)])
                        for q, a in _qas(row["evi"])
                    ],
                )
                for row in _rows(path)
            ]
    return [
        Claim(id=claim, text="", relevant=[doc for doc, grade in grades.items() if grade > 0])
        for claim, grades in read_qrels(path).items()
    ]


def _is_json(path: Path) -> bool:
    with open(path, encoding="utf-8") as file:
        return file.read(100).lstrip()[:1] == "["


def _json(path: Path) -> list[dict]:  # type: ignore[type-arg]
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except json.JSONDecodeError as error:
        raise ClaimflowError(f"{path}, line {error.lineno}: {error.msg}.") from None


def _rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(sys.maxsize)
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _qas(cell: str) -> list[tuple[str, str]]:
    parts = [part for part in cell.split("\t\t\n\n") if part.strip()]
    pairs = (part.partition("\t\t\n") for part in parts)
    return [(question, answer) for question, _, answer in pairs]
