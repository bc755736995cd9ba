"""Raw pages to sentences: HTML, PDF, transcripts and plain text, told apart by what they hold,
never by their name."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

from components import words
from components.errors import ClaimflowError
from components.records import Record
from components.store.charset import decoded
from components.store.claimreview import checked_claims
from components.store.pdf import read_pdf
from components.store.published import published
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
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
# Up to a full stop that punkt doesn't know, with the quotes and brackets that it closes.
_OTHER_ENDS = "。！？｡।॥؟۔"
_TO_OTHER_END = re.compile(
    rf"[^{_OTHER_ENDS}]*(?:[{_OTHER_ENDS}]+[」』”’»）】》)\]]*(?:[\"'](?=\s|\Z))?|\Z)"
)
_PDF = re.compile(rb"(?<![\w \"'(,.;:-])%PDF-\d")  # some bytes may stand before it, but no words


class Page(Record):
    """What a raw page says. date: the day of publication, where the page gives it; checked: claims
    that its markup says it checks."""

    sentences: list[str]
    title: str | None = None
    date: datetime.date | None = None
    checked: list[str] = []


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
    pdf = _PDF.search(start)
    if pdf and not _TAG.search(start[: pdf.start()].decode("latin-1")):
        blocks, title = read_pdf(data)
        page = Page(sentences=blocks, title=title)
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
    """Sentences of a text by NLTK's punkt, each with its white space made single. The full stops
    of Chinese and Japanese, of Indian languages, and of Arabic and Urdu, which punkt does not know,
    end a sentence, too."""
    language = _PUNKT.get((lang or "en")[:2].lower(), "english")
    found = words.sentences(text) if language == "english" else _foreign(text, language)
    parts = [part for sentence in found for part in _TO_OTHER_END.findall(sentence)]
    return [sentence for sentence in (" ".join(s.split()) for s in parts) if sentence]


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
        tree = _tree(text)
        date, checked = _date(tree), checked_claims(tree)
        found = trafilatura.bare_extraction(
            tree,
            with_metadata=True,
            include_comments=False,
            date_extraction_params={"extensive_search": False},
        )
    except Exception as error:  # parsers raise whatever a hostile page makes them raise
        raise ClaimflowError(f"HTML can't be read: {error}") from error
    if not isinstance(found, Document):
        raise ClaimflowError("no main text in its HTML")
    return Page(
        # A rule below the head of a table (|---|) has no word in it.
        sentences=[line for line in (found.text or "").splitlines() if re.search(r"\w", line)],
        title=found.title,
        date=date,
        checked=checked,
    )


def _date(tree: HtmlElement) -> datetime.date | None:
    """The day of publication. Where looking for it fails, a page has none: it must not cost its
    text."""
    try:
        return published(tree)
    except Exception:  # htmldate raises whatever a hostile page makes it raise
        return None


def _tree(text: str) -> HtmlElement:
    """The elements of a page, without what only blows it up.

    lxml gives control characters but takes none back: with one, a page would lose text or date.
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
    for element in tree.iter():
        for part in ("text", "tail"):
            if (inner := getattr(element, part)) and _NO_XML.search(inner):
                setattr(element, part, _NO_XML.sub(" ", inner))
        for name, value in element.attrib.items():
            if _NO_XML.search(value):
                element.set(name, _NO_XML.sub(" ", value))
    return tree
