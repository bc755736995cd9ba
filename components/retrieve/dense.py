"""Dense retrieval: exact search by the vectors of a sentence encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.retrieve.encoder import Encoder
from components.retrieve.search import Search
from components.step import Context

if TYPE_CHECKING:
    import numpy as np

_METRICS = ("dot", "l2")


@dataclasses.dataclass(kw_only=True)
class Dense(Search):
    """Every passage compared with the query.

    metric: "dot" (dot product; the cosine, if the encoder normalises) or "l2" (minus the Euclidean
    distance, as InFact searches). together: the query's vector is the mean of its texts' (HerO).
    """

    encoder: Encoder
    metric: str = "dot"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric not in _METRICS:
            raise ClaimflowError(f"No metric '{self.metric}': choose {' or '.join(_METRICS)}.")

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        return self.encoder.passages(store, texts, ctx)

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterable[np.ndarray]:
        return self.compare(index, self.encoder.queries(queries, ctx))

    def joint_scores(
        self, index: Any, queries: list[list[str]], ctx: Context
    ) -> Iterable[np.ndarray]:
        return self.compare(index, self.encoder.mean_queries(queries, ctx))

    def compare(self, index: Any, vectors: np.ndarray) -> Iterable[np.ndarray]:
        """For each query vector a score for every passage."""
        import numpy as np

        products: np.ndarray = vectors @ index.T
        if self.metric == "dot":
            return products
        lengths = (vectors**2).sum(axis=1)[:, None] + (index**2).sum(axis=1)
        return -np.sqrt(np.maximum(lengths - 2 * products, 0))
