"""Re-ranking: the first hits of each query scored anew, by models too slow for a whole store."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from components import assets
from components.cache import key_of
from components.errors import ClaimflowError
from components.numbers import check_number
from components.records import Case, Hit, Passage
from components.retrieve.encoder import Encoder
from components.retrieve.search import Ranker, by_question, by_store, per_query, put_hits
from components.step import Context, identity
from components.text import well_formed

if TYPE_CHECKING:
    import numpy as np


_BLOCK = 256  # texts whose token vectors are held


@dataclasses.dataclass(kw_only=True)
class Rerank(Ranker):
    """Base of re-rankers: the first `fetch` hits of each query by new scores, the best `k` kept.

    Equal scores (to six decimals) keep their order.
    """

    reads: ClassVar[tuple[str, ...]] = ("queries", "hits", "passages")
    fetch: int = 100
    k: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch < self.k:
            raise ClaimflowError(
                f"{type(self).__name__} can't keep k={self.k} of fetch={self.fetch} hits."
            )

    def scores(self, case: Case, found: Found, shared: str | None, ctx: Context) -> Scored:
        """For each query and the texts found for it the scores of these.

        shared: the digest of the passages, where several claims search the same ones.
        """
        raise NotImplementedError

    def all_scores(
        self, cases: list[Case], found: list[Found], shared: str | None, ctx: Context
    ) -> Iterable[Scored]:
        """`scores` of each of several cases with the same passages."""
        for case, part in zip(cases, found, strict=True):
            yield self.scores(case, part, shared, ctx) if part else ()

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for store, group in by_store(cases):
            self._rerank(group, store if len(group) > 1 else None, ctx)
        return cases

    def _rerank(self, cases: list[Case], shared: str | None, ctx: Context) -> None:
        heads = [
            {query: hits[: self.fetch] for query, hits in per_query(case.hits).items()}
            for case in cases
        ]
        found = []
        for case, head in zip(cases, heads, strict=True):
            passages = {passage.id: passage for passage in case.passages}
            found.append([(query, texts(hits, passages)) for query, hits in head.items()])
        scored_cases = self.all_scores(cases, found, shared, ctx)
        for case, head, scored in zip(cases, heads, scored_cases, strict=True):
            ordered = []
            for hits, scores in zip(head.values(), scored, strict=True):
                rounded = [round(float(score), 6) for score in scores]
                order = sorted(range(len(hits)), key=lambda i: -rounded[i])[: self.k]
                ordered += [
                    Hit(
                        passage=hits[i].passage,
                        doc=hits[i].doc,
                        score=rounded[i],
                        query=hits[i].query,
                    )
                    for i in order
                ]
            put_hits(case, self.into, ordered)


Found: TypeAlias = list[tuple[int, list[str]]]
Scored: TypeAlias = Iterable[Iterable[float]]


def texts(hits: list[Hit], passages: dict[str, Passage]) -> list[str]:
    """The texts of the passages that were hit."""
    return [passages[hit.passage].text for hit in hits]


@dataclasses.dataclass(kw_only=True)
class DenseRerank(Rerank):
    """Cosine of the vectors of query and passage.

    Of a store that one claim has to itself only the passages that were found are encoded; one that
    claims share is encoded whole, once for all. together: the query's vector is the mean of those
    of all queries of its question (HerO).
    """

    encoder: Encoder
    together: bool = False

    def scores(self, case: Case, found: Found, shared: str | None, ctx: Context) -> Scored:
        import numpy as np

        groups = {query: [query] for query in range(len(case.queries))}
        if self.together:
            groups = {query: part for part in by_question(case.queries) for query in part}
        asked = [[case.queries[i].text for i in groups[query]] for query, _ in found]
        queries = self.encoder.mean_queries(asked, ctx)
        prompt = self.encoder.passage_prompt
        if shared:
            every = [passage.text for passage in case.passages]
            rows = np.asarray(self.encoder.passages(shared, every, ctx))  # rows of a map are slow
            vectors = {prompt + text: row for text, row in zip(every, rows, strict=True)}
        else:
            vectors = vectors_of(self.encoder, [prompt + t for _, held in found for t in held], ctx)
        return [
            cosines(query, [vectors[prompt + text] for text in held])
            for query, (_, held) in zip(queries, found, strict=True)
        ]


@dataclasses.dataclass(kw_only=True)
class QaSimilarity(Rerank):
    """Cosine of the claim and of question and passage as one text (UHH, AVeriTeC 2024).

    For queries without a question the passage stands alone.
    """

    reads: ClassVar = ("claim", "queries", "hits", "passages")
    encoder: Encoder

    def scores(self, case: Case, found: Found, shared: str | None, ctx: Context) -> Scored:
        [claim] = self.encoder.queries([case.claim.text], ctx)
        prompts = [
            self.encoder.passage_prompt + (f"{question} " if question else "")
            for question in (case.queries[query].question for query, _ in found)
        ]
        pairs = list(zip(prompts, found, strict=True))
        vectors = vectors_of(
            self.encoder, [p + text for p, (_, held) in pairs for text in held], ctx
        )
        return [cosines(claim, [vectors[p + text] for text in held]) for p, (_, held) in pairs]


@dataclasses.dataclass(kw_only=True)
class MaxSim(Rerank):
    """ColBERT's late interaction (Khattab and Zaharia 2020, section 3.3): the sum over the tokens
    of the query of the highest cosine with a token of the passage.

    Token vectors are the encoder's; its model need not be trained for this. ColBERT's marks for
    query and passage go into the encoder's prompts.
    """

    encoder: Encoder

    def all_scores(
        self, cases: list[Case], found: list[Found], shared: str | None, ctx: Context
    ) -> Iterable[Scored]:
        # A text that several queries found is encoded once, and few vectors are held at a time.
        encoder = self.encoder
        asked = [
            case.queries[q].text for case, part in zip(cases, found, strict=True) for q, _ in part
        ]
        if not asked:
            return [() for _ in cases]
        queries = encoder.token_vectors([encoder.query_prompt + text for text in asked], ctx)
        lists = [held for part in found for _, held in part]
        scores = [[0.0] * len(held) for held in lists]
        wanted: dict[str, list[tuple[int, int]]] = {}
        for row, held in enumerate(lists):
            for column, text in enumerate(held):
                wanted.setdefault(text, []).append((row, column))
        in_order = sorted(wanted, key=len)
        for first in range(0, len(in_order), _BLOCK):
            block = in_order[first : first + _BLOCK]
            prompted = [encoder.passage_prompt + text for text in block]
            for text, tokens in zip(block, encoder.token_vectors(prompted, ctx), strict=True):
                for row, column in wanted[text]:
                    scores[row][column] = float((queries[row] @ tokens.T).max(axis=1).sum())
        rows = iter(scores)
        return [list(itertools.islice(rows, len(part))) for part in found]


@dataclasses.dataclass(kw_only=True)
class CrossEncoderRerank(Rerank):
    """A cross-encoder reads query and passage as one text (Nogueira and Cho 2019); its one output
    is the score, through a sigmoid.

    model: a folder that sentence-transformers' CrossEncoder loads, or the name of one below
    `home()/models`. max_length: tokens of a pair that count. batch: pairs at once, of like length.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("into", "batch")
    model: Path
    max_length: int = 512
    batch: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model = assets.model(self.model)
        check_number(self, "max_length", 4)  # three tokens are none of query or passage
        check_number(self, "batch", 1)

    def scores(self, case: Case, found: Found, shared: str | None, ctx: Context) -> Scored:
        import torch

        model = ctx.loaded(
            key_of(repr(type(self)), identity(self.model), self.max_length), self._load, large=True
        )
        pairs = [
            (well_formed(case.queries[query].text), well_formed(text))
            for query, held in found
            for text in held
        ]
        values = model.predict(
            pairs, batch_size=self.batch, activation_fn=torch.nn.Sigmoid(), show_progress_bar=False
        )
        if values.ndim != 1:
            raise ClaimflowError(
                f"{self.model} gives {values.shape[1]} scores a pair: a re-ranker gives one."
            )
        return _parts(values, [len(held) for _, held in found])

    def _load(self) -> Any:
        from sentence_transformers import CrossEncoder

        return CrossEncoder(
            str(self.model), max_length=self.max_length, device="cpu", local_files_only=True
        )


def _parts(values: np.ndarray, sizes: list[int]) -> Iterator[list[float]]:
    at = 0
    for size in sizes:
        yield values[at : at + size].tolist()
        at += size


def vectors_of(encoder: Encoder, wanted: list[str], ctx: Context) -> dict[str, np.ndarray]:
    """The vector of each text, encoded once."""
    unique = list(dict.fromkeys(wanted))
    return dict(zip(unique, encoder.encode(unique, ctx), strict=True))


def cosines(vector: np.ndarray, others: list[np.ndarray]) -> list[float]:
    """The cosine of `vector` with each of the others."""
    import numpy as np

    if not others:
        return []
    stacked = np.stack(others)
    lengths = np.linalg.norm(stacked, axis=1) * np.linalg.norm(vector)
    values: list[float] = (stacked @ vector / np.maximum(lengths, 1e-12)).tolist()
    return values
