"""Comparing runs: tests of every pair, rank stability, claims, the report in all its forms."""

from __future__ import annotations

import csv
import io
import itertools
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.records import AVERITEC_LABELS, Evidence
from components.report import page, plot
from components.report.brief import brief
from components.report.claims import (
    agreement,
    confusions,
    differing,
    evidence_apart,
    majority,
    reliabilities,
    repeats,
)
from components.report.compare import (
    ALL_PAIRS,
    MOST,
    Comparison,
    Contrast,
    Point,
    check_measures,
    compare,
    primary_of,
)
from components.report.groups import groups_in
from components.report.sections import agreeing, finding, leaderboard, sections, two_of
from components.report.table import figure, run_table
from components.score.base import Measure, Scores
from components.score.formula import measured
from components.score.ranks import rank_stability

FORMULAS: dict[str, list[str]] = {
    "qa": [],
    "accuracy": [],
    "f1_macro": ["f1", *AVERITEC_LABELS],
    "ece": ["ece"],
    "micro": ["ratio", "hits", "of"],
}


def point(name: str, rows: list[dict[str, Any]], **more: Any) -> Point:
    """A run as a scorer would give it."""
    texts = {str(row["id"]): f"Claim <{row['id']}>." for row in rows}
    return Point(
        name=name, per_claim=rows, texts=texts, measures=measured(FORMULAS, rows, 200, 13), **more
    )


def made(name: str, skill: float, claims: int = 60, seed: int = 0, **more: Any) -> Point:
    """A run that is right with probability `skill`."""
    gold = [random.Random(i).choice(AVERITEC_LABELS) for i in range(claims)]
    chance = random.Random(f"{name} {seed}")
    rows = []
    for i, label in enumerate(gold):
        guess = label if chance.random() < skill else chance.choice(AVERITEC_LABELS)
        rows.append(
            {
                "id": str(i),
                "gold": label,
                "predicted": guess,
                "accuracy": float(guess == label),
                "qa": skill / 2 + chance.random() / 2,
                "confidence": chance.random(),
                "hits": chance.randint(0, 2),
                "of": 2,
            }
        )
    return point(name, rows, **more)


def test_a_comparison_says_what_a_test_by_hand_says() -> None:
    """Four claims: differences 1, 1, 1, 0 of accuracy; of 16 swaps 4 reach a mean of .75."""
    rows = [{"id": i, "accuracy": float(i > 0)} for i in range(4)]
    other = [{"id": i, "accuracy": 0.0} for i in range(4)]
    found = compare("t", [point("b", other), point("a", rows)], "accuracy")
    assert [p.name for p in found.runs] == ["a", "b"]
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.value) == ("a", "b", 0.75)
    assert pair.p_randomisation == pair.holm_randomisation == 4 / 16
    assert pair.detectable == pytest.approx(2.801585 * 0.5 / 2, abs=1e-6)
    # Behind in no resample; level in those of the first claim alone, one of 256.
    assert pair.ahead == pytest.approx(1 - 1 / 512, abs=0.001)
    assert not pair.significant


def test_holm_goes_over_the_pairs_of_a_measure() -> None:
    found = compare("t", [made(n, s) for n, s in (("a", 0.9), ("b", 0.5), ("c", 0.5))], "accuracy")
    for measure in FORMULAS:
        pairs = found.of(measure)
        assert len(pairs) == found.tests == 3
        least = min(pairs, key=lambda p: p.p_randomisation)
        assert least.holm_randomisation == pytest.approx(min(1, 3 * least.p_randomisation))
        assert all(p.holm_bootstrap >= p.p_bootstrap for p in pairs)
    assert found.runs[0].name == "a"
    assert all(p.significant == (max(p.holm_bootstrap, p.holm_randomisation) < 0.05)
               for p in found.pairs)  # fmt: skip


def test_figures_are_those_of_the_scorer_where_all_claims_are_shared() -> None:
    runs = [made("a", 0.8), made("b", 0.4)]
    found = compare("t", runs, "qa", draws=200)
    for run in runs:
        assert {m: v[run.name] for m, v in found.values.items()} == run.measures


def test_runs_are_compared_on_the_claims_that_all_have() -> None:
    short = made("short", 0.6, claims=20)
    long = made("long", 0.6, claims=60)
    found = compare("t", [short, long], "accuracy", draws=200)
    assert set(found.claims.values()) == {20}
    again = measured(FORMULAS, long.per_claim[:20], 200, 13)
    for name, measure in again.items():
        assert found.values[name]["long"].value == measure.value
        assert found.values[name]["long"].low == measure.low
    assert any(note.startswith("Only the 20 claims") for note in found.notes)


