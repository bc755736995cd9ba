"""Questions about claims: parsing, rules, few-shot examples, and a real model."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.reason.examples import examples
from components.reason.prompt import filled, prompt_file
from components.reason.questions import LlmQuestions, RuleQuestions, parsed, rules
from components.records import Case, Claim, Question
from components.step import Context


@dataclasses.dataclass(kw_only=True)
class Scripted(Engine):
    """An engine that says what stands in `says`, to each request in turn; "!" is an error."""

    says: list[str]

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for i, _ in enumerate(requests):
            text = self.says[i % len(self.says)]
            yield i, Reply(error="server gone") if text == "!" else Reply(text=text)


def claim(i: int, text: str, *questions: str) -> Claim:
    return Claim(id=str(i), text=text, questions=[Question(question=q) for q in questions])


TRAIN = [
    claim(0, "The bridge at Orm was closed in 2019.", "When was the bridge closed?"),
    claim(1, "Bread prices rose by 40 percent.", "What did bread cost?", "what did bread cost?"),
    claim(2, "The mayor of Orm resigned.", "Who is the mayor?"),
    claim(3, "A bridge toll was raised.", "What is the toll?"),
    claim(4, "Without questions, the bridge at Orm."),
]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path), TRAIN)


# Parsing


def test_bullets_numbers_and_quotes_come_off() -> None:
    reply = ' When did it open?\n2) - Who "built" it?\n* **Where is it?** (see map)\n4. "Why?"'
    wanted = ["When did it open?", 'Who "built" it?', "Where is it?", "Why?"]
    assert parsed(reply, 9) == wanted


def test_what_is_no_question_is_left_out() -> None:
    reply = "Sure! Here they are:\nQ1: Who won?\nwho won?\n?\n3. \n2020 was when?\nHow many peop"
    assert parsed(reply, 9) == ["Who won?", "2020 was when?"]
    assert parsed(reply, 1) == ["Who won?"]


@given(st.text(), st.integers(1, 5))
def test_parsed_questions_are_clean_whatever_the_reply(reply: str, n: int) -> None:
    found = parsed(reply, n)
    assert len(found) <= n
    assert len({text.casefold() for text in found}) == len(found)
    assert all(text.endswith("?") and "\n" not in text and text == text.strip() for text in found)
    assert parsed("\n".join(found), n) == found  # what is clean stays


# Rules


def test_rules_ask_for_figure_quotation_name_date_and_speaker() -> None:
    text = 'The Port of Orm lost 1,200 jobs, and Ada Lind called it "a black day for us".'
    asked = rules(Claim(id="0", text=text, speaker="Bo Ek", date=datetime.date(2021, 3, 4)))
    assert asked[0].startswith("Is it true that the Port of Orm lost 1,200 jobs")
    assert 'Who said "a black day for us", and in what context?' in asked
    assert "What is the source for the figure of 1,200 jobs?" in asked
    assert "What is known about Port of Orm and Ada Lind in March 2021?" in asked
    assert "What did Bo Ek say about Port of Orm?" in asked


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("Rents fell by 12 percent since May 2021.", "12 percent"),
        ("On 3 March 2024 a marmot cut 1,900 homes off.", "1,900 homes"),
        ("Since 2022 it cost $2000 in all.", "$2000"),
        ("The tunnel opened on May 4, 1998.", None),
    ],
)
def test_days_and_years_are_no_figures(text: str, figure: str | None) -> None:
    asked = [question for question in rules(Claim(id="0", text=text)) if "figure" in question]
    assert asked == ([f"What is the source for the figure of {figure}?"] if figure else [])


@given(st.text(), st.none() | st.text(), st.none() | st.dates())
def test_rules_ask_something_of_any_claim(
    text: str, speaker: str | None, date: datetime.date | None
) -> None:
    asked = rules(Claim(id="0", text=text, speaker=speaker, date=date))
    assert len(asked) >= 2
    assert all(question.endswith("?") and "\n" not in question for question in asked)


def test_rule_step_asks_at_most_n(ctx: Context) -> None:
    cases = RuleQuestions(n=2).run([Case(claim=c) for c in TRAIN], ctx)
    assert [len(case.questions) for case in cases] == [2] * len(TRAIN)
    with pytest.raises(ClaimflowError, match="questioner=none"):
        RuleQuestions(n=0)


# Examples


def test_examples_are_like_the_claim_nearest_last_and_never_itself(ctx: Context) -> None:
    asked = claim(9, "the BRIDGE at Orm was  closed in 2019.")
    found = examples([asked, claim(8, "Bread prices")], 2, ctx)
    assert "0" not in [c.id for c in found[0]]  # the same text
    assert {c.id for c in found[0]} == {"2", "3"}
    assert found[1][-1].id == "1"
    assert [len(f) for f in examples([asked], 9, ctx)] == [3]  # all that have questions
    assert examples([asked], 0, ctx) == [[]]


def test_without_training_claims_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ClaimflowError, match=r"examples=0.*dataset\.train_split="):
        examples([TRAIN[0]], 2, Context(Cache(tmp_path)))


# Prompt


def test_values_are_put_in_as_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("{examples}|{claim} {n} {} {1}\n")
    text = filled(prompt_file(file), claim="{examples} \\1", examples="{claim}", n="3")
    assert text == "{claim}|{examples} \\1 3 {} {1}"


def test_mistakes_in_a_prompt_are_named(tmp_path: Path) -> None:
    file = tmp_path / "own.txt"
    file.write_text("{claim} {speeker}")
    with pytest.raises(ClaimflowError, match="Did you mean 'speaker'"):
        filled(file, claim="", speaker="")
    file.write_text("{speaker}")
    with pytest.raises(ClaimflowError, match=r"no \{claim\}"):
        filled(file, claim="", speaker="")
    with pytest.raises(ClaimflowError, match=r"Did you mean 'questions\.txt'"):
        prompt_file("question.txt")


def test_the_prompt_shows_examples_then_the_claim(ctx: Context) -> None:
    step = LlmQuestions(engine=Scripted(says=[""]), n=2)
    request = step.request(claim(9, "Orm has a port."), [TRAIN[1]])
    assert isinstance(request.prompt, str)
    assert request.prompt.endswith(
        "Claim: Bread prices rose by 40 percent.\nQuestions:\n1. What did bread cost?\n\n"
        "Claim: Orm has a port.\nQuestions:\n1."
    )


# The step


def test_each_claim_gets_its_reply_or_its_error(ctx: Context) -> None:
    step = LlmQuestions(engine=Scripted(says=["Who?\n2. Why?", "!", "No idea."]), examples=1)
    one, two, three = step.run([Case(claim=c) for c in TRAIN[:3]], ctx)
    assert one.questions == ["Who?", "Why?"]
    assert not one.failed
    assert two.failed == "server gone"
    assert three.questions == rules(TRAIN[2])[:3]
    assert not three.failed
    assert [case.remarks for case in (one, two)] == [[], []]
    assert three.remarks == ["questions by rules, as the model's reply had none"]
    step = LlmQuestions(engine=Scripted(says=["No idea."]), examples=1, on_empty="fail")
    (failed,) = step.run([Case(claim=TRAIN[2])], ctx)
    assert failed.failed
    assert "No idea." in failed.failed


@pytest.mark.slow
def test_smollm2_asks_about_demo_claims(tmp_path: Path) -> None:
    from components.datasets.averitec import Demo
    from components.engines.transformers import TransformersEngine
    from components.files import home

    if not (home() / "models" / "SmolLM2-135M-Instruct").is_dir():
        pytest.skip("no model laid out")
    data = Demo(limit=1)
    if not data.folder.joinpath("dev.json").exists():
        pytest.skip("no demo data")
    claims = data.claims()
    ctx = Context(Cache(tmp_path), data.train(claims)[0])
    step = LlmQuestions(
        engine=TransformersEngine(model=Path("SmolLM2-135M-Instruct")), on_empty="fail"
    )
    cases = step.run([Case(claim=c) for c in claims], ctx)
    for case in cases:
        assert not case.failed
        assert 1 <= len(case.questions) <= 3
    assert ctx.tokens["completion"] > 10
    again = step.run([Case(claim=c) for c in claims], ctx)
    assert [c.questions for c in again] == [c.questions for c in cases]
