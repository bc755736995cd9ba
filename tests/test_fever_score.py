"""The FEVER scorer: values of the official one, quirks, readers, and the real claims."""

from __future__ import annotations

import json
import math
import os
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.fever import claim_from
from components.datasets.gold import read_gold
from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.records import BadLine, Claim, Finding, GoldSet, Prediction, encode
from components.score.base import Scores
from components.score.fever import Fever, fever

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "fever"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs CLAIMFLOW_DATA")

MEASURES = ("fever", "accuracy", "evidence_precision", "evidence_recall", "evidence_f1")
NEI = "NOT ENOUGH INFO"
PAIR = [[("Moss", 1), ("Fern", 0)]]


def claim(label: str, *sets: list[tuple[str, int | None]], id: str = "1") -> Claim:
    return Claim(id=id, text="", label=label, gold=[GoldSet(label=label, items=s) for s in sets])


def says(label: str, *sentences: tuple[str, int], id: str = "1") -> Prediction:
    findings = [Finding(doc=page, sentences=[line]) for page, line in sentences]
    return Prediction(id=id, claim="", evidence=[], label=label, findings=findings)


def values(scores: Scores) -> list[float]:
    return [scores.measures[name].value for name in MEASURES]


MISSES = [("Moss", n) for n in range(10, 20)]
SINGLE = claim("SUPPORTS", [("Moss", 1)])
WORKED = {
    "whole set of two": (
        claim("SUPPORTS", *PAIR),
        says("SUPPORTS", ("Moss", 1), ("Fern", 0)),
        [1, 1, 1, 1, 1],
    ),
    "half of it": (claim("SUPPORTS", *PAIR), says("SUPPORTS", ("Moss", 1)), [0, 1, 1, 0, 0]),
    "complete at rank 6 only": (
        claim("SUPPORTS", *PAIR),
        says("SUPPORTS", ("Moss", 1), *MISSES[:4], ("Fern", 0)),
        [0, 1, 0.2, 0, 0],
    ),
    "right evidence, wrong label": (SINGLE, says("REFUTES", ("Moss", 1)), [0, 0, 1, 1, 1]),
    "duplicate hit and a miss": (
        SINGLE,
        says("SUPPORTS", ("Moss", 1), ("Moss", 1), MISSES[0]),
        [1, 1, 2 / 3, 1, 0.8],
    ),
    "no evidence": (SINGLE, says("SUPPORTS"), [0, 1, 1, 0, 0]),
    "only NOT ENOUGH INFO": (claim(NEI), says(NEI, ("Moss", 1)), [1, 1, 1, 0, 0]),
    "another case of the label": (
        claim("supports", [("Moss", 1)]),
        says("Supports"),
        [0, 1, 1, 0, 0],
    ),
}


@pytest.mark.parametrize(("gold", "prediction", "expected"), WORKED.values(), ids=WORKED)
def test_worked_values(gold: Claim, prediction: Prediction, expected: list[float]) -> None:
    assert values(fever([prediction], [gold])) == pytest.approx(expected)
    assert values(fever([prediction], [gold], official=True)) == pytest.approx(expected)


def test_where_the_official_scorer_divides_by_zero() -> None:
    wrong = says("SUPPORTS", MISSES[0])
    scores = fever([wrong], [SINGLE])
    assert values(scores) == [0, 1, 0, 0, 0]
    assert "evidence_f1 is 0, where the official scorer stops" in scores.notes[0]
    official = fever([wrong], [SINGLE], official=True)
    assert math.isnan(official.measures["evidence_f1"].value)
    assert "left without a value" in official.notes[0]


FOUR = [
    claim("SUPPORTS", *PAIR, id="1"),
    claim("REFUTES", *PAIR, id="2"),
    claim(NEI, id="3"),
    claim("SUPPORTS", [("Moss", 1)], id="4"),
]
SAID = [
    says("SUPPORTS", ("Moss", 1), ("Fern", 0), id="1"),
    says("REFUTES", ("Fern", 0), id="2"),
    says(NEI, ("Moss", 7), id="3"),
    says("REFUTES", id="4"),
]


def test_four_claims_and_their_rows() -> None:
    scores = fever(SAID, FOUR)
    assert list(scores.measures) == Fever().names()
    assert values(scores) == pytest.approx([0.5, 0.75, 1, 1 / 3, 0.5])
    assert scores.per_claim[1] == {
        "id": "2",
        "gold": "REFUTES",
        "predicted": "REFUTES",
        "fever": 0,
        "accuracy": 1,
        "evidence_precision": 1,
        "evidence_recall": 0,
    }
    assert scores.per_claim[2]["evidence_recall"] is None
    assert scores.tables["confusion"][0] == {
        "gold": "SUPPORTS",
        "SUPPORTS": 1,
        "REFUTES": 1,
        NEI: 0,
        "other": 0,
    }
    assert scores.tables["by_label"][2]["evidence_recall"] is None
    for name in MEASURES[:4]:  # the mean of a column is the measure: paired tests need it
        column = [row[name] for row in scores.per_claim if row[name] is not None]
        assert sum(column) / len(column) == pytest.approx(scores.measures[name].value)
    for measure in scores.measures.values():
        assert measure.low is not None
        assert measure.low <= measure.value <= measure.high  # type: ignore[operator]


