"""Content-addressed cache on disk, shared by threads, processes and runs.

Three kinds of thing lie below the folder:

    blobs/xx/DIGEST      bytes, named by the digest of their content
    actions/xx/KEY       what a computation gave: digests of its outputs, and what it cost
    artifacts/xx/KEY/    folders (models, indexes, embeddings) with a manifest of their files

Each is written aside and renamed, so a killed writer leaves nothing under a final name. Small
files are not fsynced one by one (that costs seconds a stage); instead every read checks the
digest, so what a power cut tore is a miss, never a wrong value. A reader touches what it uses;
`clean` leaves alone whatever was touched since the oldest live process began.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import filelock
import msgspec

from components.files import digest, disk_error, file_digest
from components.records import Record, decode, encode


class Action(Record):
    """What a computation gave: one digest for each output, and its cost (seconds, tokens)."""

    outputs: list[str]
    cost: dict[str, float] = {}


class Artifact(Record):
    """A folder in the cache. `digest` covers the names and contents of its files."""

    path: str
    digest: str


class Freed(Record):
    """What `clean` removed and what is left, in bytes."""

    removed: int
    freed: int
    left: int
    in_use: int


class Cache:
    """The cache below `folder`. Cheap to open; open one in each process."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        for name in ("blobs", "actions", "artifacts", "locks", "leases", "aside"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._local = threading.local()
        self._verified: set[str] = set()
        self._lease = open(self.folder / "leases" / uuid.uuid4().hex, "w")  # noqa: SIM115
        fcntl.flock(self._lease, fcntl.LOCK_EX)

    def close(self) -> None:
        """End this object's lease: what it used may be cleaned from now on."""
        self._lease.close()

    # Blobs

    def put(self, data: bytes) -> str:
        """Keep `data` and return its digest."""
        name = digest(data)
        path = self._path("blobs", name)
        if not self._touch(path):
            self._write(path, data)
        self._verified.add(name)
        return name

    def get(self, name: str) -> bytes | None:
        """The bytes with this digest, or None when they are not there or were damaged."""
        path = self._path("blobs", name)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if name not in self._verified:
            if digest(data) != name:
                path.unlink(missing_ok=True)
                return None
            self._verified.add(name)
        return data

    # Actions

    def lookup(self, key: str) -> Action | None:
        """What the computation named `key` gave, or None unless every output is here and whole."""
        path = self._path("actions", key)
        if not self._touch(path):
            return None
        try:
            check, _, body = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if digest(body).encode() != check:
            path.unlink(missing_ok=True)
            return None
        action: Action = decode(body, Action)
        for name in action.outputs:
            if not self._touch(self._path("blobs", name)):
                return None
            if name not in self._verified and self.get(name) is None:
                return None
        return action

    def record(self, key: str, action: Action) -> None:
        """Keep what a computation gave; its outputs must have been `put` before."""
        body = encode(action)
        self._write(self._path("actions", key), digest(body).encode() + b"\n" + body)

    # Artifacts

    def value(self, key: str, make: Callable[[], Any], type: Any) -> Any:
        """What `make()` gives, of a type that `decode` reads, made once for each key."""
        action = self.lookup(key)
        if action and (data := self.get(action.outputs[0])):
            return decode(data, type)
        made = make()
        self.record(key, Action(outputs=[self.put(encode(made))]))
        return made

    def artifact(self, key: str, build: Callable[[Path], None]) -> Artifact:
        """The folder named `key`; when it is not there, `build(folder)` fills it, once.

        Others that ask for the same key meanwhile wait. A folder without its manifest, or whose
        files do not match it, is built again.
        """
        found = self.find_artifact(key)
        if found:
            return found
        with self.lock(key):
            found = self.find_artifact(key)
            if found:
                return found
            aside = self.folder / "aside" / uuid.uuid4().hex
            aside.mkdir()
            try:
                build(aside)
                files = {
                    p.relative_to(aside).as_posix(): [p.stat().st_size, file_digest(p)]
                    for p in sorted(aside.rglob("*"))
                    if p.is_file()
                }
                (aside / "manifest.json").write_bytes(encode(files))
                path = self._path("artifacts", key)
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists():  # damaged
                    shutil.rmtree(path)
                os.rename(aside, path)
            except OSError as error:
                raise disk_error(error, aside) from error
            finally:
                shutil.rmtree(aside, ignore_errors=True)
        found = self.find_artifact(key)
        assert found, f"artifact {key} vanished"
        return found

    def find_artifact(self, key: str) -> Artifact | None:
        """The folder named `key`, when it is there and whole."""
        path = self._path("artifacts", key)
        manifest = path / "manifest.json"
        if not self._touch(manifest):
            return None
        body = manifest.read_bytes()
        if key not in self._verified:
            try:
                files: dict[str, tuple[int, str]] = decode(body, dict[str, tuple[int, str]])
                whole = all(
                    (path / name).stat().st_size == size and file_digest(path / name) == check
                    for name, (size, check) in files.items()
                )
            except (msgspec.MsgspecError, FileNotFoundError):
                whole = False
            if not whole:
                return None
            self._verified.add(key)
        return Artifact(path=str(path), digest=digest(body))

    def unfinished(self, key: str) -> Path:
        """A folder for what is on the way to artifact `key`, such as checkpoints: it outlives a
        kill, until `clean`. Whoever finishes removes it."""
        folder = self.folder / "aside" / f"{key}.unfinished"
        folder.mkdir(exist_ok=True)
        return folder

    # Locks and leases

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold `key` against other threads and processes; a killed holder lets go at once."""
        with filelock.FileLock(self.folder / "locks" / key, thread_local=False):
            yield

    @contextlib.contextmanager
    def _gate(self, mode: int) -> Iterator[None]:
        # One descriptor a thread: a flock belongs to the open file, so threads must not share it.
        if not hasattr(self._local, "gate"):
            self._local.gate = open(self.folder / "locks" / ".gate", "w")  # noqa: SIM115
        fcntl.flock(self._local.gate, mode)
        try:
            yield
        finally:
            fcntl.flock(self._local.gate, fcntl.LOCK_UN)

    def _touch(self, path: Path) -> bool:
        """Mark `path` as used now; False when it is not there."""
        with self._gate(fcntl.LOCK_SH):
            try:
                os.utime(path)
                return True
            except FileNotFoundError:
                return False

    def _live_since(self) -> float:
        """When the oldest process that still has this cache open began, in epoch seconds.

        This object's own lease does not count: whoever cleans uses nothing.
        """
        oldest = time.time()
        for lease in (self.folder / "leases").iterdir():
            if lease.name == Path(self._lease.name).name:
                continue
            with contextlib.suppress(FileNotFoundError), open(lease) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    oldest = min(oldest, os.fstat(file.fileno()).st_mtime)
                else:
                    lease.unlink(missing_ok=True)
        return oldest

    # Cleaning

    def clean(self, older_than: float | None = None, keep_bytes: int | None = None) -> Freed:
        """Free space: what was not used for `older_than` seconds, then the least recently used
        until at most `keep_bytes` are left. What a live process has used since it began stays.
        """
        live_since = self._live_since()
        entries = sorted(self._entries())  # oldest first
        total = sum(size for _, size, _ in entries)
        removed = freed = 0
        now = time.time()
        for used, size, path in entries:
            too_old = older_than is not None and now - used > older_than
            too_much = keep_bytes is not None and total - freed > keep_bytes
            if not (too_old or too_much):
                continue
            with self._gate(fcntl.LOCK_EX):
                try:
                    in_use = self._stamp(path).stat().st_mtime >= live_since
                except FileNotFoundError:
                    continue
                if in_use:
                    continue
                if path.is_dir():
                    trash = self.folder / "aside" / uuid.uuid4().hex
                    os.rename(path, trash)
                    shutil.rmtree(trash)
                else:
                    path.unlink()
            self._verified.discard(path.name)
            removed += 1
            freed += size
        self._sweep_aside(live_since)
        left = list(self._entries())
        return Freed(
            removed=removed,
            freed=freed,
            left=sum(size for _, size, _ in left),
            in_use=sum(size for used, size, _ in left if used >= live_since),
        )

    def sizes(self) -> dict[str, tuple[int, int]]:
        """(entries, bytes) of each kind."""
        found = {"blobs": (0, 0), "actions": (0, 0), "artifacts": (0, 0)}
        for _, size, path in self._entries():
            kind = path.parent.parent.name
            found[kind] = (found[kind][0] + 1, found[kind][1] + size)
        return found

    def _stamp(self, path: Path) -> Path:
        return path / "manifest.json" if path.is_dir() else path

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """(last use in epoch seconds, bytes, path) of every blob, action and artifact."""
        for kind in ("blobs", "actions", "artifacts"):
            for path in (self.folder / kind).glob("*/*"):
                with contextlib.suppress(FileNotFoundError):
                    if path.is_dir():
                        stamp = self._stamp(path)
                        used = stamp.stat().st_mtime if stamp.exists() else path.stat().st_mtime
                        size = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
                    else:
                        used, size = path.stat().st_mtime, path.stat().st_size
                    yield used, size, path

    def _sweep_aside(self, live_since: float) -> None:
        """Remove what killed writers left half-written before any live process began."""
        for path in (self.folder / "aside").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < live_since:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    # Files

    def _path(self, kind: str, name: str) -> Path:
        return self.folder / kind / name[:2] / name

    def _write(self, path: Path, data: bytes) -> None:
        aside = self.folder / "aside" / uuid.uuid4().hex
        try:
            path.parent.mkdir(exist_ok=True)
            aside.write_bytes(data)
            os.replace(aside, path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise disk_error(error, path) from error


@functools.cache
def open_cache(folder: str) -> Cache:
    """The one `Cache` of this process for a folder."""
    return Cache(folder)


def key_of(*parts: Any) -> str:
    """A cache key of JSON-encodable parts."""
    return digest(encode(parts))
