"""Questions, answers and verdict in one reply: what is asked, what is made of the reply."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from components.assets import SMOLLM2
from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.engines.transformers import TransformersEngine
from components.errors import ClaimflowError
from components.files import home
from components.reason.fit import CUT
from components.reason.joint import BAD_SOURCE, NO_PAIR, JointReasoning, Ratings, likert
from components.records import (
    AVERITEC_LABELS,
    Answer,
    Case,
    Claim,
    Evidence,
    Hit,
    Passage,
    Question,
)
from components.step import Context
from tests.little import models

REFUTED = "Refuted"
TRAIN = [
    Claim(id="t", text="The bridge in Quillon is closed.", label=REFUTED,
          questions=[Question(question="Is it closed?", answers=[
              Answer(answer="It opened in May.", answer_type="Extractive")])]),
]  # fmt: skip


def case(n: int = 2) -> Case:
    passages = [
        Passage(id=f"d{i}#0", doc=f"d{i}", text=f"Text {i}.", url=f"https://{i}.example",
                before="Before." if i == 1 else None)
        for i in range(n)
    ]  # fmt: skip
    hits = [Hit(passage=f"d{i}#0", doc=f"d{i}", score=1 - i / 10) for i in range(n)]
    return Case(claim=Claim(id="1", text="The mayor left Quillon."), passages=passages, hits=hits)


def reply(ratings: tuple[int, int, int, int], *evidence: tuple[str, str, int]) -> str:
    names = ("supported", "refuted", "not_enough_evidence", "conflicting_evidence")
    pairs = [{"question": q, "answer": a, "source": s} for q, a, s in evidence]
    return json.dumps({"evidence": pairs, "ratings": dict(zip(names, ratings, strict=True))})


@dataclasses.dataclass(kw_only=True)
class Says(Engine):
    """Says one text; its context holds `room` characters of a prompt."""

    text: str
    room: int = 100_000
    asked: ClassVar[list[Request]] = []

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        self.asked.extend(requests)
        yield from ((i, Reply(text=self.text)) for i in range(len(requests)))

    def fits(self, request: Request, ctx: Context) -> bool:
        return len(str(request.prompt)) <= self.room


def run(tmp_path: Path, text: str, one: Case | None = None, **settings: Any) -> Case:
    Says.asked.clear()
    engine = Says(text=text, room=settings.pop("room", 100_000))
    step = JointReasoning(engine=engine, **settings)
    return step.run([one or case()], Context(Cache(tmp_path), TRAIN))[0]


def test_likert_is_the_softmax_of_ratings() -> None:
    """Worked by hand: e² / (e² + 3·e⁻²) = .947914."""
    top = Ratings(supported=1, refuted=5, not_enough_evidence=1, conflicting_evidence=1)
    found = likert(top)
    assert list(found) == list(AVERITEC_LABELS)
    assert found[REFUTED] == pytest.approx(0.947914, abs=1e-6)
    assert sum(found.values()) == pytest.approx(1)


def test_a_reply_becomes_evidence_and_verdict(tmp_path: Path) -> None:
    said = reply((2, 4, 1, 1), ("Did she leave? ", " No, she stayed.", 2), ("Who left?", "", 1))
    done = run(tmp_path, f"Here it is:\n```json\n{said}\n```")
    assert done.failed is None
    assert done.evidence == [
        Evidence(question="Did she leave?", answer="No, she stayed.", url="https://1.example",
                 passages=["d1#0"]),
        Evidence(question="Who left?", answer="No answer could be found.", url="https://0.example",
                 passages=["d0#0"]),
    ]  # fmt: skip
    assert done.verdict
    assert done.verdict.label == REFUTED
    assert done.remarks == []
    [request] = Says.asked
    text = str(request.prompt)
    assert "[1] https://0.example\\nText 0." in text
    assert "[2] https://1.example\\nBefore. Text 1." in text
    assert "Answer (Extractive): It opened in May.\\nVerdict: Refuted" in text
    schema = json.dumps(request.json_schema)
    assert '"maximum": 2' in schema  # sources
    assert '"maxItems": 10' in schema


def test_a_source_that_is_not_there_costs_its_answer(tmp_path: Path) -> None:
    done = run(tmp_path, reply((1, 1, 1, 1), ("Q1?", "A", 3), ("Q2?", "B", 0), ("Q3?", "C", 1)))
    assert [e.answer for e in done.evidence] == ["No answer could be found."] * 2 + ["C"]
    assert [e.url for e in done.evidence] == [None, None, "https://0.example"]
    assert done.remarks == [BAD_SOURCE]


def test_a_question_without_text_is_asked_for_again(tmp_path: Path) -> None:
    """By an engine that does not hold the reply to its schema."""
    done = run(tmp_path, reply((5, 1, 1, 1), ("Q?", "A", 1), (" ", "B", 1)), attempts=2)
    assert "a question without text - at `$.evidence[1]`" in str(done.failed)
    assert len(Says.asked) == 2
    assert "does not fit: a question without text" in str(Says.asked[1].prompt)


def test_a_verdict_without_a_pair_is_remarked(tmp_path: Path) -> None:
    done = run(tmp_path, reply((5, 1, 1, 1)))
    assert done.failed is None
    assert done.verdict
    assert done.verdict.label == "Supported"
    assert (done.evidence, done.remarks) == ([], [NO_PAIR])


def test_ties_go_by_the_order_given(tmp_path: Path) -> None:
    even = reply((3, 3, 3, 3), ("Q?", "A", 1))
    assert run(tmp_path, even).verdict.label == "Supported"  # type: ignore[union-attr]
    ties = [REFUTED, *(label for label in AVERITEC_LABELS if label != REFUTED)]
    assert run(tmp_path, even, ties=ties).verdict.label == REFUTED  # type: ignore[union-attr]
    with pytest.raises(ClaimflowError, match=r"answerer\.ties is .*: name each of"):
        run(tmp_path, even, ties=[REFUTED])


def test_no_label_without_a_reply_that_fits(tmp_path: Path) -> None:
    done = run(tmp_path, '{"evidence": [], "ratings": {"supported": 9}}', attempts=2)
    assert "ratings" in str(done.failed)
    assert done.verdict is None
    assert len(Says.asked) == 2


def test_sources_too_long_are_all_cut_alike(tmp_path: Path) -> None:
    long = case(3)
    long.passages = [
        msgspec.structs.replace(passage, text=f"{i}" * 4000, before=None)
        for i, passage in enumerate(long.passages)
    ]
    done = run(tmp_path, reply((1, 5, 1, 1), ("Q?", "A", 1)), long, room=5000)
    assert done.remarks == [CUT]
    text = str(Says.asked[0].prompt)
    assert len(text) <= 5000
    counts = [text.count(f"{i}" * 100) for i in range(3)]
    assert counts[0] == counts[1] == counts[2] > 5


@pytest.mark.slow
@pytest.mark.serverless
@pytest.mark.skipif(not (home() / "models" / SMOLLM2).is_dir(), reason="no model laid out")
def test_any_model_gives_what_is_asked_for(tmp_path: Path) -> None:
    """One of random weights, too: the schema holds it to that."""
    engine = TransformersEngine(model=models()[SMOLLM2])
    step = JointReasoning(engine=engine, n=1, max_tokens=500, examples=1, attempts=1)
    [done] = step.run([case()], Context(Cache(tmp_path), TRAIN))
    assert done.failed is None
    assert done.evidence[0].url in ("https://0.example", "https://1.example")
    assert done.verdict
