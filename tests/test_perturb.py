"""Perturbations of evidence: what each does, that a seed fixes it, that nothing given changes."""

from __future__ import annotations

import collections
import copy
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.records import Answer, Claim, Evidence, Prediction, Question
from components.report.stress import stress_report
from components.score.averitec import AveritecLegacy, averitec_2024
from components.score.base import Measure, Scores
from components.score.effect import (
    effects,
    grid,
    incomparable,
    order_check,
    repeats_report,
    uncompared,
)
from components.score.formula import measured
from components.score.perturb import (
    ALTERING,
    PRESERVING,
    TESTS,
    base_of,
    in_words,
    perturbed,
    sample,
)
from tests.conftest import command
from tests.test_averitec_score import BAN, FINE, claim, prediction
from tests.test_flow_score import GOLD

QAS = [
    ("How many people live in Vell?", "In 2019 about 1,200 people lived there, three of them old."),
    ("Is the town large?", "No. We are told that it is not, says Ada Lind of Orrin."),
    ("Who is the mayor?", "The mayor is Bo Ek. He was elected. The mayor is who he is."),
]
BASE = [prediction("0", qas=QAS), prediction("1", qas=[("Where?", "By the sea near Port Tarn.")])]


def after(name: str, seed: int = 10, base: list[Prediction] = BASE) -> list[list[tuple[str, str]]]:
    return [[(e.question, e.answer) for e in p.evidence] for p in perturbed(base, name, seed)]


def one(name: str, question: str, answer: str, seed: int = 10) -> tuple[str, str]:
    ((pair,),) = after(name, seed, [prediction(qas=[(question, answer)])])
    return pair


# Each test


def test_completeness_blanks_all_answers() -> None:
    assert after("completeness")[0] == [(question, "") for question, _ in QAS]


def test_random_shuffle_keeps_the_words_and_a_yes_or_no() -> None:
    shuffled = after("random_shuffle")[0]
    for (q, a), (question, answer) in zip(shuffled, QAS, strict=True):
        assert sorted(q.split()) == sorted(question.split())
        assert sorted(a.split()) == sorted(answer.split())
    assert shuffled != QAS
    assert shuffled[1][1].startswith("No. ")


def test_typos_swap_neighbours_in_a_tenth_of_the_words() -> None:
    words = [f"w{chr(97 + i)}xyz" for i in range(20)]
    _, typed = one("fluency_typos", "", " ".join(words))
    changed = [(a, b) for a, b in zip(words, typed.split(), strict=True) if a != b]
    assert 1 <= len(changed) <= 2
    for old, new in changed:
        (i, j) = [k for k in range(len(old)) if old[k] != new[k]]
        assert j == i + 1
        assert sorted(old) == sorted(new)


def test_word_drop_heeds_case() -> None:
    assert one("fluency_word_drop", "The cat is on the mat", "It was not") == ("The cat mat", "It")


def test_numbers_to_words_and_back() -> None:
    said = one("num2text", "By 2.5 %?", "1,200 of 7, route A12 and v1.2.")
    assert said[0] == "By two point five %?"
    assert said[1].startswith("one thousand, two hundred of seven, route A12")
    assert one("text2num", "Three of Twenty?", "No one; a million, threefold")[1] == (
        "No 1; a 1000000, threefold"
    )
    assert in_words("1" * 16) == "1" * 16


def test_synonyms_replace_nouns_by_wordnet() -> None:
    assert one("synonyms", "the car", "they ate quickly in an automobile") == (
        "the auto", "they ate quickly in an car",
    )  # fmt: skip


def test_contractions_and_back() -> None:
    long = "It is said they are not here; we have cannot. IT IS"
    short = "It's said they aren't here; we've can't. It's"
    assert one("contraction", "", "We are here") == ("", "We're here")
    assert one("contraction", "", long)[1].startswith("It's said")
    assert one("expansion", "", short) == (
        "", "It is said they are not here; we have cannot. It is",
    )  # fmt: skip
    assert one("expansion", "", "they don’t")[1] == "they do not"


def test_noise_puts_a_qa_of_another_claim_into_the_middle() -> None:
    noisy = after("noise")
    assert noisy[0][:1] + noisy[0][2:] == QAS
    assert noisy[0][1] == ("Where?", "By the sea near Port Tarn.")
    assert noisy[1][0] in QAS
    assert after("noise", base=BASE[:1])[0] == QAS  # nobody else


