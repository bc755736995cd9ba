"""Agreement and correlation: values by hand, textbook values, intervals, and the flow."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from components.datasets.ratings import read_ratings, read_scores
from components.errors import ClaimflowError
from components.score.agreement import (
    _kendall,
    agreements,
    cohen_kappa,
    correlations,
    deviation,
    fleiss_kappa,
    krippendorff_alpha,
    level,
    mean_ratings,
)
from tests.conftest import command

Units = list[dict[str, object]]


def units(*pairs: tuple[object, ...]) -> Units:
    return [{f"r{i}": value for i, value in enumerate(p) if value is not None} for p in pairs]


HAND = units("SS", "RR", "SR", "RR")


def test_two_raters_by_hand() -> None:
    assert fleiss_kappa(HAND) == pytest.approx((0.75 - 0.53125) / 0.46875)
    assert fleiss_kappa(HAND) == pytest.approx(0.466667, abs=5e-7)
    assert krippendorff_alpha(HAND) == pytest.approx(1 - 0.25 / (30 / 56))
    assert krippendorff_alpha(HAND) == pytest.approx(0.533333, abs=5e-7)
    # Raters say S twice and once of four: chance agrees in 2/4 · 1/4 + 2/4 · 3/4 = .5.
    assert cohen_kappa(HAND) == pytest.approx((0.75 - 0.5) / 0.5)


def test_fleiss_1971_and_krippendorff_2011() -> None:
    counts = [  # ten subjects by fourteen raters into five categories (Fleiss' kappa, .210)
        (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
    ]  # fmt: skip
    many = [dict(enumerate(c for c, n in enumerate(row) for _ in range(n))) for row in counts]
    assert fleiss_kappa(many) == pytest.approx(0.210, abs=5e-4)
    # Four observers, values missing (Krippendorff 2011, section E): nominal .743, ordinal .815.
    table = [
        (1, 1, None, 1), (2, 2, 3, 2), (3, 3, 3, 3), (3, 3, 3, 3), (2, 2, 2, 2), (1, 2, 3, 4),
        (4, 4, 4, 4), (1, 1, 2, 1), (2, 2, 2, 2), (None, 5, 5, 5), (None, None, 1, 1),
    ]  # fmt: skip
    observed = units(*table)
    assert krippendorff_alpha(observed) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(observed, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(observed, "interval") == pytest.approx(0.849, abs=5e-4)


def test_deviation_within_a_claim() -> None:
    assert deviation(units((1, 3), (2, 2), (5, 1))) == pytest.approx(
        (math.sqrt(2) + 0 + math.sqrt(8)) / 3
    )


def test_what_has_no_value() -> None:
    assert math.isnan(fleiss_kappa(units("SS", "SS")))
    assert math.isnan(krippendorff_alpha(units("SS", "SS")))
    with pytest.raises(ClaimflowError, match="units with 2, 3"):
        fleiss_kappa(units("SS", "RRR"))
    with pytest.raises(ClaimflowError, match="two raters; here are 3"):
        cohen_kappa(units("SSR", "RRR"))
    assert agreements(units("S", "R")) == []


def test_coefficients_by_kind_of_rating() -> None:
    found = {a.name: a for a in agreements([*HAND, *units("S")], draws=200)}
    assert list(found) == ["Krippendorff's alpha, nominal", "Fleiss' kappa", "Cohen's kappa"]
    assert found["Fleiss' kappa"].value == pytest.approx(0.466667, abs=5e-7)
    assert found["Fleiss' kappa"].units == 4
    numbers = {a.name for a in agreements(units((1.0, 2.0), (3.0, 3.0), (5.0, 4.0)), draws=50)}
    assert numbers == {
        "Krippendorff's alpha, ordinal", "Krippendorff's alpha, interval",
        "Cohen's kappa, quadratic", "standard deviation",
    }  # fmt: skip


letters = st.sampled_from("SRN")


@given(st.lists(st.lists(letters, min_size=3, max_size=3), min_size=2, max_size=8))
@settings(deadline=None)
def test_agreement_is_at_most_one_and_one_when_all_agree(table: list[list[str]]) -> None:
    some = units(*map(tuple, table))
    for value in (fleiss_kappa(some), krippendorff_alpha(some)):
        assert math.isnan(value) or value <= 1 + 1e-12
    alike = units(*[(row[0],) * 3 for row in table], ("S",) * 3, ("R",) * 3)
    assert fleiss_kappa(alike) == pytest.approx(1)
    assert krippendorff_alpha(alike) == pytest.approx(1)


# Correlation


def test_correlations_worked() -> None:
    x, y = [1, 2, 3, 4, 5], [2, 1, 4, 3, 5]
    found = {c.name: c for c in correlations(x, y)}
    # Rank differences 1 1 1 1 0; 8 of 10 pairs in the same order.
    assert found["spearman"].value == pytest.approx(1 - 6 * 4 / (5 * 24))
    assert found["kendall"].value == pytest.approx((8 - 2) / 10)
    assert found["pearson"].value == pytest.approx(0.8)
    assert found["pearson"].n == 5
    assert found["pearson"].p == pytest.approx(stats.pearsonr(x, y).pvalue)
    for one in found.values():
        assert one.low is not None
        assert one.high is not None
        assert -1 <= one.low <= one.value <= one.high <= 1 + 1e-12
    assert correlations(x, y) == list(found.values())  # the seed fixes the draws
    assert correlations([1, 2], [1, 2]) == []
    assert correlations([1, 1, 1], [1, 2, 3]) == []


def test_intervals_cover_a_known_correlation() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(60):
        x = rng.normal(size=80)
        y = 0.5 * x + math.sqrt(0.75) * rng.normal(size=80)
        (pearson,) = (c for c in correlations(x, y, draws=300) if c.name == "pearson")
        assert pearson.low is not None
        assert pearson.high is not None
        covered += pearson.low <= 0.5 <= pearson.high
    assert covered >= 50  # 57 are due


values = st.integers(0, 4).map(float)


@given(st.lists(st.tuples(values, values), min_size=3, max_size=12), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_kendall_of_a_resample_is_that_of_scipy(pairs: list, seed: int) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    rows = np.random.default_rng(seed).integers(0, len(a), (5, len(a)))
    for row, value in zip(rows, _kendall(a, b, rows), strict=True):
        expected = stats.kendalltau(a[row], b[row]).statistic
        assert value == pytest.approx(expected, abs=1e-12, nan_ok=True)


# Files and flow


def write(path: Path, *rows: tuple[object, ...]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_ratings_and_their_mistakes(tmp_path: Path) -> None:
    file = write(
        tmp_path / "r.csv", ("id", "rater", "verdict", "coverage"),
        (7, "a", "S", 1), (7, "b", "R", 3), (8, "a", "S", ""),
    )  # fmt: skip
    found = read_ratings(file)
    assert found["verdict"] == {"7": {"a": "S", "b": "R"}, "8": {"a": "S"}}
    assert found["coverage"] == {"7": {"a": 1.0, "b": 3.0}}
    assert mean_ratings(found["coverage"]) == {"7": 2.0}
    assert mean_ratings(found["verdict"]) == {}
    again = write(tmp_path / "again.csv", ("id", "rater", "x"), (7, "a", 1), (7, "a", 2))
    with pytest.raises(
        ClaimflowError, match=r"line 3: rater a rates claim 7 again, after line 2 \(x: '2' now, '1"
    ):
        read_ratings(again)
    twice = write(tmp_path / "twice.csv", ("id", "rater", "x", "y", "x"), (7, "a", 1, 2, 3))
    for read in (read_ratings, read_scores):
        with pytest.raises(ClaimflowError, match=r"line 1: the column x stands there 2 times"):
            read(twice)
    with pytest.raises(ClaimflowError, match="has no column rater"):
        read_ratings(write(tmp_path / "no.csv", ("id", "x"), (7, 1)))
    with pytest.raises(ClaimflowError, match="not as many cells"):
        read_ratings(write(tmp_path / "short.csv", ("id", "rater", "x"), (7, "a")))
    with pytest.raises(ClaimflowError, match="No file of scores"):
        read_scores(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text('{"a": 1}')
    with pytest.raises(ClaimflowError, match=r"not what flows\.score writes"):
        read_scores(tmp_path / "bad.json")


def test_marks_for_no_rating_leave_a_dimension_numeric(tmp_path: Path) -> None:
    """Five ways to say that there is no rating: 4 and 5 are left, and the notes count the rest."""
    file = tmp_path / "ratings.csv"
    cells = ["4", "n/a", "5", "NA", "", "nan", "-"]
    rows = [f"{i // 2},r{i % 2},{cell},{'no' if i else 'NA'}" for i, cell in enumerate(cells)]
    file.write_text("\n".join(["id,rater,fluency,verdict", *rows]))
    notes: list[str] = []
    found = read_ratings(file, notes)
    assert found["fluency"] == {"0": {"r0": 4.0}, "1": {"r0": 5.0}}
    assert found["verdict"]["0"] == {"r1": "no"}
    assert notes == [
        "ratings.csv, column fluency: cells that are no ratings (5): line 3 'n/a', line 5 'NA', "
        "line 6 '', line 7 'nan', line 8 '-'.",
        "ratings.csv, column verdict: cells that are no ratings (1): line 2 'NA'.",
    ]


@pytest.mark.parametrize("bad", ["four", "4?", "inf", "4,5", "n/a"])
def test_a_bad_cell_makes_no_other_scale(tmp_path: Path, bad: str) -> None:
    """It is named by file, line, column and value; all other ratings are ordinal as before."""
    rows = [(i, r, 1 + (i + k) % 5) for i in range(5) for k, r in enumerate("ab")]
    clean = read_ratings(write(tmp_path / "clean.csv", ("id", "rater", "x"), *rows))["x"]
    file = write(tmp_path / "r.csv", ("id", "rater", "x"), *rows, (9, "a", bad), (9, "b", 3))
    notes: list[str] = []
    found = read_ratings(file, notes)["x"]
    assert found == clean | {"9": {"b": 3.0}}
    assert agreements(list(found.values()), 20) == agreements(list(clean.values()), 20)
    assert len(notes) == 1
    assert notes[0].startswith("r.csv, column x: ")
    assert notes[0].endswith(f"(1): line 12 '{bad}'.")


def test_labels_that_are_numbers_or_spelt_otherwise(tmp_path: Path) -> None:
    rows = [(1, "a", "S", 0), (1, "b", "s", 1), (2, "a", "R", 2), (2, "b", "7", 2)]
    file = write(tmp_path / "r.csv", ("id", "rater", "verdict", "code"), *rows)
    notes: list[str] = []
    found = read_ratings(file, notes, ["code"])
    assert {level(units.values()) for units in found.values()} == {"nominal"}
    assert found["code"]["1"] == {"a": "0", "b": "1"}
    assert notes == [
        "r.csv, column verdict: numbers among labels, which count as labels (1): line 5 '7'.",
        "r.csv, column verdict: labels that differ in case or space alone count as different: "
        "'S' and 's'.",
    ]
    with pytest.raises(ClaimflowError, match=r"no column cod\. Did you mean 'code'\?"):
        read_ratings(file, notes, ["cod"])


def test_scores_of_several_runs_and_bad_cells(tmp_path: Path) -> None:
    rows = [{"id": 1, "qa": 0.5, "gold": "S"}]
    runs = [{"name": n, "per_claim": rows} for n in ("x", "y")]
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    assert read_scores(tmp_path / "runs.json") == {"x.qa": {"1": 0.5}, "y.qa": {"1": 0.5}}
    pandas = write(tmp_path / "p.csv", ("id", "qa"), ("1.0", 0.5), ("1.5", 0.5))
    assert read_scores(pandas) == {"qa": {"1": 0.5, "1.5": 0.5}}
    notes: list[str] = []
    file = write(tmp_path / "s.csv", ("id", "label", "qa"), (1, "S", 0.5), (2, "R", "bad"))
    assert read_scores(file, notes) == {"qa": {"1": 0.5}}
    assert notes == ["s.csv, column qa: not numbers, so they count as missing (1): line 3 'bad'."]
    with pytest.raises(ClaimflowError, match="line 3: claim 1 again, after line 2"):
        read_scores(write(tmp_path / "t.csv", ("id", "qa"), (1, 0.5), (1, 0.6)))


def test_as_a_command(tmp_path: Path) -> None:
    rated = [(i, r, label[k], i + k) for i, label in enumerate(("SS", "RR", "SR", "RR"))
             for k, r in enumerate("ab")]  # fmt: skip
    write(tmp_path / "r.csv", ("id", "rater", "verdict", "coverage"), *rated)
    rows = [{"id": str(i), "qa": i / 10, "gold": "S"} for i in range(3)]
    run = {"name": "x", "measures": {}, "per_claim": rows}
    (tmp_path / "s.json").write_text(json.dumps([run]))
    words = ("flows.agreement", f"ratings={tmp_path}/r.csv", f"scores={tmp_path}/s.json")
    done = command(*words, f"out={tmp_path}/out.json", f"to={tmp_path}/to")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["levels"] == {"verdict": "nominal", "coverage": "ordinal"}
    assert "Nominal: verdict. Ordinal: coverage." in done.stdout
    kappa = {(a["dimension"], a["name"]): a["value"] for a in found["agreement"]}
    assert kappa["verdict", "Fleiss' kappa"] == pytest.approx(0.466667, abs=5e-7)
    assert kappa["verdict", "Krippendorff's alpha, nominal"] == pytest.approx(0.533333, abs=5e-7)
    rho = {c["name"]: c for c in found["correlations"]}
    assert rho["spearman"]["value"] == pytest.approx(1)
    assert rho["spearman"]["n"] == 3
    assert "H-METEOR Q+A" in done.stdout
    assert "without a score, which are left out (1): 3." in done.stdout
    assert (tmp_path / "to" / "correlations.csv").read_text().startswith("dimension,measure,name")
    done = command(*words, "missing=zero", f"out={tmp_path}/out.json")
    found = json.loads((tmp_path / "out.json").read_text())
    assert {c["n"] for c in found["correlations"]} == {4}
    wrong = command(*words, "measures=[qq]")
    assert wrong.returncode == 1
    assert "Did you mean 'qa'?" in wrong.stderr


def test_what_has_no_value_is_a_dash_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path / "r.csv", ("id", "rater", "x"), (1, "a", 2), (1, "b", 2), (2, "a", 2))
    done = command("flows.agreement", f"ratings={tmp_path}/r.csv")
    assert done.returncode == 0, done.stderr
    assert "nan" not in done.stdout
    assert "- x: no Cohen's kappa, quadratic, as all ratings are the same." in done.stdout
    assert "- x: claims with one rating, left out of agreement (1): 2." in done.stdout


def test_rows_without_a_claim_or_a_rater_are_told(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("id,rater,clear\n1,a,3\n,a,4\n1, ,5\n1,b,3\n")
    notes: list[str] = []
    assert read_ratings(path, notes) == {"clear": {"1": {"a": 3.0, "b": 3.0}}}
    assert notes == ["ratings.csv: rows without id or rater, left out (2): line 3, line 4."]
    path.write_text("id,q\n1,.5\n,.2\n")
    assert read_scores(path, notes) == {"q": {"1": 0.5}}
    assert notes[1:] == ["ratings.csv: rows without id, left out (1): line 3."]
    path.write_text("id,rater,clear\n,a,4\n")
    with pytest.raises(ClaimflowError, match="has no rows with id and rater"):
        read_ratings(path)
    path.write_text("id;rater;clear\n1;a;4\n")
    with pytest.raises(ClaimflowError, match="Its cells are parted by ';': save it with commas"):
        read_ratings(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"runs": [{"name": "a"}]}, r"it holds an object \(its keys are runs: the list of 1 under"),
        ([3], "it holds something else"),
        ([{"name": "a"}], "'per_claim' is missing in it"),
        ([{"name": "a", "per_claim": [3]}], "a list of runs with name and per_claim: "),
    ],
)
def test_scores_of_another_json(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "scores.json").write_text(json.dumps(content))
    with pytest.raises(ClaimflowError, match=message):
        read_scores(tmp_path / "scores.json")


def test_ratings_in_other_encodings_and_with_huge_cells(tmp_path: Path) -> None:
    path, scores = tmp_path / "r.csv", tmp_path / "s.json"
    text = f"id,rater,verdict\n1,Zoé,S\n1,b,{'x' * 200_000}\n"
    for encoding in ("utf-8", "utf-16", "utf-8-sig"):
        path.write_text(text, encoding=encoding)
        assert list(read_ratings(path)["verdict"]["1"]) == ["Zoé", "b"]
        scores.write_text('[{"per_claim": [{"id": "1", "qa": 0.5}]}]', encoding=encoding)
        assert read_scores(scores) == {"qa": {"1": 0.5}}
    for encoding in ("cp1252", "utf-16-le"):
        path.write_text(text, encoding=encoding)
        for read in (read_ratings, read_scores):
            with pytest.raises(ClaimflowError, match=r"r.csv, line \d: .* the file as UTF-8"):
                read(path)
