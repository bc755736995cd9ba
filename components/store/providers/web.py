"""Search services by HTTP: Google Programmable Search, Brave, SearXNG, or what speaks like them."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import logging
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components.errors import ClaimflowError
from components.retries import retry_after
from components.step import Context
from components.store.providers.base import Provider, ProviderError, QueryError, Result
from components.store.providers.replies import Replies, Reply, read_body
from components.text import well_formed

if TYPE_CHECKING:
    import httpx


AWAY = 5  # queries in a row without a reply, after which no more are asked


@dataclasses.dataclass(kw_only=True)
class WebProvider(Provider):
    """Base of search services. Every reply is kept and never asked for twice.

    url: the address that is asked. replies: FILE.jsonl where replies are kept. key_variable: the
    environment variable with the key; the key itself is neither logged nor kept. quota: new
    requests of this process at most (None: no limit). per_second: requests. attempts: of a request
    that met 429, 5xx, no answer, or a reply that is no JSON; after the first it waits `backoff`
    seconds, then twice as long each time, or what Retry-After says. longest_wait: seconds; who
    is told to wait longer stops. timeout: seconds for a reply.

    A query that the service refuses or can't answer raises QueryError; a spent quota, a bad key,
    or a service that is away or fails AWAY queries in a row raises ProviderError.
    """

    shape: ClassVar[str]
    page: ClassVar[int]  # results of a reply that others may follow
    most_pages: ClassVar[int]
    longest: ClassVar[tuple[int, int]] = (2000, 10_000)  # words and characters of a query
    needs_key: ClassVar[bool] = True
    unkeyed: ClassVar[tuple[str, ...]] = (
        "replies",
        "key_variable",
        "quota",
        "per_second",
        "attempts",
        "backoff",
        "longest_wait",
        "timeout",
    )

    url: str
    replies: Path
    key_variable: str = ""
    quota: int | None = None
    per_second: float = 1.0
    attempts: int = 5
    backoff: float = 1.0
    longest_wait: float = 120.0
    timeout: float = 30.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attempts < 1 or self.per_second <= 0 or self.timeout <= 0:
            raise ClaimflowError("provider.attempts, per_second and timeout must be above 0.")
        self._lock = threading.Lock()
        self._next = 0.0  # when the next request may go, on the monotonic clock
        self.requests = 0  # new ones
        self._failed = 0  # queries in a row that no attempt got a reply to
        self._away: ProviderError | None = None

    # What subclasses write

    def params(self, query: str, until: datetime.date | None, page: int) -> dict[str, str]:
        """The request for one page of results, without the key."""
        raise NotImplementedError(type(self).__name__)

    def keyed(self, key: str) -> tuple[dict[str, str], dict[str, str]]:
        """(parameters, headers) that carry the key."""
        raise NotImplementedError(type(self).__name__)

    def spent(self, body: str) -> bool:
        """Whether a refusal says that the quota of a day or month is used up."""
        return bool(
            re.search(r"(?i)per day|per month|daily ?limit|quota ?exceeded|quota_limit", body)
        )

    # What is shared

    def check(self) -> None:
        if self.needs_key and not self._secret:
            raise ClaimflowError(
                f"{self.shape} wants a key: put it into the environment variable "
                f"{self.key_variable}, or take provider=recorded or provider=local."
            )

    def results(self, query: str, until: datetime.date | None, ctx: Context) -> Iterator[Result]:
        for page in range(1, min(math.ceil(self.n / self.page), self.most_pages) + 1):
            found = read_body(self.shape, self._body(query, until, page))
            yield from found
            if len(found) < self.page:
                return

    @property
    def _secret(self) -> str:
        return os.environ.get(self.key_variable, "") if self.key_variable else ""

    @functools.cached_property
    def _replies(self) -> Replies:
        return Replies(Path(self.replies))

    @functools.cached_property
    def _client(self) -> httpx.Client:
        import httpx

        # The client logs the address of every request, and some services take the key in it.
        logging.getLogger("httpx").addFilter(_without_address)
        # A connection for each request: what a server sends beyond the length that it gives would
        # be read, and kept, as the reply to the next query.
        return httpx.Client(
            timeout=self.timeout,
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={"Connection": "close"},
        )

    def _body(self, query: str, until: datetime.date | None, page: int) -> Any:
        text = shortened(well_formed(query), *self.longest)
        asked = Reply(
            shape=self.shape,
            query=well_formed(query),
            until=until,
            page=page,
            url=self.url,
            params=self.params(text, until, page),
        )
        with self._lock:
            replies = self._replies
        body = replies.get(asked)
        if body is None:
            body = self._ask(asked)
            asked.at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            asked.body = body
            replies.put(asked)
        return body

    def _ask(self, asked: Reply) -> Any:
        """Send a request until it is answered."""
        self.check()
        wait = self.backoff
        for attempt in range(1, self.attempts + 1):
            if self._away:  # by other queries, asked at the same time
                raise self._away
            self._pace()
            try:
                problem, told = self._try(asked)
            except QueryError:  # a refusal is a reply, too
                self._failed = 0
                raise
            if isinstance(problem, ClaimflowError):
                if attempt == self.attempts:
                    raise self._given_up(problem)
                if told is not None and told > self.longest_wait:
                    raise ProviderError(
                        f"{problem}, and asks to wait {told:.0f} s: start again then. Replies are "
                        f"kept in {self.replies}."
                    )
                time.sleep(min(wait if told is None else told, self.longest_wait))
                wait *= 2
            else:
                self._failed = 0
                return problem
        raise AssertionError("no attempt")

    def _given_up(self, problem: ClaimflowError) -> ClaimflowError:
        """What to raise for a query whose last attempt failed: the service may fail them all."""
        with self._lock:
            self._failed += 1
            if self._failed < AWAY:
                return problem
            self._away = ProviderError(
                f"{problem}. So it went with {self._failed} queries in a row, each asked "
                f"{self.attempts} times: start again when the service is well. Replies are kept in "
                f"{self.replies}."
            )
            return self._away

    def _try(self, asked: Reply) -> tuple[Any, float | None]:
        """(body, None), or (the problem, how long to wait if said); what waiting can't mend is
        raised."""
        import httpx

        params, headers = self.keyed(self._secret) if self._secret else ({}, {})
        try:
            with self._lock:
                client = self._client
            response = client.get(
                self.url,
                params={**asked.params, **params},
                headers={"Accept": "application/json", **headers},
            )
        except (httpx.TransportError, httpx.InvalidURL) as error:
            reason = self._hidden(f"{type(error).__name__} {error}")
            return ProviderError(f"{self.url} can't be reached ({reason})"), None
        except httpx.HTTPError as error:  # a body that can't be decoded
            reason = self._hidden(f"{type(error).__name__} {error}")
            return QueryError(f"{self.url} sent what can't be read ({reason})"), None
        text, status = self._hidden(response.text), response.status_code
        said = f"{self.url} answered {status}: {' '.join(text.split())[:160]}"
        if status == 200:
            try:
                body = _json(text)
            except ValueError:
                return QueryError(f"{self.url} sent no JSON: {text[:80]!r}"), None
            read_body(self.shape, body)  # what can't be read is not kept
            return body, None
        if status in (402, 403, 429) and self.spent(text):
            raise ProviderError(
                f"The quota is used up; {said}. Start again when there is a new one: replies are "
                f"kept in {self.replies}."
            )
        if status == 429:
            return ProviderError(said), retry_after(response.headers.get("Retry-After"))
        if status >= 500 or status == 408:
            return QueryError(said), retry_after(response.headers.get("Retry-After"))
        if status in (401, 402, 403):
            raise ProviderError(f"{said}. {self.refused()}")
        if status in (400, 413, 414, 422) and not re.search(r"(?i)api.?key|token", text):
            raise QueryError(said)
        raise ProviderError(f"{said}. Are provider.url and the key in {self.key_variable} right?")

    def refused(self) -> str:
        """What to do about 401 and 403."""
        return f"Is the key in {self.key_variable} right, and the service enabled for it?"

    def _hidden(self, text: str) -> str:
        return text.replace(self._secret, "KEY") if self._secret else text

    def _pace(self) -> None:
        """Wait for this request's turn; count it."""
        with self._lock:
            if self.quota is not None and self.requests >= self.quota:
                raise ProviderError(
                    f"provider.quota={self.quota} requests are made. Start again to go on: replies "
                    f"are kept in {self.replies}."
                )
            self.requests += 1
            now = time.monotonic()
            turn = max(self._next, now)
            self._next = turn + 1 / self.per_second
        time.sleep(turn - now)


