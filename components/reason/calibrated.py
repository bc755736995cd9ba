"""Probabilities that can be trusted: what is learned of another verdict on the training claims."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from components.errors import ClaimflowError, nearest
from components.files import write_whole
from components.reason.aggregate import chances
from components.reason.nested import Nested, gold_folds, judged, remarks_of
from components.reason.verdict import enough_to_calibrate, frequencies, verdict
from components.records import AVERITEC_LABELS, Case, Claim, Record, Verdict, decode, encode
from components.step import Context, Step, TrainedStep

if TYPE_CHECKING:
    import numpy as np

LEAST = 1e-4  # a probability of 0 says more than any judge knows
LEARNED = "learned.json"


class Calibration(Record):
    """What `CalibratedVerdict` learned. claims: training claims that were judged. ece_before,
    ece_after: expected calibration error on them; "after" is of two halves, each with the
    temperature that the other one taught."""

    temperature: float
    frequencies: dict[str, float]  # of the labels in training
    weights: dict[str, float]  # of the labels when one is chosen
    claims: int
    ece_before: float
    ece_after: float


@dataclasses.dataclass(kw_only=True)
class CalibratedVerdict(Nested, TrainedStep):
    """The verdict of another step, with probabilities that can be trusted.

    Four things, in this order, each of them optional:
    temperature: probabilities to the power of 1 / T and normalised, T of the lowest negative
    log-likelihood on training claims (Guo et al. 2017); 1, with a warning, where fewer than 20 of
    them are judged. A judge that gives a label without probabilities gets some from how often it
    is right.
    prior: how frequent labels are where the system is used; probabilities are multiplied by this
    over their frequency in training (Saerens et al. 2002, equation 4). None: as in training.
    labels: only these, the others have probability 0. None: all.
    thresholds: the label is the one with the highest product of probability and a weight; the
    weights are those of the highest macro-F1 on training claims. Probabilities stay as they are.

    folds: of the training claims, where `verdict` itself learns from them. claims: so many training
    claims at most are judged, as a language model takes long for thousands; None: all.
    """

    reads: ClassVar = ("claim", "evidence", "remarks")
    writes: ClassVar = ("verdict", "remarks")
    verdict: Step
    temperature: bool = True
    prior: dict[str, float] | None = None
    labels: list[str] | None = None
    thresholds: bool = False
    folds: int = 5
    claims: int | None = None

    def inner(self) -> dict[str, Step]:
        return {"verdict": self.verdict}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_claims(self.folds, self.claims)
        for label in [*(self.labels or ()), *(self.prior or ())]:
            if label not in AVERITEC_LABELS:
                raise ClaimflowError(
                    f"verdict: unknown label '{label}'.{nearest(label, AVERITEC_LABELS)}"
                )
        if self.labels is not None and len(set(self.labels)) < 2:
            raise ClaimflowError("verdict.labels must name two labels or more, or be null.")
        if self.prior is not None:
            if min(self.prior.values()) < 0 or not math.isclose(sum(self.prior.values()), 1):
                raise ClaimflowError("verdict.prior: shares of the labels, which sum to 1.")
            if not sum(self.prior.get(label, 0.0) for label in self.labels or AVERITEC_LABELS):
                raise ClaimflowError("verdict.prior leaves none of verdict.labels possible.")

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        import numpy as np

        from components.score.calibration import calibration_error

        done = [
            case
            for cases, context in gold_folds(self.verdict, train, ctx, self.folds, self.claims)
            for case in judged(self.verdict, "verdict on gold evidence", cases, context)
            if not case.failed
        ]
        gold = [AVERITEC_LABELS.index(str(case.claim.label)) for case in done]
        check_judged(gold)
        raw = np.array([row_of(case.verdict) for case in done])
        known = frequencies(train)
        right, sure = (raw.argmax(axis=1) == gold).tolist(), raw.max(axis=1).tolist()
        fitted = self.temperature and enough_to_calibrate(len(gold))

        def temperature(rows: np.ndarray, gold: list[int]) -> float:
            return best_temperature(rows, gold) if fitted else 1.0

        # Each half by what the other taught.
        halves = [np.arange(part, len(gold), 2) for part in (0, 1)]
        after = np.empty_like(raw)
        for held, other in (halves, halves[::-1]):
            t = temperature(raw[other], [gold[i] for i in other])
            after[held] = heated(raw[held], t)
        t = temperature(raw, gold)
        shifted = self._shifted(heated(raw, t), known)
        weights = best_weights(shifted, gold) if self.thresholds else [1.0] * len(AVERITEC_LABELS)
        right_after = (after.argmax(axis=1) == gold).tolist()
        sure_after = after.max(axis=1).tolist()
        write_whole(
            folder / LEARNED,
            encode(
                Calibration(
                    temperature=t,
                    frequencies=known,
                    weights=dict(zip(AVERITEC_LABELS, weights, strict=True)),
                    claims=len(gold),
                    ece_before=calibration_error(sure, right).value,
                    ece_after=calibration_error(sure_after, right_after).value,
                )
            ),
        )

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        import numpy as np

        learned = _read(Path(ctx.model(self).path))
        weights = np.array([learned.weights[label] for label in AVERITEC_LABELS])
        for case, done in zip(cases, judged(self.verdict, "verdict", cases, ctx), strict=True):
            case.remarks, case.failed = remarks_of(case, [done]), done.failed
            if case.failed or not (own := done.verdict):
                continue
            row = heated(np.array([row_of(own)]), learned.temperature)
            row = self._shifted(row, learned.frequencies)
            values = dict(zip(AVERITEC_LABELS, row[0].tolist(), strict=True))
            # Heat changes no label: where two are level, the judge's own stays.
            ties = [own.label, *(label for label in AVERITEC_LABELS if label != own.label)]
            case.verdict = verdict(values, own.justification, ties)
            if not self.temperature and self.prior is None and self.labels is None:
                # None of its probabilities is raised to LEAST.
                case.verdict = msgspec.structs.replace(own, probabilities=chances(own))
            if self.thresholds:
                case.verdict.label = AVERITEC_LABELS[int((row[0] * weights).round(6).argmax())]
        return cases

    def learned(self, folder: Path) -> dict[str, float]:
        known = _read(folder)
        found = {"claims": float(known.claims), "ece_before": known.ece_before}
        if self.temperature:
            found |= {"ece_after": known.ece_after, "temperature": known.temperature}
        if self.thresholds:
            found |= {f"weight {label}": weight for label, weight in known.weights.items()}
        return found

    def _shifted(self, rows: np.ndarray, known: dict[str, float]) -> np.ndarray:
        """Probabilities under `prior`, of `labels` alone."""
        import numpy as np

        factors = np.ones(len(AVERITEC_LABELS))
        for i, label in enumerate(AVERITEC_LABELS):
            if self.prior is not None:
                # A label that training lacks was never learned: its frequency is as good as 0.
                factors[i] = self.prior.get(label, 0.0) / max(known.get(label, 0.0), LEAST)
            if self.labels is not None and label not in self.labels:
                factors[i] = 0.0
        shifted = rows * factors
        return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _read(folder: Path) -> Calibration:
    learned: Calibration = decode((folder / LEARNED).read_bytes(), Calibration)
    return learned


def check_claims(folds: int, claims: int | None) -> None:
    """Raise ClaimflowError for numbers of folds and training claims that can't be."""
    if folds < 2:
        raise ClaimflowError(f"verdict.folds is {folds}: give 2 or more.")
    if claims is not None and claims < 2:
        raise ClaimflowError(f"verdict.claims is {claims}: give 2 or more, or null for all.")


