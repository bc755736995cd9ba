"""Intervals and paired tests: right values, and laws that must hold."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.score.bootstrap import (
    CELLS,
    Difference,
    SumStatistic,
    detectable,
    difference,
    drawn,
    f1,
    harmonic,
    holm,
    mean,
    measure,
    paired_bootstrap,
    randomisation,
    ratio,
    resamples,
)
from components.score.formula import measured

values = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def test_resamples_draw_n_claims_and_are_repeatable() -> None:
    weights = resamples(50, 200, seed=1)
    assert weights.shape == (200, 50)
    assert (weights.sum(axis=1) == 50).all()
    assert (weights == resamples(50, 200, seed=1)).all()
    assert (weights != resamples(50, 200, seed=2)).any()
    column = np.arange(50)
    (values,) = drawn([mean(column)], 200, seed=1)
    assert values == pytest.approx(weights @ column / 50)
    with pytest.raises(ClaimflowError):
        resamples(0, 200, seed=1)


def test_interval_of_a_share_is_that_of_the_normal_approximation() -> None:
    right = [1.0] * 150 + [0.0] * 350
    found = measure(mean(right), resamples(500, 4000, seed=3))
    half = 1.96 * np.sqrt(0.3 * 0.7 / 500)
    assert found.value == 0.3
    assert found.low == pytest.approx(0.3 - half, abs=0.004)
    assert found.high == pytest.approx(0.3 + half, abs=0.004)


@given(values)
def test_interval_lies_within_the_values(column: list[float]) -> None:
    found = measure(mean(column), resamples(len(column), 50, seed=0))
    assert min(column) - 1e-12 <= found.low <= found.high <= max(column) + 1e-12
    assert found.value == pytest.approx(np.mean(column), abs=1e-12)


def test_f1_worked() -> None:
    gold, predicted = list("SRRRN"), list("SRSRR")
    whole = np.ones((1, 5))
    each = [f1(gold, predicted, [label])(whole)[0] for label in "SRNC"]
    assert each == pytest.approx([2 / 3, 2 / 3, 0, 0])
    assert f1(gold, predicted, "SRNC")(whole)[0] == pytest.approx(1 / 3)


labels = st.lists(
    st.tuples(st.sampled_from("SRNC"), st.sampled_from(["S", "R", "N", "C", None])), min_size=1
)


@given(labels, st.integers(0, 5))
@settings(deadline=None)
def test_f1_is_that_of_scikit_learn_on_the_drawn_claims(
    pairs: list[tuple[str, str | None]], seed: int
) -> None:
    from sklearn.metrics import f1_score

    weights = resamples(len(pairs), 1, seed)
    drawn = [pair for pair, n in zip(pairs, weights[0], strict=True) for _ in range(int(n))]
    gold, predicted = [g for g, _ in drawn], [p or "none" for _, p in drawn]
    expected = f1_score(gold, predicted, labels=list("SRNC"), average="macro", zero_division=0)
    ours = f1([g for g, _ in pairs], [p for _, p in pairs], "SRNC")(weights)[0]
    assert ours == pytest.approx(expected)


def test_many_claims_are_resampled_in_portions() -> None:
    """What is held at a time does not change what is drawn."""
    n = 6000
    assert CELLS // n < 1000
    weights = np.random.default_rng(4).multinomial(n, np.full(n, 1 / n), size=1000)
    assert (resamples(n, 1000, seed=4) == weights).all()


def compared(
    first: SumStatistic, second: SumStatistic, draws: int = 1000, seed: int = 2
) -> Difference:
    weights = resamples(len(first.columns), draws, seed)
    found = paired_bootstrap(first, second, weights)
    one, other = drawn([first, second], draws, seed)
    assert difference(first.value - second.value, one - other) == found
    return found


def p_of(first: SumStatistic, second: SumStatistic, draws: int = 2000) -> float:
    return randomisation([first, second], [(0, 1)], draws)[0]


def test_paired_tests_find_a_difference_and_none() -> None:
    rng = np.random.default_rng(5)
    base = rng.random(300)
    better, same = base + rng.normal(0.05, 0.1, 300), base + rng.normal(0, 0.1, 300)
    found = compared(mean(better), mean(base))
    assert found.value == pytest.approx(better.mean() - base.mean())
    assert 0 < found.low < found.value < found.high
    assert found.p < 0.01
    assert p_of(mean(better), mean(base)) < 0.01
    assert p_of(mean(same), mean(base)) > 0.05
    assert compared(mean(same), mean(base)).p > 0.05


def test_randomisation_is_exact_on_few_claims() -> None:
    # Of the 8 ways to sign (1, 1, 1) two reach a sum of 3.
    assert p_of(mean([1, 1, 1]), mean([0, 0, 0])) == 1 / 4
    # (1, 1, 1, -1): a sum of 2 or more in size has 4 + 4 ways with one odd sign, 2 with none.
    assert p_of(mean([1, 1, 1, 0]), mean([0, 0, 0, 1])) == 10 / 16
    assert p_of(mean([0.3, 0.1]), mean([0.3, 0.1])) == 1
    # Drawn, not gone through: near the exact value.
    assert p_of(mean([1, 1, 1]), mean([0, 0, 0]), draws=7) >= 1 / 8
    near = randomisation([mean([1.0] * 12), mean([0.0] * 11 + [1])], [(0, 1)], draws=4000)[0]
    assert near == pytest.approx(2 / 2**11, abs=0.002)


def test_randomisation_of_macro_f1_by_hand() -> None:
    """Every swap of three claims' labels, each F1 computed anew by scikit-learn."""
    from sklearn.metrics import f1_score

    gold, one, other = list("SRN"), list("SRR"), list("RRS")

    def macro(labels: list[str]) -> float:
        return float(f1_score(gold, labels, labels=list("SRN"), average="macro", zero_division=0))

    differences = [
        abs(
            macro([b if s else a for a, b, s in zip(one, other, swap, strict=True)])
            - macro([a if s else b for a, b, s in zip(one, other, swap, strict=True)])
        )
        for swap in itertools.product([False, True], repeat=3)
    ]
    expected = sum(d >= differences[0] - 1e-12 for d in differences) / 8
    assert p_of(f1(gold, one, "SRN"), f1(gold, other, "SRN")) == expected


