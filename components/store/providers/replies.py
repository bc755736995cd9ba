"""Replies of search services, kept on disk: a store can be built again without a new request."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from components.cache import key_of
from components.errors import ClaimflowError
from components.files import file_digest
from components.records import Record, decode, encode, read_lines
from components.step import Context
from components.store.providers.base import Provider, QueryError, Result, day


class Reply(Record):
    """One reply: what was asked, without the key, and the body word for word.

    shape: whose reply it is (SHAPES). page: of the results, from 1. at: UTC time.
    """

    shape: str
    query: str
    until: datetime.date | None = None
    page: int = 1
    url: str | None = None
    params: dict[str, str] = {}
    at: str | None = None
    body: Any = None


class Replies:
    """The file of replies, JSON lines: read once, then only added to."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, int]] = {}  # key of a request to (offset, bytes)
        if file.exists():
            self._index()

    def _index(self) -> None:
        at = 0
        with open(self.file, "rb") as lines:
            for line in lines:
                try:
                    reply: Reply = decode(line, Reply)
                    self._known[request_key(reply)] = (at, len(line))
                except msgspec.MsgspecError:
                    if line.endswith(b"\n"):
                        raise ClaimflowError(
                            f"{self.file}: what begins at byte {at} is no kept reply. Take the "
                            "line out: it is asked for again."
                        ) from None
                    os.truncate(self.file, at)  # a killed writer's last line
                at += len(line)

    def get(self, asked: Reply) -> Any:
        """The body that was kept for a request, or None."""
        with self._lock:
            found = self._known.get(request_key(asked))
        if not found:
            return None
        with open(self.file, "rb") as file:
            file.seek(found[0])
            return decode(file.read(found[1]), Reply).body

    def put(self, reply: Reply) -> None:
        """Keep a reply, flushed to disk."""
        line = encode(reply) + b"\n"
        with self._lock:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with open(self.file, "ab") as file:
                at = file.seek(0, os.SEEK_END)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            self._known[request_key(reply)] = (at, len(line))


def request_key(reply: Reply) -> str:
    """What a request is known by: where it went and what it said."""
    return key_of(reply.shape, reply.url, reply.params, reply.query, str(reply.until), reply.page)


# What the services send


def read_google(body: Any) -> list[Result]:
    """Results of Google's Custom Search JSON API."""
    found = []
    for item in body.get("items", []):
        meta = ((item.get("pagemap") or {}).get("metatags") or [{}])[0]
        date = day(meta.get("article:published_time"))
        found.append(
            Result(
                url=item["link"], title=item.get("title"), snippet=item.get("snippet"), date=date
            )
        )
    return found


def read_brave(body: Any) -> list[Result]:
    """Results of Brave's web search API."""
    return [
        Result(
            url=item["url"],
            title=item.get("title"),
            snippet=item.get("description"),
            date=day(item.get("page_age")),
        )
        for item in (body.get("web") or {}).get("results", [])
    ]


def read_searxng(body: Any) -> list[Result]:
    """Results of a SearXNG server."""
    return [
        Result(
            url=item["url"],
            title=item.get("title"),
            snippet=item.get("content"),
            date=day(item.get("publishedDate")),
        )
        for item in body["results"]
    ]


def read_results(body: Any) -> list[Result]:
    """Results in our own form: a list of objects with url and, if known, title, snippet, date."""
    return msgspec.convert(body, list[Result])


SHAPES: dict[str, Callable[[Any], list[Result]]] = {
    "google": read_google,
    "brave": read_brave,
    "searxng": read_searxng,
    "results": read_results,
}


def read_body(shape: str, body: Any) -> list[Result]:
    """The results in a reply of a shape. Raises QueryError when it is none."""
    try:
        found = SHAPES[shape](body)
        return [result for result in found if result.url.startswith(("http://", "https://"))]
    except (KeyError, TypeError, AttributeError, IndexError, msgspec.ValidationError) as error:
        raise QueryError(
            f"the reply has not the shape of {shape} ({error!r}): {json.dumps(body)[:80]}"
        ) from None


@dataclasses.dataclass(kw_only=True)
class Recorded(Provider):
    """Answers from a file of kept replies alone; nothing is asked.

    file: JSON lines of Reply, written by a web provider or by hand (shape "results"). A query is
    found with the same `until`, else in lines without one. A query that is not there fails.
    """

    file: Path

    def check(self) -> None:
        if not Path(self.file).is_file():
            raise ClaimflowError(
                f"provider.file={self.file}: there is no such file. Give the replies.jsonl that "
                "another provider kept."
            )

    def results(self, query: str, until: datetime.date | None, ctx: Context) -> Iterator[Result]:
        self.check()
        key = key_of(repr(type(self)), file_digest(Path(self.file)))
        known = ctx.loaded(key, self._read)
        replies = known.get((query, until)) or known.get((query, None))
        if replies is None:
            raise QueryError(f"{self.file} has no reply to {query[:80]!r} until {until}")
        for page in sorted(replies):
            yield from read_body(*replies[page])

    def _read(self) -> dict[tuple[str, datetime.date | None], dict[int, tuple[str, Any]]]:
        found: dict[tuple[str, datetime.date | None], dict[int, tuple[str, Any]]] = {}
        for number, reply in read_lines(Path(self.file), Reply):
            if reply.shape not in SHAPES:
                raise ClaimflowError(
                    f"{self.file}, line {number}: no shape '{reply.shape}'. Shapes: "
                    f"{', '.join(SHAPES)}."
                )
            pages = found.setdefault((reply.query, reply.until), {})
            pages[reply.page] = (reply.shape, reply.body)
        return found
