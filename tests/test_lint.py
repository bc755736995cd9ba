"""The linter: every rule, every form, and that the official evaluators take what passes."""

import collections
import datetime
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from components.datasets.fever import LABELS as FEVER_LABELS
from components.datasets.gold import read_gold
from components.datasets.scifact import LABELS as SCIFACT_LABELS
from components.datasets.scifact import LISTED
from components.datasets.submission import INNER, OUTER, read_submission
from components.errors import ClaimflowError
from components.lint.check import lint
from components.lint.report import Finding, Report, sarif
from components.lint.rules import RULES, about
from components.records import AVERITEC_LABELS, Claim, GoldSet
from components.score.fever import fever
from components.score.fit import warnings
from components.score.scifact import scifact
from flows.lint import show
from tests.conftest import command

CLAIMS = [
    Claim(
        id=str(n),
        text=f"Claim {n}.",
        date=datetime.date(2020, 11, 2),
        fact_check_url=f"https://check.example/{n}",
    )
    for n in range(3)
]


def record(id: Any = 0, label: Any = "Refuted", qas: Any = (("Who?", "Her."),), **more: Any) -> Any:
    evidence = [{"question": q, "answer": a, "url": "https://a.example"} for q, a in qas]
    return {"claim_id": id, "claim": "A.", "evidence": evidence, "pred_label": label} | more


def checked(tmp_path: Path, content: Any, name: str = "pred.json", **options: Any) -> Report:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8", newline="")
    return lint(path, **options)


def rules(report: Report) -> set[tuple[str, str]]:
    return {(f.level, f.rule) for f in report.findings}


def csv_of(cell: str, id: int = 0, label: str = "Refuted") -> str:
    return f'id,claim,evi,label,split\n{id},c,"{cell}",{label},pred\n'


# The evaluators' rules, as they read


def accepted_2024(path: Path) -> bool:
    """json.load in UTF-8; each record joins question and answer; pairing is by order."""
    records = json.loads(path.read_bytes().decode("utf-8"))
    for n, r in enumerate(records):
        assert r["claim_id"] == n
        assert r["pred_label"] in AVERITEC_LABELS
        assert all(isinstance(e["question"] + " " + e["answer"], str) for e in r["evidence"])
    return True


def accepted_first(path: Path) -> bool:
    """Labels; answers as a list, a Boolean one with its explanation."""
    for r in json.loads(path.read_bytes().decode("utf-8")):
        assert r["label"] in AVERITEC_LABELS
        for question in r.get("questions", []):
            for answer in question["answers"]:
                text = question["question"] + " " + answer["answer"]
                if answer.get("answer_type") == "Boolean":
                    text += ". " + answer["boolean_explanation"]
        assert all(isinstance(text, str) for text in r.get("string_evidence", []))
    return True


def accepted_texts(path: Path) -> bool:
    """The first EvalAI page: label and evidence, by order."""
    for r in json.loads(path.read_bytes().decode("utf-8")):
        assert r["label"] in AVERITEC_LABELS
        assert all(isinstance(text, str) for text in r["evidence"])
    return True


def accepted_fever(path: Path) -> bool:
    """As many lines as claims; a label; evidence as pairs of page and line."""
    lines = [json.loads(x) for x in path.read_bytes().decode("utf-8").splitlines()]
    assert len(lines) == len(CLAIMS)
    for r in lines:
        assert r["predicted_label"].upper() in FEVER_LABELS
        for item in r["predicted_evidence"]:
            page, line = item
            assert isinstance(page, str)
            assert type(line) is int
    return True


def accepted_scifact(path: Path) -> bool:
    """The claims in their order by number; known labels, numbers of documents and sentences."""
    lines = [json.loads(x) for x in path.read_bytes().decode("utf-8").splitlines()]
    assert [r["id"] for r in lines] == [int(claim.id) for claim in CLAIMS]
    for r in lines:
        for doc, found in r["evidence"].items():
            int(doc)
            assert found["label"] in SCIFACT_LABELS
            assert all(type(n) is int for n in found["sentences"])
    return True


def accepted_2025(path: Path) -> bool:
    """pandas.read_csv; rows numbered as ids; cells part into pairs."""
    table = pandas.read_csv(path)
    assert list(table.columns) == ["id", "claim", "evi", "label", "split"]
    assert list(table["id"]) == list(range(len(table)))
    assert set(table["split"]) == {"pred"}
    for cell, label in zip(table["evi"], table["label"], strict=True):
        assert label in AVERITEC_LABELS
        for part in cell.split("\t\t\n\n"):
            if part:
                question, answer = part.split("\t\t\n")
                assert isinstance(question + answer, str)
    return True


# What is found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([record()], set()),
        ([record(), record(2)], {("error", "id")}),
        ([record(), record()], {("error", "id")}),
        ([record(0), record(1), record(0)], {("error", "id")}),
        ([record(1), record(0)], {("error", "id")}),
        ([record("0")], {("warning", "id")}),
        ([record("x")], {("error", "id")}),
        ([record(10**9)], {("error", "id")}),
        ([record(label="refuted")], {("error", "label")}),
        ([record(label="Maybe")], {("error", "label")}),
        ([record(label=None)], {("error", "label")}),
        ([record(label=float("nan"))], {("error", "nan")}),
        ([record(qas=())], {("warning", "no-evidence")}),
        ([record(qas=[("Who?", "")])], {("warning", "empty-qa")}),
        ([record(qas=[("", ""), ("Who?", "Her.")])], {("warning", "empty-qa")}),
        ([record(qas=[("Who?", "x" * 3001)])], {("warning", "long-evidence")}),
        ([record(qas=[("Who?", "a\t\t\nb")])], {("warning", "delimiter")}),
        ([record(qas=[("Who?", float("nan"))])], {("error", "nan"), ("warning", "empty-qa")}),
        ([record(qas=[("Who?", None)])], {("error", "schema"), ("warning", "empty-qa")}),
        ([record(qas=[(f"{n}?", "So.") for n in range(12)])], {("warning", "many-qas")}),
        ([record(qas=[("Who?", "Her."), ("who? ", "her.")])], {("warning", "repeated-qa")}),
        ([record(qas=[("Who?", "A."), ("Who?", "B.")])], {("warning", "repeated-question")}),
        ([record(qas=[("Did she?", "Yes.")])], {("warning", "boolean")}),
        ([record(qas=[("Who?", "\ud800")])], {("warning", "encoding")}),
        ([record(evidence=None)], {("error", "schema"), ("warning", "no-evidence")}),
        ([record(evidence=["x"])], {("error", "schema"), ("warning", "empty-qa")}),
        ([record(evidence=[3])], {("error", "schema"), ("warning", "empty-qa")}),
        ([record(evidence=[{}])], {("error", "schema"), ("warning", "no-evidence")}),
        ([record(evidence=[["Who?", "Her."]])], {("error", "schema")}),
        ([record(questions=[], claim_types=[])], {("warning", "gold")}),
        ([record(evidence=[{"question": "A?", "answer": "A.", "url": 3}])], {("error", "schema")}),
        ([{"claim_id": 0}], {("error", "schema")}),
        ([3], {("error", "schema")}),
        ('[{"claim_id": 0, "pred_label"', {("error", "json")}),
        (json.dumps([record()]) * 2, {("error", "json"), ("error", "id")}),
        (json.dumps([record()])[:-1] + ",]", {("error", "json")}),
        (b"\xef\xbb\xbf" + json.dumps([record()]).encode(), {("error", "encoding")}),
        (json.dumps([record(claim="\xe9")], ensure_ascii=False).encode("latin-1"),
         {("error", "encoding")}),
        (json.dumps([record(claim="\u00e9\u0159")], ensure_ascii=False).encode()[:-20],
         {("error", "json")}),
    ],
)  # fmt: skip
def test_json_of_2024(tmp_path: Path, content: Any, found: set[tuple[str, str]]) -> None:
    report = checked(tmp_path, content)
    assert rules(report) == found
    assert bool(report.errors) == any(level == "error" for level, _ in found)
    assert {f.rule for f in report.findings} <= RULES.keys()


def test_the_nearest_label_is_named_and_a_clear_one_written(tmp_path: Path) -> None:
    labels = ["REFUTES", "Suported", "not supported", "I think it is Supported", "label: Refuted"]
    content = [record(n, label) for n, label in enumerate(labels)]
    report = checked(tmp_path, content, repaired=tmp_path / "mended.json")
    first, second, *_ = report.findings
    assert "Did you mean 'Refuted'?" in first.message
    assert "Did you mean 'Supported'?" in second.message
    assert [finding.fixed for finding in report.findings] == [True, *[False] * 4]
    mended = json.loads((tmp_path / "mended.json").read_text())
    assert [r["pred_label"] for r in mended] == ["Refuted", *labels[1:]]


def test_what_the_claims_tell(tmp_path: Path) -> None:
    urls = ["https://a.example/2020/11/03/x", "https://a.example/2020/11/01/x"]
    urls += ["https://www.check.example/0", "http://snopes.com/fact-check/x"]
    evidence = [{"question": f"{n}?", "answer": "A.", "url": url} for n, url in enumerate(urls)]
    content = [record(0, evidence=evidence, claim="claim 0"), record(1, claim=""), record(7)]
    report = checked(tmp_path, content, claims=CLAIMS, sites=["snopes.com"])
    assert [(f.rule, f.record) for f in report.findings] == [
        ("late-evidence", "0"),
        ("fact-check", "0"),
        ("fact-check", "0"),
        ("id", "7"),
        ("id", None),
    ]
    assert "of 2020-11-03, the claim of 2020-11-02" in report.findings[0].message
    assert "own fact-check" in report.findings[1].message
    assert "1 claim is missing: 2" in report.findings[-1].message
    assert report.unchecked == []
    assert checked(tmp_path, content).unchecked[0] == "late-evidence"


def test_scraped_text_is_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = [record(n) for n in range(3)]
    for r in content:
        r["evidence"][0]["scraped_text"] = "x" * 100_000
    report = checked(tmp_path, content)
    assert rules(report) == {("warning", "scraped-text")}
    assert "0.3 of 0.3 MB" in report.findings[0].message
    monkeypatch.setattr("components.lint.rules.LARGEST", 200_000)
    report = checked(tmp_path, content, repaired=tmp_path / "mended.json")
    assert rules(report) == {("warning", "scraped-text"), ("error", "size")}
    assert not report.errors
    assert (tmp_path / "mended.json").stat().st_size < 1000


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (csv_of(f"Who?{INNER}Her.{OUTER}"), set()),
        (csv_of(""), {("error", "nan"), ("warning", "no-evidence")}),
        (csv_of("NA"), {("error", "nan"), ("warning", "no-evidence")}),
        (csv_of("None"), {("error", "nan"), ("warning", "no-evidence")}),
        (csv_of(OUTER), {("warning", "no-evidence")}),
        (csv_of(f"Who?{INNER}A{INNER}B{OUTER}"), {("error", "delimiter")}),
        (csv_of("Who?"), {("error", "delimiter")}),
        (csv_of(f"Who?{INNER}a\tb{OUTER}"), {("warning", "delimiter")}),
        (csv_of(f"Who?{INNER}Her.{OUTER}").replace("\n", "\r"), {("error", "delimiter")}),
        (csv_of(f"Who?{INNER}Her.{OUTER}").replace("\n", "\r\n"), {("error", "delimiter")}),
        (csv_of(f"Who?{INNER}A{OUTER}", id=1), {("error", "id")}),
        (csv_of(f"Who?{INNER}A{OUTER}", label="Refutd"), {("error", "label")}),
        ("id,evi,label\n0,x,Refuted\n", {("error", "schema"), ("error", "delimiter"),
                                         ("error", "nan")}),
        ("id,claim,evi,label,split\n0,c\n", {("error", "schema")}),
        (csv_of(f"Who?{INNER}A{OUTER}").replace(",pred", ",test"), {("error", "schema")}),
        (csv_of(f"Who?{INNER}A{OUTER}").replace(",c,", ",NA,"), {("error", "nan")}),
    ],
)  # fmt: skip
def test_csv_of_2025(tmp_path: Path, content: str, found: set[tuple[str, str]]) -> None:
    assert rules(checked(tmp_path, content, "pred.csv")) == found


def test_forms_before(tmp_path: Path) -> None:
    yes = {"answer": "Yes", "answer_type": "Boolean"}
    first = {"label": "Refuted", "questions": [{"question": "Is it?", "answers": [yes]}]}
    report = checked(tmp_path, [first], repaired=tmp_path / "mended.json")
    assert (report.form, rules(report)) == ("first script", {("error", "boolean")})
    assert accepted_first(tmp_path / "mended.json")
    flat = {"id": 0, "predicted_label": "Refuted", "predicted_evidence": ["A.", "A."]}
    report = checked(tmp_path, [flat], repaired=tmp_path / "mended.json")
    assert (report.form, rules(report)) == (
        "first EvalAI",
        {("error", "schema"), ("warning", "repeated-qa")},
    )
    (mended,) = json.loads((tmp_path / "mended.json").read_text())
    assert mended == {"id": 0, "label": "Refuted", "evidence": ["A."]}
    ours = {"id": "0", "claim": "A.", "evidence": [], "label": "Refuted"}
    report = checked(tmp_path, json.dumps(ours) + "\n")
    assert (report.form, rules(report)) == ("run", {("warning", "no-evidence")})


def test_fever(tmp_path: Path) -> None:
    evidence = [["A_-LRB-b-RRB-", n] for n in range(6)]
    lines = [
        {"id": 7, "predicted_label": "supports", "predicted_evidence": evidence[:1]},
        {"id": 3, "predicted_label": "REFUTED", "predicted_evidence": evidence},
        {"id": 2, "predicted_label": "NOT ENOUGH INFO", "predicted_evidence": []},
        {
            "id": 4,
            "predicted_label": "REFUTES",
            "predicted_evidence": [["A", 1], ["B", 2], ["B", 2]],
        },
        {"id": 5, "predicted_label": "REFUTES"},
    ]
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, repaired=tmp_path / "mended.jsonl")
    assert report.form == "FEVER"
    assert [(f.rule, f.record) for f in report.findings] == [
        ("label", "3"),
        ("many-qas", "3"),
        ("repeated-qa", "4"),
        ("schema", "5"),
        ("no-evidence", "5"),
    ]
    assert not report.errors
    mended = [json.loads(x) for x in (tmp_path / "mended.jsonl").read_text().splitlines()]
    assert [m["predicted_label"] for m in mended][:2] == ["supports", "REFUTES"]
    for record in mended:  # as the scorer asks
        for page, line in record["predicted_evidence"]:
            assert isinstance(page, str)
            assert isinstance(line, int)
    assert not lint(tmp_path / "mended.jsonl").errors


SENTENCES = st.lists(
    st.tuples(st.sampled_from("AB"), st.sampled_from([0, 1, "1"])).map(list), max_size=8
)


@given(
    items=SENTENCES | st.sampled_from([None, "A", {"A": [0]}]),
    label=st.sampled_from(FEVER_LABELS),
)
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_repair_of_fever_moves_no_sentence_up(tmp_path: Path, items: Any, label: str) -> None:
    path, mended = tmp_path / "pred", tmp_path / "mended"
    path.write_text(json.dumps({"id": 0, "predicted_label": label, "predicted_evidence": items}))
    report = lint(path, repaired=mended)
    if report.repaired is None:
        return
    sentences = [[page, int(line)] for page, line in items or []]
    assert json.loads(mended.read_text())["predicted_evidence"] == sentences[:5]
    if not read_submission(path, "skip"):  # a record that comes to count, as docs/scoring.md says
        return
    gold = [Claim(id="0", text="", label="SUPPORTS", gold=[GoldSet(items=[("A", 0), ("B", 1)])])]
    scores = [fever(read_submission(p, "skip"), gold, draws=2).measures for p in (path, mended)]
    for name in ("fever", "evidence_precision", "evidence_recall", "evidence_f1"):
        assert scores[1][name].value <= scores[0][name].value, name


