"""The one exception that users see."""

from __future__ import annotations

import difflib
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