def test_calibration_and_confusion_are_on_shared_claims_too() -> None:
    short, long = made("short", 0.6, claims=20), made("long", 0.6, claims=60)
    found = compare("t", [short, long], "accuracy", draws=50)
    assert {sum(map(sum, m.counts)) for m in confusions(found).values()} == {20}
    bins = reliabilities(found)["long"]
    assert sum(row["claims"] for row in bins) == 20
    gap = sum(row["claims"] * abs(row["accuracy"] - row["confidence"]) for row in bins) / 20
    assert gap == pytest.approx(found.values["ece"]["long"].value)


def test_lower_is_better_where_it_is() -> None:
    rows = [made("x", 1.0).per_claim for _ in range(2)]
    sure, unsure = ([{**row, "confidence": c} for row in rows[0]] for c in (0.95, 0.55))
    found = compare("t", [point("unsure", unsure), point("sure", sure)], "ece")
    assert [p.name for p in found.runs] == ["sure", "unsure"]
    pair = found.pair("ece", "sure", "unsure")
    assert pair
    assert pair.value == pytest.approx(-0.4)
    assert pair.better
    assert pair.ahead == 1
    assert found.ranks["ece"].systems == ["sure", "unsure"]


@given(st.permutations(range(4)))
@settings(deadline=None, max_examples=4)
def test_the_order_of_runs_does_not_matter(order: list[int]) -> None:
    runs = [made(f"run {n}", 0.3 + n / 6, claims=25) for n in range(4)]
    found = compare("t", [runs[n] for n in order], "qa", draws=100)
    straight = compare("t", runs, "qa", draws=100)
    assert [p.name for p in found.runs] == [p.name for p in straight.runs]
    key = ("measure", "first", "second")
    both = [{tuple(getattr(p, k) for k in key): p for p in c.pairs} for c in (found, straight)]
    assert both[0].keys() == both[1].keys()
    for name, pair in both[0].items():
        assert pair.p_randomisation == both[1][name].p_randomisation
        assert pair.p_bootstrap == both[1][name].p_bootstrap
        assert pair.value == pytest.approx(both[1][name].value)
        assert pair.detectable == pytest.approx(both[1][name].detectable)


@given(st.integers(0, 50), st.integers(1, 40))
@settings(deadline=None, max_examples=15)
def test_a_run_compared_with_itself(seed: int, claims: int) -> None:
    run = made("a", 0.5, claims, seed)
    twin = made("a", 0.5, claims, seed)
    twin.name = "b"
    found = compare("t", [run, twin], "qa", draws=50)
    for pair in found.pairs:
        assert (pair.value, pair.low, pair.high, pair.detectable) == (0, 0, 0, 0)
        assert pair.p_bootstrap == pair.p_randomisation == 1
        assert pair.ahead == 0.5
        assert not pair.significant
    assert not differing(found, "a", "b")
    assert finding(found)[0].startswith("**a and b are level**")


def test_many_runs_are_tested_against_the_best_alone() -> None:
    runs = [made(f"run {n}", n / 30, claims=15) for n in range(ALL_PAIRS + 2)]
    found = compare("t", runs, "accuracy", draws=50)
    assert len(found.of("accuracy")) == ALL_PAIRS + 1
    assert {p.first for p in found.of("accuracy")} == {found.runs[0].name}


def test_what_cannot_be_tested_is_said() -> None:
    a, b = made("a", 0.5), made("b", 0.6)
    b.measures["qa"] = Measure(value=0.9, formula=["ratio", "hits", "of"])
    b.measures["q"] = Measure(value=0.9)
    a.measures["q"] = Measure(value=0.8)
    found = compare("t", [a, b], "q", draws=50)
    assert found.values["q"]["b"].value == 0.9
    assert not found.of("q")
    assert not found.of("qa")
    assert found.of("accuracy")
    assert "Not tested, for want of per-claim values of a, b: q." in found.notes
    assert "Not tested, because the runs compute it in different ways: qa." in found.notes
    assert "was not tested" in finding(found)[0]


def test_runs_on_other_data_are_not_paired() -> None:
    other = made("other", 0.5)
    other.per_claim = [{**row, "id": f"x{row['id']}"} for row in other.per_claim]
    relabelled = made("relabelled", 0.5)
    relabelled.per_claim = [{**row, "gold": "Refuted"} for row in relabelled.per_claim]
    retold = made("retold", 0.5)
    retold.texts = {i: f"Another {text}" for i, text in retold.texts.items()}
    for run, reason in (
        (other, "a and other have no claim in common"),
        (made("b", 0.5, data="fever dev"), "a is on averitec dev, b on fever dev"),
        (relabelled, "has the gold label"),
        (retold, "the claims of a and retold have the same ids but other texts"),
    ):
        found = compare("t", [made("a", 0.5, data="averitec dev"), run], draws=50)
        assert not found.pairs
        assert reason in found.notes[0]


# Rank stability