def test_redundancy() -> None:
    more = after("redundancy_sentence")[0]
    assert more[:3] == QAS
    assert more[3] in QAS
    _, doubled = one("redundancy_words", "", " ".join(map(str, range(10))))
    counts = collections.Counter(doubled.split())
    assert sorted(counts.values()) == [1] * 8 + [2, 2]
    assert list(dict.fromkeys(doubled.split())) == list(map(str, range(10)))
    assert after("duplicates")[0] == QAS * 3
    twice = [prediction(qas=[("Who?", "A"), ("who? ", "B"), ("When?", "C")])]
    assert after("repeats_removed", base=twice)[0] == [("Who?", "A"), ("When?", "C")]
    texts = [prediction(qas=[("", "One text."), ("", "Another text."), ("", "One text.")])]
    assert len(after("repeats_removed", base=texts)[0]) == 3  # no question repeats none


def test_questions_with_several_answers_are_perturbed() -> None:
    """A submission to the first script scores as the same QAs in the form of 2024."""
    of_2024 = [prediction(qas=[BAN, (BAN[0], "It did not."), FINE])]
    first = [msgspec.structs.replace(of_2024[0], asked=[BAN[0], FINE[0]])]
    assert sample(first, None, 0) == of_2024
    scorer = AveritecLegacy(draws=2)
    for name in ("random_shuffle", "noise", "duplicates", "repeats_removed", "fluency_word_drop"):
        for base in (first, sample(first, None, 0)):  # also who leaves `sample` out
            spoilt = perturbed(base, name, 3)
            assert spoilt == perturbed(of_2024, name, 3)
    shuffled = perturbed(first, "random_shuffle", 3)
    assert scorer.score([claim()], shuffled).measures["q"].value < 0.9
    assert first[0].asked


def test_argument_structure_is_an_order() -> None:
    orders = {tuple(after("argument_structure", seed)[0]) for seed in range(20)}
    assert len(orders) == 6
    assert all(sorted(order) == sorted(QAS) for order in orders)


def test_names_and_numbers_change() -> None:
    swapped = after("entity_swap")[0]
    text = " ".join(a for _, a in swapped)
    assert "Port Tarn" in text
    assert "Ada Lind" not in text or "Bo Ek" not in text
    up_or_down = {one("number_shift", "", "1,200 of 50 or 2.5 or 3")[1] for _ in range(1)}
    for text in up_or_down:
        first, _, second, _, third, _, fourth = text.split()
        assert first in ("1,080", "1,320")
        assert second in ("45", "55")
        assert third in ("2.2", "2.3", "2.8")
        assert fourth in ("2", "4")  # 10 % of 3 would round away


def test_summary_keeps_the_sentence_nearest_to_the_question() -> None:
    assert after("summary")[0][2][1] == "The mayor is who he is."


# All of them


def test_the_tests_of_the_paper_are_there() -> None:
    rows = {test.row for test in TESTS.values() if test.row}
    assert rows == {
        "Completeness", "Random shuffle", "Invariance contraction", "Invariance num2text",
        "Invariance text2num", "Invariance synonyms", "Redundancy sent", "Redundancy words",
        "Fluency", "Noise", "Argument structure",
    }  # fmt: skip
    assert len(rows) == 11
    altering = {t.row for t in TESTS.values() if t.row and t.kind == ALTERING}
    assert altering == {"Completeness", "Random shuffle"}


@pytest.mark.parametrize("name", TESTS)
def test_a_seed_fixes_it_and_nothing_given_changes(name: str) -> None:
    before = copy.deepcopy(BASE)
    first = perturbed(BASE, name, 10)
    assert before == BASE
    assert perturbed(BASE, name, 10) == first
    for p in first:  # what comes out shares no evidence with what went in
        for e in p.evidence:
            e.question = e.answer = "changed"
    assert before == BASE
    assert [p.label for p in first] == [p.label for p in BASE]


texts = st.text(st.sampled_from("aB1.,’ '\nÅ京-"), max_size=12)
bases = st.lists(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), min_size=1, max_size=3)


