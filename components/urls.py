"""When two URLs are of one page."""

from __future__ import annotations

import re
import unicodedata
import urllib.parse

_ARCHIVED = re.compile(
    r"(?i)^https?://(?:(?:web\.)?archive\.org/web|arquivo\.pt/(?:no)?wayback"
    r"|archive\.(?:today|ph|is|li|vn|md|fo))/"
    r"(\d{4}\.\d\d\.\d\d-\d{6}|\d{4,14})[^/]*/(?=https?:/|[\w-]+(?:\.[\w-]+)+(?:[/?#]|$))"
)
# Other sites' pages below their own names: caches of AMP, Google's links, its translations.
_CACHED = re.compile(
    r"(?i)^https?://(?:[^/]+\.cdn\.ampproject\.org/\w/|www\.google\.[a-z.]+/amp/)(?:s/)?"
)
_LINK = re.compile(
    r"(?i)^https?://(?:www\.google\.[a-z.]+/url\?(?:.*&)?(?:q|url)=(?=http)"
    r"|translate\.google(?:usercontent)?\.[a-z.]+/translate(?:_\w)?\?(?:.*&)?u="
    r"|webcache\.googleusercontent\.com/search\?(?:.*&)?q=cache(?::|%3A)(?:[\w-]{8,}(?::|%3A)(?!//|%2F%2F))?)"
    r"([^&+\s]*[./][^&+\s]*)"
)
_TRANSLATED = re.compile(r"(?i)^https?://([\w-]+)\.translate\.goog(?=/|$)")
_TRACKING = re.compile(r"(?i)(?:utm_\w+|(?:fb|g)clid|igshid|mc_[ce]id|_x_tr_\w+|amp)(?:=|$)")
_SCHEME = re.compile(r"(?i)^(https?):/+")


def unwrap(url: str) -> tuple[str, str | None]:
    """(URL of the page itself, archive stamp `YYYYMMDD…` or None) of a URL of web.archive.org,
    archive.today, arquivo.pt, a cache of AMP, or a link, translation or cached page of Google."""
    url, stamp = url.strip(), None
    if found := _ARCHIVED.match(url):
        url, stamp = url[found.end() :], re.sub(r"\D", "", found.group(1))
        url = _SCHEME.sub(r"\1://", url) if _SCHEME.match(url) else f"http://{url}"
    if found := _LINK.match(url):
        url = urllib.parse.unquote(found.group(1))
        url = url if _SCHEME.match(url) else f"http://{url}"
    elif found := _CACHED.match(url):
        url = f"https://{url[found.end() :]}"
    elif found := _TRANSLATED.match(url):
        host = found.group(1).replace("--", "\0").replace("-", ".").replace("\0", "-")
        url = f"https://{host}{url[found.end() :]}"
    return url, stamp


def split(url: str) -> urllib.parse.SplitResult:
    """The parts of the URL of a page itself, all empty when it is none, as `http://[x/` is."""
    try:
        return urllib.parse.urlsplit(unwrap(url)[0])
    except ValueError:
        return urllib.parse.urlsplit("")


def same_url(name: str) -> str:
    """A form of a URL that is equal for URLs of one page; what is no URL stays as it is.

    Scheme, `www.`, `m.` and `amp.`, letter case of the host, default port, fragment, doubled and
    closing slashes, `/amp` at the end, parameters that only say where a reader came from, percent
    encoding, composed or decomposed letters and wrapping (`unwrap`) don't count.
    """
    url = unwrap(name)[0]
    if not re.match(r"(?i)https?://", url):
        return name
    try:
        parts = urllib.parse.urlsplit(url)
        host = re.sub(
            r"^(?:(?:www|m|mobile|amp)\.)+(?=.+\.)", "", (parts.hostname or "").rstrip(".")
        )
        port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    except ValueError:  # not a URL after all
        return name
    path = re.sub(r"/{2,}", "/", parts.path).rstrip("/").removesuffix("/amp")
    query = "&".join(p for p in parts.query.split("&") if p and not _TRACKING.match(p))
    plain = urllib.parse.unquote(f"{host}{port}{path}{'?' if query else ''}{query}")
    return unicodedata.normalize("NFC", plain)
