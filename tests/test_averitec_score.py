"""The AVeriTeC 2024 scorer: the worked values, real submissions, and what goes wrong."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nltk
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from components.cache import Cache
from components.errors import ClaimflowError
from components.files import ROOT
from components.records import AVERITEC_LABELS, Answer, Claim, Evidence, Prediction, Question
from components.score.averitec import (
    Averitec2024,
    AveritecLegacy,
    assignment,
    averitec_2024,
    gold_strings,
    hungarian_meteor,
)
from components.score.base import Scores, score_once
from components.score.matching import best_sum
from components.score.meteor import meteor
from components.words import tokenise

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "averitec"
S, R, NEE, CE = AVERITEC_LABELS


def claim(id: str = "0", label: str = R, **more: object) -> Claim:
    """A claim with the question types of the worked examples: 4 gold strings of 3 questions."""
    return Claim(
        id=id,
        text="The city banned cars.",
        label=label,
        questions=[
            Question(
                question="Did the city ban the cars?",
                answers=[
                    Answer(
                        answer="Yes",
                        answer_type="Boolean",
                        boolean_explanation="The city introduced the ban in May.",
                    )
                ],
            ),
            Question(
                question="How much is the fine?",
                answers=[
                    Answer(answer="The fine is 40 crowns.", answer_type="Extractive"),
                    Answer(answer="It is 80 crowns.", answer_type="Abstractive"),
                ],
            ),
            Question(question="Who proposed the ban?"),
        ],
        **more,  # type: ignore[arg-type]
    )


def prediction(id: str = "0", label: str = R, qas: object = (), **more: object) -> Prediction:
    evidence = [Evidence(question=q, answer=a) for q, a in qas]  # type: ignore[attr-defined]
    return Prediction(id=id, claim="", evidence=evidence, label=label, **more)  # type: ignore[arg-type]


FINE = ("How much is the fine?", "The fine is 40 crowns.")
BAN = ("Did the city ban the cars?", "Yes")
OTHER = ("xqz", "wvk")


def values(scores: Scores) -> dict[str, float]:
    return {name: measure.value for name, measure in scores.measures.items()}


def test_gold_strings_are_one_an_answer() -> None:
    assert gold_strings(claim()) == [
        "Did the city ban the cars? Yes. The city introduced the ban in May.",
        "How much is the fine? The fine is 40 crowns.",
        "How much is the fine? It is 80 crowns.",
        "Who proposed the ban? No answer could be found.",
    ]
    bare = Question(question="So?", answers=[Answer(answer="Yes", answer_type="Boolean")])
    assert gold_strings(Claim(id="0", text="", questions=[bare])) == ["So? Yes"]


def test_assignment_is_the_best_one_to_one_not_the_greedy() -> None:
    assert assignment([[0.9, 0.8], [0.85, 0.1]]) == pytest.approx(0.825)
    assert assignment([[0.9, 0.8, 0.1]]) == pytest.approx(0.3)
    assert assignment([[0.9], [0.8], [0.1]]) == 0.9
    assert assignment([]) == 0


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)).flatmap(
        lambda shape: arrays(float, shape, elements=st.integers(-3, 9).map(lambda n: n / 7))
    )
)
def test_no_matching_has_a_larger_sum(scores: Any) -> None:
    from scipy.optimize import linear_sum_assignment

    expected = scores[linear_sum_assignment(scores, maximize=True)].sum()
    assert best_sum(scores) == pytest.approx(expected, abs=1e-12)
    assert best_sum(scores.T) == pytest.approx(expected, abs=1e-12)


def test_matching_of_a_large_matrix() -> None:
    from scipy.optimize import linear_sum_assignment

    scores = np.random.default_rng(13).random((60, 80))
    expected = scores[linear_sum_assignment(scores, maximize=True)].sum()
    assert best_sum(scores) == pytest.approx(expected, abs=1e-12)


def test_boolean_explanation_counts() -> None:
    gold = "Is it so? Yes. It is so."
    assert hungarian_meteor(["Is it so? Yes"], [gold]) == pytest.approx(0.391579, abs=5e-7)
    assert hungarian_meteor(["Is it so? Yes"], ["Is it so? Yes"]) == pytest.approx(0.996)


def test_one_perfect_qa_of_four_fails_at_a_quarter() -> None:
    gold = gold_strings(claim())
    row = [meteor(" ".join(FINE), text) for text in gold]
    assert row == pytest.approx([0.1212, 0.9997, 0.7413, 0.1802], abs=5e-5)
    scores = averitec_2024([prediction(qas=[FINE])], [claim()])
    assert values(scores)["qa"] == pytest.approx(0.249928, abs=5e-7)
    assert values(scores)["score_at_0.20"] == 1
    assert values(scores)["score_at_0.25"] == 0


def test_two_qas_of_four() -> None:
    found = values(averitec_2024([prediction(qas=[BAN, FINE])], [claim()]))
    assert found["qa"] == pytest.approx(0.358987, abs=5e-7)
    assert found["q"] == pytest.approx(0.665409, abs=5e-7)
    more = values(averitec_2024([prediction(qas=[OTHER, BAN, OTHER, FINE])], [claim()]))
    assert more["qa"] == found["qa"]  # extra predictions cost nothing


def test_repeated_questions_raise_the_score_and_are_noted() -> None:
    once = averitec_2024([prediction(qas=[FINE])], [claim()])
    often = averitec_2024([prediction(qas=[FINE] * 4)], [claim()])
    assert values(often)["qa"] == pytest.approx(0.5106, abs=5e-5)
    assert values(often)["q"] > values(once)["q"]
    (row,) = often.per_claim  # what it would be worth once
    assert (row["qas"], row["repeats"], row["qa_once"]) == (4, 3, once.per_claim[0]["qa"])
    assert [once.per_claim[0][name] for name in ("repeats", "qa_once")] == [0, values(once)["qa"]]
    assert not any("repeat" in note for note in once.notes)
    assert any("repeat a question" in note and "(1): 0" in note for note in often.notes)


def test_only_the_first_ten_qas_count_and_a_note_says_so() -> None:
    ten = averitec_2024([prediction(qas=[OTHER] * 10)], [claim()])
    late = averitec_2024([prediction(qas=[OTHER] * 10 + [FINE, BAN])], [claim()])
    assert values(late) == values(ten)
    assert values(late)["qa"] == 0
    assert any("more than 10 QAs" in note and ": 0." in note for note in late.notes)


def test_means_of_a_good_and_an_empty_prediction() -> None:
    guessed = [prediction("0", qas=[BAN, FINE]), prediction("1")]
    found = values(averitec_2024(guessed, [claim("0"), claim("1")]))
    assert found["qa"] == pytest.approx(0.179494, abs=5e-7)
    for level, score in {"0.10": 0.5, "0.20": 0.5, "0.25": 0.5, "0.30": 0.5}.items():
        assert found[f"score_at_{level}"] == score
    assert found["score_at_0.40"] == found["score_at_0.50"] == 0


def test_a_level_must_be_passed_not_met() -> None:
    # One token alone scores exactly .5; of two gold strings it matches one: .25.
    gold = Claim(id="0", text="", label=R, questions=[Question(question=q) for q in ("Who", "xqz")])
    guessed = [prediction(qas=[("Who", "")])]
    scores = averitec_2024(guessed, [gold])
    assert values(scores)["q"] == 0.25
    exact = values(scores)["qa"]
    assert 0 < exact < 0.25
    met = averitec_2024(guessed, [gold], levels=[exact])
    below = averitec_2024(guessed, [gold], levels=[exact - 1e-9])
    assert values(met)[f"score_at_{exact:.2f}"] == 0
    assert values(below)[f"score_at_{exact:.2f}"] == 1


def test_label_measures_worked() -> None:
    gold = [claim(str(i), label) for i, label in enumerate((S, R, R, R, NEE))]
    guessed = [prediction(str(i), label) for i, label in enumerate((S, R, S, R, R))]
    found = values(averitec_2024(guessed, gold))
    assert found["f1_supported"] == pytest.approx(2 / 3)
    assert found["f1_refuted"] == pytest.approx(2 / 3)
    assert found["f1_not_enough_evidence"] == 0
    assert found["f1_conflicting_evidence_cherrypicking"] == 0
    assert found["f1_macro"] == pytest.approx(1 / 3)
    assert found["accuracy"] == 0.6


def test_tables() -> None:
    gold = [
        claim("0", R, types=["Numerical Claim"], strategies=["Written Evidence"]),
        claim("1", R, types=["Numerical Claim", "Causal Claim"]),
        claim("2", S, types=["Causal Claim"]),
    ]
    guessed = [
        prediction("0", R, [BAN, FINE]),
        prediction("1", S, [BAN, FINE]),
        prediction("2", "Maybe"),
    ]
    tables = averitec_2024(guessed, gold).tables
    by_type = {row["group"]: row for row in tables["by_type"]}
    evidence = pytest.approx(0.358987, abs=5e-7)
    assert by_type["Numerical Claim"]["claims"] == 2
    # What the official script prints by type does not look at the label.
    assert by_type["Numerical Claim"]["evidence_above_0.25"] == evidence
    assert by_type["Numerical Claim"]["score_at_0.25"] == 0.5
    assert by_type["Causal Claim"]["evidence_above_0.25"] == pytest.approx(0.358987 / 2, abs=5e-7)
    assert [row["group"] for row in tables["by_strategy"]] == ["Written Evidence"]
    by_label = {row["group"]: row["accuracy"] for row in tables["by_label"]}
    assert by_label == {R: 0.5, S: 0}
    confusion = {row["gold"]: row for row in tables["confusion"]}
    assert confusion[R] == {"gold": R, S: 1, R: 1, NEE: 0, CE: 0, "other": 0}
    assert confusion[S]["other"] == 1


def test_pairs_by_id_whatever_the_order() -> None:
    gold = [claim(str(i), label) for i, label in enumerate((S, R, NEE, CE))]
    guessed = [prediction(c.id, str(c.label), [FINE] * (i % 2)) for i, c in enumerate(gold)]
    straight, turned = averitec_2024(guessed, gold), averitec_2024(guessed[::-1], gold)
    assert straight == turned
    assert values(straight)["accuracy"] == 1
    shifted = [claim(str(i + 10), label) for i, label in enumerate((S, R))]  # ids not from 0
    assert (
        values(averitec_2024([prediction("11", R), prediction("10", S)], shifted))["accuracy"] == 1
    )


def test_missing_extra_and_repeated_predictions_are_counted_and_listed() -> None:
    gold = [claim(str(i)) for i in range(5)]
    guessed = [prediction(i, R, [FINE]) for i in ("0", "1", "2", "4")]
    scores = averitec_2024([*guessed, prediction("2", S), prediction("99", R)], gold)
    assert values(scores)["accuracy"] == 0.8
    full = values(averitec_2024([*guessed, prediction("3", R, [FINE])], gold))
    assert values(scores)["qa"] == pytest.approx(full["qa"] * 4 / 5)
    assert scores.per_claim[3]["predicted"] is None
    assert scores.notes[0] == "Claims without prediction, counted as wrong (1): 3."
    assert scores.notes[1] == "Predictions passed over, for no gold claim (1): 99."
    assert scores.notes[2] == "Predictions passed over, repeating an id (1): 2."


def test_an_unknown_label_is_wrong_and_its_nearest_is_named() -> None:
    gold = [claim("0", R), claim("1", S), claim("2", R)]
    guessed = [prediction("0", "REFUTES"), prediction("1", "Suported"), prediction("2", R)]
    scores = averitec_2024(guessed, gold)
    assert values(scores)["accuracy"] == pytest.approx(1 / 3)
    assert (
        "(2): 0 'REFUTES' Did you mean 'Refuted'?, 1 'Suported' Did you mean 'Supported'?"
        in (scores.notes[0])
    )


def test_gold_without_labels() -> None:
    hidden = claim("0")
    hidden.label = None
    with pytest.raises(ClaimflowError, match="None of the 1 gold claims has a label"):
        averitec_2024([prediction()], [hidden])
    scores = averitec_2024([prediction("0"), prediction("1")], [hidden, claim("1")])
    assert values(scores)["accuracy"] == 1
    assert scores.notes == [
        "Gold claims left out, without a label of AVeriTeC (1): 0.",
        f"METEOR with the words and stems of NLTK {nltk.__version__}.",
        "Predictions without evidence, which scores 0 (2 of 2): 0, 1.",
    ]


def test_scoring_twice_changes_neither_input_nor_result() -> None:
    gold, guessed = [claim()], [prediction(qas=[FINE] * 12, probabilities={R: 0.7, S: 0.3})]
    before = copy.deepcopy((gold, guessed))
    first = averitec_2024(guessed, gold)
    assert averitec_2024(guessed, gold) == first
    assert (gold, guessed) == before


def test_calibration_worked() -> None:
    gold = [claim("0", R), claim("1", R), claim("2", S)]
    sure = {R: 0.8, S: 0.2}
    guessed = [prediction("0", R, probabilities=sure), prediction("1", R, probabilities=sure)]
    scores = averitec_2024([*guessed, prediction("2", R, probabilities=sure)], gold)
    found = values(scores)
    assert found["brier"] == pytest.approx((2 * (0.04 + 0.04) + 0.64 + 0.64) / 3)
    assert found["ece"] == pytest.approx(0.8 - 2 / 3)
    (row,) = scores.tables["calibration"]
    assert row == {
        "bin": "0.8-0.9",
        "claims": 3,
        "confidence": pytest.approx(0.8),
        "accuracy": pytest.approx(2 / 3),
    }
    assert "brier" not in values(averitec_2024([prediction("0")], gold))


words = st.lists(st.sampled_from(["the", "fine", "is", "40", "crowns", "town", "ban"]), max_size=6)
qas = st.lists(st.tuples(words.map(" ".join), words.map(" ".join)), max_size=5)


@given(qas, st.randoms())
@settings(max_examples=50, deadline=None)
def test_the_order_of_qas_does_not_matter_and_more_of_them_never_hurt(pairs, random) -> None:  # type: ignore[no-untyped-def]
    gold = gold_strings(claim())
    texts = [f"{q} {a}" for q, a in pairs]
    whole = hungarian_meteor(texts, gold)
    assert 0 <= whole < 1
    assert hungarian_meteor(texts[1:], gold) <= whole + 1e-12
    random.shuffle(texts)
    assert hungarian_meteor(texts, gold) == pytest.approx(whole, abs=1e-12)


def test_equal_input_is_scored_once(tmp_path: Path) -> None:
    cache, scorer = Cache(tmp_path), Averitec2024(draws=50)
    gold, guessed = [claim()], [prediction(qas=[FINE])]
    scores, hit = score_once(cache, scorer, gold, guessed)
    assert not hit
    again, hit = score_once(Cache(tmp_path), scorer, gold, guessed)
    assert hit
    assert again == scores
    assert list(again.measures) == list(scores.measures)  # in the order to be read
    names = [name for name in scorer.names() if name not in ("ece", "brier")]  # of probabilities
    assert list(scores.measures) == names
    assert not score_once(cache, Averitec2024(draws=51), gold, guessed)[1]
    assert not score_once(cache, scorer, gold, [prediction(qas=[BAN])])[1]


def test_a_scorer_says_what_it_lacks() -> None:
    with pytest.raises(ClaimflowError, match="needs predictions"):
        Averitec2024().score([claim()])


# The first script, and official quirks


def legacy(predictions: list[Prediction], gold: list[Claim], **options: object) -> Scores:
    return AveritecLegacy(draws=20, **options).score(gold, predictions)  # type: ignore[arg-type]


def test_justification_is_scored_by_meteor() -> None:
    gold = [claim("0", justification="the cat sat"), claim("1", justification="cat run")]
    guessed = [
        prediction("0", qas=[BAN, FINE], justification="the cat sat"),
        prediction("1", justification="cats running"),
    ]
    scores = legacy(guessed, gold)
    found = values(scores)
    assert found.keys() == {*AveritecLegacy().names()} - {"ece", "brier"}  # of probabilities
    assert found["justification"] == pytest.approx((0.981481 + 0.9375) / 2, abs=5e-7)
    # Above .3 is the evidence of the first alone.
    assert found["justification_at_0.30"] == pytest.approx(0.981481 / 2, abs=5e-7)
    assert found["justification_at_0.40"] == 0
    assert found["qa"] == pytest.approx(0.358987 / 2, abs=5e-7)
    assert not any("justification" in note for note in scores.notes)


def test_without_justification_the_qas_stand_for_it() -> None:
    gold = [claim("0", justification=" ".join((*BAN, *FINE))), claim("1")]
    scores = legacy([prediction("0", qas=[BAN, FINE]), prediction("1")], gold)
    words = len(tokenise([" ".join((*BAN, *FINE))])[0])
    assert values(scores)["justification"] == pytest.approx(1 - 0.5 / words**3)
    assert any("for which their QAs stand (2): 0, 1" in note for note in scores.notes)
    assert any("without a gold one (1): 1" in note for note in scores.notes)
    assert "justification" not in scores.per_claim[1]


def test_string_evidence() -> None:
    gold = [claim("0")]
    texts = [Evidence(question="", answer=" ".join(pair)) for pair in (BAN, FINE)]
    alone = Prediction(id="0", claim="", evidence=texts, label=R)
    found = values(legacy([alone], gold))
    assert found["qa"] == pytest.approx(0.358987, abs=5e-7)
    assert 0 < found["q"] < 0.665409  # the texts are compared with the questions
    later = averitec_2024([alone], gold)
    assert values(later)["q"] == 0
    zero = "Predictions that score 0 in q, whose evidence has no questions (1): 0."
    assert zero in later.notes
    assert zero not in legacy([alone], gold).notes
    both = Prediction(
        id="0", claim="", evidence=[Evidence(question="xqz", answer=""), *texts], label=R
    )
    assert values(legacy([both], gold))["q"] == 0  # questions, where there are any
    assert values(legacy([both], gold))["qa"] == pytest.approx(0.358987, abs=5e-7)
    gold[0].extra["string_evidence"] = ["The town has a ban."]
    assert gold_strings(gold[0])[-1] == "The town has a ban."


def test_a_question_with_two_answers_counts_once_among_questions() -> None:
    once = [Evidence(question=FINE[0], answer=a) for a in (FINE[1], "It is 80 crowns.")]
    asked = Prediction(id="0", claim="", evidence=once, label=R, asked=[FINE[0]])
    found = values(legacy([asked], [claim()]))
    assert found["q"] == values(legacy([prediction(qas=[FINE])], [claim()]))["q"]
    assert found["qa"] > values(legacy([prediction(qas=[FINE])], [claim()]))["qa"]


def test_all_qas_count_on_the_first_evalai_page() -> None:
    late = prediction(qas=[OTHER] * 10 + [BAN, FINE])
    assert values(legacy([late], [claim()]))["qa"] == 0
    assert values(legacy([late], [claim()], first=None))["qa"] == pytest.approx(0.358987, abs=5e-7)


def test_official_fills_a_missing_claim_with_the_first_prediction() -> None:
    gold = [claim("0"), claim("1"), claim("2", S)]
    guessed = [prediction("1", qas=[BAN, FINE])]
    for scorer in (Averitec2024, AveritecLegacy):
        plain = scorer(draws=20).score(gold, guessed)
        assert values(plain)["qa"] == pytest.approx(0.358987 / 3, abs=5e-7)
        assert values(plain)["accuracy"] == pytest.approx(1 / 3)
        quirk = scorer(draws=20, official=True).score(gold, guessed)
        assert values(quirk)["qa"] == pytest.approx(0.358987, abs=5e-7)
        assert values(quirk)["accuracy"] == pytest.approx(2 / 3)
        (note,) = [n for n in quirk.notes if "quirk" in n]
        assert "copy of the first prediction" in note
        assert note.endswith("(2): 0, 2.")
    assert not any("quirk" in note for note in plain.notes)


def test_official_says_what_the_script_prints_by_type() -> None:
    gold = [claim("0", types=["Causal Claim"]), claim("1", S, types=["Causal Claim"])]
    guessed = [prediction(n, qas=[BAN, FINE]) for n in "01"]
    scores = Averitec2024(draws=20, official=True).score(gold, guessed)
    (row,) = scores.tables["by_type"]
    assert row["evidence_above_0.25"] == pytest.approx(0.358987, abs=5e-7)  # label ignored
    assert row["score_at_0.25"] == 0.5
    assert any("evidence_above_0.25 of by_type" in note for note in scores.notes)
    (row,) = legacy(guessed, gold).tables["by_type"]
    assert row["evidence_above_0.20"] == row["evidence_above_0.30"] > 0.35


def test_tables_4_and_5() -> None:
    web = Answer(answer="The fine is 40 crowns.", source_medium="Web text")
    pdf = Answer(answer="It is 80 crowns.", source_medium="PDF")
    one = Claim(id="0", text="", label=R, questions=[Question(question=FINE[0], answers=[web])])
    two = Claim(
        id="1", text="", label=S, questions=[Question(question=FINE[0], answers=[web, pdf])]
    )
    many = Claim(
        id="2", text="", label=S, questions=[Question(question=f"Is it {n}?") for n in range(4)]
    )
    guessed = [prediction("0", qas=[FINE]), prediction("1", qas=[FINE, OTHER, OTHER])]
    tables = averitec_2024(guessed, [one, two, many]).tables
    medium = {row["group"]: row for row in tables["by_medium"]}
    assert {name: row["claims"] for name, row in medium.items()} == {"Web text": 2, "PDF": 1}
    assert medium["PDF"]["qa"] < medium["Web text"]["qa"] < 1
    number = tables["by_gold_qas"]
    assert [(row["group"], row["claims"]) for row in number] == [("1", 1), ("2", 1), ("3+", 1)]
    assert number[0]["qa"] == pytest.approx(0.9997, abs=5e-5)
    assert number[2]["qa"] == 0
    label = {row["group"]: row for row in tables["by_label"]}
    assert (label[R]["score_at_0.25"], label[S]["score_at_0.25"]) == (1, 0)
    assert (label[R]["qas"], label[S]["qas"]) == (1, 1.5)


# Real submissions


def real_claims() -> list[Claim]:
    claims = json.loads((DATA / "dev.json").read_text())
    return [
        Claim(
            id=str(number),
            text=c["claim"],
            label=c["label"],
            questions=[
                Question(
                    question=q["question"],
                    answers=[
                        Answer(
                            answer=a["answer"],
                            answer_type=a["answer_type"],
                            boolean_explanation=a.get("boolean_explanation"),
                        )
                        for a in q["answers"]
                    ],
                )
                for q in c["questions"]
            ],
        )
        for number, c in enumerate(claims)
    ]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no AVeriTeC data")
@pytest.mark.parametrize(
    ("name", "q", "qa", "score", "accuracy"),
    [
        ("hero_8b", 0.4908720881105371, 0.34017033048125667, 0.524, 0.702),
        ("baseline_2024", 0.24038116968072398, 0.1854355388671327, 0.092, 0.546),
    ],
)
def test_real_submissions(name: str, q: float, qa: float, score: float, accuracy: float) -> None:
    records = json.loads((DATA / "predictions_dev" / f"{name}.json").read_text())
    guessed = [
        prediction(
            str(record["claim_id"]),
            record["pred_label"],
            [(e["question"], e["answer"]) for e in record["evidence"]],
        )
        for record in records
    ]
    scores = averitec_2024(guessed, real_claims())
    found = values(scores)
    assert found["q"] == pytest.approx(q, abs=1e-6)
    assert found["qa"] == pytest.approx(qa, abs=1e-6)
    assert found["score_at_0.25"] == pytest.approx(score, abs=1e-6)
    assert found["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    if name == "hero_8b":
        assert any("repeat a question" in note and "(170)" in note for note in scores.notes)


def test_brier_is_the_same_in_every_process() -> None:
    """Sets of strings have another order in each, and sums of floats depend on the order."""
    code = (
        "from components.score.calibration import brier\n"
        "p = {'a': 0.1, 'b': 0.123456789, 'c': 0.3141592653, 'd': 0.4623839457}\n"
        "print([brier({k: v * s for k, v in p.items()}, 'b') for s in (0.7, 0.9, 0.99, 1.0)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in range(6)
    }
    assert len(outputs) == 1


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="no AVeriTeC data")
def test_the_first_script_on_real_claims(tmp_path: Path) -> None:
    """Gold records of other claims, submitted as they are, scored by the plain formula."""
    from nltk.tokenize import word_tokenize
    from nltk.translate.meteor_score import single_meteor_score
    from scipy.optimize import linear_sum_assignment

    from components.datasets.gold import read_gold
    from components.datasets.submission import read_submission

    def strings(record: dict) -> list[str]:  # type: ignore[type-arg]
        found = []
        for question in record["questions"]:
            for answer in question["answers"]:
                found.append(f"{question['question']} {answer['answer']}")
                if answer["answer_type"] == "Boolean" and "boolean_explanation" in answer:
                    found[-1] += f". {answer['boolean_explanation']}"
            if not question["answers"]:
                found.append(f"{question['question']} No answer could be found.")
        return found

    def meteor_of(hypothesis: str, reference: str) -> float:
        return float(single_meteor_score(word_tokenize(reference), word_tokenize(hypothesis)))

    def matched(predicted: list[str], wanted: list[str]) -> float:
        scores = np.array([[meteor_of(p, w) for w in wanted] for p in predicted])
        return float(scores[linear_sum_assignment(scores, maximize=True)].sum() / len(wanted))

    records = json.loads((DATA / "dev.json").read_text())
    gold, submitted = records[:40], records[40:80]
    for n in range(0, 40, 2):
        del submitted[n]["justification"]
    for record in submitted:  # else they would be refused
        del record["claim"]
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    (tmp_path / "pred.json").write_text(json.dumps(submitted))
    scorer = AveritecLegacy(draws=20, levels=[0.1])
    scores = scorer.score(
        read_gold(tmp_path / "gold.json"), read_submission(tmp_path / "pred.json")
    )
    for row, wanted, guessed in zip(scores.per_claim, gold, submitted, strict=True):
        assert row["qa"] == pytest.approx(matched(strings(guessed)[:10], strings(wanted)), abs=1e-9)
        asked = [[q["question"] for q in record["questions"]] for record in (guessed, wanted)]
        assert row["q"] == pytest.approx(matched(asked[0][:10], asked[1]), abs=1e-9)
        justification = guessed.get("justification", " ".join(strings(guessed)[:10]))
        expected = meteor_of(justification, wanted["justification"])
        assert row["justification"] == pytest.approx(expected, abs=1e-9)
        above = expected if row["qa"] > 0.1 else 0
        assert row["justification_at_0.10"] == pytest.approx(above, abs=1e-9)


def test_a_yes_or_no_that_a_solution_does_not_explain_is_noted() -> None:
    def noted(**more: str) -> list[str]:
        answers = [Answer(answer="Yes.", **more), Answer(answer="Her.")]
        questions = [Question(question="Who?", answers=answers)]
        gold = [Claim(id="0", text="", label="Refuted", questions=questions)]
        said = [Prediction(id="0", claim="", evidence=[Evidence("Who?", "Yes.")], label="Refuted")]
        return [line for line in averitec_2024(said, gold, draws=2).notes if "yes or no" in line]

    (line,) = noted()
    assert line.startswith("Claims with a gold yes or no that is not explained, as no answer of")
    assert line.endswith("(1): 0.")
    assert noted(answer_type="Boolean", boolean_explanation="She said so.") == []
    assert noted(answer_type="Extractive") == []


def test_evidence_without_answers_is_noted() -> None:
    told = "Predictions whose evidence has questions and no answers (1): 0."
    for answers, noted in ((["", "No answer could be found."], True), (["", "No."], False)):
        evidence = [Evidence(question=f"Why {a}?", answer=a) for a in answers]
        said = Prediction(id="0", claim="", evidence=evidence, label=R)
        assert (told in averitec_2024([said], [claim("0")]).notes) is noted
