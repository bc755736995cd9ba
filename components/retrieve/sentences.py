"""Dense retrieval by the best sentence of a passage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.retrieve.dense import Dense
from components.step import Context
from components.text import sentences

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class SentenceMax(Dense):
    """A passage scores as the sentence in it that is nearest to the query (MaxP, Dai and Callan
    2019, with sentences in place of windows).

    One vector blurs a long passage, and an encoder cuts it off; made to be fused with `Dense`.
    Sentences are those of NLTK's Punkt.
    """

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        import numpy as np

        parts = sentences(texts)
        first = np.cumsum([0, *map(len, parts)])[:-1]
        vectors = self.encoder.passages(
            f"sentences {store}", [part for text in parts for part in text], ctx
        )
        return vectors, first

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        vectors, first = index
        for query in self.encoder.queries(queries, ctx):
            yield np.maximum.reduceat(vectors @ query, first)
