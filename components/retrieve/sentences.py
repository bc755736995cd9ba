"""Dense retrieval by the best sentence of a passage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from components.cache import key_of
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
        every = [part for text in parts for part in text]
        # By their content: where sentences end is not the encoder's, whose vectors are kept.
        return self.encoder.passages(key_of("sentences", every), every, ctx), first

    def compare(self, index: Any, vectors: np.ndarray) -> Iterable[np.ndarray]:
        import numpy as np

        by_sentence, first = index
        for found in super().compare(by_sentence, vectors):
            yield np.maximum.reduceat(found, first)
