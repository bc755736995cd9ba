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
from components.store.extractor import Extractor

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


@pytest.mark.parametrize("sign", ["\x01", "\x0b", "\x1f", "\ufffe", "&#1;", "&#xFFFE;"])
def test_control_characters_cost_neither_page_nor_date(sign: str) -> None:
    page = HTML.replace(b"412", f"412{sign}".encode())
    page = page.replace(b"Imprint", f"{sign}1 May 2020".encode())
    page = page.replace(b"2021-03-04", f"2021-03-04{sign}".encode())
    script = f'<script type="application/ld+json">{{"x": "{sign}"}}</script></head>'
    page = extract(page.replace(b"</head>", script.encode()))
    assert page.date == datetime.date(2021, 3, 4)
    assert len(page.sentences) == 4


def test_a_date_that_cannot_be_looked_for_does_not_cost_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr("htmldate.find_date", fails)
    page = extract(HTML.replace(b"article:published_time", b"x"))
    assert page.date is None
    assert len(page.sentences) == 4


def test_pdf() -> None:
    page = extract(PDF)
    assert page.sentences == [
        "The report counts 412 ferry passengers.",
        "Nobody was hurt when the gangway fell.",
    ]
    assert extract(b"\n\n" + PDF).sentences == page.sentences


def test_a_table_of_a_pdf_is_rows() -> None:
    cells = [(72, 720, "The reservoir was nearly full in both of these long and wet years.")]
    for n, row in enumerate((("Year", "Level", "Inflow"), ("2019", "95 %", "12.1"))):
        cells += [(72 + 120 * k, 690 - 16 * n, cell) for k, cell in enumerate(row)]
    cells += [(72, 658, "2020"), (192, 658, "97 %"), (312, 658, "13.4")]
    cells += [(72, 620, "It was never empty in 2021, as 2 offices say.")]
    moves = " ".join(f"1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in cells)
    assert extract(pdf(f") Tj {moves} (")).sentences == [
        "The reservoir was nearly full in both of these long and wet years.",
        "Year | Level | Inflow",
        "2019 | 95 % | 12.1",
        "2020 | 97 % | 13.4",
        "It was never empty in 2021, as 2 offices say.",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is empty"),
        (b"\x89PNG\r\n\x1a\n\x00", "neither HTML, PDF"),
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


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "湖は六月に満水だった。「もう乾いた。」と市長。本当ですか？！はい",
            ["湖は六月に満水だった。", "「もう乾いた。」", "と市長。", "本当ですか？！", "はい"],
        ),
        ("湖在六月是满的。它没有干涸！ 是吗？", ["湖在六月是满的。", "它没有干涸！", "是吗？"]),
        ("झील भरी थी। अब सूखी है। सच है?", ["झील भरी थी।", "अब सूखी है।", "सच है?"]),
        ("هل جفت؟ لا. قال ذلك رئيس البلدية.", ["هل جفت؟", "لا.", "قال ذلك رئيس البلدية."]),
        ("جھیل خشک ہے۔ کیا یہ سچ ہے؟", ["جھیل خشک ہے۔", "کیا یہ سچ ہے؟"]),
        ("He said “没有。” and left.", ["He said “没有。”", "and left."]),
    ],
)
def test_sentences_of_scripts_with_other_full_stops(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences
    assert extract(text.encode()).sentences == sentences


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


# Types and characters

TEXT = "The ferry to Vund carried 412 passengers. Nobody was hurt.\n\nIt runs\ndaily."
SENTENCES = [
    "The ferry to Vund carried 412 passengers.",
    "Nobody was hurt.",
    "It runs daily.",
]


def test_plain_text() -> None:
    assert extract(TEXT.encode()).sentences == SENTENCES
    assert extract(TEXT.replace("\n", "\r\n").encode("utf-16")).sentences == SENTENCES


VTT = """WEBVTT - a talk

STYLE
::cue { color: red }

NOTE not said

1
00:00:00.000 --> 00:00:02.500 align:start
<v Dr. Hale>The ferry <i>carried</i>
<v Dr. Hale>412 passengers.

00:02.500 --> 00:04.000
412 passengers.
<v Mayor Orn>Nobody <00:03.100><c>was hurt &amp; it</c> runs daily.
"""
SRT = """1
00:00:00,000 --> 00:00:02,500
<font color="red">The ferry</font> carried

2
00:00:02,500 --> 00:00:04,000
{\\an8}412 passengers. Nobody
was hurt.
"""


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_transcripts(end: str, mark: str) -> None:
    def sentences(text: str) -> list[str]:
        return extract((mark + text).replace("\n", end).encode()).sentences

    assert sentences(VTT) == [
        "Dr. Hale: The ferry carried 412 passengers.",
        "Mayor Orn: Nobody was hurt & it runs daily.",
    ]
    assert sentences(SRT) == ["The ferry carried 412 passengers.", "Nobody was hurt."]


def test_what_a_transcript_says_twice_was_said_twice_unless_its_lines_roll_up() -> None:
    def sentences(*cues: str) -> list[str]:
        timed = (f"00:0{n}.000 --> 00:0{n + 1}.000\n{cue}" for n, cue in enumerate(cues))
        return extract("\n\n".join(["WEBVTT", *timed]).encode()).sentences

    assert sentences("Was it late?", "No.", "No.", "It was on time.\nIt left at nine.") == [
        *("Was it late?", "No.", "No.", "It was on time.", "It left at nine.")
    ]
    rolled = ("It was late.", "It was late.", "It was late.\nIt left at ten.", "It left at ten.")
    assert sentences(*rolled) == ["It was late.", "It left at ten."]


def in_html(text: str, head: str = "") -> str:
    return (
        f"<!DOCTYPE html><html><head>{head}</head>"
        f"<body><article><p>{text}</p></article></body></html>"
    )


RUSSIAN = "Паром перевёз за день четыреста двенадцать пассажиров из города."
JAPANESE = "フェリーは初日に四百十二人の乗客を運びました。"
GERMAN = "Die Fähre fährt für fünf Kronen nach Köln – „täglich“, hieß es."


@pytest.mark.parametrize(
    ("text", "encoding", "type", "head"),
    [
        (RUSSIAN, "cp1251", "text/html; charset=windows-1251", ""),
        (RUSSIAN, "koi8-r", 'text/html; charset="KOI8-R"', '<meta charset="utf-8">'),
        (RUSSIAN, "cp1251", "text/html", '<meta charset="windows-1251">'),
        (RUSSIAN, "utf-8", "text/html; charset=iso-8859-1", ""),
        (RUSSIAN, "utf-16", "text/html", ""),
        (RUSSIAN, "utf-8-sig", "text/html; charset=koi8-r", ""),
        (RUSSIAN, "cp1251", "", ""),
        (JAPANESE, "shift_jis", "text/html; charset=Shift_JIS", ""),
        (JAPANESE, "euc_jp", "", '<meta http-equiv="x" content="text/html; charset=euc-jp">'),
        (JAPANESE, "iso2022_jp", "text/html; charset=iso-2022-jp", ""),
        (GERMAN, "cp1252", "text/html; charset=iso-8859-1", ""),  # as browsers take it
        (GERMAN, "cp1252", "text/html; charset=no-such-thing", ""),
        (GERMAN, "utf-8", "text/html; charset=utf-16", ""),
        (GERMAN, "cp1252", "text/html; charset=rot13", '<meta charset="latin1">'),
    ],
)
def test_charsets(text: str, encoding: str, type: str, head: str) -> None:
    for page in (in_html(text, head), text):
        if page == text and head:
            continue
        assert extract(page.encode(encoding), "de", type).sentences == [text]


def test_bytes_that_are_no_characters_cost_only_themselves() -> None:
    page = in_html("The ferry \udcff carried 412 passengers.").encode("utf-8", "surrogateescape")
    (sentence,) = extract(page.replace(b"412", b"4\x0012")).sentences
    assert sentence.startswith("The ferry ")
    assert sentence.encode()  # no lone surrogate
    assert "passengers." in sentence


def test_rows_of_tables_are_kept() -> None:
    table = (
        "<table><tr><th>Year</th><th>Passengers</th></tr><tr><td colspan=2>Ostrel. Vund.</td></tr>"
        "<tr><td rowspan=2>2021</td><td>412</td></tr><tr><td></td><td>413 </td></tr></table>"
    )
    story = "The ferry between Ostrel and Vund runs again. " * 3
    page = in_html(f"{story}</p>{table}<p>{story}").encode()
    rows = [s for s in extract(page).sentences if not s.startswith("The ferry")]
    assert rows == ["Year | Passengers", "Ostrel. Vund.", "2021 | 412", "413"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"PK\x03\x04" + b"\x00" * 50,
        b"\x1f\x8b\x08\x00" + bytes(range(128, 256)),
        b"GIF89a\x01\x00\x01\x00",
        b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
        b"<?xml version='1.0'?><rss><channel/></rss>",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        rb"{\rtf1\ansi The ferry}",
    ],
)
def test_other_types_say_so(data: bytes) -> None:
    with pytest.raises(ClaimflowError, match="neither HTML, PDF, a transcript nor plain text"):
        extract(data)


