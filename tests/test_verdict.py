"""Verdicts learned from the training split: right values, the same bytes, nothing leaks."""

from __future__ import annotations

import collections
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.datasets.averitec import Averitec, Demo
from components.errors import ClaimflowError
from components.files import ROOT
from components.reason.verdict import (
    HeadVerdict,
    MajorityVerdict,
    check_labels,
    features,
    gold_evidence,
    verdict,
)
from components.records import (
    AVERITEC_LABELS,
    Answer,
    Case,
    Claim,
    Evidence,
    GoldSet,
    Question,
    encode,
)
from components.retrieve.encoder import Encoder
from components.step import Context, release_models

DATA = Path(os.environ.get("CLAIMFLOW_DATA", ROOT / "../shared/data"))
TOWNS = ("Vell", "Orrin", "Tarn", "Lisk", "Moor", "Pell", "Dunn", "Harr", "Esk", "Wick")
SUPPORTED, REFUTED = AVERITEC_LABELS[:2]


def toy(town: str, label: str) -> Claim:
    """A claim about a bridge whose evidence says plainly whether it holds."""
    answer = {
        SUPPORTED: f"Yes, the bridge of {town} was opened and many people walk over it.",
        REFUTED: f"No, {town} never had money, and there is only a ferry on the river.",
    }[label]
    return Claim(
        id=f"{town} {label}",
        text=f"{town} has a new bridge.",
        label=label,
        questions=[
            Question(question=f"Is there a bridge in {town}?", answers=[Answer(answer=answer)])
        ],
    )


def toys(towns: tuple[str, ...]) -> list[Claim]:
    return [toy(town, label) for town in towns for label in (SUPPORTED, REFUTED)]


def case_of(claim: Claim) -> Case:
    """The case that has a claim's gold pairs as its evidence, and sees no label."""
    return Case(
        claim=Claim(id=claim.id, text=claim.text),
        evidence=[
            Evidence(question=question.question, answer=answer.answer)
            for question in claim.questions
            for answer in question.answers
        ],
    )


@pytest.fixture(scope="module")
def step() -> HeadVerdict:
    return HeadVerdict(encoder=Encoder(model=Path("all-MiniLM-L6-v2")))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def demo(cache: Cache) -> Context:
    return Context(cache, Demo(split="train").claims())


@pytest.fixture(scope="module")
def dev() -> list[Claim]:
    return Demo(split="dev").claims()


# The head


@pytest.mark.filterwarnings("ignore:No training claim is")
def test_learns_what_can_be_told_apart(step: HeadVerdict, cache: Cache) -> None:
    ctx = Context(cache, toys(TOWNS[:6]))
    unseen = toys(TOWNS[6:])
    done = step.run([case_of(claim) for claim in unseen], ctx)
    assert [case.verdict.label for case in done if case.verdict] == [c.label for c in unseen]
    for case in done:
        assert case.verdict
        assert set(case.verdict.probabilities) == set(AVERITEC_LABELS)
        assert case.verdict.probabilities[AVERITEC_LABELS[2]] == 0  # no training claim has it
        assert 0 < case.verdict.probabilities[SUPPORTED] < 1


@pytest.mark.parametrize("gold", [[], [GoldSet(label="SUPPORTS", items=[("page", 0)])]])
def test_only_labels_of_the_data_set_are_missed(gold: list[GoldSet]) -> None:
    """FEVER and SciFact, whose gold evidence is sentences, have no conflicting claims."""
    learned = [Claim(id=n, text="", label=n, gold=gold) for n in AVERITEC_LABELS[:3]]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        check_labels(learned)
    assert bool(said) == (not gold)