def test_rank_stability_by_hand() -> None:
    """Four draws: in order; the last two changed; the first two level; all turned round."""
    drawn = np.array([[3, 3, 2, 1], [2, 1, 2, 2], [1, 2, 1, 3]], dtype=float)
    found = rank_stability(["a", "b", "c"], drawn)
    assert found.chances == [
        [2.5 / 4, 0.5 / 4, 1 / 4],
        [0.5 / 4, 2.5 / 4, 1 / 4],
        [1 / 4, 1 / 4, 2 / 4],
    ]
    assert found.swaps == [1.5 / 4, 2 / 4]  # b ahead of a in one draw, level in one; c of b in two
    assert found.order_changes == 2 / 4


def test_rank_stability_of_runs_that_resampling_can_turn_round() -> None:
    """a beats b on one claim of two, b beats a on none: they are level in a quarter of draws."""
    a = point("a", [{"id": 0, "accuracy": 1.0}, {"id": 1, "accuracy": 1.0}])
    b = point("b", [{"id": 0, "accuracy": 0.0}, {"id": 1, "accuracy": 1.0}])
    ranks = compare("t", [a, b], "accuracy").ranks["accuracy"]
    assert ranks.order_changes == 0
    assert ranks.swaps[0] == pytest.approx(1 / 8, abs=0.01)
    assert ranks.chances[0][0] == pytest.approx(7 / 8, abs=0.01)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=2, max_size=5),
)
def test_ranks_are_a_distribution(drawn: list[list[int]]) -> None:
    found = rank_stability([str(i) for i in range(len(drawn))], np.array(drawn, dtype=float))
    for sums in (np.sum(found.chances, axis=0), np.sum(found.chances, axis=1)):
        assert sums == pytest.approx(np.ones(len(drawn)))
    assert all(0 <= swap <= 1 for swap in [*found.swaps, found.order_changes])


# Claims


def test_claims_on_which_two_differ() -> None:
    def rows(guesses: str, scores: list[float]) -> list[dict[str, Any]]:
        return [
            {"id": str(i), "gold": "Refuted", "predicted": names[g], "qa": qa,
             "accuracy": float(g == "R")}
            for i, (g, qa) in enumerate(zip(guesses, scores, strict=True))
        ]  # fmt: skip

    names = {"R": "Refuted", "S": "Supported", "N": "Not Enough Evidence", "-": None}
    a = point("a", rows("RRSSR", [0.5, 0.6, 0.1, 0.2, 0.9]))
    b = point("b", rows("RSRN-", [0.1, 0.5, 0.4, 0.2, 0.0]))
    found = compare("t", [a, b], "qa", ["accuracy"], draws=50)
    claims = differing(found, "a", "b")
    assert [(c.id, c.right) for c in claims] == [
        ("4", "first"), ("2", "second"), ("1", "first"), ("3", "neither"),
    ]  # fmt: skip
    assert claims[1].labels == ("Supported", "Refuted")
    assert claims[1].scores == {"qa": (0.1, 0.4)}
    assert claims[1].text == "Claim <2>."
    assert agreement(found, "a", "b") == {"both": 1, "first": 2, "second": 1, "neither": 1}
    matrix = confusions(found)["b"]
    assert matrix.gold == ["Refuted"]
    assert matrix.predicted == ["Supported", "Refuted", "Not Enough Evidence", "none"]
    assert matrix.counts == [[1, 2, 1, 1]]


def test_without_labels_claims_differ_by_the_primary_measure() -> None:
    a = point("a", [{"id": i, "qa": v} for i, v in enumerate([0.1, 0.5, 0.9])])
    b = point("b", [{"id": i, "qa": v} for i, v in enumerate([0.3, 0.5, 0.2])])
    found = compare("t", [a, b], "qa", draws=50)
    assert [(c.id, c.right) for c in differing(found, "a", "b")] == [
        ("2", "first"),
        ("0", "second"),
    ]
    assert agreement(found, "a", "b") is None
    assert confusions(found) == {}


def test_claims_whose_evidence_is_furthest_apart() -> None:
    a = point("a", [{"id": i, "qa": v, "gold": "Refuted", "predicted": "Refuted", "accuracy": 1.0}
                    for i, v in enumerate([0.1, 0.5, 0.9])])  # fmt: skip
    b = point("b", [{"id": i, "qa": v, "gold": "Refuted", "predicted": "Refuted", "accuracy": 1.0}
                    for i, v in enumerate([0.3, 0.5, 0.2])])  # fmt: skip
    found = compare("t", [a, b], "accuracy", draws=50)
    assert differing(found, "a", "b") == []
    apart = evidence_apart(found, "a", "b")
    assert apart is not None
    measure, claims = apart
    assert measure == "qa"
    assert [(c.id, c.right, c.scores["qa"]) for c in claims] == [
        ("2", "first", (0.9, 0.2)),
        ("0", "second", (0.1, 0.3)),
    ]
    assert (
        evidence_apart(compare("t", [point("c", [{"id": 0, "accuracy": 1.0}])] * 2), "c", "c")
        is None
    )


