"""Gold files that stand alone: what predictions or rankings are scored against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from components.datasets import averitec, fever, scifact
from components.datasets.base import checked_label
from components.datasets.submission import read_submission
from components.errors import ClaimflowError, plain
from components.files import beginning, check_file, check_text
from components.records import AVERITEC_LABELS, Answer, BadLine, Claim, Question, read_lines
from components.score.retrieval import read_qrels


def read_gold(path: str | Path) -> list[Claim]:
    """Claims of a file of AVeriTeC (JSON; solution of the first EvalAI page; CSV solution of 2025),
    FEVER, SciFact or SciFact-Open (JSON lines), or of TREC qrels.

    Told apart by content. Claims of a solution have no types or sources, those of qrels only
    `relevant` documents with their `grades`. Raises ClaimflowError for a file that is none of them
    or has a bad record.
    """
    path = Path(path)
    check_file(path, "gold file")
    check_text(path)
    start = beginning(path)
    if not start:
        raise ClaimflowError(f"{path} is empty.")
    if start[0] in "[{":
        return _json(path)
    if "," in start:
        return _solution(path)
    graded = {
        claim: {doc: grade for doc, grade in grades.items() if grade > 0}
        for claim, grades in read_qrels(path).items()
    }
    return [Claim(id=c, text="", relevant=list(found), grades=found) for c, found in graded.items()]


def _json(path: Path) -> list[Claim]:
    claims: dict[str, Claim] = {}
    bad: list[BadLine] = []
    for line, raw in read_lines(path, dict[str, Any], "skip", bad):
        _whole(bad)
        try:
            claim = _reader(raw)(raw, len(claims))
            if claims.setdefault(claim.id, claim) is not claim:
                raise ClaimflowError(f"claim {claim.id} stands here twice")
        except (msgspec.ValidationError, ClaimflowError) as error:
            raise ClaimflowError(f"{path}, line {line}: {plain(error)}.") from None
    _whole(bad)
    return list(claims.values())


def _whole(bad: list[BadLine]) -> None:
    """Raise ClaimflowError for a line that can't be read: a gold file is used whole or not."""
    if bad:
        raise ClaimflowError(f"{bad[0]}. Mend the line: a gold file is used whole.")


def _reader(raw: dict[str, Any]) -> Callable[[dict[str, Any], int], Claim]:
    """The reader for a record, by its fields; those of AVeriTeC have `claim_id` or no id. Raises
    ClaimflowError for a prediction."""
    for key in ("pred_label", "predicted_label", "predicted_evidence"):
        if key in raw and "label" not in raw:
            raise ClaimflowError(f"its '{key}' makes it a prediction, where gold claims are due")
    if "claim" not in raw and isinstance(raw.get("evidence"), list):
        return lambda raw, position: averitec.claim_from(_first_evalai(raw), position)
    if "id" not in raw or {"claim_id", "questions"} & raw.keys():
        return averitec.claim_from
    if isinstance(raw.get("evidence"), dict) or "cited_doc_ids" in raw:
        return lambda raw, position: scifact.claim_from(raw)
    return lambda raw, position: fever.claim_from(raw)


def _first_evalai(raw: dict[str, Any]) -> dict[str, Any]:
    """A record of the solution of the first EvalAI page (id, label, evidence as texts) as one of
    the data set."""
    texts = msgspec.convert(raw["evidence"], list[str])
    return {"claim": "", "claim_id": raw.get("id"), "label": raw.get("label")} | {
        "string_evidence": texts
    }


def _solution(path: Path) -> list[Claim]:
    claims: dict[str, Claim] = {}
    bad: list[BadLine] = []
    found = read_submission(path, "skip", bad)
    _whole(bad)
    for row in found:
        try:
            label = checked_label(row.label, AVERITEC_LABELS)
            if row.id in claims:
                raise ClaimflowError("stands here twice")
        except ClaimflowError as error:
            raise ClaimflowError(f"{path}, claim {row.id}: {error}") from None
        questions = [
            Question(question=e.question, answers=[Answer(answer=e.answer)]) for e in row.evidence
        ]
        claims[row.id] = Claim(id=row.id, text=row.claim, label=label, questions=questions)
    return list(claims.values())
