"""Text of a PDF: paragraphs, and the rows of tables of figures."""

from __future__ import annotations

import io
import itertools
import re
from typing import TYPE_CHECKING

from components.errors import ClaimflowError

if TYPE_CHECKING:
    from pypdf import PageObject

PAGES = 2000  # are read at most
_CELL = re.compile(r"\S+(?: {1,2}\S+)*")  # what three spaces set apart
_LEADERS = re.compile(r"(?: \.){3,}|\.{4,}")
_COLUMNS = 3  # of a table at least: two are as often those of a page


def read_pdf(data: bytes) -> tuple[list[str], str | None]:
    """(paragraphs and rows `| cell | cell`, title) of a PDF. Its own dates are of the file, not of
    the text. Raises ClaimflowError when it can't be read."""
    import pypdf

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        pages = [_lines(page) for page in itertools.islice(reader.pages, PAGES)]
        title = reader.metadata.title if reader.metadata else None
    except Exception as error:  # parsers raise whatever a hostile page makes them raise
        raise ClaimflowError(f"PDF can't be read: {error}") from error
    lines = [line for page in pages for line in [*page, ""]]
    text = re.sub(r"(?<=\w)-\n(?=[a-z])", "", "\n".join(lines))  # words broken at the end of a line
    return _paragraphs(text.split("\n")), title or None


def _lines(page: PageObject) -> list[str]:
    """The lines of a page; a line of a table is a row."""
    lines = page.extract_text().split("\n")
    if sum(len(re.findall(r"\S*\d", line)) > 1 for line in lines) < 2:  # columns take time
        return lines
    rows = {re.sub(r"[\s|]", "", row): row for row in table_rows(_laid_out(page))}
    return [rows.get(re.sub(r"[\s|]", "", _LEADERS.sub("", line)), line) for line in lines]


def _laid_out(page: PageObject) -> list[str]:
    """The lines of a page with its columns below each other."""
    try:
        text = page.extract_text(extraction_mode="layout")
        return _LEADERS.sub(lambda dots: " " * len(dots[0]), text).split("\n")
    except Exception:  # fonts without widths and the like: the text has been read without
        return []


def table_rows(lines: list[str]) -> list[str]:
    """The lines that are rows of a table, as `| cell | cell`: at least _COLUMNS cells, set apart
    by three spaces or more, that begin or end where those of the line before or after do."""
    cells = [[found.span() for found in _CELL.finditer(line)] for line in lines]
    full = [(line, spans) for line, spans in zip(lines, cells, strict=True) if spans]
    alike = [_aligned(a, b) for (_, a), (_, b) in itertools.pairwise(full)]
    return [
        "| " + " | ".join(line[start:end].replace("|", " ") for start, end in spans)
        for i, (line, spans) in enumerate(full)
        if True in alike[max(0, i - 1) : i + 1]
    ]


def _aligned(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool:
    """Whether all cells but one of two lines stand below each other."""
    least = min(len(one), len(other))
    near = (-1, 0, 1)
    starts, ends = ({cell[k] + d for cell in other for d in near} for k in (0, 1))
    return least >= _COLUMNS and sum(a in starts or b in ends for a, b in one) >= least - 1


def _paragraphs(lines: list[str]) -> list[str]:
    """Lines joined to paragraphs. A blank line ends one, and so does a short line (a heading, or
    the last of a paragraph) when the next does not go on in lower case; a row is one."""
    prose = [line for line in lines if not line.startswith("| ")]
    full = 0.8 * max(map(len, prose), default=0)
    paragraphs = [""]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        row = line.startswith("| ")
        paragraphs[-1] += f"{line} "
        ends = row or not line.strip() or following.startswith("| ")
        if ends or (len(line) < full and not following[:1].islower()):
            paragraphs.append("")
    return paragraphs
