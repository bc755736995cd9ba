"""Files that are either whole or not there, digests of their content, and what texts are read as:
UTF-8, or UTF-16 where the file begins with its mark."""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import hashlib
import io
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from components.errors import ClaimflowError

ROOT = Path(__file__).resolve().parent.parent


def home() -> Path:
    """Where claimflow keeps its cache, language data and models.

    CLAIMFLOW_HOME if set, else `.claimflow` beside the code.
    """
    return Path(os.environ.get("CLAIMFLOW_HOME") or ROOT / ".claimflow").absolute()


def language_data() -> Path:
    """The folder of WordNet, punkt and stop-words. Raises ClaimflowError when it is not there."""
    folder = home() / "nltk_data"
    if not folder.is_dir():
        raise ClaimflowError(
            f"No language data {folder}: run `make setup`, or `python -m flows.setup`."
        )
    return folder


def digest(data: bytes) -> str:
    """Content digest: BLAKE2b of 16 bytes, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def remembered(key: str, make: Callable[[], str]) -> str:
    """The text that `make()` gives, made once on this machine instead of once a process.

    key: hexadecimal, of all that the text follows from. A text that is lost or damaged is made
    again; a home that can't be written to costs time alone.
    """
    path = home() / "memo" / key[:2] / key
    with contextlib.suppress(OSError, UnicodeDecodeError):
        check, _, text = path.read_text(encoding="utf-8").partition("\n")
        if check == digest(text.encode()):
            return text
    text = make()
    aside = path.with_name(f".{uuid.uuid4().hex}.part")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_text(f"{digest(text.encode())}\n{text}", encoding="utf-8")
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    return text


LARGE = 2**20  # bytes: of smaller files the digest is found as fast as remembered
SETTLED = 2.0  # seconds: a file written since could be written again at the same time of its clock


@functools.lru_cache(maxsize=65536)
def _digest_at(path: str, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> str:
    def read() -> str:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()

    if size < LARGE or time.time() - max(mtime_ns, ctime_ns) / 1e9 < SETTLED:
        return read()
    state = f"{os.path.abspath(path)} {size} {mtime_ns} {ctime_ns} {inode}"
    return remembered(digest(state.encode()), read)


def file_digest(path: Path) -> str:
    """Digest of a file's content.

    Remembered, of a large file on this machine and else in this process, while size, times and
    inode stay; ctime can't be set back by hand, so an edit in place is always seen.
    """
    try:
        s = path.stat()
        return _digest_at(str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
    except OSError as error:  # it went while a folder was read, or may not be read
        raise ClaimflowError(f"Can't read {path}: {error.strerror}.") from error


def folder_digest(folder: Path) -> str:
    """Digest of the names and contents of all files below `folder`, through links too.

    Raises ClaimflowError for a link to a folder that it stands in.
    """
    files = sorted(_files(folder, ()))
    listing = "\n".join(f"{p.relative_to(folder).as_posix()} {file_digest(p)}" for p in files)
    return digest(listing.encode())


def _files(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if real in above:
        raise ClaimflowError(f"{folder} is a link to a folder that it stands in: take it out.")
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(Path(entry.path), (*above, real))
            elif entry.is_file():
                yield Path(entry.path)


def write_whole(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write beside `path`, flush, then rename: readers see the old file or the new one.

    data: the bytes, or pieces of them; where these stop with an error, nothing is written.
    Raises ClaimflowError when the disk is full; no partial file stays behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except OSError as error:
        Path(aside).unlink(missing_ok=True)
        raise disk_error(error, path) from error
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def whole_folder(to: Path) -> Iterator[Path]:
    """A folder beside `to` to be filled, which takes its place at the end: who is killed before
    leaves `to` as it was, or for a moment none, but never a part of it."""
    part, old = (to.with_name(f".{to.name}.{name}") for name in ("part", "old"))
    for left in (part, old):
        shutil.rmtree(left, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        yield part
        if to.exists():
            to.rename(old)
        part.rename(to)
    finally:  # after an error the part is there, else what it took the place of
        shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def disk_error(error: OSError, path: Path) -> Exception:
    """A ClaimflowError for a full disk or quota, else the error itself."""
    cut = error.errno is None and "requested and" in str(error)  # numpy says no more of it
    if cut or error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ClaimflowError(
            f"No space left to write {path}. Free some there (a cache by `python -m flows.cache "
            "clean age=7d cache=FOLDER`), then start again: finished work is kept."
        )
    return error


# Files that are given


def check_file(path: Path, what: str) -> None:
    """Raise ClaimflowError where there is no file, or a folder in its place."""
    if path.is_dir():
        raise ClaimflowError(f"{what} {path} is a folder: name a file in it.")
    if not path.is_file():
        raise ClaimflowError(f"No {what} {path.absolute()}.")


# What files begin with that are no text, and what to do with them.
_BINARY = {
    codecs.BOM_UTF32_LE: "is UTF-32: save it as UTF-8 (`iconv -f UTF-32 -t UTF-8`)",
    codecs.BOM_UTF32_BE: "is UTF-32: save it as UTF-8 (`iconv -f UTF-32 -t UTF-8`)",
    b"\x1f\x8b": "is compressed (gzip): unpack it",
    b"BZh": "is compressed (bzip2): unpack it",
    b"\xfd7zXZ": "is compressed (xz): unpack it",
    b"\x28\xb5\x2f\xfd": "is compressed (Zstandard): unpack it",
    b"PK\x03\x04": "is a ZIP archive or a spreadsheet: unpack it, or save it as CSV",
    b"%PDF": "is a PDF",
    b"SQLite format 3": "is an SQLite database: export what is needed",
    b"version https://git-lfs": "is a pointer of Git LFS: fetch the file (`git lfs pull`)",
}


def check_kind(path: Path) -> None:
    """Raise ClaimflowError for a file that is known to be no text, whatever its name ends in."""
    with open(path, "rb") as file:
        start = file.read(24)
    for mark, kind in _BINARY.items():
        if start.startswith(mark):
            raise ClaimflowError(f"{path} {kind}.")


# Text files


def encoding_of(path: Path) -> str:
    """ "utf-16" where the file begins with its mark, else "utf-8-sig"."""
    with open(path, "rb") as file:
        start = file.read(2)
    return "utf-16" if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"


def encoding_fault(path: Path) -> tuple[int, str] | None:
    """(line, what is there) where a file first is no text in the encoding that it is read in; None
    for one that is."""
    decoder = codecs.getincrementaldecoder(encoding_of(path))()
    line = 1
    with open(path, "rb") as file:
        while True:
            data = file.read(2**22)
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                line += error.object[: error.start].count(b"\n")
                return line, f"byte {error.object[error.start]:#04x} is no UTF-8"
            if (at := text.find("\0")) >= 0:
                return line + text.count("\n", 0, at), "a NUL character"
            line += text.count("\n")
            if not data:
                return None


def unmarked_utf16(path: Path) -> str | None:
    """ "UTF-16LE" or "UTF-16BE" where every second byte at the start is mostly NUL; else None."""
    with open(path, "rb") as file:
        start = file.read(2048)
    for name, nuls in {"UTF-16LE": start[1::2], "UTF-16BE": start[::2]}.items():
        if encoding_of(path) != "utf-16" and 2 * nuls.count(0) > len(nuls):
            return name
    return None


def check_text(path: Path) -> None:
    """Raise ClaimflowError for a file that is no text, or in another encoding: its letters would be
    taken for others, and figures would be wrong without a word."""
    check_kind(path)
    if encoding := unmarked_utf16(path):
        raise ClaimflowError(
            f"{path}, line 1: UTF-16 without its mark. Save the file as UTF-8 "
            f"(`iconv -f {encoding} -t UTF-8`)."
        )
    if fault := encoding_fault(path):
        line, what = fault
        raise ClaimflowError(
            f"{path}, line {line}: {what}. Save the file as UTF-8 "
            f"(`iconv -f WINDOWS-1252 -t UTF-8`, with the encoding that it is in), without NULs."
        )


def open_text(path: Path) -> TextIO:
    """The text of a file with its line ends as they stand; U+FFFD for what `check_text` refuses."""
    return open(path, encoding=encoding_of(path), errors="replace", newline="")


def open_utf8(path: Path) -> BinaryIO:
    """The bytes of a text file in UTF-8, whatever mark it begins with."""
    if encoding_of(path) == "utf-16":
        return io.BytesIO(path.read_bytes().decode("utf-16", "replace").encode())
    return open(path, "rb")


def beginning(path: Path, size: int = 4096) -> str:
    """The first line of a text that is not blank, cut at `size` characters; else nothing."""
    with open_text(path) as file:
        while line := file.readline(size):
            if line.strip():
                return line.strip()
    return ""
