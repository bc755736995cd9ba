"""Official files of the data sets, by HTTP into the folders where the readers look."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import tarfile
import time
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import filelock
import httpx
import msgspec

from components.errors import ClaimflowError
from components.files import disk_error, write_whole
from components.records import Record, decode, encode

_BLOCK = 2**20
_TRIES = 5
_INFLATION = 100  # times its size that an archive may unpack to: JSON takes a fifth or a tenth
_SMALL = 100 * 2**20  # what any archive may unpack to


class OfficialFile(Record, forbid_unknown_fields=True):
    """A file to get. See conf/fetch.yaml for the fields."""

    url: str
    to: str
    members: str | None = None
    name: str | None = None  # of an archive, where the URL doesn't say it
    split: str | None = None
    learnt: bool = False
    size: int | None = None
    sha256: str | None = None

    @property
    def key(self) -> str:
        """The file's name in the record of what was fetched."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.url).path)
        return (self.name or PurePosixPath(path).name) if self.members else self.to


class Seen(Record):
    """What was fetched for a file: of an archive, its members are what must be there later."""

    url: str
    size: int
    sha256: str
    members: dict[str, Seen] = {}


class Got(Record):
    """What `fetch_files` did for one file. new: fetched now; checked: is it known to be the file
    that is at its URL?"""

    file: OfficialFile
    size: int
    sha256: str
    members: int
    new: bool
    checked: bool = True


