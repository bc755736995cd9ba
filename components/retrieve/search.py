"""What retrievers share: one index for all claims with the same passages, and ranked hits.

A ranking holds at most `k` hits a query, best first; a store of fewer passages gives what it has,
as stores of claims differ in size. Only a `k` above the usual that no store can fill is an error
(`check_k`); a run notes another one than the usual that none can fill.
Equal scores stand in the order of the store. A lexical retriever finds only passages that share a
term with the query, so a query of stop-words alone finds nothing.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from components.cache import Cache, key_of
from components.errors import ClaimflowError
from components.files import digest
from components.pipeline import CaseRef, load
from components.records import Case, Hit, Passage, Query, encode
from components.step import Context, Step, identity

if TYPE_CHECKING:
    import numpy as np

USUAL_K = 300


@dataclasses.dataclass(kw_only=True)
class Ranker(Step):
    """Base of all steps that write hits.

    into: the field that takes them: `hits`, or `rankings.NAME` when they wait to be fused.
    """

    unkeyed: ClassVar[tuple[str, ...]] = ("into",)
    into: str = "hits"

    def __post_init__(self) -> None:
        for field in (self.into, *getattr(self, "of", ())):
            if field != "hits" and not field.startswith("rankings."):
                raise ClaimflowError(
                    f"Hits can't stand in '{field}': name it hits, or rankings.NAME."
                )
        if (k := getattr(self, "k", 1)) < 1:
            raise ClaimflowError(f"{type(self).__name__} needs a k of at least 1, not {k}.")

    @property
    def writes(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.into,)


@dataclasses.dataclass(kw_only=True)
class Search(Ranker):
    """Base of retrievers: rank a claim's passages for each of its queries.

    k: hits a query, at most. together: all queries of one question are searched as one, and its
    hits are those of the first: their texts are joined by spaces (HerO searches claim and
    hypothetical passages so), or their vectors averaged (`Dense`).
    """

    reads: ClassVar = ("queries", "passages")
    k: int = USUAL_K
    together: bool = False

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        """What `scores` searches. `store` is the digest of the passages with these texts."""
        raise NotImplementedError

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterable[np.ndarray]:
        """For each query a score for every passage; -inf where the passage was not found."""
        raise NotImplementedError

    def joint_scores(
        self, index: Any, queries: list[list[str]], ctx: Context
    ) -> Iterable[np.ndarray]:
        """`scores` of queries that have several texts each."""
        return self.scores(index, [" ".join(texts) for texts in queries], ctx)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for store, group in by_store(cases):
            passages = group[0].passages
            if not passages:
                for case in group:
                    put_hits(case, self.into, [])
                continue
            index = self.opened(store, passages, ctx)
            for case in group:
                numbers = [[number] for number in range(len(case.queries))]
                asked = by_question(case.queries) if self.together else numbers
                texts = [[case.queries[i].text for i in part] for part in asked]
                found = self.joint_scores(index, texts, ctx) if texts else ()
                put_hits(
                    case,
                    self.into,
                    [
                        Hit(passage=passages[i].id, doc=passages[i].doc, score=score, query=part[0])
                        for part, scores in zip(asked, found, strict=False)
                        for i, score in top(scores, self.k)
                    ],
                )
        return cases

    def opened(self, store: str, passages: list[Passage], ctx: Context) -> Any:
        """The index of the passages with this digest, made once as long as it is in use."""
        return recent(ctx).get(
            self.index_key(store), lambda: self.index(store, [p.text for p in passages], ctx)
        )

    def index_key(self, store: str, *unread: str) -> str:
        """What the index of these passages is known by, in this process and in the cache: the
        class, its code and packages, and the parameters but for `unread`, which a kept index
        doesn't depend on."""
        return key_of("index", identity(self, ("k", "into", "together", *unread)), store)


def check_k(step: Search, name: str, refs: list[CaseRef], cache: Cache) -> str | None:
    """Raise ClaimflowError when the k of `step`, called `name` in the config, is above the usual
    and above the number of passages in every store; of another that no store fills, a remark."""
    if step.k == USUAL_K:
        return None
    largest, whose = 0, ""
    for ref in {ref.fields.get("passages"): ref for ref in refs if not ref.error}.values():
        size = len(load(ref, ("passages",), cache).passages)
        if size >= step.k:
            return None
        if size > largest:
            largest, whose = size, ref.id
    if not largest:
        return None  # nothing to search, whatever k is
    said = f"the largest store here, that of claim {whose}, has {largest}"
    if step.k < USUAL_K:
        return f"{name}.k={step.k} passages a query, but {said}: all that match are kept."
    default = f", or leave it out: then a query gets what its store has, {USUAL_K} at most"
    raise ClaimflowError(
        f"{name}.k={step.k} asks for more passages a query than any claim has: {said}. "
        f"Set {name}.k to {largest} or less{default if largest < USUAL_K else ''}."
    )


def by_store(cases: list[Case]) -> Iterator[tuple[str, list[Case]]]:
    """(digest of the passages, the cases that share them), in order of appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        store = case.digests.get("passages") or digest(encode(case.passages))
        groups.setdefault(store, []).append(case)
    yield from groups.items()


def top(scores: np.ndarray, k: int) -> list[tuple[int, float]]:
    """(position, score) of the `k` highest scores, best first, ties in order of position.

    Scores count to six decimals: what single precision adds beyond is noise, and two passages
    with the same text must tie.
    """
    import numpy as np

    rounded = np.round(scores.astype(np.float64), 6)
    found = np.flatnonzero(rounded > -np.inf)
    if len(found) > k:
        values = rounded[found]
        found = found[values >= np.partition(values, -k)[-k]]
    order = found[np.argsort(-rounded[found], kind="stable")[:k]]
    return list(zip(order.tolist(), rounded[order].tolist(), strict=True))


def get_hits(case: Case, field: str) -> list[Hit]:
    """The hits that stand in `hits` or `rankings.NAME`."""
    if field == "hits":
        return case.hits
    try:
        return case.rankings[field.removeprefix("rankings.")]
    except KeyError:
        raise ClaimflowError(
            f"No step before wrote {field}: name it in the `into` of a retriever."
        ) from None


def put_hits(case: Case, field: str, hits: list[Hit]) -> None:
    """Set `hits` or `rankings.NAME`."""
    if field == "hits":
        case.hits = hits
    else:
        case.rankings[field.removeprefix("rankings.")] = hits


def per_query(hits: list[Hit]) -> dict[int, list[Hit]]:
    """Hits by the index of their query, each list in its order."""
    found: dict[int, list[Hit]] = {}
    for hit in hits:
        found.setdefault(hit.query, []).append(hit)
    return found


def by_question(queries: list[Query]) -> list[list[int]]:
    """The positions of the queries of each question, in order; those without one belong to the
    claim."""
    found: dict[str | None, list[int]] = {}
    for number, query in enumerate(queries):
        found.setdefault(query.question, []).append(number)
    return list(found.values())


class Recent:
    """The indexes used last in this process, each made once, also when threads ask together.

    A shared corpus stays; indexes of one claim's store, each used once, push one another out.
    """

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The value of `key`, from `make()` when it isn't kept."""
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            while len(self._entries) > self.size:
                self._entries.popitem(last=False)
        with entry.lock:
            if not entry.made:
                entry.value = make()
                entry.made = True
            return entry.value


@dataclasses.dataclass
class _Entry:
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    made: bool = False
    value: Any = None


def recent(ctx: Context) -> Recent:
    """This process's indexes."""
    return ctx.loaded("indexes", Recent)