def test_runs_side_by_side_within_groups() -> None:
    runs = [made(name, skill) for name, skill in (("a", 0.9), ("b", 0.5), ("c", 0.1))]
    kinds = {str(i): {"claim type": ["Even"] if i % 2 == 0 else ["Odd", "Few"][: 1 + (i < 10)]}
             for i in range(60)}  # fmt: skip
    runs[1].groups = kinds
    found = compare("t", runs, "qa", ["accuracy", "f1_macro"], draws=200)
    groups = groups_in(found, ("b", "a"))
    assert {(g.group, g.claims) for g in groups} == {("Even", 30), ("Odd", 30), ("Few", 5)}
    assert [g.measure for g in groups] == ["qa", "accuracy"] * 3  # not F1, which is no mean
    few = groups[-1]
    odd = next(g for g in groups if (g.group, g.measure) == ("Odd", "accuracy"))
    right = {p.name: [r["accuracy"] for r in p.per_claim if int(r["id"]) % 2] for p in runs}
    assert odd.values == {name: pytest.approx(sum(v) / 30) for name, v in right.items()}
    assert list(odd.values) == ["b", "a", "c"]
    apart = [{"id": i, "apart": b - a} for i, (a, b) in
             enumerate(zip(right["a"], right["b"], strict=True))]  # fmt: skip
    assert odd.difference == measured({"apart": []}, apart, 200, 13)["apart"]
    assert (few.group, few.difference.low) == ("Few", None)
    assert groups_in(compare("t", [made("a", 0.9), made("b", 0.5)], "qa"), ("a", "b")) == []
    for each in runs:  # a measure that is known of all claims together alone, as AP
        each.measures["ap"] = Measure(value=0.5)
    found = compare("t", runs, "qa", ["ap"], draws=200)
    assert {g.measure for g in groups_in(found, ("b", "a"))} == {"qa"}


def test_measures_that_were_not_tested_are_named() -> None:
    runs = [made("a", 0.9), made("b", 0.5)]
    for each, value in zip(runs, (0.4, 0.6), strict=True):
        each.measures["abstract_ap"] = Measure(value=value)  # of no rows
    text = " ".join(finding(compare("t", runs, "accuracy", draws=100)))
    assert f"Of the {len(FORMULAS) - 1} other measures that were tested, a is" in text
    assert "Not tested (see the notes): abstract AP." in text
    text = " ".join(finding(compare("t", [made("a", 0.9), made("b", 0.5)], "accuracy", draws=100)))
    assert f"Of the {len(FORMULAS) - 1} other measures, a is" in text
    assert "Not tested" not in text


def test_what_is_not_known_of_the_cost_is_a_dash(tmp_path: Path) -> None:
    spent: dict[str, Any] = {"seconds": {"verdict": 9.0}, "compute": {"verdict": 3.0}}
    runs = [made("run", 0.9, cache={"hits": 1, "misses": 2}, **spent), made("file", 0.5)]
    found = compare("t", runs, "accuracy", draws=100)
    page.write(tmp_path, found, None, 5)
    assert [row[-2:] for row in leaderboard(found).rows[:2]] == [["9.0", "1/3"], ["–", "–"]]
    (cost,) = (s for s in sections(found, ("run", "file"), 5, set()) if s.title == "Cost")
    assert [row[1:4] for row in cost.tables[0].rows] == [
        ["9.0", "1/3", "3.0 (0.050 a claim)"], ["–", "–", "–"],
    ]  # fmt: skip
    table = list(csv.DictReader(io.StringIO((tmp_path / "comparison.csv").read_text())))
    assert [(row["seconds"], row["compute_seconds"]) for row in table] == [("9.0", "3.0"), ("", "")]


def test_the_best_of_a_measure_stand_out_also_where_a_run_lacks_it() -> None:
    def colours(*values: float | None) -> list[str]:
        runs = [Point(name=str(i), measures={} if v is None else {"qa": Measure(value=v)})
                for i, v in enumerate(values)]  # fmt: skip
        known = {p.name: p.measures["qa"] for p in runs if p.measures}
        found = Comparison(title="t", primary="qa", shown=["qa"], runs=runs, values={"qa": known})
        picture = plot.measures_plot(found)
        assert picture
        dots = [line for line in picture.axes[0].lines if line.get_marker() == "o"]
        return [str(line.get_color()) for line in dots]

    assert colours(0.5, 0.5, 0.3) == [plot.BEST, plot.BEST, plot.REST]
    assert colours(0.5, 0.5, None) == [plot.BEST, plot.BEST]
    assert colours(0.5, 0.5) == [plot.REST, plot.REST]


