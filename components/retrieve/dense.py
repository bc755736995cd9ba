"""Dense retrieval: exact search by the vectors of a sentence encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from components.retrieve.encoder import Encoder
from components.retrieve.search import Search
from components.step import Context

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class Dense(Search):
    """Every passage compared with the query by dot product (cosine, if the encoder normalises)."""

    encoder: Encoder

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        return self.encoder.passages(store, texts, ctx)

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterable[np.ndarray]:
        return self.encoder.queries(queries, ctx) @ index.T
