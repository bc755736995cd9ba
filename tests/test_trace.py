"""The trace of a claim, for a person to read."""

from __future__ import annotations

import datetime

from components.records import Case, Claim, Evidence, Hit, Query, Verdict
from components.report.trace import trace

PAIR = Evidence(question="Is it\nclosed?", answer="It opened.", url="https://a.example")


def test_what_was_done_stands_in_its_order() -> None:
    case = Case(
        claim=Claim(id="7", text="The bridge is closed.", speaker="The mayor",
                    date=datetime.date(2020, 5, 1), label="Refuted"),
        questions=["Is it closed?"],
        queries=[Query(text="bridge closed"), Query(text="of the", question="Of?")],
        hits=[Hit(passage=f"d{i}#0", doc=f"d{i}", score=1 - i / 4) for i in range(4)],
        rounds=["round 1, question: Is it closed?"],
        evidence=[PAIR, PAIR],
        verdict=Verdict(label="Refuted", probabilities={"Refuted": 0.75, "Supported": 0.25},
                        justification="It opened.\nSo no."),
        remarks=["settled in round 1 of 3"],
    )  # fmt: skip
    assert trace(case).splitlines() == [
        "## 7: The bridge is closed.", "",
        "The mayor · 2020-05-01 · gold: Refuted", "",
        "Questions:", "", "1. Is it closed?", "",
        "Queries:", "", "1. bridge closed → 1 d0, 0.75 d1, 0.5 d2", "2. of the → nothing", "",
        "Rounds:", "", "1. round 1, question: Is it closed?", "",
        "Evidence:", "", "1. **Is it closed?** It opened. (https://a.example) – 2 times", "",
        "Remarks:", "", "1. settled in round 1 of 3", "",
        "Verdict: **Refuted** (Refuted 0.750, Supported 0.250)", "",
        "> It opened.", "> So no.",
    ]  # fmt: skip


def test_of_a_failed_claim_the_error_is_told() -> None:
    text = trace(Case(claim=Claim(id="7", text="A.")), "answerer: too long")
    assert text.split("\n\n") == ["## 7: A.", "Failed: answerer: too long\n"]


def test_queries_that_are_searched_together_stand_together() -> None:
    """Their hits are booked on the first of a question, which is not all that found them."""
    texts = [f"Passage {n} {'of a bridge ' * 30}" for n in range(4)]
    asked = [Query(text=text, question="Is it?") for text in texts]
    other = [Query(text="When?", question="When?"), Query(text="In May?", question="When?")]
    hits = [Hit(passage="d#0", doc="d", score=1.0, query=n) for n in (0, 4, 5)]
    case = Case(claim=Claim(id="7", text="A."), queries=[*asked, *other], hits=hits)
    lines = trace(case).splitlines()
    [first] = [line for line in lines if line.startswith("1. ")]
    assert first.endswith(" → 1 d")
    assert all(text[:190] in first for text in texts)
    assert lines[lines.index(first) + 1 :][:2] == ["2. When? → 1 d", "3. In May? → 1 d"]
    assert "nothing" not in trace(case)
