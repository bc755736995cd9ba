"""Raw pages to sentences: HTML, PDF, transcripts and plain text, told apart by what they hold,
never by their name."""

from __future__ import annotations

import datetime
import io
import itertools
import re
from typing import TYPE_CHECKING

from components import words
from components.errors import ClaimflowError
from components.records import Record
from components.store.charset import decoded
from components.store.transcript import is_transcript, spoken

if TYPE_CHECKING:
    from lxml.html import HtmlElement

# Languages that NLTK's punkt_tab has rules for; others are split by the English ones.
_PUNKT = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
}
_TAG = re.compile(
    r"(?i)<(!doctype\s+html|html|head|body|title|meta|script|article|section|main|div|span|p|h\d"
    r"|table|ul|ol|li|br|a\s+href)\b"
)
_COMMENT = re.compile(r"^\s*(?:<\?[^>]*>|<!--.*?-->|\s+)*", re.DOTALL)
_SNIFFED = 1024  # bytes or characters at the start that tell the type
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_PDF_PAGES = 2000


class Page(Record):
    """What a raw page says. `date` is the day of publication, where the page gives it."""

    sentences: list[str]
    title: str | None = None
    date: datetime.date | None = None


def extract(data: bytes, lang: str | None = None, type: str = "") -> Page:
    """Text of an HTML page (trafilatura), a PDF (pypdf), a transcript (WebVTT, SubRip) or plain
    text, as sentences of language `lang`. A row of a table is one sentence, `cell | cell`.

    type: the header Content-Type it came with; only the charset in it counts.
    Raises ClaimflowError with the reason when the page is none of these, or gives no text. A page
    can be made so that this takes hours: `Extractor` sets it a limit.
    """
    if not data.strip():
        raise ClaimflowError("it is empty")
    start = data[:_SNIFFED]
    if b"%PDF-" in start and not _TAG.search(start.split(b"%PDF-")[0].decode("latin-1")):
        page = _pdf(data)
    else:
        page = _text(decoded(data, type))
    page.sentences = [
        sentence
        for text in page.sentences
        for sentence in ([_row(text)] if text.startswith("| ") else split_sentences(text, lang))
    ]
    if not page.sentences:
        raise ClaimflowError("no text found in it")
    return page


def _text(text: str) -> Page:
    """A page of characters."""
    start = text[_COMMENT.match(text).end() :][:_SNIFFED]  # type: ignore[union-attr]
    if is_transcript(text):
        return Page(sentences=spoken(text).splitlines())
    if _TAG.search(start):
        return _html(text)
    if len(_CONTROL.findall(start)) > len(start) // 100 or start.startswith(("<", "{\\rtf")):
        raise ClaimflowError("neither HTML, PDF, a transcript nor plain text")
    return Page(sentences=re.split(r"\n\s*\n", text))


def _row(text: str) -> str:
    """A row of a table without its empty cells."""
    return " | ".join(filter(None, (" ".join(cell.split()) for cell in text.split("|"))))


def split_sentences(text: str, lang: str | None = None) -> list[str]:
    """Sentences of a text by NLTK's punkt, each with its white space made single."""
    language = _PUNKT.get((lang or "en")[:2].lower(), "english")
    found = words.sentences(text) if language == "english" else _foreign(text, language)
    return [sentence for sentence in (" ".join(s.split()) for s in found) if sentence]


def _foreign(text: str, language: str) -> list[str]:
    from nltk.tokenize import sent_tokenize

    from components.assets import nltk_ready

    nltk_ready()
    return list(sent_tokenize(text, language))


def _html(text: str) -> Page:
    """Main text, one block an item, with title and date of publication."""
    import trafilatura
    from trafilatura.settings import Document

    try:
        found = trafilatura.bare_extraction(
            _tree(text),
            with_metadata=True,
            include_comments=False,
            # Dates guessed from running text would let later pages pass for early ones.
            date_extraction_params={"extensive_search": False, "original_date": True},
        )
    except Exception as error:  # parsers raise whatever a hostile page makes them raise
        raise ClaimflowError(f"HTML can't be read: {error}") from error
    if not isinstance(found, Document):
        raise ClaimflowError("no main text in its HTML")
    return Page(
        # A rule below the head of a table (|---|) has no word in it.
        sentences=[line for line in (found.text or "").splitlines() if re.search(r"\w", line)],
        title=found.title,
        date=datetime.date.fromisoformat(found.date) if found.date else None,
    )


def _tree(text: str) -> HtmlElement:
    """The elements of a page, without what only blows it up.

    Cells that span columns or rows are filled up by trafilatura: with colspan=99999999 each row of
    the table has a million cells.
    """
    from lxml import html

    # lxml refuses a text that names its encoding.
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    tree = html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    for cell in tree.iter("td", "th"):
        cell.attrib.pop("colspan", None)
        cell.attrib.pop("rowspan", None)
    return tree


def _pdf(data: bytes) -> Page:
    """Text of all pages, one paragraph an item. A PDF's own dates are of the file, not the text."""
    import pypdf

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        text = "\n\n".join(
            page.extract_text() for page in itertools.islice(reader.pages, _PDF_PAGES)
        )
        title = reader.metadata.title if reader.metadata else None
    except Exception as error:  # parsers raise whatever a hostile page makes them raise
        raise ClaimflowError(f"PDF can't be read: {error}") from error
    text = re.sub(r"(?<=\w)-\n(?=[a-z])", "", text)  # words broken at the end of a line
    return Page(sentences=_paragraphs(text.split("\n")), title=title or None)


def _paragraphs(lines: list[str]) -> list[str]:
    """Lines of a PDF joined to paragraphs. A blank line ends one, and so does a short line (a
    heading, or the last of a paragraph) when the next does not go on in lower case."""
    full = 0.8 * max(map(len, lines), default=0)
    paragraphs = [""]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        paragraphs[-1] += f"{line} "
        if not line.strip() or (len(line) < full and not following[:1].islower()):
            paragraphs.append("")
    return paragraphs
