"""Passages as answers: turns, no repeats, limits, copies of the claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.reason.answers import PassageAnswers, plain
from components.records import Case, Claim, Evidence, Hit, Passage, Query
from components.step import Context

CLAIM = "Orrin bridge was closed in March."
TEXTS = ["It closed in March.", "A flood came.", "Repairs took a year.", "It is made of oak."]


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def case_of(queries: list[Query], rankings: list[list[int]], texts: list[str] = TEXTS) -> Case:
    """A case whose rankings name passages by their position in `texts`."""
    return Case(
        claim=Claim(id="0", text=CLAIM),
        passages=[
            Passage(id=f"d{i}#0", doc=f"d{i}", text=text, url=f"https://d{i}.example/")
            for i, text in enumerate(texts)
        ],
        queries=queries,
        hits=[
            Hit(passage=f"d{i}#0", doc=f"d{i}", score=1 / (1 + rank), query=query)
            for query, ranking in enumerate(rankings)
            for rank, i in enumerate(ranking)
        ],
    )


def asked(*questions: str | None) -> list[Query]:
    return [Query(text=question or CLAIM, question=question) for question in questions]


def pairs(step: PassageAnswers, case: Case, ctx: Context) -> list[tuple[str, str]]:
    return [(e.question, e.answer) for e in step.run([case], ctx)[0].evidence]


def test_questions_take_turns_and_no_passage_is_used_twice(ctx: Context) -> None:
    case = case_of(asked("When?", "Why?"), [[0, 1, 2], [0, 1, 3]])
    assert pairs(PassageAnswers(), case, ctx) == [
        ("When?", TEXTS[0]),
        ("Why?", TEXTS[1]),  # its best is taken
        ("When?", TEXTS[2]),
        ("Why?", TEXTS[3]),
    ]


def test_evidence_names_its_source(ctx: Context) -> None:
    [case] = PassageAnswers().run([case_of(asked("Why?"), [[1]])], ctx)
    assert case.evidence == [
        Evidence(question="Why?", answer=TEXTS[1], url="https://d1.example/", passages=["d1#0"])
    ]


def test_limits(ctx: Context) -> None:
    case = case_of(asked("When?", "Why?"), [[0, 1, 2], [3]])
    assert pairs(PassageAnswers(limit=1), case, ctx) == [("When?", TEXTS[0])]
    assert pairs(PassageAnswers(per_question=1), case, ctx) == [
        ("When?", TEXTS[0]),
        ("Why?", TEXTS[3]),
    ]
    assert [a for _, a in pairs(PassageAnswers(limit=3), case, ctx)] == [
        TEXTS[0],
        TEXTS[3],
        TEXTS[1],
    ]
    for wrong in ({"limit": 0}, {"per_question": 0}):
        with pytest.raises(ClaimflowError, match="at least 1, not 0"):
            PassageAnswers(**wrong)


def test_queries_of_one_question_share_its_turns(ctx: Context) -> None:
    case = case_of(asked("When?", "When?", "Why?"), [[0], [1], [2]])
    assert pairs(PassageAnswers(), case, ctx) == [
        ("When?", TEXTS[0]),
        ("Why?", TEXTS[2]),
        ("When?", TEXTS[1]),
    ]


def test_a_query_without_question_gets_the_stated_one(ctx: Context) -> None:
    case = case_of(asked(None), [[1]])
    assert pairs(PassageAnswers(), case, ctx) == [(f"What is known about this: {CLAIM}", TEXTS[1])]
    step = PassageAnswers(question="Is it so: {claim} {yes}?")
    assert pairs(step, case, ctx) == [(f"Is it so: {CLAIM} {{yes}}?", TEXTS[1])]


def test_copies_of_the_claim_are_no_evidence(ctx: Context) -> None:
    longer = f"On Monday the paper wrote: {CLAIM}"
    texts = [CLAIM, "ORRIN bridge was closed, in March", f"{CLAIM} X", longer, "...", "Why not."]
    case = case_of(asked("When?"), [[0, 1, 2, 3, 4, 5]], texts)
    assert [a for _, a in pairs(PassageAnswers(), case, ctx)] == [longer, "Why not."]
    assert [a for _, a in pairs(PassageAnswers(copy_ratio=None), case, ctx)] == [
        CLAIM,  # the second has the same words
        f"{CLAIM} X",
        longer,
        "Why not.",
    ]


def test_nothing_found_is_no_evidence(ctx: Context) -> None:
    assert pairs(PassageAnswers(), case_of(asked("When?"), [[]]), ctx) == []
    assert pairs(PassageAnswers(), case_of([], []), ctx) == []


@given(
    rankings=st.lists(st.lists(st.integers(0, 7), unique=True), max_size=5),
    limit=st.integers(1, 6),
    per_question=st.none() | st.integers(1, 3),
)
def test_laws(
    ctx: Context, rankings: list[list[int]], limit: int, per_question: int | None
) -> None:
    texts = [f"word{i % 6}" for i in range(8)]  # two texts stand twice
    questions = [f"q{i}" for i in range(len(rankings))]
    case = case_of(asked(*questions), rankings, texts)
    found = pairs(PassageAnswers(limit=limit, per_question=per_question), case, ctx)
    assert len(found) <= limit
    answers = [answer for _, answer in found]
    assert len({plain(a) for a in answers}) == len(answers)
    counts = [sum(q == question for q, _ in found) for question in questions]
    assert max(counts, default=0) <= (per_question or limit)
    for question, answer in found:  # an answer was found for its question
        assert answer in [texts[i] for i in rankings[questions.index(question)]]
    if per_question is None and len(found) < limit:  # nothing that was found is left over
        assert set(answers) == {texts[i] for ranking in rankings for i in ranking}
    firsts = [q for q, _ in found[: len({q for q, _ in found})]]
    assert len(set(firsts)) == len(firsts)  # each has its first before any has its second