def test_pairs_by_id_and_says_what_is_odd() -> None:
    scores = fever(SAID[::-1], FOUR)
    assert values(scores) == values(fever(SAID, FOUR))
    odd = [SAID[0], SAID[0], says("REFUTED", ("Fern", 0), id="2"), SAID[2], says(NEI, id="9")]
    scores = fever(odd, FOUR)
    assert values(scores) == pytest.approx([0.5, 0.5, 2 / 3, 1 / 3, 4 / 9])  # no 1 for nothing
    assert scores.notes == [
        "Claims without prediction, counted as wrong, without evidence (1): 4.",
        "Predictions passed over, for no gold claim (1): 9.",
        "Predictions passed over, repeating an id (1): 1.",
        "Predictions counted as wrong, with a label that FEVER does not have (1): "
        "2 'REFUTED' Did you mean 'REFUTES'?.",
    ]
    with pytest.raises(ClaimflowError, match="None of the 1 gold claims has a label of FEVER"):
        fever(SAID, [Claim(id="1", text="", label="Refuted")])
    with pytest.raises(ClaimflowError, match="needs predictions"):
        Fever().score(FOUR)


def test_pages_spelt_otherwise_are_missed_by_the_official_scorer(tmp_path: Path) -> None:
    page = unicodedata.normalize("NFD", "Café_Noir")
    gold = claim_from({"id": 1, "claim": "A.", "label": "SUPPORTS",
                       "evidence": [[[1, 2, page, 0]]]})  # fmt: skip
    for name, right in ((page, 1), (page.replace("_", " "), 0), ("Café_Noir", 0)):
        said = {"id": 1, "predicted_label": "SUPPORTS", "predicted_evidence": [[name, 0]]}
        (tmp_path / "said.jsonl").write_text(json.dumps(said))
        found = read_submission(tmp_path / "said.jsonl")
        scores, official = fever(found, [gold]), fever(found, [gold], official=True)
        assert (scores.measures["fever"].value, official.measures["fever"].value) == (1, right)
        assert any("another spelling" in note for note in scores.notes) is not bool(right)


def test_scoring_changes_no_input() -> None:
    before = encode([FOUR, SAID])
    assert fever(SAID, FOUR) == fever(SAID, FOUR)
    assert encode([FOUR, SAID]) == before


SENTENCES = st.tuples(st.sampled_from("ABC"), st.integers(0, 3))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["SUPPORTS", "REFUTES", NEI]),
            st.lists(st.lists(SENTENCES, min_size=1, max_size=3), min_size=1, max_size=3),
            st.sampled_from(["SUPPORTS", "REFUTES", NEI]),
            st.lists(SENTENCES, max_size=7),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_agrees_with_the_rule_as_it_is_written(cases: list[Any]) -> None:
    strict = right = precision = recall = verifiable = 0.0
    gold, predictions = [], []
    for number, (label, sets, guess, sentences) in enumerate(cases):
        gold.append(claim(label, *sets, id=str(number)))
        predictions.append(says(guess, *sentences, id=str(number)))
        first = sentences[:5]
        whole = any(all(s in first for s in one) for one in sets)
        right += label == guess
        strict += label == guess and (label == NEI or whole)
        if label != NEI:
            verifiable += 1
            recall += whole
            hits = [s for s in first if any(s in one for one in sets)]
            precision += len(hits) / len(first) if first else 1
    p = precision / verifiable if verifiable else 1.0
    r = recall / verifiable if verifiable else 0.0
    f1 = 2 * p * r / (p + r) if p + r else 0.0
    n = len(cases)
    assert values(fever(predictions, gold, draws=2)) == pytest.approx(
        [strict / n, right / n, p, r, f1]
    )


def test_what_is_passed_over_is_not_counted_as_without_evidence() -> None:
    gold = [Claim(id="1", text="", label="REFUTES", gold=[GoldSet(items=[("Moss", 3)])])]
    said = Prediction(id="1", claim="", evidence=[], label="REFUTES")
    assert Fever(draws=2).score(gold, [said, said]).notes == [
        "Predictions passed over, repeating an id (1): 1.",
        "Predictions of SUPPORTS or REFUTES without evidence (1 of 1): 1.",
    ]