def fetch_files(
    files: list[OfficialFile], folder: Path, base: str | None = None, wait: float = 1.0
) -> Iterator[Got]:
    """Get the files into `folder`, one after the other, and say what was done for each.

    base: scheme and host (and the start of a path) to ask in place of the official ones, such as a
    mirror of the same layout. wait: seconds before a broken transfer is taken up again, doubled
    each time. A transfer goes on where it stopped, in this run or a later one, if the server says
    that the file is the same. What was fetched before is checked by its digest. A file that
    something else put there stays; it is compared with what is known of the official one, which
    may be nothing.

    Raises ClaimflowError for a file that is not there, breaks off too often, or is not what its
    size and digest say.
    """
    hidden = folder / ".fetch"
    try:
        hidden.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClaimflowError(
            f"Can't write to {folder.absolute()}: {error.strerror}. Name another folder."
        ) from error
    lock = filelock.FileLock(hidden / "lock", blocking=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise ClaimflowError(
            f"Another process is fetching into {folder.absolute()}: wait until it is done."
        ) from None
    try:
        seen = _read_seen(hidden / "files.json")
        for file in files:
            known = seen.get(file.key)
            there = known is not None and _check(file, known, folder)
            if known is None and not file.members and (folder / file.to).exists():
                yield _laid(file, folder, base)
                continue
            if not there:
                known = _fetch(file, folder, hidden, known, base, wait)
                seen[file.key] = known
                write_whole(hidden / "files.json", msgspec.json.format(encode(seen)) + b"\n")
                with contextlib.suppress(FileNotFoundError):  # an archive, unpacked
                    os.unlink(hidden / file.key)
            assert known is not None
            yield Got(
                file=file,
                size=known.size,
                sha256=known.sha256,
                members=len(known.members),
                new=not there,
            )
    except OSError as error:
        raise disk_error(error, folder) from error
    finally:
        lock.release()


def _read_seen(path: Path) -> dict[str, Seen]:
    if not path.exists():
        return {}
    try:
        seen: dict[str, Seen] = decode(path.read_bytes(), dict[str, Seen])
    except ValueError as error:
        raise ClaimflowError(f"{path}: {error}. Delete it to fetch all anew.") from error
    return seen


def _check(file: OfficialFile, known: Seen, folder: Path) -> bool:
    """Whether all of a file is there as it was fetched. Raises ClaimflowError if it was changed."""
    wanted = known.members if file.members else {file.to: known}
    if not wanted or not all((folder / name).is_file() for name in wanted):
        return False
    for name, seen in wanted.items():
        path = folder / name
        if path.stat().st_size != seen.size or _sha256(path) != seen.sha256:
            raise ClaimflowError(
                f"{path} is not as it was fetched from {known.url}. Delete it to fetch it again."
            )
    return True


def _laid(file: OfficialFile, folder: Path, base: str | None) -> Got:
    """What is known of a file that was not fetched. Raises ClaimflowError if it is another than the
    official one: by the digest, or else by the size, for which its server is asked."""
    path, url = folder / file.to, _at(file.url, base)
    size, digest = path.stat().st_size, _sha256(path)
    wanted = _size_at(url) if file.size is None else file.size
    problem = None
    if wanted is not None and wanted != size:
        problem = f"its size is {size}, not {wanted}"
    elif file.sha256 is not None and file.sha256 != digest:
        problem = f"its SHA-256 is {digest}, not {file.sha256}"
    if problem:
        raise ClaimflowError(
            f"{path} was not fetched by this command and is not the file of {url}: {problem}. "
            "Move it away to fetch that one, or name another folder with path=FOLDER."
        )
    checked = wanted is not None or file.sha256 is not None
    return Got(file=file, size=size, sha256=digest, members=0, new=False, checked=checked)


def _size_at(url: str) -> int | None:
    """The size of the file at a URL, where its server says it."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "claimflow", "Connection": "close"}
    try:
        answer = httpx.head(url, headers=headers, follow_redirects=True, timeout=30)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    said = answer.headers.get("Content-Length", "")
    packed = answer.headers.get("Content-Encoding", "identity") != "identity"
    return int(said) if answer.status_code == 200 and said.isdecimal() and not packed else None


def _fetch(
    file: OfficialFile,
    folder: Path,
    hidden: Path,
    known: Seen | None,
    base: str | None,
    wait: float,
) -> Seen:
    target = hidden / file.key if file.members else folder / file.to
    target.parent.mkdir(parents=True, exist_ok=True)
    url = _at(file.url, base)
    if not target.exists():
        part = hidden / f"{file.key.replace('/', '_')}.part"
        _download(url, part, wait)
        os.replace(part, target)
    seen = Seen(url=url, size=target.stat().st_size, sha256=_sha256(target))
    problem = None
    if file.size is not None and file.size != seen.size:
        problem = f"not the official file: its size is {seen.size}, not {file.size}"
    elif file.sha256 is not None and file.sha256 != seen.sha256:
        problem = f"not the official file: its SHA-256 is {seen.sha256}, not {file.sha256}"
    elif known is not None and known.sha256 != seen.sha256:
        problem = f"another file than the last time: its SHA-256 is {seen.sha256}, and was "
        problem += f"{known.sha256}. Delete {hidden / 'files.json'} to take what is there now"
    if problem:
        target.rename(hidden / f"{file.key.replace('/', '_')}.refused")
        raise ClaimflowError(f"{url} is {problem}. It was put aside in {hidden}.")
    if file.members:
        seen.members = _unpack(target, file, folder)
    return seen


def _at(url: str, base: str | None) -> str:
    if not base:
        return url
    parts = urllib.parse.urlsplit(url)
    query = f"?{parts.query}" if parts.query else ""
    return f"{base.rstrip('/')}{parts.path}{query}"


# Over the network


def _download(url: str, part: Path, wait: float) -> None:
    """All of a URL into `part`, going on where it ends."""
    tries = 0
    while True:
        size = part.stat().st_size if part.exists() else 0
        try:
            _transfer(url, part)
            return
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status < 500 and status not in (408, 425, 429):
                raise ClaimflowError(
                    f"{url} answered {status} {error.response.reason_phrase}. base=URL names "
                    "another server of the same layout."
                ) from error
            reason = f"it answered {status}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{type(error).__name__}: {error}"
        now = part.stat().st_size if part.exists() else 0
        tries = 0 if now > size else tries + 1
        if tries == _TRIES:
            raise ClaimflowError(
                f"Can't fetch {url}: {reason}. {now} bytes are here; start again to go on."
            )
        time.sleep(wait * 2**tries)


def _transfer(url: str, part: Path) -> None:
    """One request. HTTPError where it breaks off; what came stays."""
    from tqdm import tqdm

    tag = part.with_name(f"{part.name}.version")
    have = part.stat().st_size if part.exists() and tag.exists() else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "claimflow"}
    headers["Connection"] = "close"  # what a redirect's body has too much is not read as the file
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text(encoding="latin-1")}
    with (
        httpx.Client(follow_redirects=True, timeout=30) as client,
        client.stream("GET", url, headers=headers) as response,
    ):
        if response.status_code == 416 and _total(response) == have:
            return
        if response.status_code == 416:
            part.unlink()
            raise httpx.ReadError("the server has another file now")
        response.raise_for_status()
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ClaimflowError(
                f"{url} comes packed, though it was asked for as it is: try base=URL."
            )
        goes_on = response.status_code == 206 and _start(response) == have
        if response.status_code == 206 and not goes_on:
            part.unlink()
            raise httpx.ReadError("the server sent another part than asked for")
        if not goes_on:
            have = 0
            tag.unlink(missing_ok=True)
        with open(part, "ab" if goes_on else "wb") as file:
            version = response.headers.get("ETag", "")
            if not version or version.startswith("W/"):  # weak ones don't count for parts
                version = response.headers.get("Last-Modified", "")
            if version and not goes_on:
                tag.write_text(version, encoding="latin-1")
            length = response.headers.get("Content-Length")
            with tqdm(
                total=have + int(length) if length else None,
                initial=have,
                desc=part.name.removesuffix(".part"),
                unit="B",
                unit_scale=True,
                disable=None,
            ) as bar:
                for block in response.iter_raw():  # a size would keep back what is less
                    file.write(block)
                    bar.update(len(block))
    tag.unlink(missing_ok=True)


def _start(response: httpx.Response) -> int:
    """The first byte of a partial answer (`bytes 100-199/200`)."""
    value = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(value) if value.isdecimal() else -1


def _total(response: httpx.Response) -> int:
    """The size of a file, as an answer that there is no such part gives it (`bytes */200`)."""
    value = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(value) if value.isdecimal() else -1


# Archives


def _unpack(archive: Path, file: OfficialFile, folder: Path) -> dict[str, Seen]:
    """Write the members that `file` asks for. Only regular files count, and only the last part of
    their names, so that nothing is written elsewhere."""
    budget = max(_SMALL, _INFLATION * archive.stat().st_size)
    place = folder / file.to
    place.mkdir(parents=True, exist_ok=True)
    seen: dict[str, Seen] = {}
    try:
        for member, open_it in _members(archive):
            name = PurePosixPath(member.replace("\\", "/")).name
            if not fnmatch.fnmatchcase(name, file.members or ""):
                continue
            key = (PurePosixPath(file.to) / name).as_posix()
            if key in seen:
                raise ClaimflowError(
                    f"{archive} has two members {name}. Delete it to fetch it again."
                )
            with open_it() as source:
                seen[key] = _write(source, folder / key, budget, f"{file.url}#{member}")
            budget -= seen[key].size
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise ClaimflowError(
            f"{archive} can't be unpacked: {error}. Delete it to fetch it again."
        ) from error
    if not seen:
        raise ClaimflowError(
            f"{archive} has no member {file.members}. Delete it to fetch it again."
        )
    return seen


def _members(archive: Path) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """(name, how to open it) of the regular files in a ZIP or TAR archive."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as pack:
            for info in pack.infolist():
                if not info.is_dir() and (info.external_attr >> 28) in (0, 8):
                    yield info.filename, lambda info=info: pack.open(info)  # type: ignore
        return
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            if member.isreg():
                yield member.name, lambda member=member: tar.extractfile(member)  # type: ignore


def _write(source: BinaryIO, target: Path, budget: int, url: str) -> Seen:
    """A member as a file, whole or not at all."""
    digest, size = hashlib.sha256(), 0
    aside = target.with_name(f".{target.name}.part")
    try:
        with open(aside, "wb") as file:
            while block := source.read(_BLOCK):
                size += len(block)
                if size > budget:
                    raise ClaimflowError(
                        f"{url} unpacks to far more than such a file can hold: try base=URL, "
                        "another server of the same layout."
                    )
                digest.update(block)
                file.write(block)
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
    return Seen(url=url, size=size, sha256=digest.hexdigest())


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
