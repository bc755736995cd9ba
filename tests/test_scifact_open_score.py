"""The SciFact-Open scorer: worked values, average precision, bootstrap, Parquet tables."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from components.datasets import scifact as files
from components.datasets.gold import read_gold
from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.lint.check import lint
from components.records import BadLine, Claim, Finding, GoldSet, Prediction
from components.score.base import Scores
from components.score.bootstrap import resamples
from components.score.scifact_open import (
    Retrieved,
    SciFactOpen,
    gold_documents,
    scifact_open,
    statistics,
)
from tests.conftest import command

S, C = files.LABELS
MEASURES = ("abstract_precision", "abstract_recall", "abstract_f1", "abstract_ap")


def claim(id: str, provenance: str = "citation", /, **docs: str) -> Claim:
    gold = [
        GoldSet(label=label, items=[(doc.strip("_"), None)], provenance=provenance)
        for doc, label in docs.items()
    ]
    return Claim(id=id, text="", gold=gold)


Row = tuple[str, str, str | None, int | None, float, float]


def says(*rows: Row) -> list[Prediction]:
    """Predictions from rows of claim, document, label, rank, p_support, p_contradict."""
    found: dict[str, Prediction] = {}
    for id, doc, label, rank, support, contradict in rows:
        prediction = found.setdefault(id, Prediction(id=id, claim="", evidence=[], label=""))
        probabilities = {S: support, C: contradict}
        finding = Finding(doc=doc, label=label, rank=rank, probabilities=probabilities)
        prediction.findings.append(finding)
    return list(found.values())


def values(scores: Scores, suffix: str = "") -> list[float]:
    return [scores.measures[name + suffix].value for name in MEASURES]


GOLD = [claim("1", _10=S, _11=C), claim("2", _20=S, _21=S)]
ROWS: list[Row] = [
    ("1", "10", S, 1, 0.95, 0.01),
    ("1", "12", S, 2, 0.90, 0.02),
    ("2", "20", S, 3, 0.80, 0.05),
    ("1", "11", S, 4, 0.70, 0.20),
    ("2", "22", None, 5, 0.40, 0.10),
    ("2", "21", None, 6, 0.30, 0.05),
]


def test_worked_values() -> None:
    assert values(scifact_open(says(*ROWS), GOLD)) == pytest.approx(
        [0.5, 0.5, 0.5, 0.541667], abs=5e-7
    )
    first = scifact_open(says(*ROWS[:3]), GOLD)
    assert values(first) == pytest.approx([0.666667, 0.5, 0.571429, 0.416667], abs=5e-7)


def test_nothing_predicted() -> None:
    rows: list[Row] = [(c, d, None, rank, s, k) for c, d, _, rank, s, k in ROWS]
    assert values(scifact_open(says(*rows), GOLD)) == pytest.approx([0, 0, 0, 0.541667], abs=5e-7)
    official = scifact_open(says(*rows), GOLD, official=True)
    precision, recall, f1, ap = values(official)
    assert math.isnan(precision)
    assert math.isnan(f1)
    assert (recall, ap) == (0, pytest.approx(0.541667, abs=5e-7))
    assert "The official script has no abstract_f1 here: 0 by 0." in official.notes


def test_a_wrong_and_a_right_document_with_one_confidence() -> None:
    gold = [claim("1", a=S, b=S)]
    rows: list[Row] = [("1", "x", S, 1, 0.9, 0), ("1", "a", S, 2, 0.9, 0), ("1", "b", S, 3, 0.5, 0)]
    assert values(scifact_open(says(*rows), gold))[3] == pytest.approx(0.583333, abs=5e-7)
    by_confidence: list[Row] = [(c, d, label, None, s, k) for c, d, label, _, s, k in rows[::-1]]
    assert values(scifact_open(says(*by_confidence), gold))[3] == pytest.approx(7 / 12)


def test_equal_probabilities_are_support() -> None:
    gold = [claim("1", a=S, b=C)]
    rows: list[Row] = [("1", "a", None, 1, 0.4, 0.4), ("1", "b", None, 2, 0.3, 0.3)]
    assert values(scifact_open(says(*rows), gold))[3] == pytest.approx(0.5)


def test_by_provenance() -> None:
    gold = [
        Claim(id="1", text="", gold=claim("1", _10=S).gold + claim("1", "pooling", _11=C).gold),
        claim("2", "pooling", _20=S, _21=S),
    ]
    scores = scifact_open(says(*ROWS), gold)
    assert list(scores.measures) == SciFactOpen().names()
    assert values(scores) == pytest.approx([0.5, 0.5, 0.5, 0.541667], abs=5e-7)
    # 10, 12 are left: 11, 20 and 21 are evidence by pooling and set aside.
    assert values(scores, "_citation") == pytest.approx([1 / 2, 1, 2 / 3, 1])
    # 12, 20, 11, 22, 21 are left, in this order; 20 and 21 are right by their better label.
    expected = [1 / 3, 1 / 3, 1 / 3, (1 / 2 + 2 / 5) / 3]
    assert values(scores, "_pooling") == pytest.approx(expected)
    rows = scores.tables["by_provenance"]
    assert [(r["provenance"], r["gold"], r["predicted"], r["correct"]) for r in rows] == [
        ("all", 4, 4, 2),
        ("citation", 1, 2, 1),
        ("pooling", 3, 3, 1),
    ]


def test_without_confidences_there_is_no_average_precision() -> None:
    said = says(*ROWS)
    for prediction in said:
        for finding in prediction.findings:
            finding.probabilities = {}
    scores = scifact_open(said, GOLD)
    assert "abstract_ap" not in scores.measures
    assert scores.measures["abstract_f1"].value == 0.5
    assert scores.notes[0].startswith("The predictions have no confidences")
    assert "abstract_ap" not in scifact_open([], GOLD).measures


def test_pairs_by_id_and_says_what_is_odd() -> None:
    extra: Row = ("9", "10", S, 7, 0.2, 0.1)
    scores = scifact_open(says(extra, *ROWS[::-1]), GOLD)
    assert values(scores) == pytest.approx([0.5, 0.5, 0.5, 0.541667], abs=5e-7)
    assert scores.notes == ["Predictions passed over, for no gold claim (1): 9."]
    official = scifact_open(says(extra, *ROWS), GOLD, official=True)
    assert values(official)[:3] == pytest.approx([0.4, 0.5, 4 / 9])
    assert official.notes == ["Predictions for no gold claim, counted as wrong (1): 9."]
    missing = scifact_open(says(*(row for row in ROWS if row[0] == "1")), GOLD)
    assert values(missing)[:3] == pytest.approx([1 / 3, 1 / 4, 2 / 7])
    assert missing.notes == ["Claims without prediction, with nothing retrieved (1): 2."]
    with pytest.raises(ClaimflowError, match="None of the 1 gold claims has evidence"):
        scifact_open([], [Claim(id="1", text="")])
    with pytest.raises(ClaimflowError, match="needs predictions"):
        SciFactOpen().score(GOLD)


# Laws

CASES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from([S, C])),
        st.dictionaries(
            st.sampled_from("abcde"),
            st.tuples(
                st.sampled_from([S, C, None]),
                st.sampled_from([0.1, 0.5, 0.9]),
                st.sampled_from([0.1, 0.5, 0.8]),
            ),
        ),
    ),
    min_size=1,
    max_size=4,
).filter(lambda cases: any(truth for truth, _ in cases))


def build(cases: list[Any]) -> tuple[list[Claim], list[Prediction]]:
    gold = [claim(str(i), **truth) for i, (truth, _) in enumerate(cases)]
    rows: list[Row] = [
        (str(i), doc, label, None, support, contradict)
        for i, (_, said) in enumerate(cases)
        for doc, (label, support, contradict) in said.items()
    ]
    return gold, says(*rows)


@given(CASES)
def test_average_precision_agrees_with_its_definition(cases: list[Any]) -> None:
    """At each confidence: recall and precision of all documents at or above it."""
    found = []  # confidence, right
    relevant = sum(len(truth) for truth, _ in cases)
    for truth, said in cases:
        for doc, (_, support, contradict) in said.items():
            best = C if contradict > support else S
            found.append((max(support, contradict), truth.get(doc) == best))
    expected = recall = 0.0
    for threshold in sorted({confidence for confidence, _ in found}, reverse=True):
        above = [right for confidence, right in found if confidence >= threshold]
        expected += (sum(above) / relevant - recall) * sum(above) / len(above)
        recall = sum(above) / relevant
    gold, said = build(cases)
    scores = scifact_open(said, gold, draws=2)
    if found:
        assert scores.measures["abstract_ap"].value == pytest.approx(expected)


@given(CASES, st.data())
def test_a_weight_stands_for_as_many_copies_of_the_claim(cases: list[Any], data: Any) -> None:
    times = data.draw(st.lists(st.integers(0, 3), min_size=len(cases), max_size=len(cases)))
    copies = [case for case, n in zip(cases, times, strict=True) for _ in range(n)]
    if not any(truth for truth, _ in copies):
        return
    gold, said = build(cases)
    system = Retrieved(gold, said)
    labels = {pair: found.label for pair, found in gold_documents(gold).items()}
    weighted = {
        name: statistic(np.array([times], dtype=np.float64))[0]
        for name, statistic in statistics(system, labels).items()
    }
    gold, said = build(copies)
    copied = scifact_open(said, gold, draws=2).measures
    for name in copied:
        if name in MEASURES and name in weighted:
            assert weighted[name] == pytest.approx(copied[name].value)


def test_bootstrap_deviations_are_those_of_the_resamples() -> None:
    scores = scifact_open(says(*ROWS), GOLD, draws=500, seed=7)
    row = next(r for r in scores.tables["bootstrap"] if r["measure"] == "abstract_precision")
    # Claim 1 alone has P 1/3, claim 2 alone P 1, both .5.
    drawn = [{2: 1 / 3, 1: 0.5, 0: 1.0}[int(w[0])] for w in resamples(2, 500, 7)]
    assert row["mean"] == pytest.approx(np.mean(drawn))
    assert row["sd"] == pytest.approx(np.std(drawn))
    measure = scores.measures["abstract_precision"]
    assert (measure.low, measure.high) == pytest.approx((1 / 3, 1))
    assert [row["documents_correct"] for row in scores.per_claim] == [1, 1]


# Files


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def official(model: str, rows: list[Row]) -> list[dict[str, Any]]:
    names = ("claim_id", "doc_id", "predicted_label", "rank", "p_support", "p_contradict")
    return [
        {"model": model} | dict(zip(names, (int(c), int(d), label or "NEI", *rest), strict=True))
        for c, d, label, *rest in rows
    ]


def test_reads_the_released_table(tmp_path: Path) -> None:
    gold = tmp_path / "claims.jsonl"
    gold.write_text(
        json.dumps(
            {
                "id": 1,
                "claim": "Moss helps.",
                "evidence": {
                    "10": {
                        "provenance": "citation",
                        "label": S,
                        "sentences": [1, 4],
                        "model_ranks": None,
                    },
                    "11": {
                        "provenance": "pooling",
                        "label": C,
                        "sentences": [],
                        "model_ranks": {"one": 4, "two": 260},
                    },
                },
            }
        )
        + '\n{"id": 2, "claim": "Ferns sing.", "evidence": {}}\n'
    )
    claims = read_gold(gold)
    assert claims[0].gold == [
        GoldSet(label=S, items=[("10", 1), ("10", 4)], provenance="citation"),
        GoldSet(label=C, items=[("11", None)], provenance="pooling", ranks={"one": 4, "two": 260}),
    ]
    files.write_open_claims(tmp_path / "again.jsonl", claims)
    assert [json.loads(x) for x in (tmp_path / "again.jsonl").read_text().splitlines()] == [
        json.loads(x) for x in gold.read_text().splitlines()
    ]
    path = table(tmp_path / "said.parqet", official("one", ROWS) + official("two", ROWS[:3]))
    with pytest.raises(ClaimflowError, match=r"holds 2 systems\. Name one .* of one, two"):
        read_submission(path)
    with pytest.raises(ClaimflowError, match=r"has no system 'tow'\. Did you mean 'two'\?"):
        read_submission(path, system="tow")
    two = read_submission(path, system="two")
    assert two == says(*ROWS[:3])
    scores = scifact_open(read_submission(path, system="one"), claims)
    assert values(scores)[:3] == pytest.approx([1 / 4, 1 / 2, 1 / 3])
    with pytest.raises(ClaimflowError, match="is no table of several systems: name it without"):
        read_submission(gold, system="two")


def test_the_command_line_takes_a_system_of_a_table(tmp_path: Path) -> None:
    path = table(tmp_path / "said.parquet", official("one", ROWS) + official("two", ROWS[:3]))
    files.write_open_claims(tmp_path / "gold.jsonl", GOLD)
    given = [f"gold={tmp_path}/gold.jsonl", "scorer=scifact_open", f"cache={tmp_path}/cache"]
    out = tmp_path / "out.json"
    score = ["flows.score", *given, f"out={out}"]
    told = command(*score, f"predictions={path}")
    assert (told.returncode, told.stdout) == (1, "")
    assert "holds 2 systems. Name one behind the file, said.parquet:one" in told.stderr
    done = command(*score, f"predictions={path}:two")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(out.read_text())
    assert run["name"] == "two"
    assert run["measures"]["abstract_precision"]["value"] == pytest.approx(2 / 3)
    assert "has no system 'tow'" in command(*score, f"predictions={path}:tow").stderr
    places = [f"outputs={tmp_path}/outputs", "tracking=none", f"out={out}"]
    both = f"{{a: {path}:one, b: {path}:two}}"
    done = command("flows.compare", *given, *places, f"runs={both}")
    assert done.returncode == 0, done.stderr
    found = {run["name"]: run["measures"] for run in json.loads(out.read_text())["runs"]}
    assert [found[name]["abstract_precision"]["value"] for name in "ab"] == [0.5, 2 / 3]


def test_arsjoint_has_no_average_precision(tmp_path: Path) -> None:
    path = tmp_path / "said.parquet"
    row = {"claim_id": 1, "doc_id": 10, "predicted_label": S, "rank": 1}
    row |= {"p_support": 0.9, "p_contradict": 0.1}
    rows = [{"model": name} | row for name in ("arsjoint", "other")]
    parquet.write_table(pa.Table.from_pylist(rows), path)
    claims = [claim("1", **{"10": S})]
    warnings: list[str] = []
    for system, measures in (("arsjoint", MEASURES[:3]), ("other", MEASURES)):
        said = read_submission(path, system=system, warnings=warnings)
        found = scifact_open(said, claims).measures
        assert tuple(m for m in found if m in MEASURES) == measures
    assert len(warnings) == 1
    assert "of arsjoint are no confidences" in warnings[0]
    parquet.write_table(pa.Table.from_pylist(rows[:1]), path)
    assert "abstract_ap" not in scifact_open(read_submission(path), claims).measures


def test_a_bad_row_costs_itself_alone(tmp_path: Path) -> None:
    rows = official("one", ROWS)
    rows[1] = rows[0]  # again
    rows[2] = rows[2] | {"predicted_label": "SUPPORTS"}
    rows[3] = rows[3] | {"claim_id": None}
    path = table(tmp_path / "said", rows)
    with pytest.raises(ClaimflowError, match=r"said, line 2: one, claim 1, document 10 again"):
        read_submission(path)
    bad: list[BadLine] = []
    (first, second) = read_submission(path, "skip", bad)
    assert [(p.id, len(p.findings)) for p in (first, second)] == [("1", 1), ("2", 3)]
    assert [b.line for b in bad] == [2, 4]
    # One document of two is right; that with the label SUPPORTS is predicted, and wrong.
    scores = scifact_open([first, second], GOLD)
    assert values(scores)[:3] == pytest.approx([1 / 2, 1 / 4, 1 / 3])
    assert any("claim 2, 20 'SUPPORTS' Did you mean 'SUPPORT'?" in n for n in scores.notes)
    (tmp_path / "cut").write_bytes(path.read_bytes()[:200])
    with pytest.raises(ClaimflowError, match="is no whole Parquet file"):
        read_submission(tmp_path / "cut")


def test_ranks_and_confidences_may_be_missing(tmp_path: Path) -> None:
    rows = official("one", ROWS)
    rows[0] |= {"p_support": None}
    rows[1] |= {"rank": None}
    (first, _) = read_submission(table(tmp_path / "said", rows))
    by_doc = {f.doc: f for f in first.findings}
    assert by_doc["10"].probabilities == {}
    assert by_doc["12"].rank is None
    scores = scifact_open(read_submission(tmp_path / "said"), GOLD)
    assert "1 of 6 retrieved documents have no confidence" in scores.notes[0]
    assert "1 of 6 retrieved documents have no rank" in scores.notes[1]


def test_what_is_no_probability_is_told(tmp_path: Path) -> None:
    rows = official("one", ROWS)
    rows[0] |= {"p_support": 1.7}
    rows[1] |= {"p_support": math.inf}
    path = table(tmp_path / "said", rows)
    scores = scifact_open(read_submission(path), GOLD)
    assert "1 of 6 retrieved documents have no confidence" in scores.notes[0]
    assert "1 of 6 retrieved documents have p_support or p_contradict outside" in scores.notes[1]
    assert [(f.rule, f.line, f.level) for f in lint(path).findings] == [
        ("schema", 1, "warning"),
        ("nan", 2, "warning"),
    ]


def test_ranks_from_0_and_a_missing_one_leave_the_ranking_as_it_is(tmp_path: Path) -> None:
    order = [4, 2, 5, 0, 3, 1]  # another one than by confidence

    def said(first: int, gap: int | None = None) -> list[Prediction]:
        rows = official("one", ROWS)
        for place, n in enumerate(order):
            rows[n] |= {"rank": None if n == gap else place + first}
        return read_submission(table(tmp_path / "said", rows))

    right, other = scifact_open(said(1), GOLD), scifact_open(says(*ROWS), GOLD)
    assert values(right)[3] != values(other)[3]
    for first in (0, -3):
        found = said(first)
        assert values(scifact_open(found, GOLD)) == values(right)
        assert sorted(f.rank or 0 for p in found for f in p.findings) == [1, 2, 3, 4, 5, 6]
    gap = Retrieved(GOLD, said(1, gap=5))
    assert [doc for _, doc in sorted(gap.place, key=gap.place.__getitem__)] == [
        *("22", "20", "10", "11", "12")
    ]
    assert gap.rank[0, "12"] == 6
    assert Retrieved(GOLD, said(1)).rank == {**gap.rank, (1, "21"): 3}


def test_ranks_that_begin_anew_for_each_claim_are_noted() -> None:
    seen: dict[str, int] = {}
    rows: list[Row] = []
    for c, d, label, _, s, k in ROWS:
        seen[c] = seen.get(c, 0) + 1
        rows.append((c, d, label, seen[c], s, k))
    (said,) = scifact_open(says(*rows), GOLD).notes
    assert said.startswith("3 of 6 ranks stand there again, where they run over all claims;")
    assert scifact_open(says(*ROWS), GOLD).notes == []