def test_scifact(tmp_path: Path) -> None:
    good = {"label": "SUPPORT", "sentences": [0, 2]}
    lines = [
        {"id": 1, "evidence": {"11": good}},
        {"id": 42, "evidence": {"12": {**good, "label": "NOT_ENOUGH_INFO"}, "13": good}},
        {"id": 43, "evidence": {"14": {**good, "label": "REFUTES"}}},
        {"id": 44, "evidence": {"15": {"label": "SUPPORT", "sentences": [0, 1, 2, 3]}}},
        {"id": 45, "evidence": {"x": good, "16": {"label": "SUPPORT"}}},
        {"id": 46, "evidence": {}},
    ]
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, repaired=tmp_path / "mended.jsonl")
    assert report.form == "SciFact"
    assert [(f.rule, f.record, f.fixed) for f in report.findings] == [
        ("schema", "42", True),
        ("label", "43", True),
        ("many-qas", "44", False),
        ("schema", "45", False),
        ("schema", "45", True),
    ]
    mended = [json.loads(x) for x in (tmp_path / "mended.jsonl").read_text().splitlines()]
    assert mended[1] == {"id": 42, "evidence": {"13": good}}
    assert mended[2]["evidence"]["14"]["label"] == "CONTRADICT"


def test_scifact_evidence_that_is_none_is_not_taken_for_averitec(tmp_path: Path) -> None:
    good = {"id": 1, "evidence": {}}
    gold = GoldSet(label="SUPPORT", items=[("7", 0)])
    claims = [Claim(id=str(n), text="", gold=[gold]) for n in (2, 1)]
    mended = tmp_path / "mended"
    for bad, what in (({"evidence": None}, "null"), ({"evidence": []}, "empty"), ({}, "missing")):
        bare = {"id": 2} | bad
        text = json.dumps(bare)
        (finding,) = checked(tmp_path, text).errors
        assert finding.message.startswith(f"its evidence is {what}: in SciFact that is an object")
        for lines, options in (([bare, good], {}), ([bare], {"claims": claims})):
            text = "\n".join(map(json.dumps, lines))
            report = checked(tmp_path, text, repaired=mended, **options)
            finding = report.findings[0]
            assert (finding.record, finding.fixed, report.left_out) == ("2", True, 0)
            assert finding.message.startswith(f"its evidence is {what}, where an object")
            said = [json.loads(line) for line in mended.read_text().splitlines()]
            assert said == [{"id": n, "evidence": {}} for n in (2, 1)[: len(lines)]]
            with pytest.raises(ClaimflowError, match=r"line 1: .* \{\} for none .*flows.lint"):
                read_submission(tmp_path / "pred.json", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("there", ["2024", "first EvalAI", "run", "FEVER"])
def test_a_record_without_label_and_evidence_is_of_no_other_form(
    tmp_path: Path, there: str
) -> None:
    lines = next(lines for form, lines, _ in NEIGHBOURS if form == there)
    text = "\n".join(map(json.dumps, [*lines, {"id": 9, "evidence": []}]))
    report = checked(tmp_path, text)
    assert (report.form, report.records) == (there, len(lines))
    assert any(f.message.startswith("its evidence is empty: in SciFact") for f in report.errors)


NEI_SPELT = ["NEI", "nei", "NOT_ENOUGH_INFO", "NOT ENOUGH INFO", "not_enough_info"]
NEI_SPELT += ["Not Enough Evidence", "not enough information"]


@pytest.mark.parametrize("label", NEI_SPELT)
def test_documents_without_a_verdict_score_the_same_before_and_after_a_repair(
    tmp_path: Path, label: str
) -> None:
    good = {"label": "SUPPORT", "sentences": [0]}
    gold = [Claim(id="1", text="", gold=[GoldSet(label="SUPPORT", items=[("7", 0)])])]
    text = json.dumps({"id": 1, "evidence": {"7": good, "8": good | {"label": label}}})
    report = checked(tmp_path, text, repaired=tmp_path / "mended")
    assert [f.message for f in report.findings if f.fixed] == ["document 8 without verdict"]
    before, after = (read_submission(tmp_path / name) for name in ("pred.json", "mended"))
    assert [f.label for f in before[0].findings] == ["SUPPORT", None]
    scores = [scifact(said, gold) for said in (before, after)]
    assert scores[0].measures == scores[1].measures
    notes = ["Predictions with documents labelled NEI, which are left out (1): 1."]
    assert (scores[0].notes, scores[1].notes) == (notes, [])

    table = tmp_path / "said.parquet"
    keys = ["model", "claim_id", "doc_id", "predicted_label"]
    pandas.DataFrame([("one", 1, 8, label)], columns=keys).to_parquet(table)
    assert lint(table, repaired=tmp_path / "mended.parquet").errors == []
    mended = tmp_path / "mended.parquet"
    for path in (table, mended if mended.exists() else table):
        assert read_submission(path)[0].findings[0].label is None


def test_sentences_below_0(tmp_path: Path) -> None:
    text = json.dumps({"id": 1, "evidence": {"7": {"label": "SUPPORT", "sentences": [-1, 99]}}})
    (finding,) = checked(tmp_path, text).errors
    assert finding.message == "document 7 has no sentence -1"


def test_rules_are_said_as_the_form_has_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = [["A", 0], ["A", 0], *[["A", n] for n in range(6)]]
    line = {"id": 7, "predicted_label": "SUPPORTS", "predicted_evidence": evidence}
    report = checked(tmp_path, json.dumps(line))
    show(report)
    said = capsys.readouterr().out
    assert "At most 5 sentences" in said
    assert "No sentence stands twice" in said
    assert "METEOR" not in said + json.dumps(sarif(report)["runs"][0]["tool"]["driver"])


@pytest.mark.parametrize("as_list", [True, False])
def test_a_key_that_stands_twice_is_an_error(tmp_path: Path, as_list: bool) -> None:
    lines = [json.dumps(record(n)) for n in range(2)]
    lines[1] = lines[1].replace('"pred_label":', '"pred_label": "Supported", "pred_label":')
    text = "[" + ",\n".join(lines) + "]" if as_list else "\n".join(lines)
    finding, *lines_too = checked(tmp_path, text).errors
    assert [f.message for f in lines_too] == [
        "JSON lines, where evaluators read one list",
    ] * (not as_list)
    assert (finding.rule, finding.line, finding.record) == ("json", 2, "1")
    assert finding.message == (
        '\'pred_label\' stands twice in one object, with other values, "Supported" and "Refuted"; '
        "evaluators read the last"
    )
    mended = tmp_path / "mended.json"
    report = checked(tmp_path, text, repaired=mended)
    assert (report.errors[0], mended.exists()) == (report.findings[0], False)
    assert "differ, and which is meant? (line 2, 'pred_label')" in str(report.unrepaired)
    report = checked(tmp_path, text.replace("Supported", "Refuted"), repaired=mended)
    assert "Deleted, but for one." in str(report.findings[0])
    assert not report.errors
    assert [p.label for p in read_submission(mended)] == ["Refuted", "Refuted"]
    said = '{"label": "SUPPORT", "sentences": [0]}'
    (finding,) = checked(
        tmp_path, f'{{"id": 3, "evidence": {{"14": {said}, "14": {said}}}}}'
    ).errors
    assert (finding.rule, finding.record, finding.message[:4]) == ("json", "3", "'14'")


# What passes is accepted, and so is what was mended

LOOSE = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

ODD = st.sampled_from(["", "NA", "a\tb", INNER, OUTER, "Yes", "\ud800", "\0", "so", "it is so"])
VALUES = ODD | st.none() | st.just(float("nan")) | st.text(max_size=5)
RECORDS = st.lists(
    st.builds(
        record,
        st.integers(0, 3) | st.sampled_from(["0", "1"]),
        st.sampled_from([*AVERITEC_LABELS, "refuted", "NEI", "maybe"]),
        st.lists(st.tuples(VALUES, VALUES), max_size=12),
    ),
    max_size=4,
)


@given(RECORDS)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_passes_is_accepted_and_so_is_what_was_mended(tmp_path: Path, records: Any) -> None:
    path, mended = tmp_path / "pred.json", tmp_path / "mended.json"
    path.write_text(json.dumps(records))
    report = lint(path)
    if not report.errors and not any(f.rule == "id" for f in report.findings):
        assert accepted_2024(path)
    report = lint(path, repaired=mended)
    if not report.errors:
        last = Path(report.repaired or path)
        assert accepted_2024(last)
        again = lint(last)
        assert not again.errors
        assert not [f for f in again.findings if f.fixable]
        assert len(read_submission(last)) == len({str(r["claim_id"]) for r in records})


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.lists(ODD, max_size=4).map("".join), st.sampled_from("Rx")),
        min_size=1,
        max_size=4,
    )
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_same_for_csv(tmp_path: Path, rows: list[tuple[int, str, str]]) -> None:
    path, mended = tmp_path / "pred.csv", tmp_path / "mended.csv"
    table = pandas.DataFrame(
        [(n, "A.", cell.replace("\ud800", "?"), "Refuted" if x == "R" else x, "pred")
         for n, cell, x in rows],
        columns=["id", "claim", "evi", "label", "split"],
    )  # fmt: skip
    table.to_csv(path, index=False)
    if not lint(path).errors:
        assert accepted_2025(path)
    report = lint(path, repaired=mended)
    if not report.errors:
        last = Path(report.repaired or path)
        assert accepted_2025(last)
        assert not lint(last).errors


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("2024", {"pred_label": "Refuted", "evidence": [], "claim_id": None}),
        ("first script", {"label": "Refuted", "questions": [], "claim_id": None}),
        ("first EvalAI", {"label": "Refuted", "evidence": ["A."], "id": None}),
        ("run", {"id": None, "label": "Refuted", "claim": "", "evidence": []}),
        ("FEVER", {"id": None, "predicted_label": "REFUTES", "predicted_evidence": []}),
        ("SciFact", {"id": None, "evidence": {}}),
    ],
)
def test_ids_written_otherwise_are_mended_not_lost(tmp_path: Path, form: str, line: Any) -> None:
    key = "claim_id" if "claim_id" in line else "id"
    ids = [2.0, "001", "0.0", "x", 7.5]
    content = "\n".join(json.dumps(line | {key: id}) for id in ids)
    claims = [Claim(id=str(n), text="") for n in range(3)]
    report = checked(tmp_path, content, claims=claims, repaired=tmp_path / "mended.jsonl")
    assert report.form == form
    said = [f.message for f in report.findings if f.rule == "id" and "means" in f.message]
    assert said == ["id 2.0 means 2", "id '001' means 1", "id '0.0' means 0"]
    text = (tmp_path / "mended.jsonl").read_text()
    records = (
        [json.loads(x) for x in text.splitlines()]
        if form in ("run", "FEVER", "SciFact")
        else json.loads(text)
    )
    order = [str(n) if form == "run" else n for n in range(3)]
    assert [r[key] for r in records] == order
    assert (report.records, report.left_out) == (5, 2)  # those of no claim, as the report says
    assert {f.record for f in report.findings if f.message == "no claim has this id"} == {
        "x",
        "7.5",
    }
    assert len(read_submission(tmp_path / "mended.jsonl")) == 3


WRONG = st.sampled_from([None, 3, "x", [], {}, [1], ["A", 1], float("nan"), "\ud800", "a\tb"])
IDS: Any = st.just([0, 1, 2]) | st.sampled_from(
    [[2, 0, 1], ["0", 1.0, "002"], [0, 1, 2, 1, 7], [0, 1]]
)


def either(good: Any) -> Any:
    return st.integers(0, 19).flatmap(lambda n: st.just(good) if n else WRONG)


def lines_of(**fields: Any) -> Any:
    """Records of three claims, their ids and fields right for the most part."""
    one = st.fixed_dictionaries(fields)
    return IDS.flatmap(
        lambda ids: st.tuples(*[one.map(lambda r, i=id: {"id": i} | r) for id in ids])
    )


ANSWER = {"answer": "Yes", "answer_type": "Boolean", "boolean_explanation": "So."}
FORMS = {
    "first script": (accepted_first, ".json", lines_of(
        label=either("Refuted"),
        questions=either([{"question": "Is it?", "answers": [ANSWER]}]) | st.lists(
            st.fixed_dictionaries({"question": either("Is it?"), "answers": st.lists(
                either(ANSWER) | either({"answer": "Yes", "answer_type": "Boolean"}),
                max_size=2)}), max_size=2))),
    "first EvalAI": (accepted_texts, ".json", lines_of(
        label=either("Refuted"), evidence=st.lists(either("A."), min_size=1).map(
            lambda texts: ["B.", *texts]))),
    "FEVER": (accepted_fever, ".jsonl", lines_of(
        predicted_label=either("SUPPORTS"),
        predicted_evidence=st.lists(either(["Moss", 3]), max_size=7) | either([]))),
    "SciFact": (accepted_scifact, ".jsonl", lines_of(
        evidence=st.dictionaries(st.sampled_from(["7", "8", "9", "10", "x"]), either(
            {"label": "SUPPORT", "sentences": [1]}) | st.fixed_dictionaries(
                {"label": either("CONTRADICT") | st.just("NEI"), "sentences": either([0, 2])})))),
}  # fmt: skip


BROKEN = [",]", "[]", '[{"a": 1}]', '{"id": 1', "oh", '"x"', '{"claim_id": ' + "9" * 5000 + "}"]


