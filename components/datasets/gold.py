"""Gold files that stand alone: what predictions or rankings are scored against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from components.datasets.averitec import claim_from
from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.records import Answer, Claim, Question, read_lines
from components.score.retrieval import read_qrels


def read_gold(path: Path) -> list[Claim]:
    """Claims of an AVeriTeC file (JSON; solution of the first EvalAI page; CSV solution of 2025) or
    of TREC qrels.

    Told apart by content. Claims of a solution have no types or sources, those of qrels only
    `relevant` documents. Raises ClaimflowError for a file that is none of them or has a bad record.
    """
    if not path.is_file():
        raise ClaimflowError(f"No gold file {path.absolute()}.")
    with open(path, "rb") as file:
        start = file.readline(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start and not path.read_bytes().strip():
        raise ClaimflowError(f"{path} is empty.")
    if not start or start[:1] in (b"[", b"{"):
        return _averitec(path)
    if b"," in start:
        return _solution(path)
    return [
        Claim(id=claim, text="", relevant=[doc for doc, grade in grades.items() if grade > 0])
        for claim, grades in read_qrels(path).items()
    ]


def _averitec(path: Path) -> list[Claim]:
    claims: list[Claim] = []
    for line, raw in read_lines(path, dict[str, Any]):
        try:
            if "claim" not in raw and isinstance(raw.get("evidence"), list):
                raw = _first_evalai(raw)
            claims.append(claim_from(raw, len(claims)))
        except (msgspec.ValidationError, ClaimflowError) as error:
            raise ClaimflowError(f"{path}, line {line}: {error}") from None
    return claims


def _first_evalai(raw: dict[str, Any]) -> dict[str, Any]:
    """A record of the solution of the first EvalAI page (id, label, evidence as texts) as one of
    the data set."""
    texts = msgspec.convert(raw["evidence"], list[str])
    return {"claim": "", "claim_id": raw.get("id"), "label": raw.get("label")} | {
        "string_evidence": texts
    }


def _solution(path: Path) -> list[Claim]:
    return [
        Claim(
            id=row.id,
            text=row.claim,
            label=row.label,
            questions=[
                Question(question=e.question, answers=[Answer(answer=e.answer)])
                for e in row.evidence
            ],
        )
        for row in read_submission(path)
    ]
