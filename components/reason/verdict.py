"""Verdicts that are learned from the training split: a classifier on embeddings, the majority."""

from __future__ import annotations

import collections
import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from components.cache import key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import (
    AVERITEC_LABELS,
    Case,
    Claim,
    Evidence,
    Record,
    Verdict,
    decode,
    encode,
)
from components.retrieve.encoder import Encoder
from components.step import Context, TrainedStep

if TYPE_CHECKING:
    import numpy as np

LEAST_HELD_OUT = 20  # claims; the temperature of fewer is chance, as two claims give 4 or 1/4


@dataclasses.dataclass(kw_only=True)
class MajorityVerdict(TrainedStep):
    """The most frequent label of the training split, whatever the claim and its evidence.

    Probabilities are the frequencies there. Of equally frequent labels the first in AVeriTeC's
    order wins (Supported, Refuted, Not Enough Evidence, Conflicting Evidence/Cherrypicking), then
    the first in the alphabet.
    """

    writes: ClassVar = ("verdict",)

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        write_whole(folder / "majority.json", encode(frequencies(train)))

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        model = Path(ctx.model(self).path) / "majority.json"
        frequent: dict[str, float] = decode(model.read_bytes(), dict[str, float])
        for case in cases:
            case.verdict = verdict(frequent)
        return cases


@dataclasses.dataclass(kw_only=True)
class HeadVerdict(TrainedStep):
    """Logistic regression on embeddings of the claim and its evidence.

    It learns from the gold questions and answers of the training split and judges whatever
    evidence it is given, so evidence worse than gold gives verdicts worse than those on gold.

    Features, for claim c and evidence e₁…eₙ (question and answer as one text each), all vectors of
    length 1 and m the mean of the eᵢ: c, m, |c − m|, c · m by component, and the mean and highest
    cosine of c and eᵢ. The number n is no feature: gold evidence has 2.8 pairs, found evidence 10.
    Features are standardised on the training split.

    C: inverse strength of L2 regularisation; .001 has the lowest log loss and highest accuracy of
    .0003, .001, .003 and .01 in five-fold cross-validation on AVeriTeC's training split.
    class_weight: "balanced" weighs claims by the inverse frequency of their label, None weighs all
    alike. There, balanced gives macro-F1 .42 for .34, and accuracy .55 for .64 (.57: always
    Refuted). On dev with gold evidence the defaults give accuracy .600 and macro-F1 .281, where
    always Refuted gives .610 and .189: a baseline that is quick to learn, not a strong one.

    A label that the training split lacks has probability 0, and `fit` warns of it; fewer than two
    labels are an error. A claim without evidence leaves nothing to compare: its probabilities are
    the labels' frequencies in training. Probabilities are rounded to six decimals and sum to 1;
    of equally probable labels the first in AVeriTeC's order wins.

    The justification is extractive: the pair of question and answer that is nearest to the claim
    by cosine, word for word. It does not explain the label.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("verdict",)
    encoder: Encoder
    C: float = 0.001
    class_weight: str | None = None

    def __post_init__(self) -> None:
        if self.class_weight not in (None, "balanced"):
            raise ClaimflowError(f"class_weight is balanced or null, not '{self.class_weight}'.")
        if self.C <= 0:
            raise ClaimflowError(f"C must be above 0, not {self.C}.")

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        import numpy as np
        from safetensors.numpy import save
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        learned = [claim for claim in train if claim.label and gold_evidence(claim)]
        check_labels(learned)
        labels = [str(claim.label) for claim in learned]
        parts = [[claim.text, *gold_evidence(claim)] for claim in learned]
        vectors = self.encoder.encode(
            [text for part in parts for text in part], ctx, progress="encode gold evidence"
        )
        ends = np.cumsum([len(part) for part in parts])
        x = np.stack([features(part) for part in np.split(vectors, ends[:-1])])
        with threadpool_limits(1):  # the order of a sum must not depend on free cores
            model = make_pipeline(
                StandardScaler(),
                LogisticRegression(C=self.C, class_weight=self.class_weight, max_iter=5000),
            ).fit(x, labels)
        scaler, head = model[0], model[1]
        coefficients, intercept = head.coef_, head.intercept_
        if len(head.classes_) == 2:  # scikit-learn gives the second label's log-odds alone
            coefficients = np.vstack([np.zeros_like(coefficients), coefficients])
            intercept = np.append(0.0, intercept)
        weights = np.ascontiguousarray(coefficients / scaler.scale_)  # safetensors asks for it
        parameters = {"weights": weights, "bias": intercept - weights @ scaler.mean_}
        write_whole(folder / "head.safetensors", save(parameters))
        about = About(labels=head.classes_.tolist(), frequencies=frequencies(train))
        write_whole(folder / "head.json", encode(about))

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        model = ctx.model(self)
        head: Head = ctx.loaded(key_of(__name__, model.digest), lambda: Head(model.path))
        for case in cases:
            if not case.evidence:
                case.verdict = verdict(head.about.frequencies, "No evidence was found.")
                continue
            # One claim is one batch, so that its verdict does not depend on the claims beside it.
            texts = [pair_text(pair) for pair in case.evidence]
            vectors = self.encoder.encode([case.claim.text, *texts], ctx)
            nearest = int((vectors[1:] @ vectors[0]).round(6).argmax())
            case.verdict = verdict(head.probabilities(features(vectors)), texts[nearest])
        return cases


class About(Record):
    """What stands beside a head's parameters: its labels in their order, and how frequent each
    label was in training."""

    labels: list[str]
    frequencies: dict[str, float]


class Head:
    """A fitted head: weights (labels, features) and bias (labels,), float64, on raw features."""

    def __init__(self, folder: str) -> None:
        from safetensors.numpy import load_file

        self.about: About = decode((Path(folder) / "head.json").read_bytes(), About)
        parameters = load_file(Path(folder) / "head.safetensors")
        self.weights, self.bias = parameters["weights"], parameters["bias"]

    def probabilities(self, x: np.ndarray) -> dict[str, float]:
        """Probability of every AVeriTeC label for the features of one claim."""
        import numpy as np

        logits = self.weights @ x + self.bias
        powers = np.exp(logits - logits.max())
        seen = zip(self.about.labels, (powers / powers.sum()).tolist(), strict=True)
        return dict.fromkeys(AVERITEC_LABELS, 0.0) | dict(seen)


def features(vectors: np.ndarray) -> np.ndarray:
    """Features of one claim, float64: `vectors` has the claim's in row 0 and one row a piece of
    evidence, of length 1."""
    import numpy as np

    claim, evidence = vectors[0].astype(np.float64), vectors[1:].astype(np.float64)
    mean, cosines = evidence.mean(axis=0), evidence @ claim
    return np.concatenate(
        [claim, mean, np.abs(claim - mean), claim * mean, [cosines.mean(), cosines.max()]]
    )


def gold_evidence(claim: Claim) -> list[str]:
    """The texts of a claim's gold evidence: one for each answer, with its question before it."""
    return [
        " ".join(filter(None, (question.question, answer.answer, answer.boolean_explanation)))
        for question in claim.questions
        for answer in question.answers
    ]


