"""BM25 over 500,000 abstracts, in processes of their own: build, open again, queries, growth.

The abstracts are made up: sizes as SciFact's have them, words by Zipf's law in two regimes (Ferrer
i Cancho and Solé 2001): rank to the power of -.8 for the 2,000 most frequent words, of -2 behind
them. With these SciFact's 1.1 million words would have 37,000 different ones; they have 36,000.
Queries are as long as SciFact's claims, of words of one abstract. A tenth of the abstracts shows
the growth, and stands beside the package bm25s, which must find the same; `documents=500000` says
how many, `package=no` leaves bm25s out. Below 35,000 an index is built anew, not kept on disk.
Each part says on stderr when it begins and ends.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import argument, data, finish, row

QUERIES = 100
BEST = 100
COMMON = 2000


def main() -> None:
    if side := argument("side"):
        return work(side, int(argument("documents")), Path(argument("cache")))
    documents = int(argument("documents") or 500_000)
    if documents < 10 * QUERIES:
        sys.exit(f"error: documents={documents}: give {10 * QUERIES} or more.")
    rows: list[dict[str, Any]] = []
    for size in (documents // 10, documents):
        with tempfile.TemporaryDirectory() as cache:
            found = {"build": part("build", size, cache), "reopen": part("reopen", size, cache)}
            plain = None
            if size < documents and argument("package") != "no":
                plain = part("package", size, cache)
                assert plain["found"] == found["build"]["found"], "bm25s finds others"
        assert found["build"]["found"] == found["reopen"]["found"], "reopened, it finds others"
        built, opened = found["build"], found["reopen"]
        theirs = plain or {}
        rows += [
            row(
                f"{size:,} abstracts, {built['bytes'] / 1e6:,.0f} MB of text: build",
                built["build"],
                "s",
                theirs.get("build"),
            ),
            row("  peak memory", built["memory"], "MiB", theirs.get("memory")),
            row("  the texts alone", built["before"], "MiB"),
            row("  index on disk", built["disk"], "MiB"),
            row("  opened again", opened["build"], "s"),
            row(
                "  query, median",
                statistics.median(opened["queries"]) * 1000,
                "ms",
                statistics.median(theirs["queries"]) * 1000 if theirs else None,
            ),
            row("  query, slowest of 100", max(opened["queries"]) * 1000, "ms"),
        ]
    growth = rows[len(rows) // 2]["value"] / rows[0]["value"]
    rows.append(row("build, growth for ten times the abstracts", growth, "x"))
    return finish(rows, "documents", "package")


def part(side: str, documents: int, cache: str) -> dict[str, Any]:
    words = [sys.executable, "-m", __spec__.name, f"side={side}", f"documents={documents}"]
    print(f"{documents:,} abstracts, {side} …", end=" ", flush=True, file=sys.stderr)
    start = time.perf_counter()
    done = subprocess.run(
        [*words, f"cache={cache}"], stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)
    return json.loads(done.stdout)


def made_up(documents: int) -> tuple[list[str], list[str]]:
    """(abstracts, queries)."""
    import numpy as np

    lengths = []
    for line in data("scifact", "corpus.jsonl").read_text().splitlines():
        abstract = json.loads(line)
        lengths.append(len(" ".join([abstract["title"], *abstract["abstract"]]).split()))
    draw = np.random.default_rng(13)
    sizes = draw.choice(lengths, documents)
    rank = np.arange(1, 3_000_001, dtype=np.float64)
    share = np.cumsum(np.where(rank <= COMMON, rank**-0.8, COMMON**1.2 * rank**-2.0))
    letters = random.Random(13)
    consonants = "bcdfglmnprstv"
    syllables = ["".join(map(letters.choice, (consonants, "aeiou", consonants))) for _ in range(64)]

    def word(rank: int) -> str:
        parts = [syllables[rank % 64]]
        while rank := rank // 64:
            parts.append(syllables[rank % 64])
        return "".join(parts)

    known: dict[int, str] = {}
    texts = []
    for first in range(0, documents, 10_000):
        block = sizes[first : first + 10_000]
        ranks = np.searchsorted(share, draw.random(block.sum()) * share[-1]).tolist()
        at = 0
        for size in block.tolist():
            there = ranks[at : at + size]
            for rank in there:
                if rank not in known:
                    known[rank] = word(rank)
            texts.append(" ".join(map(known.__getitem__, there)))
            at += size
    asked = draw.choice(documents, QUERIES, replace=False)
    queries = [
        " ".join(letters.sample(words := texts[i].split(), min(12, len(words)))) for i in asked
    ]
    return texts, queries


def work(side: str, documents: int, cache: Path) -> None:
    """In the process that is measured."""
    texts, queries = made_up(documents)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = (package if side == "package" else ours)(texts, queries, cache)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(map(len, texts))
    print(json.dumps({**result, "memory": memory, "before": before, "bytes": size}))


def ours(texts: list[str], queries: list[str], cache: Path) -> dict[str, Any]:
    from components.cache import Cache
    from components.records import Case, Claim, Passage, Query
    from components.retrieve.bm25 import Bm25s
    from components.step import Context

    ctx = Context(Cache(cache))
    step = Bm25s(k=BEST)
    passages = [Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)]

    def search(query: str) -> list[int]:
        case = Case(
            claim=Claim(id="1", text=""),
            passages=passages,
            queries=[Query(text=query)],
            digests={"passages": str(len(passages))},
        )
        return [int(hit.passage) for hit in step.run([case], ctx)[0].hits]

    start = time.perf_counter()
    found = [search(queries[0])]
    build = time.perf_counter() - start
    seconds = []
    for query in queries[1:]:
        start = time.perf_counter()
        found.append(search(query))
        seconds.append(time.perf_counter() - start)
    disk = sum(p.stat().st_size for p in (cache / "artifacts").rglob("*") if p.is_file()) / 2**20
    return {"found": found, "build": build, "queries": seconds, "disk": disk}


def package(texts: list[str], queries: list[str], cache: Path) -> dict[str, Any]:
    import bm25s
    import numpy as np
    import Stemmer

    def tokens(some: list[str]) -> Any:
        stemmer = Stemmer.Stemmer("porter")
        return bm25s.tokenize(some, stopwords="en", stemmer=stemmer, show_progress=False)

    start = time.perf_counter()
    index = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numpy")
    index.index(tokens(texts), show_progress=False)
    build = time.perf_counter() - start
    found, seconds = [], []
    for query in queries:
        start = time.perf_counter()
        stemmer = Stemmer.Stemmer("porter")
        [asked] = bm25s.tokenize(
            [query], stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False
        )
        scores = np.round(index.get_scores(asked).astype(np.float64), 6)
        best = np.argsort(-scores, kind="stable")[:BEST]
        found.append([int(i) for i in best if scores[i] > 0])
        seconds.append(time.perf_counter() - start)
    return {"found": found, "build": build, "queries": seconds[1:]}


if __name__ == "__main__":
    main()
