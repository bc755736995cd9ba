"""Gold evidence for oracle runs, and a verdict by rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.cache import Cache
from components.reason.gold import GoldAnswers, RuleVerdict
from components.records import Answer, Case, Claim, Evidence, Question
from components.step import Context


def test_gold_answers_are_the_evidence(tmp_path: Path) -> None:
    answers = [Answer(answer="No", boolean_explanation="She left."), Answer(answer="In May")]
    claim = Claim(
        id="1",
        text="x",
        questions=[Question(question="Is she?", answers=answers), Question(question="Who?")],
    )
    [case] = GoldAnswers().run([Case(claim=claim)], Context(Cache(tmp_path)))
    assert [(e.question, e.answer) for e in case.evidence] == [
        ("Is she?", "No She left."),
        ("Is she?", "In May"),
    ]


@pytest.mark.parametrize(
    ("answers", "label"),
    [
        (["Yes, he did.", "In May"], "Supported"),
        (["No. He left.", "yes", "no"], "Conflicting Evidence/Cherrypicking"),
        (["NO"], "Refuted"),
        (["Nobody knows", "In May"], "Refuted"),  # neither speaks for a label
        (["No answer could be found.", ""], "Not Enough Evidence"),
        (["No answer could be found.", "Yes"], "Supported"),
        ([], "Refuted"),
    ],
)
def test_a_verdict_by_rules(answers: list[str], label: str, tmp_path: Path) -> None:
    evidence = [Evidence(question="?", answer=answer) for answer in answers]
    case = Case(claim=Claim(id="1", text="x"), evidence=evidence)
    [judged] = RuleVerdict().run([case], Context(Cache(tmp_path)))
    assert judged.verdict
    assert judged.verdict.label == label
    assert sum(judged.verdict.probabilities.values()) == pytest.approx(1)
