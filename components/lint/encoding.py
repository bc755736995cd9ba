"""The encoding of a submission, and its text in UTF-8."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from components.files import encoding_fault, encoding_of, unmarked_utf16
from components.lint.linter import Linter


def decode(linter: Linter, scratch: Path) -> None:
    """The encoding; text in another one is read from a copy in `scratch`."""
    utf16, fault = encoding_of(linter.path) == "utf-16", encoding_fault(linter.path)
    with open(linter.path, "rb") as file:
        marked = file.read(3) == codecs.BOM_UTF8
    linter.line = 1
    if marked:
        linter.find("encoding", "a byte order mark", "Save as UTF-8 without it", True)
    if utf16:
        linter.find("encoding", "the file is UTF-16", "Save as UTF-8", True)
    if fault or utf16:
        western, mac = False, None
        if fault:
            linter.line, what = fault
            mac = _of_mac(linter.path)
            western = not utf16 and "NUL" not in what and not mac and _is_western(linter.path)
        linter.source = scratch / "text"
        encoding = "cp1252" if western else encoding_of(linter.path)
        nuls, linter.illegible = _copy_text(linter.path, linter.source, encoding)
        if unmarked := unmarked_utf16(linter.path):
            remedy = f"Save as UTF-8 (`iconv -f {unmarked} -t UTF-8`)"
            linter.find("encoding", "UTF-16 without its mark", remedy)
        elif nuls:
            remedy = "Take them out, and save as UTF-8"
            linter.find("encoding", "NUL characters", remedy, True, done="Deleted")
        elif fault:
            what += "; all of it reads as Windows-1252" if western else ""
            what += f"; as Windows-1252 it reads '{mac}', so it may be Mac Roman" if mac else ""
            remedy = "Save as UTF-8" + " (`iconv -f MACINTOSH -t UTF-8`)" * bool(mac)
            done = "Written as UTF-8: look whether the letters are right"
            linter.find("encoding", what, remedy, western, done=done)
    linter.line = None


def _copy_text(path: Path, to: Path, encoding: str) -> tuple[bool, bool]:
    """Write the text of a file as UTF-8, piece by piece: without NULs, and with U+FFFD for what is
    none in the encoding; (whether there were NULs, whether there was such)."""
    decode = codecs.getincrementaldecoder(encoding)("replace").decode
    without = codecs.getincrementaldecoder(encoding)("ignore").decode
    nuls = lost = False
    with open(path, "rb") as file, open(to, "w", encoding="utf-8", newline="") as out:
        while True:
            data = file.read(2**22)
            text = decode(data, final=not data)
            lost = lost or text != without(data, final=not data)
            nuls = nuls or "\0" in text
            out.write(text.replace("\0", ""))
            if not data:
                return nuls, lost


def _of_mac(path: Path) -> str | None:
    """A word that a file which is no UTF-8 has as Windows-1252, and that hardly anybody writes in
    it, but Mac Roman makes (itÕs, cafŽ): a capital with an accent, or a sign, behind small letters.
    None where these are rarer than the quotes and small letters of Windows-1252."""
    marks = rb"[\x82-\x84\x88-\x8c\x8e\x98\x9b\x9f\xc0-\xd6\xd8-\xde]"
    odd = re.compile(rb"[A-Za-z]{1,30}[a-z]" + marks + rb"(?![\x80-\xbf])\w*")  # that is UTF-8
    usual = re.compile(rb"[\x91-\x94\xe0-\xf6\xf8-\xff]")
    shown, balance = None, 0
    with open(path, "rb") as file:
        while data := file.read(2**22):
            found = odd.findall(data)
            shown = shown or (found[0].decode("cp1252", "replace") if found else None)
            balance += len(found) - len(usual.findall(data))
    return shown if balance >= 0 else None


def _is_western(path: Path) -> bool:
    """Whether a file that is no UTF-8 reads well as Windows-1252: letters beyond ASCII stand among
    others, and none is in UTF-8."""
    utf8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
    other = re.compile(rb"[\x80-\xff]{5}|[\x81\x8d\x8f\x90\x9d]|" + utf8)
    before = b""
    with open(path, "rb") as file:
        while data := file.read(2**22):
            if other.search(before + data):
                return False
            before = data[-4:]
    return True
