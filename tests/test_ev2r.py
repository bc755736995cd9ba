"""The Ev2R scorers: worked values, what each part needs, and a run with the embedded model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st

from components.assets import MINILM, SMOLLM2
from components.cache import Cache
from components.engines.transformers import TransformersEngine
from components.errors import ClaimflowError
from components.files import home
from components.reason.verdict import HeadVerdict, MajorityVerdict
from components.records import AVERITEC_LABELS, Answer, Claim, Question
from components.retrieve.encoder import Encoder
from components.score import overlap
from components.score.base import Scores, score_once
from components.score.ev2r import Ev2r, f1_of
from components.score.judge import Facts, LlmJudge
from components.score.similarity import TrainedSimilarity, halves
from components.step import Context
from flows.cli import CONF
from flows.score import main
from tests.conftest import command
from tests.judging import counts, recorded
from tests.test_averitec_score import BAN, FINE, OTHER, claim, prediction, values
from tests.test_flow_score import GOLD, QAS
from tests.test_verdict import TOWNS, toys

S, R, NEE, CE = AVERITEC_LABELS
REPLY = counts((3, 5), (1, 2))  # precision .6, recall .5


def train_file(folder: Path, *labels: str) -> Path:
    """Claims with these labels, as a file of AVeriTeC."""
    claims = [
        {"claim": f"Claim {i}.", "label": label, "questions": [
            {"question": "So?", "answers": [{"answer": f"Answer {i}."}, {"answer": "More."}]}]}
        for i, label in enumerate(labels)
    ]  # fmt: skip
    file = folder / "train.json"
    file.write_text(json.dumps(claims))
    return file


def scored(
    folder: Path, scorer: Ev2r, gold: list[Claim] | None = None, qas: Any = (FINE,)
) -> Scores:
    ctx = Context(Cache(folder / "cache"), seed=scorer.seed)
    return scorer.score_with(ctx, gold or [claim()], [prediction(qas=qas)])


def test_the_weighted_score_worked(tmp_path: Path) -> None:
    scorer = Ev2r(
        judge=recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": REPLY}),
        parts=["reference", "proxy"],
        proxy=MajorityVerdict(),  # Refuted with .8
        train=train_file(tmp_path, R, R, S, R, R),
        draws=50,
    )
    found = values(scored(tmp_path, scorer))
    assert list(found) == scorer.names()
    assert found["ev2r_precision"] == 0.6
    assert found["ev2r_recall"] == 0.5
    assert found["ev2r_f1"] == pytest.approx(0.545455, abs=5e-7)
    assert found["proxy"] == 0.8
    assert found["ev2r"] == pytest.approx(0.672727, abs=5e-7)
    scorer.weight = 0.25
    assert values(scored(tmp_path, scorer))["ev2r"] == pytest.approx(0.25 * 6 / 11 + 0.75 * 0.8)


@given(st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None)
def test_f1_lies_between_precision_and_recall(precision: float, recall: float) -> None:
    f1 = f1_of(Facts(precision=precision, recall=recall))
    assert min(precision, recall) - 1e-12 <= f1 <= max(precision, recall) + 1e-12
    assert f1_of(Facts(precision=0, recall=0)) == 0


def test_judged_parts_without_reference(tmp_path: Path) -> None:
    lines = [
        {"id": "0", "mode": "proxy", "reply": {"explanation": "…", "label": label}, "run": run}
        for run, label in enumerate(("refuted", "Supported", "REFUTES", "Refuted"))
    ]
    settled = {"facts": "…", "support": 1, "contradict": 2, "facts count": 4}
    lines.append({"id": "0", "mode": "reference_less", "reply": settled})
    judge = recorded(tmp_path, *lines, repeats=4)
    scores = scored(tmp_path, Ev2r(judge=judge, parts=["proxy_llm", "reference_less"], draws=50))
    assert values(scores) == {"proxy_llm": 0.75, "reference_less": 0.75}
    assert not scores.incomplete


def test_proxy_by_the_probability_of_the_gold_label(tmp_path: Path) -> None:
    """Letters of the four labels with p .1 .6 .1 0: Refuted has .6 of .8; by log-probabilities."""
    scores = [math.log(0.1), math.log(0.6), math.log(0.1), -800]
    line = {"id": "0", "mode": "proxy_probability", "scores": scores}
    scorer = Ev2r(judge=recorded(tmp_path, line), parts=["proxy_probability"], draws=50)
    assert values(scored(tmp_path, scorer))["proxy_probability"] == pytest.approx(0.75)
    scorer.judge = recorded(tmp_path, {**line, "scores": []})
    failed = scored(tmp_path, scorer)
    assert values(failed) == {}
    assert "no log-probabilities in the reply" in failed.unmeasured["proxy_probability"]


def test_failed_replies_are_left_out_or_count_nought_officially(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": REPLY})
    gold = [claim("0"), claim("1")]
    given = [prediction("0", qas=[FINE]), prediction("1", qas=[FINE])]
    found = {}
    for official in (False, True):
        scorer = Ev2r(judge=judge, parts=["reference"], official=official, draws=50)
        ctx = Context(Cache(tmp_path / "cache"))
        found[official] = scorer.score_with(ctx, gold, given)
    assert values(found[False])["ev2r_recall"] == 0.5
    assert found[False].per_claim[1]["ev2r_recall"] is None
    assert any("left out" in note and "no reply" in note for note in found[False].notes)
    assert values(found[True])["ev2r_recall"] == 0.25
    note = "Judge calls that count 0 (1): 1 (evidence: no reply in replies.jsonl)."
    assert note in found[True].notes


def test_what_nothing_was_judged_for_has_no_value_officially_either(tmp_path: Path) -> None:
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": REPLY}, on_error="skip")
    parts = ["reference", "proxy_llm", "proxy_probability", "meteor"]
    scores = scored(tmp_path, Ev2r(judge=judge, parts=parts, official=True, draws=50))
    assert list(scores.unmeasured) == ["proxy_llm", "proxy_probability"]
    assert {"ev2r_f1", "meteor"} <= set(values(scores))
    assert "proxy_llm" not in values(scores)
    assert not [note for note in scores.notes if "count 0" in note]


def test_a_reply_needs_both_sides(tmp_path: Path) -> None:
    half = {k: v for k, v in REPLY.items() if "reference" in k}
    judge = recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": half})
    scores = scored(tmp_path, Ev2r(judge=judge, parts=["reference"]))
    assert values(scores) == {}
    assert list(scores.unmeasured) == ["ev2r_precision", "ev2r_recall", "ev2r_f1"]
    assert any("no counts of predicted facts" in note for note in scores.notes)


def test_without_evidence_all_is_nought(tmp_path: Path) -> None:
    parts = ["reference", "proxy_llm", "reference_less", "rouge_l", "bleu", "meteor",
             "hungarian_meteor"]  # fmt: skip
    scores = scored(tmp_path, Ev2r(judge=recorded(tmp_path), parts=parts, draws=50), qas=())
    assert set(values(scores).values()) == {0.0}
    assert not scores.incomplete


def test_what_trains_needs_claims_and_a_note_says_so(tmp_path: Path) -> None:
    scorer = Ev2r(judge=None, parts=["proxy", "meteor"], proxy=MajorityVerdict(), draws=50)
    scores = scored(tmp_path, scorer)
    assert set(values(scores)) == {"meteor"}
    assert any("scorer.train=FILE" in note for note in scores.notes)


def test_scored_claims_are_no_training_claims(tmp_path: Path) -> None:
    scorer = Ev2r(
        judge=None, parts=["proxy"], proxy=MajorityVerdict(), draws=50,
        train=train_file(tmp_path, S, R),
    )  # fmt: skip
    gold = [claim()]
    gold[0].text = "claim 0. "
    scores = scored(tmp_path, scorer, gold)
    assert values(scores)["proxy"] == 1  # only the refuted one is left
    assert any("1 of 2 training claims" in note for note in scores.notes)
    gold.append(claim())
    gold[1].id, gold[1].text = "1", "Claim 1."
    with pytest.raises(ClaimflowError, match=r"All 2 claims of .* scorer\.train=FILE"):
        scored(tmp_path, scorer, gold)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ClaimflowError, match="Did you mean 'rouge_l'"):
        Ev2r(judge=None, parts=["rougel"])
    with pytest.raises(ClaimflowError, match=r"scorer\.judge is null"):
        Ev2r(judge=None, parts=["reference"])
    with pytest.raises(ClaimflowError, match=r"scorer\.weight is 2"):
        Ev2r(judge=None, parts=["bleu"], weight=2)
    with pytest.raises(ClaimflowError, match="no such file"):
        Ev2r(judge=None, parts=["bleu"], train=tmp_path / "none.json")


# Word overlap


def test_rouge_l_by_hand() -> None:
    # Longest common subsequence "the cat the mat": 4 of 5 and of 6 words.
    value = overlap.rouge_l("The cat, near the mat", "the cat sat on the mat")
    assert value == pytest.approx(2 * (4 / 5) * (4 / 6) / (4 / 5 + 4 / 6))


def test_bleu_by_hand() -> None:
    assert overlap.bleu("the cat sat on the mat", "the cat sat on the mat") == pytest.approx(1)
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 fours, of equal length.
    found = overlap.bleu("the cat lay on the mat", "the cat lay near the mat")
    assert found == pytest.approx((5 / 6 * 3 / 5 * 1 / 4 * (1 / 2) / 3) ** 0.25)
    assert overlap.bleu("the cat", "the cat sat on") == pytest.approx(2.718281828 ** (1 - 4 / 2))


def test_meteor_of_texts() -> None:
    assert overlap.meteor("the cat", "the cat sat on the mat") == pytest.approx(0.178571, abs=5e-7)


@given(st.text(max_size=40), st.text(max_size=40))
@settings(deadline=None)
def test_overlap_lies_between_0_and_1(a: str, b: str) -> None:
    for measure in (overlap.rouge_l, overlap.bleu, overlap.meteor):
        assert 0 <= measure(a, b) <= 1 + 1e-12
        assert measure("", b) == measure(a, "") == 0


def test_overlap_of_evidence_joins_all_pairs(tmp_path: Path) -> None:
    gold = Claim(id="0", text="", label=R, questions=[
        Question(question="Is it so?", answers=[
            Answer(answer="Yes", answer_type="Boolean", boolean_explanation="It is so.")]),
        Question(question="Who?", answers=[Answer(answer="The mayor.")]),
    ])  # fmt: skip
    scorer = Ev2r(judge=None, parts=["rouge_l", "bleu"], draws=50)
    same = [("Is it so?", "Yes. It is so."), ("Who?", "The mayor.")]
    assert values(scored(tmp_path, scorer, [gold], same)) == pytest.approx(
        {"rouge_l": 1, "bleu": 1}
    )
    late = values(scored(tmp_path, scorer, [gold], [OTHER] * 10 + same))
    assert late["rouge_l"] == 0  # the first ten count


# Trained parts


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    if not (home() / "models" / MINILM).is_dir():
        pytest.skip("no model laid out")
    return Encoder(model=Path(MINILM))


def town_claims() -> list[Claim]:
    """Two answers a claim, which name its town."""
    return [
        Claim(id=town, text=f"{town} is large.", label=R, questions=[
            Question(question=f"How many people live in {town}?",
                     answers=[Answer(answer=f"In {town} live {n} thousand people.")]),
            Question(question=f"Is {town} a city?",
                     answers=[Answer(answer=f"{town} is a village by the sea.")]),
        ])
        for n, town in enumerate(TOWNS)
    ]  # fmt: skip


def test_trained_similarity_tells_own_from_other_evidence(encoder: Encoder, tmp_path: Path) -> None:
    claims = town_claims()
    ctx = Context(Cache(tmp_path), claims[:6], 13)
    sides = halves(claims[6:])
    own = TrainedSimilarity(encoder=encoder, C=1.0).score(sides, ctx)
    wrong = [(a, b) for (a, _), (_, b) in zip(sides, sides[1:] + sides[:1], strict=True)]
    other = TrainedSimilarity(encoder=encoder, C=1.0).score(wrong, ctx)
    assert all(0 <= value <= 1 for value in own + other)
    assert min(own) > max(other)
    equal = TrainedSimilarity(encoder=encoder, C=1.0).score([(sides[0][0], []), sides[0]], ctx)
    assert equal[0] == 0
    assert equal[1] == pytest.approx(own[0], abs=1e-5)
    with pytest.raises(ClaimflowError, match="two or more gold answers"):
        TrainedSimilarity(encoder=encoder).score(sides, Context(Cache(tmp_path), claims[:1]))


def test_proxy_is_the_probability_of_the_gold_verdict(encoder: Encoder, tmp_path: Path) -> None:
    train = toys(TOWNS[:5])
    gold = toys(TOWNS[5:])
    file = tmp_path / "train.json"
    file.write_text(json.dumps([
        {"claim": f"{c.text} {c.label}", "label": c.label, "questions": [
            {"question": q.question, "answers": [{"answer": a.answer} for a in q.answers]}
            for q in c.questions]}
        for c in train
    ]))  # fmt: skip
    scorer = Ev2r(judge=None, parts=["proxy"], proxy=HeadVerdict(encoder=encoder), train=file)
    given = [
        prediction(
            claim.id, str(claim.label), [(q.question, q.answers[0].answer) for q in claim.questions]
        )
        for claim in gold
    ]
    ctx = Context(Cache(tmp_path))
    right = values(scorer.score_with(ctx, gold, given))["proxy"]
    for turned in gold:  # the evidence now speaks against the gold verdict
        turned.label = S if turned.label == R else R
    wrong = values(scorer.score_with(ctx, gold, given))["proxy"]
    assert right > 0.6
    assert right + wrong == pytest.approx(1, abs=1e-4)


# As a command, and with the embedded model


def test_as_a_command(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    evidence = [{"question": q, "answer": a, "url": ""} for q, a in QAS]
    team = [{"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}]
    (tmp_path / "team.json").write_text(json.dumps(team))
    files = [f"predictions={tmp_path}/team.json", f"gold={tmp_path}/gold.json"]
    done = command(
        "flows.score", *files, "scorer=overlap", f"out={tmp_path}/out.json",
        CLAIMFLOW_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "out.json").read_text())
    assert run["measures"]["hungarian_meteor"]["value"] == pytest.approx(0.358987, abs=5e-7)
    assert set(run["measures"]) == {"rouge_l", "bleu", "meteor", "hungarian_meteor"}


def test_measures_that_no_claim_was_judged_for_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line, a dash and null with the reason; an error afterwards unless on_error=skip."""
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    evidence = [{"question": q, "answer": a, "url": ""} for q, a in QAS]
    team = [{"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}]
    (tmp_path / "team.json").write_text(json.dumps(team))
    recorded(tmp_path, {"id": "0", "mode": "evidence", "reply": "I can't tell."})
    words = [f"predictions={tmp_path}/team.json", f"gold={tmp_path}/gold.json", "scorer=ev2r",
             "scorer.parts=[reference,meteor]", "judge=recorded",
             f"judge.file={tmp_path}/replies.jsonl", f"cache={tmp_path}/cache",
             f"out={tmp_path}/out.json", f"to={tmp_path}/to"]  # fmt: skip
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = compose("score", words)
        lenient = compose("score", [*words, "on_error=skip"])
    why = "0 of 1 claims judged; first 0 (evidence: no counts of reference facts in the reply)"
    with pytest.raises(ClaimflowError, match=r"3 of 4 measures have no value: ev2r_precision"):
        main(config)
    for run in (lambda: None, lambda: main(lenient)):
        run()
        printed = " ".join(capsys.readouterr().out.split())
        assert f"No value for ev2r_precision, ev2r_recall, ev2r_f1: {why}." in printed
        assert "Ev2R recall ev2r_recall –" in printed
        (found,) = json.loads((tmp_path / "out.json").read_text())
        assert found["measures"]["ev2r_recall"] == {"value": None, "reason": why}
        assert found["measures"]["meteor"]["value"] > 0
        assert json.loads((tmp_path / "to" / "metrics.json").read_text())["ev2r_f1"] is None


@pytest.mark.slow
def test_all_parts_with_the_embedded_models(encoder: Encoder, tmp_path: Path) -> None:
    if not (home() / "models" / SMOLLM2).is_dir():
        pytest.skip("no model laid out")
    engine = TransformersEngine(model=Path(SMOLLM2))
    scorer = Ev2r(
        judge=LlmJudge(engine=engine, max_tokens=8, attempts=1),
        parts=["reference", "proxy", "proxy_llm", "proxy_probability", "reference_less", "trained",
               "rouge_l", "bleu", "meteor", "hungarian_meteor"],
        proxy=HeadVerdict(encoder=encoder),
        similarity=TrainedSimilarity(encoder=encoder),
        train=train_file(tmp_path, S, R, NEE, CE, R, S),
        draws=50,
    )  # fmt: skip
    gold, given = [claim("0")], [prediction("0", R, [BAN, FINE])]
    cache = Cache(tmp_path / "cache")
    scores, _ = score_once(cache, scorer, gold, given)
    assert any("too weak to judge" in warning for warning in scores.warnings)
    found = values(scores)
    assert 0 < found["proxy_probability"] < 1
    assert {"proxy", "trained", "rouge_l", "bleu", "meteor"} <= set(found)
    assert all(0 <= value <= 1 for value in found.values())
    assert score_once(cache, scorer, gold, given)[0] == scores
