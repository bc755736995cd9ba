"""Official store files, one a claim, read piece by piece: JSON lines or a JSON list, plain or in
zip files."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import hashlib
import io
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.records import BadLine
from components.store.packed import open_packed

LARGE = 2**26  # bytes of the longest line, or list, that is taken: they are held in memory
SUFFIXES = (".json", ".jsonl")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".tgz", ".tar", ".7z", ".rar")
UNPACK = "compressed in a way that is not read here: unpack it first"
UNREADABLE = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)


class BadFileError(Exception):
    """Why a file can't be used: (line, reason)."""


@dataclasses.dataclass
class Source:
    """An official file, the store of a claim.

    file: its path, or that of the zip file with it, in which it is `member`. stamp: size and time,
    or size and checksum in a zip.
    """

    claim: str
    file: str
    size: int
    stamp: str
    member: str = ""

    @property
    def name(self) -> str:
        """Its path, through a zip file if it is in one."""
        return f"{self.file}/{self.member}" if self.member else self.file

    def open(self) -> io.BufferedReader:
        """Its bytes, from the beginning."""
        if not self.member:
            return open(self.file, "rb")
        return io.BufferedReader(_archive(self.file).open(self.member), 2**20)  # type: ignore[arg-type]

    def digest(self) -> str:
        """Digest of its bytes, as `files.digest` gives it; empty where they can't be read."""
        try:
            with self.open() as data:
                seen = hashlib.file_digest(data, lambda: hashlib.blake2b(digest_size=16))
            return seen.hexdigest()
        except UNREADABLE:
            return ""

    def pieces(self) -> Iterator[tuple[int, bytes, bytes]]:
        """(line number, bytes up to the next record, the record in them): together all its bytes.

        Raises BadFileError where it can't be read on.
        """
        line = 1
        try:
            with self.open() as data:
                start = data.peek(256)[:256].removeprefix(codecs.BOM_UTF8).lstrip()
                for line, piece, record in (_items if start[:1] == b"[" else _lines)(data):
                    yield line, piece, record
        except UNREADABLE as error:
            raise BadFileError(line, f"can't be read on from here: {error}") from None


def _lines(data: io.BufferedReader) -> Iterator[tuple[int, bytes, bytes]]:
    """JSON lines. Blank ones go with the record before them."""
    piece, at = bytearray(), 0
    for number, line in enumerate(iter(lambda: data.readline(LARGE + 1), b""), 1):
        blank = not line.strip()
        if at and not blank:
            yield at, bytes(piece), bytes(piece)
            piece, at = bytearray(), 0
        piece += line
        if len(piece) > LARGE:
            raise BadFileError(number, f"a line of more than {LARGE >> 20} MiB")
        if not blank:
            at = number
    if at:
        yield at, bytes(piece), bytes(piece)


def _items(data: io.BufferedReader) -> Iterator[tuple[int, bytes, bytes]]:
    """The items of a JSON list."""
    raw = data.read(LARGE + 1)
    if len(raw) > LARGE:
        raise BadFileError(1, f"a list of more than {LARGE >> 20} MiB: make it JSON lines")
    text = raw.decode("utf-8", "surrogateescape")  # gives every byte back
    start, at, count = 0, _after_gap(text, text.index("[") + 1), 0
    line = 1 + text.count("\n", 0, at)
    if text.startswith("]", at) and _after_gap(text, at + 1) < len(text):
        raise BadFileError(line, "something follows the list, which is empty")
    while not text.startswith("]", at):
        count += 1
        try:
            item, end = _decode(text, at)
        except json.JSONDecodeError as error:
            where = line + text.count("\n", at, error.pos)
            raise BadFileError(where, f"record {count}: {error.msg}") from None
        if not isinstance(item, dict):
            raise BadFileError(line, f"record {count}: Expected `object`")
        after = _after_gap(text, end)
        if text.startswith(",", after):
            after = _after_gap(text, after + 1)
            if text.startswith("]", after):
                raise BadFileError(line, f"record {count}: a comma before the end of the list")
        elif not text.startswith("]", after):
            raise BadFileError(line, f"record {count}: the list breaks off after it")
        last = text.startswith("]", after)
        if last and _after_gap(text, after + 1) < len(text):
            raise BadFileError(line, f"record {count}: something follows the list")
        stop = len(text) if last else after
        yield line, _bytes(text[start:stop]), _bytes(text[at:end])
        line += text.count("\n", at, after)
        start = at = after


def _after_gap(text: str, at: int) -> int:
    return _GAP.match(text, at).end()  # type: ignore[union-attr]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_GAP = re.compile(r"[ \t\r\n]*")  # white space of JSON
_decode: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder().raw_decode


# Finding them


def find(path: Path, bad: list[BadLine]) -> list[Source]:
    """The official files below a folder, or in a zip file, by claim; zip files in the folder count.
    What can't be opened is appended to `bad`.

    Raises ClaimflowError for none, and for two of one claim.
    """
    if not path.exists():
        raise ClaimflowError(f"No {path.absolute()}: give the folder of the official store files.")
    if path.is_dir() and open_packed(path):
        raise ClaimflowError(
            f"{path.absolute()} is a packed store already: use it as dataset.store=…"
        )
    found: dict[str, Source] = {}
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_dir():
            continue
        if file.suffix.lower() in COMPRESSED:
            bad.append(BadLine(file=str(file), line=1, reason=UNPACK))
            continue
        for source in _zipped(file, bad) if file.suffix.lower() == ".zip" else _plain(file, bad):
            other = found.setdefault(source.claim, source)
            if other is not source:
                raise ClaimflowError(
                    f"Two stores for claim {source.claim}: {other.name} and {source.name}. A "
                    "packed store holds one split: give the folder of that."
                )
    if not found and not bad:
        raise ClaimflowError(
            f"{path.absolute()} has no official store files: *.json or *.jsonl, one a claim, or "
            "*.zip with such files."
        )
    return [found[claim] for claim in sorted(found, key=natural)]


def natural(claim: str) -> tuple[int, int, str]:
    """A sort key: numbers by value, then texts."""
    return (0, int(claim), claim) if claim.isdecimal() else (1, 0, claim)


def _store_name(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")  # `._0.json`: macOS


def _plain(file: Path, bad: list[BadLine]) -> list[Source]:
    if not _store_name(file):
        return []
    try:
        s = file.stat()
    except OSError as error:
        bad.append(BadLine(file=str(file), line=1, reason=f"can't be read: {error}"))
        return []
    stamp = f"{s.st_size} {s.st_mtime_ns}"
    return [Source(file.stem, str(file), s.st_size, stamp)]


def _zipped(file: Path, bad: list[BadLine]) -> list[Source]:
    try:
        members = _archive(str(file)).infolist()
    except UNREADABLE as error:
        bad.append(BadLine(file=str(file), line=1, reason=f"can't be read: {error}"))
        return []
    inner = [m for m in members if Path(m.filename).suffix.lower() in (*COMPRESSED, ".zip")]
    bad += [BadLine(file=f"{file}/{m.filename}", line=1, reason=UNPACK) for m in inner]
    return [
        Source(
            Path(m.filename).stem, str(file), m.file_size, f"{m.file_size} {m.CRC:08x}", m.filename
        )
        for m in members
        if _store_name(Path(m.filename))
    ]


@functools.lru_cache(maxsize=4)  # its list of members may be long
def _archive(file: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(file)
