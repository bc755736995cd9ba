"""Tokenising beside NLTK's `word_tokenize`, on all texts of AVeriTeC that lie here.

Every text of the dev and train claims (claims, questions, answers, URLs, justifications) and every
sentence of the dev stores, in the order of the files, repeated as they are. Each side goes over
them as often as `times=3` says, in turns, and its best time counts. Tokens are compared first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.common import argument, data, finish, row, timed
from components.assets import nltk_ready
from components.text import nltk_words


def texts() -> list[str]:
    """All texts."""
    found: list[str] = []
    for split in ("dev", "train"):
        found += strings(json.loads(data("averitec", f"{split}.json").read_text()))
    for path in sorted(data("averitec", "knowledge_store_dev").glob("*.json")):
        for line in path.read_text().splitlines():
            found += json.loads(line)["url2text"]
    return found


def strings(value: Any) -> Iterator[str]:
    """The strings in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def main() -> None:
    many = texts()
    distinct = list(dict.fromkeys(many))
    nltk_ready()
    from nltk.tokenize import word_tokenize

    def plain(some: list[str]) -> list[list[str]]:
        return [word_tokenize(text) for text in some]

    assert nltk_words(many) == plain(many)
    rows = []
    for name, some in (("all texts", many), ("each once", distinct)):
        best = {}
        for _ in range(int(argument("times") or 3)):
            for way in (nltk_words, plain):
                found, seconds = timed(lambda: way(some))  # noqa: B023
                tokens = sum(map(len, found))
                del found
                best[way] = min(seconds, best.get(way, seconds))
        name = f"AVeriTeC, {name}: {len(some):,}, {tokens:,} tokens"
        rows.append(row(name, best[nltk_words], "s", best[plain]))
    finish(rows, "times")


if __name__ == "__main__":
    main()
