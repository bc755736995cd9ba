"""Fusion: several rankings of the same passages to one."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Hit
from components.retrieve.search import Ranker, get_hits, per_query, put_hits
from components.step import Context


@dataclasses.dataclass(kw_only=True)
class Fuse(Ranker):
    """Base of fusers: a passage's score for a query is the sum of what each ranking gives it.

    of: the fields of the rankings. depth: hits of each that count (None: all). k: hits a query,
    at most. Ties stand in the order of the best rank of the passages, then of their ids.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("into", "of")  # what stands in `of` counts by its content
    of: list[str]
    depth: int | None = None
    k: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth is not None and self.depth < 1:
            raise ClaimflowError(f"{type(self).__name__} needs a depth of at least 1, or null.")

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.of)

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        """What each hit of one query gets from the ranking with this index."""
        raise NotImplementedError

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            rankings = [per_query(get_hits(case, field)) for field in self.of]
            fused = []
            for query in sorted({query for ranking in rankings for query in ranking}):
                fused += self._fuse([ranking.get(query, [])[: self.depth] for ranking in rankings])
            put_hits(case, self.into, fused)
        return cases

    def _fuse(self, rankings: list[list[Hit]]) -> list[Hit]:
        credits: dict[str, list[float]] = {}
        best: dict[str, tuple[int, Hit]] = {}
        for index, hits in enumerate(rankings):
            for rank, (hit, credit) in enumerate(
                zip(hits, self.credit(index, hits), strict=True), 1
            ):
                credits.setdefault(hit.passage, []).append(credit)
                known = best.get(hit.passage)
                if known is None or rank < known[0]:
                    best[hit.passage] = (rank, hit)
        # fsum: the sum does not depend on the order of the rankings.
        scores = {passage: math.fsum(parts) for passage, parts in credits.items()}
        order = sorted(scores, key=lambda p: (-scores[p], best[p][0], p))[: self.k]
        return [
            Hit(passage=p, doc=best[p][1].doc, score=scores[p], query=best[p][1].query)
            for p in order
        ]


@dataclasses.dataclass(kw_only=True)
class Rrf(Fuse):
    """Reciprocal rank fusion: the sum of 1 / (constant + rank) (Cormack et al. 2009)."""

    constant: float = 60

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        return [1 / (self.constant + rank) for rank in range(1, len(hits) + 1)]


@dataclasses.dataclass(kw_only=True)
class Weighted(Fuse):
    """Weighted sum of scores, each ranking's scaled for a query to 0 (its last) to 1 (its first).

    weights: one for each ranking. A passage that a ranking lacks gets 0 from it.
    """

    weights: list[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.weights) != len(self.of):
            raise ClaimflowError(
                f"{len(self.weights)} weights for {len(self.of)} rankings: give one for each."
            )

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        return [self.weights[ranking] * value for value in min_max([hit.score for hit in hits])]


def min_max(scores: list[float]) -> list[float]:
    """Scores scaled to 0…1; all 1 where they are equal."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if low == high:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]
