"""Raw pages to sentences: HTML and PDF, told apart by what they hold, never by their name."""

from __future__ import annotations

import datetime
import io
import re

from components.errors import ClaimflowError
from components.records import Record

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
    rb"(?i)<(!doctype\s+html|html|head|body|title|meta|script|article|div|p|h1|table)\b"
)
_SNIFFED = 1024  # bytes at the start that tell the type


class Page(Record):
    """What a raw page says. `date` is the day of publication, where the page gives it."""

    sentences: list[str]
    title: str | None = None
    date: datetime.date | None = None


def extract(data: bytes, lang: str | None = None) -> Page:
    """Text of an HTML page (trafilatura) or a PDF (pypdf), as sentences of language `lang`.

    Raises ClaimflowError with the reason when the page is neither, or gives no text.
    """
    start = data[:_SNIFFED]
    tag = _TAG.search(start)
    if b"%PDF-" in start[: tag.start() if tag else None]:
        page = _pdf(data)
    elif tag:
        page = _html(data)
    else:
        raise ClaimflowError("neither HTML nor PDF" if data.strip() else "it is empty")
    page.sentences = [s for text in page.sentences for s in split_sentences(text, lang)]
    if not page.sentences:
        raise ClaimflowError("no text found in it")
    return page


def split_sentences(text: str, lang: str | None = None) -> list[str]:
    """Sentences of a text by NLTK's punkt, each with its white space made single."""
    from nltk.tokenize import sent_tokenize

    from components.assets import nltk_ready

    nltk_ready()
    language = _PUNKT.get((lang or "en")[:2].lower(), "english")
    sentences = (" ".join(s.split()) for s in sent_tokenize(text, language))
    return [sentence for sentence in sentences if sentence]


def _html(data: bytes) -> Page:
    """Main text, one block an item, with title and date of publication."""
    import trafilatura
    from trafilatura.settings import Document

    try:
        found = trafilatura.bare_extraction(
            data,
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


def _pdf(data: bytes) -> Page:
    """Text of all pages, one paragraph an item. A PDF's own dates are of the file, not the text."""
    import pypdf

    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        text = "\n\n".join(page.extract_text() for page in reader.pages)
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