# Files


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_reads_submissions_and_gold_by_content(tmp_path: Path) -> None:
    gold = write(
        tmp_path / "gold",
        {
            "id": 7,
            "verifiable": "VERIFIABLE",
            "label": "REFUTES",
            "claim": "Moss sings.",
            "evidence": [[[1, 2, "Moss", 3], [1, 2, "Fern", 0]]],
        },
        {"id": 8, "label": NEI, "claim": "Moss.", "evidence": [[[1, None, None, None]]]},
    )
    claims = read_gold(gold)
    assert [(c.id, c.label) for c in claims] == [("7", "REFUTES"), ("8", NEI)]
    assert claims[0].gold == [GoldSet(label="REFUTES", items=[("Moss", 3), ("Fern", 0)])]
    right = {
        "id": 7,
        "predicted_label": "refutes",
        "predicted_evidence": [["Moss", 3], ["Fern", 0]],
    }
    nothing = {"id": " 8 ", "predicted_label": NEI, "predicted_evidence": []}
    predictions = read_submission(write(tmp_path / "said", nothing, right))
    assert values(fever(predictions, claims)) == [1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": 1, "predicted_label": "SUPPORTS"}', "predicted_evidence is missing"),
        (
            '{"predicted_label": "SUPPORTS", "predicted_evidence": []}',
            "id is missing",
        ),
        (
            '{"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [["Moss", "3"]]}',
            "is a text, where a whole number is due",
        ),
        (
            '{"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [["Moss", 3, 1]]}',
            "has 3 items, where a list of 2 is due",
        ),
        ('{"id": 1, "predicted_label": "REFUTES", "predicted_evid', "the JSON breaks off"),
    ],
)
def test_a_bad_line_costs_itself_alone(tmp_path: Path, line: str, reason: str) -> None:
    path = write(tmp_path / "said", {"id": 2, "predicted_label": NEI, "predicted_evidence": []})
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ClaimflowError, match=r"said, line 2: ") as stopped:
        read_submission(path)
    assert reason in str(stopped.value)
    bad: list[BadLine] = []
    assert [p.id for p in read_submission(path, "skip", bad)] == ["2"]
    assert [b.line for b in bad] == [2]


# Real claims


@real
def test_gold_as_prediction_and_a_corrupted_copy() -> None:
    claims = read_gold(DATA / "paper_dev.jsonl")
    assert len(claims) == 9999
    best = [
        says(c.label or "", *min((g.items for g in c.gold), key=len, default=[]), id=c.id)  # type: ignore[arg-type]
        for c in claims
    ]
    start = time.perf_counter()
    scores = fever(best, claims)
    assert time.perf_counter() - start < 10  # .6 s of one core
    # Ten claims have no gold set of five sentences or fewer: no prediction can win them.
    assert values(scores) == pytest.approx(
        [9989 / 9999, 1, 1, 6656 / 6666, 2 / (1 + 6666 / 6656)], abs=1e-12
    )
    assert "so that none can be covered (10)" in scores.notes[0]
    # Every fifth claim: another label. Of the others every fifth: its first sentence is lost.
    turned = {"SUPPORTS": "REFUTES", "REFUTES": NEI, NEI: "SUPPORTS"}
    worse, wins, covered, scored = [], 0, 0, 0
    for i, (said, gold) in enumerate(zip(best, claims, strict=True)):
        wrong, lost = i % 5 == 0, i % 5 == 1
        found = said.findings[1:] if lost else said.findings
        label = turned[said.label] if wrong else said.label
        worse.append(Prediction(id=said.id, claim="", evidence=[], label=label, findings=found))
        within = {(f.doc, f.sentences[0]) for f in found[:5]}
        whole = any(within.issuperset(g.items) for g in gold.gold)
        wins += not wrong and (whole or gold.label == NEI)
        if gold.label != NEI:
            scored, covered = scored + 1, covered + whole
    expected = [wins / 9999, 7999 / 9999, 1, covered / scored, 2 * covered / (scored + covered)]
    scores = fever(worse, claims, draws=10)
    assert values(scores) == pytest.approx(expected, abs=1e-12)
    assert wins == 6689


def test_pages_without_the_codes_of_fever_are_noted() -> None:
    page = "Soul_Food_-LRB-film-RRB-"
    gold = claim("SUPPORTS", [(page, 0)])
    for name, noted in ((page, 0), ("Soul_Food_(film)", 1), ("Moss_(film)", 0)):
        findings = [Finding(doc=name, sentences=[0])]
        said = Prediction(id="1", claim="", evidence=[], label="SUPPORTS", findings=findings)
        scores = fever([said], [gold])
        assert scores.measures["fever"].value == (name == page)
        assert sum("where FEVER has -LRB-" in note for note in scores.notes) == noted
