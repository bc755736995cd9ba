"""`python -m flows.score` as a user calls it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hydra
import pytest

from components.datasets.gold import read_gold
from components.errors import ClaimflowError
from components.score.base import Measure, Scores
from flows.cli import CONF
from flows.resolvers import register
from flows.score import show
from tests.conftest import command

register()
GOLD = [
    {
        "claim": "The city banned cars.",
        "label": "Refuted",
        "claim_types": ["Event/Property Claim"],
        "questions": [
            {
                "question": "Did the city ban the cars?",
                "answers": [
                    {
                        "answer": "Yes",
                        "answer_type": "Boolean",
                        "boolean_explanation": "The city introduced the ban in May.",
                    }
                ],
            },
            {
                "question": "How much is the fine?",
                "answers": [
                    {"answer": "The fine is 40 crowns.", "answer_type": "Extractive"},
                    {"answer": "It is 80 crowns.", "answer_type": "Abstractive"},
                ],
            },
            {"question": "Who proposed the ban?", "answers": []},
        ],
    }
]
QAS = [("Did the city ban the cars?", "Yes"), ("How much is the fine?", "The fine is 40 crowns.")]


def flow(
    folder: Path, *arguments: str, python: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    cache = str(folder / "cache")
    if not python:
        return command("flows.score", *arguments, CLAIMFLOW_CACHE=cache)
    return subprocess.run(
        [sys.executable, *python, "-m", "flows.score", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "CLAIMFLOW_CACHE": cache},
        check=False,
    )


def score_file(folder: Path, *settings: str) -> dict[str, Any]:
    """`flows.score` in this process."""
    from flows.score import score

    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return score(hydra.compose("score", [*settings, f"cache={folder}/cache"]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    evidence = [{"question": q, "answer": a, "url": ""} for q, a in QAS]
    record = {"claim_id": 0, "claim": "", "evidence": evidence, "pred_label": "Refuted"}
    (tmp_path / "team.json").write_text(json.dumps([record]))
    return tmp_path


def test_2024_json_is_scored_once(folder: Path) -> None:
    arguments = [f"predictions={folder}/team.json", f"gold={folder}/gold.json"]
    done = flow(folder, *arguments, f"out={folder}/out.json", python=["-X", "importtime"])
    assert done.returncode == 0, done.stderr
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"nltk", "pyarrow.compute"} <= loaded  # what takes long to import, and is not needed:
    unwanted = {"pandas", "scipy.optimize", "sklearn.base", "torch", "mlflow", "prefect"}
    assert unwanted & loaded == set()
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["name"] == "team"
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)
    assert run["measures"]["q"]["value"] == pytest.approx(0.665409, abs=5e-7)
    assert set(run["measures"]["qa"]) == {"value", "low", "high"}
    assert run["cache"] == {"hits": 0, "misses": 1}
    assert "0.3590" in done.stdout
    again = flow(folder, *arguments, f"out={folder}/again.json")
    assert again.stdout == done.stdout
    (second,) = json.loads((folder / "again.json").read_text())
    assert second["cache"] == {"hits": 1, "misses": 0}
    assert second["measures"] == run["measures"]


def test_2025_csv(folder: Path) -> None:
    cell = "".join(f"{q}\t\t\n{a}\t\t\n\n" for q, a in QAS)
    (folder / "team.csv").write_text(f'id,claim,evi,label,split\n0,c,"{cell}",Refuted,pred\n')
    done = flow(
        folder,
        f"predictions={folder}/team.csv",
        f"gold={folder}/gold.json",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)


def test_first_script_by_its_scorer(folder: Path) -> None:
    questions = [{"question": q, "answers": [{"answer": a}]} for q, a in QAS]
    record = {"label": "Refuted", "questions": questions, "justification": "the cat sat"}
    (folder / "first.json").write_text(json.dumps([record]))
    (folder / "gold.json").write_text(json.dumps([{**GOLD[0], "justification": "the cat sat"}]))
    done = flow(
        folder,
        f"predictions={folder}/first.json",
        f"gold={folder}/gold.json",
        "scorer=averitec_legacy",
        "scorer.official=true",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)
    assert run["measures"]["justification"]["value"] == pytest.approx(0.981481, abs=5e-7)
    assert any("quirk" in note for note in run["notes"])


def test_first_evalai_page(folder: Path) -> None:
    texts = [
        "Did the city ban the cars? Yes. The city introduced the ban in May.",
        "How much is the fine? The fine is 40 crowns.",
        "How much is the fine? It is 80 crowns.",
        "Who proposed the ban? No answer could be found.",
    ]
    (folder / "gold.json").write_text(
        json.dumps([{"id": 0, "label": "Refuted", "evidence": texts}])
    )
    record = {"label": "Refuted", "evidence": [" ".join(pair) for pair in QAS]}
    (folder / "first.jsonl").write_text(json.dumps(record) + "\n")
    done = flow(
        folder,
        f"predictions={folder}/first.jsonl",
        f"gold={folder}/gold.json",
        "scorer=averitec_legacy",
        "scorer.first=null",
        "scorer.levels=[0.2,0.25,0.3]",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["qa"]["value"] == pytest.approx(0.358987, abs=5e-7)
    assert run["measures"]["score_at_0.30"]["value"] == 1


def test_csv_solution_as_gold(folder: Path) -> None:
    cell = "".join(f"{q}\t\t\n{a}\t\t\n\n" for q, a in QAS)
    (folder / "gold.csv").write_text(f'id,claim,evi,label,split\n0,c,"{cell}",Refuted,gold\n')
    (claim,) = read_gold(folder / "gold.csv")
    assert claim.label == "Refuted"
    assert [(q.question, q.answers[0].answer) for q in claim.questions] == QAS


def test_a_bad_prediction_stops_or_costs_itself_alone(folder: Path) -> None:
    (record,) = json.loads((folder / "team.json").read_text())
    odd = [{"claim_id": n} for n in range(1, 100)]
    (folder / "team.json").write_text(json.dumps([record, *odd]))
    (folder / "gold.json").write_text(json.dumps(GOLD * 2))
    arguments = [f"predictions={folder}/team.json", f"gold={folder}/gold.json"]
    stopped = flow(folder, *arguments)
    assert stopped.returncode == 1
    assert "record 2: this is no prediction" in stopped.stderr
    skipped = flow(folder, *arguments, "on_error=skip", f"out={folder}/out.json")
    assert skipped.returncode == 0, skipped.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["accuracy"]["value"] == 0.5
    assert run["notes"][0] == "Claims without prediction, counted as wrong (1): 1."
    note = run["notes"][-1]
    assert note.startswith("Skipped, as they can't be read (99): ")
    assert note.endswith("; and 96 more (out=FILE.json has all).")
    assert note.count("this is no prediction") == skipped.stdout.count("this is no") == 3
    assert len(run["skipped"]) == 99
    assert run["skipped"][98]["reason"].startswith("record 100: this is no prediction")


def test_unknown_labels_and_repeated_ids_are_the_scorers(folder: Path) -> None:
    (record,) = json.loads((folder / "team.json").read_text())
    odd = {**record, "claim_id": 1, "pred_label": "Refutd"}
    empty = {**record, "claim_id": 2, "pred_label": None}
    again = {**record, "pred_label": "Supported"}
    (folder / "team.json").write_text(json.dumps([record, odd, empty, again]))
    (folder / "gold.json").write_text(json.dumps(GOLD * 3))
    run = score_file(folder, f"predictions={folder}/team.json", f"gold={folder}/gold.json")
    assert run["measures"]["accuracy"].value == pytest.approx(1 / 3)  # of a repeated id the first
    assert run["measures"]["qa"].value == pytest.approx(0.358987, abs=5e-7)  # as its evidence is
    assert run["notes"][:2] == [
        "Predictions passed over, repeating an id (1): 0.",
        "Predictions counted as wrong, with a label that AVeriTeC does not have (2): "
        "1 'Refutd' Did you mean 'Refuted'?, 2 (none).",
    ]


def test_gold_files_that_are_none(folder: Path) -> None:
    (folder / "empty").write_text(" \n")
    (folder / "bad.json").write_text('[{"label": "Refuted"}]')
    for name, message in {
        "none": "No gold file",
        "empty": "is empty",
        "bad.json": "bad.json, line 1: .*claim",
    }.items():
        with pytest.raises(ClaimflowError, match=message):
            read_gold(folder / name)


def test_trec_run_against_qrels(folder: Path) -> None:
    (folder / "bm25.run").write_text("1 Q0 a 1 3.0 x\n1 Q0 b 2 2.0 x\n")
    (folder / "gold.qrels").write_text("1 0 b 1\n2 0 a 1\n")
    done = flow(
        folder,
        f"rankings={folder}/bm25.run",
        f"gold={folder}/gold.qrels",
        "scorer=retrieval",
        f"out={folder}/out.json",
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((folder / "out.json").read_text())
    assert run["measures"]["mrr"]["value"] == 0.25
    assert "Claims without ranking, counted 0 (1): 2." in done.stdout
    (folder / "far.run").write_text("1 Q0 a 1 2.0 x\n1 Q0 b 2 3.0 x\n")  # distances
    settings = [f"gold={folder}/gold.qrels", "scorer=retrieval"]
    notes = score_file(folder, f"rankings={folder}/far.run", *settings)["notes"]
    assert notes[0].startswith("In every ranking (1) the score rises with the rank")


def test_mistakes_are_one_line(folder: Path) -> None:
    gold = f"gold={folder}/gold.json"
    for arguments, message in {
        (): "error: Which file of predictions? Say predictions=FILE.",
        ("predictions=none.json", gold): "there is no such file",
        (f"predictions={folder}", gold): "is a folder: name a file in it",
        (f"predictions={folder}/team.json",): "error: Which file of gold? Say gold=FILE.",
        ("scorer=retrieval", gold): "error: Which file of rankings? Say rankings=FILE.",
        ("scorer=averitec2024", gold): "Did you mean 'averitec_2024'?",
    }.items():
        done = flow(folder, *arguments)
        assert done.returncode == 1
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_help_is_quick() -> None:
    start = time.perf_counter()
    done = command("flows.score", "--help", fresh=True)
    assert time.perf_counter() - start < 2
    assert "averitec_2024" in done.stdout
    assert "predictions: null" in done.stdout


def write_lines(path: Path, *records: object) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.mark.parametrize("evidence", [[["Moss", 3]], []])
def test_fever_with_labels_of_averitec_is_scored_as_fever(
    folder: Path, evidence: list[object]
) -> None:
    gold = write_lines(
        folder / "fever.jsonl",
        {"id": 1, "label": "SUPPORTS", "claim": "a", "evidence": [[[1, 2, "Moss", 3]]]},
        {"id": 2, "label": "NOT ENOUGH INFO", "claim": "b", "evidence": []},
    )
    said = write_lines(
        folder / "said.jsonl",
        {"id": 1, "predicted_label": "Supported", "predicted_evidence": evidence},
        {"id": 2, "predicted_label": "Not Enough Evidence", "predicted_evidence": []},
    )
    run = score_file(folder, f"predictions={said}", f"gold={gold}", "scorer=fever")
    assert run["measures"]["fever"].value == 0
    assert any("a label that FEVER does not have (2)" in note for note in run["notes"])


def test_fever_submission(folder: Path) -> None:
    gold = write_lines(
        folder / "fever.jsonl",
        {"id": 1, "label": "SUPPORTS", "claim": "a", "evidence": [[[1, 2, "Moss", 3]]]},
        {"id": 2, "label": "REFUTES", "claim": "b", "evidence": [[[1, 2, "Fern", 0]]]},
        {"id": 3, "label": "NOT ENOUGH INFO", "claim": "c", "evidence": [[[1, None, None, None]]]},
    )
    said = write_lines(
        folder / "said.jsonl",
        {"id": 3, "predicted_label": "NOT ENOUGH INFO", "predicted_evidence": []},
        {"id": 1, "predicted_label": "SUPPORTS", "predicted_evidence": [["Moss", 3], ["Moss", 4]]},
        {"id": 2, "predicted_label": "REFUTED", "predicted_evidence": [["Fern", 0]]},
        {"id": 7, "predicted_label": "REFUTES", "predicted_evidence": []},
    )
    arguments = [f"predictions={said}", f"gold={gold}", "scorer=fever"]
    run = score_file(folder, *arguments, "official=true")
    found = {name: measure.value for name, measure in run["measures"].items()}
    assert found == pytest.approx(
        {
            "fever": 2 / 3,
            "accuracy": 2 / 3,
            "evidence_precision": 3 / 4,
            "evidence_recall": 1,
            "evidence_f1": 6 / 7,
        }
    )
    assert run["notes"][:2] == [
        "Predictions passed over, for no gold claim (1): 7.",
        "Predictions counted as wrong, with a label that FEVER does not have (1): "
        "2 'REFUTED' Did you mean 'REFUTES'?.",
    ]


def test_scifact_submission_by_two_scorers(folder: Path) -> None:
    gold = write_lines(
        folder / "sci.jsonl",
        {"id": 1, "claim": "a", "evidence": {"7": [{"sentences": [1], "label": "SUPPORT"}]}},
        {"id": 2, "claim": "b", "evidence": {}, "cited_doc_ids": [8]},
    )
    said = write_lines(
        folder / "said.jsonl",
        {"id": 2, "evidence": {"8": {"label": "CONTRADICT", "sentences": [0]}}},
        {"id": 1, "evidence": {"7": {"label": "SUPPORT", "sentences": [2, 1]}}},
    )
    for scorer, name, setting, value in (
        ("scifact", "abstract_rationalized_f1", "scorer.oracle=null", 2 / 3),
        ("scifact", "abstract_rationalized_f1", "scorer.oracle=abstracts", 1),
        ("scifact_open", "abstract_f1", "official=true", 2 / 3),
    ):
        arguments = [f"predictions={said}", f"gold={gold}", f"scorer={scorer}", setting]
        done = flow(folder, *arguments, f"out={folder}/out.json", f"to={folder}/tables")
        assert done.returncode == 0, done.stderr
        (run,) = json.loads((folder / "out.json").read_text())
        assert run["measures"][name]["value"] == pytest.approx(value)
        assert (folder / "tables" / "confusion.csv").is_file()
    assert "there is no average precision" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    "scorer",
    [p.stem for p in sorted((CONF / "scorer").glob("*.yaml")) if "\nofficial:" in p.read_text()],
)
def test_official_reaches_every_scorer(scorer: str) -> None:
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        for said in (True, False):
            config = hydra.compose("score", [f"scorer={scorer}", f"official={said}"])
            assert config.scorer.official is said


def test_no_name_is_cut_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from components.report.table import HEADINGS

    monkeypatch.setenv("COLUMNS", "80")
    measures = {name: Measure(value=0.5, low=0.25, high=0.75) for name in HEADINGS}
    rows = [{"id": "1", "q": 0.5}, {"id": "2", "q": None}]
    show("all", Scores(measures=measures, per_claim=rows))
    printed = capsys.readouterr().out
    assert all(f" {name} " in printed for name in HEADINGS)
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80
    assert "Conflicting /" in printed
    assert "Over 1 of 2 claims: q." in printed


# What would give a figure that means nothing


@pytest.mark.parametrize("form", ["json", "csv", "qrels"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252", "utf-16-le"])
def test_other_encodings_give_the_same_or_stop(folder: Path, form: str, encoding: str) -> None:
    if form == "qrels":
        said, gold = "1 Q0 é 1 1.0 x\n", "1 0 é 1\n"
        settings = ["scorer=retrieval", f"rankings={folder}/said"]
    else:
        said, gold = ((folder / f"{name}.json").read_text() for name in ("team", "gold"))
        if form == "csv":
            cell = "".join(f"{q}\t\t\n{a}\t\t\n\n" for q, a in QAS)
            said = f'id,claim,evi,label,split\n0,,"{cell}",Refuted,pred\n'
        settings = [f"predictions={folder}/said"]
    settings.append(f"gold={folder}/gold")
    for name, text in {"said": said, "gold": gold}.items():
        text = text.replace("fine", "fiancé")
        (folder / name).write_text(text, encoding="utf-8", newline="")
    right = score_file(folder, *settings)["measures"]
    for name in ("said", "gold"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept.decode().encode(encoding))
        if encoding in ("utf-8-sig", "utf-16"):
            assert score_file(folder, *settings)["measures"] == right
        else:
            with pytest.raises(ClaimflowError, match=rf"/{name}, line \d: .* the file as UTF-8"):
                score_file(folder, *settings)
        (folder / name).write_bytes(kept)


def test_ids_that_match_nothing_and_files_that_hold_nothing_stop(folder: Path) -> None:
    gold = f"gold={folder}/gold.json"
    (record,) = json.loads((folder / "team.json").read_text())
    for content, message in {
        json.dumps([record | {"claim_id": n} for n in range(700, 705)]): (
            "None of the 5 predictions has the id of a gold claim: theirs are 700, 701, 702 and 2 "
            "more, those of the gold claims 0. Give the gold file"
        ),
        "[]": "team.json holds no prediction that can be read",
        "[3]": "team.json holds no prediction that can be read: .*record 1: .* an object is due",
    }.items():
        (folder / "team.json").write_text(content)
        with pytest.raises(ClaimflowError, match=message):
            score_file(folder, f"predictions={folder}/team.json", gold, "on_error=skip")
    (folder / "a.run").write_text("9 Q0 a 1 1.0 x\n")
    (folder / "a.qrels").write_text("1 0 a 1\n")
    settings = [f"rankings={folder}/a.run", f"gold={folder}/a.qrels", "scorer=retrieval"]
    with pytest.raises(ClaimflowError, match=r"None of the 1 rankings has the id .* 9, .* 1\."):
        score_file(folder, *settings)


@pytest.mark.parametrize("setting", ["official=true", "scorer.official=true"])
def test_ties_are_said_to_stand_in_one_order(folder: Path, setting: str) -> None:
    """As the scorer took them, whichever way it was told."""
    (folder / "a.run").write_text("1 Q0 a 1 1.0 x\n1 Q0 b 2 1.0 x\n")
    (folder / "a.qrels").write_text("1 0 a 1\n")
    settings = [f"rankings={folder}/a.run", f"gold={folder}/a.qrels", "scorer=retrieval"]
    tied = "documents of one score (1 claims: 1) are ordered by"
    run = score_file(folder, *settings)
    assert (run["measures"]["mrr"].value, run["official"]) == (1, False)
    assert run["notes"] == [f"In the run {tied} their rank; official=true: by id."]
    run = score_file(folder, *settings, setting)
    assert (run["measures"]["mrr"].value, run["official"]) == (0.5, True)
    assert run["notes"] == [f"Official quirk: {tied} id, from the last, as trec_eval does."]


def test_evidence_that_is_missing_is_noted(folder: Path) -> None:
    (record,) = json.loads((folder / "team.json").read_text())
    (folder / "gold.json").write_text(json.dumps(GOLD * 2))
    records = [record | {"evidence": []}, record | {"claim_id": 1}]
    (folder / "team.json").write_text(json.dumps(records))
    settings = [f"predictions={folder}/team.json", f"gold={folder}/gold.json"]
    notes = score_file(folder, *settings)["notes"]
    assert "Predictions without evidence, which scores 0 (1 of 2): 0." in notes
    gold = write_lines(
        folder / "fever.jsonl",
        {"id": 1, "label": "SUPPORTS", "claim": "a", "evidence": [[[1, 2, "Moss", 3]]]},
    )
    said = write_lines(
        folder / "said", {"id": 1, "predicted_label": "REFUTES", "predicted_evidence": []}
    )
    notes = score_file(folder, f"predictions={said}", f"gold={gold}", "scorer=fever")["notes"]
    assert "Predictions of SUPPORTS or REFUTES without evidence (1 of 1): 1." in notes
    gold = write_lines(
        folder / "sci.jsonl",
        {"id": 1, "claim": "a", "evidence": {"7": [{"sentences": [1], "label": "SUPPORT"}]}},
    )
    said = write_lines(folder / "said", {"id": 1, "evidence": {"7": {"label": "NEI"}}})
    for scorer in ("scifact", "scifact_open"):
        settings = [f"predictions={said}", f"gold={gold}", f"scorer={scorer}"]
        notes = score_file(folder, *settings)["notes"]
        assert "No prediction labels a document: all are without evidence (NEI)." in notes


def test_a_run_writes_measures_without_a_value_as_null(tmp_path: Path) -> None:
    from flows.record import new_record, public

    record = new_record("x", {})
    record.measures, record.unmeasured = {"qa": Measure(value=0.5)}, {"ev2r_qa": "no judge"}
    written = public(record, tmp_path)["measures"]
    assert written["ev2r_qa"] == {"value": None, "reason": "no judge"}
    assert written["qa"].value == 0.5


def test_the_gold_file_as_predictions_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [f"predictions={folder}/gold.json", f"gold={folder}/gold.json"]
    run = score_file(folder, *settings)
    assert len(run["warnings"]) == 1
    assert "this is the gold file" in run["warnings"][0]
    scores = Scores(measures=run["measures"], warnings=run["warnings"])
    show("gold", scores)
    assert capsys.readouterr().out.startswith("warning: The predictions have the gold label")
    settings[0] = f"predictions={folder}/team.json"
    assert not score_file(folder, *settings)["warnings"]
    cell = "".join(f"{q}\t\t\r{a}\t\t\r\r" for q, a in QAS)  # with the lines of an old Mac
    row = f'id,claim,evi,label,split\r0,,"{cell}",Refuted,gold\r'
    (folder / "marked.csv").write_text(row, newline="")
    settings[0] = f"predictions={folder}/marked.csv"
    (warning,) = score_file(folder, *settings)["warnings"]
    assert warning.startswith("1 of 1 rows of marked.csv have split 'gold'")
    found = {"label": "SUPPORT", "sentences": [1]}
    claims = ({"id": n, "claim": "a", "evidence": {"7": [found]}} for n in range(10))
    gold = write_lines(folder / "sci", *claims)
    for docs, times in (({"7": found}, 1), ({"7": found, "8": found}, 0)):
        said = write_lines(folder / "said", *({"id": n, "evidence": docs} for n in range(10)))
        settings = [f"predictions={said}", f"gold={gold}", "scorer=scifact"]
        assert len(score_file(folder, *settings)["warnings"]) == times
