"""Packed stores: the knowledge stores of a whole split as two Arrow tables, read memory-mapped.

    claims.arrow             a row a claim: its official file, size, digest, counts, and where its
                             documents stand
    documents/00000.arrow …  a row a document: claim, line, and a column for each official key

`form` says how the official line is written (an index into the claim's `forms`), `extra` holds as
JSON what no column takes. A line that these don't give back to the byte stands whole in `raw`. So a
store that is written back is what it was, byte by byte, however its files were written.
"""

from __future__ import annotations

import codecs
import functools
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from components.errors import ClaimflowError, nearest
from components.files import file_digest, write_whole
from components.records import Record, decode_line

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = b"1"  # of this layout
TEXTS = ("type", "query", "url", "title", "date", "lang", "file")  # keys with a column of strings


class Entry(Record):
    """A row of claims.arrow: a claim's official file, and the record batches that hold it.

    claim: the file's name without its suffix. source: where the file stood when it was packed.
    stamp: its size and time, or size and checksum inside a zip. digest: of its bytes, as
    `files.digest` gives it. forms: how its lines are written, each a `Form` in JSON.
    """

    claim: str
    file: str
    source: str
    size: int
    stamp: str
    digest: str
    documents: int
    sentences: int
    part: int
    first: int
    batches: int
    forms: list[str]


class Form(NamedTuple):
    """How a line is written: with escapes beyond ASCII or not, its separators, what follows the
    record, and its keys in order."""

    ascii: bool
    item: str
    key: str
    end: str
    keys: list[str]

    def write(self, record: dict[str, Any]) -> bytes:
        """The line of a record, with what follows it."""
        if self.ascii:
            encode = json.JSONEncoder(separators=(self.item, self.key)).encode
            return (encode(record) + self.end).encode()
        item, key = self.item.encode(), self.key.encode()
        fields = item.join(_json(k) + key + _value(v, item) for k, v in record.items())
        return b"{%b}%b" % (fields, self.end.encode())


class Line(msgspec.Struct):
    """A line of an official file: its record, or the line itself in `raw`.

    plain: all values come from columns, which have their types.
    """

    number: int
    record: dict[str, Any]
    form: Form | None
    raw: bytes | None
    plain: bool

    def read(self, type: Any) -> Any:
        """As a record of a type, which has the columns' types where it has their names. Raises
        ValueError (msgspec.ValidationError) where it is none."""
        if self.raw is not None:
            return decode_line(body(self.raw), type)
        if self.plain and (wanted := getattr(type, "__struct_fields__", None)):
            return type(**{key: value for key, value in self.record.items() if key in wanted})
        return msgspec.convert(self.record, type)

    def write(self) -> bytes:
        """As it stands in the official file."""
        return self.form.write(self.record) if self.form else self.raw or b""


def _value(value: Any, item: bytes) -> bytes:
    return b"[%b]" % item.join(map(_json, value)) if type(value) is list else _json(value)


_json = msgspec.json.Encoder().encode  # of texts twice as fast as json's


def body(line: bytes) -> bytes:
    """The record in a line, or in the piece of a list."""
    return line.removeprefix(codecs.BOM_UTF8).strip(b" \t\r\n,[]")


