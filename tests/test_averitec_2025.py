"""The AVeriTeC 2025 scorer: the worked values, by default and by the official rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir

from components.assets import SMOLLM2
from components.cache import Cache
from components.datasets.gold import read_gold
from components.datasets.submission import write_csv
from components.engines.transformers import TransformersEngine
from components.errors import ClaimflowError
from components.files import home
from components.records import AVERITEC_LABELS, Claim, Evidence, Prediction
from components.score.averitec_2025 import Averitec2025
from components.score.base import Scores, score_once
from components.score.judge import LlmJudge
from components.step import Context
from flows.cli import CONF
from flows.stress import main as stress
from tests.conftest import command
from tests.judging import Flaky, Overloaded, counts, recorded
from tests.little import models
from tests.test_averitec_score import BAN, FINE, OTHER, claim, prediction, values

S, R, NEE, CE = AVERITEC_LABELS
QUESTIONS = {"mode": "questions", "reply": counts((1, 1), (1, 2), "questions")}
# The five claims of the worked example: recalls .5, .6, failed, 4/3, 1.0.
FIVE = [
    counts((3, 4), (2, 4)),
    counts((3, 4), (3, 5)),
    "no JSON at all",
    counts((1, 2), (4, 3)),
    counts((2, 2), (2, 2)),
]


def five(folder: Path, first: int = 0, **more: object) -> Scores:
    """Labels are right except the last."""
    ids = [str(first + i) for i in range(5)]
    lines = [{"id": i, "mode": "evidence", "reply": r} for i, r in zip(ids, FIVE, strict=True)]
    lines += [{"id": i, **QUESTIONS} for i in ids]
    scorer = Averitec2025(judge=recorded(folder, *lines), draws=50, **more)  # type: ignore[arg-type]
    given = [prediction(i, S if i == ids[4] else R, [FINE]) for i in ids]
    return scorer.score_with(Context(Cache(folder)), [claim(i) for i in ids], given)


def test_five_claims_by_the_official_rule(tmp_path: Path) -> None:
    scores = five(tmp_path, official=True)
    found = values(scores)
    assert found.keys() == set(Averitec2025(judge=recorded(tmp_path)).names())
    assert found["ev2r_score_at_0.50"] == 0.4
    assert found["ev2r_qa"] == 0.6867  # rounded to 4 decimals
    rows = [row["ev2r_qa"] for row in scores.per_claim]
    assert sum(rows) / 5 == pytest.approx(0.686667, abs=5e-7)
    assert rows[2] == 0
    assert found["ev2r_q"] == 0.5
    (quirks,) = [note for note in scores.notes if "quirks" in note]
    assert "counts 0 (1 here)" in quirks
    assert "0 of 5 rows differ" in quirks


def test_five_claims_by_the_defined_rule(tmp_path: Path) -> None:
    scores = five(tmp_path)
    found = values(scores)
    # The failed one is left out, not scored 0, and no recall is above 1.
    assert found["ev2r_qa"] == pytest.approx((0.5 + 0.6 + 1 + 1) / 4)
    assert found["ev2r_score_at_0.50"] == 0.5
    assert scores.per_claim[2]["ev2r_qa"] is None
    (note,) = [note for note in scores.notes if "left out" in note]
    assert "(1): 2 (evidence: no counts of reference facts in the reply)" in note
    assert scores.incomplete
    low, high = scores.measures["ev2r_qa"].low, scores.measures["ev2r_qa"].high
    assert low is not None
    assert high is not None
    assert low < found["ev2r_qa"] < high


def test_ids_that_begin_elsewhere_count_nought_officially(tmp_path: Path) -> None:
    official = values(five(tmp_path, first=10, official=True))
    assert official["ev2r_qa"] == official["ev2r_score_at_0.50"] == 0
    assert official["ev2r_q"] == 0.5  # this mean does not look at ids
    assert values(five(tmp_path, first=10))["ev2r_score_at_0.50"] == 0.5


def test_old_meteor_worked(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": "?"},
                     {"id": "0", "mode": "questions", "reply": "?"})  # fmt: skip
    gold, given = [claim()], [prediction(qas=[BAN, FINE])]
    scorer = Averitec2025(judge=judge, draws=50)
    scores = scorer.score_with(Context(Cache(tmp_path)), gold, given)
    found = values(scores)
    assert found["meteor_q"] == pytest.approx(0.998114, abs=5e-7)
    assert found["meteor_qa"] == pytest.approx(0.666245, abs=5e-7)
    assert found["meteor_score_at_0.25"] == 1
    assert "ev2r_qa" not in found  # no reply that can be read, so no value
    # The same from files of 2025, where a gold question stands once for each answer.
    as_written = [
        Prediction(id="0", claim="", label=R, evidence=[
            Evidence(question="Did the city ban the cars?", answer="Yes"),
            Evidence(question="How much is the fine?", answer="The fine is 40 crowns."),
            Evidence(question="How much is the fine?", answer="It is 80 crowns."),
        ])
    ]  # fmt: skip
    write_csv(tmp_path / "solution.csv", as_written, split="gold")
    read = read_gold(tmp_path / "solution.csv")
    again = values(scorer.score_with(Context(Cache(tmp_path)), read, given))
    assert again["meteor_q"] == pytest.approx(0.998114, abs=5e-7)
    assert again["meteor_qa"] == pytest.approx(0.666245, abs=5e-7)


def test_what_the_judge_is_shown(tmp_path: Path) -> None:
    Flaky.asked.clear()
    judge = LlmJudge(engine=Flaky(says=[json.dumps(counts((1, 1), (1, 1)))]))
    gold, given = [claim("0"), claim("1")], [prediction("0", R, [OTHER] * 10 + [FINE])]
    Averitec2025(judge=judge, draws=50).score_with(Context(Cache(tmp_path)), gold, given)
    shown = [request.prompt[0].content for request in Flaky.asked]  # type: ignore[union-attr]
    assert len(shown) == 2 + 4  # one claim in two modes, and control items
    questions, evidence = shown[:2]
    assert "REFERENCE questions:\nDid the city ban the cars? How much is the fine?\n" in questions
    assert "Did the city ban the cars? Yes. The city introduced the ban in May.\n" in evidence
    assert evidence.count("xqz wvk") == 10
    assert "PREDICTED evidence:\nxqz wvk" in evidence
    assert evidence.count("40 crowns") == 1  # the eleventh is cut
    Flaky.asked.clear()
    scorer = Averitec2025(judge=judge, draws=50, official=True)
    scorer.score_with(Context(Cache(tmp_path)), gold, given)
    shown = [request.prompt[0].content for request in Flaky.asked]  # type: ignore[union-attr]
    assert "the cars? How much is the fine? How much is the fine?\n" in shown[0]
    assert shown[1].count("xqz\t\t\nwvk\t\t\n\n") == 10
    assert shown[1].count("40 crowns") == 2  # all are judged


def test_nothing_to_judge_is_nought_and_costs_no_call(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": FIVE[4]},
                     {"id": "0", **QUESTIONS})  # fmt: skip
    gold = [claim(str(i)) for i in range(3)]
    given = [prediction("0", R, [FINE]), prediction("1", R)]
    scores = Averitec2025(judge=judge).score_with(Context(Cache(tmp_path)), gold, given)
    assert [row["ev2r_qa"] for row in scores.per_claim] == [1, 0, 0]
    assert values(scores)["ev2r_score_at_0.50"] == pytest.approx(1 / 3)
    assert not scores.incomplete
    assert "Claims without prediction, counted as wrong (1): 2." in scores.notes


def test_repeats_give_a_deviation(tmp_path: Path) -> None:
    lines = [
        {"id": "0", "mode": "evidence", "reply": counts((1, 1), (n, 4)), "run": run}
        for run, n in enumerate((1, 3, 4))
    ]
    judge = recorded(tmp_path, *lines, {"id": "0", **QUESTIONS}, repeats=3)
    scores = Averitec2025(judge=judge).score_with(
        Context(Cache(tmp_path)), [claim()], [prediction(qas=[FINE])]
    )
    assert values(scores)["ev2r_qa"] == pytest.approx(2 / 3)
    assert values(scores)["ev2r_score_at_0.50"] == pytest.approx(2 / 3)
    row = {row["measure"]: row for row in scores.tables["repeats"]}["ev2r_qa"]
    assert [row["run_1"], row["run_2"], row["run_3"]] == [0.25, 0.75, 1.0]
    assert row["sd"] == pytest.approx(0.381881, abs=5e-7)
    assert any("ev2r_qa 0.6667 ± 0.3819" in note for note in scores.notes)


def test_order_of_files_does_not_matter(tmp_path: Path) -> None:
    lines = [{"id": str(i), "mode": "evidence", "reply": r} for i, r in enumerate(FIVE)]
    lines += [{"id": str(i), **QUESTIONS} for i in range(5)]
    gold = [claim(str(i)) for i in range(5)]
    given = [prediction(str(i), R, [FINE]) for i in range(5)]
    for official in (False, True):
        scorer = Averitec2025(judge=recorded(tmp_path, *lines), official=official)
        ctx = Context(Cache(tmp_path))
        straight = scorer.score_with(ctx, gold, given)
        turned = scorer.score_with(ctx, gold[::-1], given[::-1])
        assert values(straight) == pytest.approx(values(turned))


def test_failed_scores_are_not_kept(tmp_path: Path) -> None:
    Flaky.asked.clear()
    good = json.dumps(counts((1, 1), (1, 1)))
    judge = LlmJudge(engine=Flaky(says=["?"] * 3 + [good]))
    scorer = Averitec2025(judge=judge, draws=50)
    given = [prediction(qas=[FINE])]
    cache = Cache(tmp_path)
    scores, hit = score_once(cache, scorer, [claim()], given)
    assert scores.incomplete
    assert not hit
    assert not score_once(cache, scorer, [claim()], given)[1]
    scorer.judge.attempts = 4
    scores, hit = score_once(cache, scorer, [claim()], given)
    assert not scores.incomplete
    assert not hit
    asked = len(Flaky.asked)
    assert score_once(cache, scorer, [claim()], given)[1]
    assert len(Flaky.asked) == asked


def test_without_a_judge_what_needs_none_is_scored(tmp_path: Path) -> None:
    Overloaded.calls.clear()
    judge = LlmJudge(engine=Overloaded(says="!", breaks=99))
    scorer = Averitec2025(judge=judge, draws=50)
    gold, given = [claim(i) for i in "01"], [prediction(i, qas=[FINE]) for i in "01"]
    with pytest.raises(ClaimflowError, match="replied to none of 2 questions"):
        scorer.score_with(Context(Cache(tmp_path)), gold, given)
    judge.on_error = "skip"
    scores = scorer.score_with(Context(Cache(tmp_path)), gold, given)
    assert Overloaded.calls == [1, 1]  # the question of both; no other modes, no control items
    assert list(scores.unmeasured) == ["ev2r_q", "ev2r_qa", "ev2r_score_at_0.50"]
    assert scores.measures["meteor_qa"].value > 0
    assert scores.notes[0].startswith("No value for ev2r_q, ev2r_qa, ev2r_score_at_0.50: 0 of 2")
    assert not scores.warnings
    assert scores.incomplete


def test_claims_without_evidence_do_not_stand_in_for_a_judge_that_fails(tmp_path: Path) -> None:
    lines = [
        {"id": i, "mode": mode, "reply": "?"} for i in "01" for mode in ("questions", "evidence")
    ]
    judge = recorded(tmp_path, *lines, attempts=1)
    gold, given = [claim(i) for i in "0123"], [prediction(i, R, [FINE]) for i in "01"]
    given.append(prediction("2", R))  # no evidence; 3 is not there at all
    scores = Averitec2025(judge=judge, draws=50).score_with(Context(Cache(tmp_path)), gold, given)
    assert [row["ev2r_qa"] for row in scores.per_claim] == [None, None, 0, 0]
    assert list(scores.unmeasured) == ["ev2r_q", "ev2r_qa", "ev2r_score_at_0.50"]
    assert scores.unmeasured["ev2r_q"].startswith("0 of 2 claims judged; first 0 (questions: no")
    assert not scores.measures.keys() & scores.unmeasured.keys()


@pytest.mark.parametrize("official", [False, True])
def test_a_mode_that_nothing_was_judged_in_has_no_value_officially_either(
    tmp_path: Path, official: bool
) -> None:
    """Nought is what the script counts for a call that fails, not for a silent judge."""
    judge = recorded(tmp_path, {"id": "0", **QUESTIONS}, on_error="skip", attempts=1)
    gold, given = [claim(i) for i in "012"], [prediction(i, R, [FINE]) for i in "01"]
    scorer = Averitec2025(judge=judge, official=official, draws=50)
    scores = scorer.score_with(Context(Cache(tmp_path)), gold, given)
    assert list(scores.unmeasured) == ["ev2r_qa", "ev2r_score_at_0.50"]
    why = "0 of 2 claims judged; first 0 (evidence: no reply in replies.jsonl)"
    assert set(scores.unmeasured.values()) == {why}
    assert [row["ev2r_qa"] for row in scores.per_claim] == [None, None, 0]
    assert values(scores)["ev2r_q"] == (0.1667 if official else 0.25)  # 2 is not there
    counted = [note for note in scores.notes if "count 0" in note]
    one = "Judge calls that count 0 (1): 1 (questions: no reply in replies.jsonl)."
    assert counted == ([one] if official else [])
    judge = recorded(tmp_path, {"id": "9", **QUESTIONS}, on_error="skip", attempts=1)
    scorer = Averitec2025(judge=judge, official=official, draws=50)
    scores = scorer.score_with(Context(Cache(tmp_path)), gold, given)
    assert len(scores.unmeasured) == 3


def test_a_run_without_a_reply_has_no_mean(tmp_path: Path) -> None:
    lines = [
        {"id": "0", "mode": mode, "run": 0, "reply": counts((1, 1), (1, 2), mode)}
        for mode in ("questions", "evidence")
    ]
    judge = recorded(tmp_path, *lines, repeats=2, on_error="skip")
    scorer = Averitec2025(judge=judge, draws=50)
    gold, given = [claim("0"), claim("1")], [prediction("0", R, [FINE])]  # 1 needs no judge
    scores = scorer.score_with(Context(Cache(tmp_path)), gold, given)
    (note,) = [note for note in scores.notes if note.startswith("Over 2 runs")]
    assert "judge: ev2r_q 0.2500 (one run alone), ev2r_qa 0.2500 (one run alone)" in note
    row = scores.tables["repeats"][0]
    assert (row["run_1"], row["run_2"], row["sd"]) == (0.25, None, None)
    assert values(scores)["ev2r_q"] == 0.25
    judge = recorded(tmp_path, repeats=2, on_error="skip")
    silent = Averitec2025(judge=judge, draws=50).score_with(Context(Cache(tmp_path)), gold, given)
    assert not [note for note in silent.notes if note.startswith("Over 2 runs")]


def test_means_over_runs_with_failed_calls_are_told_from_the_measure(tmp_path: Path) -> None:
    lines = [{"id": i, "mode": "evidence", "reply": FIVE[1]} for i in "01"]
    lines += [{"id": i, **QUESTIONS} for i in "01"]
    gold, given = [claim(i) for i in "01"], [prediction(i, R, [FINE]) for i in "01"]

    def notes(*more: dict[str, Any]) -> str:
        judge = recorded(tmp_path, *more, *lines, repeats=2, attempts=1)
        scorer = Averitec2025(judge=judge, draws=50)
        return " ".join(scorer.score_with(Context(Cache(tmp_path)), gold, given).notes)

    said = "so the means are others"
    assert said not in notes()
    assert said in notes({"id": "1", "mode": "evidence", "run": 1, "error": "time-out"})


def test_a_recording_that_does_not_say_its_prompts_is_for_one_submission(tmp_path: Path) -> None:
    """flows.compare, flows.stress and sweeps would give its replies to any evidence."""
    gold = [{"claim": "The city banned cars.", "label": "Refuted", "questions": [
        {"question": "Who?", "answers": [{"answer": "The mayor."}]}]}]  # fmt: skip
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    for name in ("one", "two"):
        evidence = [{"question": "Who?", "answer": f"Number {name}.", "url": ""}]
        given = {"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}
        (tmp_path / f"{name}.json").write_text(json.dumps([given]))
    recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": FIVE[1]}, {"id": "0", **QUESTIONS})
    words = [f"gold={tmp_path}/gold.json", "scorer=averitec_2025", "judge=recorded",
             f"cache={tmp_path}/cache"]  # fmt: skip
    compare = ["flows.compare", f"runs=[{tmp_path}/one.json,{tmp_path}/two.json]", *words,
               f"outputs={tmp_path}/outputs", "tracking=none",
               f"out={tmp_path}/out.json"]  # fmt: skip
    loose = f"judge.file={tmp_path}/replies.jsonl"
    several = f"predictions={tmp_path}/one.json,{tmp_path}/two.json"
    sweep = ["flows.score", "-m", several, f"hydra.sweep.dir={tmp_path}", *words]
    for command_ in (compare, ["flows.stress", *words], sweep):
        told = command(*command_, loose)
        assert told.returncode == 1
        assert "replies.jsonl, line 1: the reply has no prompt" in told.stderr
    asks = tmp_path / "asks.jsonl"
    command(*compare, f"judge.asks={asks}")
    lines = [json.loads(line) for line in asks.read_text().splitlines()]
    assert len(lines) == 3  # evidence of either, and the question that both ask
    for line in lines:
        done = "one" in line["prompt"].split("Now the case", 1)[1]
        what = "evidence" if line["mode"] == "evidence" else "questions"
        line["reply"] = counts((1, 1), (1 if done else 0, 1), what)
    recorded(tmp_path, *lines)
    done = command(*compare, loose)
    assert done.returncode == 0, done.stderr
    runs = {run["name"]: run for run in json.loads((tmp_path / "out.json").read_text())["runs"]}
    assert [runs[n]["measures"]["ev2r_qa"]["value"] for n in ("one", "two")] == [1, 0]


def test_a_stress_test_compares_what_was_judged_both_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two claims the judge has no reply for one once it is perturbed."""
    gold = [{"claim": f"Claim {i}.", "label": "Refuted", "questions": [
        {"question": f"Who is {i}?", "answers": [{"answer": f"Mayor {i}."}]}]}
        for i in range(2)]  # fmt: skip
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    asks = tmp_path / "asks.jsonl"
    words = [f"gold={tmp_path}/gold.json", "scorer=averitec_2025", "tests=[noise]",
             "judge=recorded", f"cache={tmp_path}/cache", f"out={tmp_path}/out.json"]  # fmt: skip

    def run(*more: str) -> str:
        with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
            stress(compose("stress", [*words, *more]))
        return capsys.readouterr().out

    with pytest.raises(ClaimflowError, match=r"Without a value here or there: ev2r_q, "):
        run(f"judge.asks={asks}")  # all questions are written
    capsys.readouterr()
    lines = [json.loads(line) for line in asks.read_text().splitlines()]
    assert len(lines) == 8
    for line in lines:
        right = int(line["id"] == "0")  # recall 1 and 0
        what = "evidence" if line["mode"] == "evidence" else "questions"
        line["reply"] = counts((1, 1), (right, 1), what)
    recorded(tmp_path, *(line for line in lines if line in lines[:4] or line["id"] == "0"))
    said = run(f"judge.file={tmp_path}/replies.jsonl")
    found = {e["measure"]: e for e in json.loads((tmp_path / "out.json").read_text())["effects"]}
    for name in ("ev2r_q", "ev2r_qa"):  # over both claims it was .5 before
        effect = found[name]
        assert (effect["before"], effect["after"], effect["claims"]) == (1, 1, 1)
        assert effect["lost"] == ["1"]
    assert "noise: No score from the judge, so left out of the judged measures (2): 1 (" in said
    assert "before and after, 1 of 2; without 1." in said
    replies = [{**line, "reply": {}} if line in lines[:4] else line for line in lines]
    for line, what in zip(replies, [*["questions"] * 2, *["evidence"] * 2], strict=False):
        line["reply"] = counts((1, 1), (0, 1), what)  # nought before
    recorded(tmp_path, *replies)
    said = run(f"judge.file={tmp_path}/replies.jsonl")
    assert "From 0, so without a change in per cent: noise ev2r_q (+0.5000), noise ev2r_qa" in said
    assert "Ev2R recall" not in said.split("Changed by no test")[1].split("##")[0]
    recorded(tmp_path, *lines[:4])
    with pytest.raises(ClaimflowError, match=r"Without a value here or there: ev2r_q, "):
        run(f"judge.file={tmp_path}/replies.jsonl", "judge.on_error=skip")


