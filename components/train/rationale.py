"""Rationales (SciFact): which sentences of an abstract are the evidence?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

import msgspec

from components.errors import ClaimflowError
from components.records import Case, Claim, Document
from components.score.base import Measure
from components.step import Context
from components.train.entail import NONE, Labelled, annotated
from components.train.pairs import Candidates, CrossEncoder, PairTask, Trained, corpus, split
from components.train.trainer import Row

OUTPUTS = ("none", "rationale")


@dataclasses.dataclass(kw_only=True)
class Rationale(PairTask):
    """A cross-encoder that reads a claim with one sentence and says whether it is a rationale
    (Wadden et al. 2020, section 5): learned from the sentences of the abstracts that are marked as
    evidence, both labels alike in the loss.

    The sentences of a finding become those above the threshold that gave the highest F1 on the
    claims held out, the best `most` of them, best first; the best one in any case.
    """

    reads: ClassVar = ("claim", "documents", "findings")
    writes: ClassVar = ("findings",)
    learns: ClassVar = ("claim", "documents")
    unlearned: ClassVar = ("most",)
    task: ClassVar = "rationale"
    does: ClassVar = "Says whether a sentence of an abstract is evidence on a claim."
    outputs: ClassVar = OUTPUTS

    most: int = 3

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        from transformers import set_seed

        cases = ctx.cases(self)
        documents = corpus(cases)
        learned = [
            Candidates(claim=case.claim, docs=[], scores=[])
            for case in cases
            if annotated(case.claim, documents)
        ]
        seed = ctx.seed_for(self.task)
        set_seed(seed)
        kept, held = split(learned, self.trainer, seed)
        if not kept or not held:
            raise ClaimflowError(
                f"{len(learned)} training claims have sentences that are marked as evidence, too "
                "few: give more, or a data set that has such marks, as dataset=scifact."
            )
        encoder = self.encoder()
        pairs = [annotated(learned[i].claim, documents, joined=False) for i in kept]
        tested = [annotated(learned[i].claim, documents, joined=False) for i in held]

        def rows(found: list[list[Labelled]]) -> list[Row]:
            return [
                encoder.row([(claim, text)], int(label != NONE))
                for one in found
                for claim, text, label in one
            ]

        learned_rows = rows(pairs)
        key = ctx.fit_key(self)
        trained = self.learn(
            encoder,
            [learned_rows] * self.epochs,
            rows(tested),
            folder,
            ctx,
            seed=seed,
            key=key,
        )
        chances = [self.chances(encoder, [pair[:2] for pair in one]) for one in tested]
        gold = [[pair[2] != NONE for pair in one] for one in tested]
        trained.threshold = max(
            (n / 100 for n in range(5, 96)), key=lambda t: f1(chances, gold, t).value
        )
        trained.held_out = {
            "f1 of sentences": f1(chances, gold, trained.threshold, draws=1000),
            "f1 of sentences at .5": f1(chances, gold, 0.5, draws=1000),
        }
        data: dict[str, object] = {
            "trained on": f"{len(pairs)} claims, {len(learned_rows)} sentences",
            "held out": f"{len(tested)} claims, seed {seed}",
        }
        self.finish(trained, folder, ctx, key, data)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        encoder, trained = self.opened(ctx)
        for case in cases:
            documents = {document.id: document for document in case.documents}
            case.findings = [
                msgspec.structs.replace(
                    one, sentences=self.chosen(case.claim, documents[one.doc], encoder, trained)
                )
                if one.label is not None
                else one
                for one in case.findings
            ]
        return cases

    def chosen(
        self, claim: Claim, document: Document, encoder: CrossEncoder, trained: Trained
    ) -> list[int]:
        """The sentences of an abstract that are its rationale, best first."""
        chances = self.chances(encoder, [(claim.text, text) for text in document.sentences])
        order = sorted(range(len(chances)), key=lambda n: -chances[n])[: self.most]
        return [n for n in order if chances[n] > trained.threshold] or order[:1]

    def chances(self, encoder: CrossEncoder, pairs: list[tuple[str, str]]) -> list[float]:
        """The probability that each sentence is a rationale, to six decimals."""
        import numpy as np

        logits = encoder.scores(pairs).astype(np.float64)
        found = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        return [round(float(x), 6) for x in found]


def f1(
    chances: list[list[float]], gold: list[list[bool]], threshold: float, draws: int = 1
) -> Measure:
    """F1 of sentences over all claims, with its 95 % interval from `draws` resamples."""
    from components.score import bootstrap

    right = [
        sum(c > threshold and g for c, g in zip(*one, strict=True))
        for one in zip(chances, gold, strict=True)
    ]
    said = [sum(c > threshold for c in one) for one in chances]
    known = [sum(one) for one in gold]
    both = bootstrap.harmonic(bootstrap.ratio(right, said), bootstrap.ratio(right, known))
    return bootstrap.measure(both, bootstrap.resamples(len(gold), draws, 13))