@functools.cache
def claim_schema() -> pa.Schema:
    """The columns of claims.arrow."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "list[str]": pa.list_(pa.string())}
    columns = [(name, kinds[kind]) for name, kind in Entry.__annotations__.items()]
    return pa.schema(columns, metadata={"claimflow": VERSION})


@functools.cache
def document_schema() -> pa.Schema:
    """The columns of documents/*.arrow."""
    import pyarrow as pa

    columns = [
        ("claim", pa.string()),
        ("line", pa.int64()),  # in the official file
        ("claim_id", pa.int64()),
        *((key, pa.string()) for key in TEXTS),
        ("url2text", pa.list_(pa.string())),
        ("extra", pa.string()),
        ("form", pa.int32()),
        ("raw", pa.binary()),
    ]
    return pa.schema(columns, metadata={"claimflow": VERSION})


def open_packed(folder: Path) -> Packed | None:
    """The packed store in a folder, or None where there is none: a folder with claims.arrow is one.
    The list of claims is read once while that file stays.

    Raises ClaimflowError for one that is damaged or of another version.
    """
    try:
        state = _state(f"{folder}/claims.arrow")
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _opened(folder, state)


class Packed:
    """An opened packed store. claims: {claim: its entry}, by claim."""

    def __init__(self, folder: Path) -> None:
        import pyarrow as pa

        self.folder = folder
        try:
            with pa.memory_map(str(folder / "claims.arrow")) as file:
                table = pa.ipc.open_file(file).read_all()
            if (table.schema.metadata or {}).get(b"claimflow") != VERSION:
                raise pa.ArrowInvalid("it has another version")
        except (OSError, pa.ArrowInvalid) as error:
            raise self.damaged(f"{folder}/claims.arrow", error) from error
        self.claims = {row["claim"]: Entry(**row) for row in table.to_pylist()}

    def part(self, claim: str) -> str:
        """The file with the documents of a claim. Raises ClaimflowError for one that isn't here."""
        return f"{self.folder}/documents/{self._entry(claim).part:05}.arrow"

    def official(self, claim: str) -> Path:
        """What names the official file of a claim in messages."""
        return self.folder / self._entry(claim).file

    def batches(self, claim: str) -> list[pa.RecordBatch]:
        """The documents of a claim, in columns. Mapped: what isn't looked at isn't read."""
        from pyarrow import ArrowInvalid

        entry, path = self._entry(claim), self.part(claim)
        try:
            reader = _mapped(path, _state(path))
            batches = [reader.get_batch(entry.first + i) for i in range(entry.batches)]
            for batch in batches:
                batch.validate()
        except (OSError, ArrowInvalid) as error:
            raise self.damaged(path, error) from error
        return batches

    def lines(self, claim: str) -> Iterator[Line]:
        """The official file of a claim, line by line."""
        forms = [Form(*json.loads(form)) for form in self._entry(claim).forms]
        names = {key for form in forms for key in form.keys} | {"line", "form", "extra", "raw"}
        for batch in self.batches(claim):
            try:
                columns = {
                    name: batch.column(name).to_pylist() for name in names & {*batch.schema.names}
                }
            except UnicodeDecodeError as error:
                raise self.damaged(self.part(claim), error) from error
            own = zip(*(columns[name] for name in ("line", "form", "extra", "raw")), strict=True)
            for i, (number, at, text, raw) in enumerate(own):
                if at is None:
                    yield Line(number, {}, None, raw, False)
                    continue
                form = forms[at]
                if text:
                    extra = json.loads(text)
                    record = {k: extra[k] if k in extra else columns[k][i] for k in form.keys}
                else:
                    record = {k: columns[k][i] for k in form.keys}
                yield Line(number, record, form, None, not text)

    def digest(self, claim: str) -> str:
        """Digest of what is kept of a claim; remembered while the file with it stays."""
        path = self.part(claim)
        try:
            return _digest(self, claim, _state(path))
        except OSError as error:
            raise self.damaged(path, error) from error

    def damaged(self, path: str, error: object) -> ClaimflowError:
        """The error for a file that can't be read."""
        return ClaimflowError(
            f"A packed store is damaged: {path} can't be used ({error}). Pack again into a new "
            "folder."
        )

    def _entry(self, claim: str) -> Entry:
        if claim not in self.claims:
            raise ClaimflowError(
                f"The packed store {self.folder.absolute()} has no claim {claim}."
                f"{nearest(claim, self.claims)} It has {len(self.claims)} claims: pack the files "
                "of the others too."
            )
        return self.claims[claim]


def unpack(packed: Packed, to: Path) -> Iterator[Entry]:
    """Write the official files back into the folder `to`, one a claim, each whole or not there;
    those that are there already stay. Yields each claim when it is done.

    Raises ClaimflowError where another file has the name, or what was packed is damaged.
    """
    for entry in packed.claims.values():
        path = to / entry.file
        for left in to.glob(f".{glob.escape(path.name[:40])}.*.part"):  # by one that was killed
            left.unlink()
        if path.exists():
            if file_digest(path) != entry.digest:
                raise ClaimflowError(f"{path} is there with other content: give an empty folder.")
        else:
            write_whole(path, _checked(packed, entry))
        yield entry


def _checked(packed: Packed, entry: Entry) -> Iterator[bytes]:
    seen = hashlib.blake2b(digest_size=16)
    for line in packed.lines(entry.claim):
        text = line.write()
        seen.update(text)
        yield text
    if seen.hexdigest() != entry.digest:
        wrong = f"claim {entry.claim} is not as it was packed"
        raise packed.damaged(packed.part(entry.claim), wrong)


def _state(path: str) -> tuple[int, ...]:
    s = os.stat(path)
    return s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino


@functools.lru_cache(maxsize=64)
def _opened(folder: Path, state: tuple[int, ...]) -> Packed:
    return Packed(folder)


@functools.lru_cache(maxsize=64)
def _mapped(path: str, state: tuple[int, ...]) -> pa.ipc.RecordBatchFileReader:
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(path))


@functools.lru_cache(maxsize=65536)
def _digest(packed: Packed, claim: str, state: tuple[int, ...]) -> str:
    seen = hashlib.blake2b(repr(packed.claims[claim].forms).encode(), digest_size=16)
    for batch in packed.batches(claim):
        for column in batch.columns:
            for buffer in column.buffers():
                seen.update(buffer if buffer is not None else b"-")
    return seen.hexdigest()
