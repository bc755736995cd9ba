"""SciFact and FEVER in their official layouts, on tiny data of our own."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cache import Cache
from components.datasets import fever, scifact
from components.datasets.base import case_refs
from components.datasets.fever import Fever, page_sentences, page_title
from components.datasets.scifact import SciFact
from components.datasets.submission import read_submission
from components.errors import ClaimflowError
from components.pipeline import load
from components.reason.answers import PassageAnswers
from components.reason.findings import FeverFindings
from components.records import Case, Claim, Evidence, Finding, GoldSet, Prediction, Verdict
from components.score.fever import fever as scored
from components.step import Context
from components.store.chunk import Sentences, WholeDocument
from tests.conftest import compose


def lines(path: Path, *records: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")


def findings_of(id: str, *findings: Finding, label: str = "") -> Prediction:
    return Prediction(id=id, claim="", evidence=[], label=label, findings=[*findings])


# SciFact


@pytest.fixture
def sci(tmp_path: Path) -> SciFact:
    lines(
        tmp_path / "corpus.jsonl",
        {"doc_id": 7, "title": "On moss.", "abstract": ["Moss grows.", "It is green. \n"]},
        {"doc_id": 12, "title": "On ferns.", "abstract": ["Ferns wilt."], "structured": False},
    )
    lines(
        tmp_path / "claims_dev.jsonl",
        {
            "id": 3,
            "claim": "Moss grows.",
            "evidence": {
                "7": [
                    {"sentences": [0], "label": "SUPPORT"},
                    {"sentences": [0, 1], "label": "SUPPORT"},
                ],
                "12": [{"sentences": [0], "label": "CONTRADICT"}],
            },
            "cited_doc_ids": [7, 12, 7],
        },
        {"id": 5, "claim": "Ferns sing.", "evidence": {}, "cited_doc_ids": [12]},
    )
    lines(tmp_path / "claims_test.jsonl", {"id": 9, "claim": "Hidden."})
    return SciFact(path=tmp_path)


def test_scifact_claims(sci: SciFact, tmp_path: Path) -> None:
    first, second = sci.claims()
    assert (first.id, first.text, first.relevant) == ("3", "Moss grows.", ["7", "12"])
    assert first.gold == [
        GoldSet(label="SUPPORT", items=[("7", 0)]),
        GoldSet(label="SUPPORT", items=[("7", 0), ("7", 1)]),
        GoldSet(label="CONTRADICT", items=[("12", 0)]),
    ]
    assert second.gold == []
    (hidden,) = SciFact(path=tmp_path, split="test").claims()
    assert (hidden.id, hidden.gold, hidden.relevant) == ("9", [], [])


def test_scifact_corpus_is_shared_and_whole(sci: SciFact, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    refs = case_refs(sci, sci.claims(), cache)
    assert refs[0].fields["documents"] == refs[1].fields["documents"]
    case = load(refs[0], ["documents"], cache)
    assert case.documents[0].sentences == ("Moss grows.", "It is green. \n")  # as given

    def texts(with_title: bool) -> list[str]:
        copy = Case(claim=case.claim, documents=case.documents)
        WholeDocument(with_title=with_title).run([copy], Context(cache))
        return [p.text for p in copy.passages]

    assert texts(True) == ["On moss. Moss grows. It is green.", "On ferns. Ferns wilt."]
    assert texts(False) == ["Moss grows. It is green.", "Ferns wilt."]


def test_scifact_errors(sci: SciFact, tmp_path: Path) -> None:
    lines(
        tmp_path / "claims_train.jsonl",
        {"id": 1, "claim": "A.", "evidence": {"7": [{"sentences": [0], "label": "SUPPORTS"}]}},
    )
    with pytest.raises(ClaimflowError, match=r"line 1: unknown label 'SUPPORTS'. Did you mean 'SU"):
        sci.read_claims("train")
    (tmp_path / "corpus.jsonl").unlink()
    with pytest.raises(ClaimflowError, match=r"No corpus.jsonl .*github.com/allenai/scifact"):
        sci.read_documents(sci.claims()[0])


FINDINGS = st.dictionaries(
    st.integers(0, 999).map(str),
    st.lists(
        st.builds(
            Finding,
            doc=st.integers(0, 99).map(str),
            label=st.sampled_from(scifact.LABELS),
            sentences=st.lists(st.integers(0, 30), max_size=4),
        ),
        max_size=3,
        unique_by=lambda f: f.doc,
    ),
)


@given(FINDINGS)
def test_scifact_predictions_round_trip(
    tmp_path_factory: pytest.TempPathFactory, findings: dict[str, list[Finding]]
) -> None:
    path = tmp_path_factory.mktemp("sci") / "pred.jsonl"
    scifact.write_predictions(path, [findings_of(c, *found) for c, found in findings.items()])
    again = read_submission(path) if findings else []
    assert [p.id for p in again] == list(findings)
    by_doc = {c: {f.doc: f for f in found} for c, found in findings.items()}
    assert {p.id: {f.doc: f for f in p.findings} for p in again} == by_doc


def test_scifact_predictions_have_the_official_form(tmp_path: Path) -> None:
    path = tmp_path / "pred.jsonl"
    found = [Finding(doc="7", label="SUPPORT", sentences=[1])]
    scifact.write_predictions(path, [findings_of("3", *found), findings_of("5")])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"id": 3, "evidence": {"7": {"label": "SUPPORT", "sentences": [1]}}},
        {"id": 5, "evidence": {}},
    ]
    with pytest.raises(ClaimflowError, match="unknown label 'NEI'"):
        scifact.write_predictions(path, [findings_of("3", Finding(doc="7", label="NEI"))])


# FEVER

NFC, NFD = (unicodedata.normalize(form, "Ørståd_-LRB-é-RRB-") for form in ("NFC", "NFD"))


@pytest.fixture
def wiki(tmp_path: Path) -> Fever:
    lines(
        tmp_path / "wiki-pages" / "wiki-001.jsonl",
        {"id": "", "text": "", "lines": ""},
        {
            "id": NFD,
            "text": "…",
            "lines": "0\tØrståd is a town .\tVund\tVund_River\n1\t\n2\tIt has a mole .\n",
        },
    )
    lines(tmp_path / "wiki-pages" / "wiki-002.jsonl", {"id": "Vund", "lines": "0\tVund is wet ."})
    lines(
        tmp_path / "paper_dev.jsonl",
        {
            "id": 8,
            "verifiable": "VERIFIABLE",
            "label": "SUPPORTS",
            "claim": "Ørståd has a mole.",
            "evidence": [
                [[1, 2, NFC, 2]],
                [[3, 4, NFD, 2]],  # another annotator, the same sentence
                [[5, 6, NFC, 0], [5, 6, "Vund", 0]],
            ],
        },
        {
            "id": 4,
            "label": "NOT ENOUGH INFO",
            "claim": "It is old.",
            "evidence": [[[9, None, None, None]]],
        },
    )
    return Fever(path=tmp_path)


def test_fever_claims_and_pages_meet(wiki: Fever) -> None:
    first, second = wiki.claims()
    assert (first.id, first.label, first.relevant) == ("8", "SUPPORTS", [NFC, "Vund"])
    assert [g.items for g in first.gold] == [[(NFC, 2)], [(NFC, 0), ("Vund", 0)]]
    assert (second.label, second.gold, second.relevant) == ("NOT ENOUGH INFO", [], [])
    town, river = wiki.read_documents(first)
    assert (town.id, town.title) == (NFC, unicodedata.normalize("NFC", "Ørståd (é)"))
    assert town.sentences == ("Ørståd is a town .", "", "It has a mole .")
    assert river.sentences == ("Vund is wet .",)
    assert page_title("Soul_Food_-LRB-film-RRB-") == "Soul Food (film)"


def test_fever_without_pages_says_what_is_missing(wiki: Fever, tmp_path: Path) -> None:
    claim = wiki.claims()[0]
    for path in (tmp_path / "wiki-pages").iterdir():
        path.unlink()
    with pytest.raises(ClaimflowError, match=r"No wiki-pages/wiki-001.jsonl .*wiki-pages.zip"):
        wiki.sources(claim)


def test_fever_rows() -> None:
    assert page_sentences("0\tOne\nbroken in two .\tLink\n1\tTwo .") == [
        "One broken in two .\tLink",
        "Two .",
    ]
    assert page_sentences("") == page_sentences("0") == []
    for rows in ("1\tLate", "0\tA\n99999999999\tB", "no number"):
        with pytest.raises(ClaimflowError, match="sentence"):
            page_sentences(rows)


def test_fever_bad_page_costs_itself(wiki: Fever, tmp_path: Path) -> None:
    claim = wiki.claims()[0]
    lines(tmp_path / "wiki-pages" / "wiki-002.jsonl", {"id": "Vund", "lines": "7\tVund is wet ."})
    with pytest.raises(ClaimflowError, match=r"wiki-002.jsonl, line 1: sentence 7 of a page"):
        wiki.read_documents(claim)
    wiki.on_error = "skip"
    assert [d.id for d in wiki.read_documents(claim)] == [NFC]


def test_fever_predictions_follow_the_claims(wiki: Fever, tmp_path: Path) -> None:
    path = tmp_path / "pred.jsonl"
    claims = wiki.claims()
    second = findings_of("4", label="NOT ENOUGH INFO")
    first = findings_of("8", Finding(doc=NFC, sentences=[2]), label="SUPPORTS")
    fever.write_predictions(path, [second, first], claims)
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == [
        {"id": 8, "predicted_label": "SUPPORTS", "predicted_evidence": [[NFC, 2]]},
        {"id": 4, "predicted_label": "NOT ENOUGH INFO", "predicted_evidence": []},
    ]
    assert read_submission(path) == [first, second]
    with pytest.raises(ClaimflowError, match="No prediction for 1 of 2 claims, the first 4"):
        fever.write_predictions(path, [first], claims)
    wrong = findings_of("4", label="REFUTED")
    with pytest.raises(ClaimflowError, match=r"unknown label 'REFUTED'\. Did you mean 'REFUTES'"):
        fever.write_predictions(path, [first, wrong], claims)


def test_fever_trains_verdicts_in_their_terms(wiki: Fever, tmp_path: Path) -> None:
    """Its gold sentences answer a question; without any, those of the page that the claim names."""
    lines(
        tmp_path / "train.jsonl",
        {"id": 1, "label": "REFUTES", "claim": "Vund is dry.", "evidence": [[[1, 2, "Vund", 0]]]},
        {"id": 2, "label": "NOT ENOUGH INFO", "claim": "The vund is blue.", "evidence": []},
        {"id": 3, "label": "SUPPORTS", "claim": "Away.", "evidence": [[[1, 2, "No_Page", 0]]]},
        {"id": 4, "label": "SUPPORTS", "claim": "Ørståd has a mole.", "evidence": []},
        {"id": 5, "label": "SUPPORTS", "claim": "Vund is blue.", "evidence": []},
    )
    learned, dropped = wiki.train(wiki.claims())
    assert [claim.id for claim in dropped] == ["4"]
    by_id = {claim.id: claim for claim in learned}
    assert [by_id[i].label for i in "123"] == ["Refuted", "Not Enough Evidence", "Supported"]
    for i in "12":
        [question] = by_id[i].questions
        assert question.question == PassageAnswers.question.replace("{claim}", by_id[i].text)
        assert [(a.answer, a.source_url) for a in question.answers] == [("Vund is wet .", "Vund")]
    assert by_id["3"].questions == by_id["5"].questions == []  # no page; no sentence for its label
    assert by_id["1"].gold == [GoldSet(label="REFUTES", items=[("Vund", 0)])]


def judged(wiki: Fever, claim: Claim, label: str, *passages: str) -> Case:
    """A case that is judged by these passages."""
    case = Case(
        claim=claim,
        documents=wiki.read_documents(claim),
        evidence=[Evidence(question="", answer="", passages=[name]) for name in passages],
        verdict=Verdict(label=label),
    )
    [case] = Sentences(dedupe=False).run([case], Context(Cache(wiki.folder / "cache")))
    return case


def test_a_fever_score_by_hand(wiki: Fever, tmp_path: Path) -> None:
    """A whole set of two sentences, a wrong label, a right one without its sentence."""
    first, second = wiki.claims()
    third = Claim(
        id="5", text="Vund is dry.", label="REFUTES",
        gold=[GoldSet(label="REFUTES", items=[("Vund", 0)])],
    )  # fmt: skip
    cases = [
        judged(wiki, first, "Supported", "Vund#0", f"{NFC}#0", "Vund#0"),
        judged(wiki, second, "Refuted"),
        judged(wiki, third, "Refuted", f"{NFC}#2"),
    ]
    ctx = Context(Cache(tmp_path / "cache"))
    said = [
        Prediction(id=case.claim.id, claim="", evidence=[], label=case.verdict.label,
                   findings=case.findings)
        for case in FeverFindings().run(cases, ctx) if case.verdict
    ]  # fmt: skip
    assert [fever.sentences_of(p) for p in said] == [[("Vund", 0), (NFC, 0)], [], [(NFC, 2)]]
    measures = scored(said, [first, second, third], draws=10).measures
    assert {name: round(m.value, 6) for name, m in measures.items()} == {
        "fever": 0.333333, "accuracy": 0.666667,
        "evidence_precision": 0.5, "evidence_recall": 0.5, "evidence_f1": 0.5,
    }  # fmt: skip


def test_fever_findings(wiki: Fever, tmp_path: Path) -> None:
    claim = wiki.claims()[0]
    ctx = Context(Cache(tmp_path / "cache"))

    def found(case: Case, limit: int = 5) -> list[tuple[str, list[int]]]:
        [case] = FeverFindings(limit=limit).run([case], ctx)
        return [(finding.doc, finding.sentences) for finding in case.findings]

    case = judged(wiki, claim, "Not Enough Evidence", f"{NFC}#2", f"{NFC}#0", "Vund#0")
    assert found(case, 2) == [(NFC, [2]), (NFC, [0])]  # whatever the label
    case = judged(wiki, claim, "Refuted", f"{NFC}#0")
    [case] = Sentences(size=4).run([case], ctx)
    assert found(case) == [(NFC, [0]), (NFC, [2])]  # the sentence between them is empty
    [case] = WholeDocument().run([case], ctx)
    with pytest.raises(ClaimflowError, match=r"#0 is no run of whole sentences.*each_sentence"):
        found(case)
    with pytest.raises(ClaimflowError, match="no step gives one"):
        found(Case(claim=claim))


def test_fever_has_no_conflict(wiki: Fever, tmp_path: Path) -> None:
    conflict = "Conflicting Evidence/Cherrypicking"
    known = {conflict: 0.5, "Supported": 0.125, "Refuted": 0.375}
    cases = [judged(wiki, claim, conflict) for claim in wiki.claims()]
    cases[0].verdict = Verdict(label=conflict, probabilities=known)
    first, second = FeverFindings().run(cases, Context(Cache(tmp_path / "cache")))
    assert first.verdict == Verdict(
        label="REFUTES", probabilities={"SUPPORTS": 0.25, "REFUTES": 0.75}
    )
    assert second.verdict == Verdict(label="NOT ENOUGH INFO")
    assert first.remarks == [f"{conflict}, which FEVER does not have, became REFUTES"]


def test_official_files_of_a_run_with_a_failed_claim(wiki: Fever, tmp_path: Path) -> None:
    """FEVER's scorer pairs by order, so a file that lacks a claim would be scored wrong."""
    from flows.log import Log
    from flows.publish import write_submissions

    claims = wiki.claims()
    found = Finding(doc="7", label="SUPPORT", sentences=[0])
    with Log(compose(), keep=False) as log:
        first = findings_of("8", Finding(doc=NFC, sentences=[2]), label="SUPPORTS")
        write_submissions(tmp_path, [first], claims, log)
        write_submissions(tmp_path, [findings_of("4", found)], claims, log)
    assert not (tmp_path / "submission_fever.jsonl").exists()
    [note] = log.record.notes
    assert note.startswith("no submission_fever.jsonl: No prediction for 1 of 2 claims")
    again = read_submission(tmp_path / "submission_scifact.jsonl")
    assert again == [findings_of("8"), findings_of("4", found)]  # a line for each claim
