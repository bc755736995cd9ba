"""Make a packed store (see `components.store.packed`) of official store files, one a claim.

A file of documents is written aside and renamed when it is whole, and holds only once claims.arrow,
which is replaced at one blow, names its claims. Whatever else a killed process left is thrown away
by the next one, which goes on from there. The files of documents are made by processes of their
own, as many at a time as there are cores; which claims are in which does not depend on it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import msgspec

from components.errors import ClaimflowError
from components.files import ROOT, write_whole
from components.records import BadLine
from components.store.official import Source, find, natural
from components.store.packed import Entry, Packed, claim_schema, open_packed
from components.store.part import Made, Task, make

CORES = 4  # that are used at most: each takes up to 300 MB
SMALL = 2**25  # bytes that one process packs faster than several are started


class Packer:
    """Packs the official files below `path` (a folder or a zip file, zips in folders too) into the
    folder `to`, or goes on where an earlier one was stopped. Iterate over it: each file is yielded
    when it is packed, was packed before, or turned out bad.

    part: bytes of official files that go into one file of documents; a kill can cost as much work
    for each core.
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
            if re.fullmatch(r"\.?\d+\.(arrow|.*part)", file.name) and str(file) not in whole:
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
        folder = str(self.to / "documents")
        tasks = [
            Task(folder=folder, number=number + i, sources=part)
            for i, part in enumerate(_parts(todo, self.limit))
        ]
        for task, made in zip(tasks, _all_made(tasks), strict=True):
            self.bad += made.bad
            if made.entries:
                os.replace(made.file, f"{folder}/{task.number:05}.arrow")
                entries |= {entry.claim: entry for entry in made.entries}
                self._write(entries)
            yield from task.sources

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


def _parts(sources: list[Source], limit: int) -> Iterator[list[Source]]:
    """Runs of at least `limit` bytes each, but for the last."""
    part: list[Source] = []
    size = 0
    for source in sources:
        part.append(source)
        size += source.size
        if size >= limit:
            yield part
            part, size = [], 0
    if part:
        yield part


def _all_made(tasks: list[Task]) -> Iterator[Made]:
    """What comes of each task, in order: on several cores where it pays to start processes."""
    cores = min(len(os.sched_getaffinity(0)), CORES, len(tasks))
    if cores < 2 or sum(s.size for task in tasks for s in task.sources) < SMALL:
        yield from map(make, tasks)
        return
    pool = ThreadPoolExecutor(cores)  # a thread waits for a process
    try:
        yield from pool.map(_made_apart, tasks)
    finally:
        pool.shutdown(cancel_futures=True)


def _made_apart(task: Task) -> Made:
    done = subprocess.run(
        [sys.executable, "-m", "components.store.part"],
        input=msgspec.json.encode(task),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        check=False,
    )
    if done.returncode:
        raise ClaimflowError(
            f"The process that packed {len(task.sources)} files from {task.sources[0].name} on "
            f"ended with code {done.returncode} (-9: memory ran out). Start again to go on."
        )
    made = msgspec.json.decode(done.stdout, type=Made)
    if made.error:
        raise ClaimflowError(made.error)
    return made
