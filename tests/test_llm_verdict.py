"""A prompted verdict: what is asked, how the reply is read, what happens without a label."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.reason.llm_verdict import LlmVerdict
from components.records import Answer, Case, Claim, Evidence, Question
from components.step import Context


@dataclasses.dataclass(kw_only=True)
class InTurn(Engine):
    """Says one text after another, whatever is asked."""

    texts: list[str]
    asked: ClassVar[list[Request]] = []

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            yield i, Reply(text=self.texts[len(self.asked)])
            self.asked.append(request)


def claim(text: str, label: str | None = None) -> Claim:
    question = Question(question=f"What of {text}?", answers=[Answer(answer="This.")])
    return Claim(id=text, text=text, label=label, questions=[question])


TRAIN = [claim("bees sting", "Supported"), claim("bees fly", "Not Enough Evidence")]


def judge(tmp_path: Path, step: LlmVerdict, evidence: bool = True) -> Case:
    InTurn.asked.clear()
    pairs = [Evidence(question="Do they?", answer="They do.")] if evidence else []
    return step.run([Case(claim=claim("bees"), evidence=pairs)], Context(Cache(tmp_path), TRAIN))[0]


def test_the_label_is_read_and_the_reply_kept(tmp_path: Path) -> None:
    step = LlmVerdict(engine=InTurn(texts=["It is so.\nVerdict: REFUTES"]))
    done = judge(tmp_path, step)
    assert done.verdict
    assert (done.verdict.label, done.verdict.justification) == (
        "Refuted",
        "It is so.\nVerdict: REFUTES",
    )
    text = str(InTurn.asked[0].prompt)
    assert "Question: Do they?\\nAnswer: They do." in text
    assert "Supported, Refuted, Not Enough Evidence, Conflicting" in text


def test_asked_again_and_then_a_stated_fallback(tmp_path: Path) -> None:
    prose = "I would not say that it is Supported, as the sources differ on it."
    step = LlmVerdict(engine=InTurn(texts=[prose, prose, "Supported"]))
    done = judge(tmp_path / "a", step)
    assert done.verdict
    assert (done.verdict.label, done.remarks) == ("Supported", [])
    assert [r.temperature for r in InTurn.asked] == [0, 0.7, 0.7]
    assert len({r.seed for r in InTurn.asked}) == 3
    step = LlmVerdict(engine=InTurn(texts=[prose] * 2), attempts=2, fallback="Refuted")
    done = judge(tmp_path / "b", step)
    assert done.verdict
    assert done.verdict.label == "Refuted"
    assert done.remarks == ["Refuted, as no reply of the model gave a label"]
    done = judge(tmp_path / "c", LlmVerdict(engine=InTurn(texts=[prose]), attempts=1))
    assert (done.verdict, done.failed) == (None, "no label in 1 replies of the model")


def test_examples_have_the_labels_asked_for(tmp_path: Path) -> None:
    step = LlmVerdict(engine=InTurn(texts=["Refuted"]), labels=["Supported", "Refuted"], examples=2)
    judge(tmp_path, step, evidence=False)
    text = str(InTurn.asked[0].prompt)
    assert "Claim: bees sting" in text
    assert "Verdict: Supported" in text
    assert "bees fly" not in text
    assert "No evidence was found." in text


def test_settings_are_checked() -> None:
    engine = InTurn(texts=[])
    with pytest.raises(ClaimflowError, match=r"unknown label 'Suported'\. Did you mean"):
        LlmVerdict(engine=engine, labels=["Suported", "Refuted"])
    with pytest.raises(ClaimflowError, match="two labels or more, each once"):
        LlmVerdict(engine=engine, labels=["Refuted", "Refuted"])
