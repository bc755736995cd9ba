"""Make a packed store (see `components.store.packed`) of official store files, one a claim.

A file of documents is written aside and renamed when it is whole, and holds only once claims.arrow,
which is replaced at one blow, names its claims. Whatever else a killed process left is thrown away
by the next one, which goes on from there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import msgspec

from components.errors import ClaimflowError
from components.files import disk_error, write_whole
from components.records import BadLine, decode_line
from components.store.official import LARGE, BadFileError, Source, find, natural
from components.store.packed import (
    TEXTS,
    Entry,
    Form,
    Packed,
    body,
    claim_schema,
    document_schema,
    open_packed,
)

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 2**24  # bytes of official lines in a record batch: most claims are one
STYLES = [(ascii, *marks) for marks in ((", ", ": "), (",", ":")) for ascii in (False, True)]
STORE_KEYS = {"url", "url2text", "file"}  # the first line of a store has one at least


class Packer:
    """Packs the official files below `path` (a folder or a zip file, zips in folders too) into the
    folder `to`, or goes on where an earlier one was stopped. Iterate over it: each file is yielded
    when it is packed, was packed before, or turned out bad.

    part: bytes of official files that go into one file of documents; a kill can cost as much work.
    kept: how many files were packed before. bad: files that can't be packed, with line and reason.
    Raises ClaimflowError where `path` has no files or two of one claim, where `to` holds something
    else or another state of a file, and while another process packs into it.
    """

    def __init__(self, path: Path, to: Path, part: int = 2**28) -> None:
        self.to = to
        self.limit = part
        self.kept = 0
        self.bad: list[BadLine] = []
        self.sources = find(path, self.bad)
        if to.is_dir() and not open_packed(to) and any(p.name != ".lock" for p in to.iterdir()):
            raise ClaimflowError(f"{to.absolute()} holds other files: give an empty folder.")

    def __iter__(self) -> Iterator[Source]:
        self.to.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.to / ".lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise ClaimflowError(
                f"Another process packs into {self.to.absolute()}: wait until it is done."
            ) from None
        try:
            yield from self._run(self._begin())
        finally:
            lock.release()

    def _begin(self) -> dict[str, Entry]:
        """What is packed and whole; all else among the documents is removed."""
        packed = open_packed(self.to)
        if packed is None:
            self._write({})
            packed = Packed(self.to)
        needed: dict[str, int] = {}
        for e in packed.claims.values():
            path = packed.part(e.claim)
            needed[path] = max(needed.get(path, 0), e.first + e.batches)
        whole = {path for path, batches in needed.items() if _batches(path) >= batches}
        entries = {c: e for c, e in packed.claims.items() if packed.part(e.claim) in whole}
        if len(entries) < len(packed.claims):  # before a new file takes the name of a torn one
            self._write(entries)
        (self.to / "documents").mkdir(exist_ok=True)
        for file in (self.to / "documents").iterdir():
            if re.fullmatch(r"\.?\d+\.arrow(\.part)?", file.name) and str(file) not in whole:
                file.unlink()
        return entries

    def _run(self, entries: dict[str, Entry]) -> Iterator[Source]:
        todo = []
        for source in self.sources:
            known = entries.get(source.claim)
            if known is None:
                todo.append(source)
            elif known.stamp != source.stamp and known.digest != source.digest():
                raise ClaimflowError(
                    f"{self.to.absolute()} holds claim {source.claim} as it stood before "
                    f"{source.name} changed: pack into a new folder."
                )
            else:
                self.kept += 1
                yield source
        number = max((e.part for e in entries.values()), default=-1) + 1
        while todo:
            part = _Part(self.to, number)
            try:
                while todo and part.size < self.limit:
                    source = todo.pop(0)
                    try:
                        part.add(source)
                    except BadFileError as error:
                        line, reason = error.args
                        self.bad.append(BadLine(file=source.name, line=line, reason=str(reason)))
                    yield source
                if part.entries:
                    part.keep()
                    entries |= {entry.claim: entry for entry in part.entries}
                    self._write(entries)
            except OSError as error:
                raise disk_error(error, part.path) from error
            finally:
                part.close()
            number += 1

    def _write(self, entries: dict[str, Entry]) -> None:
        import pyarrow as pa

        rows = [msgspec.structs.asdict(entries[claim]) for claim in sorted(entries, key=natural)]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, claim_schema()) as out:
            out.write_table(pa.Table.from_pylist(rows, claim_schema()))
        write_whole(self.to / "claims.arrow", sink.getvalue().to_pybytes())


def _batches(path: str) -> int:
    """How many record batches a file of documents has; -1 where it is not whole."""
    import pyarrow as pa

    try:
        with pa.memory_map(path) as file:
            return pa.ipc.open_file(file).num_record_batches
    except (OSError, pa.ArrowInvalid):
        return -1


class _Part:
    """A file of documents that is being written. entries: its claims. size: in official bytes."""

    def __init__(self, to: Path, number: int) -> None:
        import pyarrow as pa

        self.number = number
        self.path = to / "documents" / f"{number:05}.arrow"
        self.aside = self.path.with_name(f".{self.path.name}.part")
        self.file = open(self.aside, "wb")  # noqa: SIM115
        self.out = pa.ipc.new_file(self.file, document_schema())
        self.entries: list[Entry] = []
        self.size = self.batches = 0

    def add(self, source: Source) -> None:
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
        first = self.batches
        for batch in batches:
            self.out.write_batch(batch)
            self.batches += 1
        self.size += reading.size
        self.entries.append(
            Entry(
                claim=source.claim,
                file=Path(source.name).name,
                source=source.name,
                size=reading.size,
                stamp=source.stamp,
                digest=reading.seen.hexdigest(),
                documents=reading.documents,
                sentences=reading.sentences,
                part=self.number,
                first=first,
                batches=self.batches - first,
                forms=list(reading.forms),
            )
        )

    def keep(self) -> None:
        """Put the file under its name."""
        self.out.close()
        self.file.flush()
        os.fsync(self.file.fileno())
        os.replace(self.aside, self.path)

    def close(self) -> None:
        """Remove what was not kept."""
        with contextlib.suppress(OSError):  # a full disk, when the rest is written
            self.file.close()
        self.aside.unlink(missing_ok=True)


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
