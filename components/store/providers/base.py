"""What every search provider does: answer a query with results from before a day."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Document, Record
from components.step import Context
from components.urls import same_url


class Result(Record):
    """A page that a search found, best first."""

    url: str
    title: str | None = None
    snippet: str | None = None
    date: datetime.date | None = None  # of publication, where the provider says it


class QueryError(ClaimflowError):
    """One query has no answer; others may have."""


class ProviderError(ClaimflowError):
    """No further query will be answered now: quota, key, or a server that is away."""


@dataclasses.dataclass(kw_only=True)
class Provider:
    """Base of all providers. Subclasses add parameters as dataclass fields.

    n: results of a query, at most.
    """

    has_text: ClassVar[bool] = False  # does `document` give the text of what it finds?
    unkeyed: ClassVar[tuple[str, ...]] = ()  # parameters that cannot change a result

    n: int = 10

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ClaimflowError(f"provider.n is {self.n}: give 1 or more results a query.")

    def check(self) -> None:
        """Raise ClaimflowError for what would stop every query: a file or key that is missing."""

    def versions(self, ctx: Context) -> list[str]:
        """Names and digests of files that results come from, beyond those that parameters name."""
        return []

    def results(self, query: str, until: datetime.date | None, ctx: Context) -> Iterable[Result]:
        """What the provider itself says, best first; it looks at `until` where it can."""
        raise NotImplementedError(type(self).__name__)

    def document(self, url: str, ctx: Context) -> Document | None:
        """The text of a page that was found, from a provider that has it."""
        raise NotImplementedError(type(self).__name__)

    def search(self, query: str, until: datetime.date | None, ctx: Context) -> list[Result]:
        """At most `n` results, each page once; none that is dated after `until`.

        Raises QueryError or ProviderError.
        """
        found: dict[str, Result] = {}
        for result in self.results(query, until, ctx):
            if not (until and result.date and result.date > until):
                found.setdefault(same_url(result.url), result)
            if len(found) == self.n:  # before a further page of results is asked for
                break
        return list(found.values())


def day(text: object) -> datetime.date | None:
    """The day at the start of an ISO time, as search services give it; None for anything else."""
    try:
        return datetime.date.fromisoformat(str(text)[:10])
    except ValueError:
        return None