@pytest.mark.parametrize("form", [*FORMS, "2024"])
@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_a_repair_says_is_left_is_what_the_repaired_file_has(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    found = data.draw(RECORDS if form == "2024" else FORMS[form][2])
    lines = [json.dumps(r) for r in found]
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(lines)))
        lines.insert(place, data.draw(st.sampled_from(BROKEN)))
    lines = [line.replace('": ', '": 0, "x": 1, "x": ', data.draw(st.integers(0, 1)))
             if line.startswith('{"id"') else line for line in lines]  # fmt: skip
    text = "\n".join(lines) if data.draw(st.booleans()) else f"[{','.join(lines)}]"
    path, mended = tmp_path / "pred.json", tmp_path / "mended.json"
    path.write_text(text)
    claims = data.draw(st.sampled_from([None, CLAIMS]))
    report = lint(path, claims, repaired=mended)
    if report.repaired:
        again = lint(mended, claims)
        assert report.left == again.findings
        assert [str(f) for f in report.errors] == [str(f) for f in again.errors]
        assert [str(f) for f in report.warnings] == [str(f) for f in again.warnings]
        # And no error is called mended that is still there, but for what the loss brought.
        known = {f.rule for f in report.findings if not f.fixed}
        assert {f.rule for f in again.errors} <= known | ({"id"} if report.left_out else set())
    else:
        assert report.left == []
        assert report.unrepaired
        assert report.errors or report.unrepaired == "there is nothing to mend"


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_passes_is_accepted_in_the_other_forms(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    accepted, ending, records = FORMS[form]
    found = data.draw(records)
    path, mended = tmp_path / f"pred{ending}", tmp_path / f"mended{ending}"
    lines = "\n".join(map(json.dumps, found))
    path.write_text(json.dumps(found) if ending == ".json" else lines)
    if not lint(path, CLAIMS).errors:
        assert accepted(path)
        assert read_submission(path)
    report = lint(path, CLAIMS, repaired=mended)
    if not report.errors:
        last = Path(report.repaired or path)
        assert accepted(last)
        assert read_submission(last)
        assert not [f for f in lint(last, CLAIMS).findings if f.fixable]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.json", b"[" * 100_000, "nested too deep"),
        ("b.json", b"[]", "no records"),
        ("c.csv", b"id,claim,evi,label,split\n", "no records"),
    ],
)
def test_files_with_nothing_to_read(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    report = checked(tmp_path, data, name)
    assert any(message in finding.message for finding in report.errors)


def test_ids_of_a_csv_are_read_as_pandas_reads_them(tmp_path: Path) -> None:
    rows = [csv_of(f"Who?{INNER}Her.{OUTER}", id=id).splitlines(True)[1:] for id in ("1.0", "000")]
    content = "id,claim,evi,label,split\n" + "".join(line for row in rows for line in row)
    report = checked(tmp_path, content, "pred.csv", repaired=tmp_path / "mended.csv")
    assert [p.id for p in read_submission(tmp_path / "pred.csv")] == ["1", "0"]
    assert [f.message for f in report.findings][:2] == ["id '1.0' means 1", "id '000' means 0"]
    assert (report.errors, report.left_out) == ([], 0)
    assert accepted_2025(tmp_path / "mended.csv")


def test_a_table_of_scifact_open(tmp_path: Path) -> None:
    keys = ["model", "claim_id", "doc_id", "predicted_label", "rank", "p_support", "p_contradict"]
    rows = [
        ("one", 1, 10, "SUPPORT", 1, 0.9, 0.1),
        ("one", 1, 11, "NEI", 2, 0.3, 0.1),
        ("one", 1, 12, "NEI", 4, 0.3, 0.1),
        ("two", 1, 10, "REFUTES", 1, None, 0.1),
        ("two", 9, 10, "SUPPORT", 2, 0.2, 0.1),  # no such claim
        ("one", 1, 11, "NEI", 2, 0.3, 0.1),  # again
    ]
    path, mended = tmp_path / "said.parquet", tmp_path / "mended.parquet"
    pandas.DataFrame(rows, columns=keys).to_parquet(path)
    report = lint(path, [Claim(id="1", text="")], repaired=mended)
    assert report.form == "SciFact-Open"
    assert [(f.level, f.rule, f.line, f.fixed) for f in report.findings] == [
        ("error", "label", 4, True),
        ("error", "id", 5, True),
        ("error", "id", 6, True),
        ("warning", "nan", 4, False),
    ]
    assert (report.errors, report.records, report.left_out) == ([], 6, 2)
    table = pandas.read_parquet(mended)
    assert list(table.columns) == keys
    assert list(table["predicted_label"]) == ["SUPPORT", "NEI", "NEI", "CONTRADICT"]
    assert not lint(mended, [Claim(id="1", text="")]).errors
    assert [p.id for p in read_submission(mended, system="one")] == ["1"]
    good = pandas.DataFrame(rows[:2], columns=keys)
    for kind in (float, str):  # floats are joined with numbers, texts are not
        good.astype({"claim_id": kind, "doc_id": kind}).to_parquet(path)
        report = lint(path, [Claim(id="1", text="")], repaired=mended)
        assert {f.rule for f in report.findings} == ({"id"} if kind is str else set())
        assert (report.errors, report.left_out) == ([], 0)
        assert list(pandas.read_parquet(report.repaired or path)["claim_id"]) == [1, 1]
        assert [p.id for p in read_submission(path)] == ["1"]
    pandas.DataFrame(rows, columns=[*keys[:3], "label", *keys[4:]]).to_parquet(path)
    (finding,) = lint(path).findings
    assert finding.message == "no column predicted_label"
    rows[-1] = ("one", 1, 11, "SUPPORT", 2, 0.9, 0.1)  # again, with another label
    pandas.DataFrame(rows, columns=keys).to_parquet(path)
    report = lint(path, [Claim(id="1", text="")], repaired=mended)
    assert [f.message for f in report.errors] == ["document 11 of one again, with other values"]
    assert report.left_out == 1
    report = lint(path, [Claim(id=i, text="") for i in "12"], repaired=mended)
    assert report.left_out == 0  # claim 9 may be claim 2


def test_a_size_that_the_repair_brings_down_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = [record(n) for n in range(3)]
    for r in content:  # escaped it takes three times as much as its text
        r["evidence"][0]["scraped_text"] = "\u20ac" * 10_000
    monkeypatch.setattr("components.lint.rules.LARGEST", 20_000)
    report = checked(tmp_path, content, repaired=tmp_path / "mended.json")
    assert [f.fixed for f in report.findings] == [True, True]
    assert not report.errors


def test_a_comma_at_the_end_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps([record()])[:-1] + ",]"
    report = checked(tmp_path, text, repaired=tmp_path / "mended.json")
    assert (report.errors, report.left_out, report.lost) == ([], 0, 0)
    report = checked(tmp_path, json.dumps([record(), 5, record(1)]), repaired=tmp_path / "mended")
    assert (report.left_out, report.lost) == (1, 1)
    show(report)
    assert "without 1 record (1 of them can't be read)" in capsys.readouterr().out


def test_what_only_the_repaired_file_has_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = csv_of(f"Who?{INNER}A{OUTER}") + "1,c\n" + f'2,c,"Who?{INNER}A{OUTER}",Refuted,pred\n'
    show(checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended.csv"))
    said = capsys.readouterr().out
    assert "error id in it: 1 claim is missing: 1." in said
    assert "1 error, no warnings left" in said


def test_a_large_file_in_another_encoding_is_read_piece_by_piece(tmp_path: Path) -> None:
    import tracemalloc

    texts = [record(n, qas=[("Who?", "a " * 250_000)], claim="\xe9" if n == 60 else "")
             for n in range(61)]  # fmt: skip
    path = tmp_path / "pred.json"
    path.write_bytes(json.dumps(texts, ensure_ascii=False).encode("latin-1"))
    del texts
    tracemalloc.start()
    try:
        report = lint(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "all of it reads as Windows-1252" in report.errors[0].message
    assert peak < 35 * 2**20 < 1.5 * path.stat().st_size


def test_utf_32_is_told(tmp_path: Path) -> None:
    for encoding in ("utf-32", "utf-32-be"):
        text = ("" if encoding == "utf-32" else "\ufeff") + json.dumps([record()])
        (finding,) = checked(tmp_path, text.encode(encoding)).errors
        assert finding.message.startswith("the file is UTF-32: save it as UTF-8")
        with pytest.raises(ClaimflowError, match="is UTF-32"):
            read_submission(tmp_path / "pred.json")


def test_ranks_that_begin_again_are_told(tmp_path: Path) -> None:
    keys = ["model", "claim_id", "doc_id", "predicted_label", "rank", "p_support", "p_contradict"]
    rows = [(model, claim, doc, "SUPPORT", doc if model == "one" else 2 * claim + doc, 0.9, 0.1)
            for model in ("one", "two") for claim in (1, 2) for doc in (1, 2)]  # fmt: skip
    path = tmp_path / "said.parquet"
    pandas.DataFrame(rows, columns=keys).to_parquet(path)
    (finding,) = lint(path).findings
    assert (finding.rule, finding.level) == ("rank", "warning")
    assert finding.message == "2 of 4 ranks of one stand there again"


def test_ids_of_a_table_as_texts_are_a_warning(tmp_path: Path) -> None:
    keys = ["model", "claim_id", "doc_id", "predicted_label"]
    path, mended = tmp_path / "said.parquet", tmp_path / "mended.parquet"
    rows = [("one", "1", "10", "SUPPORT"), ("one", "02", "x", "SUPPORT")]
    pandas.DataFrame(rows, columns=keys).to_parquet(path)
    report = lint(path, repaired=mended)
    assert [(f.level, f.message.partition(",")[0]) for f in report.findings] == [
        ("error", "claim_id '02' means 2"),
        ("error", "doc_id 'x' is no number"),
        ("warning", "claim_id is a column of texts"),
        ("warning", "doc_id is a column of texts"),
    ]
    assert [(f.line, f.record, f.fixed) for f in report.findings] == [
        (2, "02", True),
        (2, "2", False),
        (None, None, True),
        (None, None, False),
    ]
    assert list(pandas.read_parquet(mended)["claim_id"]) == [1, 2]
    assert list(pandas.read_parquet(mended)["doc_id"]) == ["10", "x"]
    # Once the one that is no number is out, it is a column of numbers.
    rows = [("one", "1", "10", "SUPPORT"), ("one", "x", "11", "SUPPORT")]
    pandas.DataFrame(rows, columns=keys).to_parquet(path)
    report = lint(path, [Claim(id="1", text="")], repaired=mended)
    assert [f.message.partition(",")[0] for f in report.findings if f.fixed] == [
        "no claim has this id",
        "claim_id is a column of texts",
        "doc_id is a column of texts",
    ]
    assert list(pandas.read_parquet(mended)["claim_id"]) == [1]
    pandas.DataFrame([("one", "a", "b", "SUPPORT")], columns=keys).to_parquet(path)
    assert lint(path).findings == []  # ids of one's own


def test_a_broken_table_has_one_full_stop(tmp_path: Path) -> None:
    report = checked(tmp_path, b"PAR1 and no more", "said.parquet")
    assert ".." not in report.findings[0].text
    with pytest.raises(ClaimflowError) as caught:
        read_submission(tmp_path / "said.parquet")
    assert ".." not in str(caught.value).removeprefix(str(tmp_path))


def test_what_no_text_can_be_made_of_stays_an_error(tmp_path: Path) -> None:
    evidence = [{"question": {"a": 1}, "answer": ["x"], "url": ""}, {"question": 5, "answer": "y"}]
    left = checked(tmp_path, [record(evidence=evidence)], repaired=tmp_path / "mended").errors
    assert {f.message for f in left if f.rule == "schema"} == {
        "question is an object, no text",
        "answer is a list, no text",
    }


def test_a_warning_hides_no_wrong_type(tmp_path: Path) -> None:
    evidence = [{"question": "Who?", "answer": "x" * 4000, "url": 3}]
    assert rules(checked(tmp_path, [record(evidence=evidence)])) == {
        ("warning", "long-evidence"),
        ("error", "schema"),
    }


def test_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = sarif(checked(tmp_path, [record(label="refuted")], "a b#é.json"))
    # What the standard requires (OASIS SARIF 2.1.0, sections 3.13, 3.14, 3.18, 3.19, 3.27, 3.49).
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    assert [set(rule) >= {"id"} for rule in driver["rules"]] == [True] * len(RULES)
    (result,) = run["results"]
    assert result["message"]["text"].endswith("Did you mean 'Refuted'? Use one of: "
                                              f"{', '.join(AVERITEC_LABELS)}.")  # fmt: skip
    assert result["level"] in ("none", "note", "warning", "error")
    assert (result["ruleId"], result["level"]) == ("label", "error")
    place = result["locations"][0]["physicalLocation"]
    uri = place["artifactLocation"]["uri"]
    assert uri == (tmp_path / "a b#é.json").as_uri()
    assert uri.endswith("/a%20b%23%C3%A9.json")
    monkeypatch.chdir(tmp_path.parent)
    (result,) = sarif(checked(tmp_path, [record(label="refuted")], "a b#é.json"))["runs"][0][
        "results"
    ]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == f"{tmp_path.name}/a%20b%23%C3%A9.json"
    assert place["region"] == {"startLine": 1}
    assert "label" in {rule["id"] for rule in run["tool"]["driver"]["rules"]}


def test_a_file_that_breaks_off_loses_who_knows_how_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.dumps([record(n) for n in range(9)], indent=1)
    show(checked(tmp_path, whole[: len(whole) // 3 + 20], repaired=tmp_path / "mended.json"))
    assert "could not be read (the rest of the file, from line 39" in capsys.readouterr().out
    assert len(read_submission(tmp_path / "mended.json")) == 3
    rows = [csv_of(f"Who?{INNER}{n}{OUTER}", n).splitlines(True)[1:] for n in range(6)]
    text = "id,claim,evi,label,split\n" + "".join(line for row in rows for line in row)
    text = text.replace('1,c,"', '1,"c,"').replace('\n3,c,"', "\n3,c,")
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended.csv")
    assert report.unread[0] == "lines 8 to 10"


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    path.write_text(json.dumps([record(label="refuted"), record(1, qas=[("Who?", "A.")] * 2)]))
    arguments = ["flows.lint", f"predictions={path}"]
    written = [f"out={tmp_path}/out.json", f"sarif={tmp_path}/out.sarif"]
    done = command(*arguments, *written)
    assert (done.returncode, done.stderr) == (1, "")
    assert "error label (1)" in done.stdout
    assert "Did you mean 'Refuted'?" in done.stdout
    out = json.loads((tmp_path / "out.json").read_text())
    assert [f["rule"] for f in out["findings"]] == ["label", "repeated-qa"]
    assert json.loads((tmp_path / "out.sarif").read_text())["version"] == "2.1.0"
    fixed = command(*arguments, "fix=true")
    assert fixed.returncode == 0, fixed.stdout
    assert "error label (1, 1 mended)" in fixed.stdout
    assert accepted_2024(tmp_path / "team.fixed.json")
    missing = command("flows.lint", "predictions=no.json")
    assert (missing.returncode, "No submission" in missing.stderr) == (1, True)


# Claims under other ids, and what a repair may leave out


def shifted(n: int, by: int = 0) -> list[Any]:
    texts = [f"Claim {(i + by) % n}." for i in range(n)]
    return [record(i, claim=text, qas=[("Who?", text)]) for i, text in enumerate(texts)]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_claims_under_other_ids_are_seen_and_not_touched(tmp_path: Path, form: str) -> None:
    claims = [Claim(id=str(n), text=f"Claim {n}") for n in range(6)]
    content: Any = shifted(6, 1)
    content[5] |= {"claim_id": 7}  # an extra, beside claim 5, which is missing
    if form == "csv":
        rows = [csv_of(f"Who?{INNER}A{OUTER}", r["claim_id"]).replace(",c,", f",{r['claim']},")
                for r in content]  # fmt: skip
        content = "".join([rows[0], *(row.partition("\n")[2] for row in rows[1:])])
    report = checked(tmp_path, content, claims=claims, repaired=tmp_path / "mended")
    said = next(f for f in report.errors if f.rule == "claim")
    assert "5 of 5 predictions have another claim" in said.message
    assert said.remedy == "The ids are shifted: of 5 of them the gold id is 1 more. Renumber them"
    assert report.repaired is None
    assert report.unrepaired == "its claims stand under other ids than the gold file's"
    assert not any(f.fixed for f in report.findings)
    assert not (tmp_path / "mended").exists()
    assert "claim" not in {f.rule for f in lint(tmp_path / "pred.json").findings}


def test_claims_that_moved_up_are_one_finding(tmp_path: Path) -> None:
    claims = [Claim(id=str(n), text=f"The claim of mayor {n}") for n in range(60)]
    content = [
        record(i, claim=f"The claim of mayor {n}.")
        for i, n in enumerate([*range(20), *range(21, 60)])
    ]
    report = checked(tmp_path, content, claims=claims, repaired=tmp_path / "mended")
    (said,) = [f for f in report.errors if f.rule == "claim"]
    assert said.remedy.startswith("From claim 20 on, predictions carry the text of the next claim")
    assert report.unrepaired == "its claims stand under other ids than the gold file's"


def test_two_claims_that_changed_places(tmp_path: Path) -> None:
    claims = [Claim(id=str(n), text=f"Claim {n}") for n in range(6)]
    content = shifted(6)
    content[1]["claim"], content[2]["claim"] = content[2]["claim"], content[1]["claim"]
    content[3]["claim"] = "Something else."
    report = checked(tmp_path, content, claims=claims)
    assert [(f.level, f.rule, f.record, f.remedy) for f in report.findings] == [
        ("error", "claim", "1", "Call it 2"),
        ("error", "claim", "2", "Call it 1"),
        ("warning", "claim", "3", "See whether the id is right"),
    ]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_repair_leaves_out_only_what_is_said_twice(tmp_path: Path, form: str) -> None:
    def file(*records: tuple[int, str]) -> Any:
        if form == "json":
            return [record(id, qas=[("Who?", text)], claim="") for id, text in records]
        rows = [csv_of(f"Who?{INNER}{text}{OUTER}", id) for id, text in records]
        return "".join([rows[0], *(row.partition("\n")[2] for row in rows[1:])])

    claims, mended = [Claim(id=str(n), text="") for n in range(2)], tmp_path / "mended"
    options: Any = {"claims": claims, "repaired": mended}
    report = checked(tmp_path, file((0, "A"), (1, "B"), (1, "B"), (2, "C")), **options)
    assert (report.errors, report.left_out) == ([], 2)
    assert [f.text.split(". ")[-1] for f in report.findings if f.rule == "id"] == ["Deleted."] * 2
    assert [p.id for p in read_submission(mended)] == ["0", "1"]
    report = checked(tmp_path, file((0, "A"), (0, "A"), (0, "B"), (2, "C")), **options)
    assert [f.message for f in report.errors] == [
        "the id stands here again, and says something else",
        "no claim has this id",
        "1 claim is missing: 1",
    ]
    assert report.errors[1].remedy == "Give it the id of its claim: others have no record"
    assert [p.evidence[0].answer for p in read_submission(mended)] == ["A", "B", "C"]


WORDS = st.sampled_from(
    ["", " ", "Who?", "who? ", "When?", "Her.", "So.", "No answer could be found."]
)
ANSWERED = WORDS.map(lambda text: {"answer": text}) | st.sampled_from(["Her.", "So."]).map(
    lambda why: {"answer": "Yes", "answer_type": "Boolean", "boolean_explanation": why}
)
QAS: dict[str, Any] = {
    "2024": st.fixed_dictionaries(
        {"claim_id": st.just(0), "claim": st.just(""), "pred_label": st.just("Refuted"),
         "evidence": st.lists(st.fixed_dictionaries({"question": WORDS, "answer": WORDS}),
                              max_size=14)},
        optional={"string_evidence": st.lists(WORDS, max_size=5)}),
    "first script": st.fixed_dictionaries(
        {"label": st.just("Refuted"), "questions": st.lists(
            st.fixed_dictionaries({"question": WORDS, "answers": st.lists(ANSWERED, max_size=3)}),
            max_size=12)},
        optional={"string_evidence": st.lists(WORDS, max_size=5)}),
    "first EvalAI": st.fixed_dictionaries(
        {"id": st.just(0), "label": st.just("Refuted"), "evidence": st.lists(
            WORDS, min_size=1, max_size=14)}),
    "run": st.fixed_dictionaries(
        {"id": st.just("0"), "claim": st.just(""), "label": st.just("Refuted"),
         "evidence": st.lists(st.fixed_dictionaries({"question": WORDS, "answer": WORDS}),
                              max_size=14)}),
}  # fmt: skip


def test_no_copy_is_written_where_nothing_is_mended(tmp_path: Path) -> None:
    for content in ([record()], [record(qas=())]):
        report = checked(tmp_path, content, repaired=tmp_path / "mended")
        assert (report.repaired, report.unrepaired) == (None, "there is nothing to mend")
        assert not (tmp_path / "mended").exists()
    assert checked(tmp_path, [record()]).unrepaired is None


def counted(evidence: list[Any]) -> list[str]:
    """What scorers compare of the first ten QAs, empty ones and repeats left out."""
    found: dict[str, str] = {}
    for e in evidence[:10]:
        if (e.question + e.answer).strip():
            key = "".join(f"{e.question}|{e.answer}".casefold().replace(".", "").split())
            found.setdefault(key, f"{e.question} {e.answer}")
    return list(found.values())


@pytest.mark.parametrize("form", [*QAS, "2025"])
@given(data=st.data())
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_repair_never_scores_above_the_first_ten_without_repeats(
    tmp_path: Path, form: str, data: st.DataObject
) -> None:
    path, mended = tmp_path / "pred", tmp_path / "mended"
    if form == "2025":
        pairs = data.draw(st.lists(st.tuples(WORDS, WORDS), max_size=14))
        path.write_text(csv_of("".join(f"{q}{INNER}{a}{OUTER}" for q, a in pairs) or OUTER))
    else:
        path.write_text(json.dumps([data.draw(QAS[form])]))
    report = lint(path, repaired=mended)
    assert report.form == form
    (before,), (after,) = read_submission(path), read_submission(Path(report.repaired or path))
    said = [f"{e.question} {e.answer}" for e in after.evidence]
    assert said == counted(before.evidence)
    # Nor in the questions that the first script compares: all of them come from the first ten.
    asked, left = (p.asked or [e.question for e in p.evidence] for p in (before, after))
    nothing = collections.Counter({"": 10})  # a text has no question
    assert not collections.Counter(left) - collections.Counter(asked[:10]) - nothing
    fixed = {f.rule for f in report.findings if f.fixed}
    assert not fixed & {f.rule for f in report.left if f.fixable}


def test_explanations_tell_answers_apart(tmp_path: Path) -> None:
    yes = [{"answer": "Yes", "answer_type": "Boolean", "boolean_explanation": t} for t in "AAB"]
    content = [{"label": "Refuted", "questions": [{"question": "Is it?", "answers": yes}]}]
    report = checked(tmp_path, content, repaired=tmp_path / "mended.json")
    assert [f.rule for f in report.findings] == ["repeated-qa", "repeated-question"]
    ((asked,),) = [r["questions"] for r in json.loads((tmp_path / "mended.json").read_text())]
    assert [a["boolean_explanation"] for a in asked["answers"]] == ["A", "B"]


@pytest.mark.parametrize("content", ["[]", "[3, 4]", "{oh", '[{"a": 1}]', "id,evi,label\n"])
def test_no_empty_file_is_written(tmp_path: Path, content: str) -> None:
    report = checked(tmp_path, content, repaired=tmp_path / "mended")
    assert report.errors
    assert (report.repaired, report.unrepaired is None) == (None, False)
    assert not (tmp_path / "mended").exists()


# Encodings

FRENCH = [record(0, qas=[("Où\u202f?", "À Nîmes.")], claim="Été")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "cp1252", "utf-16-le"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_other_encodings_are_mended_where_they_are_clear(
    tmp_path: Path, encoding: str, form: str
) -> None:
    text = json.dumps(FRENCH, ensure_ascii=False).replace("\u202f", "")
    if form == "csv":
        text = csv_of(f"Où?{INNER}À Nîmes.{OUTER}").replace(",c,", ",Été,")
    mended = tmp_path / "mended"
    report = checked(tmp_path, text.encode(encoding), repaired=mended)
    said = [f for f in report.findings if f.rule == "encoding"]
    assert [f.level for f in said][:1] == ["error"]
    if encoding == "utf-16-le":  # without its mark it is none
        assert not said[0].fixed
        return
    assert (report.errors, said[0].fixed) == ([], True)
    (prediction,) = read_submission(mended)
    assert (prediction.claim, prediction.evidence[0].answer) == ("Été", "À Nîmes.")
    if encoding == "cp1252":
        assert "look whether the letters are right" in said[0].text
        with pytest.raises(ClaimflowError, match=r"line [12]: byte 0x.* is no UTF-8. Save"):
            read_submission(tmp_path / "pred.json")
    else:
        assert [p.claim for p in read_submission(tmp_path / "pred.json")] == ["Été"]


def test_letters_that_are_not_western_are_not_guessed(tmp_path: Path) -> None:
    content = json.dumps([record(0, claim="Привет")], ensure_ascii=False).encode("cp1251")
    (found, lost) = checked(tmp_path, content, repaired=tmp_path / "mended").findings
    assert (found.level, found.fixed, lost.level) == ("error", False, "warning")
    assert not (tmp_path / "mended").exists()


def test_an_escaped_nul_is_found(tmp_path: Path) -> None:
    report = checked(tmp_path, [record(0, qas=[("Who?", "H\0er.")])], repaired=tmp_path / "mended")
    assert ("encoding", "error") in {(f.rule, f.level) for f in report.findings}
    assert read_submission(tmp_path / "mended")[0].evidence[0].answer == "Her."


def test_quotes_beside_letters_are_western_too(tmp_path: Path) -> None:
    content = json.dumps([record(0, claim="“Café” – naïve")], ensure_ascii=False).encode("cp1252")
    assert not checked(tmp_path, content, repaired=tmp_path / "mended").errors
    (prediction,) = read_submission(tmp_path / "mended")
    assert prediction.claim == "“Café” – naïve"


@pytest.mark.parametrize(
    ("evidence", "kept"),
    [({"question": "Who?", "answer": "Her."}, ("Who?", "Her.")), ("Her.", ("", "Her."))],
)
def test_evidence_in_no_list_is_kept(tmp_path: Path, evidence: Any, kept: tuple[str, str]) -> None:
    records = [record(0) | {"evidence": evidence}, record(1)]
    checked(tmp_path, records, repaired=tmp_path / "mended")
    [qa] = read_submission(tmp_path / "mended")[0].evidence
    assert (qa.question, qa.answer) == kept


# The gold file, and files of no form


def test_the_gold_file_is_told(tmp_path: Path) -> None:
    questions = [{"question": "Who?", "answers": [{"answer": "Her.", "answer_type": "Extractive"}]}]
    gold = [{"claim": f"Claim {n}.", "label": "Refuted", "questions": questions, "claim_types": []}
            for n in range(2)]  # fmt: skip
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    claims = read_gold(tmp_path / "gold.json")
    report = checked(tmp_path, gold, claims=claims)
    assert [(f.level, f.rule) for f in report.findings] == [("error", "gold"), ("warning", "gold")]
    assert "the gold label and the gold evidence" in report.findings[0].message
    assert not checked(tmp_path, gold).errors  # predictions may copy what the claims came with
    whole = [g | {"justification": "So.", "fact_checking_strategies": []} for g in gold]
    (alone,) = checked(tmp_path, whole).errors  # also without the gold file
    assert "this is a file of the data set, by its fields: claim_types (2 times)" in alone.message
    honest = [g | {"questions": [{"question": "Where?", "answers": []}]} for g in whole]
    assert not [f for f in checked(tmp_path, honest, claims=claims).errors if f.rule == "gold"]
    assert not checked(tmp_path, [record(n, claim="") for n in range(2)]).findings
    cell = csv_of(f"Who?{INNER}Her.{OUTER}").replace(",pred", ",gold")
    pooled = {"label": "SUPPORT", "sentences": [0], "provenance": "pooling", "model_ranks": {}}
    (found,) = checked(tmp_path, {"id": 0, "evidence": {"7": pooled}}).errors
    assert "model_ranks (1 times), provenance (1 times)" in found.message
    report = checked(tmp_path, cell, "pred.csv", repaired=tmp_path / "mended")
    assert report.unrepaired == "it is the gold file, or made from it"
    assert not (tmp_path / "mended").exists()
    whole, row = report.findings
    assert (whole.rule, whole.level, row.rule, row.fixable) == ("gold", "error", "schema", False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"hello\nworld\n", "the file is no submission: neither JSON"),
        (b"PAR1 and no more", "no whole Parquet file"),
        (b'{"a": 1}', "this is no prediction"),
        (b'id,evi,label\n0,"a\n', "cells in the row"),
    ],
)
def test_a_file_of_no_form_has_that_as_its_finding(
    tmp_path: Path, data: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import hydra

    from flows.cli import CONF
    from flows.lint import main
    from flows.resolvers import register

    register()
    (tmp_path / "pred").write_bytes(data)
    out, shown = tmp_path / "out.json", tmp_path / "out.sarif"
    settings = [f"predictions={tmp_path}/pred", f"out={out}", f"sarif={shown}", "fix=true"]
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        config = hydra.compose("lint", settings)
    with pytest.raises(SystemExit, match="1"):
        main(config)
    assert message in json.dumps(json.loads(out.read_text())["findings"])
    results = json.loads(shown.read_text())["runs"][0]["results"]
    assert message in json.dumps(results)
    assert message in capsys.readouterr().out
    assert {p.name for p in tmp_path.iterdir()} == {"pred", "out.json", "out.sarif"}


@pytest.mark.parametrize(
    "line",
    [
        {"id": 1, "claim": "A.", "evidence": {"7": [{"sentences": [2, 5], "label": "SUPPORT"}]}},
        {"id": 1, "verifiable": "VERIFIABLE", "label": "SUPPORTS", "claim": "A.",
         "evidence": [[[1, 2, "A", 0]]]},
    ],
)  # fmt: skip
def test_gold_files_of_scifact_and_fever_are_told_and_left(tmp_path: Path, line: Any) -> None:
    data = b"\xef\xbb\xbf" + json.dumps(line).encode() + b"\n"
    report = checked(tmp_path, data, repaired=tmp_path / "mended")
    assert (report.findings[0].level, report.findings[0].rule) == ("error", "gold")
    assert report.unrepaired == "it is the gold file, or made from it"
    assert not (tmp_path / "mended").exists()


@pytest.mark.parametrize("value", [None, "SUPPORT", [1, 2]])
def test_what_scifact_has_in_place_of_a_document_is_not_overwritten(
    tmp_path: Path, value: Any
) -> None:
    line = {"id": "1", "evidence": {"7": value}}
    report = checked(tmp_path, json.dumps(line), repaired=tmp_path / "mended")
    assert [f.rule for f in report.errors] == ["schema"]
    assert json.loads((tmp_path / "mended").read_text()) == {"id": 1, "evidence": {"7": value}}


def test_rows_of_a_table_that_are_alike_but_for_nan_are_one(tmp_path: Path) -> None:
    row = {"model": "m", "claim_id": 1, "doc_id": 7, "predicted_label": "SUPPORT"}
    pandas.DataFrame([row | {"p_support": float("nan")}] * 2).to_parquet(tmp_path / "t.parquet")
    found = [f for f in lint(tmp_path / "t.parquet").findings if f.rule == "id"]
    assert [(f.message, f.fixable) for f in found] == [("document 7 of m again", True)]


def test_a_csv_with_mostly_gold_rows_is_not_repaired(tmp_path: Path) -> None:
    rows = [csv_of(f"Who?{INNER}Her.{OUTER}", n).split("\n", 1) for n in range(3)]
    text = rows[0][0] + "\n" + "".join(body for _, body in rows)
    text = text.replace(",pred\n", ",gold\n", 2)
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended")
    assert report.unrepaired == "2 of 3 rows have split 'gold'"
    assert report.errors


def test_a_repaired_file_of_an_earlier_run_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "pred.fixed.json"
    for there in (False, True):
        report = checked(tmp_path, [record()], repaired=stale)
        show(report, stale=stale)
        assert ("is of an earlier run" in capsys.readouterr().out) == there
        stale.write_text("[]")


@pytest.mark.parametrize(
    "said",
    [
        {"claim_id": 0, "claim": "A.", "pred_label": "Refuted", "evidence": [["Who?", "KEEP"]]},
        {"claim_id": 0, "claim": "A.", "pred_label": "Refuted", "evidence": [3, "KEEP"]},
        {"id": 0, "label": "Refuted", "questions": ["KEEP"]},
        {"id": 0, "label": "Refuted", "questions": [{"question": "Who?", "answers": "KEEP"}]},
        {"id": 0, "label": "Refuted", "questions": {"question": "Who?", "answers": ["KEEP"]}},
        {"id": 0, "label": "Refuted", "questions": [{"question": "Is it?", "answers": [
            {"answer": "Yes", "answer_type": "Boolean", "boolean_explanation": ["KEEP"]}]}]},
        {"id": 0, "label": "Refuted", "evidence": ["A."], "predicted_evidence": ["KEEP"]},
        {"id": 0, "label": "Refuted", "evidence": [{"text": "KEEP"}]},
    ],
)  # fmt: skip
def test_a_repair_loses_nothing_that_it_cannot_read(tmp_path: Path, said: Any) -> None:
    other = json.loads(json.dumps(said).replace("KEEP", "other"))  # with something to mend
    other |= {name: "refuted" for name in ("label", "pred_label") if name in other}
    other |= {name: 1 for name in ("id", "claim_id") if name in other}
    checked(tmp_path, [said, other], repaired=tmp_path / "mended.json")
    assert "KEEP" in (tmp_path / "mended.json").read_text()


PLACED = [
    {"label": "Refuted", "questions": []},
    {"pred_label": "Refuted", "claim": "", "evidence": []},
    {"label": "Refuted", "evidence": ["A."]},
]


@pytest.mark.parametrize("line", PLACED)
@pytest.mark.parametrize("other", [{"error": "timeout"}, 3, '{"label": "Ref'])
def test_records_without_ids_keep_their_claims(tmp_path: Path, line: Any, other: Any) -> None:
    """No repaired file lacks a record, by which those behind it would be of other claims."""
    mended = tmp_path / "mended"
    refuted = json.loads(json.dumps(line).replace("Refuted", "refuted"))
    content = [json.dumps(x) for x in (line, refuted)]
    broken = other if isinstance(other, str) else json.dumps(other)
    for text in (
        "\n".join([*content, broken, content[0]]),
        f"[{content[0]},{broken},{content[1]}]",
    ):
        report = checked(tmp_path, text, repaired=mended)
        assert (report.errors != [], mended.exists()) == (True, False)
        if report.form != "unknown":
            assert "told by their place" in str(report.unrepaired)
    checked(tmp_path, f"[{content[0]},{content[1]}]", repaired=mended)
    first, second = json.loads(mended.read_text())
    assert "Refuted" in second.values()
    assert not {"id", "claim_id"} & (first.keys() | second.keys())  # none is made up


@pytest.mark.parametrize("line", PLACED)
def test_records_told_by_their_place_are_never_moved(tmp_path: Path, line: Any) -> None:
    """Neither by sorting nor as one of no claim; one with an id at its place hinders nothing."""
    mended = tmp_path / "mended"
    key = "claim_id" if "pred_label" in line else "id"
    claims = [Claim(id=str(n), text="") for n in range(4)]
    wrong = json.loads(json.dumps(line).replace("Refuted", "refuted"))  # to be mended
    for options in ({}, {"claims": claims}):
        lines = [wrong, line | {key: 3}, line, line | {key: 1}]
        report = checked(tmp_path, lines, repaired=mended, **options)
        assert "others would have to move" in str(report.unrepaired)
        assert not mended.exists()
        assert not any(f.fixed for f in report.findings)
    options = {"claims": claims}
    checked(tmp_path, [line, line | {key: 9}, wrong], repaired=mended, **options)
    assert [r.get(key) for r in json.loads(mended.read_text())] == [None, 9, None]
    checked(tmp_path, [wrong, line | {key: 1}, line], repaired=mended, **options)
    assert [r.get(key) for r in json.loads(mended.read_text())] == [None, 1, None]


@pytest.mark.parametrize(
    "line",
    [
        {"predicted_label": "REFUTES", "predicted_evidence": []},
        {"evidence": {}},
    ],
)
def test_facts_without_ids_can_not_be_paired(tmp_path: Path, line: Any) -> None:
    text = "\n".join(json.dumps(x) for x in (line | {"id": 4.0}, line))
    report = checked(tmp_path, text, repaired=tmp_path / "mended")
    assert [f.message for f in report.errors if f.rule == "schema"] == ["the record has no id"]
    assert "told by their place" in str(report.unrepaired)


def test_a_file_is_laid_out_as_evaluators_read_it(tmp_path: Path) -> None:
    fact = json.dumps({"id": 1, "evidence": {}})
    for text, message in (
        (f"[{fact}]", "a JSON list, where evaluators read a record from each line"),
        (f"\n{fact}\n\n", "2 blank lines, at which evaluators stop"),
        (json.dumps(record()), "JSON lines, where evaluators read one list"),
    ):
        (found,) = checked(tmp_path, text).errors
        assert (found.rule, found.message) == ("json", message)
        assert not checked(tmp_path, text, repaired=tmp_path / "mended").errors
    (told,) = checked(tmp_path, {"id": "1", "evidence": {}}).errors
    assert told.message == "id '1' is no number"  # at which the official scorer stops


def test_a_record_of_fever_with_a_gold_label_of_its_own_is_told(tmp_path: Path) -> None:
    line = {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [["A", 0]]}
    own = line | {"label": "REFUTES", "evidence": [[[1, 1, "A", 0]]]}
    report = checked(tmp_path, own, repaired=tmp_path / "mended")
    assert [(f.rule, f.level) for f in report.findings] == [("gold", "warning")] * 2
    assert json.loads((tmp_path / "mended").read_text()) == line


@pytest.mark.parametrize(
    "more", [{"evidence": [[[1, 1, "A", 0]]]}, {"verifiable": "VERIFIABLE"}, {"evidence": "A 0"}]
)
def test_the_gold_label_of_fever_becomes_no_prediction(tmp_path: Path, more: Any) -> None:
    line = {"id": 1, "label": "REFUTES", "predicted_evidence": [["A", 0.0]]} | more
    report = checked(tmp_path, line, repaired=tmp_path / "mended")
    left = [f.remedy for f in report.errors if f.rule == "gold"]
    assert left == ["Leave it out, or call it predicted_…"] * 2
    assert json.loads((tmp_path / "mended").read_text()) == line
    with pytest.raises(ClaimflowError, match="predicted_label is missing"):
        read_submission(tmp_path / "mended")


def test_evidence_of_fever_that_cannot_be_read_is_not_deleted(tmp_path: Path) -> None:
    line = {"id": 1.0, "predicted_label": "REFUTES", "evidence": [["A", 0, 0.9]]}
    report = checked(tmp_path, line, repaired=tmp_path / "mended")
    assert len(report.errors) == 2
    assert json.loads((tmp_path / "mended").read_text()) == line | {"id": 1}


def test_a_repair_makes_up_no_label(tmp_path: Path) -> None:
    checked(tmp_path, {"id": 1.0, "predicted_evidence": [["A", 0]]}, repaired=tmp_path / "mended")
    assert "predicted_label" not in json.loads((tmp_path / "mended").read_text())


def test_a_sentence_of_an_abstract_twice_is_told(tmp_path: Path) -> None:
    item = {"label": "SUPPORT", "sentences": [0, 0]}
    (found,) = checked(tmp_path, {"id": 1, "evidence": {"7": item}}).findings
    assert (found.rule, found.level) == ("repeated-qa", "warning")
    item = {"label": "SUPPORT", "sentences": [0, 0, 1, 2]}
    many, again = checked(tmp_path, {"id": 1, "evidence": {"7": item}}).findings
    assert (many.rule, again.rule) == ("many-qas", "repeated-qa")
    assert "at the first 3 (" in many.message
    assert many.message.endswith("sentence_selection and sentence_label at all")


# A record alone may have several forms: its neighbours tell

FEVER_LINES = [
    {"id": 0, "predicted_label": "Supported", "predicted_evidence": [["A", 1]]},
    {"id": 1, "predicted_label": "Not Enough Evidence", "predicted_evidence": []},
]
NEIGHBOURS: list[tuple[str, list[Any], list[str]]] = [
    ("FEVER", FEVER_LINES, ["SUPPORTS", "NOT ENOUGH INFO"]),
    ("FEVER", [FEVER_LINES[0], {"id": 1, "label": "Refuted", "evidence": []}],
     ["SUPPORTS", "REFUTES"]),
    ("FEVER", [{"id": 0, "label": "NEI", "evidence": [["A", 1]]},
               {"id": 1, "claim": "B.", "label": "Refuted", "evidence": []}],
     ["NOT ENOUGH INFO", "REFUTES"]),
    ("FEVER", [FEVER_LINES[0], {"id": 1, "predicted_label": "Refuted", "predicted_evidence": [],
                                "label": "SUPPORTS", "evidence": [[[1, 2, "A", 0]]]}],
     ["SUPPORTS", "REFUTES"]),
    ("first EvalAI", [{"id": 0, "label": "Refuted", "evidence": ["Her."]},
                      {"id": 1, "predicted_label": "SUPPORTS", "predicted_evidence": []}],
     ["Refuted", "Supported"]),
    ("first EvalAI", [{"id": 0, "label": "Refuted", "evidence": ["Her."]},
                      {"id": 1, "label": "NOT ENOUGH INFO", "evidence": []},
                      {"id": 2, "claim": "C.", "label": "Refuted", "evidence": []},
                      {"claim_id": 3, "label": "Refuted", "evidence": []}],
     ["Refuted", "Not Enough Evidence", "Refuted", "Refuted"]),
    ("first EvalAI", [{"label": "Refuted", "evidence": ["Her."]},
                      {"label": "SUPPORTS", "evidence": []}],
     ["Refuted", "Supported"]),
    ("2024", [record(0), {"id": 1, "predicted_label": "SUPPORTS", "predicted_evidence": []},
              {"claim_id": 2, "claim": "C.", "label": "Refuted", "evidence": {}}],
     ["Refuted", "Supported", "Refuted"]),
    ("2024", [{"id": 0, "predicted_label": "NEI", "evidence": record()["evidence"]},
              {"id": 1, "predicted_label": "Refuted", "evidence": []}],
     ["Not Enough Evidence", "Refuted"]),
    ("first script", [{"claim_id": 0, "label": "Refuted", "questions": [
        {"question": "Who?", "answers": [{"answer": "Her."}]}]},
                      {"claim_id": 1, "label": "Supported", "claim": "B."}],
     ["Refuted", "Supported"]),
    ("run", [{"id": "0", "claim": "A.", "label": "Refuted", "evidence": record()["evidence"]},
             {"id": "1", "claim": "B.", "label": "NOT ENOUGH INFO", "evidence": []}],
     ["Refuted", "Not Enough Evidence"]),
    ("SciFact", [{"id": 0, "evidence": {"7": {"label": "SUPPORT", "sentences": [0]}}},
                 {"id": 1, "label": "Refuted", "evidence": {}}], ["", ""]),
]  # fmt: skip


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize(("form", "lines", "labels"), NEIGHBOURS)
def test_neighbours_tell_the_form_of_a_record_without_evidence(
    tmp_path: Path, form: str, lines: list[Any], labels: list[str], last_first: bool
) -> None:
    if last_first and "id" not in lines[0] | lines[-1] and "claim_id" not in lines[0]:
        return  # told by place
    lines = lines[::-1] if last_first else lines
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, "pred", repaired=tmp_path / "mended")
    assert (report.form, report.errors) == (form, [])
    mended = tmp_path / "mended" if report.repaired else tmp_path / "pred"
    assert lint(mended).form == form
    found = {p.id: p.label for p in read_submission(mended)}
    assert [found[id] for id in sorted(found)] == labels
    if form in ("FEVER", "SciFact"):
        assert len(mended.read_text().splitlines()) == len(lines)


def test_the_gold_file_tells_the_form_where_no_record_does(tmp_path: Path) -> None:
    lines = [{"id": n, "predicted_label": "Refuted", "predicted_evidence": []} for n in range(3)]
    text = "\n".join(map(json.dumps, lines))
    assert checked(tmp_path, text).form == "first EvalAI"
    claims = [Claim(id=str(n), text="", label="SUPPORTS") for n in range(3)]
    report = checked(tmp_path, text, claims=claims, repaired=tmp_path / "mended")
    assert (report.form, report.errors) == ("FEVER", [])
    assert {p.label for p in read_submission(tmp_path / "pred.json", claims=claims)} == {"REFUTED"}
    text = text.replace("Refuted", "REFUTES")
    assert checked(tmp_path, text).form == "FEVER"
    claims = [Claim(id=str(n), text="", label="Supported") for n in range(3)]
    assert checked(tmp_path, text, claims=claims).form == "first EvalAI"


def test_labels_tell_the_form_where_nothing_else_does(tmp_path: Path) -> None:
    labels = ["REFUTES", "Refuted", "SUPPORTS"]
    lines = [
        {"id": n, "predicted_label": x, "predicted_evidence": []} for n, x in enumerate(labels)
    ]
    assert checked(tmp_path, "\n".join(map(json.dumps, lines))).form == "FEVER"


def test_records_of_several_forms_are_left_alone(tmp_path: Path) -> None:
    lines = [*FEVER_LINES, {"id": 2, "label": "Refuted", "evidence": ["Her."]}]
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, repaired=tmp_path / "mended")
    assert not (tmp_path / "mended").exists()
    assert report.unrepaired == "its records are of several forms, and which is meant?"
    assert "FEVER (2, first in line 1), first EvalAI (1, first in line 3)" in str(report.errors)
    assert not any(finding.fixed for finding in report.findings)
    assert about("many-qas", report.form) == (
        "FEVER: At most 5 sentences; the others don't count. "
        "first EvalAI: At most 10 texts; the others don't count."
    )


def test_texts_as_evidence_of_fever_are_an_error_and_not_averitecs(tmp_path: Path) -> None:
    """By the record's label and keys, by its neighbours, or by the gold file."""
    text = {"id": 0, "predicted_label": "SUPPORTS", "predicted_evidence": ["Soul_Food_1"]}
    other = {"id": 0, "label": "Supports", "evidence": ["Soul_Food_1"]}
    good = {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [["A", 1]]}
    gold = [Claim(id=str(n), text="", label="REFUTES") for n in range(2)]
    cases: list[tuple[list[Any], list[Claim] | None]] = [
        ([text], None),
        ([text, good | {"predicted_evidence": []}], None),
        ([text, good], None),
        ([other, good], None),
        ([other], gold[:1]),
        ([text | {"predicted_label": "Supported"}], gold[:1]),
    ]
    for lines, claims in cases:
        content = "\n".join(map(json.dumps, lines))
        report = checked(tmp_path, content, claims=claims)
        assert report.form == "FEVER", lines
        (said,) = [f for f in report.errors if "[page, line]" in f.message]
        assert (said.message, said.record) == ('"Soul_Food_1" is no [page, line]', "0")
        assert said.remedy == 'Write it as ["Page_title", 0]'
        with pytest.raises(ClaimflowError, match=r"line 1: .*(FEVER has \[page, line\]|rename)"):
            read_submission(tmp_path / "pred.json", claims=claims)
    averitec = [Claim(id="0", text="", label="Supported")]
    for line, claims in ((text, averitec), (other, None), (other, averitec)):
        assert checked(tmp_path, json.dumps(line), claims=claims).form == "first EvalAI"


def test_scifact_documents_in_a_list_become_an_object(tmp_path: Path) -> None:
    said = [{"doc_id": n, "label": "SUPPORT", "sentences": [n]} for n in (7, 8)]
    lines = [{"id": 1, "evidence": said}, {"id": 2, "evidence": []}]
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, repaired=tmp_path / "mended")
    assert (report.form, report.errors, report.left_out) == ("SciFact", [], 0)
    assert report.findings[0].message == LISTED
    assert json.loads((tmp_path / "mended").read_text().splitlines()[0])["evidence"] == {
        "7": {"label": "SUPPORT", "sentences": [7]},
        "8": {"label": "SUPPORT", "sentences": [8]},
    }
    with pytest.raises(ClaimflowError, match="evidence is a list, where an object"):
        read_submission(tmp_path / "pred.json")
    for wrong in ([said[0], said[0]], [{"label": "SUPPORT", "sentences": [1]}]):
        report = checked(tmp_path, {"id": 1, "evidence": wrong}, repaired=tmp_path / "mended")
        assert (report.repaired, report.errors[0].message) == (None, LISTED)
    (found,) = checked(tmp_path, {"id": 1, "evidence": [{"doc": 7}]}).errors
    assert found.message.endswith("its keys are id, evidence")


def test_keys_of_other_forms_are_renamed_in_fever_and_scifact(tmp_path: Path) -> None:
    said: list[tuple[dict[str, Any], str, str]] = [
        ({"claim_id": 7, "predicted_label": "REFUTES", "predicted_evidence": [["A", 1]]},
         "FEVER", "'claim_id' for id"),
        ({"id": 7, "pred_label": "REFUTES", "predicted_evidence": [["A", 1]]},
         "FEVER", "'pred_label' for predicted_label"),
        ({"id": 7, "label": "REFUTES", "predicted_evidence": [["A", 1]]},
         "FEVER", "'label' for predicted_label"),
        ({"id": 7, "prediction": "REFUTES", "predicted_evidence": [["A", 1]]},
         "FEVER", "'prediction' for predicted_label"),
        ({"claim_id": 7, "evidence": {"8": {"label": "SUPPORT", "sentences": [1]}}},
         "SciFact", "'claim_id' for id"),
    ]  # fmt: skip
    for line, form, wrong in said:
        report = checked(tmp_path, json.dumps(line), repaired=tmp_path / "mended")
        assert (report.form, report.errors, report.left_out) == (form, [], 0)
        assert [f.rule for f in report.findings] == ["schema"]
        with pytest.raises(ClaimflowError, match=f"form of {form} but for its keys, {wrong}"):
            read_submission(tmp_path / "pred.json")
        (found,) = read_submission(tmp_path / "mended")
        assert (found.id, len(found.findings)) == ("7", 1)


def test_no_rule_of_documents_speaks_of_qas() -> None:
    may_fire = RULES.keys() - {"empty-qa", "long-evidence", "repeated-question", "delimiter"}
    for form in ("FEVER", "SciFact", "SciFact-Open"):
        fires = may_fire - ({"many-qas", "repeated-qa"} if form == "SciFact-Open" else set())
        for rule in fires:
            assert not {"QA", "QAs", "METEOR", "pandas"} & set(about(rule, form).split()), rule
    assert about("many-qas", "SciFact").endswith("sentence_selection and sentence_label count all.")


def test_no_evidence_is_told_as_the_scorer_compares_labels(tmp_path: Path) -> None:
    line = {"id": 1, "predicted_label": "not enough info", "predicted_evidence": []}
    assert checked(tmp_path, line).findings == checked(tmp_path, [line]).findings[:-1] == []


def test_line_numbers_that_are_texts_are_mended(tmp_path: Path) -> None:
    items = [["A", "8"], ["A", "x"], ["A", 1.5], ["A", 7.0]]
    line = {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": items}
    report = checked(tmp_path, line, repaired=tmp_path / "mended")
    assert [(f.rule, f.fixed) for f in report.findings] == [
        ("schema", True), ("schema", False), ("schema", False), ("schema", True),
    ]  # fmt: skip
    mended = (tmp_path / "mended").read_text()
    assert '[["A", 8], ["A", "x"], ["A", 1.5], ["A", 7]]' in mended
    for sentences, whole in ((["3"], "[3]"), ([3.0, 4], "[3, 4]"), (3, "[3]"), ("3", "[3]")):
        line = {"id": 1, "evidence": {"8": {"label": "SUPPORT", "sentences": sentences}}}
        report = checked(tmp_path, line, repaired=tmp_path / "mended")
        assert [(f.rule, f.fixed) for f in report.findings] == [("schema", True)]
        assert f'"sentences": {whole}}}' in (tmp_path / "mended").read_text()


def test_an_object_of_questions_and_answers_becomes_a_list(tmp_path: Path) -> None:
    records = [record() | {"evidence": {"Who?": "Her.", "When?": "Then."}}]
    report = checked(tmp_path, records, repaired=tmp_path / "mended")
    assert [(f.rule, f.fixed) for f in report.findings] == [("schema", True)]
    (said,) = read_submission(tmp_path / "mended")
    assert [(e.question, e.answer) for e in said.evidence] == [("Who?", "Her."), ("When?", "Then.")]


@pytest.mark.parametrize(
    ("base", "key"),
    [
        (record(1), "evidence"),
        ({"claim_id": 1, "label": "Refuted", "questions": []}, "questions"),
        ({"id": "1", "label": "Refuted", "claim": "A.", "pred_label": "Refuted"}, "evidence"),
    ],
)
def test_an_object_that_is_no_qa_is_left_with_an_error(tmp_path: Path, base: Any, key: str) -> None:
    said = {"1": {"q": "Who?", "a": "Her."}}
    other = base | {next(k for k in ("claim_id", "id") if k in base): 0.0, key: []}
    checked(tmp_path, [other, base | {key: said}], repaired=tmp_path / "mended")
    assert json.loads((tmp_path / "mended").read_text())[1][key] == said
    assert {f.message for f in lint(tmp_path / "mended").errors} == {f"{key} is an object"}


def test_a_csv_without_delimiters_has_lost_its_structure(tmp_path: Path) -> None:
    rows = [f'{n},c,"Who? Her.",Refutd,pred\n' for n in range(20)]
    text = "id,claim,evi,label,split\n" + "".join(rows)
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended")
    (found,) = [f for f in report.findings if f.rule == "delimiter"]
    assert "no cell has the delimiter" in found.message
    assert report.unrepaired == "it has lost its structure"
    assert not (tmp_path / "mended").exists()
    whole = text.replace("Who? Her.", f"Who?{INNER}Her.{OUTER}", 2)
    report = checked(tmp_path, whole, "pred.csv", repaired=tmp_path / "mended")
    assert len([f for f in report.findings if f.rule == "delimiter" and not f.fixable]) == 18


@pytest.mark.parametrize("quote", ['"', '\\"', ""])
def test_a_csv_whose_quotes_are_not_doubled_has_lost_its_structure(
    tmp_path: Path, quote: str
) -> None:
    """Written by joining strings, or with an escape character: of rows torn at commas and quotes
    no repair is made."""
    cell = f"Who {quote}said{quote}, when?{INNER}She, then.{OUTER}"
    around = quote and '"'
    rows = [f"{n},{around}a, {quote}b{quote}, c{around},{around}{cell}{around},Refuted,pred\n"
            for n in range(20)]  # fmt: skip
    text = "id,claim,evi,label,split\n" + "".join(rows)
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended")
    (found,) = [f for f in report.findings if f.rule == "schema"]
    assert "rows have other cells than the header: the file has lost its structure" in found.message
    assert report.unrepaired == "it has lost its structure"
    assert not (tmp_path / "mended").exists()


TWO = f"Who?{INNER}Her.{OUTER}When?{INNER}Then.{OUTER}"


@pytest.mark.parametrize(
    "cell",
    [
        TWO.replace("\n", "\n\n"),
        TWO.replace("\n", "\r\r\n"),
        TWO.replace(INNER + "H", OUTER + "H").replace(INNER + "T", OUTER + "T")
        .replace(OUTER + "W", INNER + "W").removesuffix("\n"),
    ],
)  # fmt: skip
def test_delimiters_that_are_wrong_throughout_are_mended(tmp_path: Path, cell: str) -> None:
    mended = tmp_path / "mended.csv"
    report = checked(tmp_path, csv_of(cell), "pred.csv", repaired=mended)
    assert {f.rule for f in report.findings} == {"delimiter"}
    assert report.errors == []
    assert mended.read_text() == csv_of(TWO)


@pytest.mark.parametrize(
    "cell",
    [
        f"Who?{INNER}Her.{INNER}When?{INNER}Then.{OUTER}",  # ten QAs would become one
        f"Who?{INNER}Her.{INNER}When?{OUTER}",
        f"Who?{INNER}Her.{OUTER}When?{OUTER}Then.{OUTER}",
        f"Who?{INNER}Her.{OUTER}" * 10 + "When?",
        "[]",
    ],
)
def test_a_cell_with_unclear_delimiters_stays_as_it_is(tmp_path: Path, cell: str) -> None:
    text = csv_of(f"Who?{INNER}Her.{OUTER}") + csv_of(cell, 1, "refuted").partition("\n")[2]
    mended = tmp_path / "mended.csv"
    report = checked(tmp_path, text, "pred.csv", repaired=mended)
    (error, *_) = report.errors
    assert (error.rule, error.record) == ("delimiter", "1")
    assert pandas.read_csv(mended).iloc[1].tolist() == [1, "c", cell, "Refuted", "pred"]


def test_blank_parts_of_a_cell_are_left_out(tmp_path: Path) -> None:
    qas = "".join(f"Who{n}?{INNER}Her.{OUTER}" for n in range(10))
    text = csv_of(f"{qas}\n".replace(INNER, INNER * 2, 1))
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended.csv")
    assert [(f.rule, f.done) for f in report.findings] == [
        ("delimiter", "Mended"), ("delimiter", "Deleted"),
    ]  # fmt: skip
    assert (tmp_path / "mended.csv").read_text() == csv_of(qas)


def test_what_a_split_holds_that_is_none_is_kept(tmp_path: Path) -> None:
    cell = f"Who?{INNER}Her.{OUTER}"
    text = csv_of(cell) + f'1,c,"{cell}",pred,Refuted\n2,c,"{cell}",Refuted\n'
    text = text.replace("pred\n1", "Pred\n1")
    torn = f'3,c,"{cell}",Refuted, which is half of a text\n4,c,"{cell}",Refuted,Refuted\n'
    report = checked(tmp_path, text + torn, "pred.csv", repaired=tmp_path / "mended.csv")
    assert [f.record for f in report.errors] == ["3", "4"]
    assert all("cells stand in others' places" in f.message for f in report.errors)
    whole = csv_of(cell) + "".join(csv_of(cell, n).partition("\n")[2] for n in (1, 2))
    assert (tmp_path / "mended.csv").read_text() == whole + torn


def test_columns_without_a_name_are_told(tmp_path: Path) -> None:
    text = csv_of(f"Who?{INNER}Her.{OUTER}").replace("split\n", "split,,\n")
    assert "has columns without a name" in str(checked(tmp_path, text, "pred.csv").errors)


def test_a_page_with_spaces_is_told(tmp_path: Path) -> None:
    line = {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [["Soul Food", 0]]}
    (found,) = checked(tmp_path, line).findings
    assert (found.level, found.remedy) == ("warning", "Write Soul_Food")


def test_predictions_are_no_gold_claims(tmp_path: Path) -> None:
    (tmp_path / "gold.json").write_text(json.dumps([record()]))
    with pytest.raises(ClaimflowError, match=r"'pred_label' makes it a prediction, where gold"):
        read_gold(tmp_path / "gold.json")


def test_a_bad_record_of_one_line_is_told_by_its_number(tmp_path: Path) -> None:
    (found, *_) = checked(tmp_path, json.dumps([record(), {"claim_id": 1}])).errors
    assert found.message.startswith("record 2: this is no prediction")
    assert found.message.endswith("its keys are claim_id")


def test_a_table_without_rows_or_without_probabilities(tmp_path: Path) -> None:
    row = {"model": "m", "claim_id": 1, "doc_id": 7, "predicted_label": "SUPPORT"}
    path = tmp_path / "t.parquet"
    pandas.DataFrame([row]).iloc[:0].to_parquet(path)
    assert [f.message for f in lint(path).findings] == ["no records"]
    pandas.DataFrame([row | {"p_support": None, "p_contradict": None}]).to_parquet(path)
    assert not lint(path).findings


def test_what_a_repaired_csv_makes_up_or_lacks_is_told(tmp_path: Path) -> None:
    cell = f"Who?{INNER}Her.{OUTER}"
    text = f'id,claim,evi,label,split,mark\n0,,"{cell}",Refuted,pred,x\n'
    text += f'1,Two  spaces.,"{cell}",Refuted,pred,x\n'
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended.csv")
    assert [f.done for f in report.findings] == ["Mended; without mark", "Written as 'Claim 0'"]
    assert "Two  spaces." in (tmp_path / "mended.csv").read_text()


def test_sarif_has_what_only_the_repaired_file_has(tmp_path: Path) -> None:
    old, new = (Finding(rule="id", level="error", message=m, remedy="r") for m in "ab")
    files = (tmp_path / "pred.json", tmp_path / "mended.json")
    report = Report(
        file=str(files[0]), form="2024", records=1, findings=[old], repaired=str(files[1]),
        left=[old, new],
    )  # fmt: skip
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in sarif(report)["runs"][0]["results"]
    ]
    assert uris == [file.as_uri() for file in files]


def test_a_record_of_a_run_without_id_is_told_that(tmp_path: Path) -> None:
    line = {"id": "0", "claim": "A.", "label": "Refuted", "evidence": record()["evidence"]}
    bare = {key: value for key, value in line.items() if key != "id"}
    report = checked(tmp_path, "\n".join(map(json.dumps, (line, bare))), "predictions.jsonl")
    (finding,) = report.errors
    assert (finding.line, finding.message.partition(",")[0]) == (2, "it has no id")
    with pytest.raises(ClaimflowError, match="line 2: it has no id"):
        read_submission(tmp_path / "predictions.jsonl")


def test_a_run_without_a_claim_is_told(tmp_path: Path) -> None:
    line = {"id": "0", "label": "Refuted", "evidence": [{"question": "Who?", "answer": "Her."}]}
    report = checked(tmp_path, line, repaired=tmp_path / "mended")
    assert [(f.rule, f.fixed) for f in report.findings] == [("schema", True)]
    assert [p.claim for p in read_submission(tmp_path / "mended")] == [""]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("{0},\n{1},\n{2},\n", [1, 2, 3]),
        ("{0},\n{1}\n{2}", [1]),
        ("[{0}\n{1},\n{2}]", [2]),
        ("[{0}]\n[{1}]\n\n[{2}]\n", [2, 4]),
        ("{0}\n{1}{2}\n", [2]),  # joined without a newline between
        ("{0} {1}{2}", [1]),
        ("{0}\ufeff{1}\n{2}", [1]),
    ],
)
def test_a_wrong_comma_costs_no_record(tmp_path: Path, text: str, lines: list[int]) -> None:
    # Without ids, so that records are told by their place.
    records = [{"claim": "A.", "label": "Refuted", "string_evidence": [str(n)]} for n in range(3)]
    for n, line in enumerate(map(json.dumps, records)):
        text = text.replace(f"{{{n}}}", line)
    report = checked(tmp_path, text, repaired=tmp_path / "mended.json")
    assert [f.line for f in report.findings if f.line] == lines
    assert (report.errors, report.lost, report.unread) == ([], 0, [])
    assert json.loads((tmp_path / "mended.json").read_text()) == records
    with pytest.raises(ClaimflowError, match=f"line {lines[0]}: .*(comma|another list|one line)"):
        read_submission(tmp_path / "pred.json")


QA = {"question": "Who?", "answer": "Her.", "url": "https://a.example"}
ASKED = {"claim": "A.", "label": "Refuted", "questions": [{"question": "Who?"}]}


@pytest.mark.parametrize(
    ("given", "key", "meant"),
    [
        (record(evidence=[{**QA, "answer": None, "answers": [{"answer": "Her."}]}]),
         "answers", [QA]),
        (record(evidence=[{**QA, "answer": None, "Answer": "Her."}]), "Answer", [QA]),
        (record(evidence=[{"question": "Who?", "answer": None, "answers": [
            {"answer": "Her.", "source_url": QA["url"]}]}]), "answers", [QA]),
        (record(evidence=[{**QA, "answer": None, "passages": ["Her."]}]), "passages", None),
        (ASKED | {"questions": [{"question": "Who?", "scraped_text": "Her."}]},
         "scraped_text", None),
        (ASKED | {"questions": [{"question": "Who?", "answers": [{"text": "Her."}]}]},
         "text", None),
        (record(evidence=[{**QA, "answer": None, "answers": [
            {"answer": "Yes", "boolean_explanation": "Her."}]}]), "answers", None),
        (record(evidence=[{**QA, "url": "u", "answer": None, "answers": [
            {"answer": "Her.", "source_url": "v"}]}]), "answers", None),
        (record(evidence=None, evidences=[QA]), "evidences", [QA]),
        (record(evidence=None, qa_pairs=[QA]), "qa_pairs", [QA]),
        (record(evidence=None, label="Refuted", id="0", evi=[QA]), "evi", [QA]),
        (ASKED | {"questions": [{"question": "Who?", "answer": "Her."}]}, "answer",
         [{"question": "Who?", "answers": [{"answer": "Her."}]}]),
        # What may be several things stays an error.
        (record(evidence=[{**QA, "answer": None, "evidence": "Her."}]), "evidence", None),
        (record(evidence=[{**QA, "answer": None, "answers": ["Her.", "Him."]}]), "answers", None),
        (record(evidence=[{**QA, "question": None, "asked_question": "Who?"}]),
         "asked_question", None),
        (record(evidence=None, evidences=["Her."]), "evidences", None),
        (record(evidence=None, questions=ASKED["questions"]), "questions", None),
        (ASKED | {"questions": [{"question": "Who?", "evidence": "Her."}]}, "evidence", None),
        ({"id": 0, "predicted_label": "Refuted", "evidences": ["Her."]}, "evidences", None),
        ({"id": 0, "predicted_label": "REFUTES", "evidences": [["A", 1]]}, "evidences", None),
        ({"id": 0, "predicted_label": "REFUTES", "sentences": [["A", 1]]}, "sentences", None),
        ({"id": 0, "predicted_label": "REFUTES", "said": [["A", 1.0, 0.9]]}, "said", None),
        ({"id": 0, "label": "REFUTES", "sentences": [["A", 1]]}, "sentences", None),
    ],
)  # fmt: skip
def test_evidence_under_another_key_is_mended_or_told(
    tmp_path: Path, given: Any, key: str, meant: Any
) -> None:
    given = {name: value for name, value in given.items() if value is not None}
    for item in given.get("evidence", []):
        for name in [name for name in item if item[name] is None]:
            del item[name]
    records = [given, given | {"claim": "B."}]
    for n, one in enumerate(records):
        one.update({name: n for name in ("claim_id", "id") if name in one})
    report = checked(tmp_path, records, repaired=tmp_path / "mended.json")
    assert any(f"'{key}' in its place" in f.message for f in report.findings)
    with pytest.raises(ClaimflowError, match=f"'{key}' in its place|predicted_evidence is missing"):
        read_submission(tmp_path / "pred.json")
    if meant is None:
        assert any(f"'{key}' in its place" in f.message for f in report.errors)
        assert json.dumps(key) in Path(report.repaired or tmp_path / "pred.json").read_text()
        assert not any(f.done == "Deleted" and f.fixed for f in report.findings if f.rule != "gold")
    else:
        assert report.errors == []
        (first, _) = json.loads((tmp_path / "mended.json").read_text())
        assert first["questions" if "questions" in first else "evidence"] == meant


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_a_null_id_is_told_by_its_place(tmp_path: Path, empty: Any) -> None:
    claims = [Claim(id=str(n), text="") for n in range(4)]
    lines = [record(n, answer_of=n, claim="A.\tB") for n in range(4)]
    for n in (0, 2):  # alike, and of two claims
        lines[n] = record(empty)
    report = checked(tmp_path, lines, claims=claims, repaired=tmp_path / "mended")
    assert [f.message for f in report.errors] == ["no claim_id"] * 2
    mended = json.loads((tmp_path / "mended").read_text())
    assert [r["claim_id"] for r in mended] == [None, 1, None, 3]
    own = {"id": empty, "claim": "A.\tB", "label": "Refuted", "evidence": [QA]}
    report = checked(tmp_path, [own, own | {"id": "1"}], claims=claims[:2])
    assert (report.form, [f.message for f in report.errors][-1]) == ("run", "no id")


def test_a_page_text_without_an_answer_stays(tmp_path: Path) -> None:
    pages = [{"question": "Who?", "url": "", "scraped_text": text} for text in ("Her.", "Him.")]
    report = checked(tmp_path, [record(9.0, evidence=pages)], repaired=tmp_path / "mended.json")
    assert json.loads((tmp_path / "mended.json").read_text())[0]["evidence"] == pages
    errors = [f.message for f in report.errors if f.rule == "schema"]
    assert errors == ["no answer, and 'scraped_text' in its place, which no evaluator reads"] * 2


def test_an_empty_object_keeps_its_place_among_qas(tmp_path: Path) -> None:
    qas = [{}, *({**QA, "question": f"{n}?"} for n in range(10))]
    report = checked(tmp_path, [record(evidence=qas)], repaired=tmp_path / "mended.json")
    assert report.errors == []
    assert json.loads((tmp_path / "mended.json").read_text())[0]["evidence"] == qas[1:10]


def test_qas_whose_answers_are_not_read_are_no_repeats(tmp_path: Path) -> None:
    qas = [{"question": "Who?", "said": text} for text in ("Her.", "Him.")]
    report = checked(tmp_path, [record(evidence=qas, claim="A.\tB")], repaired=tmp_path / "m.json")
    assert json.loads((tmp_path / "m.json").read_text())[0]["evidence"] == qas
    assert len(report.errors) == 2


def test_a_record_with_no_evidence_says_so_by_an_empty_list(tmp_path: Path) -> None:
    given = record(evidence=[], evidence_ranked=[{"text": "x"}])
    assert checked(tmp_path, [given]).errors == []
    assert read_submission(tmp_path / "pred.json")[0].evidence == []


@pytest.mark.parametrize("base", [record(), {"id": "0", "claim": "A.", "label": "Refuted"}])
def test_a_file_with_no_evidence_but_qas_under_another_key_is_told(
    tmp_path: Path, base: Any
) -> None:
    key = "claim_id" if "claim_id" in base else "id"
    lines = [base | {key: type(base[key])(n), "evidence": [], "pairs": [QA]} for n in range(3)]
    said = "no record has evidence, and QAs stand under 'pairs', which no evaluator reads"
    assert [f.message for f in checked(tmp_path, lines).errors] == [said]
    assert checked(tmp_path, [*lines[:2], lines[2] | {"evidence": [QA]}]).errors == []
    assert checked(tmp_path, lines[:1]).errors == []
    others = [line | {"pairs": [{"url": "", "text": "x"}]} for line in lines]
    assert checked(tmp_path, others).errors == []


@pytest.mark.parametrize("written", [json.dumps, str])
def test_evidence_in_a_text_is_unpacked(tmp_path: Path, written: Any) -> None:
    records = [record(0, evidence=written([QA])), record(1, evidence=[written(QA)])]
    report = checked(tmp_path, records, repaired=tmp_path / "mended.json")
    assert report.errors == []
    mended = json.loads((tmp_path / "mended.json").read_text())
    assert [r["evidence"] for r in mended] == [[QA], [QA]]


def test_evidence_in_a_text_that_breaks_off_is_told(tmp_path: Path) -> None:
    torn = json.dumps([QA])[:-5]
    report = checked(tmp_path, [record(evidence=torn)])
    (error,) = report.errors[1:]
    assert "a text of objects, which can't be read" in error.message


def test_qas_in_a_form_of_texts_are_told(tmp_path: Path) -> None:
    given = {"id": 0, "label": "Refuted", "evidence": ["Her.", QA]}
    report = checked(tmp_path, [given], repaired=tmp_path / "mended.json")
    (error,) = report.errors
    assert error.remedy == "Write claim_id, pred_label and evidence, as in 2024"
    assert report.repaired is None


def test_qas_under_the_keys_of_the_first_portal_are_of_2024(tmp_path: Path) -> None:
    given = {"id": 0, "claim": "A.", "predicted_label": "Refuted", "predicted_evidence": [QA]}
    for claims in (None, CLAIMS[:1]):
        report = checked(tmp_path, [given], claims=claims, repaired=tmp_path / "mended.json")
        assert (report.form, report.errors) == ("2024", [])
        assert json.loads((tmp_path / "mended.json").read_text()) == [
            record(qas=[("Who?", "Her.")])
        ]
    with pytest.raises(ClaimflowError, match="in the form of 2024 but for its keys"):
        read_submission(tmp_path / "pred.json")


def test_nan_under_any_key_is_found(tmp_path: Path) -> None:
    more = {"confidence": float("nan"), "runs": [{"p": float("nan")}]}
    report = checked(tmp_path, [record(**more)], repaired=tmp_path / "mended.json")
    assert [f.message for f in report.findings] == [
        "confidence, runs[0].p: NaN, which is no JSON"
    ]  # fmt: skip
    mended = json.loads((tmp_path / "mended.json").read_text())
    assert mended == [record(confidence=None, runs=[{"p": None}])]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (record(0), "pred_label"),
        ({"id": "0", "claim": "A.", "label": "Refuted", "evidence": [QA]}, "label"),
        ({"id": 0, "label": "REFUTES", "evidence": [["A", 1]]}, "label"),
    ],
)
def test_a_record_that_lacks_its_label_alone_stays(tmp_path: Path, line: Any, key: str) -> None:
    lines = [line | {key: str(line[key]).lower()}, {k: v for k, v in line.items() if k != key}]
    lines[1] |= {name: type(line[name])(1) for name in ("claim_id", "id") if name in line}
    report = checked(tmp_path, lines, repaired=tmp_path / "mended.json")
    assert (report.lost, report.left_out) == (0, 0)
    assert [f.message for f in report.errors] == ["no label"]
    mended = (tmp_path / "mended.json").read_text()
    assert mended.count("Her.") + mended.count('["A", 1]') == 2
    with pytest.raises(ClaimflowError, match=r"label is missing|but for its keys"):
        read_submission(tmp_path / "pred.json")


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    ("orient", "said"),
    [
        ("columns", "a table column by column"),
        ("list", "a table column by column"),
        ("split", "a table with its columns and rows apart"),
        ("table", "a table with its columns and rows apart"),
        ("index", "write the objects under them as a list, each with its id in it"),
        ("values", "the record is a list"),
    ],
)
@pytest.mark.parametrize(
    "line",
    [record(), {"id": 0, "predicted_label": "SUPPORTS", "predicted_evidence": [["A", 1]]}],
)
def test_a_table_of_pandas_is_told(
    tmp_path: Path, line: Any, orient: Any, said: str, indent: int | None
) -> None:
    table = pandas.DataFrame([line, line])
    if orient == "list":
        text = json.dumps(table.to_dict("list"), indent=indent)
    else:
        text = table.to_json(orient=orient, indent=indent)
    claims = [Claim(id="0", text="", label="SUPPORTS")]
    for known in (None, claims):
        report = checked(tmp_path, text, claims=known, repaired=tmp_path / "mended")
        found = [f.message for f in report.errors if f.rule in ("schema", "json")]
        assert len(found) == (2 if orient == "values" else 1)
        assert said in found[0]
        assert 'in pandas, orient="records" writes' in found[0]
        assert not (tmp_path / "mended").exists()
    with pytest.raises(ClaimflowError):
        read_submission(tmp_path / "pred.json")


