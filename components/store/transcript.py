"""Transcripts of recordings: the subtitle formats WebVTT (W3C) and SubRip."""

from __future__ import annotations

import html
import re

_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMING = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}.*$")
_START = re.compile(rf"^(?:WEBVTT(?:[ \t].*)?$|\d+\s*\n\s*{_TIME}\s*-->)", re.MULTILINE)
_TAG = re.compile(r"<[^>]{0,200}>|\{\\[^}]{0,50}\}")
_SPEAKER = re.compile(r"<v(?:\.[^ >]*)?\s+([^>]{1,100})>")


def is_transcript(text: str) -> bool:
    """Whether a text begins as WebVTT or SubRip does."""
    return bool(_START.match(text[:1000].lstrip().replace("\r\n", "\n")))


def spoken(text: str) -> str:
    """What is said in a transcript, as running text; a new speaker (`<v Name>`) begins a line
    with the name. Automatic captions say each line two or three times as it rolls up: once here.
    """
    said: list[str] = []
    speaker = ""
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.split("\n")
        timing = next((i for i, line in enumerate(lines) if _TIMING.match(line)), None)
        if timing is None:  # the head, a NOTE, a STYLE
            continue
        for line in lines[timing + 1 :]:
            name = _SPEAKER.search(line)
            plain = " ".join(html.unescape(_TAG.sub("", line)).split())
            if not plain or plain in said[-2:]:
                continue
            if name and name.group(1) != speaker:
                speaker = name.group(1)
                said.append(f"\n{speaker}:")
            said.append(plain)
    return " ".join(said).replace(" \n", "\n").strip()
