"""Rerankers: a cross-encoder that orders what a retriever found."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from components.cache import key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Claim, Document, encode
from components.step import Context, identity
from components.train.negatives import Negatives, Positives
from components.train.pairs import (
    ABOUT,
    CURVE,
    Candidates,
    CrossEncoder,
    PairTask,
    Trained,
    about,
    document_text,
    split,
)
from components.train.trainer import Row, tune

TASK = "reranker"


@dataclasses.dataclass(kw_only=True)
class Reranker(PairTask):
    """Learns which of 1 + negatives.ratio documents is relevant, by a softmax over their scores
    (listwise, with one positive at a time): pairs judged one by one collapse to "no".

    The positives are a claim's relevant documents. Before, for `warm` passes, it learns from the
    documents themselves: which one has a sentence that was taken out of it (the inverse cloze
    task, Lee et al. 2019), here the last one, which says what was found.
    """

    negatives: Negatives = dataclasses.field(default_factory=lambda: Negatives(ratio=7))

    def fit(
        self,
        train: list[Candidates],
        cloze: list[Candidates],
        documents: dict[str, Document],
        folder: Path,
        ctx: Context,
    ) -> Trained:
        """Learn and write the model into `folder`. cloze: what `cloze_claims` gave, searched."""
        from transformers import set_seed

        seed = ctx.seed_for(TASK)
        set_seed(seed)
        learned = [one for one in train if one.claim.relevant]
        kept, held = split(learned, self.trainer, seed)
        if not kept or not held:
            raise ClaimflowError(f"{len(learned)} claims with relevant documents are too few.")
        trainer = self.trainer
        encoder = CrossEncoder(self.model, 1, trainer.max_length)
        size = 1 + self.negatives.ratio
        digests: list[str] = []

        def rows(found: list[Candidates], passes: int, without_last: bool) -> list[list[Row]]:
            """The groups of each pass."""
            positives = [
                Positives(
                    claim=one.claim.id,
                    count=len(one.claim.relevant),
                    gold=one.claim.relevant,
                    ranking=one.docs,
                )
                for one in found
            ]
            drawn, artifact = self.negatives.kept(
                positives, sorted(documents), passes, seed, ctx.cache
            )
            digests.append(artifact.digest)
            others: dict[tuple[str, int], list[str]] = {}
            for negative in drawn:
                others.setdefault((negative.claim, negative.step), []).append(negative.doc)
            made: list[list[Row]] = []
            for step in range(passes):
                made.append([])
                for one in found:
                    docs = others.get((one.claim.id, step), [])
                    for n, doc in enumerate(one.claim.relevant):
                        part = docs[n * (size - 1) : (n + 1) * (size - 1)]
                        if doc not in documents or len(part) < size - 1:
                            continue
                        texts = [text(doc, without_last), *(text(d, False) for d in part)]
                        pairs = [(one.claim.text, other) for other in texts]
                        made[-1].append(encoder.row(pairs, 0))
            return made

        def text(doc: str, without_last: bool) -> str:
            document = documents[doc]
            if not without_last:
                return document_text(document)
            return " ".join([*filter(None, [document.title]), *document.sentences[:-1]])

        passes = rows(cloze, self.warm, True) if cloze and self.warm else []
        passes += rows([learned[i] for i in kept], self.epochs, False)
        [judged] = rows([learned[i] for i in held], 1, False)
        model = self.wrap(encoder)
        checkpoints = ctx.cache.unfinished(key_of(identity(self), digests, seed))
        curve = tune(
            model,
            trainer.batches(passes, seed, packed=False),
            trainer.batches([judged], seed, packed=False),
            collate=encoder.batch,
            log_probabilities=lambda out: out.logits.float().view(-1, size).log_softmax(-1),
            weights=[1.0] * size,
            settings=trainer,
            rate=self.rate,
            epochs=len(passes),
            seed=seed,
            folder=checkpoints,
        )
        model.save_pretrained(folder)
        write_whole(folder / CURVE, encode(curve))
        trained = Trained(
            task=TASK,
            base=self.model.name,
            base_digest=identity(self.model),
            labels=["relevant"],
            max_length=trainer.max_length,
            negatives=digests[-2],
        )
        tested = [learned[i] for i in held]
        scored = self.scores(encoder, tested, documents)
        weight = best_weight(tested, scored)
        both = [summed(o.scores, new, weight) for o, new in zip(tested, scored, strict=True)]
        trained.held_out = {
            "weight": weight,
            "ndcg_at_10_first_stage": ndcg(tested, [one.scores for one in tested]),
            "ndcg_at_10": ndcg(tested, scored),
            "ndcg_at_10_sum": ndcg(tested, both),
        }
        write_whole(folder / ABOUT, encode(trained))
        shutil.rmtree(checkpoints, ignore_errors=True)
        return trained

    def load(self, folder: Path) -> CrossEncoder:
        """The encoder that training wrote into `folder`."""
        trained = about(folder, TASK, self.model)
        return CrossEncoder(self.model, 1, trained.max_length, folder)

    def scores(
        self, encoder: CrossEncoder, found: list[Candidates], documents: dict[str, Document]
    ) -> list[list[float]]:
        """A score for each candidate of each claim, higher is better."""
        pairs = [(one.claim.text, document_text(documents[d])) for one in found for d in one.docs]
        flat = iter(encoder.scores(pairs)[:, 0].tolist())
        return [[next(flat) for _ in one.docs] for one in found]


def cloze_claims(documents: list[Document]) -> list[Claim]:
    """The last sentence of each document as a claim that it is relevant for."""
    return [
        Claim(id=f"cloze {document.id}", text=document.sentences[-1], relevant=[document.id])
        for document in documents
        if len(document.sentences) > 2
    ]


def standardised(scores: list[float]) -> list[float]:
    """Scores of one claim, with mean 0 and deviation 1."""
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    return [float(x) for x in (values - values.mean()) / max(float(values.std()), 1e-12)]


def summed(first: list[float], second: list[float], weight: float) -> list[float]:
    """The sum of two scorings of the same documents; weight: of the second one, 0 to 1."""
    pairs = zip(standardised(first), standardised(second), strict=True)
    return [(1 - weight) * a + weight * b for a, b in pairs]


def best_weight(found: list[Candidates], scored: list[list[float]]) -> float:
    """The weight of the reranker, by tenths, with the highest nDCG@10 in the sum."""
    return max(
        (n / 10 for n in range(11)),
        key=lambda weight: ndcg(
            found,
            [summed(one.scores, new, weight) for one, new in zip(found, scored, strict=True)],
        ),
    )


def ndcg(found: list[Candidates], scored: list[list[float]], k: int = 10) -> float:
    """Mean nDCG@10 of the claims, relevant documents alike."""
    import math

    total = 0.0
    for one, scores in zip(found, scored, strict=True):
        order = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
        gain: Any = sum(
            1 / math.log2(place + 2)
            for place, i in enumerate(order)
            if one.docs[i] in one.claim.relevant
        )
        ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(one.claim.relevant))))
        total += gain / ideal if ideal else 0.0
    return total / len(found)
