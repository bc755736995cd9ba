"""The queries of a knowledge store: AVeriTeC's 13 kinds, by rules and by a model."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.engines.base import Engine, Reply, Request
from components.errors import ClaimflowError
from components.records import Answer, Case, Claim, Document, Question
from components.step import Context
from components.store.queries import KINDS, StoreQueries, check_gold, entities

AVERITEC = {
    "generated_question",
    "background",
    "provenance",
    "named_entity",
    "similar_gold_paragraph",
    "gold_url_question",
    "same_entity_other_event",
    "similar_entities",
    "gold_question",
    "claim_gold_question",
    "rephrased_question",
    "gold_answer",
    "rephrased_answer",
}
CLAIM = Claim(
    id="0",
    text="Mayor Ada Brook closed the Osterby library in 2019.",
    date=datetime.date(2020, 11, 2),
    speaker="Tom Reed",
    original_url="https://www.daily-laugh.example/library",
    reporting_source="Daily Laugh",
    questions=[
        Question(
            question="Did Ada Brook close the library?",
            answers=[
                Answer(
                    answer="No",
                    answer_type="Boolean",
                    boolean_explanation="It is still open today.",
                )
            ],
        ),
        Question(
            question="Who decided on the opening hours?",
            answers=[
                Answer(answer="The council did.", answer_type="Extractive"),
                Answer(answer="No answer could be found.", answer_type="Unanswerable"),
            ],
        ),
    ],
    relevant=[
        "https://web.archive.org/web/20201101/https://news.osterby.example/2020/library-opening-hours.html",
        "https://library.example/",
    ],
)
TRAIN = [
    Claim(id="1", text="Lake Morrin is dry.", questions=[Question(question="Is Lake Morrin dry?")]),
    Claim(id="2", text="In Halden Joan Pell won.", questions=[Question(question="Who won?")]),
]
GOLD = [
    Document(
        id="d",
        sentences=[
            "Weather.",
            "Rain.",
            "Sun.",
            "The Osterby library stays open.",
            "So it is.",
            "Yes.",
        ],
    )
]


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path), TRAIN, 13)


def made(step: StoreQueries, ctx: Context, claim: Claim = CLAIM) -> dict[str, list[str]]:
    (case,) = step.run([Case(claim=claim, documents=GOLD)], ctx)
    found: dict[str, list[str]] = {}
    for query in case.queries:
        found.setdefault(query.kind, []).append(query.text)
    return found


def test_all_kinds_of_averitec_are_there() -> None:
    assert set(KINDS) == AVERITEC | {"claim", "gold"}
    assert {name for name, kind in KINDS.items() if kind.gold} == {
        "similar_gold_paragraph",
        "gold_url_question",
        "gold_question",
        "claim_gold_question",
        "rephrased_question",
        "gold_answer",
        "rephrased_answer",
        "gold",
    }


def test_by_rules(ctx: Context) -> None:
    found = made(StoreQueries(kinds=list(KINDS)), ctx)
    assert set(found) == set(KINDS) - {"gold"}
    assert found["claim"] == [CLAIM.text]
    assert len(found["generated_question"]) == 3
    assert found["background"] == ["Mayor Ada Brook background", "Osterby background"]
    assert found["provenance"][0] == "is daily-laugh.example a satire site"
    assert found["provenance"][1].startswith("Tom Reed mayor ada brook closed osterby")
    assert found["named_entity"] == ["Mayor Ada Brook", "Osterby", "Mayor Ada Brook Osterby"]
    assert found["similar_gold_paragraph"] == ["The Osterby library stays open. So it is. Yes."]
    assert found["gold_url_question"] == ["2020 library opening hours news osterby", "library"]
    assert found["same_entity_other_event"] == [
        "Mayor Ada Brook 2019",
        "Osterby 2019",
        "Mayor Ada Brook 2018",
    ]
    for text in found["similar_entities"]:
        assert text.endswith("library in 2019.")
        assert "Brook" not in text
        assert "Osterby" not in text
        assert any(name in text for name in ("Lake Morrin", "Halden Joan Pell"))
    assert found["gold_question"] == [question.question for question in CLAIM.questions]
    assert found["claim_gold_question"][0] == (
        "mayor ada brook closed osterby library 2019 Did Ada Brook close the library?"
    )
    assert found["rephrased_question"][1] == "who decided opening hours"
    assert found["gold_answer"] == ["It is still open today.", "The council did."]
    assert found["rephrased_answer"] == ["still open today", "council did"]


def test_a_text_is_searched_once_under_its_first_kind(ctx: Context) -> None:
    claim = Claim(id="0", text="Osterby")
    for kinds in (["claim", "named_entity"], ["named_entity", "claim"]):
        assert made(StoreQueries(kinds=kinds), ctx, claim) == {kinds[0]: ["Osterby"]}


@given(st.text(), st.none() | st.text(), st.none() | st.dates())
def test_any_claim_gives_queries(
    text: str, speaker: str | None, date: datetime.date | None
) -> None:
    ctx = Context.__new__(Context)
    ctx._train, ctx.seed = TRAIN, 1
    step = StoreQueries(kinds=[kind for kind in KINDS if kind != "similar_gold_paragraph"])
    claim = Claim(id="0", text=text, speaker=speaker, date=date, relevant=[text], original_url=text)
    (case,) = step.run([Case(claim=claim)], ctx)
    assert all(query.text.strip() and query.kind in KINDS for query in case.queries)
    assert len({query.text.casefold() for query in case.queries}) == len(case.queries)


def test_months_and_days_are_no_entities() -> None:
    text = "In September 2020, on a Monday, Ada went to Morrin’s mayor, Ada's brother."
    assert entities(text) == ["Ada", "Morrin"]


@dataclasses.dataclass(kw_only=True)
class Scripted(Engine):
    """Says what is asked of it: an engine whose replies are known."""

    text: str = "{n}. {what}"
    asked: Any = dataclasses.field(default_factory=list)

    def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
        for number, request in enumerate(requests):
            self.asked.append(request.prompt)
            yield number, Reply(text=self.text)


def test_by_a_model(ctx: Context) -> None:
    engine = Scripted(text="first thing?\n2. Second thing?\n3. third thing?\n4. more?")
    kinds = [kind for kind in KINDS if kind not in ("claim", "gold")]
    found = made(StoreQueries(kinds=kinds, engine=engine, n=2), ctx)
    # The same replies everywhere: the first kind keeps them, verbatim kinds have their own.
    assert found["generated_question"] == ["first thing?", "Second thing?"]
    assert found["gold_question"] == [question.question for question in CLAIM.questions]
    assert set(found) == {
        "generated_question",
        "named_entity",
        "similar_gold_paragraph",
        "gold_question",
        "claim_gold_question",
        "gold_answer",
    }
    prompts = "\n".join(engine.asked)
    assert len(engine.asked) == 5 + 2 + 2 + 2  # claim; each source, question and answer
    for part in (
        "Is Lake Morrin dry?",  # a training claim as example
        "Address: https://library.example/",
        "Question: Who decided on the opening hours?",
        "Sentence: It is still open today.",
        "Names: Mayor Ada Brook, Osterby",
        "Speaker: Tom Reed. Published by: Daily Laugh",
    ):
        assert part in prompts
    assert "{" not in prompts


def test_a_model_that_says_nothing_is_replaced_by_rules_with_a_remark(ctx: Context) -> None:
    step = StoreQueries(kinds=["background"], engine=Scripted(text=" \n"))
    (case,) = step.run([Case(claim=CLAIM)], ctx)
    assert [query.text for query in case.queries] == [
        "Mayor Ada Brook background",
        "Osterby background",
    ]
    assert case.remarks == ["queries of kind background by rules, as the model's reply had none"]


def test_generated_questions_need_examples_or_none(tmp_path: Path) -> None:
    ctx = Context(Cache(tmp_path), [], 13)
    step = StoreQueries(kinds=["generated_question"], engine=Scripted(text="why?"))
    with pytest.raises(ClaimflowError, match=r"queries\.examples=0"):
        made(step, ctx)
    step.examples = 0
    assert made(step, ctx) == {"generated_question": ["why?"]}


def test_gold_is_refused_where_it_is_missing_or_tells_the_answer() -> None:
    hidden = [Claim(id="0", text="A claim.")]
    free = ["claim", "background"]
    for claims in (hidden, [CLAIM]):
        for evaluated in (True, False):
            check_gold(free, claims, evaluated, allow=False)
    with pytest.raises(ClaimflowError, match="gold_question, gold are made of gold"):
        check_gold(["claim", "gold_question", "gold"], hidden, evaluated=False, allow=True)
    for kind in (name for name in KINDS if KINDS[name].gold):
        with pytest.raises(ClaimflowError, match=rf"{kind} put.*the answer.*allow_gold=true"):
            check_gold(["claim", kind], [CLAIM], evaluated=True, allow=False)
        check_gold(["claim", kind], [CLAIM], evaluated=False, allow=False)
        check_gold(["claim", kind], [CLAIM], evaluated=True, allow=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": ["backgrund"]}, "Did you mean 'background'"),
        ({"kinds": []}, "must name kinds"),
        ({"kinds": ["claim", "claim"]}, "each once"),
        ({"kinds": ["claim"], "n": 0}, "n is 0"),
    ],
)
def test_settings_that_can_not_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        StoreQueries(**settings)
