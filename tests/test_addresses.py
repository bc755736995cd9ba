"""No request reaches an address that is not public, however it is written or led to."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ClaimflowError
from components.store.addresses import allowed_hosts, page_url, refusal
from components.store.extract import extract
from components.store.fetch import Fetched, Fetcher
from tests.site import Answer, Site, serve

PUBLIC = [
    "93.184.216.34", "8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.0", "192.167.255.255",
    "100.63.255.255", "100.128.0.0", "169.253.1.1", "223.255.255.255",
    "2606:4700::1111", "2a00:1450:4001:81b::200e", "2400:cb00::1",
    "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2a00:1450::5efe:808:808",
]  # fmt: skip
REFUSED = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255",
    "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1",
    "192.0.0.1", "192.0.0.9", "192.0.0.170", "192.0.2.1", "192.88.99.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::7f00:1", "::8.8.8.8", "fe80::1", "fe80::1%eth0", "fe80::1%1", "fec0::1",
    "fc00::1", "fd12:3456::1", "ff02::1", "ff0e::1", "2001:db8::1", "3fff::1", "100::1",
    "2001::1", "2001:0:808:808::1", "2001:2::1", "2001:10::1", "2001:20::1", "5f00::1", "4000::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0.0.0.0", "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::1", "2002:a9fe:a9fe::",
    "2a00:1450::5efe:7f00:1", "2a00:1450::200:5efe:a00:1", "2606:4700::1%eth0",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert refusal(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_that_are_not_public(address: str) -> None:
    assert refusal(ipaddress.ip_address(address))


@given(st.ip_addresses(v=4))
def test_what_carries_an_address_is_as_good_as_it(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    forms = [
        ipaddress.IPv6Address((0xFFFF << 32) | number),
        ipaddress.IPv6Address((0x64FF9B << 96) | number),
        ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1),
    ]
    assert {refusal(form) is None for form in forms} == {refusal(inner) is None}


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_nothing_that_python_calls_local_is_public(address: Any) -> None:
    if not address.is_global or address.is_loopback or address.is_link_local:
        assert refusal(address) or address in ipaddress.ip_network("64:ff9b::/96")


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site()) as served:
        yield served


def fetched(url: str, folder: Path, **changes: Any) -> Fetched:
    """What comes of one URL, without robots.txt, which would be refused before it."""
    settings = {"progress": False, "robots": False, "timeout": 2.0, **changes}
    with Fetcher(folder=folder, **settings) as fetch:
        (result,) = fetch.fetch([url])
        return result


LOOPBACK = [
    "127.0.0.1", "127.0.0.2", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1",
    "0x7f.1", "0177.0.0.1", "017700000001", "00000177.1", "0", "0.0.0.0", "0x0", "127.0.0.1.",
    "localhost", "LOCALHOST", "localhost.", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]",
    "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]", "[::127.0.0.1]", "[::1%25lo]", "[fe80::1%25lo]", "[fe80::1]",
    "127。0。0。1", "127．0．0．1", "１２７.0.0.1", "①②⑦.⓪.⓪.①", "ⅼocalhost",
    "%31%32%37.0.0.1", "127.0.0.1%2e", "127.0.0.1%00.example.org", "example.org@127.0.0.1",
    "example.org:x@127.0.0.1", "127.0.0.1\\@example.org", "169.254.169.254", "2852039166",
    "10.0.0.1", "192.168.1.1", "4294967296", "0x1ffffffff", "127.0.0.1 ",
    "[::ffff:127.1]", "0177.0x0.1", "127.0.0.0x1", "127.00.000.0001", "127.0.0.1:80@example.org",
    "localhost\u200b", "localhost\uff0e", "127\uff610\uff610\uff611", "[::1]\u3002",
    "\uff3b::1\uff3d", "127.0\t.0.1", "127.0.0.1\x00", "127.0.0.1#.example.org",
    "127.0.0.1?.example.org", "%6c%6f%63%61lhost", "ip6-localhost",
    "\U0001d7cf\U0001d7d0\U0001d7d5.0.0.1", "[v1.127.0.0.1]", "0.0", "127.0.0.1..", "+127.0.0.1",
    "localhost;example.org", "127.0.0.1,example.org",
]  # fmt: skip


@pytest.mark.parametrize("host", LOOPBACK)
def test_no_way_to_write_an_address_reaches_this_machine(
    host: str, site: Site, tmp_path: Path
) -> None:
    port = site.host.partition(":")[2]
    for url in (f"http://{host}:{port}/", f"https://{host}:{port}/"):
        result = fetched(url, tmp_path)
        assert result.error
        assert result.status is None
    assert site.log == []


@pytest.mark.parametrize("host", ["localhost", "2130706433", "127.2", "[::ffff:7f00:1]", "[::1]"])
def test_no_redirect_leads_to_this_machine(host: str, site: Site, tmp_path: Path) -> None:
    """The site itself is allowed; other names of the same machine are not."""
    port = site.host.partition(":")[2]
    site.routes["/a"] = Answer(status=302, headers={"Location": f"//{host}:{port}/secret"})
    result = fetched(f"{site.url}/a", tmp_path, allow=[site.host])
    assert "is refused" in (result.error or "")
    assert "`allow` can name the host" in (result.error or "")
    assert site.log == ["/a"]


def test_robots_txt_leads_nowhere_either(site: Site, tmp_path: Path) -> None:
    port = site.host.partition(":")[2]
    secret = f"http://localhost:{port}/secret"
    site.routes["/robots.txt"] = Answer(status=302, headers={"Location": secret})
    result = fetched(f"{site.url}/a", tmp_path, allow=[site.host], robots=True)
    assert (result.error or "").startswith("localhost is refused: ")
    assert site.log == ["/robots.txt"]


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let DNS answer each look-up of pages.test with the next of the lists, the last for good."""
    real, asked = socket.getaddrinfo, []

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "pages.test":
            return real(host, port, *args, **kwargs)
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [entry for address in found for entry in real(address, port, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


@pytest.mark.parametrize(
    "answer", [["127.0.0.1"], ["::1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["10.1.1.1"]]
)
def test_a_name_of_this_machine_is_refused(
    answer: list[str], site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, answer)
    port = site.host.partition(":")[2]
    # Whatever name leads there: only the host that is allowed is.
    result = fetched(f"http://pages.test:{port}/", tmp_path, allow=[site.host])
    assert "pages.test is refused" in (result.error or "")
    assert site.log == []


def test_dns_rebinding(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is public when it is checked, and of this machine right after."""
    asked = answering(monkeypatch, ["192.31.196.1"], ["127.0.0.1"])  # nobody is there
    port = site.host.partition(":")[2]
    result = fetched(f"http://pages.test:{port}/", tmp_path, timeout=0.5)
    assert result.error
    assert "refused:" not in result.error  # it was connected to, in vain
    assert asked == ["pages.test"]
    assert site.log == []


def test_an_allowed_name_keeps_its_name(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    port = site.host.partition(":")[2]
    result = fetched(f"http://pages.test:{port}/a", tmp_path, allow=["Pages.Test"])
    assert result.error is None
    assert site.seen["/a"]["Host"] == f"pages.test:{port}"
    refused = f"http://pages.test:{port}/c"  # nothing was asked, so it is open what comes of it
    assert "is refused" in (fetched(refused, tmp_path).error or "")
    assert fetched(refused, tmp_path, allow=["pages.test"]).error is None
    elsewhere = fetched(f"http://pages.test:{port}/b", tmp_path, allow=["pages.test:1"])
    assert "is refused" in (elsewhere.error or "")


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_the_certificate_is_checked_against_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, ["127.0.0.1"])
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=pages.test", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    context.sni_callback = lambda sock, name, _: names.append(name)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client = server.accept()[0]
            try:
                context.wrap_socket(client, server_side=True)
            except OSError:
                client.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        result = fetched(f"https://pages.test:{port}/", tmp_path / "a", allow=["pages.test"])
        thread.join(5)
    assert "certificate verify failed" in (result.error or "")
    assert names == ["pages.test"]


def test_proxies_of_the_environment_are_not_used(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, site.url)
    answering(monkeypatch, ["10.1.1.1"])
    assert "is refused" in (fetched("http://pages.test/", tmp_path).error or "")
    assert site.log == []


def test_hosts_as_the_settings_name_them() -> None:
    names = ["Wiki.Local:8080", "127.0.0.1", "[::1]:80", "bücher.de", "[fd00::1]"]
    assert allowed_hosts(names) == {
        "wiki.local 8080", "127.0.0.1", "::1 80", "xn--bcher-kva.de", "fd00::1",
    }  # fmt: skip
    for name in ("http://a", "a/b", "a:b", "me@a", "*.a b", "10.0.0.0/8", "xn--"):
        with pytest.raises(ClaimflowError, match=r"is no host: give host or host:port"):
            allowed_hosts([name])


def test_equal_requests_have_one_url() -> None:
    assert page_url(" HTTP://A.b:80/x y#part ") == "http://a.b/x%20y"
    assert page_url("https://a.b") == page_url("https://a.b/#") == "https://a.b/"
    assert page_url("http://a.b/?") != page_url("http://a.b/x")
    assert page_url("http://bücher.de/ü") == "http://xn--bcher-kva.de/%C3%BC"
    wrong = ("a.b", "file:///etc/passwd", "http:///x", "http://me@a.b/", "http://a.b:x/")
    for url in (*wrong, "http://xn--/", "https://xn--ls8h.la/about"):
        with pytest.raises(ClaimflowError):
            page_url(url)


def test_what_a_redirect_may_not_name(site: Site, tmp_path: Path) -> None:
    """Other schemes, users, other ports of an allowed host, and forms that browsers mend."""
    host, _, port = site.host.partition(":")
    targets = {
        "file": "file:///etc/hostname", "file2": "file://localhost/etc/hostname",
        "ftp": f"ftp://{site.host}/x", "gopher": f"gopher://{site.host}/_GET%20/secret",
        "data": "data:text/html,<p>secret</p>", "script": "javascript:alert(1)",
        "unix": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info", "jar": f"jar:{site.url}/x!/y",
        "user": f"http://me:pw@{site.host}/secret", "fake": f"http://{site.host}@localhost:{port}/",
        "port": f"http://{host}:1/secret", "zero": f"http://0:{port}/secret",
        "slashes": f"////localhost:{port}/secret", "back": f"\\\\localhost:{port}\\secret",
        "none": f"http:localhost:{port}/secret", "soft": f"http://local\u00adhost:{port}/secret",
        "joiner": f"http://127.0.0.1\u200d:{port}/secret", "tab": f"http://local\thost:{port}/x",
        "hex": f"http://0x7F.0x0.0x0.0x1:{port}/secret", "mapped": f"http://[::FFFF:7f.1]:{port}/",
    }  # fmt: skip
    for name, target in targets.items():
        location = target.encode("utf-8").decode("latin-1")  # as servers send it
        site.routes[f"/{name}"] = Answer(status=302, headers={"Location": location})
    with Fetcher(
        folder=tmp_path, progress=False, robots=False, timeout=2.0, allow=[site.host]
    ) as fetch:
        found = {
            f.url.rpartition("/")[2]: f for f in fetch.fetch(f"{site.url}/{n}" for n in targets)
        }
    # Backslashes and a scheme without a host are paths of the site that was allowed.
    assert {name for name in targets if not found[name].error} <= {"back", "none"}
    assert not {"/", "/x", "/secret"} & set(site.log)


def test_what_a_page_names_is_not_fetched_to_read_it(site: Site) -> None:
    """External entities, document types, frames, styles and includes of a page."""
    entity = f'<!DOCTYPE html [<!ENTITY e SYSTEM "{site.url}/secret"><!ENTITY f SYSTEM "file:///etc/hostname">]>'
    outside = f'<!DOCTYPE html PUBLIC "-//X//DTD" "{site.url}/secret.dtd">'
    body = (
        f"<html xmlns:xi='http://www.w3.org/2001/XInclude'><head><base href='{site.url}/'>"
        f"<link rel='stylesheet' href='{site.url}/secret.css'></head><body>"
        f"<p>The harbour of the town was closed for two weeks in March.</p>&e;&f;"
        f"<iframe src='{site.url}/secret'></iframe><img src='{site.url}/secret.png'>"
        f"<xi:include href='{site.url}/secret'/></body></html>"
    )
    for start in (
        entity,
        outside,
        '<?xml version="1.0"?>' + entity,
        '<?xml version="1.0"?>' + outside,
    ):
        for type in ("text/html", "application/xhtml+xml", "application/xml"):
            page = extract((start + body).encode(), type=type)
            assert any("harbour" in sentence for sentence in page.sentences)
            assert Path("/etc/hostname").read_text().strip() not in " ".join(page.sentences)
    assert site.log == []


@pytest.mark.parametrize(
    "address",
    [
        "2002:c058:6301::1",  # 6to4 around the relays of 6to4
        "2002:6440:1::", "2002:e000:1::", "2002:f000:1::", "2002:0:1::",  # shared, many, kept, this
        "64:ff9b::192.168.0.1", "64:ff9b::100.64.0.1", "64:ff9b::255.255.255.255",
        "64:ff9b:1:7f00:0:1::", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo
        "2a00:1450::0:5efe:169.254.169.254", "2a00:1450::200:5efe:127.0.0.1",
        "::ffff:169.254.169.254", "::ffff:100.64.0.1", "::ffff:0:0", "::fffe:8.8.8.8",
        "fe80::5efe:8.8.8.8", "fc00::5efe:8.8.8.8", "ff05::1:3", "ff02::fb", "febf::1", "fdff::1",
        "1fff::1", "e000::1", "2001:1::1", "2001:3::1", "2001:4:112::1", "2001:db8:ffff::1",
    ],
)  # fmt: skip
def test_forms_that_carry_what_is_not_public(address: str) -> None:
    assert refusal(ipaddress.ip_address(address))
