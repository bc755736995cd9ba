"""Gets the official files of a data set into the folder where its reader looks.

    python -m flows.fetch dataset=averitec|scifact|scifact_open|fever [split=dev] [path=FOLDER]
    python -m flows.fetch dataset=averitec split=dev stores=false         claims alone, no stores
    python -m flows.fetch dataset=scifact base=https://mirror.example     same layout, other server
    python -m flows.fetch                                                 what there is to get

Without path= it is NAME below CLAIMFLOW_DATA, or below data/ beside the code. split= leaves out the
files of other splits, but for the training claims, which verdicts learn from. The knowledge stores
of AVeriTeC take 10 GB and more a split: stores=false leaves them out. A transfer that breaks off
goes on where it was, in the next run too. Sizes and digests are checked where they are known
(conf/fetch.yaml); else those of the first run are recorded, and checked by later ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from flows.cli import CONF, plain


def main(words: list[str]) -> None:
    """List the files, or get those of a data set and print a line for each."""
    import msgspec
    import yaml

    from components.datasets.official import OfficialFile, fetch_files
    from components.errors import ClaimflowError, nearest
    from components.files import ROOT

    listed = msgspec.convert(
        yaml.safe_load((CONF / "fetch.yaml").read_text(encoding="utf-8")),
        dict[str, list[OfficialFile]],
    )
    options = dict(word.split("=", 1) for word in words if "=" in word)
    known = ("dataset", "split", "path", "base", "stores")
    for word in words:
        key = word.partition("=")[0]
        if "=" not in word or key not in known:
            raise ClaimflowError(
                f"Unknown word '{word}'.{nearest(key, known)} `python -m flows.fetch --help` "
                "shows all."
            )
    if not options:
        for name, files in listed.items():
            for file in files:
                print(f"{name:<13} {file.split or 'all':<17} {file.url}")
        return
    name = options.get("dataset", "")
    if name not in listed:
        raise ClaimflowError(
            f"Which data set? There are no files of '{name}' to fetch.{nearest(name, listed)} "
            f"There are {', '.join(listed)}."
        )
    split = options.get("split")
    splits = list(dict.fromkeys(file.split for file in listed[name] if file.split))
    if split and split not in splits:
        raise ClaimflowError(
            f"{name} has no files of split '{split}'.{nearest(split, splits)} "
            f"{'Splits: ' + ', '.join(splits) if splits else 'Its files are for all splits'}."
        )
    files = [f for f in listed[name] if not split or f.learnt or f.split in (None, split)]
    if (wanted := options.get("stores", "true")) not in ("true", "false"):
        raise ClaimflowError(f"stores={wanted}: give true, or false to get claims alone.")
    if wanted == "false":
        files = [file for file in files if not file.to.startswith("knowledge_store")]
    folder = Path(
        options.get("path") or Path(os.environ.get("CLAIMFLOW_DATA") or ROOT / "data") / name
    )
    print(f"{name} in {folder.absolute()}:")
    for got in fetch_files(files, folder, options.get("base")):
        members = f", {got.members} files" if got.members else ""
        done = "fetched" if got.new else "was there"
        if not got.checked:
            done += ", not fetched by this command and not checked: nobody says what is official"
        place = got.file.to if not members else f"{got.file.key} -> {got.file.to}"
        print(f"  {place:<44} {got.size / 1e6:>10.1f} MB{members}  {done}", flush=True)


if __name__ == "__main__":
    plain(main)
