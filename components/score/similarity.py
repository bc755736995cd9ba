"""A trained scorer of evidence against reference evidence, in the manner of BLEURT."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from components.cache import key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Claim
from components.retrieve.encoder import Encoder
from components.score.evidence import gold_pairs
from components.step import Context, identity

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class TrainedSimilarity:
    """Probability, 0 to 1, that two collections of evidence are about the same claim.

    As the BLEURT scorer of the Ev2R study (Akhtar et al. 2024, section 4.4) it is trained on pairs
    of evidence sets: right are the two halves of a claim's gold evidence, wrong are halves of
    different claims, one drawn at random and one that is most like the first. Where theirs
    fine-tunes BLEURT, this one is logistic regression on sentence embeddings, which any machine
    can train.

    Features, of the pairs of question and answer on both sides: |a − b| and a · b of the mean
    vectors by component, their cosine, and the mean highest cosine of each side with the other.

    C: inverse strength of L2 regularisation. Trained on AVeriTeC's training split, the halves of
    one dev claim stand above halves of two random ones with an area under the ROC curve of .982,
    and above those of two most similar claims with .728 (the cosine alone: .983 and .706); .001 to
    .1 do worse on both.
    """

    encoder: Encoder
    C: float = 0.0003

    def score(self, sides: list[tuple[list[str], list[str]]], ctx: Context) -> list[float]:
        """The probability of each (predicted, reference), as texts of their pairs; learned from
        ctx.train. 0 where a side is empty."""
        import numpy as np
        from safetensors.numpy import load_file

        key = key_of("similarity", identity(self), ctx.train_digest, ctx.seed)
        model = ctx.cache.artifact(key, lambda folder: self.fit(folder, ctx))
        weights = load_file(Path(model.path) / "similarity.safetensors")["weights"]
        vectors = self._vectors([side for pair in sides for side in pair], ctx)
        return [
            float(1 / (1 + np.exp(-(weights[:-1] @ features(*pair, vectors) + weights[-1]))))
            if all(pair)
            else 0.0
            for pair in sides
        ]

    def fit(self, folder: Path, ctx: Context) -> None:
        """Learn from the gold evidence of ctx.train and write the model into `folder`."""
        import numpy as np
        from safetensors.numpy import save
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler
        from threadpoolctl import threadpool_limits

        both = halves(ctx.train)
        n = len(both)
        if n < 2:
            raise ClaimflowError(
                f"The trained scorer learns from claims with two or more gold answers, and here "
                f"are {n}. Name another file with scorer.train=FILE, or leave `trained` out."
            )
        vectors = self._vectors([side for pair in both for side in pair], ctx)
        first, second = (np.stack([unit(pair[i], vectors) for pair in both]) for i in (0, 1))
        likeness = first @ second.T
        np.fill_diagonal(likeness, -np.inf)
        shift = np.random.default_rng(ctx.seed_for("similarity")).integers(1, n, size=n)
        own = np.arange(n)
        partners = (own, likeness.argmax(axis=1), (own + shift) % n)
        x = np.stack(
            [
                features(both[i][0], both[j][1], vectors)
                for partner in partners
                for i, j in enumerate(partner)
            ]
        )
        y = np.repeat([1, 0, 0], n)
        with threadpool_limits(1):  # the order of a sum must not depend on free cores
            scaler = StandardScaler().fit(x)
            head = LogisticRegression(C=self.C, class_weight="balanced", max_iter=5000)
            head.fit(scaler.transform(x), y)
        weights = head.coef_[0] / scaler.scale_
        bias = head.intercept_ - weights @ scaler.mean_
        write_whole(folder / "similarity.safetensors", save({"weights": np.append(weights, bias)}))

    def _vectors(self, sides: list[list[str]], ctx: Context) -> dict[str, np.ndarray]:
        """The vector of each text; every text is encoded once."""
        texts = sorted({text for side in sides for text in side})
        if not texts:
            return {}
        vectors = self.encoder.encode(texts, ctx, progress="encode evidence").astype("float64")
        return dict(zip(texts, vectors, strict=True))


def features(first: list[str], second: list[str], vectors: dict[str, np.ndarray]) -> np.ndarray:
    """What the regression sees of two collections of texts, neither of them empty."""
    import numpy as np

    a, b = (np.stack([vectors[text] for text in side]) for side in (first, second))
    u, v, cosines = a.mean(axis=0), b.mean(axis=0), a @ b.T
    cosine = u @ v / (np.linalg.norm(u) * np.linalg.norm(v))
    means = [cosine, cosines.max(axis=0).mean(), cosines.max(axis=1).mean()]
    return np.concatenate([np.abs(u - v), u * v, means])


def unit(texts: list[str], vectors: dict[str, np.ndarray]) -> np.ndarray:
    """The mean vector of a collection, of length 1."""
    import numpy as np

    mean = np.mean([vectors[text] for text in texts], axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def halves(claims: list[Claim]) -> list[tuple[list[str], list[str]]]:
    """The gold evidence of each claim with two or more answers, dealt out in turn to two halves."""
    found = []
    for claim in claims:
        texts = [f"{question} {answer}" for question, answer in gold_pairs(claim)]
        if len(texts) > 1:
            found.append((texts[::2], texts[1::2]))
    return found
