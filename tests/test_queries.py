"""Queries by rules and by a language model: what each makes of a claim, and a real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.assets import SMOLLM2
from components.cache import Cache
from components.engines.base import Reply, Request
from components.engines.transformers import TransformersEngine
from components.errors import ClaimflowError
from components.reason.keywords import (
    Capitalised,
    Entities,
    NounPhrases,
    PosFilter,
    RuleQueries,
    VerbPrefix,
    tagged,
)
from components.reason.prompt import FOLDER
from components.reason.queries import (
    Hyde,
    Hypotheses,
    Rewrites,
    SyntheticAnswers,
    lines,
    pairs,
)
from components.records import Case, Claim, Query
from components.step import Context, identity
from tests.little import models
from tests.test_questions import Scripted

TEXT = "The 2012 film Savages was directed by Oliver Stone in Los Angeles."
CLAIM = Claim(id="1", text=TEXT, speaker="A. Critic")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path))


def asked(step: Any, ctx: Context, *questions: str, claim: Claim = CLAIM) -> Case:
    [done] = step.run([Case(claim=claim, questions=list(questions))], ctx)
    return done  # type: ignore[no-any-return]


def texts(step: Any, claim: Claim = CLAIM) -> list[str]:
    return [query.text for query in asked(step, Context.__new__(Context), claim=claim).queries]


# By rules


def test_parts_of_speech() -> None:
    assert tagged("Stone directed it, in 2012.") == [
        ("Stone", "NNP"), ("directed", "VBN"), ("it", "PRP"), (",", "."), ("in", "IN"),
        ("2012", "CD"), (".", "."),
    ]  # fmt: skip


def test_rules() -> None:
    assert texts(Capitalised()) == ["Savages", "Oliver Stone", "Los Angeles"]
    assert texts(Entities()) == ["Savages", "Oliver Stone", "Los Angeles"]
    assert texts(Entities(joined=True)) == ["Savages Oliver Stone Los Angeles"]
    assert texts(VerbPrefix()) == ["The 2012 film Savages"]
    assert texts(VerbPrefix(with_claim=True)) == [TEXT, "The 2012 film Savages"]
    assert texts(NounPhrases()) == [
        TEXT, "2012 film Savages", "Oliver Stone", "Los Angeles", "The 2012 film Savages"
    ]  # fmt: skip
    assert texts(PosFilter()) == [
        "A. Critic 2012 film Savages was directed Oliver Stone Los Angeles"
    ]
    assert texts(PosFilter(speaker=False, tags=["NNP"])) == ["Savages Oliver Stone Los Angeles"]
    twice = Claim(id="2", text="Dogs like dogs.")
    assert texts(PosFilter(), twice) == ["Dogs dogs"]


def test_a_claim_without_phrases_is_the_query(ctx: Context) -> None:
    claim = Claim(id="1", text="it rains.")
    case = Case(claim=claim, remarks=["before"])
    [done] = Entities().run([case], ctx)
    assert done.queries == [Query(text="it rains.")]
    assert done.remarks == ["before", "searched by the claim, as it gives no entity"]


RULES: list[RuleQueries] = [Capitalised(), Entities(), NounPhrases(), VerbPrefix(), PosFilter()]


@given(st.sampled_from(RULES), st.text(max_size=60))
def test_any_text_gives_queries(step: RuleQueries, text: str) -> None:
    found = texts(step, Claim(id="1", text=text))
    assert found
    assert len({query.casefold() for query in found}) == len(found) or step.with_claim


# By a language model


def test_lines_and_pairs() -> None:
    assert lines(' bank rate\n2. "bank rate July"\n- \n\n3) **rise**') == [
        "bank rate", "bank rate July", "rise"
    ]  # fmt: skip
    reply = "Question: Who?\nAnswer: He.\nQ2: When did it?\n\nA2:  In May. \nQuestion: cut off"
    assert pairs(reply) == [("Who?", "He."), ("When did it?", "In May.")]


def rewrites(says: list[str], **more: Any) -> Rewrites:
    return Rewrites(engine=Scripted(says=says), prompt=Path("multi_query.txt"), kind="k", **more)


def test_rewrites_of_a_claim(ctx: Context) -> None:
    done = asked(rewrites([f"{TEXT}\n2. film Savages\n3. Film savages\n4. Stone\n5. x1"], n=2), ctx)
    assert [(q.text, q.kind, q.question) for q in done.queries] == [
        (TEXT, "claim", None), ("film Savages", "k", None), ("Stone", "k", None)
    ]  # fmt: skip
    done = asked(rewrites(["a1"], with_original=False, literal="fact check"), ctx)
    assert [q.text for q in done.queries] == ["a1", f"{TEXT} fact check"]


def test_rewrites_of_questions(ctx: Context) -> None:
    done = asked(rewrites(["one\ntwo", "three"], per="question"), ctx, "Who?", "When?")
    assert [(q.text, q.question) for q in done.queries] == [
        ("Who?", "Who?"), ("one", "Who?"), ("two", "Who?"), ("When?", "When?"), ("three", "When?")
    ]  # fmt: skip
    assert [q.text for q in asked(rewrites(["one"], per="question"), ctx).queries] == [TEXT, "one"]


def test_hyde_samples(ctx: Context) -> None:
    step = Hyde(engine=Scripted(says=["a\nb", "c", " A b ", ""]), prompt=Path("hyde.txt"), n=4)
    done = asked(step, ctx)
    assert [(q.text, q.kind) for q in done.queries] == [
        (TEXT, "claim"), ("a b", "hyde"), ("c", "hyde")
    ]  # fmt: skip
    assert step.seeded
    greedy = Hyde(engine=Scripted(says=["x"]), prompt=Path("hyde.txt"), temperature=0)
    assert not greedy.seeded
    assert greedy.samples() == 1


def test_hyde_takes_stances_in_turn(ctx: Context) -> None:
    asks: list[str] = []

    class Noting(Scripted):
        def replies(self, requests: list[Request], ctx: Context) -> Iterator[tuple[int, Reply]]:
            asks.extend(str(request.prompt) for request in requests)
            return super().replies(requests, ctx)

    step = Hyde(
        engine=Noting(says=["a", "b", "c"]), prompt=Path("hyde_stance.txt"), n=3,
        stances=["true", "false"],
    )  # fmt: skip
    assert [q.text for q in asked(step, ctx).queries] == [TEXT, "a", "b", "c"]
    assert ["found that it is true" in ask for ask in asks] == [True, False, True]
    assert "found that it is false" in asks[1]
    with pytest.raises(ClaimflowError, match=r"names \{stance\}, which has no value"):
        asked(Hyde(engine=Scripted(says=["a"]), prompt=Path("hyde_stance.txt")), ctx)


def test_the_meaning_of_a_claim(ctx: Context) -> None:
    reply = " Oliver Stone directed the film.\nMore: no."
    step = Rewrites(
        engine=Scripted(says=[reply]), prompt=Path("interpret_claim.txt"), kind="interpretation",
        n=1,
    )  # fmt: skip
    assert [(q.text, q.kind) for q in asked(step, ctx).queries] == [
        (TEXT, "claim"), ("Oliver Stone directed the film.", "interpretation")
    ]  # fmt: skip


def test_hypotheses(ctx: Context) -> None:
    reply = " Who directed it?\nAnswer: Stone did.\nQuestion: When?\nAnswer: In 2011.\nQuestion: x"
    step = Hypotheses(engine=Scripted(says=[reply]), prompt=Path("qa_hypotheses.txt"))
    assert [(q.text, q.question) for q in asked(step, ctx).queries] == [
        ("Who directed it? Stone did.", "Who directed it?"), ("When? In 2011.", "When?")
    ]  # fmt: skip
    step.n = 1
    assert len(asked(step, ctx).queries) == 1


def test_synthetic_answers(ctx: Context) -> None:
    step = SyntheticAnswers(
        engine=Scripted(says=[" Stone did.\n"]), prompt=Path("synthetic_answer.txt")
    )
    assert asked(step, ctx, "Who?").queries == [
        Query(text="Who? Stone did.", kind="synthetic_answer", question="Who?")
    ]


def test_a_reply_of_no_use(ctx: Context) -> None:
    done = asked(rewrites(["", "one"], per="question", with_original=False), ctx, "Who?", "When?")
    assert [q.text for q in done.queries] == ["Who?", "one"]
    assert done.remarks == ["searched by claim or question, as the model wrote no k"]
    done = asked(rewrites(["12."], on_empty="fail"), ctx)
    assert done.failed == "no query in the model's reply '12.'"


def test_a_failing_engine_costs_its_claims_alone(ctx: Context) -> None:
    cases = [Case(claim=Claim(id=str(i), text=f"{TEXT} {i}")) for i in range(3)]
    done = rewrites(["fine", "!", "good"]).run(cases, ctx)
    assert [case.failed for case in done] == [None, "server gone", None]
    assert [case.queries[-1].text for case in done if not case.failed] == ["fine", "good"]


def test_the_prompt_is_part_of_the_key(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text("Claim: {claim}")
    step = Hyde(engine=Scripted(says=[]), prompt=file)
    first = identity(step)
    file.write_text("A claim: {claim}")
    assert identity(step) != first


def test_every_prompt_can_be_filled(ctx: Context) -> None:
    for name in ("hyde", "multi_query", "rag_fusion", "subclaims", "qa_hypotheses",
                 "synthetic_answer"):  # fmt: skip
        assert (FOLDER / f"{name}.txt").is_file()
        step = Rewrites(engine=Scripted(says=["x"]), prompt=Path(f"{name}.txt"), kind="k")
        assert len(asked(step, ctx, "Who?").queries) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"n": 0}, r"query\.n is 0: give 1 or more"),
        ({"per": "page"}, r"query\.per is page: choose claim or question"),
        ({"on_empty": "rules"}, r"query\.on_empty is rules: choose original or fail"),
    ],
)
def test_bad_parameters(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        rewrites([""], **more)
    with pytest.raises(ClaimflowError, match=r"hyde\.txt has no \{question\}"):
        SyntheticAnswers(engine=Scripted(says=[]), prompt=Path("hyde.txt"))
    with pytest.raises(ClaimflowError, match=r"query\.tags is empty"):
        PosFilter(tags=[])


def test_a_real_model(tmp_path: Path) -> None:
    engine = TransformersEngine(model=models()[SMOLLM2])
    step = Hyde(engine=engine, prompt=Path("hyde.txt"), n=2, max_tokens=12)
    first = asked(step, Context(Cache(tmp_path / "1"), seed=13)).queries
    assert len(first) > 1
    assert all(any(char.isalpha() for char in query.text) for query in first)
    again = asked(step, Context(Cache(tmp_path / "2"), seed=13)).queries
    assert again == first  # sampled with the same seeds
