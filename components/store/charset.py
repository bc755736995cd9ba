"""The characters of a page, whatever its server says of them."""

from __future__ import annotations

import codecs
import re

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEADER = re.compile(r"(?i)charset\s*=\s*[\"']?([\w:.+-]+)")
_META = re.compile(rb"(?i)<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w:.+-]+)")
_XML = re.compile(rb"(?i)^\s*<\?xml[^>]{0,100}encoding\s*=\s*[\"']([\w:.+-]+)")
_SNIFFED = 4096  # bytes at the start that name an encoding, or that a guess is made from

# Labels that pages use for a larger set (encoding.spec.whatwg.org, section 4.2).
_LARGER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}


def decoded(data: bytes, type: str = "") -> str:
    """`data` as text: by its byte order mark; as UTF-8 if it is that; as `type` (the header
    Content-Type) or the page itself says; else by a guess. Bytes that are no character become
    U+FFFD, and so do NULs."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace").replace("\0", "\ufffd")
    said = _said(data, type)
    try:  # ISO-2022-JP is UTF-8, too, and shifts by escapes
        text = data.decode(said if said and b"\x1b" in data else "utf-8")
    except UnicodeDecodeError:
        text = data.decode(said or _guess(data), "replace")
    return text.replace("\0", "\ufffd")


def _said(data: bytes, type: str) -> str | None:
    """The encoding that the header or the page names, where Python knows it."""
    start = data[:_SNIFFED]
    names = _HEADER.findall(type)
    names += [name.decode() for name in _XML.findall(start) + _META.findall(start)]
    for name in names:
        try:
            known = codecs.lookup(name)
        except LookupError:
            continue
        # A page that can be read as far as its own word on it is not in UTF-16.
        if known._is_text_encoding and not known.name.startswith(("utf-16", "utf-32")):
            return _LARGER.get(known.name, known.name)
    return None


def _guess(data: bytes) -> str:
    from charset_normalizer import from_bytes

    # A tail cut in the middle of a character would rule out its encoding.
    found = from_bytes(data[: 16 * _SNIFFED]).best()
    return found.encoding if found else "cp1252"
