"""One claim's full store searched whole, beside NLTK and rank_bm25.

100,000 sentences, 10 queries of 400 tokens, the best 100 of each: tokens, index and search. Lengths
and words are drawn from the sentences of the AVeriTeC dev stores that lie here, last words apart,
with the frequency that they have there, capitals and punctuation included; those that stand there
once give way to made-up words, so that the vocabulary grows with the text as it does in language.
Both must find the same passages in the same order, ties in the order of the store.

`sentences=20000` and `seed=7` change the store. Each side runs in a process of its own, which says
its peak memory.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common import argument, data, finish, row

QUERIES = 10
TOKENS = 400
BEST = 100


def main() -> None:
    if side := argument("side"):
        return work(side, Path(argument("file")))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.json"
        write(file)
        made: dict[str, Any] = {}
        for side in ("ours", "plain", "again"):
            words = [sys.executable, "-m", __spec__.name, f"file={file}"]
            words.append(f"side={'ours' if side == 'again' else side}")
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            made[side] = json.loads(done.stdout)
    ours, plain = min(made["ours"], made["again"], key=lambda one: one["seconds"]), made["plain"]
    for query, (found, expected) in enumerate(zip(ours["found"], plain["found"], strict=True)):
        assert found == expected, f"query {query}: the rankings differ"
    size = f"{ours['sentences']:,} sentences, {plain['tokens']:,} tokens"
    rows = [
        row(f"{size}: the whole", ours["seconds"], "s", plain["seconds"]),
        row("  tokens and index alone", ours["index"], "s", plain["index"]),
        row("  10 queries alone", ours["search"], "s", plain["search"]),
        row("  peak memory", ours["memory"], "MiB"),
        row("  peak memory of NLTK and rank_bm25", plain["memory"], "MiB"),
    ]
    return finish(rows, "sentences", "seed")


def write(file: Path) -> None:
    """Write {"texts", "queries"}."""
    draw = random.Random(int(argument("seed") or 13))
    inside, last = Words(draw), Words(draw)
    lengths = []
    for path in sorted(data("averitec", "knowledge_store_dev").glob("*.json")):
        for line in path.read_text().splitlines():
            for sentence in json.loads(line)["url2text"]:
                words = sentence.split()
                inside.seen.update(words[:-1])
                last.seen.update(words[-1:])
                lengths.append(round(0.8 * len(words)))  # 25 tokens a sentence
    size = int(argument("sentences") or 100_000)
    sizes = [max(1, length) for length in draw.choices(lengths, k=size)]
    words = inside.draw(sum(sizes) - size + QUERIES * TOKENS)
    ends = last.draw(size)
    texts, at = [], QUERIES * TOKENS
    for length, end in zip(sizes, ends, strict=True):
        texts.append(" ".join([*words[at : at + length - 1], end]))
        at += length - 1
    queries = [" ".join(words[i * TOKENS :][:TOKENS]) for i in range(QUERIES)]
    file.write_text(json.dumps({"texts": texts, "queries": queries}))


class Words:
    """Words drawn as often as they were seen; one in place of each that was seen once is made."""

    def __init__(self, by: random.Random) -> None:
        self.by = by
        self.seen: Counter[str] = Counter()
        self.made = 0

    def draw(self, size: int) -> list[str]:
        common = [word for word, times in self.seen.items() if times > 1]
        rare = len(self.seen) - len(common)
        words = self.by.choices([*common, ""], [*(self.seen[w] for w in common), rare], k=size)
        return [word or self.make() for word in words]

    def make(self) -> str:
        self.made += self.by.random() < 0.7
        return f"word{self.by.randint(0, self.made)}"


def work(side: str, file: Path) -> None:
    """In the process that is measured."""
    said = json.loads(file.read_text())
    texts, queries = said["texts"], said["queries"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = (ours if side == "ours" else plain)(texts, queries)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**result, "sentences": len(texts), "memory": memory, "before": before}))


def ours(texts: list[str], queries: list[str]) -> dict[str, Any]:
    from components.cache import Cache
    from components.records import Case, Claim, Passage, Query
    from components.retrieve.okapi import Okapi
    from components.step import Context

    def case(texts: list[str], queries: list[str]) -> Case:
        return Case(
            claim=Claim(id="1", text=""),
            passages=[Passage(id=str(i), doc=str(i), text=text) for i, text in enumerate(texts)],
            queries=[Query(text=query) for query in queries],
            digests={"passages": str(len(texts))},
        )

    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(Cache(folder))
        step = Okapi(k=BEST, tokens="nltk")
        step.run([case(texts[:9], queries[:1])], ctx)  # imports and language data
        whole = case(texts, queries)
        start = time.perf_counter()
        step.run([whole], ctx)
        seconds = time.perf_counter() - start
        again = case(texts, queries)
        start = time.perf_counter()
        step.run([again], ctx)
        search = time.perf_counter() - start
    found: list[list[int]] = [[] for _ in queries]
    for hit in whole.hits:
        found[hit.query].append(int(hit.passage))
    return {"found": found, "seconds": seconds, "search": search, "index": seconds - search}


def plain(texts: list[str], queries: list[str]) -> dict[str, Any]:
    import numpy as np
    from nltk.tokenize import word_tokenize
    from rank_bm25 import BM25Okapi

    from components.assets import nltk_ready

    nltk_ready()
    word_tokenize("Language data.")
    start = time.perf_counter()
    corpus = [word_tokenize(text) for text in texts]
    index = BM25Okapi(corpus)
    middle = time.perf_counter()
    found = []
    for query in queries:
        scores = np.round(index.get_scores(word_tokenize(query)), 6)
        found.append(np.argsort(-scores, kind="stable")[:BEST].tolist())
    end = time.perf_counter()
    return {
        "found": found,
        "seconds": end - start,
        "index": middle - start,
        "search": end - middle,
        "tokens": sum(map(len, corpus)),
    }


if __name__ == "__main__":
    main()
