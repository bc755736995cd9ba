"""Approximate dense retrieval by a graph of near neighbours."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.retrieve.dense import Dense
from components.step import Context

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class Hnsw(Dense):
    """Hierarchical navigable small world graphs (Malkov and Yashunin 2018), by FAISS.

    neighbours: links of a passage in the graph (M). ef_construction, ef_search: candidates kept
    while the graph is built and searched; more find more of the true neighbours. The graph is
    built by one thread, so that it is the same each time, and kept in the cache.
    """

    neighbours: int = 32
    ef_construction: int = 200
    ef_search: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.neighbours, self.ef_construction, self.ef_search) < 2:
            raise ClaimflowError(
                "Hnsw needs at least 2 of neighbours, ef_construction and ef_search."
            )

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import faiss

        def build(folder: Path) -> None:
            vectors = self.encoder.passages(store, texts, ctx)
            metric = faiss.METRIC_INNER_PRODUCT if self.metric == "dot" else faiss.METRIC_L2
            index = faiss.IndexHNSWFlat(vectors.shape[1], self.neighbours, metric)
            index.hnsw.efConstruction = self.ef_construction
            faiss.omp_set_num_threads(1)
            index.add(vectors)
            faiss.write_index(index, str(folder / "hnsw.faiss"))

        kept = ctx.cache.artifact(self.index_key(store, "ef_search"), build)
        index: Any = faiss.read_index(str(Path(kept.path) / "hnsw.faiss"))
        index.hnsw.efSearch = self.ef_search
        return index

    def compare(self, index: Any, vectors: np.ndarray) -> Iterator[np.ndarray]:
        import faiss
        import numpy as np

        k = min(self.k, index.ntotal)
        faiss.omp_set_num_threads(1)
        distances, found = index.search(vectors, k)
        if self.metric == "l2":
            distances = -np.sqrt(np.maximum(distances, 0))
        for near, values in zip(found, distances, strict=True):
            scores = np.full(index.ntotal, -np.inf)
            scores[near[near >= 0]] = values[near >= 0]
            yield scores
