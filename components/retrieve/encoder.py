"""Sentence encoders, and the embeddings of passages that lie in the cache."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from components import assets
from components.cache import key_of
from components.errors import ClaimflowError
from components.files import digest, write_whole
from components.numbers import check_number
from components.retrieve.forward import DEVICES, DTYPES, POOLINGS, Forward
from components.step import Context, identity
from components.text import well_formed

if TYPE_CHECKING:
    import numpy as np

# Passages that a kill can cost: a minute or two of a CPU, two seconds of a GPU. Part of the code,
# as the last bit of a vector depends on what it is encoded beside.
_PART = {"cpu": 2048, "cuda": 262_144}


@dataclasses.dataclass(kw_only=True)
class Encoder:
    """A sentence-transformers model: texts to vectors.

    model: a folder, or the name of one below `home()/models`. max_length: tokens of a text that
    count, 3 or more, as the first and the last are none of its own. query_prompt, passage_prompt:
    put before texts, as some models ask. normalise: vectors of length 1, so that a dot product is
    the cosine. pooling: how token vectors become one: mean, cls, max, lasttoken …; None: as the
    model's folder says. threads: batches encoded at a time, each on one core. device, dtype: where
    the model runs and in what precision, see `Forward`.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("threads",)

    model: Path
    max_length: int = 256
    query_prompt: str = ""
    passage_prompt: str = ""
    normalise: bool = True
    pooling: str | None = None
    threads: int = 2
    device: str = "cpu"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ClaimflowError(f"An encoder needs at least 1 thread, not {self.threads}.")
        check_number(self, "max_length", 3)
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise ClaimflowError(
                f"No pooling '{self.pooling}': choose {', '.join(POOLINGS)}, or null."
            )
        for name, known in (("device", DEVICES), ("dtype", DTYPES)):
            if (value := getattr(self, name)) not in known:
                raise ClaimflowError(f"No {name} '{value}': choose {' or '.join(known)}.")
        self.model = assets.model(self.model)

    def encode(self, texts: list[str], ctx: Context, progress: str | None = None) -> np.ndarray:
        """Vectors of `texts`: (texts, dimensions), float32.

        The same texts give the same bytes, on however many threads; equal texts have equal
        vectors, and what else is encoded beside a text moves its vector by rounding alone (1e-6).
        Texts of like length are encoded together, so that little is padding. progress: what to
        call it in a progress bar, shown when it takes over two seconds.
        """

        row = {text: i for i, text in enumerate(dict.fromkeys(map(well_formed, texts)))}
        vectors = self._loaded(ctx).encode(list(row), self.max_length, self.threads, progress)
        if self.normalise:
            vectors = _unit(vectors)
        return vectors[[row[well_formed(text)] for text in texts]]

    def queries(self, texts: list[str], ctx: Context) -> np.ndarray:
        """Vectors of queries."""
        return self.encode([self.query_prompt + text for text in texts], ctx)

    def passages(self, store: str, texts: list[str], ctx: Context) -> np.ndarray:
        """Vectors of the passages whose digest is `store`: memory-mapped, encoded once for all
        steps and runs. They are encoded part by part, and what is done outlives a kill."""
        import numpy as np

        key = key_of("embeddings", identity(self), store)

        def build(folder: Path) -> None:
            row = {text: i for i, text in enumerate(dict.fromkeys(map(well_formed, texts)))}
            vectors = np.concatenate(list(self._parts(list(row), key, ctx)))
            np.save(folder / "vectors.npy", vectors[[row[well_formed(text)] for text in texts]])
            shutil.rmtree(ctx.cache.unfinished(key))

        artifact = ctx.cache.artifact(key, build)
        return np.load(Path(artifact.path) / "vectors.npy", mmap_mode="r")

    def _parts(self, texts: list[str], key: str, ctx: Context) -> Iterator[np.ndarray]:
        """Vectors of passages without repeats, part by part. A part on disk is named by its digest:
        a damaged one is made anew."""
        import numpy as np

        size, kept = _PART[self.device], ctx.cache.unfinished(key)
        for at in range(0, max(1, len(texts)), size):
            for path in kept.glob(f"{at}-*"):
                data = path.read_bytes()
                if path.name == f"{at}-{digest(data)}":
                    break
            else:
                part = [self.passage_prompt + text for text in texts[at : at + size]]
                number = f" {at // size + 1}/{-(-len(texts) // size)}" if len(texts) > size else ""
                vectors = self.encode(part, ctx, progress=f"encode passages{number}")
                data = vectors.tobytes()
                if number:
                    write_whole(kept / f"{at}-{digest(data)}", data)
            yield np.frombuffer(data, np.float32).reshape(-1, self._loaded(ctx).dimensions)

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
        found = self._loaded(ctx).token_vectors(list(map(well_formed, texts)), self.max_length)
        return [_unit(vectors) for vectors in found]

    def _loaded(self, ctx: Context) -> Forward:
        key = key_of(__name__, identity(self.model), self.device, self.dtype, self.pooling)
        model: Forward = ctx.loaded(
            key, lambda: Forward(self.model, self.device, self.dtype, self.pooling), large=True
        )
        return model


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors at length 1."""
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