@given(values)
def test_a_run_does_not_differ_from_itself(column: list[float]) -> None:
    found = compared(mean(column), mean(column), draws=20)
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert p_of(mean(column), mean(column), draws=50) == 1
    one, other = drawn([mean(column), mean(column)], 20, 0)
    assert detectable(mean(column), mean(column), one - other) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_differences_turn_their_sign_with_the_order(pairs: list[tuple[float, float]]) -> None:
    first, second = mean([a for a, _ in pairs]), mean([b for _, b in pairs])
    one, other = compared(first, second, 50), compared(second, first, 50)
    assert one.value == pytest.approx(-other.value, abs=1e-12)
    assert one.low == pytest.approx(-other.high, abs=1e-12)
    assert one.p == other.p
    assert p_of(first, second, 200) == p_of(second, first, 200)


def test_detectable_difference_by_hand() -> None:
    # Differences 1, 0, 0, 0: sd .5, by the root of 4 claims .25; times 1.959964 + .841621.
    first, second = mean([1, 1, 0, 1]), mean([0, 1, 0, 1])
    assert detectable(first, second, np.zeros(9)) == pytest.approx(2.801585 * 0.25, abs=1e-6)
    # No mean: the standard deviation over resamples; of 0 and 1 it is the root of a half.
    micro = ratio([1, 0], [1, 1])
    assert detectable(micro, micro, np.array([0.0, 1.0])) == pytest.approx(2.801585 * 0.5**0.5)


def test_detectable_difference_is_found_four_times_of_five() -> None:
    """Its definition, tried: tests of samples with that true difference."""
    rng = np.random.default_rng(3)
    sd, n = 0.3, 100
    planned = mean(rng.normal(0, 1, n)), mean(np.zeros(n))
    assert planned[0].values is not None
    scaled = mean(planned[0].values / planned[0].values.std(ddof=1) * sd)
    least = detectable(scaled, planned[1], np.zeros(2))
    assert least == pytest.approx(2.801585 * sd / 10)
    found = [
        p_of(mean(rng.normal(least, sd, n)), mean(np.zeros(n)), draws=300) < 0.05
        for _ in range(400)
    ]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_ratio_and_harmonic_by_hand() -> None:
    assert ratio([1, 0, 2], [2, 1, 3]).value == 0.5
    assert ratio([0, 0], [0, 0]).value == 0
    assert ratio([0, 0], [0, 0], empty=1).value == 1
    assert harmonic(mean([1, 0]), mean([1, 1])).value == pytest.approx(2 * 0.5 * 1 / 1.5)
    assert harmonic(mean([0]), mean([0])).value == 0
    rows = [{"hits": 1, "said": 2, "gold": 1}, {"hits": 0, "said": 2, "gold": 3}]
    found = measured({"micro": ["micro_f1", "hits", "said", "gold"]}, rows, 10, 0)
    assert found["micro"].value == pytest.approx(2 * (1 / 4) * (1 / 4) / (1 / 2))
    assert measured({"f": ["harmonic", "hits", "said"]}, rows, 10, 0)["f"].value == (
        pytest.approx(2 * 0.5 * 2 / 2.5)
    )


def test_holm_worked() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=10))
def test_holm_never_lowers_p_and_keeps_the_order(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert sorted(adjusted) == [q for _, q in sorted(zip(ps, adjusted, strict=True))]


def test_a_thousand_draws_of_500_claims_with_all_measures_are_quick() -> None:
    rng = np.random.default_rng(0)
    means = [f"measure {n}" for n in range(12)]
    rows = [
        {name: rng.random() for name in means}
        | {"gold": rng.choice(list("SRNC")), "predicted": rng.choice(list("SRNC"))}
        | {"confidence": rng.random(), "accuracy": 1.0}
        for _ in range(500)
    ]
    formulas = {name: [] for name in means} | {"f1_macro": ["f1", *"SRNC"], "ece": ["ece"]}
    formulas |= {label: ["f1", label] for label in "SRNC"}
    start = time.perf_counter()
    assert len(measured(formulas, rows, draws=1000, seed=0)) == 18
    assert time.perf_counter() - start < 2
