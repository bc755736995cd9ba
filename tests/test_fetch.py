"""Fetching: what comes of pages good and hostile, one request a URL, whatever stops it."""

from __future__ import annotations

import collections
import contextlib
import datetime
import gzip
import http.server
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.warcwriter import WARCWriter

from components.errors import ClaimflowError
from components.files import ROOT, home
from components.records import decode
from components.store.fetch import Fetched, Fetcher
from components.store.warc import Archive, Reply, unpacked
from tests.site import Answer, Site, page, serve

HTML = {"Content-Type": "text/html"}


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site()) as served:
        yield served


def fetcher(folder: Path, site: Site, **changes: Any) -> Fetcher:
    return Fetcher(
        **{"folder": folder, "allow": [site.host], "progress": False, "timeout": 5.0, **changes}
    )


def fetched(fetch: Fetcher, site: Site, paths: list[str]) -> dict[str, Fetched]:
    """What came of pages of the site, by path."""
    results = fetch.fetch(site.url + path for path in paths)
    return {result.url.removeprefix(site.url): result for result in results}


def one(folder: Path, site: Site, path: str, **changes: Any) -> tuple[Fetched, bytes | None]:
    """What came of one page, and its body where there is one."""
    with fetcher(folder, site, **changes) as fetch:
        (result,) = fetch.fetch([site.url + path])
        return result, None if result.error else fetch.body(result)


def test_pages_come_as_they_were_served(site: Site, tmp_path: Path) -> None:
    site.routes["/a"] = Answer(b"caf\xe9", headers={"Content-Type": "text/plain; charset=latin-1"})
    before = datetime.datetime.now(datetime.UTC)
    result, body = one(tmp_path, site, "/a#part")
    assert body == b"caf\xe9"
    assert (result.url, result.final_url) == (f"{site.url}/a#part", f"{site.url}/a")
    assert (result.status, result.error) == (200, None)
    assert result.type == "text/plain; charset=latin-1"
    assert before <= result.fetched <= datetime.datetime.now(datetime.UTC)
    assert site.seen["/a"]["User-Agent"].startswith("claimflow")
    assert site.seen["/a"]["Host"] == site.host


