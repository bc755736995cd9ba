"""Rerankers: a cross-encoder that orders what a retriever found."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, ClassVar

from components.cache import key_of
from components.errors import ClaimflowError
from components.records import Case, Claim, Document, Hit
from components.retrieve.bm25 import Bm25s
from components.retrieve.search import Ranker, per_query, put_hits
from components.score.base import Measure
from components.step import Context, identity
from components.train.negatives import Negatives, Positives
from components.train.pairs import (
    Candidates,
    CrossEncoder,
    PairTask,
    Trained,
    candidates,
    corpus,
    document_text,
    log_softmax,
    split,
)
from components.train.trainer import Row


@dataclasses.dataclass(kw_only=True)
class Reranker(PairTask, Ranker):
    """Learns which of 1 + negatives.ratio documents is relevant, by a softmax over their scores
    (listwise, with one positive at a time): pairs judged one by one collapse to "no".

    The positives are a claim's relevant documents. Before, for `warm` passes, it learns from the
    documents themselves: which one has a sentence that was taken out of it (the inverse cloze
    task, Lee et al. 2019), here the last one, which says what was found.

    It scores the first `fetch` hits of each query anew and keeps the best `k`. alone: by its own
    score; otherwise by a sum with the score that the hit had, both standardised over the hits of
    the query, with the weight that gave the highest nDCG@10 on the claims held out.
    """

    reads: ClassVar = ("claim", "queries", "hits", "passages")
    learns: ClassVar = ("claim", "documents", "hits")
    unkeyed: ClassVar = ("into",)
    unlearned: ClassVar = ("alone", "fetch", "k")
    task: ClassVar = "reranker"
    does: ClassVar = "Scores how relevant a document is to a claim."
    outputs: ClassVar = ("relevant",)

    negatives: Negatives = dataclasses.field(default_factory=lambda: Negatives(ratio=7))
    alone: bool = False
    fetch: int = 100
    k: int = 100

    def __post_init__(self) -> None:
        PairTask.__post_init__(self)
        Ranker.__post_init__(self)
        if self.fetch < self.k:
            raise ClaimflowError(f"Reranker can't keep k={self.k} of fetch={self.fetch} hits.")

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        cases = ctx.cases(self)
        documents = corpus(cases)
        cloze = searched(cloze_claims(list(documents.values())), documents, ctx)
        found = [candidates(case) for case in cases]
        self.train(found, cloze if self.warm else [], documents, folder, ctx)

    def train(
        self,
        train: list[Candidates],
        cloze: list[Candidates],
        documents: dict[str, Document],
        folder: Path,
        ctx: Context,
    ) -> Trained:
        """Learn and write the model into `folder`. cloze: what `cloze_claims` gave, searched."""
        from transformers import set_seed

        seed = ctx.seed_for(self.task)
        set_seed(seed)
        learned = [one for one in train if one.claim.relevant]
        kept, held = split(learned, self.trainer, seed)
        encoder = self.encoder()
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

        tested = [learned[i] for i in held]
        passes = rows(cloze, self.warm, True) if cloze and self.warm else []
        passes += rows([learned[i] for i in kept], self.epochs, False)
        [groups] = rows(tested, 1, False)
        if not passes[-1] or not groups:
            raise ClaimflowError(
                f"{len(learned)} training claims have a relevant document; that leaves "
                f"{len(passes[-1])} to learn from and {len(groups)} held out, with "
                f"{size - 1} negatives each: give more, or a lower negatives.ratio."
            )
        key = key_of(identity(self), digests, seed)
        trained = self.learn(
            encoder,
            passes,
            groups,
            folder,
            ctx,
            seed=seed,
            key=key,
            weights=[1.0] * size,
            best="mean",
            log_probabilities=functools.partial(log_softmax, size=size),
        )
        trained.negatives = digests[-2]
        scored = self.scores(encoder, tested, documents)
        trained.weight = best_weight(tested, scored)
        both = sums(tested, scored, trained.weight)
        first = [one.scores for one in tested]
        trained.held_out = {
            "ndcg_at_10 of the first stage": ndcg_measure(tested, first),
            "ndcg_at_10 alone": ndcg_measure(tested, scored),
            f"ndcg_at_10 of the sum, weight {trained.weight}": ndcg_measure(tested, both),
        }
        data: dict[str, object] = {
            "trained on": f"{len(kept)} claims with relevant documents",
            "held out": f"{len(tested)} claims, with and without evidence alike, seed {seed}",
            "cloze claims": len(cloze),
        }
        self.finish(trained, folder, ctx, key, data)
        return trained

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        encoder, trained = self.opened(ctx)
        for case in cases:
            passages = {passage.id: passage.text for passage in case.passages}
            ordered: list[Hit] = []
            for query, found in per_query(case.hits).items():
                hits = found[: self.fetch]
                asked = case.queries[query].text
                new = encoder.scores([(asked, passages[hit.passage]) for hit in hits])[:, 0]
                scores = [float(x) for x in new]
                if not self.alone:
                    scores = summed([hit.score for hit in hits], scores, trained.weight)
                rounded = [round(score, 6) for score in scores]
                order = sorted(range(len(hits)), key=lambda i: -rounded[i])[: self.k]
                ordered += [
                    Hit(passage=hits[i].passage, doc=hits[i].doc, score=rounded[i], query=query)
                    for i in order
                ]
            put_hits(case, self.into, ordered)
        return cases

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


def searched(
    claims: list[Claim], documents: dict[str, Document], ctx: Context, k: int = 30
) -> list[Candidates]:
    """The first k documents for each claim, by BM25."""
    import numpy as np

    search, ids = Bm25s(), list(documents)
    texts = [document_text(document) for document in documents.values()]
    index = search.index(key_of("cloze", texts), texts, ctx)
    found = []
    for claim, scores in zip(
        claims, search.scores(index, [claim.text for claim in claims], ctx), strict=True
    ):
        best = [i for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]
        found.append(
            Candidates(
                claim=claim,
                docs=[ids[i] for i in best],
                scores=[float(scores[i]) for i in best],
            )
        )
    return found


def standardised(scores: list[float]) -> list[float]:
    """Scores of one claim, with mean 0 and deviation 1."""
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    return [float(x) for x in (values - values.mean()) / max(float(values.std()), 1e-12)]


def summed(first: list[float], second: list[float], weight: float) -> list[float]:
    """The sum of two scorings of the same documents; weight: of the second one, 0 to 1."""
    pairs = zip(standardised(first), standardised(second), strict=True)
    return [(1 - weight) * a + weight * b for a, b in pairs]


def sums(found: list[Candidates], scored: list[list[float]], weight: float) -> list[list[float]]:
    """`summed` of the first stage's scores and new ones, for each claim."""
    return [summed(one.scores, new, weight) for one, new in zip(found, scored, strict=True)]


