"""Loops: rounds on the open claims alone, evidence that grows, a trace; answers of a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.pipeline import CaseRef, load, run_step, store
from components.reason.llm_answers import UNANSWERED, LlmAnswers
from components.reason.llm_verdict import LlmVerdict
from components.reason.loop import Loop
from components.reason.next_question import DistinctQuestions, NextQuestion, Paraphrases
from components.reason.questions import BY_RULES
from components.records import Case, Claim, Evidence, Hit, Passage, Query
from components.retrieve.bm25 import Bm25s
from components.retrieve.encoder import Encoder
from components.retrieve.query import ClaimQuestion
from components.step import Context

TEXTS = ("The bridge is old.", "The bridge was closed in May.", "The ferry runs daily.")
QUESTIONS = ("Is the bridge old?", "Is the bridge closed?", "Does the ferry run?")


@dataclasses.dataclass(kw_only=True)
class Talks(Engine):
    """Answers by what is asked of it."""

    says: ClassVar[Callable[[str], str]] = staticmethod(lambda text: "")
    asked: ClassVar[list[str]] = []

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            assert not isinstance(request.prompt, str)
            text = request.prompt[0].content
            self.asked.append(text)
            yield i, Reply(text=Talks.says(text), prompt_tokens=7, completion_tokens=2)


@dataclasses.dataclass(kw_only=True)
class CaseEngine(Talks):
    """Settles claim A in round 2, never settles B, and asks C the same question twice."""


def says(text: str) -> str:
    asked = text.count("Question: ")
    if "should be looked up next" in text:
        return QUESTIONS[0] if "claim C" in text else QUESTIONS[asked % 3]
    if "answer in one or two sentences" in text:
        return text.split("\n")[0]
    return "Refuted" if "claim A" in text and asked == 2 else "Not Enough Evidence"


def loop(rounds: int = 3) -> Loop:
    engine = CaseEngine()
    labels = ["Supported", "Refuted", "Not Enough Evidence"]
    return Loop(
        steps={
            "question": NextQuestion(engine=engine),
            "query": ClaimQuestion(),
            "search": Bm25s(k=2),
            "answer": LlmAnswers(engine=engine, sources=1, unanswered="keep"),
            "verdict": LlmVerdict(engine=engine, labels=labels),
        },
        until=["Supported", "Refuted"],
        rounds=rounds,
    )


def begun(cache: Cache) -> list[CaseRef]:
    passages = [Passage(id=f"d#{i}", doc="d", text=text) for i, text in enumerate(TEXTS)]
    return [
        store(Case(claim=Claim(id=name, text=f"claim {name}"), passages=passages),
              ("claim", "passages"), cache)
        for name in "ABC"
    ]  # fmt: skip


def test_rounds_until_each_claim_is_settled(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Talks, "says", staticmethod(says))
    cache = Cache(tmp_path)
    step = loop()
    assert set(step.reads) == {*step.writes, "claim", "passages"}
    assert set(step.writes) == {
        "questions", "asked", "queries", "hits", "evidence", "verdict", "remarks", "rounds",
    }  # fmt: skip
    ctx = Context(cache)
    done = run_step(step, "loop", begun(cache), ctx)
    a, b, c = (load(ref, ("evidence", "verdict", "remarks", "rounds"), cache) for ref in done)
    assert a.rounds == [
        "round 1, question: Is the bridge old?",
        "round 1, search: 2 passages, the first of d",
        "round 1, answer: Is the bridge old? – The bridge is old.",
        "round 1, verdict: Not Enough Evidence – Not Enough Evidence",
        "round 2, question: Is the bridge closed?",
        "round 2, search: 2 passages, the first of d",
        "round 2, answer: Is the bridge closed? – The bridge was closed in May.",
        "round 2, verdict: Refuted – Refuted",
    ]
    assert c.rounds[-1] == "round 2, question: nothing"
    assert [e.question for e in a.evidence] == list(QUESTIONS[:2])  # it grew
    assert [e.answer for e in a.evidence] == list(TEXTS[:2])
    assert a.verdict
    assert a.verdict.label == "Refuted"
    assert a.remarks == ["settled in round 2 of 3"]
    assert [e.question for e in b.evidence] == list(QUESTIONS)
    assert b.remarks == ["not settled in 3 rounds"]
    assert len(c.evidence) == 1
    assert c.verdict
    assert c.verdict.label == "Not Enough Evidence"
    assert c.remarks == ["no further question in round 2 of 3"]
    # A: two rounds of three calls; B: three; C: one, and one more question.
    assert len(Talks.asked) == 6 + 9 + 4
    tokens = dict(ctx.tokens)

    # Another limit shares the rounds, and what they cost is told again.
    Talks.asked.clear()
    ctx = Context(cache)
    run_step(loop(rounds=4), "loop", begun(cache), ctx)
    assert len(Talks.asked) == 1  # B has no fourth question: QUESTIONS begin again
    assert ctx.tokens["prompt"] >= tokens["prompt"]


def test_a_claim_that_can_never_be_asked_about_fails_alone(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def quiet(text: str) -> str:
        return "No." if "claim B" in text and "next" in text else says(text)

    monkeypatch.setattr(Talks, "says", staticmethod(quiet))
    cache = Cache(tmp_path)
    step = loop()
    a, b, _ = run_step(step, "loop", begun(cache), Context(cache))
    assert (a.error, b.error) == (None, None)
    done = load(b, ("evidence", "remarks"), cache)  # its first question is by rules
    assert [pair.question for pair in done.evidence] == ["Is it true that claim B?"]
    assert done.remarks == [BY_RULES, "no further question in round 2 of 3"]
    step.steps["question"].on_empty = "end"  # type: ignore[attr-defined]
    a, b, _ = run_step(step, "loop", begun(cache), Context(cache))
    assert a.error is None
    assert "the loop ended before it had evidence, verdict" in str(b.error)


def test_a_claim_keeps_its_first_question(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Talks, "says", staticmethod(lambda text: "So: When?\nAnd where?"))
    step = NextQuestion(engine=Talks(), n=2)
    known = [Evidence(question="When?", answer="In May.")]
    cases = [
        Case(claim=Claim(id=name, text="A."), questions=["Who?"], evidence=pairs)
        for name, pairs in (("1", []), ("2", known))
    ]
    first, later = step.run(cases, Context(Cache(tmp_path)))
    assert first.questions == ["Who?"]
    assert later.questions == ["So: When?", "And where?"]


def test_a_loop_without_a_question_changes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    """The paraphrases behind the hops of Papelo, where there is enough evidence already."""
    monkeypatch.setattr(Talks, "says", staticmethod(says))
    cache = Cache(tmp_path)
    steps = {
        "ask": Paraphrases(engine=Talks(), limit=1),
        "query": ClaimQuestion(),
        "search": Bm25s(),
        "answer": LlmAnswers(engine=Talks()),
    }
    hops = run_step(loop(), "hops", begun(cache), Context(cache))
    more = Loop(steps=steps, until=[], rounds=1)
    for before, after in zip(hops, run_step(more, "more", hops, Context(cache)), strict=True):
        assert after.error is None
        kept = {f: before.fields[f] for f in ("evidence", "hits", "queries", "verdict", "remarks")}
        assert kept.items() <= after.fields.items()
        assert load(after, ("rounds",), cache).rounds[-1] == "round 1, ask: nothing"


def test_paraphrases_stand_behind_a_loop(tmp_path: Path, monkeypatch: Any) -> None:
    """Only what has no answer yet is asked, and no more than the limit leaves room for."""
    reply = "1. At what time?\n2. when?\n3. In which month?\n4. On what day?"
    monkeypatch.setattr(Talks, "says", staticmethod(lambda text: reply))
    known = [Evidence(question="When?", answer="In May."), Evidence(question="Who?", answer="She.")]
    case = Case(claim=Claim(id="1", text="A."), questions=["Who?"], evidence=known)
    full = Case(claim=Claim(id="2", text="B."), evidence=known * 2)
    none = Case(claim=Claim(id="3", text="C."), questions=["Is it?"])
    step = Paraphrases(engine=Talks(), limit=4)
    done = step.run([case, full, none], Context(Cache(tmp_path)))
    assert done[0].questions == ["At what time?", "In which month?"]
    assert done[1].questions == []
    assert done[2].questions == ["Is it?", "At what time?", "when?", "In which month?"]


@dataclasses.dataclass(kw_only=True)
class Words(Encoder):
    """A vector counts words."""

    def __post_init__(self) -> None:
        pass

    def encode(self, texts: list[str], ctx: Context, progress: str | None = None) -> Any:
        words = ("old", "bridge", "ferry", "today", "closed", "road", "now")
        return np.array([[text.split().count(word) for word in words] for text in texts], float)


def test_questions_that_say_the_same_are_pruned(tmp_path: Path) -> None:
    step = DistinctQuestions(encoder=Words(model=Path()), cosine=0.6)
    case = Case(
        claim=Claim(id="1", text="A."),
        questions=["old bridge", "ferry today", "Has the ferry today left?", "closed road"],
        evidence=[Evidence(question="bridge old now", answer="Yes.")],
    )
    [done] = step.run([case], Context(Cache(tmp_path)))
    assert done.questions == ["ferry today", "closed road"]


def test_what_has_no_answer_is_not_asked_again(tmp_path: Path, monkeypatch: Any) -> None:
    """A graph of thoughts whose questions no text answers: each round asks new ones."""
    thoughts = [
        "Is the old bridge here?",
        "Has the ferry today left?",
        "Is the old bridge now here?",
        "Which closed road was it?",
        "Who says so now?",
    ]

    def mute(text: str) -> str:
        if "looked up next" in text:  # everything that it can think of, each time
            return "\n".join(thoughts)
        return "No answer could be found." if "one or two sentences" in text else "None"

    Talks.asked.clear()
    monkeypatch.setattr(Talks, "says", staticmethod(mute))
    cache = Cache(tmp_path)
    graph = Loop(
        steps={
            "question": NextQuestion(engine=Talks(), prompt=Path("next_questions.txt"), n=2),
            "prune": DistinctQuestions(encoder=Words(model=Path(__file__)), cosine=0.8),
            "query": ClaimQuestion(),
            "search": Bm25s(k=2),
            "answer": LlmAnswers(engine=Talks(), sources=1),
            "verdict": LlmVerdict(engine=Talks(), fallback="Not Enough Evidence"),
        },
        until=["Supported", "Refuted"],
        rounds=4,
    )
    [ref, *_] = run_step(graph, "graph", begun(cache)[:1], Context(cache))
    done = load(ref, ("asked", "evidence", "remarks", "rounds"), cache)
    assert [line for line in done.rounds if "prune" in line or "answer" in line] == [
        "round 1, prune: Is the old bridge here?",
        "round 1, prune: Has the ferry today left?",
        "round 1, answer: Is the old bridge here? – without an answer",
        "round 1, answer: Has the ferry today left? – without an answer",
        "round 2, prune: Which closed road was it?",  # the other one is like one that was dropped
        "round 2, answer: Which closed road was it? – without an answer",
        "round 3, prune: Who says so now?",
        "round 3, answer: Who says so now? – without an answer",
        "round 4, prune: nothing",
    ]
    assert done.asked == [thoughts[i] for i in (0, 1, 3, 4)]
    assert done.remarks[-1] == "no further question in round 4 of 4"
    thought = [text for text in Talks.asked if "looked up next" in text]
    assert "Nothing is known yet." in thought[0]
    assert "Question: Has the ferry today left?\nAnswer: No answer could be found." in thought[1]


def test_hops_that_drop_go_on(tmp_path: Path, monkeypatch: Any) -> None:
    """With `unanswered=drop` a claim's first question, too, is asked once."""
    none = "No answer could be found."
    hop = staticmethod(lambda text: none if "one or two sentences" in text else says(text))
    monkeypatch.setattr(Talks, "says", hop)
    cache = Cache(tmp_path)
    hops = loop()
    hops.steps["answer"] = LlmAnswers(engine=Talks(), unanswered="drop")
    case = load(begun(cache)[1], ("claim", "passages"), cache)
    case.questions = ["Who?"]
    refs = [store(case, ("claim", "questions", "passages"), cache)]
    refs = run_step(hops, "hops", refs, Context(cache))
    done = load(refs[0], ("asked", "rounds"), cache)
    assert [line for line in done.rounds if "question:" in line] == [
        "round 1, question: Who?",
        "round 2, question: Is the bridge closed?",
        "round 3, question: Does the ferry run?",
    ]
    assert done.asked == ["Who?", *QUESTIONS[1:]]
    # Paraphrases stand for what was dropped, too, and nothing is asked twice.
    monkeypatch.setattr(Talks, "says", staticmethod(lambda text: "Who?\nWhich of them?"))
    step = Paraphrases(engine=Talks(), limit=9)
    case = load(refs[0], ("claim", "questions", "asked", "evidence"), cache)
    assert step.run([case], Context(cache))[0].questions == ["Which of them?"]


