"""Search providers against a server that speaks each shape."""

from __future__ import annotations

import datetime
import email.utils
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cache import Cache
from components.errors import ClaimflowError
from components.step import Context, identity
from components.store.providers.base import ProviderError, QueryError, day
from components.store.providers.local import Local
from components.store.providers.replies import Recorded
from components.store.providers.web import Brave, Google, Searxng, WebProvider, shortened
from tests.searching import KEY, Service, reply, service

UNTIL = datetime.date(2020, 11, 2)
PAGES: list[tuple[str, str, str | None]] = [
    *[(f"https://a.example/{n}", f"Page {n}", "2020-10-30T08:00:00Z") for n in range(24)],
    ("https://www.a.example/0/", "Page 0 again", None),
    ("https://a.example/late", "Late", "2020-11-03"),
]
SHAPES: dict[str, type[WebProvider]] = {"google": Google, "brave": Brave, "searxng": Searxng}


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(Cache(tmp_path / "cache"))


@pytest.fixture(params=SHAPES)
def served(request: pytest.FixtureRequest) -> Iterator[Service]:
    with service(request.param, PAGES) as made:
        yield made


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_API_KEY", "BRAVE_API_KEY", "SEARXNG_KEY"):
        monkeypatch.setenv(name, KEY)


def provider(served: Service, folder: Path, **changes: Any) -> WebProvider:
    own = {"google": {"cx": "engine"}, "searxng": {"key_variable": "SEARXNG_KEY"}}
    quick = {"per_second": 1000.0, "backoff": 0.01}
    replies = folder / "replies.jsonl"
    return SHAPES[served.shape](
        url=served.url, replies=replies, **own.get(served.shape, {}), **(quick | changes)
    )


def test_results_of_several_pages_each_once(served: Service, ctx: Context, tmp_path: Path) -> None:
    found = provider(served, tmp_path, n=25).search("a query", UNTIL, ctx)
    assert [r.url for r in found] == [url for url, _, _ in PAGES[:24]]  # no copy, nothing later
    assert found[3].title == "Page 3"
    assert found[3].date == datetime.date(2020, 10, 30)
    assert len(provider(served, tmp_path, n=50).search("a query", None, ctx)) == 25


