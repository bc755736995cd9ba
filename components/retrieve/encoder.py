"""Sentence encoders, and the embeddings of passages that lie in the cache."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components import assets
from components.cache import key_of
from components.errors import ClaimflowError
from components.step import Context, identity
from components.text import well_formed

if TYPE_CHECKING:
    import numpy as np

# Padded tokens a batch: what lies in a core's cache is fast. Part of the code, as the last bit of a
# vector depends on it.
_BATCH_TOKENS = 1024
_POOLINGS = ("mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@dataclasses.dataclass(kw_only=True)
class Encoder:
    """A sentence-transformers model: texts to vectors.

    model: a folder, or the name of one below `home()/models`. max_length: tokens of a text that
    count. query_prompt, passage_prompt: put before texts, as some models ask. normalise: vectors
    of length 1, so that a dot product is the cosine. pooling: how token vectors become one: mean,
    cls, max, lasttoken …; None: as the model's folder says. threads: batches encoded at a time,
    each on one core.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("threads",)

    model: Path
    max_length: int = 256
    query_prompt: str = ""
    passage_prompt: str = ""
    normalise: bool = True
    pooling: str | None = None
    threads: int = 2

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ClaimflowError(f"An encoder needs at least 1 thread, not {self.threads}.")
        if self.pooling is not None and self.pooling not in _POOLINGS:
            raise ClaimflowError(
                f"No pooling '{self.pooling}': choose {', '.join(_POOLINGS)}, or null."
            )
        self.model = assets.model(self.model)

    def encode(self, texts: list[str], ctx: Context, progress: str | None = None) -> np.ndarray:
        """Vectors of `texts`: (texts, dimensions), float32.

        The same texts give the same bytes, on however many threads; equal texts have equal
        vectors, and what else is encoded beside a text moves its vector by rounding alone (1e-6).
        Texts of like length are encoded together, so that little is padding. progress: what to
        call it in a progress bar, shown when it takes over two seconds.
        """
        import numpy as np
        import torch
        from tqdm import tqdm

        loaded = self._loaded(ctx)
        row = {text: i for i, text in enumerate(dict.fromkeys(map(well_formed, texts)))}
        tokens = loaded.tokens(list(row), self.max_length)
        vectors = np.zeros((len(row), loaded.dimensions), dtype=np.float32)

        def forward(batch: list[int]) -> int:
            vectors[batch] = loaded.forward([tokens[i] for i in batch])
            return len(batch)

        with (
            ThreadPoolExecutor(self.threads, "encoder", torch.set_num_threads, (1,)) as pool,
            tqdm(
                total=len(row),
                desc=progress,
                delay=2,
                leave=False,
                disable=None if progress else True,
            ) as bar,
        ):
            for done in pool.map(forward, _batches([len(ids) for ids in tokens])):
                bar.update(done)
        if self.normalise:
            vectors = _unit(vectors)
        return vectors[[row[well_formed(text)] for text in texts]]

    def queries(self, texts: list[str], ctx: Context) -> np.ndarray:
        """Vectors of queries."""
        return self.encode([self.query_prompt + text for text in texts], ctx)

    def passages(self, store: str, texts: list[str], ctx: Context) -> np.ndarray:
        """Vectors of the passages whose digest is `store`: memory-mapped, encoded once for all
        steps and runs."""
        import numpy as np

        def build(folder: Path) -> None:
            prompted = [self.passage_prompt + text for text in texts]
            np.save(folder / "vectors.npy", self.encode(prompted, ctx, progress="encode passages"))

        artifact = ctx.cache.artifact(key_of("embeddings", identity(self), store), build)
        return np.load(Path(artifact.path) / "vectors.npy", mmap_mode="r")

    def mean_queries(self, texts: list[list[str]], ctx: Context) -> np.ndarray:
        """Vectors of queries that have several texts each: the means of those of the texts."""
        import numpy as np

        if all(len(part) == 1 for part in texts):
            return self.queries([part[0] for part in texts], ctx)
        vectors = self.queries([text for part in texts for text in part], ctx)
        ends = np.cumsum([len(part) for part in texts])[:-1]
        means = np.stack([part.mean(axis=0) for part in np.split(vectors, ends)])
        return _unit(means) if self.normalise else means

    def token_vectors(self, texts: list[str], ctx: Context) -> list[np.ndarray]:
        """For each text the vectors of its tokens, of length 1: (tokens, dimensions)."""
        loaded = self._loaded(ctx)
        tokens = loaded.tokens([well_formed(text) for text in texts], self.max_length)
        vectors: list[Any] = [None] * len(texts)
        for batch in _batches([len(ids) for ids in tokens]):
            for i, found in zip(
                batch, loaded.token_vectors([tokens[i] for i in batch]), strict=True
            ):
                vectors[i] = _unit(found)
        return vectors

    def _loaded(self, ctx: Context) -> _Loaded:
        key = key_of("encoder", identity(self.model), self.pooling)
        loaded: _Loaded = ctx.loaded(key, lambda: _Loaded(self.model, self.pooling))
        return loaded


class _Loaded:
    """A model in memory. Threads may share it."""

    def __init__(self, folder: Path, pooling: str | None) -> None:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self.model = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
        if pooling:
            from sentence_transformers.sentence_transformer.modules import Pooling

            parts = dict(self.model.named_children())
            for name, part in parts.items():
                if isinstance(part, Pooling):
                    parts[name] = Pooling(part.embedding_dimension, pooling)
            self.model = SentenceTransformer(modules=list(parts.values()), device="cpu")
        self.model.eval()
        self.dimensions = self.model.get_embedding_dimension() or 0
        self._lock = threading.Lock()  # the tokeniser keeps its truncation length as state

    def tokens(self, texts: list[str], max_length: int) -> list[list[int]]:
        if not texts:
            return []
        with self._lock:
            return self.model.tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]

    def forward(self, tokens: list[list[int]]) -> np.ndarray:
        import torch

        features: Any = self.model.tokenizer.pad({"input_ids": tokens}, return_tensors="pt")
        with torch.inference_mode():
            return self.model(dict(features))["sentence_embedding"].float().numpy()

    def token_vectors(self, tokens: list[list[int]]) -> list[np.ndarray]:
        import torch

        features: Any = self.model.tokenizer.pad({"input_ids": tokens}, return_tensors="pt")
        with torch.inference_mode():
            vectors = self.model(dict(features))["token_embeddings"].float()
        masks = features["attention_mask"].bool()
        return [found[mask].numpy() for found, mask in zip(vectors, masks, strict=True)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors at length 1."""
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _batches(lengths: list[int]) -> Iterator[list[int]]:
    """Positions in batches, longest first, so that the size of a batch is known from its first."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    at = 0
    while at < len(order):
        size = max(1, _BATCH_TOKENS // max(1, lengths[order[at]]))
        yield order[at : at + size]
        at += size
