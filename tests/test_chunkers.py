"""Chunkers: what each makes of a text worked by hand, and that none loses any of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.cache import Cache
from components.errors import ClaimflowError
from components.records import Case, Claim, Document, Passage
from components.retrieve.encoder import Encoder
from components.step import Context
from components.store.budget import Characters, Paragraphs
from components.store.chunk import Chunker, Sentences
from components.store.recursive import Recursive
from components.store.semantic import Semantic
from components.store.snippet import SnippetWindow

ENCODER = Encoder(model=Path("all-MiniLM-L6-v2"))


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Cache(tmp_path_factory.mktemp("cache")))


def passages(step: Any, *documents: list[str], ctx: Any = None, claim: str = "") -> list[Passage]:
    made = [Document(id=f"d{i}", sentences=sentences) for i, sentences in enumerate(documents)]
    [done] = step.run([Case(claim=Claim(id="1", text=claim), documents=made)], ctx)
    return list(done.passages)


def texts(step: Any, *documents: list[str], **more: Any) -> list[tuple[str, str]]:
    return [(passage.id, passage.text) for passage in passages(step, *documents, **more)]


def test_characters() -> None:
    step = Characters(size=9)
    assert texts(step, ["one two.", "a.", "b.", "c.", "more than nine", "d."]) == [
        ("d0#0", "one two."),
        ("d0#1", "a. b. c."),
        ("d0#4", "more than nine"),  # alone and whole
        ("d0#5", "d."),
    ]
    assert texts(Characters(size=8), ["one two.", "a."])[0] == ("d0#0", "one two.")


def test_neighbours_are_those_of_the_document() -> None:
    found = passages(Characters(size=3), ["one", "two", "one", "six"], ["ten"])
    # A repetition is left out, but it still stands beside the others.
    assert [(p.id, p.before, p.after) for p in found] == [
        ("d0#0", None, "two"),
        ("d0#1", "one", "one"),
        ("d0#3", "one", None),
        ("d1#0", None, None),
    ]
    assert all(p.before is None for p in passages(Characters(size=3, neighbours=False), ["a", "b"]))


def test_paragraphs_have_slack() -> None:
    """Of 2 tokens, 8 characters; up to 10 with slack 1.25."""
    assert texts(Paragraphs(tokens=2), ["1234567", "9", "12345678", "1", "123456789", "5"]) == [
        ("d0#0", "1234567 9"),  # 9 characters: enough
        ("d0#2", "12345678"),
        ("d0#3", "1"),  # with the next, it would have 11
        ("d0#4", "123456789"),
        ("d0#5", "5"),
    ]


def test_recursive_cuts_at_the_coarsest_separator() -> None:
    step = Recursive(size=8)
    assert texts(step, ["a b", "c d", "one two three", "abcdefghijk"]) == [
        ("d0#0", "a b\nc d"),
        ("d0#2", "one two"),
        ("d0#2.1", "three"),
        ("d0#3", "abcdefgh"),
        ("d0#3.1", "ijk"),
    ]
    assert texts(Recursive(size=5), ["a\n\nb", "c"]) == [("d0#0", "a"), ("d0#0.1", "b\nc")]


def test_semantic_ends_where_the_subject_changes(ctx: Context) -> None:
    banks = ["The bank raised its interest rate.", "The interest rate of the bank rose again."]
    bridges = ["A bridge over the river was closed.", "The closed bridge crosses the river."]
    step = Semantic(encoder=ENCODER, threshold=0.3, min_tokens=1, max_tokens=200, min_sentences=1)
    joined = [("d0#0", " ".join(banks)), ("d0#2", " ".join(bridges))]
    assert texts(step, [*banks, *bridges], ctx=ctx) == joined
    step.threshold = None  # the lower quartile of three cosines: only the lowest is below
    assert texts(step, [*banks, *bridges], ctx=ctx) == joined
    step.min_tokens = 60
    assert len(texts(step, [*banks, *bridges], ctx=ctx)) == 1
    step.min_tokens, step.max_tokens, step.threshold = 1, 10, -1
    assert len(texts(step, [*banks, *bridges], ctx=ctx)) == 4


def test_a_snippet_window() -> None:
    page = ["zero", "red", "x", "green blue", "y", "red green blue", "z", "end"]
    # More than .7 of three words is all three: one sentence has them.
    assert texts(SnippetWindow(size=3), page, claim="Red, green, BLUE") == [
        ("d0#4", "y red green blue z")
    ]
    # A run of three: its middle is sentence 2.
    assert texts(SnippetWindow(size=3), page[:5], claim="red green blue") == [
        ("d0#1", "red x green blue")
    ]
    # None has enough: around the sentence that has most.
    assert texts(SnippetWindow(size=1), page[:5], claim="red green blue pink brown") == [
        ("d0#3", "green blue")
    ]
    # At the ends the window keeps its size, where the page has as much.
    assert texts(SnippetWindow(size=5), page, claim="end") == [("d0#3", " ".join(page[3:]))]
    document = Document(id="d", sentences=page, query="zero")
    [done] = SnippetWindow(size=1).run(
        [Case(claim=Claim(id="1", text="end"), documents=[document])], Context.__new__(Context)
    )
    assert [p.text for p in done.passages] == ["zero"]  # the query that found the page


CUTTERS: list[Chunker] = [
    Sentences(dedupe=False),
    Sentences(size=4, dedupe=False),
    Characters(size=12, dedupe=False),
    Paragraphs(tokens=3, dedupe=False),
    Recursive(size=7, dedupe=False),
    Semantic(encoder=ENCODER, min_tokens=2, max_tokens=6, dedupe=False),
]
sentences = st.lists(st.text("abc .\n", max_size=24), max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(CUTTERS), st.lists(sentences, max_size=3))
def test_no_text_is_lost(ctx: Context, step: Chunker, documents: list[list[str]]) -> None:
    found = passages(step, *documents, ctx=ctx)
    for i, document in enumerate(documents):
        mine = [p for p in found if p.doc == f"d{i}"]
        assert "".join("".join(p.text for p in mine).split()) == "".join("".join(document).split())
        for passage in mine:
            first = passage.id.partition("#")[2].partition(".")[0]
            rest = "".join("".join(document[int(first) :]).split())
            assert "".join(passage.text.split()) in rest
    assert len({p.id for p in found}) == len(found)


@settings(max_examples=60, deadline=None)
@given(sentences, st.integers(1, 30))
def test_no_piece_is_longer_than_asked(document: list[str], size: int) -> None:
    assert all(len(p.text) <= size for p in passages(Recursive(size=size), document))
    longest = max(map(len, document), default=0)
    assert all(len(p.text) <= max(size, longest) for p in passages(Characters(size=size), document))


@settings(max_examples=40, deadline=None)
@given(st.lists(sentences, max_size=3))
def test_dedupe_keeps_the_first_of_equals(documents: list[list[str]]) -> None:
    plain = [p.text.lower() for p in passages(Sentences(dedupe=False), *documents)]
    assert [p.text.lower() for p in passages(Sentences(), *documents)] == list(dict.fromkeys(plain))


def test_dedupe_merges_the_urls_of_equals() -> None:
    pages = {"a": ["One.", "Two."], "b": ["two."], "c": [" TWO. ", "Three."], "d": ["Two."]}
    documents = [Document(id=n, url=f"http://{n}", sentences=text) for n, text in pages.items()]
    documents += [Document(id="e", sentences=["Two."]), documents[1], documents[0]]
    for dedupe, also in (
        (True, [(), ("http://b", "http://c", "http://d"), ()]),
        (False, [()] * 10),
    ):
        [done] = Sentences(dedupe=dedupe).run(
            [Case(claim=Claim(id="1", text=""), documents=documents)], Context.__new__(Context)
        )
        assert [passage.also for passage in done.passages] == also


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Characters(size=0), r"chunker\.size is 0"),
        (lambda: Paragraphs(tokens=0), r"chunker\.tokens is 0"),
        (lambda: Paragraphs(slack=0.5), "slack=0.5 of Paragraphs is wrong: give 1"),
        (lambda: Recursive(size=0), r"chunker\.size is 0"),
        (lambda: Semantic(encoder=ENCODER, min_tokens=9, max_tokens=8), "no less than"),
        (lambda: SnippetWindow(size=0), r"chunker\.size is 0"),
        (lambda: SnippetWindow(cover=1), r"chunker\.cover is 1"),
    ],
)
def test_bad_parameters(make: Any, message: str) -> None:
    with pytest.raises(ClaimflowError, match=message):
        make()