@pytest.mark.parametrize("spell", ["claimId", "Claim Id", "CLAIM-ID"])
@pytest.mark.parametrize(
    "line",
    [
        record(),
        {"id": "0", "claim": "A.", "label": "Refuted", "evidence": [QA]},
        {"id": 0, "predicted_label": "SUPPORTS", "predicted_evidence": [["A", 1]]},
        {"id": 0, "evidence": {"7": {"sentences": [1], "label": "SUPPORT"}}},
        {"claim_id": 0, "claim": "A.", "label": "Refuted",
         "questions": [{"question": "Who?", "answers": [{"answer": "Her."}]}]},
    ],
)  # fmt: skip
def test_keys_in_another_spelling_are_renamed_together(
    tmp_path: Path, line: Any, spell: str
) -> None:
    how: dict[str, Callable[[list[str]], str]] = {
        "claimId": lambda words: words[0] + "".join(map(str.title, words[1:])),
        "Claim Id": lambda words: " ".join(map(str.title, words)),
        "CLAIM-ID": lambda words: "-".join(map(str.upper, words)),
    }
    spelt = {how[spell](key.split("_")): value for key, value in line.items()}
    if spelt == line:
        return
    report = checked(tmp_path, [spelt], repaired=tmp_path / "mended.json")
    assert report.errors == []
    mended = json.loads((tmp_path / "mended.json").read_text())
    assert mended in ([line], line)
    with pytest.raises(ClaimflowError, match=r"in the form of .* but for its keys"):
        read_submission(tmp_path / "pred.json")


