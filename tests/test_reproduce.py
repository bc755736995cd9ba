"""`python -m flows.reproduce`: the same bytes again, or a list of what differs and why."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from components.errors import ClaimflowError
from components.records import Prediction, write_lines
from components.score.base import Measure
from flows.experiment import run
from flows.log import Log
from flows.record import RunRecord
from flows.reproduce import differences, main
from flows.tracking import waiting
from tests.tracking_parts import config_of, flow, settings, write_data

pytestmark = pytest.mark.xdist_group("reproduce")  # they share a tracked run


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce")
    write_data(folder / "data")
    return folder


@pytest.fixture(scope="module")
def old(place: Path) -> RunRecord:
    """A run of the default retrieval pipeline, in the tracker and on disk."""
    config = config_of(place, "name=first")
    record = run(config, Log(config, {"retriever": "tfidf"}))
    assert record.mlflow_run_id
    return record


@pytest.mark.slow
def test_identical_from_the_folder(
    place: Path, old: RunRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    main(config_of(place, f"run={old.id}", name="reproduce"))
    out = capsys.readouterr().out
    assert out == (
        f"Byte-identical: predictions and rankings of 3 claims, and all {len(old.measures)} "
        f"measures, of run {old.id}.\n"
    )
    assert waiting(place / "outputs") == []  # the new run is tracked as well


@pytest.mark.slow
@pytest.mark.parametrize("by", ["mlflow_run_id", "id"])
def test_identical_from_the_tracker_alone(
    place: Path, old: RunRecord, by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = [f"outputs={tmp_path}/elsewhere", f"run={getattr(old, by)}"]
    main(config_of(place, *where, name="reproduce"))
    assert capsys.readouterr().out.startswith("Byte-identical: ")


@pytest.mark.slow
def test_an_edited_document_is_named(
    place: Path, old: RunRecord, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(place / "data", tmp_path / "data")
    corpus = tmp_path / "data" / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("Moss grows", "Sand drifts"))
    where = [f"path={tmp_path}/data", f"run={old.id}"]
    with pytest.raises(ClaimflowError, match="was not reproduced"):
        main(config_of(place, *where, name="reproduce"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("claim 1: documents from number 1 on")
    why = lines[lines.index("What may be why:") + 1 :]
    assert [line for line in why if line.startswith("  data scifact documents: ")]
    assert not [line for line in why if "scifact dev" in line or "code" in line]


@pytest.mark.slow
def test_on_the_command_line(place: Path, old: RunRecord) -> None:
    done = flow("reproduce", *settings(place), f"run={old.id}", "fresh=false")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Byte-identical: ")
    for arguments, message in {
        (): "error: Which run? Give run=ID (of the MLflow page or of a run folder).",
        ("run=nope",): f"error: No run nope below {place}/outputs/ or in sqlite:///{place}",
    }.items():
        done = flow("reproduce", *settings(place), *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith(message)


def test_help_is_quick_and_shows_the_settings() -> None:
    done = flow("reproduce", "--help")
    assert "run: null" in done.stdout
    assert "fresh: true" in done.stdout


def test_runs_without_results_are_one_line(place: Path) -> None:
    config = config_of(place, "tracking=none", f"outputs={place}/others")
    failed = Log(config)
    with pytest.raises(ZeroDivisionError), failed:
        _ = 1 / 0
    sweep = Log(config)
    sweep.record.children = [failed.record.id]
    with sweep:
        pass
    with Log(config) as bare:
        pass
    lost = r"lost predictions\.jsonl and rankings\.jsonl, .*: remove .* to take the run from the"
    for log, message in (
        (bare, lost),
        (failed, "was failed: it has no results"),
        (sweep, f"is a sweep: reproduce its runs, {failed.record.id}"),
    ):
        where = [f"outputs={place}/others", f"run={log.record.id}"]
        with pytest.raises(ClaimflowError, match=message):
            main(config_of(place, *where, name="reproduce"))


def test_differences_name_claim_and_field(tmp_path: Path) -> None:
    def folder(name: str, labels: dict[str, str], ranking: list[object]) -> Path:
        predictions = [
            Prediction(id=i, claim="c", evidence=[], label=label) for i, label in labels.items()
        ]
        write_lines(tmp_path / name / "predictions.jsonl", predictions)
        write_lines(tmp_path / name / "rankings.jsonl", [{"id": "1", "documents": ranking}])
        return tmp_path / name

    first = folder("a", {"1": "Refuted", "2": "Supported"}, [["x", 2.0], ["y", 1.0]])
    assert (
        differences(
            first, folder("same", {"1": "Refuted", "2": "Supported"}, [["x", 2.0], ["y", 1.0]])
        )
        == []
    )
    assert differences(first, folder("label", {"1": "Supported", "3": ""}, [["x", 2.0]])) == [
        "claim 1: label Refuted then, Supported now",
        "claim 2: in predictions.jsonl of the old run only",
        "claim 3: in predictions.jsonl of the new run only",
        "claim 1: documents from number 2 on",
    ]
    swapped = folder("swap", {"2": "Supported", "1": "Refuted"}, [["x", 2.0], ["y", 1.0]])
    assert differences(first, swapped) == ["predictions.jsonl: the order of the claims"]
    assert json.loads((first / "rankings.jsonl").read_text())["documents"][0] == ["x", 2.0]


def test_another_measure_is_a_difference() -> None:
    from flows.reproduce import changed_measures

    then, now = RunRecord(id="a", name="a"), RunRecord(id="b", name="b")
    then.measures = {"q": Measure(value=0.5), "qa": Measure(value=0.5, low=0.1, high=0.9)}
    now.measures = {"q": Measure(value=0.5), "qa": Measure(value=0.25, low=0.1, high=0.9)}
    assert changed_measures(then, now) == ["measure qa: 0.500000 then, 0.250000 now"]
    assert changed_measures(then, then) == []
