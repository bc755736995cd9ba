"""Evidence filters: which of the hits may become evidence. Each leaves the others' order."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import ClassVar

from components.errors import ClaimflowError
from components.numbers import check_number
from components.reason.answers import plain
from components.records import Case, Passage
from components.retrieve.encoder import Encoder
from components.retrieve.rerank import cosines, vectors_of
from components.retrieve.search import by_question
from components.step import Context, Step
from components.urls import same_url


@dataclasses.dataclass(kw_only=True)
class EvidenceFilter(Step):
    """Base of evidence filters: drop hits."""

    reads: ClassVar[tuple[str, ...]] = ("hits", "passages")
    writes: ClassVar = ("hits",)

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        """Whether each of the case's hits stays. `passages`: by id."""
        raise NotImplementedError

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            passages = {passage.id: passage for passage in case.passages}
            kept = self.keep(case, passages, ctx) if case.hits else []
            case.hits = [hit for hit, stays in zip(case.hits, kept, strict=True) if stays]
        return cases


@dataclasses.dataclass(kw_only=True)
class ClaimCopies(EvidenceFilter):
    """Drop passages that only repeat the claim (HerO, AVeriTeC 2024).

    Those whose TF-IDF cosine with it is above `cosine`, and those that contain it where it is more
    than `ratio` of their length. Upper case and punctuation don't count. The idf is scikit-learn's
    over the two texts alone.
    """

    reads: ClassVar = ("claim", "hits", "passages")
    cosine: float = 0.97
    ratio: float = 0.92

    def __post_init__(self) -> None:
        for name in ("cosine", "ratio"):
            check_number(self, name, 0, 1)

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        claim = plain(case.claim.text)
        return [not self._copies(claim, plain(passages[hit.passage].text)) for hit in case.hits]

    def _copies(self, claim: str, text: str) -> bool:
        if claim in text and len(claim) > self.ratio * len(text):
            return True
        return pair_cosine(claim, text) > self.cosine


def pair_cosine(one: str, other: str) -> float:
    """Cosine of the TF-IDF vectors of two texts over words of two characters or more; the idf is
    log(3 / (1 + df)) + 1, as scikit-learn's TfidfVectorizer has it for two texts."""
    counts = [Counter(word for word in text.split() if len(word) > 1) for text in (one, other)]
    shared = counts[0].keys() & counts[1].keys()
    alone = math.log(3 / 2) + 1  # shared words weigh 1
    lengths = [
        math.sqrt(sum((n if word in shared else alone * n) ** 2 for word, n in count.items()))
        for count in counts
    ]
    product = sum(counts[0][word] * counts[1][word] for word in shared)
    return product / (lengths[0] * lengths[1]) if product else 0.0


@dataclasses.dataclass(kw_only=True)
class NearDuplicates(EvidenceFilter):
    """Drop a passage whose cosine with one that stays before it is `cosine` or more (SANCTUARY,
    AVeriTeC 2025: .905).

    within: "claim" (of all its queries, the first hits of each first) or "question".
    """

    reads: ClassVar = ("queries", "hits", "passages")
    encoder: Encoder
    cosine: float = 0.905
    within: str = "claim"

    def __post_init__(self) -> None:
        check_number(self, "cosine", 0, 1)
        check_within(self.within)

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        prompt = self.encoder.passage_prompt
        texts = [prompt + passages[hit.passage].text for hit in case.hits]
        vectors = vectors_of(self.encoder, texts, ctx)
        kept = [False] * len(texts)
        for group in turns(case, self.within):
            stay: list[str] = []
            for i in group:
                likest = max(cosines(vectors[texts[i]], [vectors[t] for t in stay]), default=-1.0)
                if round(likest, 6) < self.cosine:
                    kept[i] = True
                    stay.append(texts[i])
        return kept


@dataclasses.dataclass(kw_only=True)
class SimilarityFloor(EvidenceFilter):
    """Drop passages whose cosine with their query is below `floor` (SANCTUARY, AVeriTeC 2025: .52
    of its encoder)."""

    reads: ClassVar = ("queries", "hits", "passages")
    encoder: Encoder
    floor: float = 0.52

    def __post_init__(self) -> None:
        check_number(self, "floor", 0, 1)

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        prompt = self.encoder.passage_prompt
        texts = [prompt + passages[hit.passage].text for hit in case.hits]
        vectors = vectors_of(self.encoder, texts, ctx)
        queries = self.encoder.queries([query.text for query in case.queries], ctx)
        return [
            round(cosines(queries[hit.query], [vectors[text]])[0], 6) >= self.floor
            for hit, text in zip(case.hits, texts, strict=True)
        ]


@dataclasses.dataclass(kw_only=True)
class ScoreFloor(EvidenceFilter):
    """Drop hits whose score is below `floor`: of a reranker that gives probabilities, say (UNC-NLP,
    FEVER 2018: .05)."""

    reads: ClassVar = ("hits",)
    floor: float = 0.05

    def __post_init__(self) -> None:
        check_number(self, "floor")

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        return [hit.score >= self.floor for hit in case.hits]


@dataclasses.dataclass(kw_only=True)
class UrlSeen(EvidenceFilter):
    """Drop passages of a page of which a better one stays (InFact, AVeriTeC 2024).

    within: "question" or "claim". Pages are told apart by URL, documents without one by id; a
    passage that stands on several pages is of all of them.
    """

    reads: ClassVar = ("queries", "hits", "passages")
    within: str = "question"

    def __post_init__(self) -> None:
        check_within(self.within)

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        kept = [False] * len(case.hits)
        for group in turns(case, self.within):
            seen: set[str] = set()
            for i in group:
                passage = passages[case.hits[i].passage]
                page = same_url(passage.url) if passage.url else case.hits[i].doc
                kept[i] = page not in seen
                if kept[i]:
                    seen |= {page, *map(same_url, passage.also)}
        return kept


@dataclasses.dataclass(kw_only=True)
class TopPerQuestion(EvidenceFilter):
    """Only the first `k` passages of each question, its queries taking turns."""

    reads: ClassVar = ("queries", "hits")
    k: int = 10

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ClaimflowError(f"TopPerQuestion needs a k of at least 1, not {self.k}.")

    def keep(self, case: Case, passages: dict[str, Passage], ctx: Context) -> list[bool]:
        kept = [False] * len(case.hits)
        for group in turns(case, "question"):
            first: dict[str, int] = {}
            for i in group:
                first.setdefault(case.hits[i].passage, i)
            for i in list(first.values())[: self.k]:
                kept[i] = True
        return kept


def turns(case: Case, within: str) -> list[list[int]]:
    """The positions of the hits of each question, or of the whole claim, in the order in which
    they are looked at: the first of each query, then the second of each, and so on."""
    ranks: Counter[int] = Counter()
    place: dict[int, tuple[int, int]] = {}  # rank for its query, query
    for i, hit in enumerate(case.hits):
        place[i] = (ranks[hit.query], hit.query)
        ranks[hit.query] += 1
    every = [list(range(len(case.queries)))]
    groups = by_question(case.queries) if within == "question" else every
    return [
        sorted((i for i, (_, query) in place.items() if query in group), key=place.__getitem__)
        for group in groups
    ]


def check_within(within: str) -> None:
    """Raise ClaimflowError for what is neither question nor claim."""
    if within not in ("question", "claim"):
        raise ClaimflowError(f"within={within}: choose question or claim.")
