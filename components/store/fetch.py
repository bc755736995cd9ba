"""Fetching pages by HTTP: many at once, few from one host, each URL one time only.

A redirect's target is a URL like any other: it is asked for once, however many lead to it, and
`robots.txt` is no exception. All replies are kept in an `Archive`, so a fetch that was stopped goes
on where it was.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import dataclasses
import datetime
import functools
import http.client
import queue
import threading
import urllib.parse
from collections.abc import Iterable, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from components.errors import ClaimflowError
from components.records import Record
from components.store.addresses import Refused, allowed_hosts, guarded_transport, page_url
from components.store.warc import Archive, Reply, unpacked

if TYPE_CHECKING:
    from protego import Protego

_REDIRECTS = (301, 302, 303, 307, 308)
_NEVER = datetime.timedelta(0)
_ROBOTS_AGE = datetime.timedelta(hours=24)  # RFC 9309, 2.4
_ROBOTS_SIZE = 500 * 1024  # 2.5
_ROBOTS_HOPS = 5  # 2.3.1.2
_LONGEST_PAUSE = 30.0  # seconds that a Crawl-delay can ask for


class Fetched(Record):
    """What came of fetching a URL. `Fetcher.body` gives the page.

    url: as asked. final_url: where redirects led. status: of the last reply, None where none came.
    type: its header Content-Type. fetched: when it was asked for, in UTC. error: why there is no
    page; None when there is one. at: where it lies in the archive.
    """

    url: str
    final_url: str
    status: int | None
    type: str
    fetched: datetime.datetime
    error: str | None = None
    at: int | None = None


@dataclasses.dataclass(kw_only=True)
class _Chain:
    """An asked URL on its way through redirects."""

    url: str
    hops: list[str]


@dataclasses.dataclass(kw_only=True)
class _Host:
    """What is known of one origin while requests to it are due or under way.

    rules: its robots.txt; a text says why it can't be read; None: it was not asked for yet.
    queued: it stands in the queue of those that may start a request, or a timer puts it there.
    """

    rules: Protego | str | None
    pause: float
    due: collections.deque[str] = dataclasses.field(default_factory=collections.deque)
    running: int = 0
    next_start: float = 0.0
    queued: bool = False


@dataclasses.dataclass
class Fetcher:
    """Fetches pages into `folder`, which one process at a time may do. In `with` the folder stays
    open; else each call of `fetch` opens it, and reads its index.

    at_once: requests under way, in all. per_host: of them to one origin. pause: seconds between
    the starts of two requests to one origin; a Crawl-delay in its robots.txt can make them more, up
    to 30. timeout: seconds for a connection, and between two parts of a page. time_limit: for a
    whole page. size_limit: bytes of a page, packed and unpacked. redirects: at most so many.
    robots: keep to robots.txt (RFC 9309). agent: the User-Agent; robots.txt is read for its first
    word. allow: hosts (`host` or `host:port`) that may have addresses that are not public.
    retry_failed: ask again for what failed in an earlier run. progress: show a bar on a terminal.

    Raises ClaimflowError for settings that can't be, a folder in use, and a full disk. A page that
    fails is a result like any other, with its reason.
    """

    folder: Path
    _: dataclasses.KW_ONLY
    at_once: int = 32
    per_host: int = 10
    pause: float = 0.0
    timeout: float = 15.0
    time_limit: float = 60.0
    size_limit: int = 20_000_000
    redirects: int = 10
    robots: bool = True
    agent: str = "claimflow/0.1 (research on fact-checking)"
    allow: list[str] = dataclasses.field(default_factory=list)
    retry_failed: bool = False
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("at_once", "per_host", "timeout", "time_limit", "size_limit"):
            if not getattr(self, name) > 0:
                raise ClaimflowError(f"{name}={getattr(self, name)}: give more than 0.")
        for name in ("pause", "redirects"):
            if getattr(self, name) < 0:
                raise ClaimflowError(f"{name}={getattr(self, name)}: give 0 or more.")
        if not self.agent.strip() or not self.agent.isascii() or not self.agent.isprintable():
            raise ClaimflowError("agent: give a name in ASCII, as in 'mybot/1.0 (me@example.org)'.")
        self._allow = allowed_hosts(self.allow)
        self.archive = Archive(Path(self.folder))

    def __enter__(self) -> Fetcher:
        self.archive.__enter__()
        self._began = _now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.archive.__exit__(kind, error, trace)

    def body(self, fetched: Fetched) -> bytes:
        """The page, unpacked, as it was served. Raises ClaimflowError where none was kept."""
        if fetched.at is None:
            raise ClaimflowError(
                f"No page was kept of {fetched.url}: {fetched.error}. Fetch it again into a new "
                "folder, or leave it out."
            )
        return self.archive.body(fetched.final_url, fetched.at, self.size_limit)

    def take(self, path: Path) -> int:
        """Take over the pages of a WARC file, which are then not asked for; the number of new ones.

        Raises ClaimflowError where the file can't be read; what came before stays.
        """
        with contextlib.nullcontext() if self.archive.open else self:
            return self.archive.take(path, self.size_limit)

    def fetch(self, urls: Iterable[str]) -> Iterator[Fetched]:
        """What came of each of the URLs, in the order in which they are done; repeated ones give
        one result. What the archive has is not asked for again.

        Requests go on while the caller works; to leave the loop early ends them.
        """
        from tqdm import tqdm

        if not self.archive.open:
            with self:
                yield from self.fetch(urls)
            return
        asked = list(dict.fromkeys(urls))
        results: queue.SimpleQueue[Fetched | BaseException | None] = queue.SimpleQueue()
        run = _Run(self, self._allow, self._began, asked, results)
        thread = threading.Thread(target=run.work, name="fetch", daemon=True)
        thread.start()
        shown = self.progress and len(asked) > 1
        bar = tqdm(total=len(asked), desc="fetch", unit="page", disable=None if shown else True)
        failed = 0
        try:
            with bar:
                while (result := results.get()) is not None:
                    if isinstance(result, BaseException):
                        raise result
                    failed += result.error is not None
                    bar.set_postfix(failed=failed, refresh=False)
                    bar.update()
                    yield result
        finally:
            run.stop()
            thread.join()


class _Run:
    """One call of `Fetcher.fetch`: an event loop in a thread of its own.

    A unit of work is one request for one URL. Chains that wait for a URL stand in `waiting` under
    it, URLs that are due in the queue of their origin; nothing holds one thing while it waits for
    another.
    """

    def __init__(
        self,
        settings: Fetcher,
        allow: frozenset[str],
        began: datetime.datetime,
        asked: list[str],
        results: queue.SimpleQueue[Fetched | BaseException | None],
    ) -> None:
        self.settings = settings
        self.archive = settings.archive
        self.allow = allow
        self.began = began
        self.asked = asked
        self.results = results
        self.left = len(asked)
        self.waiting: dict[str, list[_Chain]] = {}
        self.hosts: dict[str, _Host] = {}
        self.free: collections.deque[str] = collections.deque()
        self.tasks: set[asyncio.Task[None]] = set()
        self.open = True  # whether requests may start
        self.failure: BaseException | None = None
        self.started = threading.Event()

    # In the caller's thread

    def stop(self) -> None:
        """End what is under way."""
        self.started.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: all was done
            self.loop.call_soon_threadsafe(self.main.cancel)

    # In a thread

    def work(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.results.put(error)
        finally:
            self.results.put(None)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.finished = asyncio.Event()
        # Names are resolved in threads, and one slow name server must not hold up the others.
        self.loop.set_default_executor(
            concurrent.futures.ThreadPoolExecutor(self.settings.at_once, "resolve")
        )
        self.main = asyncio.create_task(self._fetch())
        self.started.set()
        await self.main

    async def _fetch(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            self.writer = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1, "archive"))
            self.client = await stack.enter_async_context(
                httpx.AsyncClient(
                    transport=guarded_transport(self.allow, self.settings.at_once),
                    headers={
                        "User-Agent": self.settings.agent,
                        "Accept": "text/html,application/pdf,text/*;q=0.9,*/*;q=0.5",
                        "Accept-Encoding": "gzip, deflate, br",
                        "Connection": "close",  # see guarded_transport
                    },
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
                    timeout=self.settings.timeout,
                    trust_env=False,
                )
            )
            stack.push_async_callback(self._cancel)
            for url in self.asked:
                self._follow(_Chain(url=url, hops=[]), url)
            self._start()
            if self.left:
                await self.finished.wait()
            if self.failure:
                raise self.failure

    async def _cancel(self) -> None:
        self.open = False
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # Chains

    def _follow(self, chain: _Chain, target: str) -> None:
        """Take a chain to its next URL, and on through all that is known, until it waits for a
        request or is done."""
        while True:
            try:
                url = page_url(target)
                if url in chain.hops:
                    raise ClaimflowError("redirects lead round in a circle")
                if len(chain.hops) > self.settings.redirects:
                    raise ClaimflowError(f"more than {self.settings.redirects} redirects")
            except ClaimflowError as error:
                self._done(chain, target, Reply(url=target, fetched=_now(), error=str(error)))
                return
            chain.hops.append(url)
            reply = self._known(url)
            if reply is None:
                self._wait(chain, url)
                return
            if not _leads_on(reply):
                self._done(chain, url, reply)
                return
            target = _target(reply)

    def _known(self, url: str) -> Reply | None:
        """What the archive has of a URL, unless it is to be asked for again."""
        reply = self.archive.get(url)
        if reply and self.settings.retry_failed and reply.fetched < self.began:
            return None if _problem(reply) and not _leads_on(reply) else reply
        return reply

    def _done(self, chain: _Chain, url: str, reply: Reply) -> None:
        result = Fetched(
            url=chain.url,
            final_url=url,
            status=reply.status,
            type=reply.type,
            fetched=reply.fetched,
            error=_problem(reply),
            at=reply.at,
        )
        self.results.put(result)
        self.left -= 1
        if not self.left:
            self.finished.set()

    # Requests

    def _wait(self, chain: _Chain, url: str) -> None:
        if url in self.waiting:
            self.waiting[url].append(chain)
            return
        self.waiting[url] = [chain]
        origin = _origin(url)
        if origin not in self.hosts:
            rules = None if self.settings.robots else _no_rules()
            self.hosts[origin] = _Host(rules=rules, pause=self.settings.pause)
        self.hosts[origin].due.append(url)
        self._queue(origin)

    def _queue(self, origin: str) -> None:
        """Put an origin in the queue when it has something to start."""
        host = self.hosts[origin]
        most = self.settings.per_host if host.rules is not None else 1
        if host.due and not host.queued and host.running < most:
            host.queued = True
            self.free.append(origin)

    def _start(self) -> None:
        """Start what may be started now."""
        while self.open and self.free and len(self.tasks) < self.settings.at_once:
            origin = self.free.popleft()
            host = self.hosts[origin]
            if host.next_start > self.loop.time():
                self.loop.call_at(host.next_start, self._waited, origin)
                continue
            host.queued = False
            if host.rules is None:
                work = self._read_robots(origin, host)
            else:
                work = self._page(host.due.popleft(), host.rules)
            host.running += 1
            host.next_start = self.loop.time() + host.pause
            self._queue(origin)
            task = asyncio.create_task(work)
            self.tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, origin))

    def _waited(self, origin: str) -> None:
        self.free.append(origin)
        self._start()

    def _ended(self, origin: str, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if task.cancelled():
            return
        if error := task.exception():
            self.failure, self.open = self.failure or error, False
            self.finished.set()
            return
        host = self.hosts[origin]
        host.running -= 1
        self._queue(origin)
        if not host.due and not host.running and host.next_start <= self.loop.time():
            del self.hosts[origin]  # its robots.txt is in the archive
        self._start()

    async def _page(self, url: str, rules: Protego | str) -> None:
        if isinstance(rules, str):
            reply = Reply(url=url, fetched=_now(), error=rules)
        elif not rules.can_fetch(url, self.settings.agent):
            reply = Reply(url=url, fetched=_now(), error="robots.txt forbids it")
        else:
            reply = await self._get(url)
        for chain in self.waiting.pop(url):
            if _leads_on(reply):
                self._follow(chain, _target(reply))
            else:
                self._done(chain, url, reply)

    async def _read_robots(self, origin: str, host: _Host) -> None:
        """RFC 9309, 2.3.1: what can't be reached forbids all, what is not there allows all."""
        from protego import Protego

        url = f"{origin}/robots.txt"
        for _ in range(_ROBOTS_HOPS + 1):
            known = self.archive.get(url)
            if known and known.fetched < self.began - (_NEVER if known.error else _ROBOTS_AGE):
                known = None
            found = known or await self._get(url)
            if not _leads_on(found):
                break
            with contextlib.suppress(ClaimflowError):
                url = page_url(_target(found))
        problem = _problem(found)
        if found.error or found.status is None or found.status == 429 or found.status >= 500:
            refused = self.archive.get(found.url) is None  # the host, so nothing was asked
            host.rules = f"{problem}" if refused else f"its robots.txt can't be read: {problem}"
            return
        host.rules = _no_rules()
        if not problem and found.at is not None:
            text = self.archive.body(found.url, found.at, self.settings.size_limit)[:_ROBOTS_SIZE]
            host.rules = Protego.parse(text.decode("utf-8-sig", "replace"))
            asked = min(host.rules.crawl_delay(self.settings.agent) or 0.0, _LONGEST_PAUSE)
            host.pause = max(host.pause, asked)

    async def _get(self, url: str) -> Reply:
        """The one request for a URL, into the archive."""
        reply = Reply(url=url, fetched=_now())
        headers: list[tuple[str, str]] = []
        body = None
        try:
            async with (
                asyncio.timeout(self.settings.time_limit),
                self.client.stream("GET", url) as response,
            ):
                reply.status = response.status_code
                reply.type = response.headers.get("Content-Type", "")
                reply.location = response.headers.get("Location")
                headers = response.headers.multi_items()
                body = await self._read(response)
        except Exception as error:  # whatever a hostile server makes the libraries raise
            reply.error = self._reason(error)
            if isinstance(error.__cause__, Refused):  # nothing was asked: settings decide
                return reply
        return await self.loop.run_in_executor(self.writer, self._keep, reply, headers, body)

    async def _read(self, response: httpx.Response) -> bytes:
        """The body as it is sent, still packed."""
        limit = self.settings.size_limit
        said = response.headers.get("Content-Length", "")
        if said.isdecimal() and int(said[:20]) > limit:
            raise ClaimflowError(f"it is longer than {limit} bytes")
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > limit:
                raise ClaimflowError(f"it is longer than {limit} bytes")
        return bytes(body)

    def _keep(self, reply: Reply, headers: list[tuple[str, str]], body: bytes | None) -> Reply:
        if body is not None:
            packed = ", ".join(v for name, v in headers if name.lower() == "content-encoding")
            try:
                unpacked(body, packed, self.settings.size_limit)
            except ClaimflowError as error:
                reply.error, body = str(error), None
        return self.archive.add(reply, headers, body)

    def _reason(self, error: Exception) -> str:
        if isinstance(error, TimeoutError):
            return f"not done after {self.settings.time_limit:g} s"
        if isinstance(error, httpx.TimeoutException):
            return f"no answer for {self.settings.timeout:g} s"
        if isinstance(error, ClaimflowError | httpx.ConnectError):
            return str(error) or "no connection"
        return f"{type(error).__name__}: {error}"


def _origin(url: str) -> str:
    return str(httpx.URL(url).copy_with(raw_path=b"/")).rstrip("/")


def _leads_on(reply: Reply) -> bool:
    return reply.status in _REDIRECTS and bool(reply.location) and not reply.error


def _target(reply: Reply) -> str:
    """Where a redirect leads, in whatever form."""
    location = reply.location or ""
    try:
        return urllib.parse.urljoin(reply.url, location)
    except ValueError:  # no URL, which is said when it is asked for
        return location


def _problem(reply: Reply) -> str | None:
    """Why a reply is no page; None when it is one."""
    if reply.error or reply.status is None:
        return reply.error
    if 200 <= reply.status < 300:
        return None
    return f"answered {reply.status} {http.client.responses.get(reply.status, '')}".strip()


def _no_rules() -> Protego:
    from protego import Protego

    return Protego.parse("")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
