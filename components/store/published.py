"""The day on which an HTML page was published, by htmldate, without what that would guess."""

from __future__ import annotations

import copy
import datetime
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from components.store import jsonld
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
_LABEL = re.compile(
    r"(?i)\W*(?:first |originally )?(?:published|posted|date of publication|publication date"
    r"|veröffentlicht|publié|publicado|pubblicato|gepubliceerd)(?: on| am| le| el| em| il| op)?"
    r"[\s:|–-]*(?:(?:[^\W\d_]+[.,]|(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*)\s*)?(?=\d)"
)
_WEEKDAY = re.compile(r"\W*(?:[^\W\d_]+[.,]*\s+){0,2}")  # Freitag, den


def published(tree: HtmlElement) -> datetime.date | None:
    """The day of publication that a page says: the latest that its head or JSON-LD gives, as
    a guard against later pages must not take the date of something else in them; else that of its
    making in JSON-LD, the first in its microdata, what htmldate finds in a short text marked as a
    date, or a short text such as "Published: 2 November 2020". What is no date, or could be two,
    as 03/05/2021, counts as none.

    Dates in running text would let later pages pass for early ones, and so would those of other
    pages that are named beside or below the text. The page itself stays as it is.
    """
    from htmldate import find_date

    tree = copy.deepcopy(tree)
    for element in [*tree.iter("aside", "footer", "nav")]:
        element.drop_tree()
    for element in tree.iter("time"):
        if not element.get("datetime"):
            element.set("datetime", _short(element))
    for element in tree.iter("meta", "time", "abbr"):
        for name in ("content", "datetime", "title"):
            if value := element.get(name):
                element.set(name, _value(value[:_LONGEST]))
    for element in tree.iter():
        for part in ("text", "tail"):
            text = getattr(element, part)
            if text and len(text) <= _LONGEST and (element.tag != "script" or part == "tail"):
                setattr(element, part, plain_dates(text, words=True))
    scripts = jsonld.scripts(tree)
    parts = [part for script in scripts for part in _described(jsonld.value(script))]
    for script in scripts:
        script.set("type", jsonld.TYPE)
        script.text = _IN_JSON.sub(lambda m: m[1] + _value(m[2]), script.text or "")
    for said in (
        [*_of_head(tree), *_of_parts(parts, "datePublished")],
        _of_parts(parts, "uploadDate", "dateCreated"),
        itertools.islice(_of_microdata(tree), 1),  # those below are of other pages
    ):
        if days := [d for text in said if (d := _day(text)) and d.year >= _EARLIEST]:
            return max(days)
    found = find_date(tree, extensive_search=False, original_date=True)
    return datetime.date.fromisoformat(found) if found else _labelled(tree)


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
    return _YEAR_FIRST.sub(lambda m: m[0] if _numbered(m) else "", text)


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


def _short(element: HtmlElement) -> str:
    """The text of an element, empty where it is too long for a date alone."""
    text = "".join(itertools.islice(element.itertext(), 6))
    return " ".join(text.split()) if len(text) <= _LONGEST else ""


def _value(text: str) -> str:
    """A value that may be a date: that day as `2020-11-02`, or what `plain_dates` leaves of it."""
    known = _day(text)
    return str(known) if known else plain_dates(text).strip()


def _day(text: str) -> datetime.date | None:
    """The day that a text begins with, a weekday before it aside, or None. It may be a number of
    seconds or milliseconds."""
    if clock := _CLOCK.fullmatch(text):
        return datetime.datetime.fromtimestamp(int(clock[1]), datetime.UTC).date()
    plain = plain_dates(text)
    found = _YEAR_FIRST.match(plain, _WEEKDAY.match(plain).end())  # type: ignore[union-attr]
    return _numbered(found) if found else None


def _numbered(found: re.Match[str]) -> datetime.date | None:
    """The day of a match of `_YEAR_FIRST`."""
    return day(found[1], *filter(None, found.groups()[2:]))


def _of_head(tree: HtmlElement) -> Iterator[str]:
    for meta in tree.iterfind(".//head/meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        if _PUBLICATION.search(name):
            yield meta.get("content") or meta.get("datetime") or ""


def _of_microdata(tree: HtmlElement) -> Iterator[str]:
    for item in tree.xpath("//*[contains(@itemprop, 'datePublished')]"):
        yield item.get("content") or item.get("datetime") or _short(item)


def _described(given: object) -> Iterator[dict[str, object]]:
    """What a script of JSON-LD describes, and not what that names."""
    for node in given if isinstance(given, list) else [given]:
        graph = node.get("@graph") if isinstance(node, dict) else None
        for part in [node, *(graph if isinstance(graph, list) else [])]:
            if isinstance(part, dict):
                yield part


def _of_parts(parts: Iterable[dict[str, object]], *names: str) -> Iterator[str]:
    return (str(part[name])[:_LONGEST] for part in parts for name in names if name in part)


def _labelled(tree: HtmlElement) -> datetime.date | None:
    """The date in the first short text that says that it is the day of publication."""
    for element in tree.iter("p", "div", "span", "li", "small", "td", "dd", "em", "i", "h6"):
        text = _short(element) if len(element) < 3 else ""
        if (label := _LABEL.match(text)) and (known := _day(text[label.end() :])):
            return known
    return None
