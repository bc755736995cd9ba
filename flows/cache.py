"""The cache: how large it is, and freeing space.

    python -m flows.cache                     sizes
    python -m flows.cache clean age=30d       what was not used for 30 days
    python -m flows.cache clean size=5G       the least recently used, until 5 GiB are left
    python -m flows.cache clean age=0         all that no running process uses

What a running process has used since it began always stays. `cache=` names another folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from flows.cli import plain

AGES = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
SIZES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def main(words: list[str]) -> None:
    """`clean` with age= and size=, or nothing for the sizes."""
    from rich.console import Console
    from rich.table import Table

    from components.cache import open_cache
    from components.errors import ClaimflowError
    from components.files import home

    options = dict(word.split("=", 1) for word in words if "=" in word)
    verbs = [word for word in words if "=" not in word]
    unknown = [*(set(options) - {"age", "size", "cache"}), *(set(verbs) - {"clean"})]
    if unknown:
        raise ClaimflowError(
            f"Unknown word '{unknown[0]}'. `python -m flows.cache --help` shows all."
        )
    given = options.get("cache")
    if given and not Path(given, "blobs").is_dir():  # mistyped, it would be made
        raise ClaimflowError(f"No cache in {Path(given).absolute()}: a run makes one.")
    folder = given or os.environ.get("CLAIMFLOW_CACHE") or f"{home()}/cache"
    cache = open_cache(folder)
    if not verbs and {"age", "size"} & set(options):
        raise ClaimflowError("age= and size= go with clean: `python -m flows.cache clean age=30d`.")
    if not verbs:
        table = Table(title=str(cache.folder))
        for column in ("kind", "entries", "MiB"):
            table.add_column(column, justify="left" if column == "kind" else "right")
        for kind, (count, size) in cache.sizes().items():
            table.add_row(kind, str(count), f"{size / 2**20:.1f}")
        Console().print(table)
        return
    if not {"age", "size"} & set(options):
        raise ClaimflowError("Say how much to clean: age=30d, size=5G, or both.")
    freed = cache.clean(
        older_than=number(options["age"], AGES, "age") if "age" in options else None,
        keep_bytes=int(number(options["size"], SIZES, "size")) if "size" in options else None,
    )
    print(
        f"Removed {freed.removed} entries, {freed.freed / 2**20:.1f} MiB. "
        f"{freed.left / 2**20:.1f} MiB left, {freed.in_use / 2**20:.1f} of them in use."
    )


def number(text: str, units: dict[str, int], what: str) -> float:
    """`30d` or `5G` as seconds or bytes."""
    from components.errors import ClaimflowError

    found = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]?)", text)
    if not found or found.group(2) not in units:
        known = ", ".join(f"10{unit}" for unit in units)
        raise ClaimflowError(f"{what}={text} is not a number with a unit. Examples: {known}.")
    return float(found.group(1)) * units[found.group(2)]


if __name__ == "__main__":
    plain(main)
