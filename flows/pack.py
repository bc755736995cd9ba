"""Pack the knowledge stores of a split, one file a claim, into one columnar store; write it back.

    python -m flows.pack path=FOLDER to=STORE [out=FILE.json]      also path=FILE.zip
    python -m flows.pack unpack=STORE to=FOLDER                    the same files, byte by byte

dataset=averitec reads STORE in place of the folder: say dataset.store=STORE, or put it where the
folder was. What was stopped goes on when it is started again. A file that can't be read costs
itself alone and is named with line and reason; the exit code is then 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flows.cli import entry


def main(config: Any) -> None:
    """Pack or write back, print and write."""
    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.records import encode
    from flows.log import peak_mb, reset_peak

    if bool(config.path) == bool(config.unpack) or not config.to:
        raise ClaimflowError("Say path=FOLDER to=STORE to pack, or unpack=STORE to=FOLDER.")
    reset_peak()
    start = time.perf_counter()
    result = pack(config) if config.path else write_back(config)
    result |= {"seconds": round(time.perf_counter() - start, 3), "peak_mb": peak_mb()}
    if config.out:
        write_whole(Path(config.out), encode(result))
    for problem in result["bad"]:
        print(f"bad file: {problem}")
    print(
        "{claims} claims, {documents} documents, {sentences} sentences, ".format(**result)
        + "official {:.1f} MB, packed {:.1f} MB; peak memory {peak_mb:.0f} MiB".format(
            result["bytes"] / 1e6, result["packed_bytes"] / 1e6, **result
        )
    )
    if result["bad"]:
        raise ClaimflowError(
            f"{len(result['bad'])} files are not packed, see above. Mend them or fetch them again, "
            "then start again: what is packed stays."
        )


def pack(config: Any) -> dict[str, Any]:
    """Pack; what `out=` holds, times left out."""
    from components.store.pack import Packer
    from components.store.packed import Packed

    packer = Packer(Path(config.path), Path(config.to), config.part * 2**20)
    work("pack", packer, sum(source.size for source in packer.sources))
    return counts(Packed(Path(config.to))) | {"kept": packer.kept, "bad": packer.bad}


def write_back(config: Any) -> dict[str, Any]:
    """Write back; what `out=` holds, times left out."""
    from components.errors import ClaimflowError
    from components.store.packed import open_packed, unpack

    packed = open_packed(Path(config.unpack))
    if packed is None:
        raise ClaimflowError(
            f"{Path(config.unpack).absolute()} is no packed store: it has no claims.arrow. Give a "
            "folder that `python -m flows.pack path=… to=…` wrote."
        )
    if open_packed(Path(config.to)):
        raise ClaimflowError(
            f"to={config.to} is a packed store: name another folder for the official files."
        )
    result = counts(packed)
    work("unpack", unpack(packed, Path(config.to)), result["bytes"])
    return result | {"bad": []}


def counts(packed: Any) -> dict[str, Any]:
    """How much a packed store holds."""
    entries = packed.claims.values()
    return {
        "claims": len(entries),
        "documents": sum(entry.documents for entry in entries),
        "sentences": sum(entry.sentences for entry in entries),
        "bytes": sum(entry.size for entry in entries),
        "packed_bytes": sum(p.stat().st_size for p in packed.folder.rglob("*.arrow")),
    }


def work(name: str, files: Iterable[Any], size: int) -> None:
    """Go through files of `size` bytes in all, with a bar, then one line."""
    from tqdm import tqdm

    from flows.log import say

    start, number = time.perf_counter(), 0
    options: Any = {"unit": "B", "unit_scale": True, "delay": 2, "leave": False, "disable": None}
    with tqdm(total=size, desc=name, **options) as bar:
        for number, file in enumerate(files, 1):  # noqa: B007
            bar.update(file.size)
    seconds = time.perf_counter() - start
    say(f"  {name:<22} {number:>5} files  {size / 1e6:.1f} MB  {seconds:>7.1f} s")


if __name__ == "__main__":
    entry(main, "pack")