def test_a_key_beside_its_other_spelling_is_left(tmp_path: Path) -> None:
    both = record(claimId=5, predLabel="Supported", Id="x", Label="Supported")
    assert checked(tmp_path, [both]).findings == []
    (prediction,) = read_submission(tmp_path / "pred.json")
    assert (prediction.id, prediction.label) == ("0", "Refuted")
    two = {name: value for name, value in record(predLabel="Refuted").items() if name != "claim_id"}
    report = checked(tmp_path, [two | {"claimId": 0, "ClaimId": 1}])
    assert "no claim_id" in [f.message for f in report.errors]  # which is meant?


@pytest.mark.parametrize("form", ["FEVER", "SciFact"])
def test_predictions_made_from_gold_facts_are_told(tmp_path: Path, form: str) -> None:
    label = {"FEVER": "SUPPORTS", "SciFact": "SUPPORT"}[form]
    page = {"FEVER": "A", "SciFact": "7"}[form]
    claims = [
        Claim(
            id=str(n),
            text="",
            label=label if form == "FEVER" else None,
            gold=[
                GoldSet(label=label, items=[(page, 1), (page, 2)]),
                GoldSet(label=label, items=[(page, 4)]),
            ],
        )
        for n in range(12)
    ]

    def told(sentences: list[int], label: str = label) -> bool:
        if form == "FEVER":
            pairs = [[page, n] for n in sentences]
            said = {"predicted_label": label, "predicted_evidence": pairs}
        else:
            said = {"evidence": {page: {"label": label, "sentences": sentences}}}
        lines = "".join(json.dumps({"id": n} | said) + "\n" for n in range(12))
        report = checked(tmp_path, lines, claims=claims)
        assert report.form == form
        warned = bool(warnings(read_submission(tmp_path / "pred.json"), claims, form))
        assert warned == ("gold" in {f.rule for f in report.errors})
        return warned

    assert told([1, 2, 4])
    assert told([4])
    assert not told([1, 3])
    assert not told([1])
    assert not told([])
    assert not told([4], {"FEVER": "REFUTES", "SciFact": "CONTRADICT"}[form])


