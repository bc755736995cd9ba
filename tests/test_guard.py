"""The guard against pages that nobody could have read when the claim was made."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import pytest
import yaml

from components.cache import Cache
from components.datasets.averitec import claim_from
from components.datasets.dates import parse_date
from components.errors import ClaimflowError
from components.files import ROOT
from components.records import Case, Claim, Document
from components.step import Context
from components.store import build
from components.store.build import Found
from components.store.extract import extract
from components.store.guard import (
    ARTICLE,
    LATER,
    SITE,
    VERDICT,
    Guard,
    checks_facts,
    url_date,
)
from components.urls import same_url

ARTICLE_URL = "https://web.archive.org/web/20201103001419/https://www.checkdesk.example/ostrel/"


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path))


def strict(**changes: bool) -> Guard:
    config = yaml.safe_load((ROOT / "conf" / "guard" / "strict.yaml").read_text())
    assert config.pop("_target_") == "components.store.guard.Guard"
    return Guard(**config | changes)


def guarded(
    guard: Guard, ctx: Context, date: datetime.date | None, documents: list[Document]
) -> tuple[list[str], dict[str, int]]:
    claim = Claim(id="0", text="A claim.", date=date, fact_check_url=ARTICLE_URL)
    (case,) = guard.run([Case(claim=claim, documents=documents)], ctx)
    return [d.id for d in case.documents], case.dropped


def doc(url: str, date: str | None = None) -> Document:
    return Document(id=url, url=url, date=parse_date(date), sentences=["Text."])


def test_pitfall_1_later_pages_and_fact_checks_are_dropped_and_counted(ctx: Context) -> None:
    kept = [
        doc("https://a.example/same-day", "2020-11-02"),
        doc("https://a.example/before", "1-11-2020"),
        doc("https://a.example/undated"),
        doc("https://a.example/2020/11/02/news"),
        doc("https://a.example/2020/11/03/news", "2020-11-02"),  # of another time zone
        Document(id="no url", sentences=["Text."]),
    ]
    dropped = [
        doc("https://a.example/after", "2020-11-03"),
        doc("https://a.example/next-year", "1-1-2021"),  # 1 January: not before 2 November
        doc("https://a.example/2020/11/03/news"),
        doc("https://a.example/2020/dec/01/news"),
        doc("https://a.example/2021/05/05/x", "2001-05-01"),  # the date of another page on it
        doc("https://web.archive.org/web/20201203/https://a.example/x"),
        doc("http://checkdesk.example/ostrel"),
        doc("https://en.trueorfalse.example/other", "2019-01-01"),
        doc("https://www.reuters.com/fact-check/x"),
    ]
    ids, reasons = guarded(
        strict(archive_stamps=True), ctx, parse_date("2-11-2020"), [*dropped, *kept]
    )
    assert ids == [d.id for d in kept]
    assert reasons == {LATER: 6, ARTICLE: 1, SITE: 2}


def test_pitfall_1_each_claim_is_measured_by_its_own_date(ctx: Context) -> None:
    page = doc("https://a.example/x", "2020-11-01")
    claims = [
        Claim(id=str(n), text="", date=parse_date(d))
        for n, d in enumerate(["31-10-2020", "2-11-2020"])
    ]
    cases = strict().run([Case(claim=c, documents=[page]) for c in claims], ctx)
    assert [len(case.documents) for case in cases] == [0, 1]


def test_pitfall_1_a_claim_without_date_says_what_could_not_be_decided(ctx: Context) -> None:
    documents = [
        doc("https://a.example/x", "2021-01-01"),
        doc("https://a.example/2020/11/03/y"),
        doc("https://a.example/undated"),
        doc("https://checkdesk.example/ostrel"),
    ]
    claim = Claim(id="0", text="A claim.", fact_check_url=ARTICLE_URL)
    (case,) = strict().run([Case(claim=claim, documents=documents)], ctx)
    assert case.documents == documents[:3]
    assert case.dropped == {ARTICLE: 1}  # what stays is not counted as dropped
    assert case.undecided == 2


def test_documents_are_shared_and_stay_as_they_are(ctx: Context) -> None:
    documents = [doc("https://a.example/x", "2021-01-01")]
    guarded(strict(), ctx, parse_date("2-11-2020"), documents)
    assert len(documents) == 1


def test_sites_with_a_path_are_that_part_alone(ctx: Context) -> None:
    guard = Guard(sites=["post.example/facts"])
    documents = [
        doc("https://post.example/facts/1"),
        doc("https://www.post.example/facts"),
        doc("https://post.example/factsheet"),
        doc("https://signpost.example/facts"),
        doc("https://en.post.example/facts/2"),
    ]
    ids, reasons = guarded(guard, ctx, None, documents)
    assert ids == [documents[2].id, documents[3].id]
    assert reasons == {SITE: 3}


def test_a_star_in_a_site_is_a_part_of_one_name() -> None:
    sites = ["post.example/*/*fact-check*", "wire.example/article/uk-factcheck*"]
    for url in (
        "https://post.example/news/ap-fact-check-bread", "https://post.example/news/fact-check/x",
        "https://wire.example/article/uk-factcheck-bread-idUSKBN22P22I/?x=1",
        "https://wire.example/article/uk-factcheck-bread/false-claim-idUSKCN2252T6",
    ):  # fmt: skip
        assert checks_facts(url, sites), url
    for url in (
        "https://post.example/fact-check", "https://post.example/news/x/fact-check",
        "https://wire.example/article/uk-bread-factcheck", "https://wire.example/article",
        "https://wire.example/", "https://wire.example",
    ):  # fmt: skip
        assert not checks_facts(url, sites), url


AVERITEC = Path(os.environ.get("CLAIMFLOW_DATA", "../shared/data")) / "averitec"


@pytest.mark.skipif(not AVERITEC.is_dir(), reason="needs CLAIMFLOW_DATA")
def test_nearly_all_articles_that_checked_claims_of_averitec_are_on_sites_of_the_list() -> None:
    splits = [json.loads((AVERITEC / f"{s}.json").read_text()) for s in ("dev", "train")]
    articles = [claim["fact_checking_article"] for split in splits for claim in split]
    assert len(articles) == 3568
    sites = strict().sites
    covered = [checks_facts(url, sites) for url in articles]
    assert sum(covered[:500]) >= 0.95 * 500
    assert sum(covered) >= 0.97 * 3568
    # Little of the gold evidence is on one.
    cited = {
        answer.get("source_url") or ""
        for split in splits
        for claim in split
        for question in claim["questions"]
        for answer in question["answers"]
    }
    assert sum(checks_facts(url, sites) for url in cited) < 0.06 * len(cited)


@pytest.mark.parametrize(
    ("url", "date"),
    [
        ("https://a.example/2020/11/02/x", "2020-11-02"),
        ("https://a.example/world/2020/nov/2/x", "2020-11-02"),
        ("https://a.example/x-2020-11-02.html", "2020-11-02"),
        ("https://a.example/2020/11/x", "2020-11-01"),
        ("https://a.example/2020/31/10/x", None),
        ("https://a.example/report-2019-20", None),
        ("https://a.example/20201102-title", "2020-11-02"),
        ("https://a.example/id/120201102", None),
        ("https://a.example/id/20201302", None),
        ("https://a.example/02-11-2020/x", None),  # day or month first?
        ("https://a.example/11/2/2020/x", None),
        ("https://archive.ph/20201130144023/https://a.example/x", "2020-11-30"),
        ("https://archive.today/2020.11.30-144023/https://a.example/x", "2020-11-30"),
        ("https://archive.ph/AbCdE", None),
        ("https://a.example/12020/11/02", None),
        ("https://a.example/x?date=2020-11-02", None),
        ("https://web.archive.org/web/20201130144023/https://a.example/x", "2020-11-30"),
        ("https://web.archive.org/web/2020im_/https://a.example/x", "2020-01-01"),
        ("https://web.archive.org/web/20201130/https://a.example/2020/11/02/x", "2020-11-02"),
        ("https://[broken", None),
        ("https://a.example/2020/november/02/x", "2020-11-02"),
        ("https://a.example/2020_11_02/x", "2020-11-02"),
        ("https://a.example/2020.11.02/x", "2020-11-02"),
        ("https://a.example/2020/1102/x", "2020-11-02"),
        ("https://a.example/202011/02/x", "2020-11-02"),
        ("https://a.example/2020/nov/x", "2020-11-01"),
        ("https://2020-11-02.example/x", None),
        ("https://a.example/Postponed%2028.08.20.pdf", None),  # a space before 28
        ("https://archive.org/web/20201130144023/https://a.example/x", "2020-11-30"),
        ("https://arquivo.pt/wayback/20201130144023/https://a.example/x", "2020-11-30"),
        ("https://web.archive.org/web/20201130144023/a.example/x", "2020-11-30"),
        ("https://a.example/2-nov-2020", "2020-11-02"),
        ("https://a.example/2-November-2020.html", "2020-11-02"),
        ("https://a.example/nov/2/2020/x", "2020-11-02"),
        ("https://a.example/02nov2020/x", "2020-11-02"),
        ("https://a.example/budget-of-2-november-2020", None),  # what it is about
        ("https://a.example/31-june-2020", None),
        ("https://a.example/2020/sept/x", "2020-09-01"),
        ("https://a.example/2020/mayor/", None),
        ("https://a.example/2020/decision/", None),
        ("https://a.example/2020/marketing/", None),
        ("https://a.example/2020/junk/x", None),
        ("https://a.example/2020/marathon/03", None),
        ("https://a.example/2020-11/bread", "2020-11-01"),
        ("https://a.example/2020-11", "2020-11-01"),
        ("https://a.example/202011/bread", "2020-11-01"),
        ("https://a.example/a/2020-11/02/bread", "2020-11-02"),
        ("https://a.example/bread/202011", None),  # a number like others
        ("https://a.example/202013/bread", None),
        ("https://a.example/2020-13/bread", None),
        ("https://a.example/report-2020-11/bread", None),
        ("https://a.example/2020-02/30/bread", None),
        ("https://a.example/bread-november-2-2020", "2020-11-02"),
        ("https://a.example/bread-of-ostrelle-nov-2-2020.html", "2020-11-02"),
        ("https://a.example/bread-2-november-2020/", "2020-11-02"),
        ("https://a.example/the-fair-on-november-2-2020", None),  # what it is about
        ("https://a.example/bread-november-31-2020", None),
        ("https://a.example/unmay-2-2020", None),
        ("https://a.example/2021/02/30/", None),
        ("https://a.example/2021/feb/30", None),
        ("https://a.example/2021/02/30-ways-to-bake", "2021-02-01"),
    ],
)
def test_dates_in_urls(url: str, date: str | None) -> None:
    assert url_date(url) == parse_date(date)


def test_archive_stamps_can_be_left_aside() -> None:
    assert url_date("https://web.archive.org/web/20201130/https://a.example/x", False) is None


def test_fact_checking_sites_in_every_guise(ctx: Context) -> None:
    sites = ["snopes.com", "reuters.com/fact-check"]
    for url in (
        "https://snopes.com./x", "https://www.snopes.com:8080/x", "https://reuters.com/fact-check?x=1",
        "https://reuters.com//fact-check/x", "https://web.archive.org/web/2020/snopes.com/x",
        "https://www-snopes-com.cdn.ampproject.org/c/s/www.snopes.com/x",
        "https://www.google.com/url?q=https://snopes.com/x", "https://snopes-com.translate.goog/x",
        "https://translate.google.com/translate?hl=en&sl=fr&u=https%3A%2F%2Fwww.snopes.com%2Fx&tl=de",
        "https://translate.google.de/translate?u=snopes.com/x",
        "https://webcache.googleusercontent.com/search?q=cache:AbC-dEf_12g:https://snopes.com/x+bread",
        "http://webcache.googleusercontent.com/search?hl=en&q=cache%3Asnopes.com/x",
    ):  # fmt: skip
        assert checks_facts(url, sites), url
    assert not checks_facts("https://reuters.com/fact-checkers", sites)


def test_same_url() -> None:
    form = same_url("https://a.example/ca%C3%B1on/é")
    for url in (
        "http://www.A.example/cañon/e\u0301/#top",
        "https://web.archive.org/web/20201103001419/https://a.example:443/ca%c3%b1on/é/",
    ):
        assert same_url(url) == form
    form = same_url("https://a.example/x?id=1")
    for url in (
        "https://m.a.example//x/?utm_source=s&id=1&fbclid=2",
        "https://amp.a.example./x/amp?id=1",
        "https://web.archive.org/web/2020/a.example/x?id=1",
        "https://web.archive.org/web/20201103/http:/a.example/x?id=1",
        "https://www.google.com/url?sa=t&q=https%3A%2F%2Fa.example%2Fx%3Fid%3D1&usg=u",
        "https://a-example.cdn.ampproject.org/c/s/a.example/x?id=1",
        "https://a-example.translate.goog/x?id=1&_x_tr_sl=en",
    ):
        assert same_url(url) == form
    assert same_url("https://a.example/x?id=1") != same_url("https://a.example/x?id=2")
    assert same_url("no url") == "no url"


# Every way in which a date comes in, of the claim and of a page

BEFORE, SAME, AFTER = "2020-11-01", "2020-11-02", "2020-11-03"
PAGE = """<!DOCTYPE html><html><head><title>Bread</title>{meta}</head><body><article><h1>Bread</h1>
<p>{by} The bakers of Ostrelle baked a great many loaves of bread in the week before the fair.</p>
<p>They sold all of them, and the mayor thanked the bakers for it in a letter.</p>
</article></body></html>"""
METAS = [
    '<meta property="article:published_time" content="{date}T08:00:00+00:00">',
    '<meta property="article:published_time" content="{date}">',
    '<meta name="date" content="{date}">',
    '<meta name="DC.date.issued" content="{date}">',
    '<meta itemprop="datePublished" content="{date}">',
    '<script type="application/ld+json">{{"@context": "https://schema.org", "@type": '
    '"NewsArticle", "datePublished": "{date}T08:00:00Z", "dateModified": "2024-01-01"}}</script>',
]


@pytest.mark.parametrize(
    "claim_date", ["2-11-2020", "02-11-2020", "2020-11-02", "2020-11-02T10:00"]
)
@pytest.mark.parametrize(
    ("page_date", "kept"),
    [
        ("1-11-2020", True),
        ("2-11-2020", True),
        ("3-11-2020", False),
        ("11-3-2020", True),  # 11 March, not 3 November
        ("3-12-2020", False),  # 3 December, not 12 March
        ("2020-11-02T23:59:59Z", True),
        ("2020-11-03 00:00", False),
        (None, True),
        ("", True),
        ("  ", True),
    ],
)
def test_pitfall_1_every_form_of_claim_and_page_date(
    ctx: Context, claim_date: str, page_date: str | None, kept: bool
) -> None:
    claim = claim_from({"claim": "A claim.", "claim_date": claim_date}, 0)
    assert claim.date == datetime.date(2020, 11, 2)
    ids, reasons = guarded(strict(), ctx, claim.date, [doc("https://a.example/x", page_date)])
    assert bool(ids) == kept
    assert reasons == ({} if kept else {LATER: 1})


@pytest.mark.parametrize(
    "text", ["11/2/2020", "2/11/2020", "31-2-2020", "Nov 2, 2020", "2020", "2-11-20"]
)
def test_pitfall_1_a_date_of_another_form_is_an_error_never_a_guess(text: str) -> None:
    with pytest.raises(ClaimflowError, match="day-month-year"):
        claim_from({"claim": "A claim.", "claim_date": text}, 0)
    with pytest.raises(ClaimflowError, match="day-month-year"):
        doc("https://a.example/x", text)


@pytest.mark.parametrize("missing", [None, "", " "])
def test_pitfall_1_a_claim_without_date_takes_none_from_others(
    ctx: Context, missing: str | None
) -> None:
    claims = [
        claim_from({"claim": "A claim.", "claim_date": date}, n)
        for n, date in enumerate(["1-1-2019", missing, "1-1-2022"])
    ]
    pages = [doc("https://a.example/x", AFTER)]
    cases = strict().run([Case(claim=claim, documents=pages) for claim in claims], ctx)
    assert [case.dropped for case in cases] == [{LATER: 1}, {}, {}]
    assert [case.undecided for case in cases] == [0, 1, 0]


@pytest.mark.parametrize("meta", METAS, ids=lambda meta: meta[1:35])
def test_dates_that_pages_say(ctx: Context, meta: str) -> None:
    for date, kept in ((BEFORE, True), (SAME, True), (AFTER, False)):
        html = PAGE.format(meta=meta.format(date=date), by="")
        page = extract(html.encode())
        assert page.date == datetime.date.fromisoformat(date)
        document = Document(id="x", url="https://a.example/x", date=page.date, sentences=["Text."])
        ids, _ = guarded(strict(), ctx, datetime.date(2020, 11, 2), [document])
        assert bool(ids) == kept


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ("2020-11", "2020-11-01"),  # never today's day
        ("November 2020", "2020-11-01"),
        ("2 November 2020", "2020-11-02"),
        ("11/25/2020", "2020-11-25"),
        ("25/11/2020", "2020-11-25"),
        ("02.11.2020", "2020-11-02"),
        ("11/03/2020", None),  # of March or of November?
        ("11/03/20", None),
        ("02-Nov-2020", "2020-11-02"),
        ("Nov. 2nd, 2020", "2020-11-02"),
        ("Monday, November 2, 2020, 08:00", "2020-11-02"),
        ("Mon, 02 Nov 2020 08:00:00 GMT", "2020-11-02"),
        ("2nd of November 2020", "2020-11-02"),
        ("2020 Nov 2", "2020-11-02"),
        ("2 de noviembre de 2020", "2020-11-02"),
        ("2. März 2020", "2020-03-02"),
        ("1er août 2020", "2020-08-01"),
        ("2 dicembre 2020", "2020-12-02"),
        ("2020年11月2日", "2020-11-02"),
        ("1604304000", "2020-11-02"),
        ("1604304000000", "2020-11-02"),
        ("2020-02-30", None),
        ("20200230", None),
        ("31 June 2020", None),
        ("Marathon 2020", None),
        ("32 March 2020", None),
        ("2020/11/02", "2020-11-02"),
        ("2020.11.02", "2020-11-02"),
        ("20201102T0800Z", "2020-11-02"),
        ("Monday, November 2nd, 2020", "2020-11-02"),
        ("Mon Nov 02 2020 08:00:00 GMT+0000 (UTC)", "2020-11-02"),
        ("Montag, den 2. November 2020", "2020-11-02"),
        ("2 Agustus 2020", "2020-08-02"),
        ("2 września 2020", "2020-09-02"),
        ("2 juny 2020", None),
    ],
)
def test_dates_in_other_forms(said: str, date: str | None) -> None:
    old = '<time datetime="2015-01-01">1 January 2015</time>'
    for meta in [*METAS[1:5], LD.format('{{"datePublished": "{date}"}}')]:
        page = extract(PAGE.format(meta=meta.format(date=said), by="").encode())
        assert page.date == parse_date(date), meta
        page = extract(PAGE.format(meta=meta.format(date=said), by=old).encode())
        assert page.date == parse_date(date or "2015-01-01"), meta
    for tag in ('<time datetime="{}">Then</time>', "<time>{}</time>",
                '<span itemprop="name datePublished" content="{}">Then</span>',
                '<span itemprop="datePublished">{}</span>'):  # fmt: skip
        page = extract(PAGE.format(meta="", by=tag.format(said)).encode())
        assert page.date == parse_date(date), tag


PUBLISHED = '<meta property="article:published_time" content="{}">'
LD = '<script type="application/ld+json">{}</script>'


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ('{"@type": "NewsArticle", "datePublished": "2020-11-02T08:00:00Z"}', "2020-11-02"),
        ('[{"@graph": [{"datePublished": "02-Nov-2020"}]}]', "2020-11-02"),
        ('{"datePublished": 1604304000}', "2020-11-02"),
        ('{"datePublished": "2018-01-01", "dateModified": "2024-01-01"}', "2019-01-01"),
        ('{"related": [{"datePublished": "2021-05-01"}]}', "2019-01-01"),
        ('{"datePublished": "1970-01-01"}', "2019-01-01"),
        ('{"datePublished": ', "2019-01-01"),
        ('{"datePublished": "11/03/2020"}', "2019-01-01"),
        ('{"dateCreated": "2020-11-02"}', "2019-01-01"),
    ],
)
def test_of_two_days_of_publication_the_later_counts(said: str, date: str) -> None:
    for meta in (PUBLISHED.format("2019-01-01") + LD.format(said),
                 LD.format(said) + PUBLISHED.format("2019-01-01")):  # fmt: skip
        assert extract(PAGE.format(meta=meta, by="").encode()).date == parse_date(date)
    two = PUBLISHED.format("2019-01-01") + PUBLISHED.format(date)
    assert extract(PAGE.format(meta=two, by="").encode()).date == parse_date(date)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Published: 2 November 2020", "2020-11-02"),
        ("<b>Published:</b> 2 November 2020, 08:00", "2020-11-02"),
        ("Posted on Monday, Nov. 2nd, 2020", "2020-11-02"),
        ("Publicado el 2 de noviembre de 2020", "2020-11-02"),
        ("Published: 11/03/2020", None),
        ("The fair was on 2 November 2020.", None),
        ("Published figures of 2 November 2020 say more.", None),
        ("Posted on Mon Nov 02 2020 08:00:00 GMT+0000 (UTC)", "2020-11-02"),
        ("Published: 2020/11/02", "2020-11-02"),
        ("Published: 5 Maret 2021", "2021-03-05"),
        ("Published: 14 lipca 2021", "2021-07-14"),
        ("Published 12 comments 2021", None),
        ("Publicado el 14 juny 2021", None),
        ("Published: 32 March 2021", None),
    ],
)
def test_a_short_text_that_says_when_a_page_was_published(text: str, date: str | None) -> None:
    html = PAGE.format(meta="", by="").replace("<p>", f"<p>{text}</p><p>", 1)
    assert extract(html.encode()).date == parse_date(date)


@pytest.mark.parametrize(
    ("said", "date"),
    [
        ({"uploadDate": "2020-11-02"}, "2020-11-02"),
        ({"dateCreated": "2 November 2020"}, "2020-11-02"),
        ({"dateCreated": "2020-11-02", "datePublished": "2020-10-01"}, "2020-10-01"),
        ({"dateCreated": "2020-11-02", "datePublished": "11/03/2020"}, "2020-11-02"),
    ],
)
def test_the_day_of_making_counts_where_there_is_none_of_publication(
    said: dict[str, str], date: str
) -> None:
    assert extract(PAGE.format(meta=LD.format(json.dumps(said)), by="").encode()).date == (
        parse_date(date)
    )


@pytest.mark.parametrize("tag", ["aside", "footer", "nav"])
def test_dates_of_other_pages_are_passed_over(tag: str) -> None:
    beside = f'<{tag}><time datetime="2001-05-01">1 May 2001</time></{tag}></body>'
    assert extract(PAGE.format(meta="", by="").replace("</body>", beside).encode()).date is None


def test_a_page_without_a_date_of_its_own_has_that_of_its_url_then_of_its_archive(
    ctx: Context,
) -> None:
    page = extract(PAGE.format(meta="", by="").encode())
    assert page.date is None
    urls = {
        "https://a.example/2020/11/03/bread": False,
        "https://a.example/2020/11/01/bread": True,
        "https://web.archive.org/web/20201103000000/https://a.example/bread": False,
        "https://web.archive.org/web/20201101000000/https://a.example/bread": True,
        "https://web.archive.org/web/20240101000000/https://a.example/2020/11/01/bread": True,
        "https://archive.ph/20201103000000/https://a.example/bread": False,
        "https://a.example/bread": True,
    }
    for url, kept in urls.items():
        ids, _ = guarded(strict(archive_stamps=True), ctx, parse_date(SAME), [doc(url)])
        assert bool(ids) == kept, url
    assert strict().archive_stamps is False  # by default an archive's stamp is not the page's date


# Pages that check the claim, wherever they stand

CLAIM = "From July 2023 bakeries in Talvia may no longer sell bread on Sundays."


def judged(ctx: Context, *sentences: str, title: str | None = None) -> bool:
    document = Document(id="x", url="https://a.example/x", title=title, sentences=list(sentences))
    (case,) = strict().run([Case(claim=Claim(id="0", text=CLAIM), documents=[document])], ctx)
    assert case.dropped in ({}, {VERDICT: 1})
    return not case.documents


@pytest.mark.parametrize(
    "verdict",
    [
        "The claim is false.",
        "This statement is mostly false.",
        "Verdict: Misleading",
        "Our rating: not true.",
        "Conclusion of our fact check: the post is simply wrong.",
        "We rate this claim Pants on Fire.",
        "The claim is supported.",
        "Verdict\nFalse",
        "FACT CHECK: Do they?\nFalse.",
        "The paper rated it Pants on Fire.",
        "This is false.",
        "That is not true.",
        "It’s misleading!",
        "FALSE",
        "Mostly false",
        "False.",
        "“Half true”",
        "Pants on Fire!",
        "CLAIM REVIEWED: mostly false",
        "Claim rating: False",
        "A court has it in hand. The claim is false.",
        "The ministry found that the claim is false.",
        "The viral claim is false.",
        "The widely shared Facebook post was misleading.",
        "The claim's false.",
        "The claim’s baseless!",
        "These claims are false, the ministry says.",
        "These claims are false because no such law was made.",
        "Those viral photos are fake.",
        "All the claims have been debunked.",
        "The claim made by the mayor is false.",
        "The claims circulating on WhatsApp are misleading.",
        "The post by the bakers’ guild is false.",
        "The claim in the video is partly false.",
        "The claim that bakeries may sell no bread is false.",
        "No evidence supports the claim.",
        "There is no evidence to support this claim.",
        "We found no evidence for these claims.",
        "There is no truth to the viral claim.",
        "Four Pinocchios",
        "We award the mayor Three Pinocchios.",
    ],
)
def test_a_page_with_claim_and_verdict_is_a_fact_check(ctx: Context, verdict: str) -> None:
    assert judged(ctx, "A post says:", CLAIM, "We asked the ministry.", verdict)
    assert judged(
        ctx, verdict, title="Will bakeries in Talvia sell no bread on Sundays from July 2023?"
    )
    assert not judged(ctx, "The ministry has a new law on the opening hours of shops.", verdict)


@pytest.mark.parametrize(
    "sentence",
    [
        "The ordinance lets bakeries sell bread until one.",
        "It is true that many Talvians buy bread on Sundays.",
        "False teeth are not bread.",
        "The verdict of the court came in May.",
        "He rates the bread highly.",
        "Her story is true to life.",
        "The verdict: guilty. The jury found the claim was supported by the letters.",
        "The court ruled that the claim was unfounded.",
        "The judges unanimously decided that this statement is false.",
        "This is true.",
        "This is false economy, the bakers say.",
        "True North is a bakery.",
        "It is not true love of bread that moves them.",
        "Mostly bread is sold.",
        "They reviewed the claim: mostly bakers came.",
        "Claim reviewed by the ministry in May.",
        "The claim made by the mayor is falsely called new.",
        "The insurance claim is wrong by three crowns.",
        "The love story is true.",
        "The claim's true owner is a baker.",
        "These claims are true to the letter of the law.",
        "The post in Morrin is wrong for a bakery.",
        "The photos in the hall are true to life.",
        "The claims made by the jury's critics are many; the law is true.",
        "The claim that the mayor was wrong was heard in May.",
        "The court ruled that the claims made by the guild are unfounded.",
        "The judge said no evidence supports the claim.",
        "No evidence supports a claim to the bakery.",
        "The bakers read Pinocchio to four children.",
        "Pinocchios of wood are sold at the fair.",
    ],
)
def test_a_page_that_only_tells_the_story_stays(ctx: Context, sentence: str) -> None:
    assert not judged(ctx, CLAIM, sentence)


REVIEW = {"@type": "ClaimReview", "claimReviewed": CLAIM, "reviewRating": {"alternateName": "No"}}

WRITTEN = json.dumps(REVIEW)
OTHER_JSON = [
    f'<script type="application/ld+json; charset=utf-8">{WRITTEN}</script>',
    f'<script type=" Application/LD+JSON ">{WRITTEN}</script>',
    LD.format(WRITTEN.replace('"No"', '"No.\nNever.\t"')),
    LD.format(f"<![CDATA[{WRITTEN}]]>"),
    LD.format(f"//<![CDATA[\n{WRITTEN}\n//]]>"),
    LD.format(f"/*<![CDATA[*/ {WRITTEN} /*]]>*/"),
    LD.format(f"<!--\n{WRITTEN}\n-->"),
]


@pytest.mark.parametrize(
    "markup",
    [
        LD.format(json.dumps(REVIEW)),
        LD.format(json.dumps({"@graph": [{"@type": "WebPage"}, REVIEW]})),
        '<div itemscope itemtype="https://schema.org/ClaimReview">'
        f'<p itemprop="claimReviewed">{CLAIM}</p></div>',
        f'<meta itemprop="claimReviewed" content="{CLAIM}">',
        f'<p itemprop="name claimReviewed">{CLAIM}</p>',
        f'<p property="claimReviewed">{CLAIM}</p>',
        f'<p property="name schema:claimReviewed">{CLAIM}</p>',
        f'<meta property="https://schema.org/claimReviewed" content="{CLAIM}">',
        *OTHER_JSON,
    ],
    ids=[
        *("JSON-LD", "graph", "microdata", "meta", "several names", "RDFa", "prefixed", "address"),
        *(f"JSON-LD {n}" for n in range(len(OTHER_JSON))),
    ],
)
def test_markup_says_that_a_page_checks_the_claim(ctx: Context, markup: str) -> None:
    claim = Claim(id="0", text=CLAIM)
    other = markup.replace(CLAIM, "The lake of Morrin was dry in June.")
    for written, kept in ((markup, 0), (other, 1), (LD.format('{"claimReviewed": '), 1)):
        html = PAGE.format(meta="", by="").replace("</head>", f"{written}</head>")
        page = extract(html.encode())
        document = build.document(Found(url="https://a.example/x", kind="claim"), page, "")
        (case,) = strict().run([Case(claim=claim, documents=[document])], ctx)
        assert len(case.documents) == kept, page.checked


@pytest.mark.parametrize("markup", OTHER_JSON)
def test_json_ld_in_every_guise_gives_the_day_of_publication(markup: str) -> None:
    meta = markup.replace('"claimReviewed"', '"datePublished": "2 Nov 2020", "claimReviewed"')
    assert extract(PAGE.format(meta=meta, by="").encode()).date == parse_date("2020-11-02")


def test_claim_share_is_a_share() -> None:
    for share in (0, 1.2):
        with pytest.raises(ClaimflowError, match="claim_share"):
            Guard(claim_share=share)
