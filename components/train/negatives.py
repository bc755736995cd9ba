"""Negative examples: documents that are no evidence for a claim.

How many a model sees for each positive decides between precision and recall (Wadden et al. 2022,
section 4 and appendix A.4).
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from pathlib import Path

from components.cache import Artifact, Cache, key_of
from components.errors import ClaimflowError
from components.files import write_whole
from components.records import Record, decode, encode
from components.step import identity

FILE = "negatives.json"
STRATEGIES = ("random", "hard", "annealed")


class Positives(Record):
    """What negatives are sampled for: a claim, by its id.

    count: positives that it has. gold: documents that may never be negative, which are all that
    are annotated as evidence. ranking: documents found for the claim, best first.
    """

    claim: str
    count: int
    gold: list[str]
    ranking: list[str] = []


class Negative(Record):
    """A document that is no evidence for a claim, in one pass over the data (from 0)."""

    claim: str
    doc: str
    step: int


@dataclasses.dataclass(kw_only=True)
class Negatives:
    """`ratio` negatives for every positive of a claim, drawn anew for each pass.

    strategy: random takes any document of the corpus; hard the documents of the claim's ranking
    that stand in its first `depth` places, and are no gold: BM25-hard or dense-hard by the
    retriever that made it. annealed takes those of hard, the fewer the later: from `ratio` in the
    first pass to `last` in the last one, by equal factors, so that a model that has learned what
    is not evidence sees more of what is (after the annealed sampling of UNC-NLP, FEVER 2018; their
    rates are not in the paper).
    """

    ratio: int = 5
    strategy: str = "hard"
    depth: int = 50
    last: int = 1

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ClaimflowError(f"No negatives '{self.strategy}': choose {', '.join(STRATEGIES)}.")
        if self.ratio < 0 or self.depth < 1 or self.last < 0:
            raise ClaimflowError("negatives.ratio and last are 0 or more, and depth is 1 or more.")

    def per_positive(self, step: int, passes: int) -> int:
        """How many negatives a positive has in a pass."""
        if self.strategy != "annealed" or passes == 1:
            return self.ratio
        share = step / (passes - 1)
        first, last = max(self.ratio, 0.5), max(min(self.last, self.ratio), 0.5)
        return round(first ** (1 - share) * last**share) if self.ratio else 0

    def sample(
        self, positives: list[Positives], corpus: list[str], passes: int, seed: int
    ) -> list[Negative]:
        """Negatives for each claim and pass; no document twice for a claim in a pass.

        A claim draws by itself, so that its negatives don't depend on the claims beside it; where
        fewer documents are left than are asked for, it takes them all.
        """
        found = []
        for one in positives:
            gold = set(one.gold)
            pool = corpus if self.strategy == "random" else one.ranking[: self.depth]
            rest = [doc for doc in dict.fromkeys(pool) if doc not in gold]
            for step in range(passes):
                rng = random.Random(key_of(seed, one.claim, step))
                size = min(self.per_positive(step, passes) * one.count, len(rest))
                docs = rng.sample(rest, size)
                found += [Negative(claim=one.claim, doc=doc, step=step) for doc in docs]
        return found

    def check_ratio(self, positives: list[Positives], found: list[Negative]) -> None:
        """Warn where the first pass, which has the most negatives, has fewer than were asked for,
        with the ratio that they reach: the curve of a sweep over ratios is flat from there."""
        count = sum(one.count for one in positives)
        reached = round(sum(negative.step == 0 for negative in found) / max(count, 1), 1)
        if count and reached < self.ratio:
            place = f"depth={self.depth} of the ranking"
            warnings.warn(
                f"negatives.ratio={self.ratio}: {reached} reached, as "
                f"{'the corpus' if self.strategy == 'random' else place} leaves no more.",
                stacklevel=2,
            )

    def kept(
        self, positives: list[Positives], corpus: list[str], passes: int, seed: int, cache: Cache
    ) -> tuple[list[Negative], Artifact]:
        """`sample`, once: the negatives as data of their own, with their digest. Warns where they
        are fewer than the ratio asks for."""

        def build(folder: Path) -> None:
            found = self.sample(positives, corpus, passes, seed)
            self.check_ratio(positives, found)
            write_whole(folder / FILE, encode(found))

        key = key_of("negatives", identity(self), positives, corpus, passes, seed)
        artifact = cache.artifact(key, build)
        return decode((Path(artifact.path) / FILE).read_bytes(), list[Negative]), artifact