def deflated(data: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeeze.compress(data) + squeeze.flush()


PACKED = {
    "gzip": gzip.compress(page("/p")),
    "br": brotli.compress(page("/p")),
    "deflate": zlib.compress(page("/p")),
    "Deflate": deflated(page("/p")),  # without its head, as many servers send it
    "x-gzip": gzip.compress(page("/p")[:50]) + gzip.compress(page("/p")[50:]),
    "br, gzip": gzip.compress(brotli.compress(page("/p"))),
    "identity": page("/p"),
}


@pytest.mark.parametrize("encoding", PACKED)
def test_packed_pages(site: Site, tmp_path: Path, encoding: str) -> None:
    site.routes["/p"] = Answer(PACKED[encoding], headers=HTML | {"Content-Encoding": encoding})
    result, body = one(tmp_path, site, "/p")
    assert (result.error, body) == (None, page("/p"))
    with open(tmp_path / "pages.warc.gz", "rb") as file:  # as other tools read it
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type == "response" and encoding in ("gzip", "deflate", "identity"):
                kept = record.content_stream().read()
                assert kept in (b"", page("/p"))  # robots.txt was not there
    assert kept_paths(tmp_path) == {"/robots.txt", "/p"}


def kept_paths(folder: Path) -> set[str]:
    """Paths of the records that stand whole in the WARC file."""
    paths = set()
    with open(folder / "pages.warc.gz", "rb") as file, contextlib.suppress(Exception):
        for record in ArchiveIterator(file, check_digests="raise"):
            record.raw_stream.read()
            if record.rec_type == "response":
                paths.add("/" + record.rec_headers["WARC-Target-URI"].split("/", 3)[3])
    return paths


def chunked(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nThe \r\n5\r\nferry\r\n0\r\n\r\n"
    )


def test_a_chunked_page(site: Site, tmp_path: Path) -> None:
    site.routes["/c"] = chunked
    assert one(tmp_path, site, "/c")[1] == b"The ferry"


# Hostile pages


def torn(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")


def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(10_000):
            handler.wfile.write(b"x" * 65536)


def dripping(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    with contextlib.suppress(OSError):
        for _ in range(40):
            handler.wfile.write(b"x")
            time.sleep(0.1)


def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def gibberish(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\x00\xff\x13 what is it\r\n\r\n")


def long_headers(handler: http.server.BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n")


def led(to: str) -> Answer:
    return Answer(status=302, headers={"Location": to})


def packed_as(encoding: str, body: bytes) -> Answer:
    return Answer(body, headers=HTML | {"Content-Encoding": encoding})


MB = 2**20
HOSTILE: dict[str, tuple[Any, str]] = {
    "a page that is not there": (Answer(b"no such page", status=404), "answered 404 Not Found"),
    "a server that is ill": (Answer(status=503), "answered 503 Service Unavailable"),
    "a gzip bomb": (packed_as("gzip", gzip.compress(b"0" * 50 * MB)), "unpacked it is longer than"),
    "a brotli bomb": (packed_as("br", brotli.compress(b"0" * 50 * MB)), "unpacked it is longer"),
    "a bomb in a bomb": (
        packed_as("gzip, gzip", gzip.compress(gzip.compress(b"0" * 50 * MB))),
        "unpacked it is longer than",
    ),
    "no gzip at all": (packed_as("gzip", b"<html>"), "can't be unpacked as gzip"),
    "a torn gzip": (packed_as("gzip", gzip.compress(page("/"))[:-9]), "it breaks off"),
    "an unknown packing": (packed_as("zstd", b"x"), "packed as 'zstd', which is not read"),
    "a size too large": (Answer(headers={"Content-Length": str(10**12)}), "it is longer than"),
    "a size without end": (Answer(headers={"Content-Length": "9" * 5000}), ""),
    "an endless page": (endless, "it is longer than"),
    "a dripping page": (dripping, "not done after 1.5 s"),
    "a silent server": (silent, "no answer for 1 s"),
    "a torn page": (torn, "RemoteProtocolError"),
    "gibberish": (gibberish, "RemoteProtocolError"),
    "long headers": (long_headers, "RemoteProtocolError"),
    "a circle": (led("?round=1"), "in a circle"),
    "a redirect to itself": (led(""), "answered 302 Found"),
    "a redirect to a file": (led("file:///etc/passwd"), "not an http or https URL"),
    "a redirect to nowhere": (led("http://"), ""),
    "a redirect that is no URL": (led("http://[::1"), ""),
    "a redirect with a password": (led("http://me:secret@127.0.0.1/"), "it names a user"),
}


def test_hostile_pages_cost_only_themselves(site: Site, tmp_path: Path) -> None:
    paths = {f"/hostile/{number}": name for number, name in enumerate(HOSTILE)}
    site.routes |= {path: HOSTILE[name][0] for path, name in paths.items()}
    good = [f"/good/{number}" for number in range(len(paths))]
    mixed = [path for pair in zip(paths, good, strict=True) for path in pair]
    limits = {"timeout": 1.0, "time_limit": 1.5, "size_limit": MB}
    with fetcher(tmp_path, site, **limits) as fetch:
        results = {
            r.url.removeprefix(site.url): r for r in fetch.fetch(site.url + p for p in mixed)
        }
        for path in good:
            assert fetch.body(results[path]) == page(path)
        for path, name in paths.items():
            assert results[path].error, name
            assert HOSTILE[name][1] in results[path].error, name
        missing = next(path for path, name in paths.items() if "not there" in name)
        assert fetch.body(results[missing]) == b"no such page"
        with pytest.raises(ClaimflowError, match=r"No page was kept of .* longer than"):
            fetch.body(next(r for r in results.values() if "longer than" in (r.error or "")))
    # All of it is known when it is asked for again, but for a server that gave no answer.
    asked = len(site.log)
    with fetcher(tmp_path, site, **limits) as fetch:
        again = fetched(fetch, site, mixed)
    assert again.keys() == results.keys()
    assert {p: r.error for p, r in again.items()} == {p: r.error for p, r in results.items()}
    assert site.log[asked:] == []


def late(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A second reply after the page, when the next request has been sent."""
    second = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
    time.sleep(0.2)
    with contextlib.suppress(OSError):
        handler.wfile.write(second)


@pytest.mark.parametrize(
    "more",
    [b"\n\n", b"<!-- cached -->", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b""],
    ids=["newlines", "comment", "reply", "late reply"],
)
def test_a_page_longer_than_it_says_costs_no_other(site: Site, tmp_path: Path, more: bytes) -> None:
    site.routes["/long"] = Answer(b"good" + more, headers={"Content-Length": "4"}) if more else late
    with fetcher(tmp_path, site, per_host=1) as fetch:
        results = fetched(fetch, site, ["/before", "/long", "/a", "/b"])
        assert [r.error for r in results.values()] == [None] * 4
        assert fetch.body(results["/long"]) == b"good"
        for path in ("/a", "/b"):
            assert fetch.body(results[path]) == page(path)


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://a.b/c", "http://", "http://a b/", "http://[", "javascript:1", "http://\x00"],
)
def test_what_is_no_address_is_a_result(url: str, tmp_path: Path) -> None:
    with Fetcher(folder=tmp_path, progress=False) as fetch:
        (result,) = fetch.fetch([url])
        assert result.url == url
        assert result.error
        assert result.status is None
        with pytest.raises(ClaimflowError, match="No page was kept"):
            fetch.body(result)


def test_non_ascii_addresses(site: Site, tmp_path: Path) -> None:
    result, _ = one(tmp_path, site, "/Fähre/שלום?q=日本")
    assert result.error is None
    assert site.log[-1] == "/F%C3%A4hre/%D7%A9%D7%9C%D7%95%D7%9D?q=%E6%97%A5%E6%9C%AC"
    assert result.url.endswith("/Fähre/שלום?q=日本")


@pytest.mark.skipif(
    not (home() / "nltk_data" / "tokenizers" / "punkt_tab").is_dir(), reason="needs punkt_tab"
)
def test_pages_are_what_they_hold(site: Site, tmp_path: Path) -> None:
    """From the site to sentences, whatever a page is called and said to be."""
    from components.store.extract import extract
    from tests.test_extract import HTML as STORY
    from tests.test_extract import PDF

    wide = STORY.replace(b"<h1>", b"<table><tr><td colspan=99999999>412</td></tr></table><h1>")
    site.routes |= {
        "/report": Answer(PDF, headers={"Content-Type": "text/html"}),
        "/wide.pdf": Answer(wide, headers={"Content-Type": "application/pdf"}),
        "/nothing": Answer(b"", headers=HTML),
    }
    with fetcher(tmp_path, site) as fetch:
        pages = {
            path: fetch.body(result)
            for path, result in fetched(fetch, site, ["/report", "/wide.pdf", "/nothing"]).items()
        }
    assert extract(pages["/report"]).sentences[0] == "The report counts 412 ferry passengers."
    assert extract(pages["/wide.pdf"]).title == "Ferry back in service"
    with pytest.raises(ClaimflowError, match="it is empty"):
        extract(pages["/nothing"])


# One request a URL


def test_each_url_is_asked_for_once(site: Site, tmp_path: Path) -> None:
    site.routes |= {
        "/old": led("/new"),
        "/older": led("/old"),
        "/new": Answer(b"here", headers=HTML, delay=0.2),
    }
    paths = ["/old", "/new", "/older", "/new#top", "/old", "/oldest?to=/new"]
    with fetcher(tmp_path, site) as fetch:
        results = {r.url: r for r in fetch.fetch(site.url + path for path in paths)}
        assert len(results) == 5  # one of them twice
        for path in ("/old", "/new", "/older", "/new#top"):
            assert results[site.url + path].final_url == f"{site.url}/new"
            assert fetch.body(results[site.url + path]) == b"here"
        assert list(fetch.fetch([f"{site.url}/new"])) == [results[f"{site.url}/new"]]
    counts = collections.Counter(site.log)
    assert set(counts.values()) == {1}
    assert set(counts) == {"/robots.txt", "/old", "/older", "/new", "/oldest?to=/new"}


def test_two_chains_that_cross(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/a": led("/b"), "/b": led("/a")}
    with fetcher(tmp_path, site) as fetch:
        results = list(fetch.fetch([f"{site.url}/a", f"{site.url}/b"]))
    assert [r.error for r in results] == ["redirects lead round in a circle"] * 2
    assert sorted(site.log) == ["/a", "/b", "/robots.txt"]


def test_redirects_have_an_end(site: Site, tmp_path: Path) -> None:
    site.routes |= {f"/{n}": led(f"/{n + 1}") for n in range(20)}
    assert one(tmp_path / "a", site, "/0")[0].error == "more than 10 redirects"
    assert len(site.log) == 1 + 11
    assert one(tmp_path / "b", site, "/18", redirects=2)[1] == page("/20")


def test_failures_are_asked_again_when_told(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/ill": Answer(status=503), "/well": led("/ill"), "/fine": Answer(b"x")}
    urls = [f"{site.url}{path}" for path in ("/well", "/ill", "/fine")]
    with fetcher(tmp_path, site) as fetch:
        assert sum(r.error is not None for r in fetch.fetch(urls)) == 2
    site.routes["/ill"] = Answer(b"better")
    with fetcher(tmp_path, site) as fetch:
        assert sum(r.error is not None for r in fetch.fetch(urls)) == 2
    with fetcher(tmp_path, site, retry_failed=True) as fetch:
        results = {r.url: r for r in fetch.fetch(urls)}
        assert fetch.body(results[urls[0]]) == fetch.body(results[urls[1]]) == b"better"
    with fetcher(tmp_path, site) as fetch:
        assert [r.error for r in fetch.fetch(urls)] == [None] * 3
    counts = collections.Counter(site.log)
    assert counts == {"/robots.txt": 1, "/well": 1, "/ill": 2, "/fine": 1}


CRAWL = """
import sys
from pathlib import Path
from components.store.fetch import Fetcher
folder, host, count = sys.argv[1:]
with Fetcher(folder=Path(folder), allow=[host], progress=False) as fetch:
    for result in fetch.fetch(f"http://{host}/{n}" for n in range(int(count))):
        assert fetch.body(result), result
"""


def test_killed_and_started_again_no_page_is_fetched_twice(site: Site, tmp_path: Path) -> None:
    site.other = site.other._replace(delay=0.02)
    count = 120
    command = [sys.executable, "-c", CRAWL, str(tmp_path), site.host, str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    known: set[str] = set()  # what stood whole on the disk when the process was killed
    for kill in (30, 90):
        start = len(site.log)
        process = subprocess.Popen(command, env=environment)
        while len(set(site.log)) < kill and process.poll() is None:
            time.sleep(0.005)
        assert process.poll() is None, "it was done before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(0.1)  # the last requests are in the log
        assert not known & set(site.log[start:])
        known = kept_paths(tmp_path)
        assert len(known) >= kill - 15
    start = len(site.log)
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert not known & set(site.log[start:])
    # Only what was under way when a process was killed was asked for again: ten at most.
    times = collections.Counter(site.log)
    assert times.keys() == {"/robots.txt", *(f"/{n}" for n in range(count))}
    assert sum(times.values()) - len(times) <= 2 * 10
    with open(tmp_path / "pages.warc.gz", "rb") as file:
        kept = [r.rec_headers["WARC-Target-URI"] for r in ArchiveIterator(file) if r.http_headers]
    assert len(kept) == len(set(kept)) == count + 1


PAGES = [b"one", b"two" * 5000, b"", page("/")]


def filled(folder: Path) -> Archive:
    """An archive of the pages, with a failure among them."""
    archive = Archive(folder)
    with archive:
        for number, body in enumerate(PAGES):
            reply = Reply(url=f"http://a.b/{number}", fetched=NOW, status=200, type="text/html")
            archive.add(reply, [("Content-Type", "text/html")], body)
            failure = Reply(url=f"http://a.b/failed/{number}", fetched=NOW, error="no answer")
            archive.add(failure)
    return archive


NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=datetime.UTC)


@settings(deadline=None, max_examples=40)
@given(pages=st.floats(0, 1), index=st.floats(0, 1), junk=st.binary(max_size=20))
def test_torn_files_lose_only_what_was_torn(
    tmp_path_factory: pytest.TempPathFactory, pages: float, index: float, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    archive = filled(folder)
    lines, records = archive.index.read_bytes(), archive.file.read_bytes()
    replies = [decode(line, Reply) for line in lines.splitlines()]
    size = int(len(records) * pages)
    archive.index.write_bytes(lines[: int(len(lines) * index)])
    archive.file.write_bytes(records[:size] + (junk if size == len(records) else b""))
    with Archive(folder) as again:
        for reply in replies:
            if reply.at is not None:
                assert (reply.url in again) == (reply.at + reply.length <= size)
        for number, body in enumerate(PAGES):
            if reply := again.get(f"http://a.b/{number}"):
                assert again.body(reply.url, reply.at or 0, MB) == body
                assert (reply.fetched, reply.status, reply.type) == (NOW, 200, "text/html")
            else:  # and it can be kept now
                again.add(Reply(url=f"http://a.b/{number}", fetched=NOW, status=200), [], body)
        for number, body in enumerate(PAGES):
            reply = again.get(f"http://a.b/{number}")
            assert reply
            assert again.body(reply.url, reply.at or 0, MB) == body
    assert kept_paths(folder) == {f"/{number}" for number in range(len(PAGES))}


def test_without_with_each_call_opens_the_folder(site: Site, tmp_path: Path) -> None:
    fetch = fetcher(tmp_path, site)
    for _ in range(2):
        (result,) = fetch.fetch([f"{site.url}/1"])
        assert fetch.body(result) == page("/1")
    with fetcher(tmp_path, site) as other:  # nothing holds it
        assert len(other.archive) == 2
    assert sorted(site.log) == ["/1", "/robots.txt"]


def test_one_process_at_a_time(site: Site, tmp_path: Path) -> None:
    with (
        fetcher(tmp_path, site),
        pytest.raises(ClaimflowError, match="Another process is fetching"),
    ):
        fetcher(tmp_path, site).__enter__()
    with fetcher(tmp_path, site):
        pass


def test_leaving_early_ends_the_requests(site: Site, tmp_path: Path) -> None:
    site.other = site.other._replace(delay=0.05)
    with fetcher(tmp_path, site) as fetch:
        for _ in fetch.fetch(f"{site.url}/{n}" for n in range(500)):
            break
        asked = len(site.log)
        assert asked <= 50
        time.sleep(0.3)
        assert len(site.log) == asked
        assert len(list(fetch.fetch([f"{site.url}/0", f"{site.url}/499"]))) == 2


def test_a_full_disk_ends_the_run_and_keeps_what_was_there(site: Site, tmp_path: Path) -> None:
    script = CRAWL.replace("import sys", "import resource, signal, sys").replace(
        "folder, host", "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))\nfolder, host", 1
    )  # fmt: skip
    command = [sys.executable, "-c", script, str(tmp_path), site.host, "60"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "File too large" in done.stderr
    known = kept_paths(tmp_path)
    assert known
    start = len(site.log)
    with fetcher(tmp_path, site) as fetch:
        results = list(fetch.fetch(f"{site.url}/{n}" for n in range(60)))
        assert all(fetch.body(result) for result in results)
    assert not known & set(site.log[start:])


# Limits and robots.txt


def test_a_site_of_100_slow_pages_takes_seconds(site: Site, tmp_path: Path) -> None:
    site.other = site.other._replace(delay=0.2)
    start = time.perf_counter()
    with fetcher(tmp_path, site) as fetch:
        results = list(fetch.fetch(f"{site.url}/{n}" for n in range(100)))
    assert time.perf_counter() - start < 6  # one by one 20; the benchmark measures it
    assert len(results) == 100
    assert not any(r.error for r in results)
    assert site.most <= 10


def test_one_host_gets_few_requests_and_holds_up_no_other(site: Site, tmp_path: Path) -> None:
    site.other = site.other._replace(delay=0.3)
    with serve(Site()) as fast:
        allow = [site.host, fast.host]
        urls = [f"{site.url}/{n}" for n in range(12)] + [f"{fast.url}/{n}" for n in range(20)]
        with fetcher(tmp_path, site, allow=allow, per_host=2, at_once=4) as fetch:
            results = list(fetch.fetch(urls))
    assert site.most == 2
    assert len(results) == 32
    assert all(r.url.startswith(fast.url) for r in results[:8])


def test_a_pause_between_two_starts(site: Site, tmp_path: Path) -> None:
    times: list[float] = []

    def noted(handler: http.server.BaseHTTPRequestHandler) -> Answer:
        times.append(time.perf_counter())
        return Answer(b"x")

    site.routes |= {"/p": noted}
    site.routes["/robots.txt"] = Answer(b"User-agent: *\nCrawl-delay: 0.2")
    with fetcher(tmp_path, site, pause=0.05) as fetch:
        assert len(list(fetch.fetch(f"{site.url}/p?{n}" for n in range(5)))) == 5
    assert len(times) == 5
    assert times[-1] - times[0] > 0.7
    with fetcher(tmp_path, site, pause=0.05) as fetch:
        for _ in fetch.fetch(f"{site.url}/p?{n}" for n in range(5, 9)):
            break
        time.sleep(0.5)
        assert len(times) <= 7  # the timers of what was left start nothing


ROBOTS = b"""User-agent: *
Disallow: /

User-agent: Claimflow
Allow: /open
Disallow: /*.secret$
Disallow: /open/shut
"""


def test_robots_txt(site: Site, tmp_path: Path) -> None:
    site.routes["/robots.txt"] = led("/rules.txt")
    site.routes["/rules.txt"] = Answer(ROBOTS)
    paths = ["/open/1", "/open/shut/2", "/3", "/4.secret", "/4.secrets"]
    with fetcher(tmp_path / "a", site) as fetch:
        results = {
            r.url.removeprefix(site.url): r.error for r in fetch.fetch(site.url + p for p in paths)
        }
    no = "robots.txt forbids it"
    assert results == {
        "/open/1": None,
        "/open/shut/2": no,
        "/3": None,
        "/4.secret": no,
        "/4.secrets": None,
    }
    assert sorted(site.log) == ["/3", "/4.secrets", "/open/1", "/robots.txt", "/rules.txt"]
    with fetcher(tmp_path / "b", site, agent="other/1") as fetch:
        assert {r.error for r in fetch.fetch(site.url + p for p in paths)} == {no}
    with fetcher(tmp_path / "b", site, robots=False) as fetch:  # what was forbidden is not settled
        assert {r.error for r in fetch.fetch(site.url + p for p in paths)} == {None}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=404), None),
        (Answer(status=403), None),
        (Answer(status=500), "its robots.txt can't be read: answered 500 Internal Server Error"),
        (torn, "its robots.txt can't be read: RemoteProtocolError"),
        (Answer(b"\xff\xfe\x00<html>"), None),
        (Answer(b"User-agent: *\nDisallow: /\n" * 40_000), "robots.txt forbids it"),
    ],
)  # fmt: skip
def test_robots_txt_that_is_none(
    site: Site, tmp_path: Path, answer: Answer, error: str | None
) -> None:
    site.routes["/robots.txt"] = answer
    result, _ = one(tmp_path, site, "/p")
    assert (result.error or "").startswith(error or "")
    assert (result.error is None) == (error is None)
    if error and "can't be read" in error:  # it may be there in the next run
        site.routes["/robots.txt"] = Answer(status=404)
        assert one(tmp_path, site, "/p")[1] == page("/p") or answer == torn or answer.status == 500


def test_no_cookies_and_no_credentials_go_out(site: Site, tmp_path: Path) -> None:
    site.routes["/first"] = Answer(b"x", headers={"Set-Cookie": "who=me; Path=/"})
    with fetcher(tmp_path, site) as fetch:
        list(fetch.fetch([f"{site.url}/first"]))
        list(fetch.fetch([f"{site.url}/second"]))
    assert not {"Cookie", "Authorization", "Referer"} & set(site.seen["/second"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"per_host": 0}, "per_host=0: give more than 0"),
        ({"pause": -1}, "pause=-1: give 0 or more"),
        ({"agent": "käfer"}, "agent: give a name in ASCII"),
        ({"agent": "a\nb"}, "agent: give a name in ASCII"),
        ({"allow": ["http://a/b"]}, "allow: 'http://a/b' is no host"),
        ({"allow": [""]}, "is no host"),
    ],
)
def test_settings_that_can_not_be(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        Fetcher(folder=tmp_path, **changes)


# WARC files of others


def test_pages_of_another_warc_file_need_no_request(site: Site, tmp_path: Path) -> None:
    with fetcher(tmp_path / "a", site) as fetch:
        list(fetch.fetch([f"{site.url}/1", f"{site.url}/2"]))
    asked = len(site.log)
    with fetcher(tmp_path / "b", site) as fetch:
        assert fetch.take(tmp_path / "a" / "pages.warc.gz") == 3
        assert fetch.take(tmp_path / "a" / "pages.warc.gz") == 0
        for result in fetch.fetch([f"{site.url}/1", f"{site.url}/2"]):
            assert fetch.body(result) == page(result.url.removeprefix(site.url))
    assert len(site.log) == asked


def test_a_warc_file_by_another_tool(tmp_path: Path) -> None:
    from io import BytesIO

    from warcio.statusandheaders import StatusAndHeaders

    with open(tmp_path / "other.warc", "wb") as file:
        writer = WARCWriter(file, gzip=False)
        for url, headers, body in [
            ("http://A.b/1#x", [("Transfer-Encoding", "chunked")], b"3\r\nabc\r\n0\r\n\r\n"),
            ("urn:no:page", [], b"x"),
            ("http://a.b/large", [], b"x" * 3000),
            ("http://a.b/2", [("Content-Encoding", "gzip")], gzip.compress(b"two")),
        ]:
            head = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
            writer.write_record(
                writer.create_warc_record(url, "response", payload=BytesIO(body), http_headers=head)
            )
            asked = BytesIO(b"GET / HTTP/1.1\r\n\r\n")
            writer.write_record(writer.create_warc_record(url, "request", payload=asked))
    with Fetcher(tmp_path / "kept", progress=False, size_limit=2000) as fetch:
        assert fetch.take(tmp_path / "other.warc") == 2
        results = {r.url: fetch.body(r) for r in fetch.fetch(["http://a.b/1", "http://a.b/2#y"])}
        assert results == {"http://a.b/1": b"abc", "http://a.b/2#y": b"two"}
        (tmp_path / "none.warc").write_bytes(b"not a WARC file")
        with pytest.raises(ClaimflowError, match=r"Can't read .*none\.warc as a WARC file"):
            fetch.take(tmp_path / "none.warc")


@given(data=st.binary(max_size=3000), limit=st.integers(0, 3000))
def test_unpacking_gives_the_page_or_says_that_it_is_too_long(data: bytes, limit: int) -> None:
    for encoding, packed in [
        ("gzip", gzip.compress(data)),
        ("deflate", zlib.compress(data)),
        ("deflate", deflated(data)),
        ("br", brotli.compress(data)),
        ("br, gzip", gzip.compress(brotli.compress(data))),
    ]:
        if len(data) <= limit and len(brotli.compress(data)) <= limit:
            assert unpacked(packed, encoding, limit) == data
        elif len(data) > limit:
            with pytest.raises(ClaimflowError, match="longer than"):
                unpacked(packed, encoding, limit)


def test_a_changed_archive_is_an_error(site: Site, tmp_path: Path) -> None:
    with fetcher(tmp_path, site) as fetch:
        (result,) = fetch.fetch([f"{site.url}/1"])
        size = fetch.archive.file.stat().st_size
        fetch.archive.file.write_bytes(b"x" * size)
        with pytest.raises(ClaimflowError, match="was changed"):
            fetch.body(result)
    fetch.archive.index.write_bytes(b"{}\n")
    with pytest.raises(ClaimflowError, match=r"pages\.jsonl, line 1: .* Delete the file"):
        fetcher(tmp_path, site).__enter__()
