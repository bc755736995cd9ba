"""Prompts: text files with {names} in them."""

from __future__ import annotations

import re
from pathlib import Path

from components.errors import ClaimflowError, nearest

FOLDER = Path(__file__).parent / "prompts"
_NAME = re.compile(r"\{([a-z_]+)\}")


def prompt_file(name: str | Path, folder: Path = FOLDER) -> Path:
    """The file of a prompt: a path, or the name of one in `folder`."""
    for path in (Path(name), folder / name):
        if path.is_file():
            return path.absolute()
    known = sorted(path.name for path in folder.glob("*.txt"))
    raise ClaimflowError(
        f"No prompt '{name}': looked for {Path(name).absolute()} and {folder / name}."
        f"{nearest(str(name), known)} With the project come {', '.join(known)}."
    )


def filled(file: Path, **values: str) -> str:
    """The prompt with each {name} replaced by its value; values are put in as they stand.

    White space at the end of the file doesn't count. Raises ClaimflowError for a name that has
    no value, and when {claim} is not among the names.
    """
    template = file.read_text(encoding="utf-8").rstrip()
    names = _NAME.findall(template)
    for name in names:
        if name not in values:
            raise ClaimflowError(
                f"{file} names {{{name}}}, which has no value here.{nearest(name, values)} "
                f"Names: {', '.join(sorted(values))}."
            )
    if "claim" not in names:
        raise ClaimflowError(f"{file} has no {{claim}}: every claim would get the same prompt.")
    return _NAME.sub(lambda found: values[found.group(1)], template)
