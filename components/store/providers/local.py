"""A search engine over given documents: a stand-in for the web."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from components.cache import key_of
from components.datasets.dates import parse_date
from components.errors import ClaimflowError
from components.files import file_digest
from components.records import Document, Record, read_lines
from components.retrieve.bm25 import Bm25s
from components.step import Context, identity
from components.store.extract import extract
from components.store.guard import url_date
from components.store.providers.base import Provider, Result
from components.urls import same_url


class _Line(Record):
    """A line of a store, as far as a search engine reads it."""

    url: str | None = None
    url2text: list[str] | str | None = None
    title: str | None = None
    date: str | None = None
    lang: str | None = None
    file: str | None = None


@dataclasses.dataclass(kw_only=True)
class Local(Provider):
    """BM25 over documents on disk, titles and text. Pages dated after the claim are not found.

    documents: a store in the official layout (or any lines with url and url2text), or a folder of
    them; raw pages that a line names as `file` lie beside the folder. A page that stands in several
    stores is one page, the first with text.
    """

    has_text: ClassVar = True

    documents: Path

    def check(self) -> None:
        if not Path(self.documents).exists():
            raise ClaimflowError(
                f"provider.documents={self.documents}: there is no such thing. Give a store file, "
                "or a folder of them."
            )

    def results(self, query: str, until: datetime.date | None, ctx: Context) -> Iterator[Result]:
        import numpy as np

        documents, index = self._opened(ctx)
        for scores in Bm25s().scores(index, [query], ctx):
            for at in np.argsort(-scores, kind="stable"):
                if scores[at] == -np.inf:
                    return
                document = documents[at]
                assert document.url
                date = document.date or url_date(document.url)
                if not (until and date and date > until):
                    yield Result(url=document.url, title=document.title, date=date)

    def document(self, url: str, ctx: Context) -> Document | None:
        return self._by_url(ctx).get(same_url(url))

    def _opened(self, ctx: Context) -> tuple[list[Document], Any]:
        def load() -> tuple[list[Document], Any]:
            documents = list(self._by_url(ctx).values())
            texts = [
                " ".join([document.title or "", *document.sentences]) for document in documents
            ]
            return documents, Bm25s().index(key_of(texts), texts, ctx)

        found: tuple[list[Document], Any] = ctx.loaded(self._key("index", ctx), load)
        return found

    def _by_url(self, ctx: Context) -> dict[str, Document]:
        found: dict[str, Document] = ctx.loaded(self._key("documents", ctx), self._read)
        return found

    def versions(self, ctx: Context) -> list[str]:
        """Names and digests of the raw pages that lines name; of one that is not there, its name
        alone."""
        folder = Path(self.documents)
        named: list[str] = ctx.loaded(
            key_of(repr(type(self)), "pages", identity(folder)),
            lambda: sorted({line.file for _, _, line in self._lines() if line.file}),
        )
        paths = [(name, folder.parent / name) for name in named]
        return [f"{name} {file_digest(path) if path.is_file() else ''}" for name, path in paths]

    def _key(self, what: str, ctx: Context) -> str:
        self.check()
        return key_of(repr(type(self)), what, identity(Path(self.documents)), self.versions(ctx))

    def _lines(self) -> Iterator[tuple[Path, int, _Line]]:
        """(file, line number, line) of every store."""
        folder = Path(self.documents)
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.json*")):
            for number, line in read_lines(path, _Line):
                yield path, number, line

    def _read(self) -> dict[str, Document]:
        folder = Path(self.documents)
        found: dict[str, Document] = {}
        for path, number, line in self._lines():
            try:
                document = _document(line, folder.parent)
            except (ClaimflowError, OSError) as error:
                raise ClaimflowError(f"{path}, line {number}: {error}") from error
            if document.url and document.sentences:
                found.setdefault(same_url(document.url), document)
        if not found:
            raise ClaimflowError(
                f"provider.documents={folder} has no page with an address and text: give a store "
                "file, or a folder of them."
            )
        return found


def _document(line: _Line, folder: Path) -> Document:
    text = line.url2text or []
    document = Document(
        id=line.url or "",
        url=line.url,
        title=line.title,
        date=parse_date(line.date),
        lang=line.lang,
        sentences=(text,) if isinstance(text, str) else tuple(text),
    )
    if line.file:
        page = extract((folder / line.file).read_bytes(), line.lang)
        return msgspec.structs.replace(
            document,
            sentences=tuple(page.sentences),
            title=document.title or page.title,
            date=document.date or page.date,
            checked=tuple(page.checked),
        )
    return document
