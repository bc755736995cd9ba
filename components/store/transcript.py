"""Transcripts of recordings: the subtitle formats WebVTT (W3C) and SubRip."""

from __future__ import annotations

import html
import itertools
import re

_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMING = re.compile(rf"^\s*{_TIME}\s*-->\s*{_TIME}.*$")
_START = re.compile(rf"^(?:WEBVTT(?:[ \t].*)?$|\d+\s*\n\s*{_TIME}\s*-->)", re.MULTILINE)
_TAG = re.compile(r"<[^>]{0,200}>|\{\\[^}]{0,50}\}")
_SPEAKER = re.compile(r"<v(?:\.[^ >]*)?\s+([^>]{1,100})>")


def is_transcript(text: str) -> bool:
    """Whether a text begins as WebVTT or SubRip does."""
    return bool(_START.match(_lines_ended(text[:1000].lstrip())))


def spoken(text: str) -> str:
    """What is said in a transcript, as running text; a new speaker (`<v Name>`) begins a line
    with the name. Automatic captions say each line two or three times as they roll up: once here.
    """
    cues = [_lines(block) for block in re.split(r"\n\s*\n", _lines_ended(text))]
    cues = [cue for cue in cues if cue]
    pairs = [(a[-1][1], b[0][1]) for a, b in itertools.pairwise(cues) if len(b) > 1]
    rolls = 2 * sum(before == first for before, first in pairs) > len(pairs)
    said: list[str] = []
    speaker = ""
    for name, plain in itertools.chain.from_iterable(cues):
        if rolls and plain in said[-2:]:
            continue
        if name and name != speaker:
            speaker = name
            said.append(f"\n{speaker}:")
        said.append(plain)
    return " ".join(said).replace(" \n", "\n").strip()


def _lines_ended(text: str) -> str:
    """`text` with one kind of line end, of the three that files have."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _lines(block: str) -> list[tuple[str, str]]:
    """(speaker if named, text) of each line of a cue; none of a head, a NOTE, a STYLE."""
    lines = block.split("\n")
    timing = next((i for i, line in enumerate(lines) if _TIMING.match(line)), None)
    found = []
    for line in lines[timing + 1 :] if timing is not None else []:
        name = _SPEAKER.search(line)
        if plain := " ".join(html.unescape(_TAG.sub("", line)).split()):
            found.append((name.group(1) if name else "", plain))
    return found
