"""Raw pages: types by content, text, dates, and what fails."""

from __future__ import annotations

import datetime
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from components.cache import Cache
from components.datasets.averitec import Averitec
from components.datasets.base import case_refs
from components.errors import ClaimflowError
from components.files import home
from components.store.extract import extract, split_sentences

pytestmark = pytest.mark.skipif(
    not (home() / "nltk_data" / "tokenizers" / "punkt_tab").is_dir(), reason="needs punkt_tab"
)

HTML = b"""<!DOCTYPE html><html><head><title>Ferry back in service</title>
<meta property="article:published_time" content="2021-03-04"></head>
<body><nav><a href="/">Home</a></nav><article><h1>Ferry back in service</h1>
<p>The ferry between Ostrel and Vund runs again since Dr. Hale signed the permit. It carried 412
passengers on its first day, the harbour office said.</p>
<p>Crossings leave every forty minutes from the north pier, and tickets cost three crowns.</p>
</article><footer>Imprint</footer></body></html>"""


def pdf(*lines: str) -> bytes:
    """A PDF of one page, written by hand."""
    text = " T* ".join(f"({line}) Tj" for line in lines)
    stream = zlib.compress(f"BT /F1 12 Tf 14 TL 72 720 Td {text} ET".encode("latin-1"))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return (
        out
        + b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
        % (table, len(out))
    )


PDF = pdf("The report counts 412 ferry passengers. Nobody was hurt when", "the gang-", "way fell.")


def test_html() -> None:
    page = extract(HTML)
    assert page.title == "Ferry back in service"
    assert page.date == datetime.date(2021, 3, 4)
    assert page.sentences == [
        "Ferry back in service",
        "The ferry between Ostrel and Vund runs again since Dr. Hale signed the permit.",
        "It carried 412 passengers on its first day, the harbour office said.",
        "Crossings leave every forty minutes from the north pier, and tickets cost three crowns.",
    ]


def test_html_without_a_date_gets_none() -> None:
    page = extract(HTML.replace(b"article:published_time", b"x").replace(b"412", b"on 3 May 2019"))
    assert page.date is None


def test_pdf() -> None:
    page = extract(PDF)
    assert page.sentences == [
        "The report counts 412 ferry passengers.",
        "Nobody was hurt when the gangway fell.",
    ]
    assert extract(b"\n\n" + PDF).sentences == page.sentences


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n", "neither HTML nor PDF"),
        (PDF[:60], "PDF can't be read"),
        (b"<html><body></body></html>", "no main text"),
        (pdf(""), "no text found"),
    ],
)
def test_what_fails_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(ClaimflowError, match=reason):
        extract(data)


def test_sentences_by_language() -> None:
    assert split_sentences("Der 3. Mai war kalt. Mehr nicht.", "de-DE") == [
        "Der 3. Mai war kalt.",  # by the English rules "Der 3." is a sentence
        "Mehr nicht.",
    ]
    assert split_sentences("  One\n two.  Three. ", "xx") == ["One two.", "Three."]


def test_pages_of_a_store_are_known_by_content_and_fail_alone(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text('[{"claim": "The ferry is back."}]')
    pages = tmp_path / "pages" / "dev" / "0"
    pages.mkdir(parents=True)
    (pages / "report.html").write_bytes(PDF)  # whatever its name
    (pages / "news").write_bytes(HTML)
    (pages / "torn.pdf").write_bytes(PDF[:60])
    lines: list[dict[str, Any]] = [
        {"url": "u", "file": "pages/dev/0/report.html", "date": "2021-01-01"},
        {"url": "v", "file": "pages/dev/0/news"},
        {"url": "w", "file": "pages/dev/0/torn.pdf"},
        {"url": "x", "file": "pages/dev/0/gone.html"},
        {"url": "y", "url2text": ["As text."]},
    ]
    store = tmp_path / "knowledge_store" / "dev" / "0.json"
    store.parent.mkdir(parents=True)
    store.write_text("".join(json.dumps(line) + "\n" for line in lines))
    dataset = Averitec(path=tmp_path)
    (claim,) = dataset.claims()
    documents = dataset.read_documents(claim)
    assert [len(d.sentences) for d in documents] == [2, 4, 0, 0, 1]
    assert [d.date for d in documents[:2]] == [
        datetime.date(2021, 1, 1),
        datetime.date(2021, 3, 4),
    ]
    assert [(b.line, b.reason.split(":")[0]) for b in dataset.bad] == [
        (3, "page 'pages/dev/0/torn.pdf' left empty"),
        (4, "page 'pages/dev/0/gone.html' left empty"),
    ]
    # An edited page is read again.
    cache = Cache(tmp_path / "cache")
    before = case_refs(dataset, [claim], cache)[0].fields["documents"]
    (pages / "news").write_bytes(HTML.replace(b"412", b"413"))
    assert case_refs(dataset, [claim], cache)[0].fields["documents"] != before


def test_a_page_outside_its_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text('[{"claim": "The ferry is back."}]')
    store = tmp_path / "knowledge_store_dev" / "0.json"
    store.parent.mkdir()
    store.write_text('{"url": "u", "file": "../secret.html"}\n')
    dataset = Averitec(path=tmp_path)
    with pytest.raises(ClaimflowError, match=r"line 1: file '\.\./secret\.html' does not lie in"):
        dataset.read_documents(dataset.claims()[0])
