"""The guard against pages that nobody could have read when the claim was made."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import yaml

from components.cache import Cache
from components.datasets.dates import parse_date
from components.files import ROOT
from components.records import Case, Claim, Document
from components.step import Context
from components.store.guard import ARTICLE, LATER, SITE, UNDECIDED, Guard, url_date
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
        doc("https://a.example/2021/05/01/reprint", "2020-10-01"),  # its own date counts
        Document(id="no url", sentences=["Text."]),
    ]
    dropped = [
        doc("https://a.example/after", "2020-11-03"),
        doc("https://a.example/next-year", "1-1-2021"),  # 1 January: not before 2 November
        doc("https://a.example/2020/11/03/news"),
        doc("https://a.example/2020/dec/01/news"),
        doc("https://web.archive.org/web/20201203/https://a.example/x"),
        doc("http://checkdesk.example/ostrel"),
        doc("https://en.trueorfalse.example/other", "2019-01-01"),
        doc("https://www.reuters.com/fact-check/x"),
    ]
    ids, reasons = guarded(
        strict(archive_stamps=True), ctx, parse_date("2-11-2020"), [*dropped, *kept]
    )
    assert ids == [d.id for d in kept]
    assert reasons == {LATER: 5, ARTICLE: 1, SITE: 2}


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
    ids, reasons = guarded(strict(), ctx, None, documents)
    assert ids == [d.id for d in documents[:3]]
    assert reasons == {UNDECIDED: 2, ARTICLE: 1}


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


@pytest.mark.parametrize(
    ("url", "date"),
    [
        ("https://a.example/2020/11/02/x", "2020-11-02"),
        ("https://a.example/world/2020/nov/2/x", "2020-11-02"),
        ("https://a.example/x-2020-11-02.html", "2020-11-02"),
        ("https://a.example/2020/11/x", "2020-11-01"),
        ("https://a.example/2020/31/10/x", None),
        ("https://a.example/report-2019-20", None),
        ("https://a.example/12020/11/02", None),
        ("https://a.example/x?date=2020-11-02", None),
        ("https://web.archive.org/web/20201130144023/https://a.example/x", "2020-11-30"),
        ("https://web.archive.org/web/2020im_/https://a.example/x", "2020-01-01"),
        ("https://web.archive.org/web/20201130/https://a.example/2020/11/02/x", "2020-11-02"),
        ("https://[broken", None),
    ],
)
def test_dates_in_urls(url: str, date: str | None) -> None:
    assert url_date(url) == parse_date(date)


def test_archive_stamps_can_be_left_aside() -> None:
    assert url_date("https://web.archive.org/web/20201130/https://a.example/x", False) is None


def test_same_url() -> None:
    form = same_url("https://a.example/ca%C3%B1on/é")
    for url in (
        "http://www.A.example/cañon/e\u0301/#top",
        "https://web.archive.org/web/20201103001419/https://a.example:443/ca%c3%b1on/é/",
    ):
        assert same_url(url) == form
    assert same_url("https://a.example/x?id=1") != same_url("https://a.example/x?id=2")
    assert same_url("no url") == "no url"
