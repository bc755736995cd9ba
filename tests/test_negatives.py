"""Laws of negative sampling."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.train.corruptions import PARTS, Corruptions
from components.train.negatives import Negative, Negatives, Positives

CORPUS = [str(n) for n in range(30)]
documents = st.lists(st.sampled_from(CORPUS), unique=True, max_size=20)
claims = st.lists(
    st.builds(
        Positives,
        claim=st.integers(0, 99).map(str),
        count=st.integers(1, 3),
        gold=documents,
        ranking=documents,
    ),
    max_size=6,
    unique_by=lambda one: one.claim,
)
settings = st.builds(
    Negatives,
    ratio=st.integers(0, 8),
    strategy=st.sampled_from(("random", "hard", "annealed")),
    depth=st.integers(1, 25),
    last=st.integers(0, 3),
)


def by_claim(found: list[Negative], step: int) -> dict[str, list[str]]:
    docs: dict[str, list[str]] = {}
    for one in found:
        if one.step == step:
            docs.setdefault(one.claim, []).append(one.doc)
    return docs


@given(settings, claims, st.integers(1, 4), st.integers(0, 9))
def test_never_gold_never_twice_and_as_many_as_asked_for(
    how: Negatives, positives: list[Positives], passes: int, seed: int
) -> None:
    found = how.sample(positives, CORPUS, passes, seed)
    assert found == how.sample(positives, CORPUS, passes, seed)
    assert {one.claim for one in found} <= {one.claim for one in positives}
    for step in range(passes):
        docs = by_claim(found, step)
        for one in positives:
            drawn = docs.get(one.claim, [])
            pool = CORPUS if how.strategy == "random" else one.ranking[: how.depth]
            left = set(pool) - set(one.gold)
            assert set(drawn) <= left
            assert len(set(drawn)) == len(drawn)
            assert len(drawn) == min(how.per_positive(step, passes) * one.count, len(left))


@given(settings, claims, st.integers(1, 3), st.integers(0, 9))
def test_a_claim_draws_by_itself(
    how: Negatives, positives: list[Positives], passes: int, seed: int
) -> None:
    together = Counter(
        (n.claim, n.doc, n.step) for n in how.sample(positives[::-1], CORPUS, passes, seed)
    )
    alone = Counter(
        (n.claim, n.doc, n.step)
        for one in positives
        for n in how.sample([one], CORPUS, passes, seed)
    )
    assert together == alone


@given(st.integers(0, 30), st.integers(0, 5), st.integers(1, 9))
def test_annealing_goes_down_from_the_ratio_to_the_last(ratio: int, last: int, passes: int) -> None:
    how = Negatives(strategy="annealed", ratio=ratio, last=last)
    counts = [how.per_positive(step, passes) for step in range(passes)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == ratio
    if passes > 1:
        assert counts[-1] == min(ratio, last)


def test_seeds_and_passes_differ() -> None:
    one = [Positives(claim="1", count=1, gold=["0"])]
    how = Negatives(strategy="random", ratio=5)
    found = how.sample(one, CORPUS, 2, 13)
    assert by_claim(found, 0) != by_claim(found, 1)
    assert found != how.sample(one, CORPUS, 2, 14)


def test_negatives_are_data_of_their_own(tmp_path: Path) -> None:
    one = [Positives(claim="1", count=2, gold=["0"], ranking=CORPUS)]
    how = Negatives(ratio=3)
    cache = Cache(tmp_path)
    found, artifact = how.kept(one, CORPUS, 1, 13, cache)
    assert found == how.sample(one, CORPUS, 1, 13)
    assert len(found) == 6
    assert how.kept(one, CORPUS, 1, 13, cache)[1] == artifact
    more = dataclasses.replace(how, ratio=4).kept(one, CORPUS, 1, 13, cache)[1]
    assert more.digest != artifact.digest


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Negatives(ratio=4, depth=6), "ratio=4: 3.7 reached, as depth=6 of the ranking leaves no"),
        (Negatives(ratio=28, strategy="random"), "ratio=28: 27.7 reached, as the corpus leaves no"),
        (Negatives(ratio=28, strategy="annealed"), "ratio=28: 27.7 reached, as depth=50 of the"),
        (Negatives(ratio=3, depth=6), None),
    ],
)
def test_a_ratio_that_is_not_reached_is_told_once(
    how: Negatives, said: str | None, tmp_path: Path
) -> None:
    few = [
        Positives(claim=str(n), count=1, gold=gold, ranking=CORPUS)
        for n, gold in enumerate((["0"], [], ["0", "1", "2"]))
    ]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            how.kept(few, CORPUS, 2, 13, Cache(tmp_path))
    told = [text for x in found if "reached" in (text := str(x.message))]
    assert len(told) == (said is not None)
    assert all(str(said) in text for text in told)


text = st.sampled_from("abcd")


@given(
    st.lists(st.tuples(text, text, text), unique=True, max_size=12),
    st.integers(1, 9),
    st.lists(st.sampled_from(PARTS), unique=True, min_size=1),
    st.integers(1, 3),
)
def test_corruption_changes_one_part_and_makes_no_positive(
    triples: list[tuple[str, str, str]], ratio: int, parts: list[str], passes: int
) -> None:
    how = Corruptions(ratio=ratio, parts=parts)
    found = how.sample(triples, passes, 13)
    assert found == how.sample(triples, passes, 13)
    for one in found:
        assert one.triple not in triples
        pairs = zip(PARTS, triples[one.of], one.triple, strict=True)
        assert [part for part, a, b in pairs if a != b] == [one.part]
        assert one.part in parts
    each = Counter((one.of, one.step) for one in found)
    assert all(count <= ratio and step < passes for (_, step), count in each.items())
    assert len({(one.of, one.step, one.triple) for one in found}) == len(found)


def test_corruption_of_parts_that_all_differ_is_whole(tmp_path: Path) -> None:
    triples = [(f"claim {n}", f"question {n}", f"answer {n}") for n in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        found, kept = Corruptions().kept(triples, 2, 13, Cache(tmp_path))
    for of in range(8):
        for step in range(2):
            made = [one for one in found if (one.of, one.step) == (of, step)]
            assert [one.part for one in made] == ["claim", "question", "answer"] * 3
    assert [one.triple for one in found if one.step] != [
        one.triple for one in found if not one.step
    ]
    assert Corruptions().kept(triples, 2, 13, Cache(tmp_path)) == (found, kept)
    with pytest.warns(UserWarning, match=r"ratio=9: 3.0 reached, as 2 gold questions"):
        Corruptions().kept(triples[:2], 1, 13, Cache(tmp_path))


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ClaimflowError, match="No negatives 'soft': choose random, hard"):
        Negatives(strategy="soft")
    with pytest.raises(ClaimflowError, match="0 or more"):
        Negatives(ratio=-1)
    with pytest.raises(ClaimflowError, match="ratio is 1 or more, not 0"):
        Corruptions(ratio=0)
    for parts in ([], ["claim", "label"]):
        with pytest.raises(ClaimflowError, match="parts are of claim, question, answer, not"):
            Corruptions(parts=parts)
