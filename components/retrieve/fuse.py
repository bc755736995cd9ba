"""Fusion: several rankings of the same passages to one."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from components.errors import ClaimflowError
from components.numbers import check_number
from components.records import Case, Hit
from components.retrieve.search import Ranker, by_question, get_hits, per_query, put_hits
from components.step import Context


@dataclasses.dataclass(kw_only=True)
class Fuse(Ranker):
    """Base of fusers: a passage's score for a query is the sum of what each ranking gives it.

    of: the fields of the rankings. depth: hits of each that count for a query (None: all), or a
    list with one depth for each ranking. k: hits a query, at most. across: the rankings of all
    queries of one question are fused, and the hits are those of its first query; else each query
    has its own. pooled: with `across`, the hits of all queries are first one list for each ranking,
    by score, so that `depth` limits what a ranking gives in all (OldJoe, AVeriTeC 2025). Ties stand
    in the order of the best rank of the passages, then of their ids.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("into", "of")  # what stands in `of` counts by its content
    of: list[str]
    depth: int | list[int | None] | None = None
    k: int = 100
    across: bool = False
    pooled: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.pooled and not self.across:
            raise ClaimflowError(f"{name} pools the hits of several queries: say across=true, too.")
        if any(depth is not None and depth < 1 for depth in self._depths()):
            raise ClaimflowError(f"{name} needs a depth of at least 1, or null.")
        if len(self._depths()) != len(self.of):
            raise ClaimflowError(
                f"{name} has {len(self._depths())} depths for {len(self.of)} rankings: give one "
                "for each, or one number for all."
            )

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.of, "queries") if self.across else tuple(self.of)

    def _depths(self) -> list[int | None]:
        return self.depth if isinstance(self.depth, list) else [self.depth] * len(self.of)

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        """What each hit of one query gets from the ranking with this index."""
        raise NotImplementedError

    def joined(self, credits: list[float]) -> float:
        """The score of a passage that got these credits."""
        return math.fsum(credits)  # does not depend on the order of the rankings

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            rankings = [per_query(get_hits(case, field)) for field in self.of]
            asked = sorted({query for ranking in rankings for query in ranking})
            fused = []
            for queries in by_question(case.queries) if self.across else [[q] for q in asked]:
                parts = [
                    (index, hits[:depth])
                    for index, (ranking, depth) in enumerate(
                        zip(rankings, self._depths(), strict=True)
                    )
                    for hits in self._lists([ranking.get(query, []) for query in queries])
                ]
                fused += self._fuse(parts, queries[0])
            put_hits(case, self.into, fused)
        return cases

    def _lists(self, hits: list[list[Hit]]) -> list[list[Hit]]:
        """What one ranking has for the queries that are fused, each list by rank."""
        if not self.pooled:
            return hits
        return [sorted((hit for each in hits for hit in each), key=lambda hit: -hit.score)]

    def _fuse(self, rankings: list[tuple[int, list[Hit]]], query: int) -> list[Hit]:
        credits: dict[str, list[float]] = {}
        best: dict[str, tuple[int, Hit]] = {}
        for index, hits in rankings:
            for rank, (hit, credit) in enumerate(
                zip(hits, self.credit(index, hits), strict=True), 1
            ):
                credits.setdefault(hit.passage, []).append(credit)
                known = best.get(hit.passage)
                if known is None or rank < known[0]:
                    best[hit.passage] = (rank, hit)
        scores = {passage: self.joined(parts) for passage, parts in credits.items()}
        order = sorted(scores, key=lambda p: (-scores[p], best[p][0], p))[: self.k]
        return [Hit(passage=p, doc=best[p][1].doc, score=scores[p], query=query) for p in order]


@dataclasses.dataclass(kw_only=True)
class Rrf(Fuse):
    """Reciprocal rank fusion: the sum of 1 / (constant + rank) (Cormack et al. 2009).

    constant: 0 or more.
    """

    constant: float = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "constant", 0)

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        return [1 / (self.constant + rank) for rank in range(1, len(hits) + 1)]


@dataclasses.dataclass(kw_only=True)
class Weighted(Fuse):
    """Weighted sum of scores, each ranking's scaled for a query to 0 (its last) to 1 (its first).

    weights: one for each ranking, 0 or more, and not all 0. A passage that a ranking lacks gets 0
    from it.
    """

    weights: list[float]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.weights) != len(self.of):
            raise ClaimflowError(
                f"{len(self.weights)} weights for {len(self.of)} rankings: give one for each."
            )
        check_number(self, "weights", 0)
        if not any(self.weights):
            raise ClaimflowError(
                f"weights={self.weights} of Weighted is wrong: give one of them more than 0."
            )

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        return [self.weights[ranking] * value for value in min_max([hit.score for hit in hits])]


@dataclasses.dataclass(kw_only=True)
class Union(Fuse):
    """Every passage that one of the rankings has, by its best rank: the score is 1 / rank."""

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        return [1 / rank for rank in range(1, len(hits) + 1)]

    def joined(self, credits: list[float]) -> float:
        return max(credits)


@dataclasses.dataclass(kw_only=True)
class Concat(Union):
    """The first ranking as it is, then what only the second has, and so on.

    Scores fall from the number of rankings to 0: 1 / rank, and 1 for each ranking behind.
    """

    def credit(self, ranking: int, hits: list[Hit]) -> list[float]:
        behind = len(self.of) - 1 - ranking
        return [behind + 1 / rank for rank in range(1, len(hits) + 1)]


def min_max(scores: list[float]) -> list[float]:
    """Scores scaled to 0…1; all 1 where they are equal."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if low == high:
        return [1.0] * len(scores)
    return [(score - low) / (high - low) for score in scores]
