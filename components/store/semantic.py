"""Semantic chunking: passages end where the text turns to something else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from components.errors import ClaimflowError
from components.numbers import check_number
from components.records import Document
from components.retrieve.encoder import Encoder
from components.step import Context
from components.store.budget import CHARACTERS_PER_TOKEN
from components.store.chunk import Chunker, Piece

if TYPE_CHECKING:
    import numpy as np


@dataclasses.dataclass(kw_only=True)
class Semantic(Chunker):
    """Neighbouring sentences stay together as long as they are alike (SANCTUARY, AVeriTeC 2025,
    with chonkie's semantic chunker).

    A passage ends before a sentence whose cosine with the sentence before it is below
    `threshold`, unless it has less than `min_tokens` or `min_sentences` yet; and before one that
    would bring it above `max_tokens` (four characters a token). A longer sentence stands alone.
    threshold: -1 to 1; None: the lower quartile of the cosines in the same document.
    """

    encoder: Encoder
    threshold: float | None = None
    min_tokens: int = 30
    max_tokens: int = 140
    min_sentences: int = 2

    def __post_init__(self) -> None:
        check_number(self, "threshold", -1, 1)
        check_number(self, "min_tokens", 0)
        check_number(self, "min_sentences", 0)
        if self.max_tokens < max(1, self.min_tokens):
            raise ClaimflowError(
                f"chunker.max_tokens is {self.max_tokens}: give 1 or more, and no less than "
                f"min_tokens ({self.min_tokens})."
            )

    def pieces(self, documents: list[Document], ctx: Context) -> Iterator[list[Piece]]:
        texts = [sentence for document in documents for sentence in document.sentences]
        vectors = self.encoder.encode(texts, ctx, progress="encode sentences")
        at = 0
        for document in documents:
            end = at + len(document.sentences)
            yield self._cut(document.sentences, vectors[at:end])
            at = end

    def _cut(self, sentences: Sequence[str], vectors: np.ndarray) -> list[Piece]:
        import numpy as np

        if not sentences:
            return []
        unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        # Rounded: what stands beside a text in a batch moves the last bits of its vector.
        cosines = np.round((unit[1:] * unit[:-1]).sum(axis=1), 5)
        threshold = self.threshold
        if threshold is None:
            threshold = float(np.quantile(cosines, 0.25)) if len(cosines) else 0.0
        least = self.min_tokens * CHARACTERS_PER_TOKEN
        most = self.max_tokens * CHARACTERS_PER_TOKEN
        pieces, start, text = [], 0, sentences[0]
        for number, (sentence, cosine) in enumerate(zip(sentences[1:], cosines, strict=True), 1):
            turns = cosine < threshold
            enough = len(text) >= least and number - start >= self.min_sentences
            if (turns and enough) or len(text) + 1 + len(sentence) > most:
                pieces.append((start, text))
                start, text = number, sentence
            else:
                text = f"{text} {sentence}"
        return [*pieces, (start, text)]
