"""Files that are either whole or not there, and digests of their content."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from components.errors import ClaimflowError

ROOT = Path(__file__).resolve().parent.parent


def home() -> Path:
    """Where claimflow keeps its cache, language data and models.

    CLAIMFLOW_HOME if set, else `.claimflow` beside the code.
    """
    return Path(os.environ.get("CLAIMFLOW_HOME") or ROOT / ".claimflow").absolute()


def digest(data: bytes) -> str:
    """Content digest: BLAKE2b of 16 bytes, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@functools.lru_cache(maxsize=65536)
def _digest_at(path: str, size: int, mtime_ns: int, ctime_ns: int, inode: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def file_digest(path: Path) -> str:
    """Digest of a file's content.

    Remembered in this process while size, times and inode stay; ctime can't be set back by hand,
    so an edit in place is always seen.
    """
    try:
        s = path.stat()
        return _digest_at(str(path), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
    except OSError as error:  # it went while a folder was read, or may not be read
        raise ClaimflowError(f"Can't read {path}: {error.strerror}.") from error


def folder_digest(folder: Path) -> str:
    """Digest of the names and contents of all files below `folder`."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    listing = "\n".join(f"{p.relative_to(folder).as_posix()} {file_digest(p)}" for p in files)
    return digest(listing.encode())


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


def disk_error(error: OSError, path: Path) -> Exception:
    """A ClaimflowError for a full disk or quota, else the error itself."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ClaimflowError(
            f"No space left to write {path}. Free some (`python -m flows.cache clean age=7d`), "
            "then start again: finished work is kept."
        )
    return error