def test_a_name_of_a_run_is_no_formula(tmp_path: Path) -> None:
    runs = [made(name, right) for name, right in (("$\\x$ {0} %s", 0.9), ("_ {} 5 %", 0.5))]
    page.write(tmp_path, compare("$\\y$ {a}", runs, "accuracy", ["accuracy"], draws=100), None, 5)
    assert "$\\x$ {0} %s" in (tmp_path / "report.html").read_text("utf-8")


# The report


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    folder = tmp_path_factory.mktemp("report")
    runs = [made("a & b", 0.9, compute={"verdict": 3.0}, tokens={"prompt_tokens": 1200.0}),
            made("plain", 0.5), made("<i>", 0.3)]  # fmt: skip
    said = [Evidence(question="Who?", answer="<b>Nobody</b>")]
    runs[0].evidence = dict.fromkeys(map(str, range(60)), said)
    runs.append(Point(name="broken", error="no memory"))
    found = compare("A <title>", runs, "accuracy", ["qa", "f1_macro"], draws=200)
    page.write(folder, found, None, 5)
    return folder, found


def test_the_page_stands_alone_and_escapes(report: tuple[Path, Comparison]) -> None:
    text = (report[0] / "report.html").read_text()
    assert "A &lt;title&gt;" in text
    assert "&lt;b&gt;Nobody" in text
    assert "Claim &lt;" in text
    assert "<i>" not in text
    assert text.count("<svg") == 4
    assert not re.search(r"""(?:src|href)=["'](?!#)""", re.sub(r"xlink:href|xmlns\S+", "", text))
    assert "<script" not in text


def test_markdown_and_plots(report: tuple[Path, Comparison]) -> None:
    folder, _ = report
    text = (folder / "report.md").read_text()
    assert "| a & b " in text
    assert "no memory" in text
    assert "Claim &lt;" in text
    assert "| &lt;i> " in text
    for name in re.findall(r"\((plots/\w+\.png)\)", text):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert len(re.findall(r"\(plots/", text)) == 4
    assert "**a & b is ahead of plain** on label accuracy" in text
    assert "3.0 (0.050 a claim)" in text
    assert "1,200" in text


def test_the_two_that_are_asked_for_the_better_one_first(
    report: tuple[Path, Comparison], tmp_path: Path
) -> None:
    page.write(tmp_path, report[1], ("<i>", "plain"), 5)
    text = (tmp_path / "report.md").read_text()
    assert "## plain against <i>" in text
    apart = report[1].values["accuracy"]
    (row,) = (line for line in text.splitlines() if line.startswith("| label accuracy"))
    assert f" {apart['plain'].value - apart['<i>'].value:.3f} [" in row


def test_csv_tables(report: tuple[Path, Comparison]) -> None:
    folder, found = report

    def rows(name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO((folder / f"{name}.csv").read_text())))

    runs = rows("comparison")
    assert [run["run"] for run in runs] == ["a & b", "plain", "<i>", "broken"]
    assert float(runs[1]["accuracy"]) == found.values["accuracy"]["plain"].value
    assert float(runs[1]["f1_macro_low"]) == found.values["f1_macro"]["plain"].low
    assert runs[3]["error"] == "no memory"
    assert len(rows("pairs")) == 3 * len(FORMULAS)
    by_rank = itertools.groupby(rows("ranks"), key=lambda row: (row["measure"], row["run"]))
    assert all(sum(float(r["probability"]) for r in group) == pytest.approx(1)
               for _, group in by_rank)  # fmt: skip
    claims = rows("claims")
    assert len(claims) == 60
    assert claims[3]["claim"] == "Claim <3>."
    assert claims[3]["plain: predicted"] == found.runs[1].per_claim[3]["predicted"]


def test_the_majority_baseline_stands_beside_the_runs() -> None:
    """Six of ten are Refuted; `poor` has five right. It is in no test."""
    s, r, *_ = AVERITEC_LABELS
    gold = [r] * 6 + [s] * 4

    def run(name: str, said: list[str]) -> Point:
        rows = [
            {"id": i, "gold": g, "predicted": p, "accuracy": float(g == p), "qa": 0.5}
            for i, (g, p) in enumerate(zip(gold, said, strict=True))
        ]
        return point(name, rows)

    runs = [run("good", gold), run("poor", [r] * 3 + [s] * 5 + [r] * 2)]
    found = compare("t", runs, "accuracy", ["qa", "f1_macro"], draws=100)
    always = majority(found)
    assert always
    assert (always.label, always.claims) == (r, 10)
    assert always.measures["accuracy"].value == pytest.approx(0.6)
    f1 = 2 * 0.6 / 1.6 / 4  # of Refuted; the other three have none
    assert always.measures["f1_macro"].value == pytest.approx(f1)
    last = leaderboard(found).rows[-1]
    assert last[0] == "always Refuted (baseline)"
    assert [cell.split(" ")[0] for cell in last[1:4]] == ["0.600", "–", "0.188"]
    (line,) = (text for text in finding(found) if text.startswith("Majority baseline"))
    assert "no better on label accuracy: **poor (0.500)**" in line
    assert {name for p in found.pairs for name in (p.first, p.second)} == {"good", "poor"}
    assert page.public(found)["baseline"] == always


