"""A question for each passage: what is asked, and of which examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.cache import Cache
from components.engines.base import Request
from components.errors import ClaimflowError
from components.reason.evidence_questions import NO_QUESTION, EvidenceQuestions, first_question
from components.records import Answer, Case, Claim, Evidence, Hit, Passage, Question
from components.step import Context
from tests.test_joint import Says

TEXTS = ["The river flooded the market in March.", "The mayor of Quillon resigned on Monday."]


def pair(claim: str, question: str, answer: str) -> Claim:
    answers = [Answer(answer=answer)]
    return Claim(id=claim, text=claim, questions=[Question(question=question, answers=answers)])


TRAIN = [
    pair("Floods are rare.", "When was the flood?", "The river flooded in March."),
    pair("The mayor left.", "Who resigned?", "The mayor resigned on Friday."),
    pair("She is gone.", "What happened on Monday?", "The mayor of Quillon resigned on Monday."),
]


def case() -> Case:
    passages = [Passage(id=f"d#{i}", doc="d", text=text, url="u") for i, text in enumerate(TEXTS)]
    hits = [Hit(passage=f"d#{i}", doc="d", score=i) for i in (1, 0)]
    return Case(claim=Claim(id="1", text="She is gone."), passages=passages, hits=hits)


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        (" Who left? Because", "Who left?"),
        ("Who\n left", "Who left?"),
        ("x" * 400, "x" * 249 + "?"),
        (" \n", None),
        ("?!", None),
    ],
)
def test_first_question(reply: str, question: str | None) -> None:
    assert first_question(reply) == question


def test_each_passage_gets_a_question(tmp_path: Path) -> None:
    Says.asked.clear()
    step = EvidenceQuestions(engine=Says(text=" Who left"), examples=1)
    [done] = step.run([case()], Context(Cache(tmp_path), TRAIN))
    assert done.evidence == [
        Evidence(question="Who left?", answer=TEXTS[i], url="u", passages=[f"d#{i}"])
        for i in (1, 0)
    ]
    first, second = (str(request.prompt) for request in Says.asked)
    assert "Claim: She is gone.\nEvidence: The mayor of Quillon resigned" in first
    # The nearest answer is of the claim itself, which is never its own example.
    assert "What happened on Monday?" not in first
    assert "Claim: The mayor left.\nEvidence: The mayor resigned on Friday.\nQuestion: Who" in first
    assert "Question: When was the flood?" in second
    assert second.rstrip().endswith("Question:")
    assert Says.asked[0] == Request(prompt=first, max_tokens=64, stop=["\n", "?"])


def test_no_question_is_a_remark_and_no_train_an_error(tmp_path: Path) -> None:
    step = EvidenceQuestions(engine=Says(text=" "), limit=1)
    [done] = step.run([case()], Context(Cache(tmp_path), TRAIN))
    assert (done.evidence, done.remarks) == ([], [NO_QUESTION])
    with pytest.raises(ClaimflowError, match=r"answerer\.examples=0"):
        step.run([case()], Context(Cache(tmp_path)))
