"""A claim's knowledge store: pages found, read, sorted out, and written in the official layout."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import queue
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from components.cache import Action, Cache, key_of
from components.errors import ClaimflowError
from components.files import digest, write_whole
from components.records import Case, Claim, Document, Query, Record, encode
from components.step import Context, Step, code_version
from components.store.extract import Page
from components.store.extractor import Extractor
from components.store.providers.base import Provider, ProviderError, QueryError
from components.store.queries import GOLD_PAGE
from components.text import well_formed
from components.urls import same_url

if TYPE_CHECKING:
    from components.store.fetch import Fetched, Fetcher


UNDECIDED = "kept undecided by the guard: they have dates, the claim has none"


class Found(Record):
    """A page for a store, with the kind and text of the first query that found it."""

    url: str
    kind: str
    query: str | None = None


class Searched(Record):
    """What the queries of a claim found, and why some found nothing."""

    found: list[Found] = []
    problems: list[str] = []


class Read(Record):
    """What a page says, or why it can't be read."""

    page: Page | None = None
    error: str | None = None


class Built(Record, omit_defaults=False):
    """A store: its claim, what it was made by, the digest of its file.

    key: of all that the store was made by and of; settings: of that without the claim. dataset and
    claim: the name and the text. counts: pages found, unread and dropped by reason, and kept.
    problems: queries without a reply, which the next run asks again. error: why there is no store,
    or none of these settings.
    """

    id: str
    key: str
    settings: str = ""
    dataset: str = ""
    claim: str = ""
    digest: str = ""
    counts: dict[str, int] = {}
    problems: list[str] = []
    error: str | None = None


def search(
    claim: Claim, queries: list[Query], provider: Provider, ctx: Context, gold: bool, parallel: int
) -> Searched:
    """Ask every query, `parallel` at once. gold: the gold pages come first.

    A query that the provider can't answer costs itself; ProviderError passes through.
    """
    pages = {}
    if gold:
        pages = {same_url(url): Found(url=url, kind=GOLD_PAGE) for url in claim.relevant}
    problems = []

    def ask(query: Query) -> list[str] | QueryError:
        try:
            return [result.url for result in provider.search(query.text, claim.date, ctx)]
        except QueryError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
        asked = [pool.submit(ask, query) for query in queries]
        try:
            for query, future in zip(queries, asked, strict=True):
                urls = future.result()
                if isinstance(urls, QueryError):
                    problems.append(f"{query.kind} {query.text[:60]!r}: {urls}")
                    continue
                for url in urls:
                    page = Found(url=url, kind=query.kind, query=query.text)
                    pages.setdefault(same_url(url), page)
        except ProviderError:
            pool.shutdown(cancel_futures=True)
            raise
    return Searched(found=list(pages.values()), problems=problems)


# Text of pages


def read_pages(
    urls: Iterable[str], fetcher: Fetcher, cache: Cache, workers: int
) -> Iterator[tuple[Fetched, str]]:
    """(what came of a URL, digest of its `Read` in the cache), fetched and read as they come.

    Reading is done by `workers` processes, once for each page that can be read; few pages are under
    way at a time, so memory stays flat.
    """
    code = code_version("components.store.extract")
    with _readers(workers) as read:
        waiting: collections.deque[tuple[Fetched, str, concurrent.futures.Future[Read]]] = (
            collections.deque()
        )
        for fetched in fetcher.fetch(urls):
            try:
                body = _body(fetched, fetcher)
            except ClaimflowError as error:
                yield fetched, cache.put(encode(Read(error=str(error))))
                continue
            key = key_of("page", code, digest(body), fetched.type)
            if action := cache.lookup(key):
                yield fetched, action.outputs[0]
                continue
            waiting.append((fetched, key, read(body, fetched.type)))
            while len(waiting) > 4 * workers or (waiting and waiting[0][2].done()):
                yield _keep(*waiting.popleft(), cache)
        while waiting:
            yield _keep(*waiting.popleft(), cache)


