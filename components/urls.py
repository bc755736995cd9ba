"""When two URLs are of one page."""

from __future__ import annotations

import re
import unicodedata
import urllib.parse

_ARCHIVED = re.compile(
    r"(?i)^https?://(?:web\.archive\.org/web|archive\.(?:today|ph|is|li|vn|md|fo))/"
    r"(\d{4}\.\d\d\.\d\d-\d{6}|\d{4,14})[^/]*/(?=https?://)"
)


def unwrap(url: str) -> tuple[str, str | None]:
    """(URL of the page itself, archive stamp `YYYYMMDD…` or None) of a URL of web.archive.org or
    archive.today."""
    url = url.strip()
    found = _ARCHIVED.match(url)
    return (url[found.end() :], re.sub(r"\D", "", found.group(1))) if found else (url, None)


def same_url(name: str) -> str:
    """A form of a URL that is equal for URLs of one page; what is no URL stays as it is.

    Scheme, `www.`, letter case of the host, default port, fragment, a closing slash, percent
    encoding, composed or decomposed letters and the wrapping of an archive don't count.
    """
    url = unwrap(name)[0]
    if not re.match(r"(?i)https?://", url):
        return name
    try:
        parts = urllib.parse.urlsplit(url)
        host = (parts.hostname or "").removeprefix("www.")
        port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    except ValueError:  # not a URL after all
        return name
    query = f"?{parts.query}" if parts.query else ""
    plain = urllib.parse.unquote(f"{host}{port}{parts.path.rstrip('/')}{query}")
    return unicodedata.normalize("NFC", plain)