def best_weight(found: list[Candidates], scored: list[list[float]]) -> float:
    """The weight of the reranker, by tenths, with the highest nDCG@10 in the sum."""
    tried = [n / 10 for n in range(11)]
    return max(tried, key=lambda weight: ndcg(found, sums(found, scored, weight)))


def ndcg(found: list[Candidates], scored: list[list[float]], k: int = 10) -> float:
    """Mean nDCG@10 of the claims, relevant documents alike."""
    gains = ndcgs(found, scored, k)
    return sum(gains) / len(gains)


def ndcg_measure(found: list[Candidates], scored: list[list[float]]) -> Measure:
    """The same with its 95 % interval, claims resampled."""
    from components.score import bootstrap

    weights = bootstrap.resamples(len(found), 1000, 13)
    return bootstrap.measure(bootstrap.mean(ndcgs(found, scored, 10)), weights)


def ndcgs(found: list[Candidates], scored: list[list[float]], k: int) -> list[float]:
    """nDCG@k of each claim."""
    import math

    values = []
    for one, scores in zip(found, scored, strict=True):
        order = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
        gain: Any = sum(
            1 / math.log2(place + 2)
            for place, i in enumerate(order)
            if one.docs[i] in one.claim.relevant
        )
        ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(one.claim.relevant))))
        values.append(gain / ideal if ideal else 0.0)
    return values
