"""The data that comes with the project (laid out by `dvc pull`)."""

from __future__ import annotations

import collections
import datetime

import pytest
import yaml

from components.cache import Cache
from components.datasets.averitec import Demo
from components.files import ROOT, home
from components.records import AVERITEC_LABELS, Case, Claim, Document
from components.step import Context
from components.store.guard import ARTICLE, LATER, SITE, Guard

pytestmark = pytest.mark.skipif(
    not (ROOT / "data" / "demo").is_dir() or not (home() / "nltk_data").is_dir(),
    reason="needs data/demo and NLTK's data",
)

Split = list[tuple[Claim, list[Document]]]


@pytest.fixture(scope="module")
def demo() -> dict[str, Split]:
    splits = {}
    for split in ("train", "dev"):
        dataset = Demo(split=split)
        splits[split] = [(c, dataset.read_documents(c)) for c in dataset.claims()]
        assert dataset.bad == []
    return splits


def test_size_and_kinds(demo: dict[str, Split]) -> None:
    assert {split: len(cases) for split, cases in demo.items()} == {"train": 36, "dev": 24}
    for cases in demo.values():
        claims = [c for c, _ in cases]
        assert {c.label for c in claims} == set(AVERITEC_LABELS)
        assert len({t for c in claims for t in c.types}) == 5
        answers = [a for c in claims for q in c.questions for a in q.answers]
        assert {a.answer_type for a in answers} == {
            "Extractive",
            "Abstractive",
            "Boolean",
            "Unanswerable",
        }
        for claim, documents in cases:
            assert len(documents) >= 8
            assert set(claim.relevant) <= {d.id for d in documents}
            assert all("example" in (d.url or "").split("/")[2] for d in documents)
        kept, dropped = Demo().train(claims)
        assert len(kept) + len(dropped) == 36


def test_special_pages(demo: dict[str, Split]) -> None:
    for cases in demo.values():
        documents = [d for _, found in cases for d in found]
        assert any(not d.sentences for d in documents)
        assert any(d.date is None for d in documents)
        assert len({d.lang for d in documents}) >= 4
        assert any(
            len(_words(a) & _words(b)) > 0.7 * len(_words(a) | _words(b)) > 0
            for _, found in cases
            for n, a in enumerate(found)
            for b in found[:n]
        )


def _words(document: Document) -> set[str]:
    return set(" ".join(document.sentences).split())


def test_pages_are_read_from_html_and_pdf(demo: dict[str, Split]) -> None:
    folder = ROOT / "data" / "demo" / "pages"
    kinds = collections.Counter(p.read_bytes()[:5] for p in folder.rglob("*") if p.is_file())
    assert kinds == {b"<!DOC": 9, b"%PDF-": 6}
    assert any(p.read_bytes()[:5] == b"%PDF-" and not p.suffix for p in folder.rglob("*/*/*"))
    by_url = {d.url: d for _, found in demo["dev"] for d in found}
    table = by_url["https://customs.ostrelle.example/tables/grain-exports-2017-2021"]
    assert table.date == datetime.date(2022, 2, 21)
    assert "2021 | 2,141,000 | 419,000" in table.sentences


def test_strict_guard_costs_no_gold_page_of_dev(demo: dict[str, Split], tmp_path: object) -> None:
    config = yaml.safe_load((ROOT / "conf" / "guard" / "strict.yaml").read_text())
    config.pop("_target_")
    ctx = Context(Cache(str(tmp_path)))
    dropped: collections.Counter[str] = collections.Counter()
    for split, cases in demo.items():
        for claim, documents in cases:
            (case,) = Guard(**config).run([Case(claim=claim, documents=documents)], ctx)
            dropped.update(case.dropped)
            if split == "dev":
                assert set(claim.relevant) <= {d.id for d in case.documents}
    assert dropped == {ARTICLE: 32, LATER: 28, SITE: 1}