def test_text_that_names_the_mark_of_pdf() -> None:
    text = "Each such file begins with %PDF-1.7, says the manual of the harbour office."
    assert extract(text.encode()).sentences == [text]


def test_a_page_that_speaks_of_pdf_and_one_with_a_late_tag() -> None:
    assert extract(in_html("A PDF begins with %PDF- and a number of its version.").encode())
    late = f"<?xml version='1.0'?>\n<!-- {'licence ' * 400}-->\n{in_html(GERMAN)}"
    assert extract(late.encode(), "de").sentences == [GERMAN]


# Hostile pages

STORY = "<p>The ferry between Ostrel and Vund runs again since Dr. Hale signed the permit.</p>" * 2
HEAD = f"<!DOCTYPE html><html><body><article><h1>Ferry</h1>{STORY}"
HOSTILE = {
    "colspan": f"{HEAD}<table>{'<tr><td colspan=99999999>a b</td><td>c</td></tr>' * 300}</table>",
    "rowspan": f"{HEAD}<table>{'<tr><td rowspan=99999999>a b</td><td>c</td></tr>' * 300}</table>",
    "deep": f"{HEAD}{'<div>' * 100_000}{STORY}",
    "deep table": f"{HEAD}{'<table><tr><td>' * 2000}{STORY}",
    "entities": "<?xml version='1.0'?><!DOCTYPE html [<!ENTITY a 'x'>"
    + "".join(f"<!ENTITY a{n} '&a{n - 1};&a{n - 1};'>" for n in range(1, 40))
    + f"]>{HEAD}<p>&a39;</p>",
    "one line": f"{HEAD}<p>{'word ' * 100_000}</p>",
    "script": f"{HEAD}<script>{'x' * 5_000_000}</script>{STORY}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_give_their_text(name: str) -> None:
    sentences = extract(HOSTILE[name].encode()).sentences
    assert any(s.startswith("The ferry between Ostrel") for s in sentences)
    assert sum(map(len, sentences)) < 1_000_000


@pytest.mark.serverless
def test_a_page_that_is_broken_says_so_in_its_reason_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Extractor() as extractor, pytest.raises(ClaimflowError, match="PDF can't be read"):
        extractor.extract(b"%PDF-1.7 broken")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.serverless
def test_a_page_may_not_take_for_ever_nor_all_memory() -> None:
    endless = f"{HEAD}<p {' '.join(f'a{n}=1' for n in range(100_000))}>x</p>".encode()
    large = b"WEBVTT\n\n" + b"00:00.000 --> 00:01.000\n" * 1_500_000
    with Extractor(time_limit=3.0, memory=60 * 2**20, pages=4) as extractor:
        assert extractor.extract(HTML) == extract(HTML)
        with pytest.raises(ClaimflowError, match="its text is not there after 3 s"):
            extractor.extract(endless)
        assert extractor.extract(PDF) == extract(PDF)
        with pytest.raises(ClaimflowError, match="memory"):
            extractor.extract(large)
        for _ in range(4):
            assert extractor.extract(TEXT.encode(), "en", "text/plain").sentences == SENTENCES
        with pytest.raises(ClaimflowError, match="it is empty"):
            extractor.extract(b"")
