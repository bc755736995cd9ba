"""Intervals and paired tests: right values, and laws that must hold."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.score.bootstrap import (
    f1,
    holm,
    mean,
    measure,
    paired_bootstrap,
    paired_randomisation,
    resamples,
)

values = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def test_resamples_draw_n_claims_and_are_repeatable() -> None:
    weights = resamples(50, 200, seed=1)
    assert weights.shape == (200, 50)
    assert (weights.sum(axis=1) == 50).all()
    assert (weights == resamples(50, 200, seed=1)).all()
    assert (weights != resamples(50, 200, seed=2)).any()
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


def test_paired_tests_find_a_difference_and_none() -> None:
    rng = np.random.default_rng(5)
    base = rng.random(300)
    better, same = base + rng.normal(0.05, 0.1, 300), base + rng.normal(0, 0.1, 300)
    weights = resamples(300, 1000, seed=2)
    found = paired_bootstrap(mean(better), mean(base), weights)
    assert found.value == pytest.approx(better.mean() - base.mean())
    assert 0 < found.low < found.value < found.high
    assert found.p < 0.01
    assert paired_randomisation(better, base) < 0.01
    assert paired_randomisation(same, base) > 0.05
    assert paired_bootstrap(mean(same), mean(base), weights).p > 0.05


def test_paired_randomisation_worked() -> None:
    # Of the 8 ways to sign (1, 1, 1) two reach a sum of 3: p = 1/4.
    assert paired_randomisation([1, 1, 1], [0, 0, 0], draws=20_000) == pytest.approx(0.25, abs=0.01)
    assert paired_randomisation([0.3, 0.1], [0.3, 0.1]) == 1


@given(values)
def test_a_run_does_not_differ_from_itself(column: list[float]) -> None:
    weights = resamples(len(column), 20, seed=0)
    found = paired_bootstrap(mean(column), mean(column), weights)
    assert (found.value, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert paired_randomisation(column, column, draws=50) == 1


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_differences_turn_their_sign_with_the_order(pairs: list[tuple[float, float]]) -> None:
    first, second = mean([a for a, _ in pairs]), mean([b for _, b in pairs])
    weights = resamples(len(pairs), 50, seed=1)
    one, other = (
        paired_bootstrap(first, second, weights),
        paired_bootstrap(second, first, weights),
    )
    assert one.value == pytest.approx(-other.value, abs=1e-12)
    assert one.low == pytest.approx(-other.high, abs=1e-12)
    assert one.p == other.p


def test_holm_worked() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=10))
def test_holm_never_lowers_p_and_keeps_the_order(ps: list[float]) -> None:
    adjusted = holm(ps)
    assert all(p <= q <= 1 for p, q in zip(ps, adjusted, strict=True))
    assert sorted(adjusted) == [q for _, q in sorted(zip(ps, adjusted, strict=True))]


def test_a_thousand_draws_of_500_claims_are_quick() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(0, 4, 500).tolist(), rng.integers(0, 4, 500).tolist()
    start = time.perf_counter()
    weights = resamples(500, 1000, seed=0)
    measure(f1(gold, predicted, range(4)), weights)
    measure(mean(rng.random(500)), weights)
    assert time.perf_counter() - start < 2