def test_no_more_pages_are_asked_for_than_needed(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    assert len(provider(served, tmp_path, n=7).search("a query", None, ctx)) == 7
    assert len(served.asked) == 1


def test_dates_restrict_what_is_asked(served: Service, ctx: Context, tmp_path: Path) -> None:
    provider(served, tmp_path).search("a query", UNTIL, ctx)
    provider(served, tmp_path).search("a query", None, ctx)
    dated, free = served.asked[0][0], served.asked[-1][0]
    expected = {
        "google": ("sort", "date:r:19000101:20201102"),
        "brave": ("freshness", "1970-01-01to2020-11-02"),
        "searxng": ("q", "a query before:2020-11-02"),
    }
    name, value = expected[served.shape]
    assert dated[name] == value
    assert free.get(name) in (None, "a query")


def test_replies_are_kept_and_never_asked_for_again(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    first = provider(served, tmp_path).search("a query", UNTIL, ctx)
    count = len(served.asked)
    assert provider(served, tmp_path).search("a query", UNTIL, ctx) == first
    assert len(served.asked) == count
    recorded = Recorded(file=tmp_path / "replies.jsonl")
    assert recorded.search("a query", UNTIL, ctx) == first
    with pytest.raises(QueryError, match="no reply to 'another'"):
        recorded.search("another", UNTIL, ctx)
    with pytest.raises(QueryError):  # recorded until another day
        recorded.search("a query", None, ctx)
    provider(served, tmp_path).search("a query", None, ctx)
    assert len(served.asked) > count


def test_a_reply_longer_than_it_says_is_no_reply_to_the_next_query(
    ctx: Context, tmp_path: Path
) -> None:
    with service("searxng", PAGES[:1]) as served:
        _, _, body = reply(200, {"results": []})
        more = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        served.first = [reply(200, body + more, Content_Length=str(len(body)))]
        asked = provider(served, tmp_path)
        assert [len(asked.search(query, None, ctx)) for query in ("one", "two")] == [0, 1]


def test_a_reply_cut_off_by_a_kill_is_asked_for_again(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    first = provider(served, tmp_path).search("a query", UNTIL, ctx)
    file = tmp_path / "replies.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 3].replace(b"\n", b""))
    again = provider(served, tmp_path)
    assert again.search("another", UNTIL, ctx) == first
    lines = file.read_bytes().splitlines()
    assert {json.loads(line)["query"] for line in lines} == {"a query", "another"}


def test_a_broken_line_among_replies_is_named(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    (tmp_path / "replies.jsonl").write_text("{broken\n")
    with pytest.raises(ClaimflowError, match="begins at byte 0 is no kept reply"):
        provider(served, tmp_path).search("a query", UNTIL, ctx)


@pytest.mark.parametrize(
    "bad",
    [
        reply(429, {"error": {"code": 429, "message": "slow down"}}),
        reply(500, b"oops"),
        reply(503, b"", Retry_After="0"),
        reply(200, b'{"items": [{"li'),
        reply(408, b""),
    ],
    ids=["429", "500", "503", "broken JSON", "408"],
)
def test_what_passes_is_tried_again(
    served: Service, ctx: Context, tmp_path: Path, bad: Any
) -> None:
    served.first = [bad, bad]
    made = provider(served, tmp_path, n=5)
    assert len(made.search("a query", UNTIL, ctx)) == 5
    assert made.requests == len(served.asked) == 3


@pytest.mark.parametrize("form", ["number", "date"])
def test_retry_after_is_honoured(ctx: Context, tmp_path: Path, form: str) -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    told = "1" if form == "number" else email.utils.format_datetime(later, usegmt=True)
    with service("google", PAGES) as served:
        served.first = [reply(429, b"", Retry_After=told)]
        start = time.monotonic()
        provider(served, tmp_path).search("a query", UNTIL, ctx)
        assert 0.9 < time.monotonic() - start < 4


def test_who_is_told_to_wait_long_stops_at_once(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    served.first = [reply(429, b"", Retry_After="86400")]
    with pytest.raises(ProviderError, match="asks to wait 86400 s: start again then"):
        provider(served, tmp_path).search("a query", UNTIL, ctx)
    assert len(served.asked) == 1


@pytest.mark.parametrize(
    ("shape", "answer"),
    [
        ("google", reply(429, {"error": {"message": "Quota exceeded: 'Queries per day'"}})),
        ("google", reply(403, {"error": {"errors": [{"reason": "dailyLimitExceeded"}]}})),
        ("brave", reply(429, {"error": {"meta": {"quota_limit": 2000, "quota_current": 2000}}})),
        ("brave", reply(402, {"error": {"code": "QUOTA_LIMITED"}})),
    ],
)
def test_a_spent_quota_stops_the_search(
    ctx: Context, tmp_path: Path, shape: str, answer: Any
) -> None:
    with service(shape, PAGES) as served:
        served.first = [answer]
        with pytest.raises(ProviderError, match=r"quota is used up.*replies are kept in"):
            provider(served, tmp_path).search("a query", UNTIL, ctx)
        assert len(served.asked) == 1
        assert provider(served, tmp_path).search("a query", UNTIL, ctx)  # another day


def test_brave_that_is_only_too_fast_is_tried_again(ctx: Context, tmp_path: Path) -> None:
    meta = {"rate_limit": 1, "rate_current": 1, "quota_limit": 2000, "quota_current": 7}
    with service("brave", PAGES) as served:
        served.first = [reply(429, {"error": {"code": "RATE_LIMITED", "meta": meta}})]
        assert provider(served, tmp_path).search("a query", UNTIL, ctx)


def test_own_quota(served: Service, ctx: Context, tmp_path: Path) -> None:
    made = provider(served, tmp_path, n=5, quota=2)
    made.search("one", UNTIL, ctx)
    made.search("two", UNTIL, ctx)
    made.search("two", UNTIL, ctx)  # kept: costs nothing
    with pytest.raises(ProviderError, match="quota=2 requests are made"):
        made.search("three", UNTIL, ctx)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (reply(500, b"oops"), QueryError),
        (reply(200, b"<html>"), QueryError),
        (reply(429, b"slow down"), ProviderError),
    ],
    ids=["500", "no JSON", "429"],
)
def test_what_never_passes(
    served: Service, ctx: Context, tmp_path: Path, bad: Any, kind: type[Exception]
) -> None:
    served.first = [bad] * 3
    with pytest.raises(kind):
        provider(served, tmp_path, attempts=3).search("a query", UNTIL, ctx)
    assert len(served.asked) == 3
    assert not (tmp_path / "replies.jsonl").exists()


def test_a_service_that_fails_query_after_query_is_asked_no_more(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    """Five in a row, each to its last attempt; an answer or a refusal between them counts anew."""
    asking, ill = provider(served, tmp_path, attempts=2, n=1), [reply(503, b"busy")] * 2

    def ask(n: int) -> None:
        asking.search(f"query {n}", UNTIL, ctx)

    for answer in ([], [reply(400, b"too long")], [reply(200, b"<html>")] * 2):
        for n in range(4):
            served.first = list(ill)
            with pytest.raises(QueryError, match="503"):
                ask(n)
        served.first = list(answer)
        if answer:
            with pytest.raises(ClaimflowError) as caught:
                ask(5)
            assert isinstance(caught.value, ProviderError) == (len(answer) == 2)
        else:
            ask(4)
    assert "So it went with 5 queries in a row, each asked 2 times: start" in str(caught.value)
    known = len(served.asked)
    with pytest.raises(ProviderError):
        ask(6)
    assert len(served.asked) == known


@pytest.mark.parametrize("body", [[], {"results": 3}, {"items": [{}], "web": {"results": [3]}}, 7])
def test_json_of_another_shape_is_refused_and_not_kept(
    served: Service, ctx: Context, tmp_path: Path, body: Any
) -> None:
    served.first = [reply(200, body)]
    if served.shape in ("google", "brave") and body == {"results": 3}:
        assert provider(served, tmp_path).search("a query", UNTIL, ctx) == []  # nothing found
        return
    with pytest.raises(QueryError, match=f"not the shape of {served.shape}"):
        provider(served, tmp_path).search("a query", UNTIL, ctx)
    assert not (tmp_path / "replies.jsonl").exists()


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_wrong_addresses_and_keys_stop_the_search(
    served: Service, ctx: Context, tmp_path: Path, status: int
) -> None:
    served.first = [reply(status, b"", Location="https://elsewhere.example/")]
    with pytest.raises(ProviderError, match=str(status)):
        provider(served, tmp_path).search("a query", UNTIL, ctx)
    assert len(served.asked) == 1


def test_a_server_that_is_away(ctx: Context, tmp_path: Path) -> None:
    away = Searxng(
        url="http://127.0.0.1:9/", replies=tmp_path / "r.jsonl", attempts=2, backoff=0.01
    )
    with pytest.raises(ProviderError, match="can't be reached"):
        away.search("a query", UNTIL, ctx)


def test_keys_are_asked_for_and_wrong_ones_named(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for shape in ("google", "brave"):
        name = f"{shape.upper()}_API_KEY"
        with service(shape, PAGES) as served:
            monkeypatch.delenv(name)
            with pytest.raises(ClaimflowError, match=f"environment variable {name}"):
                provider(served, tmp_path).search("a query", UNTIL, ctx)
            assert served.asked == []
            monkeypatch.setenv(name, "wrong")
            with pytest.raises(ProviderError, match=f"the key in {name} right"):
                provider(served, tmp_path).search("a query", UNTIL, ctx)


def test_keys_are_neither_logged_nor_kept_nor_told(
    served: Service, ctx: Context, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = {"results": [], "items": [], "web": {"results": []}, "echo": f"key={KEY}"}
    served.first = [reply(200, echo), reply(418, f"no tea for {KEY}".encode())]
    made = provider(served, tmp_path)
    made.search("a query", UNTIL, ctx)
    with pytest.raises(ProviderError) as told:
        made.search("another", UNTIL, ctx)
    made.search("a third", UNTIL, ctx)
    for text in (caplog.text, str(told.value), repr(made), repr(identity(made))):
        assert KEY not in text
    assert KEY not in (tmp_path / "replies.jsonl").read_text()


def test_long_queries_are_cut_as_the_service_wants_it(
    served: Service, ctx: Context, tmp_path: Path
) -> None:
    query = "wordier " * 100
    assert provider(served, tmp_path).search(query, None, ctx)
    sent = served.asked[0][0]["q"]
    assert len(sent.split()) == {"google": 32, "brave": 50, "searxng": 100}[served.shape]
    reply_kept = json.loads((tmp_path / "replies.jsonl").read_text().splitlines()[0])
    assert reply_kept["query"] == query


def test_cut_between_words() -> None:
    assert shortened("one two three", 2, 100) == "one two"
    assert shortened("one two three", 9, 9) == "one two"
    assert shortened("x" * 20, 9, 9) == "x" * 9


@pytest.mark.parametrize("query", ["naïve “quotes” & marks?#", "\ud800 lone", "日本語の質問"])
def test_any_text_can_be_asked(served: Service, ctx: Context, tmp_path: Path, query: str) -> None:
    found = provider(served, tmp_path).search(query, UNTIL, ctx)
    assert len(found) == 10
    count = len(served.asked)
    assert provider(served, tmp_path).search(query, UNTIL, ctx) == found
    assert len(served.asked) == count


def test_requests_keep_the_pace(served: Service, ctx: Context, tmp_path: Path) -> None:
    made = provider(served, tmp_path, n=5, per_second=10)
    start = time.monotonic()
    for query in ("one", "two", "three", "four"):
        made.search(query, UNTIL, ctx)
    assert time.monotonic() - start > 0.29


def test_dates_of_results() -> None:
    assert day("2020-11-02T23:00:00+05:00") == UNTIL
    assert day("2020-11-02") == UNTIL
    for other in (None, "", "3 days ago", "11/2/2020", 7):
        assert day(other) is None


def test_recorded_by_hand(ctx: Context, tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    results = [
        {"url": "https://a.example/1", "date": "2020-11-01"},
        {"url": "https://a.example/2", "date": "2020-11-03"},
        {"url": "ftp://a.example/3"},
    ]
    file.write_text(json.dumps({"shape": "results", "query": "a query", "body": results}))
    recorded = Recorded(file=file)
    assert [r.url for r in recorded.search("a query", UNTIL, ctx)] == ["https://a.example/1"]
    assert len(recorded.search("a query", None, ctx)) == 2
    file.write_text(json.dumps({"shape": "gogle", "query": "a query", "body": results}))
    with pytest.raises(ClaimflowError, match="line 1: no shape 'gogle'"):
        recorded.search("a query", UNTIL, ctx)
    with pytest.raises(ClaimflowError, match="no such file"):
        Recorded(file=tmp_path / "none").search("a query", UNTIL, ctx)


def test_local_index(ctx: Context, tmp_path: Path) -> None:
    lines = [
        {
            "url": "https://a.example/1",
            "url2text": ["Bread is sold on Sundays."],
            "date": "1-11-2020",
        },
        {"url": "https://a.example/2", "url2text": "Bread was dear.", "title": "Sundays"},
        {"url": "https://a.example/3", "url2text": ["Bread on Sundays."], "date": "2020-11-03"},
        {"url": "https://a.example/2020/12/01/x", "url2text": ["Bread on Sundays."]},
        {"url": "https://a.example/empty", "url2text": []},
        {"url": "https://a.example/other", "url2text": ["Nothing of the sort."]},
    ]
    stores = tmp_path / "stores"
    stores.mkdir()
    (stores / "0.json").write_text("\n".join(map(json.dumps, lines)))
    (stores / "1.json").write_text(json.dumps(lines[:1]))
    local = Local(documents=stores)
    found = local.search("bread on Sundays", UNTIL, ctx)
    assert {r.url for r in found} == {"https://a.example/1", "https://a.example/2"}
    assert len(local.search("bread on Sundays", None, ctx)) == 4
    assert local.search("the of", UNTIL, ctx) == []
    document = local.document("http://www.a.example/1/", ctx)
    assert document
    assert document.sentences == ("Bread is sold on Sundays.",)
    assert local.document("https://a.example/unknown", ctx) is None
    (stores / "0.json").write_text(json.dumps(lines[5]))
    assert (
        local.search("sort", UNTIL, ctx)[0].url == "https://a.example/other"
    )  # edited: read again
    for bad in (tmp_path / "none", tmp_path / "cache"):
        with pytest.raises(ClaimflowError, match=r"provider\.documents="):
            Local(documents=bad).search("bread", UNTIL, ctx)


def test_two_large_collections_have_indexes_of_their_own(
    ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of much text is kept in the cache, where all but its texts is the same."""
    monkeypatch.setattr("components.retrieve.bm25.KEPT", 0)
    for word in ("bread", "milk"):
        page = {"url": f"https://a.example/{word}", "url2text": [f"There is {word}."]}
        (tmp_path / f"{word}.json").write_text(json.dumps(page))
        local = Local(documents=tmp_path / f"{word}.json")
        assert [r.url for r in local.search(word, None, ctx)] == [page["url"]]


def test_a_page_that_a_line_names_is_read_again_when_it_changes(
    ctx: Context, tmp_path: Path
) -> None:
    page = tmp_path / "x.html"
    page.write_text("<html><body><p>Bread is sold on Sundays, they say.</p></body></html>")
    (tmp_path / "stores").mkdir()
    line = {"url": "https://a.example/1", "file": "x.html"}
    (tmp_path / "stores" / "0.json").write_text(json.dumps(line))
    local = Local(documents=tmp_path / "stores")
    before = local.versions(ctx)
    assert len(local.search("bread", None, ctx)) == 1
    page.write_text("<html><body><p>Milk is sold on Sundays, they say.</p></body></html>")
    assert local.versions(ctx) != before
    assert local.search("bread", None, ctx) == []
    assert len(local.search("milk", None, ctx)) == 1
    page.unlink()
    with pytest.raises(ClaimflowError, match=r"0\.json, line 1: .*x\.html"):
        local.search("milk", None, ctx)


def test_settings_that_can_not_be(tmp_path: Path) -> None:
    with pytest.raises(ClaimflowError, match="n is 0"):
        Searxng(replies=tmp_path, n=0)
    with pytest.raises(ClaimflowError, match="attempts"):
        Searxng(replies=tmp_path, attempts=0)
