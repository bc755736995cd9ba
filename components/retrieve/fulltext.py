"""Full-text search of a database: SQLite's FTS5."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.cache import key_of
from components.errors import ClaimflowError
from components.retrieve.search import Search
from components.step import Context
from components.text import check_terms, terms, well_formed

if TYPE_CHECKING:
    import numpy as np

_TOKENIZERS = ("porter unicode61", "unicode61", "trigram")


@dataclasses.dataclass(kw_only=True)
class FullText(Search):
    """SQLite's FTS5, ranked by its own BM25 (k1 1.2, b .75). Stands for the full-text half of
    systems that search a database (OldJoe, AVeriTeC 2025, has Postgres').

    match: "any" of the query's words, or "all" of them, as Postgres' plainto_tsquery asks.
    tokenizer: "porter unicode61" (Porter stems), "unicode61" or "trigram" (any three letters in a
    row). stopwords: words left out of the query, see `components.text.terms`.
    """

    match: str = "any"
    tokenizer: str = "porter unicode61"
    stopwords: str | None = "english"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.match not in ("any", "all"):
            raise ClaimflowError(f"No match '{self.match}': choose any or all.")
        if self.tokenizer not in _TOKENIZERS:
            raise ClaimflowError(
                f"No tokenizer '{self.tokenizer}': choose {', '.join(_TOKENIZERS)}."
            )
        check_terms(self.stopwords, None)

    def index(self, store: str, texts: list[str], ctx: Context) -> Any:
        def build(folder: Path) -> None:
            with contextlib.closing(sqlite3.connect(folder / "index.sqlite")) as base:
                base.execute(f"CREATE VIRTUAL TABLE p USING fts5(t, tokenize='{self.tokenizer}')")
                rows = enumerate(map(well_formed, texts))
                base.executemany("INSERT INTO p(rowid, t) VALUES (?, ?)", rows)
                base.execute("INSERT INTO p(p) VALUES ('optimize')")
                base.commit()

        # SQLite comes with Python, so its version is none of a package.
        key = key_of(self.index_key(store, "match", "stopwords"), sqlite3.sqlite_version)
        artifact = ctx.cache.artifact(key, build)
        return Path(artifact.path) / "index.sqlite", len(texts)

    def scores(self, index: Any, queries: list[str], ctx: Context) -> Iterator[np.ndarray]:
        import numpy as np

        file, size = index
        where = f"{file.as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(where, uri=True)) as base:
            for words in terms(queries, self.stopwords, None):
                scores = np.full(size, -np.inf)
                if words:
                    operator = " OR " if self.match == "any" else " AND "
                    wanted = operator.join(f'"{word}"' for word in dict.fromkeys(words))
                    rows = base.execute("SELECT rowid, -rank FROM p WHERE p MATCH ?", (wanted,))
                    for row, score in rows:
                        scores[row] = score
                yield scores
