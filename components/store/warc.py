"""Pages kept as they were fetched: a WARC file (ISO 28500) and an index of what is in it.

    pages.warc.gz    one `response` record a URL, each its own gzip member
    pages.jsonl      one line a URL, failures included: what `Archive` knows without reading pages

The WARC file is written first. What stands whole at its end without a line in the index, as after
kill -9, is found again when the archive is opened; a torn record is cut off. Other tools (warcio,
pywb) read the file as it is. Bodies keep the compression in which they came, not the chunks.
"""

from __future__ import annotations

import contextlib
import datetime
import http.client
import io
import os
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import filelock

from components.errors import ClaimflowError
from components.files import disk_error
from components.records import Record, decode, encode
from components.store.addresses import page_url

_HEADERS = ("content-length", "transfer-encoding")  # of the way here, not of the page
_BLOCK = 2**16


class Reply(Record):
    """What came of one request for one URL; the page lies at byte `at` of the WARC file.

    status: of HTTP, None where nothing was answered or the answer not taken; then `error` says
    why. location: where a redirect leads. type: the header Content-Type, as sent.
    """

    url: str
    fetched: datetime.datetime
    status: int | None = None
    type: str = ""
    location: str | None = None
    error: str | None = None
    at: int | None = None
    length: int = 0  # bytes of the record


