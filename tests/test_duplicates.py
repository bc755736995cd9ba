"""Near-duplicate pages by MinHash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.records import Case, Claim, Document
from components.step import Context
from components.store.duplicates import DUPLICATE, NearDuplicates, jaccard, shingles, signature

WORDS = [f"word{n}" for n in range(5000)]


def text(seed: int, length: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def doc(id: str, words: list[str]) -> Document:
    return Document(id=id, url=id, sentences=[" ".join(words[:50]), " ".join(words[50:])])


def exact(one: list[str], other: list[str], size: int) -> float:
    a, b = (
        {tuple(w[i : i + size]) for i in range(max(1, len(w) - size + 1))} for w in (one, other)
    )
    return len(a & b) / len(a | b)


@given(
    st.lists(st.sampled_from(WORDS[:30]), min_size=1, max_size=80),
    st.lists(st.sampled_from(WORDS[:30]), min_size=1, max_size=80),
    st.integers(1, 6),
)
def test_jaccard_is_that_of_the_sets_of_shingles(one: list[str], other: list[str], n: int) -> None:
    if min(len(one), len(other)) >= n:
        assert jaccard(shingles(one, n), shingles(other, n)) == pytest.approx(exact(one, other, n))


def test_signatures_agree_as_often_as_sets_do() -> None:
    """MinHash's law: the share of equal values estimates the Jaccard index."""
    for share in (0.2, 0.5, 0.8):
        seen = []
        for seed in range(40):
            base = text(seed, 1000)
            cut = int(1000 * (1 - share))
            other = base[cut:] + text(seed + 1000, cut)
            one, two = shingles(base, 1), shingles(other, 1)
            seen.append((jaccard(one, two), float((signature(one) == signature(two)).mean())))
        true, guess = (sum(values) / len(values) for values in zip(*seen, strict=True))
        assert guess == pytest.approx(true, abs=0.03)


@given(st.integers(1, 300), st.integers(0, 9))
def test_signatures_of_few_hashes_are_whole(count: int, seed: int) -> None:
    hashes = shingles(text(seed, count), 1)
    mark = signature(hashes)
    assert len(mark) == 128
    assert (mark == signature(hashes)).all()


def test_the_first_of_near_duplicates_stays(tmp_path: Path) -> None:
    base = text(1, 400)
    reprint = [*base[:-8], *text(2, 8)]  # Jaccard about .95
    related = base[:200] + text(3, 200)  # about a third
    documents = [
        doc("first", base),
        doc("other", text(4, 400)),
        doc("reprint", reprint),
        doc("exact", base),
        doc("related", related),
        Document(id="empty", sentences=[]),
        Document(id="empty too", sentences=["…"]),
        doc("short", ["word1", "word2"]),
        doc("short again", ["Word1", "word2!"]),
    ]
    case = Case(claim=Claim(id="0", text=""), documents=documents, dropped={"other reason": 2})
    NearDuplicates().run([case], Context(Cache(tmp_path)))
    assert [d.id for d in case.documents] == [
        "first",
        "other",
        "related",
        "empty",
        "empty too",
        "short",
    ]
    assert case.dropped == {"other reason": 2, DUPLICATE: 3}


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 1.0])
def test_no_pair_above_the_threshold_is_left_and_none_below_it_is_lost(threshold: float) -> None:
    """Against all pairs compared exactly; bands may let pairs escape only well below .8."""
    rng = random.Random(5)
    bases = [text(n, 120) for n in range(12)]
    texts = []
    for _ in range(150):
        words = list(rng.choice(bases))
        for at in rng.sample(range(120), rng.choice([0, 1, 2, 4, 8, 16, 40])):
            words[at] = rng.choice(WORDS)
        texts.append(words)
    kept = NearDuplicates(threshold=threshold).first_of_each(
        [doc(str(n), words) for n, words in enumerate(texts)]
    )
    expected: list[int] = []
    for n, words in enumerate(texts):
        if all(exact(words, texts[other], 5) < threshold for other in expected):
            expected.append(n)
    ids = [int(d.id) for d in kept]
    if threshold >= 0.8:
        assert ids == expected
    else:
        assert len(set(ids) ^ set(expected)) <= 0.25 * len(texts)


def test_scripts_without_spaces() -> None:
    page = "大阪府は七日、新しい図書館の開館時間を発表した。市民は平日の夜も利用できる。" * 3
    kept = NearDuplicates().first_of_each(
        [Document(id="a", sentences=[page]), Document(id="b", sentences=[page, "以上。"])]
    )
    assert [d.id for d in kept] == ["a"]


def test_settings_that_can_not_be() -> None:
    for settings in ({"threshold": 0.0}, {"threshold": 1.1}, {"shingle": 0}):
        with pytest.raises(ClaimflowError, match=r"duplicates\.threshold"):
            NearDuplicates(**settings)  # type: ignore[arg-type]