def pair_text(pair: Evidence) -> str:
    """The text of submitted evidence, as `gold_evidence` has it."""
    return f"{pair.question} {pair.answer}"


def check_labels(learned: list[Claim]) -> None:
    """Raise ClaimflowError unless claims to learn from have two or more of AVeriTeC's labels; warn
    of those missing that their data set has."""
    labels = [str(claim.label) for claim in learned]
    if unknown := set(labels) - set(AVERITEC_LABELS):
        raise ClaimflowError(
            f"The verdict head knows AVeriTeC's labels, not '{min(unknown)}': choose another "
            "verdict for this data set."
        )
    if len(set(labels)) < 2:
        raise ClaimflowError(
            "The verdict head learns from training claims with gold questions and answers, of two "
            f"labels or more; here {len(labels)} such claims have {len(set(labels))}. Name a split "
            "that has them with dataset.train_split=… (for scorer=ev2r, a file with "
            "scorer.train=FILE), or choose a verdict that needs none: majority, rules or llm."
        )
    sentences = any(claim.gold for claim in learned)  # FEVER and SciFact, without conflicting ones
    due = AVERITEC_LABELS[:3] if sentences else AVERITEC_LABELS
    if missing := [label for label in due if label not in labels]:
        warnings.warn(
            f"No training claim is {', '.join(missing)}: the verdict never says so.",
            stacklevel=2,
        )


def enough_to_calibrate(claims: int) -> bool:
    """Whether a temperature can be fitted on so many held-out claims. A warning where it can't."""
    if claims < LEAST_HELD_OUT:
        warnings.warn(
            f"The temperature stays 1, as it is fitted on {LEAST_HELD_OUT} held-out claims or more "
            f"and here are {claims}: give more training claims.",
            stacklevel=3,
        )
    return claims >= LEAST_HELD_OUT


def check_ties(ties: Sequence[str], slot: str) -> None:
    """Raise ClaimflowError for an order of labels, in which equal ones win, that is not whole."""
    if sorted(map(str, ties)) != sorted(AVERITEC_LABELS):
        raise ClaimflowError(
            f"{slot}.ties is {list(ties)}: name each of {', '.join(AVERITEC_LABELS)} once."
        )


def frequencies(train: list[Claim]) -> dict[str, float]:
    """How frequent each label of `train` is. Raises ClaimflowError when no claim has one."""
    counts = collections.Counter(claim.label for claim in train if claim.label)
    if not counts:
        raise ClaimflowError(
            f"None of the {len(train)} training claims has a label: name a split that has some "
            "with dataset.train_split=…, or choose a verdict that needs none: rules, llm."
        )
    return {label: count / counts.total() for label, count in counts.items()}


def verdict(
    probabilities: dict[str, float],
    justification: str | None = None,
    ties: Sequence[str] = AVERITEC_LABELS,
) -> Verdict:
    """The most probable label; on a tie the first in `ties`, then by name.

    Probabilities are rounded to six decimals; what that takes from their sum or adds to it goes
    to the highest, so that they still sum to 1.
    """
    order = [label for label in ties if label in probabilities]
    order += sorted(set(probabilities) - set(order))
    rounded = {label: round(probabilities[label], 6) for label in order}
    top = max(order, key=rounded.__getitem__)
    rounded[top] = round(1 - sum(rounded[label] for label in order if label != top), 6)
    return Verdict(
        label=max(order, key=rounded.__getitem__),
        probabilities=rounded,
        justification=justification,
    )
