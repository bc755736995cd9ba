"""A sentence-transformers model in memory: texts to vectors, on the CPU or a CUDA device.

Texts of like length are encoded together, so that little is padding; a batch holds so many tokens,
not so many texts.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError

if TYPE_CHECKING:
    import numpy as np

DEVICES = ("cpu", "cuda")
DTYPES = ("float32", "bfloat16", "float16")
POOLINGS = ("mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")

# Padded tokens a batch. On a CPU what lies in a core's cache is fast, and half the bytes lie there
# twice; a GPU wants to be filled. Part of the code, as the last bit of a vector depends on it.
_BATCH_TOKENS = {"cpu": 1024, "cuda": 65_536}


class Forward:
    """A model, loaded. Threads may share it.

    device: "cpu" or "cuda". dtype: of the weights; "float32" is exact, "bfloat16" fast where the
    processor multiplies it (AMX, AVX-512 BF16, a GPU), "float16" for GPUs. pooling: one of
    POOLINGS in place of the folder's own.
    """

    def __init__(
        self,
        folder: Path,
        device: str = "cpu",
        dtype: str = "float32",
        pooling: str | None = None,
    ) -> None:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        if device == "cuda" and not torch.cuda.is_available():
            raise ClaimflowError("No CUDA device is here for the encoder: set device to cpu.")
        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        self.model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        if pooling:
            from sentence_transformers.sentence_transformer.modules import Pooling

            parts = dict(self.model.named_children())
            for name, part in parts.items():
                if isinstance(part, Pooling):
                    parts[name] = Pooling(part.embedding_dimension, pooling)
            self.model = SentenceTransformer(modules=list(parts.values()), device=device)
        self.model.eval()
        self.model.to(getattr(torch, dtype))
        self.device = device
        # None of a model that marks places in another way, and takes a text of any length.
        config = getattr(self.model[0], "config", None)
        self.longest = getattr(config, "max_position_embeddings", None)
        self.folder = folder
        self.dimensions = self.model.get_embedding_dimension() or 0
        self.batch_tokens = _BATCH_TOKENS[device] * (2 if device == "cpu" and "16" in dtype else 1)
        self._lock = threading.Lock()  # the tokeniser keeps its truncation length as state

    def encode(
        self, texts: list[str], max_length: int, threads: int = 1, progress: str | None = None
    ) -> np.ndarray:
        """Vectors of texts, as the model gives them: (texts, dimensions), float32.

        threads: batches at a time on a CPU. progress: name of a bar that is shown after 2 s.
        """
        import numpy as np
        import torch
        from tqdm import tqdm

        tokens = self.tokens(texts, max_length)
        lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
        order = np.argsort(-lengths, kind="stable")
        ids = itertools.chain.from_iterable(tokens[i] for i in order.tolist())
        flat = np.fromiter(ids, np.int64, int(lengths.sum()))
        ends = np.cumsum(lengths[order])
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)

        def batch(rows: slice) -> int:
            sizes = lengths[order[rows]]
            first = int(ends[rows.start] - sizes[0])
            vectors[order[rows]] = self._vectors(flat[first : int(ends[rows.stop - 1])], sizes)
            return len(sizes)

        bar = tqdm(
            total=len(texts),
            desc=progress,
            delay=2,
            leave=False,
            disable=None if progress else True,
        )
        with bar:
            batches = _batches(lengths[order].tolist(), self.batch_tokens)
            if self.device == "cpu":
                with ThreadPoolExecutor(threads, "encoder", torch.set_num_threads, (1,)) as pool:
                    for done in pool.map(batch, batches):
                        bar.update(done)
            else:
                for rows in batches:
                    bar.update(batch(rows))
        return vectors

    def tokens(self, texts: list[str], max_length: int) -> list[list[int]]:
        """Token ids of each text, special tokens included, cut at `max_length`. Raises
        ClaimflowError where that is more than the model has places for."""
        if not texts:
            return []
        if self.longest and max_length > self.longest:
            raise ClaimflowError(
                f"max_length={max_length} of the encoder {self.folder.name} is wrong: it takes "
                f"{self.longest} tokens, no more."
            )
        tokenizer: Any = self.model.tokenizer
        with self._lock:
            backend = getattr(tokenizer, "backend_tokenizer", None)
            if backend is None:  # written in Python
                return tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]
            backend.no_padding()
            backend.enable_truncation(max_length)
            return [found.ids for found in backend.encode_batch_fast(texts)]

    def token_vectors(self, texts: list[str], max_length: int) -> list[np.ndarray]:
        """For each text the vectors of its tokens: (tokens, dimensions), float32."""
        import numpy as np
        import torch

        tokens = self.tokens(texts, max_length)
        order = sorted(range(len(texts)), key=lambda i: (-len(tokens[i]), i))
        found: list[Any] = [None] * len(texts)
        for rows in _batches([len(tokens[i]) for i in order], self.batch_tokens):
            some = order[rows]
            sizes = np.array([len(tokens[i]) for i in some])
            flat = np.fromiter(itertools.chain.from_iterable(tokens[i] for i in some), np.int64)
            features = self._features(flat, sizes)
            with torch.inference_mode():
                vectors = self.model(dict(features))["token_embeddings"].float()
            masks = features["attention_mask"].bool()
            for i, part, mask in zip(some, vectors, masks, strict=True):
                found[i] = part[mask].cpu().numpy()
        return found

    def _vectors(self, flat: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Vectors of the texts whose tokens stand one after the other in `flat`."""
        import torch

        with torch.inference_mode():
            out = self.model(self._features(flat, sizes))
            return out["sentence_embedding"].float().cpu().numpy()

    def _features(self, flat: np.ndarray, sizes: np.ndarray) -> dict[str, Any]:
        """The model's input: tokens padded to the longest text, and which of them are real."""
        import numpy as np
        import torch

        tokenizer: Any = self.model.tokenizer
        mask = np.arange(sizes.max()) < sizes[:, None]
        if tokenizer.padding_side == "left":
            mask = mask[:, ::-1].copy()
        ids = np.full(mask.shape, tokenizer.pad_token_id or 0, np.int64)
        ids[mask] = flat
        return {
            "input_ids": torch.from_numpy(ids).to(self.device),
            "attention_mask": torch.from_numpy(mask.astype(np.int64)).to(self.device),
        }


def _batches(lengths: list[int], tokens: int) -> Iterator[slice]:
    """Slices of texts, longest first, so that the size of a batch is known from its first."""
    at = 0
    while at < len(lengths):
        size = max(1, tokens // max(1, lengths[at]))
        yield slice(at, min(at + size, len(lengths)))
        at += size