class Archive:
    """Replies kept in a folder, at most one a URL. One process at a time writes to it.

    Use it in `with`. Memory: the URLs, with where their line stands; pages are read when asked for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "pages.warc.gz"
        self.index = folder / "pages.jsonl"
        self._lines: dict[str, int] = {}  # where the last line of a URL begins
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._held = filelock.FileLock(folder / ".lock", blocking=False)
        self.open = False

    def __enter__(self) -> Archive:
        try:
            self._held.acquire()
        except filelock.Timeout:
            raise ClaimflowError(
                f"Another process is fetching into {self.folder}: wait for it, or give another "
                "folder."
            ) from None
        try:
            self._recover()
            self._pages = open(self.file, "ab")
            self._index = open(self.index, "ab")
            self._reader = open(self.index, "rb")
        except BaseException:
            self._held.release()
            raise
        if not self._pages.tell():
            with self._whole(self._pages):
                writer = _writer(self._pages)
                info = {"software": "claimflow", "format": "WARC File Format 1.1"}
                writer.write_record(writer.create_warcinfo_record(self.file.name, info))
        self.open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.open = False
        for file in (self._pages, self._index, self._reader):
            file.close()
        self._held.release()

    def __contains__(self, url: str) -> bool:
        return url in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, url: str) -> Reply | None:
        """What is known of a URL."""
        at = self._lines.get(url)
        if at is None:
            return None
        with self._lock:
            self._reader.seek(at)
            return decode(self._reader.readline(), Reply)

    def add(
        self, reply: Reply, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None
    ) -> Reply:
        """Keep a reply with its page (None: there is none to keep). Returns it with its place.

        Raises ClaimflowError when the disk is full; the archive stays whole.
        """
        with self._lock:
            if body is not None:
                reply.at = self._pages.tell()
                with self._whole(self._pages):
                    _write(self._pages, reply, headers, body)
                reply.length = self._pages.tell() - reply.at
            self._note(self._index, reply)
            return reply

    def body(self, url: str, at: int, limit: int) -> bytes:
        """The page of a URL at byte `at`, unpacked. Raises ClaimflowError where it is not there,
        can't be unpacked or is longer than `limit` bytes."""
        from warcio.exceptions import ArchiveLoadFailed

        with open(self.file, "rb") as file:
            file.seek(at)
            try:
                record = next(_records(file), None)
            except ArchiveLoadFailed:
                record = None
            if record is None or record.rec_headers.get_header("WARC-Target-URI") != url:
                raise ClaimflowError(
                    f"{self.file} was changed: {url} is not where it was. Delete {self.index}: it "
                    "is made again from the pages."
                )
            data = record.raw_stream.read()
            return unpacked(data, record.http_headers.get_header("Content-Encoding") or "", limit)

    def take(self, path: Path, limit: int) -> int:
        """Keep the pages of another WARC file (gzip or plain) that have at most `limit` bytes, as
        if they had been fetched; the number of new ones. Of one URL the first stays.

        Raises ClaimflowError where the file can't be read; what came before stays.
        """
        from warcio.exceptions import ArchiveLoadFailed

        known = len(self)
        try:
            with open(path, "rb") as file:
                for record in _records(file):
                    if record.rec_type != "response" or not record.http_headers:
                        continue
                    if int(record.rec_headers.get_header("Content-Length") or 0) > limit:
                        continue
                    try:
                        reply = _reply(record)
                        reply.url = page_url(reply.url)
                    except (
                        ClaimflowError,
                        ValueError,
                        TypeError,
                    ):  # a record without what it must have
                        continue
                    if reply.url not in self:
                        self.add(reply, record.http_headers.headers, _plain_body(record))
        except (OSError, ArchiveLoadFailed, zlib.error) as error:
            raise ClaimflowError(
                f"Can't read {path} as a WARC file: {error}. Give a whole .warc or .warc.gz."
            ) from error
        return len(self) - known

    # Files that are whole

    @contextlib.contextmanager
    def _whole(self, file: BinaryIO) -> Iterator[None]:
        """Flush what is written, or take it all back."""
        start = file.tell()
        try:
            yield
            file.flush()
        except BaseException as error:
            with contextlib.suppress(OSError):  # what is left in the buffer
                file.flush()
            os.truncate(file.fileno(), start)
            file.seek(start)
            if isinstance(error, OSError):
                raise disk_error(error, self.folder) from error
            raise

    def _note(self, index: BinaryIO, reply: Reply) -> None:
        start = index.tell()
        with self._whole(index):
            index.write(encode(reply) + b"\n")
        self._lines[reply.url] = start

    def _recover(self) -> None:
        """Read the index, and let both files end with the last whole record."""
        self._lines.clear()
        size = self.file.stat().st_size if self.file.exists() else 0
        end = good = 0
        if self.index.exists():
            with open(self.index, "rb") as file:
                for number, line in enumerate(file, 1):
                    if not line.endswith(b"\n"):
                        break  # torn
                    try:
                        reply: Reply = decode(line, Reply)
                    except ValueError as error:
                        raise ClaimflowError(
                            f"{self.index}, line {number}: {error}. Delete the file: it is made "
                            "again from the pages."
                        ) from error
                    if reply.at is not None:
                        if reply.at + reply.length > size:
                            break  # the machine went down before the page was on disk
                        end = max(end, reply.at + reply.length)
                    self._lines[reply.url] = good
                    good += len(line)
            os.truncate(self.index, good)
        if size == end:
            return
        with open(self.index, "ab") as index, open(self.file, "rb") as pages:
            index.seek(0, os.SEEK_END)
            for start, stop, record in _whole_members(pages, end):
                end = stop
                if record.rec_type == "response":
                    reply = _reply(record)
                    reply.at, reply.length = start, stop - start
                    self._note(index, reply)
        os.truncate(self.file, end)


def _writer(file: BinaryIO) -> Any:
    from warcio.warcwriter import WARCWriter

    return WARCWriter(file, gzip=True, warc_version="1.1")


def _records(file: BinaryIO) -> Iterator[Any]:
    from warcio.archiveiterator import ArchiveIterator

    return iter(ArchiveIterator(file))