def test_probabilities_and_justification(
    step: HeadVerdict, demo: Context, dev: list[Claim]
) -> None:
    for case in step.run([case_of(claim) for claim in dev], demo):
        assert case.verdict
        chances = case.verdict.probabilities
        assert math.fsum(chances.values()) == pytest.approx(1, abs=1e-12)
        assert chances[case.verdict.label] == max(chances.values()) < 1
        pairs = [f"{e.question} {e.answer}" for e in case.evidence]
        assert case.verdict.justification in pairs
        vectors = step.encoder.encode([case.claim.text, *pairs], demo)
        nearest = pairs.index(case.verdict.justification)
        assert vectors[0] @ vectors[1 + nearest] >= (vectors[1:] @ vectors[0]).max() - 1e-6


def test_same_bytes_whatever_stands_beside_and_after_a_second_fit(
    step: HeadVerdict, demo: Context, dev: list[Claim], tmp_path: Path
) -> None:
    together = [encode(c.verdict) for c in step.run([case_of(c) for c in dev], demo)]
    release_models()
    again = Context(Cache(tmp_path), demo.train)
    alone = [encode(step.run([case_of(c)], again)[0].verdict) for c in reversed(dev)][::-1]
    assert together == alone
    assert demo.model(step).path != again.model(step).path
    assert demo.model(step).digest == again.model(step).digest


def test_the_folder_gives_what_scikit_learn_gives(
    step: HeadVerdict, demo: Context, dev: list[Claim]
) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def x_of(claim: Claim) -> np.ndarray:
        return features(step.encoder.encode([claim.text, *gold_evidence(claim)], demo))

    x = np.stack([x_of(claim) for claim in demo.train])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=step.C, max_iter=5000))
    model.fit(x, [claim.label for claim in demo.train])
    cases = step.run([case_of(claim) for claim in dev], demo)
    for claim, case in zip(dev, cases, strict=True):
        if [f"{e.question} {e.answer}" for e in case.evidence] != gold_evidence(claim):
            continue  # an explanation of yes or no, which submitted evidence has not
        assert case.verdict
        [expected] = model.predict_proba(x_of(claim)[None])
        for label, value in zip(model[-1].classes_, expected, strict=True):
            assert case.verdict.probabilities[label] == pytest.approx(value, abs=1e-4)


def test_parameters_count(step: HeadVerdict, demo: Context, dev: list[Claim]) -> None:
    cases = [case_of(claim) for claim in dev]
    found = {
        encode([c.verdict for c in HeadVerdict(encoder=step.encoder, **more).run(cases, demo)])
        for more in ({}, {"C": 1.0}, {"class_weight": "balanced"})
    }
    assert len(found) == 3
    with pytest.raises(ClaimflowError, match="balanced or null, not 'even'"):
        HeadVerdict(encoder=step.encoder, class_weight="even")
    with pytest.raises(ClaimflowError, match="above 0"):
        HeadVerdict(encoder=step.encoder, C=0)


def test_without_evidence_training_frequencies_decide(step: HeadVerdict, demo: Context) -> None:
    [case] = step.run([Case(claim=Claim(id="0", text="Vell has a bridge."))], demo)
    counts = collections.Counter(claim.label for claim in demo.train)
    assert case.verdict
    assert case.verdict.label == counts.most_common(1)[0][0]
    for label, count in counts.items():
        assert case.verdict.probabilities[str(label)] == pytest.approx(count / 36, abs=2e-6)
    assert case.verdict.justification == "No evidence was found."


def test_too_little_to_learn_from(step: HeadVerdict, cache: Cache, tmp_path: Path) -> None:
    one = [claim for claim in toys(TOWNS) if claim.label == REFUTED]
    with pytest.raises(ClaimflowError, match="two labels or more; here 10 such claims have 1"):
        step.run([case_of(one[0])], Context(cache, one))
    bare = [Claim(id="0", text="x", label=SUPPORTED), Claim(id="1", text="y", label=REFUTED)]
    with pytest.raises(ClaimflowError, match="here 0 such claims have 0"):
        step.fit(bare, tmp_path, Context(cache, bare))
    other = [Claim(id="0", text="x", label="SUPPORTS", questions=one[0].questions)]
    with pytest.raises(ClaimflowError, match="not 'SUPPORTS'"):
        step.fit(other, tmp_path, Context(cache, other))
    with pytest.raises(ClaimflowError, match="learns from a training split"):
        step.run([case_of(one[0])], Context(cache))