def check_judged(gold: Sequence[Any]) -> None:
    """Raise ClaimflowError where there is too little to learn from."""
    if len(set(gold)) < 2:
        raise ClaimflowError(
            f"{len(gold)} training claims could be judged, of {len(set(gold))} labels: too few to "
            "learn from. Name another split with dataset.train_split=…"
        )


def row_of(one: Verdict | None) -> list[float]:
    """Probabilities in AVeriTeC's order, none of them 0; they sum to 1."""
    assert one
    values = [max(chances(one).get(label, 0.0), LEAST) for label in AVERITEC_LABELS]
    return [value / sum(values) for value in values]


def heated(rows: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities to the power of 1 / temperature, normalised."""
    import numpy as np

    powers = np.log(rows) / temperature
    powers = np.exp(powers - powers.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def best_temperature(rows: np.ndarray, gold: Sequence[int]) -> float:
    """The temperature, from 1/20 to 20, of the lowest negative log-likelihood."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    def loss(log: float) -> float:
        return float(-np.log(heated(rows, math.exp(log))[range(len(gold)), list(gold)]).mean())

    end = math.log(20)
    return round(math.exp(minimize_scalar(loss, bounds=(-end, end), method="bounded").x), 4)


def best_weights(rows: np.ndarray, gold: Sequence[int]) -> list[float]:
    """A weight for each label, the first 1, with the highest macro-F1 of the heaviest product of
    weight and probability: found label by label, twice, on a grid from 1/16 to 16."""
    import numpy as np

    grid = [2 ** (step / 4) for step in range(-16, 17)]
    present = sorted(set(gold))

    def score(weights: list[float]) -> float:
        guess, truth = (rows * weights).round(6).argmax(axis=1), np.asarray(gold)
        total = 0.0
        for label in present:
            hits = ((guess == label) & (truth == label)).sum()
            total += 2 * hits / max((guess == label).sum() + (truth == label).sum(), 1)
        return round(float(total / len(present)), 9)

    weights = [1.0] * rows.shape[1]
    for label in [*range(1, rows.shape[1])] * 2:
        tried = {w: score([*weights[:label], w, *weights[label + 1 :]]) for w in grid}
        top = max(tried.values())
        # Of equally good ones the nearest to 1: what no claim asks for is left as it was.
        best = [weight for weight, value in tried.items() if value == top]
        weights[label] = min(best, key=lambda weight: abs(math.log(weight)))
    return weights