def test_an_edited_prompt_is_asked_anew_and_an_equal_one_is_not(tmp_path: Path) -> None:
    Flaky.asked.clear()
    judge = LlmJudge(engine=Flaky(says=[json.dumps(counts((1, 1), (1, 1)))]))
    prompt = tmp_path / "own.txt"
    prompt.write_text("{claim} {reference} {predicted}")
    cache, gold, given = Cache(tmp_path / "cache"), [claim()], [prediction(qas=[FINE])]

    def calls() -> int:
        before = len(Flaky.asked)
        scorer = Averitec2025(judge=judge, evidence_prompt=prompt, draws=50)
        score_once(cache, scorer, gold, given)
        return len(Flaky.asked) - before

    assert calls() == 2 + 4  # two modes, and the control items
    assert calls() == 0
    prompt.write_text("{claim} {reference} – {predicted}")
    assert calls() == 1 + 4  # not the questions
    prompt.write_text("{claim} {reference} {predicted}")
    assert calls() == 0


def test_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAIMFLOW_CACHE", str(tmp_path / "cache"))
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": FIVE[1]},
                     {"id": "0", **QUESTIONS})  # fmt: skip
    scores = Averitec2025(judge=judge).score([claim()], [prediction(qas=[FINE])])
    assert values(scores)["ev2r_qa"] == 0.6
    with pytest.raises(ClaimflowError, match="needs predictions"):
        Averitec2025(judge=judge).score([claim()])