def test_what_repeated_questions_bring_is_told() -> None:
    """`a` repeats on two of four claims: .1 less of METEOR on each, and one falls below .25."""
    runs = []
    for name, once in (("a", (0.2, 0.4, 0.6, 0.8)), ("b", (0.3, 0.5, 0.6, 0.8))):
        rows = [
            {
                "id": i, "accuracy": 1.0, "qas": 3.0 + i, "repeats": float(value != now),
                "qa": now, "qa_once": value, "score_at_0.25": float(now > 0.25),
            }
            for i, (value, now) in enumerate(zip(once, (0.3, 0.5, 0.6, 0.8), strict=True))
        ]  # fmt: skip
        measures = measured({"qa": [], "score_at_0.25": []}, rows, 50, 13)
        runs.append(Point(name=name, per_claim=rows, measures=measures))
    found = compare("t", runs, draws=50)
    own = repeats(found, 0.25)["a"]
    assert (own.qas, own.repeating) == (4.5, 2)
    assert own.qa - own.qa_once == pytest.approx(0.05)
    assert (own.score, own.score_once) == (1, 0.75)
    pair = ("a", "b")
    (part,) = (s for s in sections(found, pair, 5, set()) if s.title == "Questions and answers")
    assert part.tables[0].rows[0] == [
        "a", "4.5", "2", "0.550", "0.500 (-0.050)", "1.000", "0.750 (-0.250)"
    ]  # fmt: skip
    assert "+0.000 as submitted and **-0.250** without the repeats" in part.text[0]


def test_every_table_is_explained(report: tuple[Path, Comparison]) -> None:
    found = report[1]
    for part in sections(found, ("a & b", "plain"), 5, {"confusion", "calibration"}):
        assert all(table.caption for table in part.tables), part.title


def test_no_run_finished(tmp_path: Path) -> None:
    found = compare("t", [Point(name=n, error="no data") for n in "ab"], "qa")
    page.write(tmp_path, found, None, 5)
    assert (tmp_path / "report.md").read_text().count("no data") == 1  # both failed of it
    assert "nothing is compared" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_runs_without_gold(tmp_path: Path, count: int) -> None:
    """No measure, so no plot; why, and what they gave and cost."""
    why = "not scored by averitec_2024: the claims have no gold labels"
    given = [Evidence(question="When?", answer="In May.")]
    runs = [
        Point(
            name=f"k={n}", axes={"k": str(n)}, notes=[why], texts={"0": "A", "1": "B"},
            evidence={"0": given * n, "1": []}, seconds={"verdict": 3}, compute={"verdict": 4.0},
            cache={"hits": 1, "misses": 2},
        )
        for n in range(1, count + 1)
    ]  # fmt: skip
    found = compare("t", runs, "qa", ["qa", "f1_macro"])
    short = brief(found)
    page.write(tmp_path, found, None, 5)
    text = (tmp_path / "report.md").read_text()
    for said in (short, text.replace("**", "")):
        assert f"No run has a measure, so nothing is compared: {why}." in " ".join(said.split())
    table = "| 1 | 2 | 1 | 1 | 3.0 | 1/3 |"
    assert table in re.sub(" +", " ", text)
    assert "with evidence" in short
    assert not (tmp_path / "plots").exists()
    assert "Intervals" not in text
    assert ("4.0 (2.000 a claim)" in text) == (count > 1)