def test_a_missing_label_is_told(step: HeadVerdict, cache: Cache, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="is Not Enough Evidence, Conflicting Evidence/Cherry"):
        step.fit(toys(TOWNS[:2]), tmp_path, Context(cache, toys(TOWNS[:2])))


def test_gold_evidence_is_one_text_an_answer() -> None:
    claim = Claim(
        id="0",
        text="x",
        questions=[
            Question(question="Who?", answers=[Answer(answer="Ann"), Answer(answer="Bo")]),
            Question(
                question="Did she?",
                answers=[
                    Answer(answer="No", answer_type="Boolean", boolean_explanation="She left")
                ],
            ),
            Question(question="When?"),
        ],
    )
    assert gold_evidence(claim) == ["Who? Ann", "Who? Bo", "Did she? No She left"]


# Probabilities


@given(st.lists(st.floats(1e-9, 1), min_size=4, max_size=4))
def test_rounded_probabilities_sum_to_one(weights: list[float]) -> None:
    given_ = {label: w / sum(weights) for label, w in zip(AVERITEC_LABELS, weights, strict=True)}
    found = verdict(given_)
    assert sum(round(p * 1e6) for p in found.probabilities.values()) == 1_000_000
    assert all(p == round(p, 6) for p in found.probabilities.values())
    assert all(abs(found.probabilities[label] - p) < 3e-6 for label, p in given_.items())
    assert found.probabilities[found.label] == max(found.probabilities.values())


def test_ties_in_the_order_of_averitec() -> None:
    even = dict.fromkeys(reversed(AVERITEC_LABELS), 0.25)
    assert verdict(even).label == "Supported"
    assert verdict(even | {"Supported": 0.0, "Refuted": 0.5}).label == "Refuted"
    assert verdict({"b": 0.5, "a": 0.5}).label == "a"


# The majority


def test_majority(cache: Cache) -> None:
    labels = [SUPPORTED] * 2 + [REFUTED] * 3 + [None]
    train = [Claim(id=str(i), text=str(i), label=label) for i, label in enumerate(labels)]
    [case] = MajorityVerdict().run([Case(claim=Claim(id="9", text="z"))], Context(cache, train))
    assert case.verdict
    assert case.verdict.label == REFUTED
    assert case.verdict.probabilities == {SUPPORTED: 0.4, REFUTED: 0.6}
    [tie] = MajorityVerdict().run([case], Context(cache, train[1:4]))  # one, two
    assert tie.verdict
    assert tie.verdict.label == REFUTED
    [tie] = MajorityVerdict().run([case], Context(cache, train[:4]))  # two and two
    assert tie.verdict
    assert tie.verdict.label == SUPPORTED
    with pytest.raises(ClaimflowError, match="None of the 1 training claims has a label"):
        MajorityVerdict().run([case], Context(cache, train[5:]))


# Published data


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the published data")
def test_tells_labels_apart_on_gold_evidence(step: HeadVerdict, cache: Cache) -> None:
    """Macro-F1 beats that of one label for all; accuracy does not (see HeadVerdict)."""
    from sklearn.metrics import f1_score

    data = Averitec(path=DATA / "averitec")
    dev = data.claims()[:150]
    train, _ = data.train(dev)
    cases = step.run([case_of(claim) for claim in dev], Context(cache, train[:400]))
    gold = [claim.label for claim in dev]
    found = [case.verdict.label for case in cases if case.verdict]
    always = f1_score(gold, [REFUTED] * len(gold), average="macro")
    assert f1_score(gold, found, average="macro") > always + 0.03
