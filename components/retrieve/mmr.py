"""Maximal marginal relevance: hits that are relevant and unlike those before them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from components.errors import ClaimflowError
from components.numbers import check_number
from components.records import Case, Hit
from components.retrieve.encoder import Encoder
from components.retrieve.fuse import min_max
from components.retrieve.search import Ranker, by_store, per_query, put_hits
from components.step import Context

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class Mmr(Ranker):
    """Re-order the first hits of each query by maximal marginal relevance (Carbonell and
    Goldstein 1998).

    The next hit is the one with the highest balance · relevance − (1 − balance) · the highest
    cosine with a hit chosen before. k are chosen among the first `fetch`; the others follow in
    their order. Hits keep their scores. CTU AIC: k 10, fetch 40, balance .7.

    scale: bring the scores of the fetched hits to 0…1 first, so that those of any retriever
    balance the cosine; False takes them as they are, for dense retrieval.
    """

    reads: ClassVar = ("hits", "passages")
    encoder: Encoder
    k: int = 10
    fetch: int = 40
    balance: float = 0.7
    scale: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch < self.k:
            raise ClaimflowError(f"Mmr can't choose k={self.k} of fetch={self.fetch} hits.")
        check_number(self, "balance", 0, 1)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for store, group in by_store(cases):
            passages = group[0].passages
            if not passages:
                for case in group:
                    put_hits(case, self.into, [])
                continue
            row = {passage.id: i for i, passage in enumerate(passages)}
            vectors = self.encoder.passages(store, [p.text for p in passages], ctx)
            for case in group:
                ordered: list[Hit] = []
                for hits in per_query(case.hits).values():
                    head = hits[: self.fetch]
                    chosen = self._choose(head, vectors[[row[hit.passage] for hit in head]])
                    behind = set(range(len(head))) - set(chosen)
                    ordered += [head[i] for i in [*chosen, *sorted(behind)]] + hits[self.fetch :]
                put_hits(case, self.into, ordered)
        return cases

    def _choose(self, hits: list[Hit], vectors: np.ndarray) -> list[int]:
        import numpy as np

        scores = [hit.score for hit in hits]
        relevance = np.array(min_max(scores) if self.scale else scores)
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        cosine = unit @ unit.T
        chosen: list[int] = []
        likeness = np.zeros(len(hits))  # to the likest chosen; none is chosen yet
        left = np.ones(len(hits), dtype=bool)
        while left.any() and len(chosen) < self.k:
            value = np.round(self.balance * relevance - (1 - self.balance) * likeness, 6)
            best = int(np.argmax(np.where(left, value, -np.inf)))
            likeness = cosine[best] if not chosen else np.maximum(likeness, cosine[best])
            left[best] = False
            chosen.append(best)
        return chosen