def test_by_type(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": FIVE[4]},
                     {"id": "0", **QUESTIONS})  # fmt: skip
    gold: list[Claim] = [claim(types=["Numerical Claim"])]
    scores = Averitec2025(judge=judge).score_with(
        Context(Cache(tmp_path)), gold, [prediction(qas=[FINE])]
    )
    (row,) = scores.tables["by_type"]
    assert (row["group"], row["claims"], row["ev2r_score_at_0.50"]) == ("Numerical Claim", 1, 1)
    assert [row["group"] for row in scores.tables["by_label"]] == [R]


@pytest.mark.slow
def test_a_model_that_is_too_weak_to_judge_is_found_out(tmp_path: Path) -> None:
    """With SmolLM2: see test_ev2r."""
    if not (home() / "models" / SMOLLM2).is_dir():
        pytest.skip("no model laid out")
    engine = TransformersEngine(model=models()[SMOLLM2])
    scorer = Averitec2025(judge=LlmJudge(engine=engine, max_tokens=12, attempts=1), draws=50)
    gold = [claim(str(i)) for i in range(2)]
    given = [prediction(str(i), R, [BAN, FINE]) for i in range(2)]
    cache = Cache(tmp_path)
    scores, _ = score_once(cache, scorer, gold, given)
    assert any("too weak to judge" in warning for warning in scores.warnings)
    assert values(scores)["meteor_qa"] == pytest.approx(0.666245, abs=5e-7)
    judged = [row["ev2r_qa"] for row in scores.per_claim]
    assert all(value is None or 0 <= value <= 1 for value in judged)
    assert all(value is not None for value in judged) or scores.incomplete
    assert score_once(cache, scorer, gold, given)[0] == scores


def test_as_a_command(tmp_path: Path) -> None:
    gold = [{"claim": "The city banned cars.", "label": "Refuted", "questions": [
        {"question": "Who?", "answers": [{"answer": "The mayor."}]}]}]  # fmt: skip
    evidence = [{"question": "Who?", "answer": "The mayor.", "url": ""}]
    given = [{"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}]
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "team.json").write_text(json.dumps(given))
    recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": FIVE[1]}, {"id": "0", **QUESTIONS})
    done = command(
        "flows.score",
        f"predictions={tmp_path}/team.json",
        f"gold={tmp_path}/gold.json",
        "scorer=averitec_2025",
        "judge=recorded",
        f"judge.file={tmp_path}/replies.jsonl",
        f"out={tmp_path}/out.json",
        CLAIMFLOW_CACHE=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "out.json").read_text())
    assert run["measures"]["ev2r_qa"]["value"] == 0.6
    assert run["measures"]["ev2r_score_at_0.50"]["value"] == 1