@given(bases, st.sampled_from(list(TESTS)), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_any_evidence_can_be_perturbed(qas: list, name: str, seed: int) -> None:
    base = [prediction(str(i), qas=some) for i, some in enumerate(qas)]
    result = perturbed(base, name, seed)
    assert [p.id for p in result] == [p.id for p in base]
    assert all(p.evidence for p in result)


def test_an_unknown_test_is_named() -> None:
    with pytest.raises(ClaimflowError, match="Did you mean 'noise'"):
        perturbed(BASE, "nois", 0)


def test_base_is_gold_evidence_and_a_sample_keeps_its_order() -> None:
    gold = Claim(id="0", text="So.", label="Refuted", questions=[
        Question(question="Is it?", answers=[
            Answer(answer="No", answer_type="Boolean", boolean_explanation="It is not.")]),
        Question(question="Who?"),
    ])  # fmt: skip
    (base,) = base_of([gold, Claim(id="1", text="", label="Refuted")])
    assert base.evidence == [Evidence(question="Is it?", answer="No. It is not.")]
    many = [prediction(str(i), qas=[FINE] * 12) for i in range(30)] + [prediction("x")]
    some = sample(many, 7, 3)
    assert some == sample(many, 7, 3)
    assert [int(p.id) for p in some] == sorted(int(p.id) for p in some)
    assert len(some) == 7
    assert all(len(p.evidence) == 10 for p in some)
    assert len(sample(many, None, 3)) == 30
    assert len(many[0].evidence) == 12


# Effects


def scores(value: float, *rows: float) -> Scores:
    per_claim = [{"id": str(i), "qa": row} for i, row in enumerate(rows)]
    return Scores(measures={"qa": Measure(value=value)}, per_claim=per_claim)


def test_the_order_of_a_file_changes_nothing() -> None:
    base = [prediction(str(i), qas=[(f"What of Port {i}?", f"It has {i} Old Gates.")])
            for i in range(12)]  # fmt: skip
    chosen = {p.id for p in sample(base, 4, 3)}
    assert {p.id for p in sample(base[::-1], 4, 3)} == chosen
    for name in TESTS:
        straight = {p.id: p for p in perturbed(base, name, 3)}
        assert {p.id: p for p in perturbed(base[::-1], name, 3)} == straight, name


def test_effects_are_relative_with_an_interval() -> None:
    before, worse = scores(0.5, 0.4, 0.6), scores(0.3, 0.2, 0.4)
    found = effects(before, {"noise": worse, "completeness": scores(0, 0, 0)})
    assert found[0].change == pytest.approx(-40)
    assert found[0].difference == pytest.approx(-0.2)
    assert found[0].low == pytest.approx(-0.2)  # each claim loses as much
    assert effects(scores(0, 0), {"noise": scores(1, 1)})[0].change is None
    columns, rows = grid(found)
    assert columns == ["kind", "test", "qa"]
    assert [row[:2] for row in rows] == [
        [ALTERING, "completeness"], [ALTERING, "average"],
        [PRESERVING, "noise"], [PRESERVING, "average"],
    ]  # fmt: skip
    assert [row[2] for row in rows] == pytest.approx([-100, -100, -40, -40])


def table(*rows: tuple[str, str, float | None]) -> Scores:
    """Macro-F1 of (gold, predicted) and the mean of a judged value, by id."""
    per_claim = [
        {"id": str(i), "gold": gold, "predicted": label, "recall": recall}
        for i, (gold, label, recall) in enumerate(rows)
    ]
    formulas = {"recall": [], "f1_a": ["f1", "a"]}
    return Scores(measures=measured(formulas, per_claim, 20, 13), per_claim=per_claim)


def test_effects_compare_the_claims_that_have_a_value_both_times() -> None:
    before = table(("a", "a", 1), ("a", "b", 0), ("b", "b", 0), ("b", "b", None))
    only = table(("a", "a", 1), ("a", "b", None), ("b", "b", None), ("b", "b", 0.5))
    recall, f1 = effects(before, {"noise": only})
    assert (recall.before, recall.after, recall.change, recall.difference) == (1, 1, 0, 0)
    assert (recall.low, recall.high, recall.claims, recall.lost) == (0, 0, 1, ["1", "2", "3"])
    assert (f1.before, f1.change, f1.claims, f1.lost) == (pytest.approx(2 / 3), 0, 4, [])
    assert uncompared(before, {"noise": only}, [recall, f1]) == [
        "noise: recall over the claims that have a value both before and after, 1 of 4; "
        "without 1, 2, 3."
    ]
    (_, f1) = effects(before, {"noise": table(("a", "a", 1))})  # no mean of rows
    assert (f1.before, f1.after, f1.claims) == (1, 1, 1)


def test_without_a_claim_in_common_there_is_no_effect() -> None:
    before, other = table(("a", "a", 1), ("a", "a", None)), table(("a", "a", None), ("a", "a", 0))
    found = effects(before, {"noise": other})
    assert [effect.measure for effect in found] == ["f1_a"]
    assert incomparable(before, other, "noise", found) == ["recall"]
    (line,) = uncompared(before, {"noise": other}, found)
    assert line == "noise: no claim has a value of recall before and after."


def test_order_must_not_change_a_matching_score() -> None:
    gold = [claim("0"), claim("1")]
    base = [prediction("0", qas=[FINE, BAN]), prediction("1", qas=[BAN, FINE, ("x", "y")])]
    before = averitec_2024(base, gold, draws=50)
    turned = averitec_2024(perturbed(base, "argument_structure", 3), gold, draws=50)
    assert order_check(before, turned)[0]
    fine, line = order_check(scores(0.5, 0.5, 0.5), scores(0.5, 0.5, 0.6))
    assert not fine
    assert "claim 1 by 0.1" in line


def test_duplicates_raise_hungarian_meteor_and_are_reported() -> None:
    gold, base = [claim()], [prediction(qas=[FINE])]
    before = averitec_2024(base, gold, draws=50)
    more = averitec_2024(perturbed(base, "duplicates", 0), gold, draws=50)
    assert more.measures["qa"].value > before.measures["qa"].value + 0.1
    found = effects(before, {"duplicates": more})
    lines = repeats_report(found, 0, 1)
    assert any("takes qa from 0.2499 to 0.4" in line for line in lines)
    assert "rewards repeats" in lines[-1]


# The flow


def test_the_report_fits_a_terminal_and_leaves_out_what_nothing_moves() -> None:
    measures = ["q", "qa", "score_at_0.10", "score_at_0.25", "score_at_0.50", "f1_macro"]
    rows = [["preserving", "redundancy_sentence", *([-12.5] * 5), 0.0]]
    text = stress_report("t", ["kind", "test", *measures], rows, ["A note."])
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert max(map(len, tables)) <= 100
    assert text.count("-12.50") == 5
    assert "macro-F1" not in "".join(tables)
    assert "- Changed by no test: macro-F1." in text
    rows[0][-1] = None  # from 0
    text = stress_report("t", ["kind", "test", *measures], rows, [], {"f1_macro"})
    assert "Changed by no test" not in text


def test_as_a_command(tmp_path: Path) -> None:
    where = {"question": "Where?", "answers": [{"answer": "In the town of Vell, since 1904."}]}
    gold = [*GOLD, {**GOLD[0], "claim": "Another town did.", "questions": [where]}]
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    words = ("flows.stress", f"gold={tmp_path}/gold.json", "scorer=averitec_2024",
             "measures=[qa,q]")  # fmt: skip
    cache = str(tmp_path / "cache")
    done = command(*words, f"to={tmp_path}/to", f"out={tmp_path}/out.json", CLAIMFLOW_CACHE=cache)
    assert done.returncode == 0, done.stderr
    assert "QAs in another order change no matching score (q, qa)" in done.stdout
    result = json.loads((tmp_path / "out.json").read_text())
    change = {(e["test"], e["measure"]): e["change"] for e in result["effects"]}
    assert change["completeness", "qa"] < -20
    assert change["completeness", "q"] == 0
    assert len({test for test, _ in change}) == len(TESTS)
    assert (tmp_path / "to" / "stress.png").stat().st_size > 10_000
    lines = (tmp_path / "to" / "effects.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * len(TESTS)
    table = (tmp_path / "to" / "table.csv").read_text().splitlines()
    assert table[0] == "kind,test,qa,q"
    assert len(table) == 1 + len(TESTS) + 2  # two averages
    blank = read_submission(tmp_path / "to" / "perturbed" / "completeness.json")
    assert {e.answer for p in blank for e in p.evidence} == {""}
    for few in ("claims=0", "claims=-3"):
        told = command(*words, few, CLAIMFLOW_CACHE=cache)
        assert told.stderr == f"error: {few} is wrong: give a whole number from 1 on, or null.\n"
    again = command(*words, f"out={tmp_path}/again.json", CLAIMFLOW_CACHE=cache)
    assert again.stdout == done.stdout
    assert json.loads((tmp_path / "again.json").read_text())["cache"]["misses"] == 0
