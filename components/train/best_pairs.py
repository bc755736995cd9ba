"""Which pairs of question and answer stay: a cross-encoder that learned from corrupted ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from components.cache import key_of
from components.errors import ClaimflowError
from components.reason.tuned import gold_pairs
from components.records import Case, Claim
from components.score.base import Measure
from components.step import Context, identity
from components.train.corruptions import Corruption, Corruptions, Triple
from components.train.pairs import CrossEncoder, Pair, PairTask
from components.train.trainer import Row

if TYPE_CHECKING:
    import numpy as np

OUTPUTS = ("corrupted", "gold")


@dataclasses.dataclass(kw_only=True)
class TrainedBestPairs(PairTask):
    """Only the `k` pairs that fit the claim best, best first, by the probability that claim,
    question and answer are a gold triple (the re-ranker of the baseline of AVeriTeC 2024).

    It learns to tell the gold questions and answers of the training claims from those that
    `corruptions` makes of them. Both labels weigh alike in the loss, so that few positives don't
    drown. A claim of the held-out part is corrupted with its like alone.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("evidence",)
    unlearned: ClassVar = ("k",)
    task: ClassVar = "best_pairs"
    does: ClassVar = "Scores how well a question with its answer fits a claim."
    outputs: ClassVar = OUTPUTS

    corruptions: Corruptions = dataclasses.field(default_factory=Corruptions)
    k: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise ClaimflowError(f"TrainedBestPairs needs a k of at least 1, not {self.k}.")

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        from transformers import set_seed

        seed = ctx.seed_for(self.task)
        set_seed(seed)
        learned = [claim for claim in train if claim.questions]
        parts = self.trainer.split([str(claim.label) for claim in learned], seed)
        kept, held = ([t for i in part for t in triples(learned[i])] for part in parts)
        if len(kept) < 2 or len(held) < 2:
            raise ClaimflowError(
                f"{len(learned)} training claims have gold questions and answers; that leaves "
                f"{len(kept)} of these to learn from and {len(held)} held out: give more, or name "
                "a split that has them with dataset.train_split=…"
            )
        drawn, artifact = self.corruptions.kept(kept, self.epochs, seed, ctx.cache)
        against = self.corruptions.sample(held, 1, seed)
        encoder = self.encoder()
        passes = [
            rows(encoder, kept, [negative for negative in drawn if negative.step == step])
            for step in range(self.epochs)
        ]
        key = key_of(identity(self), artifact.digest, seed)
        trained = self.learn(
            encoder,
            passes,
            rows(encoder, held, against),
            folder,
            ctx,
            seed=seed,
            key=key,
        )
        trained.negatives = artifact.digest
        trained.held_out = {
            "hits_at_1 among its corruptions": hits(encoder, held, against),
        }
        data: dict[str, object] = {
            "trained on": f"{len(kept)} gold questions and answers of {len(parts[0])} claims",
            "held out": f"{len(held)} of {len(parts[1])} claims, by label, seed {seed}",
        }
        self.finish(trained, folder, ctx, key, data)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        encoder, _ = self.opened(ctx)
        for case in cases:
            asked = [pair((case.claim.text, one.question, one.answer)) for one in case.evidence]
            scores = gold_odds(encoder, asked)
            order = sorted(range(len(asked)), key=lambda i: -scores[i])[: self.k]
            case.evidence = [case.evidence[i] for i in order]
        return cases


def triples(claim: Claim) -> list[Triple]:
    """The gold triples of a claim, one for each answer."""
    found = ((claim.text, question, answer) for question, answer in gold_pairs(claim))
    return list(dict.fromkeys(found))


def pair(triple: Triple) -> Pair:
    """What the encoder reads: the claim, then question and answer as one text."""
    claim, question, answer = triple
    return claim, f"{question} {answer}"


def rows(encoder: CrossEncoder, gold: list[Triple], against: list[Corruption]) -> list[Row]:
    """Gold triples and corrupted ones as training has them."""
    return [encoder.row([pair(triple)], 1) for triple in gold] + [
        encoder.row([pair(negative.triple)], 0) for negative in against
    ]


def gold_odds(encoder: CrossEncoder, pairs: list[Pair]) -> list[float]:
    """The log-odds that each is gold, to six decimals, so that equal ones keep their order."""
    logits: np.ndarray = encoder.scores(pairs)
    return [round(float(score), 6) for score in logits[:, 1] - logits[:, 0]]


def hits(encoder: CrossEncoder, gold: list[Triple], against: list[Corruption]) -> Measure:
    """The share of gold triples that stand above all their corruptions, with its 95 % interval,
    claims resampled."""
    from components.score import bootstrap

    odds = gold_odds(encoder, [pair(triple) for triple in gold])
    highest = [float("-inf")] * len(gold)
    others = gold_odds(encoder, [pair(negative.triple) for negative in against])
    for negative, score in zip(against, others, strict=True):
        highest[negative.of] = max(highest[negative.of], score)
    first: dict[str, int] = {}
    count: dict[str, int] = {}
    for (claim, _, _), score, other in zip(gold, odds, highest, strict=True):
        first[claim] = first.get(claim, 0) + (score > other)
        count[claim] = count.get(claim, 0) + 1
    shares = bootstrap.ratio(list(first.values()), list(count.values()))
    return bootstrap.measure(shares, bootstrap.resamples(len(count), 1000, 13))