def test_what_scorers_noted_stands_in_the_report(tmp_path: Path) -> None:
    """Once where all runs say it; beside the name of the run where one does."""
    missing = "Claims without prediction, counted as wrong (2): 3, 7."
    runs = [made("a", 0.9, notes=["The judge is weak.", missing]),
            made("b", 0.2, notes=["The judge is weak."])]  # fmt: skip
    found = compare("t", runs, "qa", ["qa"], draws=50)
    page.write(tmp_path, found, None, 5)
    text, html = (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()
    assert f"**a:** {missing}" in text
    assert text.count("The judge is weak.") == 1
    assert "**All runs:** The judge is weak." in text
    assert f"<strong>a:</strong> {missing}" in html
    assert page.public(found)["runs"][0]["notes"] == ["The judge is weak.", missing]


def test_the_measure_that_decides() -> None:
    """An unknown one is an error; one that these runs lack is noted; by default the task's own."""
    runs = [made("a", 0.9, 20), made("b", 0.2, 20)]
    own = list(runs[0].measures)
    for primary, shown, message in [
        (
            "qaa",
            (),
            r"no measure 'qaa' \(primary\) of these runs\. Did you mean 'qa'\? Measures: q",
        ),
        ("ndcg_at_10", (), r"no measure 'ndcg_at_10' \(primary\)"),  # which other runs may have
        (None, ("qa", "acuracy"), r"no measure 'acuracy' \(shown\).* Did you mean 'accuracy'"),
    ]:
        with pytest.raises(ClaimflowError, match=message):
            check_measures(own, primary, shown)
    check_measures(own, "micro", ["ndcg_at_10", "score_at_0.35"])
    found = compare("t", runs, "ndcg_at_10", draws=50)
    assert found.primary == "qa"
    note = "These runs have no nDCG@10 (primary=ndcg_at_10): H-METEOR Q+A (qa) ranks them instead."
    assert found.notes == [note]
    assert compare("t", runs, draws=50).notes == []
    for names, decides in [
        (("abstract_label_only_precision", "sentence_label_f1"), "sentence_label_f1"),
        (("accuracy", "evidence_f1", "fever"), "fever"),
        (("abstract_precision", "abstract_f1"), "abstract_f1"),
        (("q", "qa", "score_at_0.10", "score_at_0.25"), "score_at_0.25"),
        (("mine", "other"), "mine"),
    ]:
        point = Point(name="a", measures={name: Measure(value=0.5) for name in names})
        assert primary_of([point], None) == decides


def test_failed_runs_say_why_once() -> None:
    """Thirteen failed points of two errors: short rows, and each error with those that it hit."""
    errors = ["No index of this name. " * 9, "Out of memory."]
    runs = [
        Point(name=f"run {i}", axes={"retriever": f"r{i}"}, error=errors[i == 12])
        for i in range(13)
    ]
    found = compare("t", runs, "qa", ["q"])
    assert finding(found) == ["**All 13 runs failed**: nothing is compared."]
    table = leaderboard(found)
    assert [row[:3] for row in table.rows] == [[f"r{i}", "failed", "–"] for i in range(13)]
    (part,) = [s for s in sections(found, None, 5, set()) if s.title == "Failed runs"]
    assert [len(part.text), sum(text.count("Out of memory") for text in part.text)] == [2, 1]
    assert part.text[0].startswith("**12 runs** (r0; r1; r2; r3; ")
    assert part.text[1] == "**1 run** (r12): Out of memory."


def test_level_runs_have_an_interval_and_a_detectable_difference() -> None:
    """Two of four claims each, never the same: differences 1, -1, 1, -1, standard error .577."""
    rows = [[{"id": i, "accuracy": float((i + k) % 2)} for i in range(4)] for k in range(2)]
    found = compare("t", [point("a", rows[0]), point("b", rows[1])], "accuracy")
    (pair,) = found.pairs
    assert (pair.value, pair.low, pair.high) == (0, -1, 1)
    assert pair.detectable == pytest.approx(2.801585 * (4 / 3) ** 0.5 / 2, abs=1e-6)
    text = " ".join(finding(found))
    assert "0.500 each, a difference of 0.000 (95 % interval -1.000 to 1.000) over **4" in text
    assert f"on these 4 claims is {pair.detectable:.3f}: a test finds" in text


def test_tables_say_over_how_many_claims() -> None:
    """A judge failed on claim 0 of one run, on 1 of the other: 18 of 20 are left to compare."""
    runs = [made(name, 0.5, 20) for name in "ab"]
    for i, run in enumerate(runs):
        run.per_claim[i]["qa"] = None
        run.measures = measured(FORMULAS, run.per_claim, 50, 13)
    found = compare("t", runs, "accuracy", ["qa"], draws=50)
    assert (found.claims["qa"], found.claims["accuracy"]) == (18, 20)
    table = leaderboard(found)
    assert [row[0] for row in table.rows[2:]] == ["always Refuted (baseline)"]
    for row in table.rows[:2]:
        assert row[2] == f"{figure(found.values['qa'][row[0]])}, n 18"
        assert ", n " not in row[1]
    scores = Scores(measures=runs[0].measures, per_claim=runs[0].per_claim)
    assert "- Over 19 of 20 claims: qa.\n" in run_table("a", scores)


def test_runs_that_no_test_tells_apart() -> None:
    """Alike on every claim: nothing is known of what could be found, and that is said."""
    runs = [point(name, [{"id": i, "accuracy": i % 2} for i in range(20)]) for name in "abc"]
    lines = finding(compare("t", runs, "accuracy", draws=50))
    assert "a difference of 0.000 (95 % interval 0.000 to 0.000) over **20 claims**" in lines[0]
    assert lines[1:3] == [
        "They are alike on every claim, so what difference could be found here is not known.",
        "3 runs share this value: a; b; c.",
    ]
    assert lines[3].startswith("None of the other 2 runs can be told apart from a")


def test_given_names_go_before_axes() -> None:
    """Two points of a sweep that the user calls by names of their own, and one that failed."""
    points = [
        made(name, skill, axes={"chunker": name}, named=True)
        for name, skill in (("ours", 0.9), ("baseline", 0.4))
    ]
    broken = Point(name="third", axes={"chunker": "c"}, named=True, error="No such thing.")
    found = compare("t", [*points, broken], "accuracy")
    assert [found.label(p.name) for p in found.runs] == ["ours", "baseline"]
    assert finding(found)[0].startswith("**ours is ahead of baseline**")
    table = leaderboard(found)
    assert table.columns[0] == "run"
    assert [row[0] for row in table.rows[:3]] == ["ours", "baseline", "third"]
    texts = [text for part in sections(found, None, 3, set()) for text in part.text]
    assert "**1 run** (third): No such thing." in texts


def seeded() -> Comparison:
    """The two best runs are seeds of one setting."""
    points = [
        made(f"{ratio} {seed}", skill,
             axes={"seed": str(seed), "verdict.negatives.ratio": str(ratio)})
        for ratio, seed, skill in ((5, 0, 0.95), (5, 1, 0.9), (0, 0, 0.3), (0, 1, 0.2))
    ]  # fmt: skip
    return compare("t", points, "accuracy", ["accuracy"])


def test_settings_are_compared_before_seeds() -> None:
    found = seeded()
    assert two_of(found, None) == ("5 0", "0 0")
    assert finding(found)[0].startswith("**ratio 5, seed 0 is ahead of ratio 0, seed 0**")
    assert found.tests == 6
    text = " ".join(t for part in sections(found, two_of(found, None), 3, set()) for t in part.text)
    assert "for 6 pairs of runs, seeds of one setting among them" in text
    alone = compare("t", found.runs[:2], "accuracy")
    assert two_of(alone, None) == ("5 0", "5 1")  # there is no other setting
    assert not compare("t", [made("a", 0.9), made("b", 0.3)], "accuracy").seeded


def test_axes_are_called_by_their_last_part() -> None:
    found = seeded()
    assert leaderboard(found).columns[:2] == ["ratio", "seed"]
    for point in found.runs:
        point.axes["reranker.negatives.ratio"] = "1"
    assert leaderboard(found).columns[:3] == [
        *("verdict.negatives.ratio", "reranker.negatives.ratio", "seed"),
    ]
    words = [made(x, 0.5, axes={"chunker": x, "retriever.mmr.scale": "true"}) for x in ("a", "b")]
    assert compare("t", words, "accuracy").label("a") == "a, scale true"


def test_a_difference_agrees_with_its_figures() -> None:
    assert agreeing(0.4583, 0.3333) == 3
    assert agreeing(0.49322, 0.49168) == 4  # .493 and .492 are not .002 apart
    assert agreeing(11 / 24, 10 / 24) == 4  # never


def test_what_the_runs_were_set_to_is_a_table() -> None:
    found = compare("t", [made("a", 0.9), made("b", 0.4)], "accuracy")
    assert "What differs" not in [part.title for part in sections(found, None, 3, set())]
    found.contrasts = [
        Contrast(setting="retriever", values={"a": "hybrid", "b": "bm25s"}),
        Contrast(setting="retriever.bm25.k", values={"b": "5"}),
    ]
    said = "They differ in retriever (hybrid – bm25s), retriever.bm25.k (none – 5): see What"
    assert any(line.startswith(said) for line in finding(found))
    part = next(p for p in sections(found, None, 3, set()) if p.title == "What differs")
    assert part.tables[0].columns == ["choice or setting", "a", "b"]
    assert part.tables[0].rows[1] == ["retriever.bm25.k", "–", "5"]
    many = compare("t", [made(f"r{n:02}", 0.5) for n in range(12)], "accuracy")
    many.contrasts = [Contrast(setting="limit", values={p.name: p.name[1:] for p in many.runs})]
    part = next(p for p in sections(many, None, 3, set()) if p.title == "What differs")
    assert part.tables[0].columns == ["run", "limit"]
    assert sorted(part.tables[0].rows)[1] == ["r01", "01"]
    assert any(line.startswith("The runs differ in limit: see") for line in finding(many))


def test_the_table_of_groups_says_what_it_leaves_out() -> None:
    kinds = {str(i): {"claim type": ["odd" if i % 2 else "even"]} for i in range(60)}
    points = [made(f"r{n}", 0.3 + n / 10, groups=kinds) for n in range(MOST + 1)]
    found = compare("t", points, "accuracy", ["accuracy"])
    pair = two_of(found, None)
    assert pair
    header = page.csv_tables(found, pair)["groups"][0]
    assert header[4:-3] == [point.name for point in found.runs]
    part = next(p for p in sections(found, pair, 3, set()) if p.title == "By claim type")
    assert part.tables[0].columns[3:-1] == [point.name for point in found.runs[:MOST]]
    assert "Shown: the best 6 of 7 runs. groups.csv has all." in part.text[0]