def _body(fetched: Fetched, fetcher: Fetcher) -> bytes:
    if fetched.error:
        raise ClaimflowError(fetched.error)
    return fetcher.body(fetched)


def _keep(
    fetched: Fetched, key: str, future: concurrent.futures.Future[Read], cache: Cache
) -> tuple[Fetched, str]:
    read = future.result()
    name = cache.put(encode(read))
    if read.page:  # a page that took too long on a busy machine has another chance
        cache.record(key, Action(outputs=[name]))
    return fetched, name


Reader = Callable[[bytes, str], concurrent.futures.Future[Read]]


@contextlib.contextmanager
def _readers(workers: int) -> Iterator[Reader]:
    """A function that reads a page, by its body and type, in one of `workers` processes."""
    free: queue.SimpleQueue[Extractor] = queue.SimpleQueue()

    def read(body: bytes, type: str) -> Read:
        extractor = free.get()
        try:
            return Read(page=extractor.extract(body, type=type))
        except ClaimflowError as error:
            return Read(error=str(error))
        finally:
            free.put(extractor)

    with contextlib.ExitStack() as stack:
        for _ in range(workers):
            free.put(stack.enter_context(Extractor()))
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(workers))
        try:
            yield lambda body, type: pool.submit(read, body, type)
        finally:
            pool.shutdown(cancel_futures=True)


def document(found: Found, page: Page, final_url: str) -> Document:
    """A page of a store, as steps work on it. final_url: where redirects led from its URL."""
    return Document(
        id=found.url,
        url=found.url,
        final_url=None if same_url(final_url) == same_url(found.url) else final_url,
        title=page.title,
        date=page.date,
        sentences=tuple(page.sentences),
        query=found.query,
        kind=found.kind,
        checked=tuple(page.checked),
    )


# The store itself


def assemble(
    claim: Claim,
    searched: Searched,
    text: Callable[[Found], Document | str],
    steps: Iterable[Step],
    ctx: Context,
) -> tuple[list[Document], dict[str, int]]:
    """(pages of the store in random order, counts). text: a page's text, or why there is none.

    steps: drop pages (guard, near-duplicates). The order depends on the run's seed and the claim.
    """
    unread: collections.Counter[str] = collections.Counter()
    case = Case(claim=claim)
    for found in searched.found:
        read = text(found)
        if isinstance(read, str):
            unread[f"unread: {read.partition(':')[0]}"] += 1
        else:
            case.documents.append(read)
    for step in steps:
        (case,) = step.run([case], ctx)
    random.Random(ctx.seed_for("store", claim.id)).shuffle(case.documents)
    counts = {"found": len(searched.found), "kept": len(case.documents), **unread}
    if case.undecided:
        counts[UNDECIDED] = case.undecided
    return case.documents, counts | {f"dropped: {k}": v for k, v in case.dropped.items()}


def write_store(path: Path, claim: Claim, documents: list[Document]) -> str:
    """Write a store in the official layout, a line a page; the digest of the file.

    Title, date and where redirects led stand beside the official fields, for the guard of later
    runs.
    """
    # In the order of the official fields, which `encode` would sort.
    lines = b"".join(msgspec.json.encode(_line(claim, document)) + b"\n" for document in documents)
    write_whole(path, lines)
    return digest(lines)


def _line(claim: Claim, document: Document) -> dict[str, object]:
    line = {
        "claim_id": int(claim.id) if claim.id.isdecimal() else claim.id,
        "type": document.kind,
        "query": document.query,
        "url": document.url,
        "url2text": [well_formed(sentence) for sentence in document.sentences],
        "title": well_formed(document.title) if document.title else None,
        "date": document.date,
        "lang": document.lang,
        "final_url": document.final_url,
    }
    return {name: value for name, value in line.items() if value is not None}
