"""The published files, where they lie: CLAIMFLOW_DATA says where."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest

from components.datasets.averitec import Averitec, claim_to
from components.datasets.base import normalised
from components.datasets.fever import Fever
from components.datasets.scifact import SciFact
from components.datasets.submission import read_submission, write_csv, write_json
from components.files import ROOT
from components.lint.check import lint

DATA = Path(os.environ.get("CLAIMFLOW_DATA", ROOT / "../shared/data"))
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs the published data")


@pytest.fixture(scope="module")
def averitec() -> Averitec:
    return Averitec(path=DATA / "averitec")


def test_averitec_dev(averitec: Averitec) -> None:
    dev = averitec.claims()
    assert [c.id for c in dev] == [str(n) for n in range(500)]
    assert collections.Counter(c.label for c in dev) == {
        "Supported": 122,
        "Refuted": 305,
        "Not Enough Evidence": 35,
        "Conflicting Evidence/Cherrypicking": 38,
    }
    texts = [c.text for c in dev]
    assert len(texts) - len(set(texts)) == 9  # claims that repeat
    assert all(c.date for c in dev)
    assert str(dev[0].date) == "2020-10-31"
    assert sum(len(c.questions) > 10 for c in dev) == 1
    assert (
        sum(
            "\t" in q.question + "".join(a.answer for a in q.answers)
            for c in dev
            for q in c.questions
        )
        == 4
    )


def test_averitec_train(averitec: Averitec) -> None:
    train = averitec.read_claims("train")
    assert len(train) == 3068
    assert sum(c.date is None for c in train) == 105


def test_pitfall_19_five_dev_claims_stand_in_train(averitec: Averitec) -> None:
    dev = averitec.claims()
    train = averitec.read_claims("train")
    assert sum(c.text in {t.text for t in train} for c in dev) == 5
    kept, dropped = averitec.train(dev)
    assert len(kept) + len(dropped) == 3068
    assert len(dropped) == 6
    assert not {normalised(c.text) for c in kept} & {normalised(c.text) for c in dev}


@pytest.mark.parametrize("split", ["dev", "train"])
def test_averitec_claims_are_written_as_published(averitec: Averitec, split: str) -> None:
    published = json.loads((DATA / "averitec" / f"{split}.json").read_text())
    assert [claim_to(c) for c in averitec.read_claims(split)] == published


def test_averitec_stores(averitec: Averitec) -> None:
    documents = sentences = 0
    for claim in averitec.claims():
        found = averitec.read_documents(claim)
        assert len({d.id for d in found}) == len(found)
        documents += len(found)
        sentences += sum(len(d.sentences) for d in found)
    assert documents == 31231
    assert 70 < sentences / 500 < 90
    assert averitec.bad == []


@pytest.mark.parametrize("name", ["hero_8b", "baseline_2024"])
def test_submissions_of_2024(name: str, tmp_path: Path) -> None:
    predictions = read_submission(DATA / "averitec" / "predictions_dev" / f"{name}.json")
    assert len(predictions) == 500
    write_csv(tmp_path / "pred.csv", predictions)
    write_json(tmp_path / "pred.json", predictions)
    for file in ("pred.csv", "pred.json"):
        assert lint(tmp_path / file).errors == []
        again = read_submission(tmp_path / file)
        assert [(p.id, p.label, len(p.evidence)) for p in again] == [
            (p.id, p.label, len(p.evidence)) for p in predictions
        ]


def test_scifact() -> None:
    scifact = SciFact(path=DATA / "scifact")
    dev = scifact.claims()
    assert (len(dev), len(scifact.read_claims("train"))) == (300, 809)
    documents = {d.id: d for d in scifact.read_documents(dev[0])}
    assert len(documents) == 5183
    assert all(doc in documents for c in dev for doc in c.relevant)
    for claim in dev:
        for gold in claim.gold:
            assert all(n < len(documents[doc].sentences) for doc, n in gold.items if n is not None)


def test_fever() -> None:
    claims = Fever(path=DATA / "fever").claims()
    assert len(claims) == 9999
    assert set(collections.Counter(c.label for c in claims).values()) == {3333}
    assert all(bool(c.gold) == (c.label != "NOT ENOUGH INFO") for c in claims)
