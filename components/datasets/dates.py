"""Dates as the data sets write them."""

from __future__ import annotations

import datetime
import re

from components.errors import ClaimflowError

_DAY_MONTH_YEAR = re.compile(r"(\d{1,2})-(\d{1,2})-(\d{4})")
_ISO = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?")


def parse_date(text: str | None) -> datetime.date | None:
    """The date in `text`: day-month-year as in AVeriTeC ("2-11-2020" is 2 November 2020), or ISO.

    Nothing else is read, least of all month-first dates. None and "" give None. Raises
    ClaimflowError that names a text which is no date.
    """
    if not text or not text.strip():
        return None
    try:
        if found := _DAY_MONTH_YEAR.fullmatch(text.strip()):
            day, month, year = map(int, found.groups())
            return datetime.date(year, month, day)
        if found := _ISO.fullmatch(text.strip()):
            return datetime.date(*map(int, found.groups()))
    except ValueError:  # 31-2-2020
        pass
    raise ClaimflowError(
        f"'{text}' is not a date: day-month-year (2-11-2020) or ISO (2020-11-02) is meant"
    )


def format_date(date: datetime.date) -> str:
    """Day-month-year without padding, as in AVeriTeC."""
    return f"{date.day}-{date.month}-{date.year:04}"
