"""The day on which an HTML page was published, by htmldate, without what that would guess."""

from __future__ import annotations

import copy
import datetime
import itertools
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from components.store.months import ENGLISH, MONTHS, day, pattern

if TYPE_CHECKING:
    from lxml.html import HtmlElement

_LONGEST = 100  # characters of a text that is a date, and not one in a sentence
_EARLIEST = 1995  # as for htmldate; what is earlier is the zero of some clock
_MONTH = re.compile(r"(?<!\d)((?:19|20)\d\d)([-/.])(0?[1-9]|1[0-2])(?![-/.]?\d)")
_YEAR_LAST = re.compile(r"(?<![\d/.-])(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d\d)(?!\d)")
_YEAR_FIRST = re.compile(
    r"(?<!\d)((?:19|20)\d\d)(?:([-/.])(\d{1,2})\2(\d{1,2})|(\d\d)(\d\d))(?!\d)"
)
_M = rf"(?<![^\W\d_])(?P<m>{pattern(MONTHS)})(?![^\W\d_])\.?"
_D = r"(?<!\d)(?P<d>\d{1,2})(?:st|nd|rd|th|er|[.º°])?"
_Y = r"(?<!\d)(?P<y>(?:19|20)\d\d)(?!\d)"
_GAP = r"[\s,/_-]{0,3}"
_OF = r"(?:(?:of|de|del|di)\s+)?"
_NAMED = [
    re.compile(f"(?i){form}")
    for form in (
        rf"{_M}{_GAP}{_D}{_GAP}{_Y}",
        rf"(?:{_D}{_GAP}{_OF})?{_M}{_GAP}{_OF}{_Y}",
        rf"{_Y}{_GAP}{_M}{_GAP}{_D}(?!\d)",
        r"(?<!\d)(?P<y>\d{4})\s?[年년]\s?(?P<m>\d{1,2})\s?[月월](?:\s?(?P<d>\d{1,2})\s?[日일])?",
    )
]
_CLOCK = re.compile(r"\s*(1\d{9})(?:\d{3})?\s*")  # seconds or milliseconds since 1970
_PUBLICATION = re.compile(
    r"(?i)(?<!un)publi[sc]|pub[-_]?date|\bissued|^(?:dc(?:terms)?[.:]|sailthru\.)?date$"
)
_IN_JSON = re.compile(r'("date[A-Z]\w*"\s*:\s*")([^"\\]{1,100})(?=")')
_LABELLED = re.compile(
    r"(?i)\W*(?:first |originally )?(?:published|posted|date of publication|publication date"
    r"|veröffentlicht|publié|publicado|pubblicato|gepubliceerd)(?: on| am| le| el| em| il| op)?"
    r"[\s:|–-]*(?:[^\W\d_]+[.,]\s*)?(\d{4}-\d\d-\d\d|\d{1,2} [a-z]+ \d{4})(?!\w)"
)


def published(tree: HtmlElement) -> datetime.date | None:
    """The day of publication that a page says: the latest that its head gives, as a guard against
    later pages must not take the date of something else in them; else what htmldate finds in a
    short text marked as a date; else a short text such as "Published: 2 November 2020".

    Dates in running text would let later pages pass for early ones, and so would those of other
    pages that are named beside or below the text. The page itself stays as it is.
    """
    from htmldate import find_date

    tree = copy.deepcopy(tree)
    for element in [*tree.iter("aside", "footer", "nav")]:
        element.drop_tree()
    for element in tree.iter("meta", "time", "abbr"):
        for name in ("content", "datetime", "title"):
            if value := element.get(name):
                element.set(name, _value(value[:_LONGEST]))
    for element in tree.iter():
        for part in ("text", "tail"):
            text = getattr(element, part)
            if text and len(text) <= _LONGEST and (element.tag != "script" or part == "tail"):
                setattr(element, part, plain_dates(text, words=True))
    scripts = tree.xpath("//script[@type='application/ld+json']")
    for script in scripts:
        script.text = _IN_JSON.sub(lambda m: m[1] + _value(m[2]), script.text or "")
    said = [*_of_head(tree), *itertools.chain.from_iterable(map(_of_json, scripts))]
    if days := [known for text in said if (known := _day(text)) and known.year >= _EARLIEST]:
        return max(days)
    found = find_date(tree, extensive_search=False, original_date=True) or _labelled(tree)
    return datetime.date.fromisoformat(found) if found else None


def plain_dates(text: str, words: bool = False) -> str:
    """A text whose dates can be read in one way: the year first, the first of a month where no day
    is given (else htmldate takes today's), and nothing for 30 February, or for 11/03/2020, as
    nothing tells its day from its month.

    words: what names its month goes on doing so, as htmldate takes dates in numbers from sentences.
    """
    for form in _NAMED:
        text = form.sub(_in_words if words else _in_numbers, text)
    text = _MONTH.sub(r"\1-\3-01", text)
    text = _YEAR_LAST.sub(_year_first, text)
    return _YEAR_FIRST.sub(lambda m: m[0] if day(m[1], *filter(None, m.groups()[2:])) else "", text)


def _in_numbers(found: re.Match[str]) -> str:
    """A date in numbers; empty where there is no such day."""
    known = day(found["y"], found["m"], found["d"] or "1")
    return f" {known} " if known else ""


def _in_words(found: re.Match[str]) -> str:
    """A date as `2 november 2020`; empty where there is no such day."""
    known = day(found["y"], found["m"], found["d"] or "1")
    return f" {known.day} {list(ENGLISH)[known.month - 1]} {known.year} " if known else ""


def _year_first(found: re.Match[str]) -> str:
    first, second, year = int(found[1]), int(found[3]), found[4]
    if len(year) == 2 or (max(first, second) <= 12 and first != second and found[2] != "."):
        return ""
    day, month = (first, second) if second <= 12 else (second, first)
    return f"{year}-{month:02}-{day:02}"


def _value(text: str) -> str:
    """A value that may be a date, which may be a number of seconds or milliseconds."""
    if clock := _CLOCK.fullmatch(text):
        return str(datetime.datetime.fromtimestamp(int(clock[1]), datetime.UTC).date())
    return plain_dates(text).strip()


def _day(text: str) -> datetime.date | None:
    """The day that a value of metadata begins with, or None."""
    found = re.match(r"((?:19|20)\d\d)-?(\d\d)-?(\d\d)(?!\d)", text)
    return day(*found.groups()) if found else None


def _of_head(tree: HtmlElement) -> Iterator[str]:
    for meta in tree.iterfind(".//head/meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        if _PUBLICATION.search(name):
            yield meta.get("content") or meta.get("datetime") or ""


def _of_json(script: HtmlElement) -> Iterator[str]:
    """Days of publication of what a script of JSON-LD describes, and not of what that names."""
    try:
        given: Any = json.loads(script.text or "")
    except (ValueError, RecursionError):  # htmldate reads it without parsing
        return
    for node in given if isinstance(given, list) else [given]:
        graph = node.get("@graph") if isinstance(node, dict) else None
        for part in [node, *(graph if isinstance(graph, list) else [])]:
            if isinstance(part, dict) and "datePublished" in part:
                yield _value(str(part["datePublished"]))


def _labelled(tree: HtmlElement) -> str | None:
    """The date in the first short text that says that it is the day of publication."""
    for element in tree.iter("p", "div", "span", "li", "small", "td", "dd", "em", "i", "h6"):
        text = "".join(itertools.islice(element.itertext(), 6)) if len(element) < 3 else ""
        if len(text) <= _LONGEST and (found := _LABELLED.match(" ".join(text.split()))):
            return plain_dates(found[1]).strip()
    return None