@dataclasses.dataclass(kw_only=True)
class Google(WebProvider):
    """Google Programmable Search (Custom Search JSON API), 10 results a request, 100 at most.

    cx: the search engine's id. Dates by `sort=date:r:…`, as AVeriTeC's own searches.
    """

    shape: ClassVar = "google"
    page: ClassVar = 10
    most_pages: ClassVar = 10
    longest: ClassVar = (32, 2048)  # Google reads no more words

    url: str = "https://customsearch.googleapis.com/customsearch/v1"
    key_variable: str = "GOOGLE_API_KEY"
    cx: str = ""

    def check(self) -> None:
        super().check()
        if not self.cx:
            raise ClaimflowError(
                "Google wants the id of a search engine: set provider.cx, or the environment "
                "variable GOOGLE_CX."
            )

    def params(self, query: str, until: datetime.date | None, page: int) -> dict[str, str]:
        asked = {"q": query, "cx": self.cx, "num": str(self.page), "start": str(10 * page - 9)}
        return asked | ({"sort": f"date:r:19000101:{until:%Y%m%d}"} if until else {})

    def keyed(self, key: str) -> tuple[dict[str, str], dict[str, str]]:
        return {"key": key}, {}


@dataclasses.dataclass(kw_only=True)
class Brave(WebProvider):
    """Brave's web search API, 20 results a request, 200 at most."""

    shape: ClassVar = "brave"
    page: ClassVar = 20
    most_pages: ClassVar = 10
    longest: ClassVar = (50, 400)  # longer queries are refused

    url: str = "https://api.search.brave.com/res/v1/web/search"
    key_variable: str = "BRAVE_API_KEY"

    def params(self, query: str, until: datetime.date | None, page: int) -> dict[str, str]:
        count = min(self.page, self.n)
        asked = {"q": query, "count": str(count), "offset": str(page - 1)}
        return asked | ({"freshness": f"1970-01-01to{until}"} if until else {})

    def keyed(self, key: str) -> tuple[dict[str, str], dict[str, str]]:
        return {}, {"X-Subscription-Token": key}

    def spent(self, body: str) -> bool:
        try:
            meta = _json(body)["error"]["meta"]
            return int(meta["quota_current"]) >= int(meta["quota_limit"])
        except (ValueError, KeyError, TypeError):
            return super().spent(body) and "quota_current" not in body


