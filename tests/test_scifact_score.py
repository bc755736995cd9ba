"""The SciFact scorer: values of the official evaluator, oracle settings, real claims."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets import scifact as files
from components.datasets.gold import read_gold
from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.records import BadLine, Claim, Finding, GoldSet, Prediction
from components.score.base import Scores
from components.score.scifact import MEASURES, SciFact, abstracts, scifact

DATA = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "scifact"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs CLAIMFLOW_DATA")

S, C = files.LABELS
NONE = (0.0, 0.0, 0.0)


def claim(id: str, **docs: tuple[str, list[list[int]]]) -> Claim:
    """A claim with gold abstracts: label and rationales of each."""
    gold = [
        GoldSet(label=label, items=[(doc, n) for n in rationale])
        for doc, (label, rationales) in docs.items()
        for rationale in rationales
    ]
    return Claim(id=id, text="", gold=gold)


def says(id: str, **docs: tuple[str, list[int]]) -> Prediction:
    findings = [Finding(doc=d, label=label, sentences=s) for d, (label, s) in docs.items()]
    return Prediction(id=id, claim="", evidence=[], label="", findings=findings)


def perfect(claim: Claim) -> Prediction:
    """The gold annotation as a prediction, the shortest rationale of an abstract first."""
    prediction = says(claim.id)
    for doc, gold in abstracts(claim).items():
        numbers = [n for r in sorted(gold.rationales, key=len) for n in sorted(r)]
        sentences = list(dict.fromkeys(numbers))
        prediction.findings.append(Finding(doc=doc, label=gold.label, sentences=sentences))
    return prediction


def values(scores: Scores) -> list[tuple[float, ...]]:
    return [
        tuple(scores.measures[f"{name}_{part}"].value for part in ("precision", "recall", "f1"))
        for name in MEASURES
    ]


def check(scores: Scores, expected: list[tuple[float, ...]]) -> None:
    for found, right in zip(values(scores), expected, strict=True):
        assert found == pytest.approx(right, abs=5e-7)


TOY = [claim("1", a=(S, [[0, 1]])), claim("2", b=(C, [[2], [7]]))]
TOY_SAID = [says("1", a=(S, [5, 6, 0, 1]), c=(S, [0])), says("2", b=(S, [2]))]


def test_worked_toy() -> None:
    assert list(scifact(TOY_SAID, TOY).measures) == SciFact().names()
    expected = [(1 / 3, 0.5, 0.4), NONE, (0.5, 0.75, 0.6), (1 / 3, 0.5, 0.4)]
    check(scifact(TOY_SAID, TOY), expected)
    check(scifact(TOY_SAID, TOY, official=True), expected)


def test_the_small_file_of_the_official_evaluator() -> None:
    """Its labels and sentence numbers, under other names; the values are its expected ones."""
    gold = [
        claim("1"),
        claim("3", a=(S, [[2, 5], [7]])),
        claim("5", b=(S, [[4]])),
        claim("13"),
        claim("36"),
        claim("42", c=(C, [[1, 9], [10]])),
        claim("48", b=(C, [[4]])),
        claim("49", d=(S, [[1], [2]])),
        claim("50", e=(S, [[1]])),
        claim("51", f=(C, [[4]])),
    ]
    said = [
        *map(says, ("1", "3", "13", "50")),
        says("5", b=(C, [4])),
        says("36", g=(C, [8])),
        says("42", c=(C, [1, 9, 10])),
        says("48", b=(C, [7])),
        says("49", d=(S, [2])),
        says("51", h=(C, [6, 7])),
    ]
    check(
        scifact(said, gold),
        [
            (0.5, 0.4285714, 0.4615385),
            (0.3333333, 0.2857143, 0.3076923),
            (0.5555556, 0.4166667, 0.4761905),
            (0.4444444, 0.3333333, 0.3809524),
        ],
    )


def test_the_example_of_the_official_guide() -> None:
    gold = [claim("52", a=(S, [[0, 1], [11]]), b=(S, [[4]]))]
    said = [says("52", a=(S, [1, 11, 13]), c=(C, [18, 20]))]
    half = (0.5, 0.5, 0.5)
    check(scifact(said, gold), [half, half, (0.2, 0.25, 2 / 9), (0.2, 0.25, 2 / 9)])


@pytest.mark.parametrize(
    ("rationales", "sentences", "right"),
    [
        ([[0, 1, 2, 3]], [3, 2, 1, 0], 1),  # the shortest has four, so four count
        ([[0, 1, 2, 3]], [9, 3, 2, 1, 0], 0),
        ([[0, 1, 2, 3], [7]], [9, 8, 6, 7], 0),  # the shortest has one, so three count
        ([[0, 1, 2, 3], [7]], [9, 8, 7], 1),
    ],
)
def test_sentences_that_count_for_an_abstract(
    rationales: list[list[int]], sentences: list[int], right: int
) -> None:
    scores = scifact([says("1", a=(S, sentences))], [claim("1", a=(S, rationales))])
    assert scores.measures["abstract_rationalized_f1"].value == right
    assert scores.measures["abstract_label_only_f1"].value == 1


def test_oracle_settings() -> None:
    abstract = scifact(TOY_SAID, TOY, oracle="abstracts")
    check(abstract, [(0.5, 0.5, 0.5), NONE, (0.6, 0.75, 2 / 3), (0.4, 0.5, 4 / 9)])
    assert abstract.notes == [
        "Oracle abstracts: 1 predicted abstracts without gold evidence left out."
    ]
    rationales = scifact(TOY_SAID, TOY, oracle="rationales")
    half = (0.5, 0.5, 0.5)
    check(rationales, [half, half, (1, 1, 1), half])
    with pytest.raises(ClaimflowError, match=r"oracle=abstract: .* Did you mean 'abstracts'"):
        scifact(TOY_SAID, TOY, oracle="abstract")


def test_a_sentence_in_two_rationales() -> None:
    gold = [claim("1", a=(S, [[0, 1], [1]]))]
    said = [says("1", a=(S, [0, 1]))]
    assert values(scifact(said, gold))[2] == (1, 1, 1)
    official = scifact(said, gold, official=True)
    assert values(official)[2] == pytest.approx((1, 2 / 3, 0.8))
    assert "Claims with a gold sentence in two rationales of an abstract (1): 1." in official.notes


def test_pairs_by_id_and_says_what_is_odd() -> None:
    assert values(scifact(TOY_SAID[::-1], TOY)) == values(scifact(TOY_SAID, TOY))
    scores = scifact([TOY_SAID[0], TOY_SAID[0], says("9", a=(S, [0]))], TOY, official=True)
    assert values(scores)[0] == pytest.approx((0.5, 0.5, 0.5))
    assert scores.notes[:3] == [
        "Claims without prediction, counted as without evidence (1): 2.",
        "Predictions passed over, for no gold claim (1): 9.",
        "Predictions passed over, repeating an id (1): 1.",
    ]
    assert scores.notes[3].startswith("The official evaluator stops here")
    with pytest.raises(ClaimflowError, match="None of the 1 gold claims has evidence"):
        scifact([], [Claim(id="1", text="")])
    with pytest.raises(ClaimflowError, match="needs predictions"):
        SciFact().score(TOY)


def test_rows_hold_the_counts_of_the_measures() -> None:
    scores = scifact(TOY_SAID, TOY)
    for name, (right, predicted, gold) in MEASURES.items():
        sums = {c: sum(row[c] for row in scores.per_claim) for c in (right, predicted, gold)}
        assert scores.measures[f"{name}_precision"].value == sums[right] / sums[predicted]
        assert scores.measures[f"{name}_recall"].value == sums[right] / sums[gold]
    assert scores.tables["confusion"] == [
        {"gold": S, S: 1, C: 0, "NEI": 0, "other": 0},
        {"gold": C, S: 1, C: 0, "NEI": 0, "other": 0},
        {"gold": "NEI", S: 1, C: 0, "NEI": 0, "other": 0},
    ]


LABEL = st.sampled_from(files.LABELS)
NUMBERS = st.lists(st.integers(0, 4), max_size=5, unique=True)
TRUTH = st.dictionaries(
    st.sampled_from("abc"), st.tuples(LABEL, st.lists(NUMBERS.filter(bool), min_size=1, max_size=2))
)
SAID = st.dictionaries(st.sampled_from("abcd"), st.tuples(LABEL, NUMBERS))


@given(st.lists(st.tuples(TRUTH, SAID), min_size=1, max_size=5))
def test_laws(cases: list[tuple[Any, Any]]) -> None:
    gold = [claim(str(i), **docs) for i, (docs, _) in enumerate(cases)]
    said = [says(str(i), **docs) for i, (_, docs) in enumerate(cases)]
    if not any(c.gold for c in gold):
        return
    found = dict(zip(MEASURES, values(scifact(said, gold, draws=2)), strict=True))
    for stricter, looser in (
        ("abstract_rationalized", "abstract_label_only"),
        ("sentence_label", "sentence_selection"),
    ):
        assert all(a <= b for a, b in zip(found[stricter], found[looser], strict=True))
    for precision, recall, f1 in found.values():
        assert (
            0 <= min(precision, recall) <= f1 + 1e-12 <= max(precision, recall) + 2e-12 <= 1 + 1e-9
        )
    best = [perfect(c) for c in gold]
    assert values(scifact(best, gold, draws=2)) == [(1, 1, 1)] * 4


# Files


def write(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_reads_submissions_by_content(tmp_path: Path) -> None:
    gold = write(
        tmp_path / "gold",
        {"id": 1, "claim": "x", "evidence": {"7": [{"sentences": [1], "label": S}]}},
        {"id": 2, "claim": "y", "evidence": {}, "cited_doc_ids": [7]},
    )
    said = write(
        tmp_path / "said",
        {"id": "2", "evidence": {}},
        {"id": 1, "evidence": {"7": {"sentences": [1], "label": S}}},
    )
    check(scifact(read_submission(said), read_gold(gold)), [(1, 1, 1)] * 4)


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ({"7": {"sentences": ["1"], "label": S}}, "is a text, where a whole number is due"),
        (
            {"7": [{"sentences": [1], "label": S}]},
            "document 7 has a list of rationales, as in",
        ),
    ],
)
def test_a_bad_line_costs_itself_alone(tmp_path: Path, evidence: Any, reason: str) -> None:
    path = write(tmp_path / "said", {"id": 1, "evidence": {}}, {"id": 2, "evidence": evidence})
    with pytest.raises(ClaimflowError, match="said, line 2: ") as stopped:
        read_submission(path)
    assert reason in str(stopped.value)
    bad: list[BadLine] = []
    assert [p.id for p in read_submission(path, "skip", bad)] == ["1"]
    assert [b.line for b in bad] == [2]


def test_labels_that_scifact_lacks_count_as_wrong_and_nei_is_left_out(tmp_path: Path) -> None:
    gold = write(
        tmp_path / "gold",
        {"id": 1, "claim": "x", "evidence": {"7": [{"sentences": [1], "label": S}]}},
    )
    said = write(
        tmp_path / "said",
        {
            "id": 1,
            "evidence": {
                "7": {"sentences": [1], "label": S},
                "8": {"sentences": [1], "label": "NOT_ENOUGH_INFO"},
                "9": {"sentences": [1], "label": "SUPPORTS"},
            },
        },
        {"id": 1, "evidence": {}},
    )
    scores = scifact(read_submission(said), read_gold(gold))
    check(scores, [(1 / 2, 1, 2 / 3)] * 4)
    assert scores.notes == [
        "Predictions passed over, repeating an id (1): 1.",
        "Documents counted as wrong, with a label that the task does not have (1): "
        "claim 1, 9 'SUPPORTS' Did you mean 'SUPPORT'?.",
        "Predictions with documents labelled NEI, which are left out (1): 1.",
    ]


def test_gold_with_two_labels_for_an_abstract(tmp_path: Path) -> None:
    rationales = [{"sentences": [1], "label": S}, {"sentences": [2], "label": C}]
    path = write(tmp_path / "gold", {"id": 1, "claim": "x", "evidence": {"7": rationales}})
    with pytest.raises(ClaimflowError, match="gold, line 1: document 7 has two labels"):
        read_gold(path)


# Real claims


@real
def test_gold_as_prediction_and_a_corrupted_copy(tmp_path: Path) -> None:
    claims = read_gold(DATA / "claims_dev.jsonl")
    truth = [abstracts(c) for c in claims]
    assert (len(claims), sum(map(len, truth))) == (300, 209)
    best = [perfect(c) for c in claims]
    files.write_predictions(tmp_path / "best.jsonl", best)
    again = read_submission(tmp_path / "best.jsonl")
    assert values(scifact(again, claims)) == [(1, 1, 1)] * 4
    # Every fourth abstract of 209 (53 of them) with the other label, and one that is not gold for
    # each claim: labels stay right for 156 of 509 predicted.
    count = 0
    for prediction in again:
        for finding in prediction.findings:
            if count % 4 == 0:
                finding.label = C if finding.label == S else S
            count += 1
        prediction.findings.append(Finding(doc="-1", label=S, sentences=[0]))
    found = values(scifact(again, claims))
    assert found[0] == pytest.approx((156 / 509, 156 / 209, 312 / 718))
    assert found[1] == found[0]
    sentences = sum(len(r) for docs in truth for a in docs.values() for r in a.rationales)
    assert found[2][:2] == pytest.approx((sentences / (sentences + 300), 1))


def test_documents_of_which_nothing_can_be_right_are_noted() -> None:
    """Without sentences, or with ids that no document has."""
    gold = [claim("1", **{"7": (S, [[1]]), "8": (S, [[2]])})]
    said = [says("1", **{"7": (S, []), "8.0": (S, [2]), "d8": (C, [2])})]
    said += said  # what is passed over is not told again
    ids = "Documents that can't be found, as their ids are no numbers (2): "
    assert SciFact(draws=2).score(gold, said).notes == [
        "Predictions passed over, repeating an id (1): 1.",
        "Documents without 'sentences', so that none of their evidence is right (1): claim 1, 7.",
        f"{ids}claim 1, '8.0', claim 1, 'd8'.",
    ]
    oracle = SciFact(draws=2, oracle="rationales").score(gold, said).notes
    assert not any("without 'sentences'" in line for line in oracle)
    named = [claim("1", A=(S, [[1]]))]
    assert SciFact(draws=2).score(named, [says("1", A=(S, [1]))]).notes == []
