"""Judges: replies read whatever their form, asked again where they fail, kept in the cache."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.records import AVERITEC_LABELS
from components.score.control import ITEMS, control
from components.score.judge import (
    Asked,
    Facts,
    LlmJudge,
    RecordedJudge,
    ReplyError,
    cost,
    number,
    official_facts,
    read_coverage,
    read_facts,
    read_label,
)
from components.step import Context
from flows.experiment import check
from tests.conftest import compose
from tests.judging import Flaky, Overloaded, counts, recorded

GOOD = json.dumps(counts((3, 4), (2, 4)))
RIGHT = Facts(precision=0.75, recall=0.5)
PROMPT = Path("components/score/prompts/ev2r_evidence.txt")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    Flaky.asked.clear()
    return Context(Cache(tmp_path))


# Reading


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"Here it is:\n```json\n{GOOD}\n```\nI hope this helps {{really}}.",
        GOOD.replace("1. A fact.", "The sign reads {closed} or } perhaps."),
        GOOD.replace("3,", '"3",').replace(": 2", ': "two"'),
        GOOD.replace(": 2}", ": 2,}"),  # a comma too many
        GOOD.replace(", ", "\n"),  # no commas at all
        json.dumps({"facts": {"a": [1]}, "counts": json.loads(GOOD)}),
        json.dumps({"predicted": {"facts count": 4, "support": 3},
                    "reference": {"facts_count": "4 facts", "support": 2.0}}),
        GOOD.replace(" evidence", "_Evidence").replace("facts count", "FACTS COUNT"),
        "{" + GOOD,
        json.dumps({"predicted": {"total": 4, "supported by reference": 3},
                    "reference": {"total": 4, "supported by predicted": 2}}),
    ],
)  # fmt: skip
def test_counts_are_read_whatever_their_form(reply: str) -> None:
    assert read_facts(reply) == RIGHT


@pytest.mark.parametrize(
    ("more", "facts"),
    [
        ({"not supported reference evidence": 3}, RIGHT),
        ({"predicted": {"unsupported by reference": 2}}, RIGHT),
        ({"contradicted predicted facts count": 9, "reference facts not counted": 7}, RIGHT),
        ({"partly supported reference evidence": 9}, RIGHT),  # those of the prompt are there
    ],
)
def test_counts_of_what_is_not_supported_are_others(more: dict, facts: Facts) -> None:
    assert read_facts(json.dumps(more | counts((3, 4), (2, 4)))) == facts
    assert read_facts(json.dumps(counts((3, 4), (2, 4)) | more)) == facts


def test_counts_under_other_keys_must_be_plain() -> None:
    reference = {"not supported reference evidence": 3, "facts count reference evidence": 4}
    assert read_facts(json.dumps(reference | {"supported reference evidence": 1})).recall == 0.25
    with pytest.raises(ReplyError, match="no counts of reference facts"):
        read_facts(json.dumps(reference))
    two = {"supported reference facts": 1, "partly supported reference facts": 2}
    with pytest.raises(ReplyError, match="several counts in the reply: supported reference facts"):
        read_facts(json.dumps(reference | two))


def test_the_last_whole_answer_counts() -> None:
    draft, right = json.dumps(counts((1, 4), (1, 4))), GOOD
    thinking = f"<think>Perhaps {draft}? No {{really}}.</think>\n"
    assert read_facts(thinking + right) == RIGHT
    assert read_facts(f"{thinking}```json\n{right}\n```\nDone: {{}} {{'a'}}.") == RIGHT
    assert read_facts(f"{thinking}{right}\nI might add {right[:60]}") == RIGHT  # breaks off
    assert read_facts(f"{thinking}{right}" + '{"note": 3}') == RIGHT
    label = '{"label": "Supported"} Wait. {"label": "Refuted", "why": {"label": "Supported"}}'
    assert read_label(label, AVERITEC_LABELS) == "Refuted"
    first, last = ({"support": n, "contradict": 0, "facts count": 4} for n in (1, 2))
    assert read_coverage(f"{json.dumps(first)} {json.dumps(last)}") == 0.5


def test_a_count_of_nought_is_a_value_and_nothing_to_score_is_not() -> None:
    assert read_facts(json.dumps(counts((0, 4), (0, 3)))) == Facts(precision=0, recall=0)
    assert read_facts(json.dumps(counts((0, 0), (0, 3)))) == Facts(precision=0, recall=0)
    assert read_facts(json.dumps(counts((4, 3), (4, 3)))) == Facts(precision=1, recall=1)
    with pytest.raises(ReplyError, match="no reference facts"):
        read_facts(json.dumps(counts((1, 2), (0, 0))))
    for reply in ("", "I can't.", "{}", json.dumps(counts((1, 2), (None, 3))), "[1, 2]"):
        with pytest.raises(ReplyError, match="no counts of reference facts"):
            read_facts(reply)
    half = {k: v for k, v in json.loads(GOOD).items() if "predicted" not in k}
    assert read_facts(json.dumps(half)) == Facts(precision=None, recall=0.5)


def test_the_official_rule_worked() -> None:
    def read(*sides: tuple[object, object]) -> Facts:
        return official_facts(json.dumps(counts(*sides)))  # type: ignore[arg-type]

    assert read((3, 4), (2, 4)) == RIGHT
    assert read((3, 4), (3, 5)).recall == 0.6
    assert read((1, 2), (4, 3)).recall == pytest.approx(4 / 3)
    for sides in [((1, 2), (0, 0)), ((0, 0), (2, 4)), ((1, 2), ("1", "2"))]:
        with pytest.raises(ReplyError, match="official"):
            read(*sides)
    for reply in (
        "",
        GOOD.replace(": 2}", ": 2,}"),
        GOOD.replace("A fact.", "A } fact."),
        json.dumps({"counts": json.loads(GOOD)}),
    ):
        with pytest.raises(ReplyError, match="official"):
            official_facts(reply)
    assert official_facts(f"```json\n{GOOD}\n```") == RIGHT
    assert official_facts(json.dumps(counts((3, 4), (2, 4), "questions"))) == RIGHT


def test_coverage_and_label() -> None:
    reply = {"facts": "1. A.", "support": 1, "contradict": "1", "facts count": 4}
    assert read_coverage(json.dumps(reply)) == 0.5
    with pytest.raises(ReplyError, match="no facts"):
        read_coverage(json.dumps(reply | {"facts count": 0}))
    with pytest.raises(ReplyError, match="no counts"):
        read_coverage(json.dumps(reply | {"support": []}))
    label = '{"explanation": "Not supported by {a}.", "label": "refuted"}'
    assert read_label(label, AVERITEC_LABELS) == "Refuted"
    assert read_label("Label: Supported", AVERITEC_LABELS) == "Supported"
    with pytest.raises(ReplyError, match="no label"):
        read_label("It is not supported", AVERITEC_LABELS)


@pytest.mark.parametrize(
    ("value", "meant"),
    [(3, 3), ("3", 3), ("3 of 5", 3), ("Three facts", 3), ("2.0", 2), (0, 0), (True, None),
     (-1, None), ("-1", None), (None, None), ([1], None), ("many", None), (float("nan"), None)],
)  # fmt: skip
def test_numbers(value: object, meant: float | None) -> None:
    assert number(value) == meant


@given(st.text(), st.integers(0, 9), st.integers(1, 9), st.text(), st.text())
@settings(deadline=None)
def test_any_fact_and_anything_around_the_object(
    fact: str, supported: int, total: int, before: str, after: str
) -> None:
    reply = counts((supported, total), (supported, total))
    reply["facts in predicted evidence"] = [fact, {"fact": fact}]
    clean = before.replace("{", "").replace('"', "")
    share = min(1.0, supported / total)
    found = read_facts(f"{clean}{json.dumps(reply)}{after}")
    assert found == Facts(precision=share, recall=share)


@given(st.text())
@settings(deadline=None)
def test_any_reply_is_read_or_refused(reply: str) -> None:
    for read in (read_facts, official_facts, read_coverage):
        with contextlib.suppress(ReplyError):
            read(reply)


# Asking


def ask(judge: LlmJudge, ctx: Context, *ids: str) -> tuple[list[list[Facts | None]], list[str]]:
    problems: list[str] = []
    asked = [Asked(id=i, mode="evidence", prompt=f"claim {i}") for i in ids]
    return judge.ask(asked, read_facts, ctx, problems), problems


def test_a_failed_server_is_asked_again(ctx: Context) -> None:
    judge = LlmJudge(engine=Flaky(says=["!", "!", GOOD]))
    assert ask(judge, ctx, "0") == ([[RIGHT]], [])
    assert len(Flaky.asked) == 3
    assert len({r.seed for r in Flaky.asked}) == 1  # the same request


def test_an_unreadable_reply_is_asked_for_otherwise(ctx: Context) -> None:
    judge = LlmJudge(engine=Flaky(says=["Well.", GOOD]))
    assert ask(judge, ctx, "0") == ([[RIGHT]], [])
    first, second = Flaky.asked
    assert first.temperature == 0
    assert second.temperature > 0
    assert first.seed != second.seed


def test_what_fails_for_good_is_named_and_costs_the_others_nothing(ctx: Context) -> None:
    judge = LlmJudge(engine=Flaky(says=[GOOD, "!", "!", "!"]))
    found, problems = ask(judge, ctx, "0", "7")
    assert found == [[RIGHT], [None]]
    assert problems == ["7 (evidence: HTTP 429)"]
    assert len(Flaky.asked) == 4


def test_a_server_that_breaks_off_loses_no_reply(ctx: Context) -> None:
    Overloaded.calls.clear()
    judge = LlmJudge(engine=Overloaded(says=GOOD, breaks=1), wait=0)
    assert ask(judge, ctx, "0", "1", "2") == ([[RIGHT]] * 3, [])
    assert Overloaded.calls == [3, 2]
    assert ctx.tokens == {"prompt": 30, "completion": 6}  # of the batch that failed too
    assert cost(ctx) == ["The judge read 30 tokens and wrote 6."]
    Overloaded.calls.clear()
    judge = LlmJudge(engine=Overloaded(says=GOOD, breaks=9), wait=0, attempts=2)
    found, problems = ask(judge, ctx, "3", "4", "5")
    assert found == [[RIGHT], [RIGHT], [None]]
    assert problems == ["5 (evidence: overloaded (429))"]


def test_no_reply_at_all_is_an_error(ctx: Context) -> None:
    Overloaded.calls.clear()
    judge = LlmJudge(engine=Overloaded(says="!", breaks=9), wait=0)
    with pytest.raises(ClaimflowError, match=r"replied to none of 2 .* overloaded \(429\)"):
        ask(judge, ctx, "0", "1")
    assert Overloaded.calls == [2]  # engines try again themselves
    judge.on_error = "skip"
    found, problems = ask(judge, ctx, "0", "1")
    assert (found, len(problems)) == ([[None], [None]], 2)
    assert Overloaded.calls == [2]  # nor is it asked once more in this scoring


def test_asking_again_costs_nothing(ctx: Context) -> None:
    judge = LlmJudge(engine=Flaky(says=["Well.", GOOD]))
    ask(judge, ctx, "0")
    asked = len(Flaky.asked)
    again = Context(Cache(ctx.cache.folder))
    assert ask(judge, again, "0") == ([[RIGHT]], [])
    assert len(Flaky.asked) == asked


def test_repeats_differ_by_seed(ctx: Context) -> None:
    other = json.dumps(counts((1, 1), (1, 1)))
    judge = LlmJudge(engine=Flaky(says=[GOOD, other]), repeats=2, temperature=0.5, seed=5)
    found, _ = ask(judge, ctx, "0")
    assert found == [[RIGHT, Facts(precision=1, recall=1)]]
    assert [r.seed for r in Flaky.asked] == [5, 6]
    with pytest.raises(ClaimflowError, match=r"judge\.repeats is 0"):
        LlmJudge(engine=Flaky(says=[]), repeats=0)


def test_recorded_replies(ctx: Context, tmp_path: Path) -> None:
    judge = recorded(
        tmp_path,
        {"id": 0, "mode": "evidence", "reply": GOOD},
        {"id": "1", "mode": "evidence", "reply": counts((1, 1), (1, 1)), "run": 0},
        {"id": "2", "mode": "evidence", "error": "time-out"},
        repeats=2,
    )
    problems: list[str] = []
    asked = [Asked(id=i, mode="evidence", prompt="") for i in ("0", "1", "2")]
    found = judge.ask(asked, read_facts, ctx, problems)
    assert found == [[RIGHT, RIGHT], [Facts(precision=1, recall=1), None], [None, None]]
    assert problems == [
        "2 (evidence, run 1: time-out)",
        "1 (evidence, run 2: no reply in replies.jsonl)",
        "2 (evidence, run 2: time-out)",
    ]
    with pytest.raises(ClaimflowError, match="No file of recorded replies"):
        type(judge)(file=tmp_path / "none.jsonl")
    with pytest.raises(ClaimflowError, match=r"Say judge\.file=FILE, or judge\.asks=FILE"):
        RecordedJudge()


def test_a_recorded_reply_to_another_prompt_is_none(ctx: Context, tmp_path: Path) -> None:
    line = {"id": "0", "mode": "evidence", "prompt": "One?", "reply": GOOD}
    judge = recorded(tmp_path, line, line | {"prompt": "Two?", "reply": counts((1, 1), (1, 1))})
    problems: list[str] = []
    asked = [Asked(id="0", mode="evidence", prompt=prompt) for prompt in ("Two?", "Three?", "One?")]
    found = judge.ask(asked, read_facts, ctx, problems)
    assert found == [[Facts(precision=1, recall=1)], [None], [RIGHT]]
    (problem,) = problems
    assert problem.startswith("0 (evidence: the reply in replies.jsonl is to another prompt")
    assert "official=" in problem
    judge.check_several()
    judge = recorded(tmp_path, line, {"id": "0", "mode": "evidence", "reply": GOOD})
    with pytest.raises(ClaimflowError, match=r"replies\.jsonl, line 2: the reply has no prompt"):
        judge.check_several()


def test_a_point_of_a_sweep_takes_no_reply_without_a_prompt(tmp_path: Path) -> None:
    recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": GOOD})
    file = f"judge.file={tmp_path}/replies.jsonl"
    config = compose("scorer=averitec_2025", "judge=recorded", file, "questioner=rules")
    check(config)
    with pytest.raises(ClaimflowError, match="line 1: the reply has no prompt"):
        check(config, several=True)


def test_the_questions_are_written_to_be_answered(ctx: Context, tmp_path: Path) -> None:
    asks = tmp_path / "asks.jsonl"
    asked = [Asked(id=i, mode="evidence", prompt=f"{i}?") for i in "01"]
    judge = RecordedJudge(asks=asks, on_error="skip", attempts=1)
    for _ in range(2):  # once each
        assert judge.ask(asked, read_facts, ctx, []) == [[None], [None]]
    lines = [json.loads(line) for line in asks.read_text().splitlines()]
    assert lines == [{"id": i, "mode": "evidence", "prompt": f"{i}?"} for i in "01"]
    answered = recorded(tmp_path, *({**line, "reply": GOOD} for line in lines))
    answered.check_several()
    assert answered.ask(asked, read_facts, ctx, []) == [[RIGHT], [RIGHT]]
    assert answered.remarks("01", ["evidence"]) == []
    problems: list[str] = []
    judge = RecordedJudge(file=asks, on_error="skip", attempts=1)  # not answered yet
    judge.ask(asked[:1], read_facts, ctx, problems)
    assert problems == ["0 (evidence: no reply in asks.jsonl)"]


def test_questions_are_added_to_what_the_file_has(ctx: Context, tmp_path: Path) -> None:
    asked = [Asked(id=i, mode="evidence", prompt=f"{i}?") for i in "01"]
    done = {"id": "0", "mode": "evidence", "prompt": "0?", "reply": GOOD, "rater": "me"}
    file = tmp_path / "replies.jsonl"
    for kept in (json.dumps(done), "\ufeff" + json.dumps(done) + "\r\n"):
        file.write_text(kept, newline="")
        judge = RecordedJudge(file=file, asks=file, attempts=1)
        assert judge.ask(asked, read_facts, ctx, []) == [[RIGHT], [None]]
        assert file.read_text().startswith(kept.strip())
        second = file.read_text().splitlines()[1]
        assert json.loads(second) == {"id": "1", "mode": "evidence", "prompt": "1?"}
    file.write_text(json.dumps([done]))
    with pytest.raises(ClaimflowError, match=r"replies\.jsonl holds a JSON list.* name another"):
        judge.ask(asked, read_facts, ctx, [])
    assert json.loads(file.read_text()) == [done]


def test_without_a_question_no_file_is_written(ctx: Context, tmp_path: Path) -> None:
    asks = tmp_path / "asks.jsonl"
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": GOOD}, asks=asks)
    asked = [Asked(id="0", mode="evidence", prompt="0?")]
    for some in (asked, []):
        judge.ask(some, read_facts, ctx, [])
        assert not asks.exists()
        assert judge.asides() == [
            f"No question was left without a reply, so {asks} was not written."
        ]
    judge.ask([Asked(id="1", mode="evidence", prompt="1?")], read_facts, ctx, [])  # none replied to
    assert len(asks.read_text().splitlines()) == 1
    assert judge.asides() == []


def test_an_error_without_replies_says_what_to_do(ctx: Context, tmp_path: Path) -> None:
    line = {"id": "0", "mode": "evidence", "reply": GOOD}
    asked = [Asked(id="0", mode="evidence", prompt="")]
    judge = recorded(tmp_path, {**line, "mode": "evidenc"})
    remedy = (
        r"judge\.asks=FILE writes the questions out; on_error=skip gives what needs no judge\.$"
    )
    which = (
        r"no reply in replies\.jsonl, which has mode evidenc \(modes are evidence, questions, .*"
    )
    with pytest.raises(ClaimflowError, match=rf"\(evidence\): {which}\. {remedy}"):
        judge.ask(asked, read_facts, ctx, [])
    judge = recorded(tmp_path, {**line, "run": 0}, repeats=2)
    with pytest.raises(ClaimflowError, match=rf"\(evidence, run 2\): no reply in .*\. {remedy}"):
        judge.ask(asked, read_facts, ctx, [])


def test_lines_of_a_recording_that_do_not_count_are_named(ctx: Context, tmp_path: Path) -> None:
    line = {"id": "0", "mode": "evidence", "reply": GOOD}
    judge = recorded(
        tmp_path, line, {**line, "reply": counts((1, 1), (1, 1))}, {**line, "id": 9},
        {**line, "mode": "evidenc"}, {**line, "run": 1},
    )  # fmt: skip
    asked = [Asked(id="0", mode="evidence", prompt="")]
    assert judge.ask(asked, read_facts, ctx, []) == [[RIGHT]]  # the first counts
    name = "Recorded replies of replies.jsonl"
    assert judge.remarks(["0"], ["evidence"]) == [
        f"{name} passed over, to nothing that was asked (3): line 3 (9, evidence), "
        "line 4 (0, evidenc), line 5 (0, evidence, run 1).",
        f"{name} passed over, to a question that a line before has (1): line 2 (0, evidence).",
        f"{name} without a prompt (1): whether the judge saw this evidence is not known.",
    ]
    with pytest.raises(ClaimflowError, match=r"replies\.jsonl is empty: write a line with id"):
        recorded(tmp_path).ask(asked, read_facts, ctx, [])


def test_a_bad_line_of_recorded_replies_is_skipped_as_the_error_says(
    ctx: Context, tmp_path: Path
) -> None:
    file = tmp_path / "replies.jsonl"
    line = json.dumps({"id": "0", "mode": "evidence", "reply": GOOD})
    file.write_text(f"{line}\n{{broken\n")
    asked = [Asked(id=i, mode="evidence", prompt="") for i in "01"]
    with pytest.raises(ClaimflowError, match=r"replies\.jsonl, line 2: .* set on_error=skip"):
        RecordedJudge(file=file).ask(asked, read_facts, ctx, [])
    problems: list[str] = []
    judge = RecordedJudge(file=file, on_error="skip", attempts=1)
    assert judge.ask(asked, read_facts, ctx, problems) == [[RIGHT], [None]]
    why = "no reply in replies.jsonl (lines that can't be read: 2)"
    assert problems == [f"1 (evidence: {why})"]


# Control items


def test_control_items_tell_a_judge_that_does_not_read(ctx: Context, tmp_path: Path) -> None:
    equal, other = (json.dumps(counts((n, 2), (n, 2))) for n in (2, 0))
    right = [equal if value else other for *_, value in ITEMS]
    assert control(LlmJudge(engine=Flaky(says=right)), PROMPT, ctx) is None
    Flaky.asked.clear()
    note = control(LlmJudge(engine=Flaky(says=[equal])), PROMPT, ctx)  # says yes to all
    assert note
    assert "too weak to judge" in note
    assert "2 of 4" in note
    assert control(recorded(tmp_path), PROMPT, ctx) is None