def test_settings_of_a_loop() -> None:
    with pytest.raises(ClaimflowError, match="rounds of 1 or more"):
        loop(rounds=0)
    with pytest.raises(ClaimflowError, match="unknown label 'No'"):
        Loop(steps={"query": ClaimQuestion()}, until=["No"])
    with pytest.raises(ClaimflowError, match="needs steps"):
        Loop(steps={}, until=[])


def answered(tmp_path: Path, monkeypatch: Any, reply: str, **settings: Any) -> Case:
    Talks.asked.clear()
    monkeypatch.setattr(Talks, "says", staticmethod(lambda text: reply))
    passages = [Passage(id=f"d#{i}", doc="d", text=t, url=f"u{i}") for i, t in enumerate(TEXTS)]
    hits = [Hit(passage=f"d#{i}", doc="d", score=-i) for i in (1, 0, 2)]
    queries = [Query(text="q", question="Is it?"), Query(text="r", question="No hit?")]
    claim = Claim(id="1", text="It is.")
    case = Case(claim=claim, passages=passages, hits=hits, queries=queries)
    return LlmAnswers(engine=Talks(), **settings).run([case], Context(Cache(tmp_path)))[0]


def test_answers_from_the_best_passages(tmp_path: Path, monkeypatch: Any) -> None:
    done = answered(tmp_path, monkeypatch, " It was\nclosed. ", sources=2)
    assert done.evidence == [
        Evidence(question="Is it?", answer="It was closed.", url="u1", passages=["d#1", "d#0"])
    ]
    assert Talks.asked[0].startswith(f"{TEXTS[1]}\n\n{TEXTS[0]}\n\nA fact-checker")
    answered(tmp_path / "r", monkeypatch, "Yes.", sources=2, reverse=True)
    assert Talks.asked[0].startswith(f"{TEXTS[0]}\n\n{TEXTS[1]}\n\nA fact-checker")


def test_no_answer_is_dropped_or_kept(tmp_path: Path, monkeypatch: Any) -> None:
    reply = "no answer could be found"
    done = answered(tmp_path, monkeypatch, reply)
    assert (done.evidence, done.remarks) == ([], [UNANSWERED])
    done = answered(tmp_path / "keep", monkeypatch, reply, unanswered="keep")
    kept = [(pair.question, pair.answer) for pair in done.evidence]
    assert kept == [(question, "No answer could be found.") for question in ("Is it?", "No hit?")]
    assert done.remarks == []
