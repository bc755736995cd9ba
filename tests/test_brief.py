"""What a sweep prints: the finding and a table that fits a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from components.cache import open_cache
from components.report import page, plot
from components.report.brief import WIDTH, brief
from components.report.compare import Point, compare
from tests.test_compare import made, seeded


def test_a_sweep_in_short_fits_a_terminal() -> None:
    points = [
        made(
            f"retriever={name},chunker={chunker}", 0.3 + i / 20,
            axes={"retriever": name, "chunker": chunker},
            seconds={"retriever": 10.0 * i, "verdict": 1.5}, compute={"retriever": 1.0},
            cache={"hits": 200, "misses": i},
        )
        for i, (name, chunker) in enumerate(
            (name, chunker)
            for name in ("bm25s", "hybrid_mmr", "weighted_sentences", "retriever_of_my_own")
            for chunker in ("sentence", "recursive_with_long_name")
        )
    ]  # fmt: skip
    broken = Point(name="retriever=none,chunker=window", error="No such thing.",
                   axes={"retriever": "none", "chunker": "window"})  # fmt: skip
    found = compare("sweep: 9 points", [*points, broken], "accuracy", ["accuracy", "qa"])
    lines = brief(found).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 43
    text = " ".join(" ".join(lines).split())
    assert lines[0] == "sweep: 9 points"
    assert re.search(r"(ahead of|level) .*on label accuracy: 0\.\d+ (against|each)", text)
    assert "Cost a claim when computed, with loading models, of all workers: " in text
    header = next(line for line in lines if "behind the best" in line)
    assert "significant" in header
    assert "seconds" in header
    assert "from cache" in header
    assert "H-METEOR" not in header
    table = lines[lines.index(header) + 2 :]
    for row in found.runs:
        value = found.values["accuracy"][row.name].value
        assert any(row.axes["retriever"] in li and f"{value:.3f} [" in li for li in table), row.name
    [failed] = [line for line in table if "failed" in line]
    assert "none" in failed
    assert "No such thing." in text


def test_one_point_is_no_comparison() -> None:
    only = compare("one", [made("a", 0.5, axes={"retriever": "a"})], "accuracy", [])
    assert "Only a has results" in brief(only)


def test_plots_of_the_same_results_are_drawn_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = open_cache(str(tmp_path / "cache"))

    def report(skill: float, seconds: float) -> tuple[bytes, str]:
        points = [made(n, skill, seconds={"verdict": seconds}) for n in ("a", "b")]
        folder = tmp_path / f"{skill} {seconds}"
        page.write(folder, compare("t", points, "accuracy", ["accuracy"]), None, 3, cache)
        return (folder / "plots" / "measures.png").read_bytes(), (
            folder / "report.html"
        ).read_text()

    first = report(0.5, 1.0)
    other = report(0.9, 1.0)
    assert other[0] != first[0]
    drawn: list[object] = []
    monkeypatch.setattr(plot, "png", drawn.append)
    again = report(0.5, 7.0)  # it took longer, which no plot shows
    assert not drawn
    assert again[0] == first[0]
    assert again[1].split("<svg")[1:] != other[1].split("<svg")[1:]
    assert again[1].split("<svg")[1] == first[1].split("<svg")[1]


def test_two_runs_stand_side_by_side_unless_one_failed() -> None:
    points = [
        made(name, value, axes={"retriever": name}) for name, value in (("a", 0.5), ("b", 0.4))
    ]
    both = brief(compare("two", points, "accuracy", ["accuracy", "qa"]))
    assert re.search(r"(?m)^ label accuracy +0\.\d+ +0\.\d+ ", both)
    assert "H-METEOR Q+A" in both
    broken = Point(name="c", error="No such thing.", axes={"retriever": "c"})
    three = brief(compare("three", [*points, broken], "accuracy", ["accuracy", "qa"]))
    assert re.search(r"(?m)^ c +– +failed", three)


def test_a_run_given_twice_and_what_is_noted_of_the_comparison_are_said() -> None:
    one = made("one", 0.5)
    found = compare("one and one", [one, made("one", 0.5), made("two", 0.4)], "mrr")
    text = " ".join(brief(found, notes=True).split())
    assert "one and one have the same values on every claim" in text
    assert "have no MRR (primary=mrr)" in text
    assert "same values" not in " ".join(brief(compare("", [one, made("two", 0.4)])).split())


def test_headings_are_not_broken_within_a_word() -> None:
    text = brief(seeded())
    assert "\n ratio, seed " in text
    assert "6 pairs of runs, seeds of one setting among them." in " ".join(text.split())
