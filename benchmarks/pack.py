"""Packed stores: packing official files of full size, and opening a claim, against parsing its
file.

`megabytes=1000` says how much is packed, in files of 11 MB (1,000 pages, 100,000 sentences). What
is packed is written back and compared before anything is timed; packing runs in a process of its
own.
"""

from __future__ import annotations

import filecmp
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import argument, data, finish, row
from components.datasets.averitec import Averitec
from components.records import Claim, encode
from components.store.pack import CORES, Packer
from components.store.packed import open_packed, unpack

PAGES, SENTENCES = 1000, 100_000


def write(folder: Path, megabytes: float) -> int:
    """Official files: 42 % of the pages are empty, as in the stores of 2025. How many files."""
    rng = np.random.default_rng(13)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = np.array(["".join(rng.choice(letters, n)) for n in rng.integers(2, 11, 20_000)])
    words[::40] = "naïve"
    zipf = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(words, (SENTENCES, 15), p=zipf / zipf.sum())
    pool = np.array([" ".join(line) for line in drawn], dtype=object)
    folder.mkdir()
    size = claim = 0
    while size < megabytes * 1e6:
        full = rng.random(PAGES) > 0.42
        shares = rng.multinomial(SENTENCES, full / full.sum())
        pages = np.split(rng.permutation(pool), np.cumsum(shares)[:-1])
        with open(folder / f"{claim}.json", "w", encoding="utf-8") as file:
            for n, sentences in enumerate(pages):
                record = {
                    "claim_id": claim,
                    "type": "claim",
                    "query": pool[n],
                    "url": f"https://news{n % 97}.example/{claim}/{n}",
                    "url2text": sentences.tolist(),
                }
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        size += (folder / f"{claim}.json").stat().st_size
        claim += 1
    return claim


def work(path: Path, to: Path) -> None:
    """In the process that is measured."""
    start = time.perf_counter()
    packer = Packer(path, to)
    done = sum(source.size for source in packer)
    assert not packer.bad
    seconds = time.perf_counter() - start
    own, parts = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    used = sum(times.ru_utime + times.ru_stime for times in (own, parts))
    cores = min(len(os.sched_getaffinity(0)), CORES)
    memory = own.ru_maxrss + cores * parts.ru_maxrss  # of parts: the largest that one took
    print(json.dumps([done / 1e6, seconds, used, memory / 1024]))


def packed_apart(path: Path, to: Path) -> Any:
    words = ["-m", "benchmarks.pack", f"work={to}", f"path={path}"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def medians(work: Iterator[tuple[Callable[[], object], Callable[[], object]]]) -> Any:
    """Milliseconds at the median of (ours, the alternative)."""
    taken: list[list[float]] = [[], []]
    for pair in work:
        for each, times in zip(pair, taken, strict=True):
            start = time.perf_counter()
            each()
            times.append((time.perf_counter() - start) * 1e3)
    return [statistics.median(times) for times in taken]


def parse(file: Path) -> list[Any]:
    """The obvious alternative."""
    with open(file, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def full_size(folder: Path, megabytes: float) -> list[dict[str, Any]]:
    official, to, back = folder / "official", folder / "packed", folder / "back"
    claims = [str(n) for n in range(write(official, megabytes))]
    size, seconds, processor, peak = packed_apart(official, to)
    start = time.perf_counter()
    packed = open_packed(to)
    assert [entry.claim for entry in unpack(packed, back)] == claims
    unpacked = time.perf_counter() - start
    for claim in claims:
        assert filecmp.cmp(official / f"{claim}.json", back / f"{claim}.json", shallow=False)
    lines = [line.record for line in packed.lines("0")]
    assert lines == parse(official / "0.json")
    files = {claim: official / f"{claim}.json" for claim in claims}
    name = f"{size:.0f} MB in {len(claims)} files"
    opened = medians(
        (lambda c=c: packed.batches(c), lambda f=f: parse(f)) for c, f in files.items()
    )
    sets = [Averitec(path=folder, store=to), Averitec(path=folder, store=official)]
    asked = [Claim(id=claim, text="") for claim in claims]
    assert len({encode(each.read_documents(asked[0])) for each in sets}) == 1
    read = medians(
        (lambda c=c: sets[0].read_documents(c), lambda c=c: sets[1].read_documents(c))
        for c in asked
    )
    return [
        row(f"pack {name}", size / seconds, "MB/s"),
        row("pack, by processor time of all cores", size / processor, "MB/s"),
        row("pack, peak memory", peak, "MiB"),
        row("write back", size / unpacked, "MB/s"),
        row("open a claim, its columns mapped", opened[0], "ms", opened[1]),
        row("open a claim, its documents as an experiment reads them", read[0], "ms", read[1]),
    ]


def small(folder: Path) -> list[dict[str, Any]]:
    """The documents of the 500 small stores of AVeriTeC dev, as an experiment reads them."""
    official = data("averitec", "knowledge_store_dev")
    packed_apart(official, folder / "small")
    claims = [Claim(id=str(n), text="") for n in range(500)]
    sets = [
        Averitec(path=folder, store=folder / "small"),
        Averitec(path=official.parent),
    ]

    def read(dataset: Averitec) -> list[bytes]:
        return [encode((dataset.versions(c), dataset.read_documents(c))[1]) for c in claims]

    assert read(sets[0]) == read(sets[1])
    ours, theirs = medians((lambda: read(sets[0]), lambda: read(sets[1])) for _ in range(5))
    return [row("documents of 500 small stores", ours, "ms", theirs)]


def main() -> None:
    if to := argument("work"):
        return work(Path(argument("path")), Path(to))
    with tempfile.TemporaryDirectory() as folder:
        rows = full_size(Path(folder), float(argument("megabytes") or 1000))
        rows += small(Path(folder))
    return finish(rows, "megabytes")


if __name__ == "__main__":
    main()
