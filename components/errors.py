"""The one exception that users see."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class ClaimflowError(Exception):
    """Something a user can mend. The message is one line: the cause, then the remedy.

    Flows print it and leave with exit code 1; `-v` adds the traceback.
    """


class MissingFileError(ClaimflowError):
    """A file that is not where it was looked for."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or an empty string when no choice is close to `name`."""
    found = difflib.get_close_matches(name, [str(c) for c in choices], n=1, cutoff=0.5)
    return f" Did you mean '{found[0]}'?" if found else ""


def listed(ids: Iterable[str], most: int = 20) -> str:
    """Ids for a note: `3, 7, 12`, cut after `most` with the number of those left out."""
    names = [id if len(id) <= 80 else f"{id[:80]}…" for id in ids]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_AT = r"(?: - at `(?:key in )?\$(.*)`)?"
_EXPECTED = re.compile(rf"Expected `(.+?)`(?: of length (\d+))?, got `?([^` ]+)`?{_AT}")
_MISSING = re.compile(rf"Object missing required field `(.+?)`{_AT}")


def plain(error: BaseException) -> str:
    """What a reader of JSON says is wrong, in words for those who wrote the file."""
    text = str(error)
    if isinstance(error, RecursionError):
        return "nested too deep"
    if text == "Input data was truncated":
        return "the JSON breaks off"
    if found := _MISSING.fullmatch(text):
        field, where = found.groups()
        return f"{field} is missing{f' in {where[1:]}' if where else ''}"
    if found := _EXPECTED.fullmatch(text):
        due, length, got, where = found.groups()
        kinds = " or ".join(_KINDS.get(kind, kind) for kind in due.split(" | "))
        if length:
            return f"{_place(where)} has {got} items, where {kinds} of {length} is due"
        return f"{_place(where)} is {_KINDS.get(got, got)}, where {kinds} is due"
    return text


def _place(path: str | None) -> str:
    return path.removeprefix(".") if path else "the record"
