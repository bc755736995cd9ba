"""The guard: what a fact-checker could not have read when the claim was made stays out."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import fnmatch
import itertools
import re
import urllib.parse
from collections.abc import Iterable
from typing import ClassVar

from components.errors import ClaimflowError
from components.records import Case, Claim, Document
from components.step import Context, Step
from components.store.months import ENGLISH, day, pattern
from components.text import terms
from components.urls import same_url, unwrap

LATER = "later than the claim"
ARTICLE = "fact-checking article of the claim"
SITE = "fact-checking site"
VERDICT = "page with the claim and a verdict on it"

_NAME = pattern(ENGLISH)
_DAY = re.compile(rf"(?i)(?<!\d)((?:19|20)\d\d)([/._-])(\d{{1,2}}|{_NAME})\2(\d{{1,2}})(?!\d)")
_COMPACT = re.compile(
    r"(?<!\d)((?:19|20)\d\d)(?:/?(0[1-9]|1[0-2])/?|-(0[1-9]|1[0-2])/)(0[1-9]|[12]\d|3[01])(?!\d)"
)
# A month alone; with a number after it, as in /2021/02/30, it would be a day that there is not.
_MONTH = re.compile(
    rf"(?i)/((?:19|20)\d\d)(?:[/-](\d\d|{_NAME})(?=/|$)|(0[1-9]|1[0-2])(?=/))(?!/\d{{1,2}}(?:/|$))"
)
# At the end of a part, and not behind a word that says what day the page is about.
_BEFORE = r"(?:/|(?<!-of)(?<!-on)(?<!-by)(?<!-for)(?<!-from)(?<!-since)(?<!-until)(?<!-before)-)"
_YEAR_LAST = re.compile(
    rf"(?i){_BEFORE}(?:(?P<d>\d{{1,2}})([/._-]?)(?P<m>{_NAME})\2"
    rf"|(?P<m2>{_NAME})([/._-])(?P<d2>\d{{1,2}})\5)(?P<y>(?:19|20)\d\d)(?=/|\.\w+$|$)"
)


@dataclasses.dataclass(kw_only=True)
class Guard(Step):
    """Drops pages dated after the claim, and fact-checks of it; counts them by reason in `dropped`.

    A document counts by its URL, and by that where redirects led. Its date is its own, unless one
    in a URL is later by more than the day that time zones make: what a page shows may be the date
    of something else. Without these it is (archive_stamps) the day on which an archive kept it. A
    document without any date stays, and so does one of the day of the claim. When the claim has no
    date nothing is later: documents that have one stay, and `undecided` counts them.

    sites: fact-checking sites as `host` or `host/path`; either stands for what is below it too, and
    `*` in a path for any characters of one of its parts, as in `news.example/*fact-check*`.
    verdicts: also drop pages of any site that hold the claim and a verdict in English: a sentence,
    or the title, with `claim_share` of the claim's words (stop-words aside), and a phrase such as
    "the claim is false" or "verdict: misleading", or a rating alone in its line. So does a page
    whose markup (ClaimReview) says that it checks such a claim.
    """

    reads: ClassVar = ("claim", "documents")
    writes: ClassVar = ("documents", "dropped", "undecided")
    sites: list[str] = dataclasses.field(default_factory=list)
    archive_stamps: bool = False
    verdicts: bool = False
    claim_share: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.claim_share <= 1:
            raise ClaimflowError(f"guard.claim_share is {self.claim_share}: above 0, 1 at most.")

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        for case in cases:
            reasons: collections.Counter[str] = collections.Counter()
            kept = []
            for document in case.documents:
                if reason := self._reason(document, case.claim):
                    reasons[reason] += 1
                else:
                    kept.append(document)
            case.documents, case.dropped = kept, dict(reasons)
            dates = [] if case.claim.date else [self._date(d.date, _urls(d)) for d in kept]
            case.undecided = sum(date is not None for date in dates)
        return cases

    def _reason(self, document: Document, claim: Claim) -> str | None:
        urls = _urls(document)
        article = claim.fact_check_url and same_url(claim.fact_check_url)
        if any(same_url(url) == article for url in urls):
            return ARTICLE
        if any(checks_facts(url, self.sites) for url in urls):
            return SITE
        date = self._date(document.date, urls)
        if date and claim.date and date > claim.date:
            return LATER
        if self.verdicts and judges(document, claim.text, self.claim_share):
            return VERDICT
        return None

    def _date(self, own: datetime.date | None, urls: list[str]) -> datetime.date | None:
        found = max(filter(None, (url_date(url, False) for url in urls)), default=None)
        if own and found:
            return found if found - own > datetime.timedelta(days=1) else own
        if not own and not found and self.archive_stamps:
            return max(filter(None, map(url_date, urls)), default=None)
        return own or found


def _urls(document: Document) -> list[str]:
    return [url for url in (document.url, document.final_url) if url]


_DEGREE = r"(?:mostly|partly|partially|largely|completely|entirely|simply|totally|only|half)"
_FINDING = (
    rf"(?:{_DEGREE}[ -])?"
    r"(?:true|false|untrue|incorrect|inaccurate|wrong|misleading|unproven|unfounded|baseless|fake|"
    r"supported|refuted|debunked|satire|pants on fire|out of context|missing context|"
    r"not (?:true|correct|supported))\b(?! (?:to|as|for)\b)"
)
_CLAIM = (
    r"(?:(?:viral|online|original|main|central|widely[ -]shared|popular|social[ -]media|"
    r"facebook|instagram|twitter|tiktok|whatsapp) ){0,3}"
    r"(?:claim|statement|assertion|post|story|stories|rumou?r|quote|picture|photo|video)s?"
)
_THE = r"(?:the|this|that|these|those|her|his|their)"
# What may stand between "the claim" and "is false"; then the sentence or clause ends there.
_BETWEEN = (
    r" (?:(?:made|spread|shared|posted|circulating|circulated|that)\b[^.!?;\n]{1,100}?"
    r"|(?:by|in|on)\b[^.,!?;\n]{1,60}?)"
)
_IS = r"(?:is|are|was|were|has been|have been|is rated|are rated)"
_END = r"(?=[\"”’')]*(?:[.,!?;:]|[^\S\n]*$))"
# A sentence or a line that is a rating and nothing else.
_RATING = (
    rf"(?:{_DEGREE}[ -](?:true|false|correct|incorrect)|true|false|untrue|not true|incorrect|"
    r"inaccurate|misleading|unproven|unfounded|baseless|pants on fire|missing context|"
    r"out of context|debunked)"
)
_VERDICT = re.compile(
    r"(?im)\b(?:"
    r"(?:verdict|rating|ruling|our conclusion|claim reviewed|claim rating)"
    r"(?:\s*[:–—-]\s*|[^\S\n]*\n\s*)"
    rf"(?:the {_CLAIM} is )?{_FINDING}"
    rf"|{_THE} {_CLAIM}(?: {_IS} {_FINDING}|(?:{_BETWEEN} {_IS}|['’]s) {_FINDING}{_END})"
    r"|no (?:evidence|proof|truth)(?: that)? (?:supports?|backs?|for|to|behind|in)"
    rf"(?: support| back)? {_THE} {_CLAIM}\b"
    r"|(?:one|two|three|four|[1-4]) pinocchios?\b"
    rf"|we (?:have )?(?:rate|rated|find|found|judge|judged) (?:this|the|that) {_CLAIM}"
    rf"|(?:rate|rated) (?:it|this|that) {_FINDING}"
    rf"|fact[- ]check(?:ed)?\b(?:.|\n){{0,80}}\b{_FINDING})"
    rf"|^[^\w\n]*(?:(?:this|that|it)(?: is|['’]s) (?!true\b))?{_RATING}[^\w\n]*$"
)
# Who speaks in front of "the claim was supported" when no fact-checker does.
_COURT = re.compile(
    r"(?i)\b(?:jury|jurors|court|judges?|justices|tribunal|magistrates?)\s+(?:\w+\s+)?"
    r"(?:found|ruled|held|decided|said|agreed|concluded)(?:\s+that)?\s+\Z"
)


def judges(document: Document, claim: str, share: float) -> bool:
    """Whether a page holds `share` of the claim's words in one place, and a verdict somewhere; or
    says in its markup that it checks such a claim."""
    wanted = set(terms([claim])[0])

    def held(texts: list[str]) -> bool:
        return bool(wanted) and any(
            len(wanted.intersection(found)) >= share * len(wanted) for found in terms(texts)
        )

    texts = [document.title or "", *document.sentences]
    return (_has_verdict("\n".join(texts)) and held(texts)) or held(list(document.checked))


def _has_verdict(text: str) -> bool:
    return any(
        not _COURT.search(text[max(0, found.start() - 80) : found.start()])
        for found in _VERDICT.finditer(text)
    )


def checks_facts(url: str, sites: Iterable[str]) -> bool:
    """Whether a URL is of one of the sites, given as `host` or `host/path`; `*` in the path stands
    for any characters of one of its parts."""
    page = re.sub(r"[?#].*", "", same_url(url).lower())
    host, _, rest = page.partition("/")
    host = re.sub(r":\d+$", "", host)
    parts = rest.split("/")
    for site in sites:
        name, *path = site.strip("/").split("/")
        if (
            (host == name or host.endswith(f".{name}"))
            and len(path) <= len(parts)
            and all(map(fnmatch.fnmatchcase, parts, path))
        ):
            return True
    return False


def url_date(url: str, archive_stamps: bool = True) -> datetime.date | None:
    """The earliest day that a URL can be of, or None.

    Year first: /2020/11/02, /2020/nov/02, 2020-11-02, 20201102 or /2020/1102/ in its path, or
    /2020/11/, /2020-11/ or /202011/ (the first of the month), or a part of it that ends in a date
    with the month's name, /2-nov-2020 or /bread-nov-2-2020, which no word such as "of" makes what
    the page is about; else the stamp of an archive. Numbers with the year last are not read, as
    nothing tells their day from their month.
    """
    page, stamp = unwrap(url)
    path = urllib.parse.unquote(re.sub(r"(?i)^https?://[^/]*|[?#].*", "", page))
    found = [(year, month, number) for year, _, month, number in _DAY.findall(path)]
    found += [(year, m or m2, number) for year, m, m2, number in _COMPACT.findall(path)]
    found += [(year, m or m2, "1") for year, m, m2 in _MONTH.findall(path)]
    found += [
        (named["y"], named["m"] or named["m2"], named["d"] or named["d2"])
        for named in _YEAR_LAST.finditer(path)
    ]
    if stamp and archive_stamps:
        found.append((stamp[:4], stamp[4:6] or "1", stamp[6:8] or "1"))
    return next(filter(None, itertools.starmap(day, found)), None)
