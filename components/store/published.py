"""The day on which an HTML page was published, by htmldate, without what that would guess."""

from __future__ import annotations

import copy
import datetime
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_LONGEST = 100  # characters of a text that is a date, and not one in a sentence
_MONTH = re.compile(r"(?<!\d)((?:19|20)\d\d)([-/.])(0?[1-9]|1[0-2])(?![-/.]?\d)")
_YEAR_LAST = re.compile(r"(?<![\d/.-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?!\d)")
_NAMED = re.compile(
    r"(?i)(\d{1,2}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?)?"
    r"\b((?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6})\.?,?\s+((?:19|20)\d\d)\b"
)


def published(tree: HtmlElement) -> datetime.date | None:
    """The earliest day of publication that the head of a page, or a short text in it marked as a
    date, says. Dates in running text would let later pages pass for early ones, and so would those
    of other pages that are named beside or below the text. The page itself stays as it is."""
    from htmldate import find_date

    tree = copy.deepcopy(tree)
    for element in [*tree.iter("aside", "footer", "nav")]:
        element.drop_tree()
    for element in tree.iter("meta", "time", "abbr"):
        for name in ("content", "datetime", "title"):
            if value := element.get(name):
                element.set(name, plain_dates(value))
    for element in tree.iter():
        if element.text and len(element.text) <= _LONGEST and element.tag != "script":
            element.text = plain_dates(element.text)
    found = find_date(tree, extensive_search=False, original_date=True)
    return datetime.date.fromisoformat(found) if found else None


def plain_dates(text: str) -> str:
    """A text whose dates can be read in one way: the first of a month where no day is given (else
    htmldate takes today's), the year first, and nothing for 11/03/2020, as nothing tells its day
    from its month."""
    text = _MONTH.sub(r"\1-\3-01", text)
    text = _NAMED.sub(lambda found: found[0] if found[1] else f"1 {found[2]} {found[3]}", text)
    return _YEAR_LAST.sub(_year_first, text)


def _year_first(found: re.Match[str]) -> str:
    first, second, year = int(found[1]), int(found[3]), found[4]
    if len(year) == 2 or (max(first, second) <= 12 and first != second and found[2] != "."):
        return ""
    day, month = (first, second) if second <= 12 else (second, first)
    return f"{year}-{month:02}-{day:02}"
