"""A verdict learned from other verdicts."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

from components.cache import key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.reason.calibrated import LEARNED, check_claims, check_judged, row_of
from components.reason.combined import NO_EVIDENCE
from components.reason.nested import Nested, each_pair, gold_folds, judged, remarks_of
from components.reason.verdict import frequencies, verdict
from components.records import AVERITEC_LABELS, Case, Claim, Record, decode, encode
from components.step import Context, Step, TrainedStep


@dataclasses.dataclass(kw_only=True)
class StackedVerdict(Nested, TrainedStep):
    """A learner on top of other verdicts: an ensemble that learns whom to trust (stacked
    generalisation, Wolpert 1992), or the learned end of a system that judges each piece of evidence
    (UCLMR's and Athene's networks, the random forest of DAG, FEVER 2018).

    Features are the members' probabilities of the four labels: of all the evidence at once, or with
    per_evidence their mean and their maximum over its pairs, each judged alone. learner: "logistic"
    (regression), "mlp" (two hidden layers of 100, as UCLMR's) or "forest" (100 trees), as
    scikit-learn has them. It is fitted anew from the features whenever it is loaded, which takes
    a second, so the model's folder holds numbers and no code.

    folds, claims: see `CalibratedVerdict`. A claim without evidence has the labels' frequencies in
    training.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    members: dict[str, Step]
    learner: str = "logistic"
    per_evidence: bool = False
    folds: int = 5
    claims: int | None = None

    def inner(self) -> dict[str, Step]:
        return self.members

    def __post_init__(self) -> None:
        super().__post_init__()
        check_claims(self.folds, self.claims)
        if not self.members:
            raise ClaimflowError("verdict.members is empty: name one or more.")
        if self.learner not in ("logistic", "mlp", "forest"):
            raise ClaimflowError(f"verdict.learner is {self.learner}: logistic, mlp or forest.")

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        held: dict[str, dict[str, list[float]]] = {name: {} for name in self.members}
        labels: dict[str, str] = {}
        for name, step in self.members.items():
            for cases, context in gold_folds(step, train, ctx, self.folds, self.claims):
                for case, said in zip(cases, self._said(name, step, cases, context), strict=True):
                    if not any(one.failed for one in said):
                        held[name][case.claim.id] = self._features(said)
                        labels[case.claim.id] = str(case.claim.label)
        shared = [i for i in labels if all(i in rows for rows in held.values())]
        gold = [labels[i] for i in shared]
        check_judged(gold)
        x = [[value for rows in held.values() for value in rows[i]] for i in shared]
        write_whole(folder / LEARNED, encode(Stack(x=x, y=gold, frequencies=frequencies(train))))

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        model = ctx.model(self)
        seed = ctx.seed_for("stacked verdict")
        learned, learner = ctx.loaded(
            key_of(__name__, model.digest, self.learner, seed),
            lambda: _fitted(Path(model.path), self.learner, seed),
        )
        each = [self._said(name, step, cases, ctx) for name, step in self.members.items()]
        for case, said in zip(cases, zip(*each, strict=True), strict=True):
            every = [one for member in said for one in member]
            case.remarks = remarks_of(case, every)
            case.failed = next((one.failed for one in every if one.failed), None)
            if case.failed:
                continue
            if not case.evidence:
                case.verdict = verdict(learned.frequencies, NO_EVIDENCE)
                continue
            row = [value for member in said for value in self._features(member)]
            values = learner.predict_proba([row])[0].tolist()
            found = dict(zip(learner.classes_.tolist(), values, strict=True))
            case.verdict = verdict(dict.fromkeys(AVERITEC_LABELS, 0.0) | found)
        return cases

    def _said(self, name: str, step: Step, cases: list[Case], ctx: Context) -> list[list[Case]]:
        """What a member says of each case: one verdict, or one a pair of its evidence."""
        if self.per_evidence:
            return each_pair(step, name, cases, ctx)
        return [[done] for done in judged(step, name, cases, ctx)]

    def _features(self, said: list[Case]) -> list[float]:
        columns = list(zip(*(row_of(one.verdict) for one in said), strict=True))
        means = [sum(column) / len(column) for column in columns]
        return means + [max(column) for column in columns] if self.per_evidence else means


class Stack(Record):
    """What `StackedVerdict` learns from: features and labels of training claims."""

    x: list[list[float]]
    y: list[str]
    frequencies: dict[str, float]


def _fitted(folder: Path, learner: str, seed: int) -> tuple[Stack, Any]:
    """What is in a model's folder, and the learner fitted to it."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    learned: Stack = decode((folder / LEARNED).read_bytes(), Stack)
    learners: dict[str, Any] = {
        "logistic": lambda: LogisticRegression(max_iter=5000),
        "mlp": lambda: MLPClassifier((100, 100), random_state=seed),
        "forest": lambda: RandomForestClassifier(min_samples_leaf=5, random_state=seed),
    }
    with threadpool_limits(1):  # the order of a sum must not depend on free cores
        return learned, learners[learner]().fit(learned.x, learned.y)
