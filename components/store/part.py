"""A file of documents of a packed store, made of official store files.

Run as a program, a task (JSON) on the standard input gives what was made on the standard output: so
parts are packed on all cores. A parent that is killed does not matter: nothing holds what it did
not rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from components.errors import ClaimflowError
from components.files import disk_error
from components.records import BadLine, Record, decode_line
from components.store.official import LARGE, BadFileError, Source
from components.store.packed import TEXTS, Entry, Form, body, document_schema

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 2**24  # bytes of official lines in a record batch: most claims are one
STYLES = [(ascii, *marks) for marks in ((", ", ": "), (",", ":")) for ascii in (False, True)]
STORE_KEYS = {"url", "url2text", "file"}  # the first line of a store has one at least


class Task(Record):
    """Official files that go into the file of documents with this number."""

    folder: str
    number: int
    sources: list[Source]


class Made(Record):
    """A file of documents that waits, whole, under another name; without entries there is none.
    error: why there is none, where nothing could be written."""

    file: str = ""
    entries: list[Entry] = []
    bad: list[BadLine] = []
    error: str | None = None


def make(task: Task) -> Made:
    """Pack the files of a task. Raises ClaimflowError for a full disk."""
    import pyarrow as pa

    folder = Path(task.folder)
    handle, aside = tempfile.mkstemp(dir=folder, prefix=f".{task.number:05}.", suffix=".part")
    made = Made(file=aside)
    try:
        with open(handle, "wb") as file:
            out = pa.ipc.new_file(file, document_schema())
            first = 0
            for source in task.sources:
                try:
                    entry = _add(source, out, task.number, first)
                except BadFileError as error:
                    line, reason = error.args
                    made.bad.append(BadLine(file=source.name, line=line, reason=str(reason)))
                else:
                    made.entries.append(entry)
                    first += entry.batches
            out.close()
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
    except BaseException as error:
        Path(aside).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise disk_error(error, folder / f"{task.number:05}.arrow") from error
        raise
    if not made.entries:
        Path(aside).unlink()
    return made


def _add(source: Source, out: pa.RecordBatchFileWriter, part: int, first: int) -> Entry:
    """Append a file. Raises BadFileError before anything of it is written."""
    reading = _Reading(source)
    batches: Iterable[pa.RecordBatch] = reading.batches()
    if source.size <= LARGE:
        batches = list(batches)
    else:
        for _ in batches:
            pass
        reading = _Reading(source)
        batches = reading.batches()
    number = 0
    for number, batch in enumerate(batches, 1):  # noqa: B007
        out.write_batch(batch)
    return Entry(
        claim=source.claim,
        file=Path(source.name).name,
        source=source.name,
        size=reading.size,
        stamp=source.stamp,
        digest=reading.seen.hexdigest(),
        documents=reading.documents,
        sentences=reading.sentences,
        part=part,
        first=first,
        batches=number,
        forms=list(reading.forms),
    )


class _Reading:
    """An official file, turned into record batches. What it counts holds when all are made."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.seen = hashlib.blake2b(digest_size=16)
        self.documents = self.sentences = self.size = 0
        self.style = STYLES[0]  # of the last line
        self.forms: dict[str, int] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises BadFileError at the first line that is no record."""
        rows: list[dict[str, Any]] = []
        held = 0
        for number, piece, text in self.source.pieces():
            try:
                record = decode_line(text, dict[str, Any])
                rows.append(self._row(number, piece, record))
            except (ValueError, RecursionError) as error:
                raise BadFileError(number, error) from None
            if not self.documents and not STORE_KEYS & set(record):
                raise BadFileError(number, "no store of a claim: it has neither url nor url2text")
            self.seen.update(piece)
            self.size += len(piece)
            self.documents += 1
            self.sentences += len(rows[-1].get("url2text") or [])
            held += len(piece)
            if held >= BATCH:
                yield _batch(rows)
                rows, held = [], 0
        if rows:
            yield _batch(rows)
        if not self.documents:
            raise BadFileError(1, "is empty")

    def _row(self, number: int, piece: bytes, record: dict[str, Any]) -> dict[str, Any]:
        row = {key: value for key, value in record.items() if _fits(key, value)}
        extra = {key: value for key, value in record.items() if key not in row}
        form = self._form(piece, record)
        return row | {
            "claim": self.source.claim,
            "line": number,
            "extra": json.dumps(extra, ensure_ascii=False) if extra else None,
            "form": form,
            "raw": piece if form is None else None,
        }

    def _form(self, piece: bytes, record: dict[str, Any]) -> int | None:
        """The number of the form that gives the piece back to the byte, or None."""
        end = piece[len(body(piece)) :].decode("latin-1")
        for style in dict.fromkeys((self.style, *STYLES)) if piece.startswith(b"{") else ():
            form = Form(*style, end, list(record))
            if form.write(record) == piece:
                self.style = style
                return self.forms.setdefault(json.dumps(form), len(self.forms))
        return None


def _fits(key: str, value: Any) -> bool:
    """Whether the column of a key gives the value back."""
    if key == "claim_id":
        return value is None or (type(value) is int and -(2**63) <= value < 2**63)
    if key == "url2text":
        return value is None or (type(value) is list and set(map(type, value)) <= {str})
    return key in TEXTS and (value is None or type(value) is str)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = document_schema()
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.record_batch(columns, schema=schema)


if __name__ == "__main__":
    try:
        done = make(msgspec.json.decode(sys.stdin.buffer.read(), type=Task))
    except ClaimflowError as problem:
        done = Made(error=str(problem))
    with contextlib.suppress(BrokenPipeError):  # the parent was killed
        sys.stdout.buffer.write(msgspec.json.encode(done))
