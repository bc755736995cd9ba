"""Answers by vote, checked, joined and rewritten; which pairs stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.reason.answers import ConcatenatedAnswers
from components.reason.llm_answers import (
    UNANSWERED,
    UNCHECKED,
    CheckedAnswers,
    VotedAnswers,
    yes_or_no,
)
from components.reason.pairs import BestPairs, Repeated, RewrittenAnswers
from components.reason.questions import LlmQuestions
from components.records import Case, Claim, Evidence, Hit, Passage, Query
from components.retrieve.rerank import Found, Rerank, Scored
from components.step import Context

NONE = "No answer could be found."


@dataclasses.dataclass(kw_only=True)
class Answers(Engine):
    """Says what a function makes of the text that it is asked, and of the temperature."""

    says: Callable[[str, float], str]
    asked: list[str] = dataclasses.field(default_factory=list)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, request in enumerate(requests):
            chat = request.prompt
            text = chat if isinstance(chat, str) else chat[0].content
            self.asked.append(text)
            yield i, Reply(text=self.says(text, request.temperature))

    def generate(self, requests: list[Request], ctx: Context) -> list[Reply]:
        return [reply for _, reply in self.replies(requests, ctx)]


def found(*texts: str) -> Case:
    """A question with these passages, best first, and one without."""
    passages = [
        Passage(id=f"d#{i}", doc="d", text=t, url=f"https://{i}.example")
        for i, t in enumerate(texts)
    ]
    hits = [Hit(passage=p.id, doc="d", score=-i) for i, p in enumerate(passages)]
    queries = [Query(text="q", question="Is it?"), Query(text="r", question="No hit?")]
    return Case(claim=Claim(id="1", text="It is."), passages=passages, hits=hits, queries=queries)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Yes.", "yes"),
        (" **No**, it is", "no"),
        ("No", "no"),
        ("yes\n", "yes"),
        ("No, there is no evidence that it is.", "no"),
        ("No, no text says so.", "no"),
        ("Yes - because it opened", "yes"),
        ("Yes—it opened", "yes"),
        ('"Yes" (source 1)', "yes"),
        ("_No_\nThe text says", "no"),
        ("Nobody", None),
        ("No-one knows", None),
        ("No answer could be found.", None),
        ("**No** information is given in the text.", None),
        ("No evidence is given", None),
        ("Yes and no", None),
        ("Yes, or no.", None),
        ('"Yes" or "No"', None),
        ("Yes/No", None),
        ("It says yes", None),
        ("", None),
    ],
)
def test_yes_or_no_is_the_reply_or_stands_before_punctuation(reply: str, said: str | None) -> None:
    assert yes_or_no(reply) == said


@pytest.mark.parametrize(
    ("texts", "tie", "answer", "voters"),
    [
        (("yes", "no", "no", "neither"), "yes", "No", ["d#1", "d#2"]),
        (("yes", "no"), "yes", "Yes", ["d#0"]),
        (("yes", "no"), "no", "No", ["d#1"]),
        (("neither", "who knows"), "yes", None, []),
        (("yes", "No answer could be found.", "No evidence is given"), "no", "Yes", ["d#0"]),
    ],
)
def test_the_passages_vote(
    tmp_path: Path, texts: tuple[str, ...], tie: str, answer: str | None, voters: list[str]
) -> None:
    engine = Answers(says=lambda text, _: text.split("\n")[0])
    step = VotedAnswers(engine=engine, sources=4, tie=tie)
    [done] = step.run([found(*texts)], Context(Cache(tmp_path)))
    assert len(engine.asked) == len(texts)
    pairs = [(pair.answer, pair.passages) for pair in done.evidence]
    assert pairs == ([(answer, voters)] if answer else [])
    assert done.remarks == [UNANSWERED]  # of the question without a passage, at least


def test_an_answer_that_is_not_entailed_is_given_again(tmp_path: Path) -> None:
    def says(text: str, temperature: float) -> str:
        if "Write what the answer says" in text:
            return "It is " + ("open." if "Answer: Open" in text else "shut.")
        if "note is right" in text:
            return "Yes" if "notes: It is open." in text else "No"
        return "Open." if temperature else "Shut."

    def run(**more: Any) -> Case:
        step = CheckedAnswers(engine=Answers(says=says), **more)
        return step.run([found("The bridge is open.")], Context(Cache(tmp_path)))[0]

    done = run()
    assert [(pair.answer, pair.url) for pair in done.evidence] == [("Open.", "https://0.example")]
    done = run(attempts=1)
    assert done.evidence == []
    assert done.remarks == [UNCHECKED, UNANSWERED]
    assert [pair.answer for pair in run(attempts=1, unanswered="keep").evidence] == [NONE] * 2
    with pytest.raises(ClaimflowError, match=r"answerer\.attempts is 0: give 1 or more"):
        run(attempts=0)


def test_passages_joined(tmp_path: Path) -> None:
    [done] = ConcatenatedAnswers(k=2).run([found("A.", "B.", "C.")], Context(Cache(tmp_path)))
    assert done.evidence == [
        Evidence(
            question="Is it?", answer="A. B.", url="https://0.example", passages=["d#0", "d#1"]
        ),
        Evidence(question="No hit?", answer=NONE),
    ]
    step = ConcatenatedAnswers(limit=1, unanswered="drop")
    assert len(step.run([found("A.")], Context(Cache(tmp_path)))[0].evidence) == 1


def pairs(*answers: str) -> Case:
    held = [Evidence(question=f"Q{i}?", answer=a, url=f"u{i}") for i, a in enumerate(answers)]
    return Case(claim=Claim(id="1", text="It is."), evidence=held)


def test_a_pair_whose_text_answers_nothing_is_dropped(tmp_path: Path) -> None:
    engine = Answers(says=lambda text, _: "None." if "Text: B" in text else " It\nis A. ")
    [done] = RewrittenAnswers(engine=engine).run([pairs("A", "B")], Context(Cache(tmp_path)))
    assert done.evidence == [Evidence(question="Q0?", answer="It is A.", url="u0")]
    assert done.remarks == [UNANSWERED]


@dataclasses.dataclass(kw_only=True)
class ByLength(Rerank):
    """The longest first."""

    def scores(self, case: Case, found: Found, shared: str | None, ctx: Context) -> Scored:
        return [[float(len(text)) for text in held] for _, held in found]


def test_the_best_pairs_stay(tmp_path: Path) -> None:
    step = BestPairs(by=ByLength(), k=2)
    [done, none] = step.run([pairs("aa", "aaaa", "aaa", "a"), pairs()], Context(Cache(tmp_path)))
    assert [pair.answer for pair in done.evidence] == ["aaaa", "aaa"]
    assert none.evidence == []


def test_pairs_are_repeated(tmp_path: Path) -> None:
    done = Repeated(to=5).run(
        [pairs("a", "b"), pairs(*"abcdef"), pairs()], Context(Cache(tmp_path))
    )
    assert ["".join(e.answer for e in case.evidence) for case in done] == ["ababa", "abcdef", ""]


def test_questions_of_each_style_and_of_statements(tmp_path: Path) -> None:
    engine = Answers(
        says=lambda text, _: "1. When?\n2. Where?" if "one fact" in text else "When?\nWhy?"
    )
    styles = {"a": "Each asks for one fact.", "b": "Each asks for more."}
    step = LlmQuestions(
        engine=engine, prompt=Path("questions_of_a_style.txt"), styles=styles, examples=0, n=2
    )
    case = Case(claim=Claim(id="1", text="It is."))
    [done] = step.run([case], Context(Cache(tmp_path)))
    assert done.questions == ["When?", "Where?", "Why?"]
    engine = Answers(says=lambda text, _: "- The mayor left.\n- Orm has a port.\n- More")
    step = LlmQuestions(
        engine=engine,
        prompt=Path("key_points.txt"),
        form="Is it true that {line}?",
        examples=0,
        n=2,
    )
    [done] = step.run([case], Context(Cache(tmp_path)))
    assert done.questions == ["Is it true that the mayor left?", "Is it true that Orm has a port?"]
    with pytest.raises(ClaimflowError, match=r"has no \{style\}"):
        LlmQuestions(engine=engine, styles=styles)