@pytest.mark.parametrize("end", ["", "\n", ",", ",\n"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_without_its_end_keeps_its_records(
    tmp_path: Path, end: str, indent: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [record(n) for n in range(3)]
    text = json.dumps(lines, indent=indent)[:-1].rstrip() + end
    report = checked(tmp_path, text, repaired=tmp_path / "mended.json")
    (found,) = report.findings
    last = text.count("\n") + 1
    assert (found.line, found.message) == (
        last,
        "the list ends without its ], so that it may be cut off here",
    )
    assert json.loads((tmp_path / "mended.json").read_text()) == lines
    assert (report.left_out, report.unread) == (0, [f"what may have stood behind line {last}"])
    show(report)
    assert "Deleted" not in capsys.readouterr().out
    with pytest.raises(ClaimflowError, match=rf"line {last}: the list ends without its \]"):
        read_submission(tmp_path / "pred.json")
    assert len(read_submission(tmp_path / "pred.json", "skip")) == 3


def test_qas_beside_an_empty_list_are_named(tmp_path: Path) -> None:
    asked = [{"question": "Who?", "answers": [{"answer": "Her."}]}]
    for key, value in (("qas", [QA]), ("questions", asked)):
        report = checked(tmp_path, [record(), record(1, evidence=[]) | {key: value}])
        (found,) = [f for f in report.findings if f.rule == "no-evidence"]
        assert found.message == f"no evidence, and QAs under '{key}', which no evaluator reads"


def test_sentences_beside_an_empty_list_are_not_deleted(tmp_path: Path) -> None:
    line: Any = {"id": 1, "predicted_label": "SUPPORTS", "predicted_evidence": []}
    line |= {"evidence": [["A", 1]]}
    report = checked(tmp_path, json.dumps(line), repaired=tmp_path / "mended")
    assert [(f.rule, f.fixable) for f in report.errors] == [("gold", False)]


def test_the_header_amid_the_rows_is_taken_out(tmp_path: Path) -> None:
    parts = [csv_of(f"Who?{INNER}Her.{OUTER}", n) for n in range(2)]
    report = checked(tmp_path, "".join(parts), "pred.csv", repaired=tmp_path / "mended.csv")
    assert [f.message for f in report.findings] == ["the header again, as where files are joined"]
    assert report.errors == []
    assert [p.id for p in read_submission(tmp_path / "mended.csv")] == ["0", "1"]
    with pytest.raises(ClaimflowError, match="line 6: the header again"):
        read_submission(tmp_path / "pred.csv")


def test_ids_that_are_texts_are_told_once_and_only_where_they_can_be_wrong(tmp_path: Path) -> None:
    pairs = [["A", 1]]
    forms = [
        (record("c12"), True),
        ({"id": "c12", "evidence": {"7": {"sentences": [1], "label": "SUPPORT"}}}, True),
        ({"id": "c12", "predicted_label": "SUPPORTS", "predicted_evidence": pairs}, False),
        ({"id": "c12", "claim": "A.", "label": "Refuted", "evidence": [QA]}, False),
    ]
    for line, demanded in forms:
        text = json.dumps([line] if "claim_id" in line else line)
        found = [(f.level, f.message) for f in checked(tmp_path, text).findings]
        assert found == [("error", "id 'c12' is no number from 0")] * demanded
        claims = [Claim(id="c12", text="")]
        assert checked(tmp_path, text, claims=claims).findings == []


def test_documents_without_sentences_are_told_by_what_they_have(tmp_path: Path) -> None:
    def found(**said: Any) -> Finding:
        line = {"id": 1, "evidence": {"7": {"label": "SUPPORT"} | said}}
        (one,) = checked(tmp_path, json.dumps(line), repaired=tmp_path / "mended").findings
        return one

    for said in ({}, {"sentences": None}):
        assert found(**said).message == "document 7 has no sentences, not even []"
        assert read_submission(tmp_path / "mended")[0].findings[0].sentences == []
    message = found(rationale=[1]).message
    assert message == (
        "document 7 has no sentences, and 'rationale' in their place, which no evaluator reads"
    )
    with pytest.raises(ClaimflowError, match="document 7 has no sentences, and 'rationale' in"):
        read_submission(tmp_path / "pred.json")
    assert found(sentences="all").message == 'document 7 has "all" for sentences'


@pytest.mark.parametrize("text", ["It’s “so”.", "It’s José’s café – où?", "Un café.", "“so”"])
def test_mac_roman_is_not_taken_for_windows(tmp_path: Path, text: str) -> None:
    table = csv_of(f"Who?{INNER}{text}{OUTER}")
    report = checked(tmp_path, table.encode("mac_roman"), "pred.csv", repaired=tmp_path / "mended")
    assert "may be Mac Roman" in report.errors[0].message
    assert "iconv -f MACINTOSH" in report.errors[0].remedy
    assert not (tmp_path / "mended").exists()
    report = checked(tmp_path, table.encode("cp1252"), "pred.csv", repaired=tmp_path / "mended")
    assert "all of it reads as Windows-1252" in report.findings[0].message
    assert read_submission(tmp_path / "mended")[0].evidence[0].answer == text
    utf8 = table.encode() + b"\xff"
    assert "Mac" not in checked(tmp_path, utf8, "pred.csv").errors[0].message


GOLD_SET = [*["Refuted"] * 20, *["Supported"] * 12]
FEVER_GOLD = ["REFUTES" if label == "Refuted" else "SUPPORTS" for label in GOLD_SET]


def two_labels(one: str, other: str, fever: bool = False, **more: Any) -> str:
    """JSON lines with the gold label under one key and, but for the last one, that of a system
    under another; the first ones agree."""
    labels = FEVER_GOLD if fever else GOLD_SET
    records: list[Any] = [
        {one: label, other: labels[0] if label else None} | more for label in labels
    ]
    del records[-1][other]
    named = "id" if {"claim", "predicted_evidence"} & more.keys() else "claim_id"
    lines = (record if "questions" in more else {named: n} | record
             for n, record in enumerate(records))  # fmt: skip
    return "\n".join(map(json.dumps, lines))


ASKED = {"question": "Who?", "answer": "Her."}
SENTENCE = {"claim": "A.", "predicted_evidence": [["A", 0]]}


@pytest.mark.parametrize(
    ("keys", "more", "due"),
    [
        (("gold_label", "predicted_label"), {"evidence": [ASKED]}, "pred_label"),
        (("label", "predicted_label"), {"evidence": [ASKED]}, "pred_label"),
        (("true_label", "verdict"), {"evidence": [ASKED]}, "pred_label"),
        (("confidence_label", "pred"), {"evidence": [ASKED]}, "pred_label"),
        (("label", "prediction"), {"claim": "A.", "evidence": [ASKED]}, "label"),
        (("label", "predicted_verdict"), {"questions": [{"question": "Who?", "answers": []}]},
         "label"),
        (("label", "predicted_label"), {"claim": "A.", "evidence": ["Her."]}, "label"),
        (("label", "pred"), SENTENCE, "predicted_label"),
        (("label", "model_label"), SENTENCE, "predicted_label"),
        (("label", "pred_label"), {"claim": "A.", "evidence": [["A", 0]]}, "predicted_label"),
    ],
)  # fmt: skip
def test_labels_under_several_keys_are_an_error_and_stay(
    tmp_path: Path, keys: tuple[str, str], more: Any, due: str
) -> None:
    """The gold label may be one of them; it is the file that decides, for a record alone too."""
    fever = due == "predicted_label"
    text = two_labels(*keys, fever=fever, **more)
    for lines in (text, "\n".join(reversed(text.split("\n")))):
        report = checked(tmp_path, lines, repaired=tmp_path / "mended")
        error = report.errors[-1]
        assert error.remedy == f"Leave only the prediction, under {due}"
        assert all(f"'{key}'" in error.message for key in keys)
        assert not (tmp_path / "mended").exists()
        with pytest.raises(ClaimflowError, match="and which is the prediction") as caught:
            read_submission(tmp_path / "pred.json", "skip")
        assert all(f"'{key}'" in str(caught.value) for key in keys)


def test_a_key_that_says_it_is_the_prediction_decides(tmp_path: Path) -> None:
    line = record(0) | {"gold_label": "Supported", "label": "Supported"}
    report = checked(tmp_path, [line])
    assert not report.errors
    (warning,) = [f for f in report.findings if f.rule == "gold"]
    assert "gold_label (1 times), label (1 times)" in warning.message
    assert [p.label for p in read_submission(tmp_path / "pred.json")] == ["Refuted"]
    # … but not for a record where it is not there: the gold label stands there
    del (other := record(1) | {"label": "Supported"})["pred_label"]
    (error,) = checked(tmp_path, [line, other]).errors
    assert "'pred_label', 'gold_label' and 'label'" in error.message


@pytest.mark.parametrize("key", ["gold_label", "true_label", "reference", "actual_label"])
def test_a_label_that_is_called_gold_is_no_prediction(tmp_path: Path, key: str) -> None:
    for evidence in ([ASKED], []):
        line = {"claim_id": 0, "claim": "A.", key: "Refuted", "evidence": evidence}
        report = checked(tmp_path, [line], repaired=tmp_path / "mended")
        assert f"its only label is '{key}'" in report.errors[0].message
        assert not (tmp_path / "mended").exists()


@pytest.mark.parametrize(
    "header",
    [
        "id,claim,evi,pred_label,split",
        "claim_id,claim,evidence,verdict,split",
        "Id,Claim,Evi,Label,Split",
    ],
)
def test_columns_under_other_names_are_renamed(tmp_path: Path, header: str) -> None:
    text = csv_of(f"Who?{INNER}Her.{OUTER}")
    other = header + text[text.index("\n") :]
    report = checked(tmp_path, other, "pred.csv", repaired=tmp_path / "mended.csv")
    assert report.errors == []
    assert {f.message.split(",")[0].split()[0] for f in report.findings} == {"column"}
    assert (tmp_path / "mended.csv").read_text() == text
    with pytest.raises(ClaimflowError, match="fix=true` renames"):
        read_submission(tmp_path / "pred.csv")


@pytest.mark.parametrize("column", ["note", "", "gold_label", "justification"])
def test_a_column_more_is_a_warning(tmp_path: Path, column: str) -> None:
    text = csv_of(f"Who?{INNER}Her.{OUTER}")
    said = "Supported" if column == "gold_label" else "So it is"
    more = text.replace("split\n", f"split,{column}\n").replace(",pred\n", f",pred,{said}\n")
    report = checked(tmp_path, more, "pred.csv", repaired=tmp_path / "mended.csv")
    assert [(f.rule, f.level) for f in report.findings] == [("schema", "warning")]
    assert column in report.findings[0].done
    assert "without ." not in report.findings[0].done
    assert (tmp_path / "mended.csv").read_text() == text
    assert [p.label for p in read_submission(tmp_path / "pred.csv")] == ["Refuted"]


def test_a_column_of_labels_beside_the_label_is_an_error(tmp_path: Path) -> None:
    text = csv_of(f"Who?{INNER}Her.{OUTER}").replace("split\n", "split,pred\n")
    text = text.replace(",pred\n", ",pred,Supported\n").replace(
        "split,pred,Supported", "split,pred"
    )
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended")
    assert "'label' and 'pred'" in report.errors[-1].message
    assert not (tmp_path / "mended").exists()
    with pytest.raises(ClaimflowError, match="labels under 'label' and 'pred'"):
        read_submission(tmp_path / "pred.csv")


def test_a_text_that_is_a_label_for_once_is_no_second_label(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"id": n, "claim": "A.", "label": "Refuted", "evidence": [ASKED], "note": "Something else."}
        for n in range(3)
    ]
    lines[1]["note"] = lines[2]["justification"] = "Refuted"
    assert not checked(tmp_path, "\n".join(map(json.dumps, lines))).errors


def test_labels_that_are_all_right_are_told(tmp_path: Path) -> None:
    claims = [Claim(id=str(n), text="", label=label) for n, label in enumerate(GOLD_SET)]
    records = [record(n, label, claim="") for n, label in enumerate(GOLD_SET)]
    (warning,) = checked(tmp_path, records, claims=claims).findings
    assert (warning.level, warning.message) == (
        "warning", "every label is the gold label (32 claims)",
    )  # fmt: skip
    records[0]["pred_label"] = "Supported"
    assert not checked(tmp_path, records, claims=claims).findings
    assert not checked(tmp_path, records[1:20], claims=claims[1:20]).findings
    claims = [Claim(id=str(n), text="", label=label) for n, label in enumerate(FEVER_GOLD)]
    lines = [{"id": n, "predicted_label": label, "predicted_evidence": [["A", 0]]}
             for n, label in enumerate(FEVER_GOLD)]  # fmt: skip
    report = checked(tmp_path, "\n".join(map(json.dumps, lines)), claims=claims)
    assert [f.message for f in report.findings] == [warning.message]


def test_what_is_left_is_shown_before_what_is_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record(n, "refuted") for n in range(5)] + [record(5, "no idea")]
    show(checked(tmp_path, records, repaired=tmp_path / "mended"))
    assert "    line 1: claim 5: label 'no idea' is none" in capsys.readouterr().out


def test_gold_rows_among_others_never_become_predictions(tmp_path: Path) -> None:
    rows = [csv_of(f"Who?{INNER}Her.{OUTER}", n).split("\n", 1) for n in range(4)]
    text = rows[0][0] + "\n" + "".join(body for _, body in rows)
    text = text.replace(",pred\n", ",gold\n", 1)
    report = checked(tmp_path, text, "pred.csv", repaired=tmp_path / "mended")
    assert report.unrepaired == "1 of 4 rows have split 'gold'"
    assert [f.message for f in report.errors] == ["split 'gold', which marks the gold file"]
    with pytest.raises(ClaimflowError, match=r"1 of 4 rows of .* leave only the predictions"):
        read_submission(tmp_path / "pred.csv")


@pytest.mark.parametrize(
    ("label", "key"),
    [
        *itertools.product(["pred_label", "prediction", "pred"], ["pred_evidence", "evidence"]),
        ("label", "evidence"),  # as in the gold file
    ],
)
def test_lists_of_page_and_line_are_of_fever(tmp_path: Path, key: str, label: str) -> None:
    lines = [
        {"id": 1, label: "NOT ENOUGH INFO", key: []},
        {"id": 2, label: "REFUTES", key: [["A", 0]]},
    ]
    text = "\n".join(map(json.dumps, lines))
    report = checked(tmp_path, text, repaired=tmp_path / "mended")
    assert (report.form, report.errors) == ("FEVER", [])
    found = read_submission(tmp_path / "mended")
    assert [(p.label, len(p.findings)) for p in found] == [("NOT ENOUGH INFO", 0), ("REFUTES", 1)]


def test_rows_of_a_table_of_systems_are_told_what_they_are(tmp_path: Path) -> None:
    row = {"model": "m", "claim_id": 1, "doc_id": 7, "predicted_label": "NEI", "rank": 1}
    report = checked(tmp_path, json.dumps(row), repaired=tmp_path / "mended")
    assert report.errors[0].message.startswith("this is a row of a table of systems (SciFact-Open)")
    assert not (tmp_path / "mended").exists()


def test_pages_get_the_codes_of_fever(tmp_path: Path) -> None:
    pages = ["Soul Food (film)", "Thor:_Ragnarok", "A_[b]"]
    spelt = ["Soul_Food_-LRB-film-RRB-", "Thor-COLON-_Ragnarok", "A_-LSB-b-RSB-"]
    line = {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": [[p, 0] for p in pages]}
    report = checked(tmp_path, line, repaired=tmp_path / "mended")
    assert [f.level for f in report.findings] == ["warning"] * 3
    mended = json.loads((tmp_path / "mended").read_text())
    assert [page for page, _ in mended["predicted_evidence"]] == spelt
    gold = [Claim(id="1", text="", gold=[GoldSet(items=[(pages[2], 0)])])]  # as that file has it
    assert len(checked(tmp_path, line, claims=gold).findings) == 2


@pytest.mark.parametrize("listed", [True, False])
def test_two_labels_of_a_document_are_an_error(tmp_path: Path, listed: bool) -> None:
    found = {"sentences": [1], "label": "SUPPORT", "predicted_label": "CONTRADICT"}
    evidence: Any = [{"doc_id": 7} | found] if listed else {"7": found}
    report = checked(tmp_path, {"id": 1, "evidence": evidence}, repaired=tmp_path / "mended")
    (error,) = report.errors
    assert "'label' and 'predicted_label'" in error.message
    assert not (tmp_path / "mended").exists()
    with pytest.raises(ClaimflowError, match="labels under 'label' and 'predicted_label'"):
        read_submission(tmp_path / "pred.json")