def _write(file: BinaryIO, reply: Reply, headers: Iterable[tuple[str, str]], body: bytes) -> None:
    from warcio.statusandheaders import StatusAndHeaders

    reason = http.client.responses.get(reply.status or 0, "")
    kept = [(name, value) for name, value in headers if name.lower() not in _HEADERS]
    kept.append(("Content-Length", str(len(body))))
    writer = _writer(file)
    writer.write_record(
        writer.create_warc_record(
            reply.url,
            "response",
            payload=io.BytesIO(body),
            length=len(body),
            http_headers=StatusAndHeaders(f"{reply.status} {reason}", kept, "HTTP/1.1"),
            warc_headers_dict={
                "WARC-Date": reply.fetched.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        )
    )


def _reply(record: Any) -> Reply:
    """What the index says of a `response` record."""
    date = datetime.datetime.fromisoformat(record.rec_headers.get_header("WARC-Date"))
    headers = record.http_headers
    return Reply(
        url=record.rec_headers.get_header("WARC-Target-URI"),
        fetched=date if date.tzinfo else date.replace(tzinfo=datetime.UTC),
        status=int(headers.get_statuscode()),
        type=headers.get_header("Content-Type") or "",
        location=headers.get_header("Location"),
    )


def _plain_body(record: Any) -> bytes:
    """The body without the chunks of its transfer."""
    from warcio.bufferedreaders import ChunkedDataReader

    stream = record.raw_stream
    if (record.http_headers.get_header("Transfer-Encoding") or "").lower() == "chunked":
        stream = ChunkedDataReader(stream)
    return bytes(stream.read())


def _whole_members(file: BinaryIO, at: int) -> Iterator[tuple[int, int, Any]]:
    """(start, end, record) of the whole gzip members of a WARC file from byte `at` on, up to the
    first that is torn."""
    while True:
        file.seek(at)
        unzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = bytearray()
        stop = at
        while not unzip.eof and (block := file.read(_BLOCK)):
            try:
                text += unzip.decompress(block)
            except zlib.error:
                return
            stop += len(block)
        if not unzip.eof:
            return
        stop -= len(unzip.unused_data)
        record = next(_records(io.BytesIO(text)), None)
        if record is None:
            return
        yield at, stop, record
        at = stop


def unpacked(data: bytes, encodings: str, limit: int) -> bytes:
    """`data` without its content encodings ("gzip", "br", "deflate", or several in the order in
    which they were applied). At most `limit` bytes are made, whatever they are packed into.

    Raises ClaimflowError when it is longer, breaks off, or is none of these.
    """
    for name in reversed([part.strip().lower() for part in encodings.split(",")]):
        if name in ("", "identity", "none"):
            continue
        if not data:  # a reply without a body says how it would be packed
            return data
        try:
            if name in ("gzip", "x-gzip"):
                data = _inflated(data, zlib.MAX_WBITS | 16, limit)
            elif name == "deflate":
                try:
                    data = _inflated(data, zlib.MAX_WBITS, limit)
                except zlib.error:  # many servers leave out the head
                    data = _inflated(data, -zlib.MAX_WBITS, limit)
            elif name == "br":
                data = _unbrotli(data, limit)
            else:
                raise ClaimflowError(f"it is packed as '{name[:20]}', which is not read here")
        except zlib.error as error:
            raise ClaimflowError(f"it can't be unpacked as {name}: {error}") from error
    if len(data) > limit:
        raise ClaimflowError(f"it is longer than {limit} bytes")
    return data


def _inflated(data: bytes, bits: int, limit: int) -> bytes:
    out = bytearray()
    while data:
        unzip = zlib.decompressobj(bits)
        out += unzip.decompress(data, limit + 1 - len(out))
        if len(out) > limit:
            raise ClaimflowError(f"unpacked it is longer than {limit} bytes")
        if not unzip.eof:
            raise zlib.error("it breaks off")
        data = unzip.unused_data
        if bits < zlib.MAX_WBITS | 16 or not data.startswith(b"\x1f\x8b"):
            break  # padding
    return bytes(out)


def _unbrotli(data: bytes, limit: int) -> bytes:
    import brotli

    unpack = brotli.Decompressor()
    out = bytearray()
    try:
        part = unpack.process(data, output_buffer_limit=_BLOCK)
        while part and len(out) <= limit:
            out += part
            part = unpack.process(b"", output_buffer_limit=_BLOCK)
    except brotli.error as error:
        raise ClaimflowError(f"it can't be unpacked as br: {error}") from error
    if len(out) > limit:
        raise ClaimflowError(f"unpacked it is longer than {limit} bytes")
    if not unpack.is_finished():
        raise ClaimflowError("it can't be unpacked as br: it breaks off")
    return bytes(out)