@dataclasses.dataclass(kw_only=True)
class Searxng(WebProvider):
    """A SearXNG server, with the format json enabled in its settings.

    It has no parameter for dates: `before:DAY` is put behind the query, which several engines
    understand, and results that are dated later are left out.
    """

    shape: ClassVar = "searxng"
    page: ClassVar = 1  # their number differs: only an empty reply is the last
    most_pages: ClassVar = 10
    needs_key: ClassVar = False

    url: str = "http://localhost:8080/search"

    def params(self, query: str, until: datetime.date | None, page: int) -> dict[str, str]:
        text = f"{query} before:{until}" if until else query
        return {"q": text, "format": "json", "pageno": str(page)}

    def keyed(self, key: str) -> tuple[dict[str, str], dict[str, str]]:
        return {}, {"Authorization": f"Bearer {key}"}

    def refused(self) -> str:
        return "Enable the format json in the server's settings (search.formats)."


def shortened(text: str, words: int, characters: int) -> str:
    """`text` cut between words, so that a service takes it."""
    text = " ".join(text.split()[:words])
    return (
        text
        if len(text) <= characters
        else text[:characters].rpartition(" ")[0] or text[:characters]
    )


def _json(text: str) -> Any:
    import json

    return json.loads(text)


def _without_address(record: logging.LogRecord) -> bool:
    """Passes no line of httpx that names an address with a query."""
    return "?" not in record.getMessage()
