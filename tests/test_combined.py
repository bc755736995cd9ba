"""Verdicts made of others: aggregates, ensembles, the semantic filter, calibration, stacking."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.pipeline import load, run_step, store
from components.reason.aggregate import AGGREGATES, chances
from components.reason.calibrated import (
    CalibratedVerdict,
    best_temperature,
    best_weights,
    heated,
)
from components.reason.combined import Ensemble, PerEvidence, SemanticFilter
from components.reason.nested import gold_folds
from components.reason.stacked import StackedVerdict
from components.reason.verdict import MajorityVerdict
from components.records import (
    AVERITEC_LABELS,
    Answer,
    Case,
    Claim,
    Evidence,
    Question,
    Verdict,
)
from components.retrieve.encoder import Encoder
from components.step import Context, Step

S, R, N, C = AVERITEC_LABELS
SHORT = {"S": S, "R": R, "N": N, "C": C}


@dataclasses.dataclass(kw_only=True)
class Reads(Step):
    """The verdict stands in the answers: `S .8` is Supported with .8, the rest even; the first pair
    counts. Fails at an answer that is none."""

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("verdict", "remarks")
    offset: float = 0.0

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            label, _, sure = case.evidence[0].answer.partition(" ") if case.evidence else "N  "
            if label not in SHORT:
                case.failed = f"can't read {label}"
                continue
            case.remarks = ["read"]
            p = float(sure.strip() or 1) - self.offset
            values = dict.fromkeys(AVERITEC_LABELS, (1 - p) / 3) | {SHORT[label]: p}
            case.verdict = Verdict(label=SHORT[label], probabilities=values if sure.strip() else {})
        return cases


def case(*answers: str, name: str = "1") -> Case:
    held = [Evidence(question=f"Q{i}?", answer=answer) for i, answer in enumerate(answers)]
    return Case(claim=Claim(id=name, text="x"), evidence=held)


def run(tmp_path: Path, step: Step, *cases: Case, train: list[Claim] | None = None) -> list[Case]:
    cache = Cache(tmp_path)
    refs = [store(one, ("claim", "evidence", "remarks"), cache) for one in cases]
    done = []
    for ref in run_step(step, "verdict", refs, Context(cache, train, 13)):
        one = load(ref, ("claim", "evidence", "verdict", "remarks"), cache)
        one.failed = ref.error
        done.append(one)
    return done


# As each system has it
RULES = {
    "strict": {"SS": S, "R": R, "SR": C, "SN": N, "SRN": N, "C": N},
    "both_conflict": {"SS": S, "SR": C, "SRN": C, "SN": N, "NN": N},
    "agreed": {"SS": S, "NN": N, "SN": C},
    "majority_or_conflict": {"SSR": S, "SRN": C, "RS": R},
    "one_sided": {"SNN": S, "RN": R, "SRNN": N, "NN": N},
    "majority": {"SSR": S, "RS": R, "NNS": N},
}


@pytest.mark.parametrize(("name", "votes"), [(n, v) for n, rules in RULES.items() for v in rules])
def test_rules(name: str, votes: str) -> None:
    ties = [R, S, N, C]
    verdicts = [Verdict(label=SHORT[vote]) for vote in votes]
    assert AGGREGATES[name](verdicts, ties).label == RULES[name][votes]


def test_probabilities_are_put_together() -> None:
    """Worked by hand."""
    one = Verdict(label=S, probabilities={S: 0.6, R: 0.4})
    two = Verdict(label=R, probabilities={S: 0.1, R: 0.9})
    none = Verdict(label=N, probabilities={N: 0.95, S: 0.05})
    mean = AGGREGATES["mean"]([one, two], AVERITEC_LABELS)
    assert (mean.label, mean.probabilities) == (R, {S: 0.35, R: 0.65})
    pooled = AGGREGATES["mean_max"]([one, two], AVERITEC_LABELS)  # S .35 + .6, R .65 + .9
    assert pooled.probabilities == pytest.approx({S: 0.38, R: 0.62})
    assert AGGREGATES["highest"]([one, two, none], ()).label == N
    assert AGGREGATES["highest_decided"]([one, two, none], ()).label == R
    assert AGGREGATES["highest_decided"]([none], ()).label == N


@given(st.lists(st.sampled_from(AVERITEC_LABELS), min_size=1), st.sampled_from(sorted(AGGREGATES)))
def test_laws_of_aggregates(labels: list[str], name: str) -> None:
    verdicts = [Verdict(label=label) for label in labels]
    found = AGGREGATES[name](verdicts, AVERITEC_LABELS)
    assert found.label in AVERITEC_LABELS
    if set(labels) in ({S}, {R}):
        assert found.label == labels[0]
    ways = {AGGREGATES[name](list(way), AVERITEC_LABELS).label
            for way in itertools.islice(itertools.permutations(verdicts), 24)}  # fmt: skip
    assert len(ways) == 1 or name.startswith("highest")  # all are equally sure: the first


def test_each_pair_is_judged_alone(tmp_path: Path) -> None:
    mixed, none, bad = run(tmp_path, PerEvidence(verdict=Reads()), case("S", "R"),
                           case(name="2"), case("S", "?", name="3"))  # fmt: skip
    assert mixed.verdict
    assert mixed.verdict.label == C
    assert mixed.verdict.justification == "Q0? – Supported\nQ1? – Refuted"
    assert mixed.remarks == ["read"]
    assert none.verdict == Verdict(label=N, justification="No evidence was found.")
    assert "can't read ?" in str(bad.failed)
    with pytest.raises(ClaimflowError, match=r"verdict\.aggregate is mode: choose one of"):
        PerEvidence(verdict=Reads(), aggregate="mode")
    with pytest.raises(ClaimflowError, match=r"verdict\.ties is .*Refutd.*: name each of"):
        PerEvidence(verdict=Reads(), ties=["Refutd", S])


def test_an_ensemble(tmp_path: Path) -> None:
    members: dict[str, Step] = {"sure": Reads(), "less": Reads(offset=0.3)}
    step = Ensemble(members=members, aggregate="mean")
    [done] = run(tmp_path, step, case("S .7"))
    assert done.verdict
    assert done.verdict.probabilities[S] == pytest.approx(0.55)
    assert done.verdict.justification == "sure – Supported\nless – Supported"
    with pytest.raises(ClaimflowError, match=r"verdict\.ties is .*: name each of"):
        Ensemble(members=members, ties=[R, S, N, "Conflicting"])
    with pytest.raises(ClaimflowError, match="two members or more"):
        Ensemble(members={"one": Reads()})
    trained = Ensemble(members={"a": Reads(), "b": MajorityVerdict()})
    assert trained.needs_train
    assert not step.needs_train


@dataclasses.dataclass(kw_only=True)
class Angles(Encoder):
    """A text that ends in a number is the vector with that cosine to every other text."""

    def __post_init__(self) -> None:
        pass

    def encode(self, texts: list[str], ctx: Context, progress: str | None = None) -> Any:
        last = [text.split()[-1] for text in texts]
        cosines = np.array([float(word) if word[0] == "." else 1.0 for word in last])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1)


def test_the_semantic_filter(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    step = SemanticFilter(verdict=Reads(), encoder=Angles(model=model), floor=0.8, variance=0.01)
    far, spread, near = run(
        tmp_path, step, case("S .7", "S .79"), case("S .9", "S .6", name="2"),
        case("S .9", "S .81", name="3"),
    )  # fmt: skip
    labels = [one.verdict.label for one in (far, spread, near) if one.verdict]
    assert labels == [N, C, S]  # variances: .002, .0225, .002
    assert spread.remarks == [f"{C} by the semantic filter"]
    assert near.remarks == ["read"]


# What is learned


def train(rows: list[tuple[str, str]]) -> list[Claim]:
    """Claims of (gold label, what `Reads` says)."""
    return [
        Claim(id=f"t{i}", text=f"claim {i}", label=SHORT[gold],
              questions=[Question(question="Q?", answers=[Answer(answer=said)])])
        for i, (gold, said) in enumerate(rows)
    ]  # fmt: skip


OVERSURE = train([("S" if i % 10 < 6 else "R", "S .99") for i in range(50)]
                 + [("R" if i % 10 < 6 else "S", "R .99") for i in range(50)])  # fmt: skip


def test_a_judge_that_is_too_sure_is_calibrated(tmp_path: Path) -> None:
    """It says .99 and is right in .60: after calibration it says about .6, on claims unseen."""
    step = CalibratedVerdict(verdict=Reads())
    [done] = run(tmp_path, step, case("S .99"), train=OVERSURE)
    assert done.verdict
    assert done.verdict.label == S
    assert done.verdict.probabilities[S] == pytest.approx(0.6, abs=0.1)
    ctx = Context(Cache(tmp_path), OVERSURE, 13)
    learned = step.learned(Path(ctx.model(step).path))
    assert learned["ece_before"] == pytest.approx(0.39)
    assert learned["ece_after"] < 0.1
    assert learned["claims"] == 100
    assert learned["temperature"] > 1
    weighing = CalibratedVerdict(verdict=Reads(), temperature=False, thresholds=True)
    learned = weighing.learned(Path(ctx.model(weighing).path))
    weights = {f"weight {label}" for label in SHORT.values()}
    assert set(learned) == {"claims", "ece_before", *weights}


def test_before_calibration_a_judge_is_as_it_was(tmp_path: Path) -> None:
    """Nothing is asked for: its own probabilities; heat then leaves its label, also of a tie."""
    said = [case("S .99"), case("R .5", name="2"), case("C .25", name="3"), case("R", name="4")]
    alone = run(tmp_path, Reads(), *said)
    before, after = (
        run(tmp_path, CalibratedVerdict(verdict=Reads(), temperature=heat), *said, train=OVERSURE)
        for heat in (False, True)
    )
    for own, same, warm in zip(alone, before, after, strict=True):
        assert own.verdict
        assert same.verdict
        assert warm.verdict
        assert same.verdict.label == own.verdict.label == warm.verdict.label
        assert same.verdict.probabilities == chances(own.verdict)


@pytest.mark.parametrize("claims", [19, 20])
def test_the_temperature_of_few_claims_is_1(tmp_path: Path, claims: int) -> None:
    step = CalibratedVerdict(verdict=Reads())
    some = train([("S", "S .99"), ("R", "S .99")] * 10)[:claims]
    ctx = Context(Cache(tmp_path), some, 13)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        folder = Path(ctx.model(step).path)
    learned = step.learned(folder)
    told = [str(one.message) for one in warned if "temperature stays 1" in str(one.message)]
    assert (learned["temperature"] == 1, len(told)) == (claims < 20, int(claims < 20))


def test_prior_labels_and_thresholds(tmp_path: Path) -> None:
    def judged(**more: Any) -> Verdict:
        step = CalibratedVerdict(verdict=Reads(), temperature=False, **more)
        [done] = run(tmp_path, step, case("S .4"), train=OVERSURE)
        assert done.verdict
        return done.verdict

    # In training half are Supported, half Refuted; .4 and .2 become .4 · .2/.5 and .2 · .8/.5.
    shifted = judged(prior={S: 0.2, R: 0.8})
    assert shifted.label == R
    assert shifted.probabilities[R] == pytest.approx(0.32 / 0.48)
    assert shifted.probabilities[N] == 0
    assert judged(labels=[R, N]).probabilities == {S: 0, R: 0.5, N: 0.5, C: 0}
    with pytest.raises(ClaimflowError, match="which sum to 1"):
        judged(prior={S: 0.2})
    with pytest.raises(ClaimflowError, match=r"label 'Suported'\. Did you mean 'Supported'"):
        judged(labels=["Suported", R])


def test_thresholds_find_the_rare_label() -> None:
    """A rare label that never has the highest probability is chosen once it weighs more."""
    rows = np.array([[0.6, 0.4, 0, 0]] * 5 + [[0.8, 0.2, 0, 0]] * 45)
    gold = [1] * 5 + [0] * 45
    weights = best_weights(rows, gold)
    assert ((rows * weights).argmax(axis=1) == gold).all()
    assert weights[0] == weights[2] == weights[3] == 1


@given(st.lists(st.floats(0.05, 1), min_size=4, max_size=4), st.floats(0.1, 10))
def test_heat_keeps_order_and_sum(values: list[float], temperature: float) -> None:
    row = np.array([values]) / sum(values)
    done = heated(row, temperature)
    assert done.sum() == pytest.approx(1)
    order = np.argsort(row[0], kind="stable")
    assert (np.diff(done[0][order]) >= -1e-12).all()
    assert heated(row, 1.0) == pytest.approx(row)


def test_the_temperature_of_a_calibrated_judge_is_1() -> None:
    rows = np.array([[0.75, 0.25, 1e-9, 1e-9]] * 400)
    assert best_temperature(rows, [0, 0, 0, 1] * 100) == pytest.approx(1, abs=0.01)


def test_no_claim_is_judged_by_what_learned_from_it(tmp_path: Path) -> None:
    claims = train([("S", "S .9")] * 7)
    ctx = Context(Cache(tmp_path), claims)
    held = []
    for cases, context in gold_folds(MajorityVerdict(), claims, ctx, 3, None):
        names = {one.claim.id for one in cases}
        assert names.isdisjoint(claim.id for claim in context.train)
        assert len(names) + len(context.train) == 7
        held += sorted(names)
    assert sorted(held) == [f"t{i}" for i in range(7)]
    [(cases, same)] = gold_folds(Reads(), claims, ctx, 3, 4)  # it learns nothing: no folds
    assert (len(cases), same) == (4, ctx)


@pytest.mark.parametrize("learner", ["logistic", "mlp", "forest"])
def test_stacking_learns_whom_to_trust(tmp_path: Path, learner: str) -> None:
    """The judge always says the opposite; what is stacked on it turns that round. With
    per_evidence its second pair counts, too."""
    claims = train([("S", "R .9"), ("R", "S .9")] * 20)
    for claim in claims:
        claim.questions *= 2
    members: dict[str, Step] = {"liar": Reads(), "majority": MajorityVerdict()}
    for per_evidence in (False, True):
        step = StackedVerdict(members=members, learner=learner, per_evidence=per_evidence, folds=2)
        says = run(tmp_path, step, case("S .9", "S .9"), case("R .9", "R .9", name="2"),
                   case(name="3"), train=claims)  # fmt: skip
        assert [one.verdict.label for one in says[:2] if one.verdict] == [R, S]
        assert says[2].verdict
        assert says[2].verdict.justification == "No evidence was found."
    alone = StackedVerdict(members=members, learner=learner, folds=2)
    with pytest.raises(ClaimflowError, match="too few to learn from"):
        run(tmp_path, alone, case("S"), train=train([("S", "S .9")] * 4))
