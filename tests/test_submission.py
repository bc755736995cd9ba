"""Submissions of 2024 and 2025, as the official readers see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.datasets.gold import read_gold
from components.datasets.submission import (
    INNER,
    OUTER,
    named_system,
    read_submission,
    whole_file,
    write_csv,
    write_json,
)
from components.errors import ClaimflowError
from components.lint.check import lint
from components.records import AVERITEC_LABELS, BadLine, Evidence, Prediction

HARD = st.sampled_from(
    [
        "",
        "NA",
        "None",
        "nan",
        "a\tb",
        INNER,
        OUTER,
        "x\t\t\n\ny",
        '"quoted", text',
        "\r\n",
        "\ud800",
        "\0",
    ]
)
TEXT = HARD | st.text(max_size=20)
PREDICTIONS = st.lists(
    st.tuples(
        st.text(max_size=20),
        st.lists(st.tuples(TEXT, TEXT), max_size=12),
        st.sampled_from(AVERITEC_LABELS),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda rows: [
        Prediction(
            id=str(n),
            claim=f"Claim {claim}",
            evidence=[Evidence(question=q, answer=a) for q, a in pairs],
            label=label,
        )
        for n, (claim, pairs, label) in enumerate(rows)
    ]
)


def one(*evidence: tuple[str, str], id: str = "0", label: str = "Refuted") -> Prediction:
    pairs = [Evidence(question=q, answer=a) for q, a in evidence]
    return Prediction(id=id, claim="A claim.", evidence=pairs, label=label)


def single_line(text: str) -> str:
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return " ".join(text.replace("\0", " ").split())


def official_pairs(cell: str) -> list[tuple[str, str]]:
    """What the evaluator of 2025 does with a cell: NaN fails, and so does a QA of three parts."""
    pairs = []
    for part in cell.split("\t\t\n\n"):
        if part != "":
            question, answer = part.split("\t\t\n")
            pairs.append((question, answer))
    return pairs


@given(PREDICTIONS)
def test_csv_is_read_back_by_the_official_rule(
    tmp_path_factory: pytest.TempPathFactory, predictions: list[Prediction]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "pred.csv"
    write_csv(path, predictions)
    table = pandas.read_csv(path)  # as the official evaluator does
    assert list(table.columns) == ["id", "claim", "evi", "label", "split"]
    assert list(table["id"]) == list(range(len(predictions)))
    assert set(table["split"]) == {"pred"}
    for prediction, cell, label in zip(predictions, table["evi"], table["label"], strict=True):
        assert official_pairs(cell) == [
            (single_line(e.question), single_line(e.answer)) for e in prediction.evidence[:10]
        ]
        assert label == prediction.label
    assert lint(path).errors == []
    again = read_submission(path)
    assert [(p.id, p.label, len(p.evidence)) for p in again] == [
        (p.id, p.label, min(10, len(p.evidence))) for p in predictions
    ]
    write_csv(path.with_name("again.csv"), again)
    assert path.with_name("again.csv").read_bytes() == path.read_bytes()


@given(PREDICTIONS)
def test_json_round_trips(
    tmp_path_factory: pytest.TempPathFactory, predictions: list[Prediction]
) -> None:
    path = tmp_path_factory.mktemp("json") / "pred.json"
    write_json(path, predictions)
    for prediction, record in zip(predictions, json.loads(path.read_text("utf-8")), strict=True):
        assert list(record) == ["claim_id", "claim", "evidence", "pred_label"]
        assert record["claim_id"] == int(prediction.id)
        assert record["pred_label"] == prediction.label
    again = read_submission(path)
    write_json(path.with_name("again.json"), again)
    assert path.with_name("again.json").read_bytes() == path.read_bytes()
    assert [len(p.evidence) for p in again] == [len(p.evidence) for p in predictions]


def test_pitfall_6_empty_evidence_is_no_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "pred.csv"
    write_csv(
        path, [one(), one(("NA", "None"), id="1"), one(("Who?", f"A{INNER}B{OUTER}"), id="2")]
    )
    cells = list(pandas.read_csv(path)["evi"])
    assert [official_pairs(cell) for cell in cells] == [[], [("NA", "None")], [("Who?", "A B")]]
    assert [len(p.evidence) for p in read_submission(path)] == [0, 1, 1]


def test_pitfall_6_what_others_wrote_is_found(tmp_path: Path) -> None:
    path = tmp_path / "pred.csv"
    rows = '0,A.,,Refuted,pred\n1,B.,NA,Refuted,pred\n2,C.,"Q\t\t\nA\t\t\nB\t\t\n\n",Refuted,pred\n'
    path.write_text("id,claim,evi,label,split\n" + rows)
    problems = [str(error) for error in lint(path).errors]
    assert any(p.startswith("line 2: claim 0: the evidence is read as missing") for p in problems)
    assert any(p.startswith("line 3: claim 1: the evidence is read as missing") for p in problems)
    assert any(p.startswith("line 8: claim 2: a QA with 2 delimiters") for p in problems)
    with pytest.raises(ClaimflowError, match=r"a QA with 0 delimiters .* 'NA'"):
        read_submission(path)
    bad: list[BadLine] = []
    assert [p.id for p in read_submission(path, "skip", bad)] == ["0"]
    assert len(bad) == 2


def test_pitfall_7_pairing_is_by_id(tmp_path: Path) -> None:
    path = tmp_path / "pred.csv"
    write_csv(path, [one(id=n) for n in ("10", "2", "1")])  # 0 is missing, order is by value
    assert list(pandas.read_csv(path)["id"]) == [1, 2, 10]
    assert [p.id for p in read_submission(path)] == ["1", "2", "10"]
    (error,) = lint(path).errors
    assert error.message == "8 claims are missing: 0, 3, 4, 5, 6 …"
    records = [
        {"claim_id": "10", "claim": "Ten.", "evidence": [], "pred_label": "Refuted"},
        {"claim_id": 9, "claim": "Nine.", "evidence": [], "pred_label": "Supported"},
    ]
    path = tmp_path / "pred.json"
    path.write_text(json.dumps(records))
    assert {p.id: p.claim for p in read_submission(path)} == {"10": "Ten.", "9": "Nine."}
    path.write_text(json.dumps([*records, {**records[0], "claim_id": 10}]))
    assert [p.id for p in read_submission(path)] == ["10", "9", "10"]  # the scorer's to decide
    with pytest.raises(ClaimflowError, match="Two predictions for claim 4"):
        write_csv(path, [one(id="4"), one(id="4")])


def test_forms_of_other_systems(tmp_path: Path) -> None:
    path = tmp_path / "pred.json"
    evidence = [
        {"question": "Who?", "answer": "Her.", "url": ["u", "v"], "scraped_text": "long"},
        {"question": "Why?", "answer": None, "url": []},
    ]
    path.write_text(
        json.dumps(
            [
                {
                    "claim_id": "0",
                    "claim": "A.",
                    "evidence": evidence,
                    "pred_label": "Refuted",
                    "llm_output": "…",
                }
            ]
        )
    )
    (prediction,) = read_submission(path)
    assert prediction.evidence == [
        Evidence(question="Who?", answer="Her.", url="u"),
        Evidence(question="Why?", answer=""),
    ]


def test_unknown_labels_are_kept_and_other_errors(tmp_path: Path) -> None:
    path = tmp_path / "pred.json"
    path.write_text(
        '[\n{"claim_id": 0, "pred_label": null},\n{"claim_id": 1, "pred_label": "refuted"},\n'
        '{"claim_id": 2}\n]'
    )
    with pytest.raises(ClaimflowError) as caught:
        read_submission(path)
    assert f"{path}, line 4: record 3: this is no prediction" in str(caught.value)
    assert [(p.id, p.label) for p in read_submission(path, "skip")] == [("0", ""), ("1", "refuted")]
    with pytest.raises(ClaimflowError, match="unknown label 'No'"):
        write_csv(path, [one(label="No")])
    with pytest.raises(ClaimflowError, match="No submission"):
        read_submission(tmp_path / "none.json")
    path.write_text(" \n")
    with pytest.raises(ClaimflowError, match="is empty"):
        read_submission(path)
    path.write_text("id,claim\n0,A.\n")
    with pytest.raises(ClaimflowError, match="has no column evi, label"):
        read_submission(path)
    path.write_text("id, claim, evi, label, split\n")
    with pytest.raises(
        ClaimflowError, match=r"evi, label but ' evi' for evi, ' label' for label: its"
    ):
        read_submission(path)


def test_urls_with_null_and_whole_numbers_as_ids(tmp_path: Path) -> None:
    evidence = [{"question": "Who?", "answer": "Her.", "url": [None, "b"]}]
    record = {"claim_id": 3.0, "pred_label": "Refuted", "evidence": evidence}
    (tmp_path / "pred.json").write_text(json.dumps([record]))
    (prediction,) = read_submission(tmp_path / "pred.json")
    assert (prediction.id, prediction.evidence[0].url) == ("3", "b")
    (tmp_path / "pred.json").write_text(json.dumps([record | {"claim_id": 3.5}]))
    with pytest.raises(
        ClaimflowError, match="claim_id is a number, where a whole number or a text"
    ):
        read_submission(tmp_path / "pred.json")


def test_names_of_files_and_systems_may_have_colons(tmp_path: Path) -> None:
    for name in ("table", "p:colon"):
        path = tmp_path / name
        path.write_bytes(b"PAR1")
        assert named_system(f"{path}") == (path, None)
        assert named_system(f"{path}:a") == (path, "a")
        assert named_system(f"{path}:a:b") == (path, "a:b")
        assert whole_file(f"{path}", "submission") == path
        with pytest.raises(ClaimflowError, match="taken here, so leave ':a:b' out"):
            whole_file(f"{path}:a:b", "submission")
    with pytest.raises(ClaimflowError, match=r"No submission .*/none:a"):
        whole_file(f"{tmp_path}/none:a", "submission")


def test_forms_before_2024(tmp_path: Path) -> None:
    path = tmp_path / "pred.json"
    yes = {"answer": "Yes", "answer_type": "Boolean", "boolean_explanation": "It did."}
    questions = [
        {"question": "Is it?", "answers": [yes, {"answer": "So.", "source_url": "u"}]},
        {"question": "Who?", "answers": []},
        {"question": "Why?", "answers": "Because."},
    ]
    first = {"label": "Refuted", "questions": questions, "justification": "It is so."}
    texts = {"label": "Supported", "string_evidence": ["One.", "Two."]}
    path.write_text(json.dumps([first, texts]))
    one, two = read_submission(path)
    assert [(e.question, e.answer, e.url) for e in one.evidence] == [
        ("Is it?", "Yes. It did.", None),
        ("Is it?", "So.", "u"),
        ("Who?", "No answer could be found.", None),
        ("Why?", "Because.", None),
    ]
    assert (one.id, one.asked) == ("0", ["Is it?", "Who?", "Why?"])
    assert one.justification == "It is so."
    assert (two.id, two.label, two.asked) == ("1", "Supported", [])
    assert [(e.question, e.answer) for e in two.evidence] == [("", "One."), ("", "Two.")]
    flat = {"id": 3, "label": "Refuted", "evidence": ["A.", "B."]}
    named = {"predicted_label": "Supported", "predicted_evidence": ["C."]}
    path.write_text(f"{json.dumps(flat)}\n{json.dumps(named)}\n")
    one, two = read_submission(path)
    assert (one.id, [e.answer for e in one.evidence]) == ("3", ["A.", "B."])
    assert (two.id, [e.answer for e in two.evidence]) == ("1", ["C."])
    path.write_text('[{"id": 7, "label": "Refuted", "claim": "", "evidence": []}]')
    assert [p.id for p in read_submission(path)] == ["7"]
    path.write_text('[{"claim_id": 5, "label": "Refuted", "evidence": ["A."]}]')
    assert [p.id for p in read_submission(path)] == ["5"]
    path.write_text('[{"claim_id": 0, "outcome": "no"}]')
    with pytest.raises(ClaimflowError, match=r"no prediction: .*; its keys are claim_id, outcome"):
        read_submission(path)


QAS: list[Any] = [{"question": "Who?", "answer": "Her."}]


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        ({"claim_id": 0, "label": "refuted", "evidence": QAS}, "'label' for pred_label"),
        ({"claim_id": 0, "evidence": [], "verdict": "Refuted"}, "'verdict' for pred_label"),
        ({"claim_id": 0, "predicted_label": "Refuted", "evidence": QAS},
         "'predicted_label' for pred_label"),
        ({"id": 0, "prediction": "Refuted", "evidence": QAS},
         "'prediction' for pred_label and 'id' for claim_id"),
        ({"id": 0, "pred_label": "Refuted"}, "'id' for claim_id"),
    ],
)  # fmt: skip
def test_keys_under_other_names_are_named(tmp_path: Path, record: Any, wrong: str) -> None:
    path = tmp_path / "pred.json"
    path.write_text(json.dumps([record]))
    with pytest.raises(ClaimflowError, match=f"but for its keys, {wrong}: rename"):
        read_submission(path)
    mended = tmp_path / "mended.json"
    assert not lint(path, repaired=mended).errors
    (prediction,) = read_submission(mended)
    assert (prediction.id, prediction.label) == ("0", "Refuted")


WRAPPED = {"team": "us", "predictions": [{"claim_id": n, "pred_label": "Refuted"} for n in (0, 1)]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(WRAPPED, indent=1), "one JSON object .* its keys are team, predictions: the "
         "list of 2 under 'predictions' is what should stand there alone"),
        (json.dumps(WRAPPED), "the list of 2 under 'predictions'"),
        (json.dumps({str(n): {"pred_label": "Refuted"} for n in range(9)}, indent=1),
         "keys are 0, 1, 2, 3, 4, 5 and 3 more: write the objects under them as a list"),
        (json.dumps(WRAPPED["predictions"][0], indent=1), "it is one record, so put it into"),
        (json.dumps({"claim_id": 0}, indent=1) * 2, "objects over several lines each"),
        (json.dumps(WRAPPED, indent=1)[:-20], "one JSON object .* ends in: .*, line 1"),
        ("hello\nworld\n", "neither JSON, .* nor a CSV .* it begins with 'hello'"),
        ("id;claim;evi;label;split\n", "parted by ';': save it with commas"),
        ("id\tclaim\tevi\tlabel\n", r"parted by '\\t': save"),
        ("<!doctype html>", "neither JSON, .* it is a web page"),
        ("1 Q0 d 1 2.0 x\n", "neither JSON, .* a TREC run"),
        ("model,claim_id,doc_id,predicted_label\nm,1,2,NEI\n", "read as Parquet"),
        ("\x1f\x8b\x08", "is compressed"),
        ("PK\x03\x04", "is a ZIP archive"),
        ('{"id": 1, "label": "SUPPORTS", "evidence": [[[1, 2, "A", 3]]]}', "as in FEVER's gold"),
    ],
)  # fmt: skip
def test_files_that_are_something_else_are_one_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "pred.json"
    path.write_bytes(text.encode("latin-1"))
    bad: list[BadLine] = []
    with pytest.raises(ClaimflowError, match=said):
        read_submission(path)
    assert len(lint(path).errors) == 1
    if text.startswith("{"):
        assert (read_submission(path, "skip", bad), len(bad)) == ([], 1)


@pytest.mark.parametrize(
    ("rows", "cells"), [("1,a,b,c,d\n", 5), ('1,"a,Refuted\n', 2)], ids=["commas", "quote"]
)
def test_a_row_with_other_cells_than_the_header(tmp_path: Path, rows: str, cells: int) -> None:
    path = tmp_path / "pred.csv"
    path.write_text(f"id,evi,label\n{rows}")
    said = rf"line \d: the row of claim '1' has {cells} cells, and the header 3"
    with pytest.raises(ClaimflowError, match=said):
        read_submission(path)


def test_a_broken_line_is_no_object_over_several(tmp_path: Path) -> None:
    path = tmp_path / "pred.jsonl"
    line = json.dumps(WRAPPED["predictions"][1])
    for first in (line[:-1], line[:12], "{", '{"claim_id": 0,'):
        path.write_text(f"{first}\n{line}\n{line}\n")
        assert [p.id for p in read_submission(path, "skip")] == ["1", "1"]
    path.write_bytes(f"{line}\r{line}\r".encode())  # lines of an old Mac
    assert [p.id for p in read_submission(path)] == ["1", "1"]


def test_a_label_that_is_no_number_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "pred.json"
    path.write_text('[{"claim_id": 0, "pred_label": NaN}]')
    with pytest.raises(ClaimflowError, match="pred_label is NaN, which is no text"):
        read_submission(path)
    with pytest.raises(ClaimflowError, match="is a folder: name a file in it"):
        read_submission(tmp_path)


def test_positions_count_bad_records_too(tmp_path: Path) -> None:
    path = tmp_path / "pred.json"
    path.write_text('{"label": "Refuted", "questions": []}\n{oh\n{"label": "no", "questions": 1}\n'
                    '{"label": "Supported", "questions": []}\n')  # fmt: skip
    assert [(p.id, p.label) for p in read_submission(path, "skip")] == [
        ("0", "Refuted"),
        ("3", "Supported"),
    ]


def test_a_large_file_takes_the_memory_of_a_window(tmp_path: Path) -> None:
    """Two files, one four times the other: what is held at once is the same, and small."""
    code = """if True:
        import resource, sys
        from pathlib import Path
        from components.lint.check import lint
        from components.datasets.submission import read_submission
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = read_submission(Path(sys.argv[1]))
        assert not lint(Path(sys.argv[1])).errors
        print(len(found), (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    page = json.dumps({"question": "Who?", "answer": "Her.", "scraped_text": "é" * 10**6})
    peaks = []
    for claims in (10, 40):
        path = tmp_path / f"{claims}.json"
        with open(path, "w") as file:
            for n in range(claims):
                file.write("[" if n == 0 else ",\n")
                file.write(f'{{"claim_id": {n}, "pred_label": "Refuted", "evidence": [{page}]}}')
            file.write("]")
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
        )
        count, peak = map(int, done.stdout.split())
        assert count == claims
        peaks.append(peak)
    assert path.stat().st_size > 2e8
    assert max(peaks) < 150
    assert peaks[1] < peaks[0] + 40


def test_a_key_that_stands_twice_is_told(tmp_path: Path) -> None:
    line = '{"claim_id": 0, "claim": "A.", "evidence": [], "pred_label": "Refuted", %s}'
    for text in (line, f"[{line}]"):
        for more, told in (('"pred_label": "Supported"', 1), ('"pred_label": "Refuted"', 0)):
            warnings: list[str] = []
            (tmp_path / "pred.json").write_text(text % more)
            (found,) = read_submission(tmp_path / "pred.json", warnings=warnings)
            assert found.label == more.split('"')[3]  # the last, as json.load has it
            assert len(warnings) == told
    (tmp_path / "pred.json").write_text(line % '"pred_label": "Supported"')
    read_submission(tmp_path / "pred.json", warnings=warnings)
    assert "(line 1, 'pred_label')" in warnings[0]


def test_records_of_several_forms_are_told(tmp_path: Path) -> None:
    lines: list[Any] = [
        {"id": n, "predicted_label": "REFUTES", "predicted_evidence": [["A", 1]]} for n in range(2)
    ]
    for more, told in (([], 0), ([{"id": 2, "label": "Refuted", "evidence": ["Her."]}], 1)):
        warnings: list[str] = []
        (tmp_path / "pred.jsonl").write_text("\n".join(map(json.dumps, lines + more)))
        read_submission(tmp_path / "pred.jsonl", warnings=warnings)
        assert len(warnings) == told
    assert "FEVER (2, first in line 1), first EvalAI (1, first in line 3)" in warnings[0]
    assert "flows.lint" in warnings[0]


def test_an_answer_that_is_null_is_none_whatever_the_page_is_called(tmp_path: Path) -> None:
    qa = {"question": "Who?", "answer": None, "url": "u", "title": "A page", "date": "2020"}
    record = {"claim_id": 0, "claim": "", "evidence": [qa], "pred_label": "Refuted"}
    path = tmp_path / "team.json"
    path.write_text(json.dumps([record]))
    assert read_submission(path)[0].evidence[0].answer == ""
    for key in ("response", "answer_text", "answers"):
        path.write_text(json.dumps([{**record, "evidence": [{**qa, key: "The mayor."}]}]))
        with pytest.raises(ClaimflowError, match=f"no answer, and '{key}' in its place"):
            read_submission(path)
    del qa["answer"]
    path.write_text(json.dumps([{**record, "evidence": [{**qa, "found": "The mayor."}]}]))
    with pytest.raises(ClaimflowError, match="'found' in its place"):
        read_submission(path)


def test_files_may_be_named_by_texts(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"claim_id": 0, "pred_label": "Refuted", "evidence": []}]')
    assert [p.id for p in read_submission(str(tmp_path / "a.json"))] == ["0"]
    (tmp_path / "gold.qrels").write_text("1 0 b 1\n")
    assert [c.id for c in read_gold(str(tmp_path / "gold.qrels"))] == ["1"]
