"""`python -m flows.compare` as a user calls it: files, folders, MLflow ids, and any mix."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hydra import compose, initialize_config_dir

from components.errors import ClaimflowError
from components.report.compare import Point
from flows.cli import CONF
from flows.compare import _is_trec, main, read
from flows.contrast import differing, fill
from flows.resolvers import register
from flows.tracking import connect
from tests.conftest import DATA, command
from tests.tracking_parts import flow, settings, write_data

pytestmark = pytest.mark.xdist_group("compare")  # they share a tracked sweep

LABELS = ("Supported", "Refuted", "Not Enough Evidence", "Supported")
GOLD = [
    {
        "claim": f"Claim {i}, on the dam.",
        "label": label,
        "claim_types": ["Event/Property Claim"] if i else ["Causal Claim"],
        "questions": [
            {
                "question": f"What became of dam {i}?",
                "answers": [
                    {"answer": f"Dam {i} broke in the flood.", "answer_type": "Abstractive"}
                ],
            }
        ],
    }
    for i, label in enumerate(LABELS)
]


def submission(guesses: tuple[str, ...], answer: str) -> list[dict[str, Any]]:
    return [
        {
            "claim_id": i,
            "claim": "",
            "evidence": [{"question": f"What became of dam {i}?", "answer": answer, "url": ""}],
            "pred_label": label,
        }
        for i, label in enumerate(guesses)
    ]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gold, two submissions, and a tracked sweep over two retrievers."""
    folder = tmp_path_factory.mktemp("compare")
    write_data(folder / "data")
    (folder / "gold.json").write_text(json.dumps(GOLD))
    (folder / "good.json").write_text(json.dumps(submission(LABELS, "The dam broke.")))
    (folder / "poor.json").write_text(json.dumps(submission(("Refuted",) * 4, "Nobody knows.")))
    keep = [word for word in settings(folder) if not word.startswith("retriever=")]
    done = flow("experiment", "-m", *keep, "retriever=tfidf,bm25s", f"out={folder}/sweep.json")
    assert done.returncode == 0, done.stderr
    return folder


def places(folder: Path) -> list[str]:
    """Where everything lies; a comparison needs no data set."""
    return [w for w in settings(folder) if w.startswith(("cache", "outputs", "tracking"))]


def config(place: Path, *more: str) -> Any:
    register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("compare", overrides=[*places(place), *more])


def result(place: Path, *more: str) -> dict[str, Any]:
    main(config(place, f"out={place}/out.json", "draws=100", *more))
    found: dict[str, Any] = json.loads((place / "out.json").read_text())
    return found


def test_files_of_predictions(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = result(place, f"runs=[{place}/poor.json,{place}/good.json]", f"gold={place}/gold.json")
    assert [run["name"] for run in found["runs"]] == ["good", "poor"]
    assert found["primary"] == "score_at_0.25"
    assert found["runs"][0]["measures"]["accuracy"]["value"] == 1
    pair = next(p for p in found["pairs"] if p["measure"] == "accuracy")
    assert (pair["value"], pair["p_randomisation"]) == (0.75, 4 / 16)
    assert found["runs"][1]["confusion"] == {
        "gold": ["Supported", "Refuted", "Not Enough Evidence"],
        "predicted": ["Supported", "Refuted", "Not Enough Evidence"],
        "counts": [[0, 2, 0], [0, 1, 0], [0, 1, 0]],
    }
    printed = capsys.readouterr().out
    assert "good is ahead of poor on AVeriTeC score @ 0.25" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 100
    assert found["baseline"]["label"] == "Supported"
    assert found["baseline"]["measures"]["accuracy"]["value"] == 0.5
    page = (Path(found["folder"]) / "report.html").read_text()
    assert "Claim 2, on the dam." in page
    assert "Dam 2 broke in the flood." in page  # gold evidence beside that of both
    assert "Nobody knows." in page
    assert "good has the better evidence (4)" in page
    assert "By claim type" in page
    (group,) = (g for g in found["groups"] if (g["group"], g["measure"]) ==
                ("Event/Property Claim", "accuracy"))  # fmt: skip
    assert (group["claims"], group["values"]) == (3, {"good": 1, "poor": 1 / 3})
    assert group["difference"] == {"value": pytest.approx(2 / 3)}  # of few claims no interval


def test_out_files_and_names(place: Path) -> None:
    """What flows.score wrote holds all that is needed: no gold, no predictions."""
    for name in ("good", "poor"):
        done = flow("score", f"predictions={place}/{name}.json", f"gold={place}/gold.json",
                    f"out={place}/scored-{name}.json", f"cache={place}/cache")  # fmt: skip
        assert done.returncode == 0, done.stderr
    runs = f"runs={{ours: {place}/scored-good.json, theirs: {place}/scored-poor.json}}"
    found = result(place, runs, "primary=f1_macro", "name=ours or theirs")
    direct = result(place, f"runs=[{place}/good.json,{place}/poor.json]",
                    f"gold={place}/gold.json", "primary=f1_macro")  # fmt: skip
    assert found["name"] == "Comparison of ours or theirs"
    assert [run["name"] for run in found["runs"]] == ["ours", "theirs"]
    assert [r["measures"] for r in found["runs"]] == [r["measures"] for r in direct["runs"]]
    values = ("value", "low", "high", "p_bootstrap", "p_randomisation", "detectable")
    assert [[p[k] for k in values] for p in found["pairs"]] == [
        [p[k] for k in values] for p in direct["pairs"]
    ]
    page = (Path(found["folder"]) / "report.html").read_text()
    assert "Claim 2, on the dam." in page
    renamed = {"good": "ours", "poor": "theirs"}
    assert found["groups"] == [
        g | {"values": {renamed[name]: value for name, value in g["values"].items()}}
        for g in direct["groups"]
    ]


def test_files_scored_by_other_rules_are_told(place: Path) -> None:
    done = flow("score", f"predictions={place}/good.json", f"gold={place}/gold.json",
                f"out={place}/official.json", f"cache={place}/cache", "official=true")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = result(
        place, f"runs=[{place}/official.json,{place}/poor.json]", f"gold={place}/gold.json"
    )
    assert any(n.startswith("Scored with official=true: good;") for n in found["notes"])
    alike = result(place, f"runs=[{place}/good.json,{place}/poor.json]", f"gold={place}/gold.json")
    assert not any("official" in note for note in alike["notes"])


def test_what_scoring_took_is_no_cost_of_a_system(place: Path) -> None:
    """Of files of predictions and of what flows.score wrote, beside runs of a pipeline."""
    done = flow("score", f"predictions={place}/good.json", f"gold={place}/gold.json",
                f"out={place}/timed.json", f"cache={place}/cache")  # fmt: skip
    assert done.returncode == 0, done.stderr
    given = [f"{place}/timed.json", f"{place}/poor.json", f"{place}/sweep.json"]
    *files, one, two = read(given, config(place, f"gold={place}/gold.json"))
    assert [(p.seconds, p.cache, p.compute) for p in files] == [({}, {}, {})] * 2
    assert all(p.seconds and p.cache and p.compute for p in (one, two))


def test_what_the_scorer_noted_is_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file scored now; its submission lacks a claim."""
    (place / "lacking.json").write_text(json.dumps(submission(LABELS, "The dam broke.")[1:]))
    runs = f"runs=[{place}/poor.json,{place}/lacking.json]"
    found = result(place, runs, f"gold={place}/gold.json", "primary=accuracy")
    noted = "Claims without prediction, counted as wrong (1): 0."
    assert [noted in run["notes"] for run in found["runs"]] == [True, False]
    assert f"lacking: {noted}" in capsys.readouterr().out


def test_a_trec_run_is_told_in_any_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "a.run").write_bytes("\n1 Q0 a 1 1.0 x\n".encode(encoding))
        assert _is_trec(tmp_path / "a.run")


def test_the_gold_file_among_the_runs_is_told_first(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = result(place, f"runs=[{place}/good.json,{place}/gold.json]", f"gold={place}/gold.json")
    lines = capsys.readouterr().out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("Comparison of"))
    assert lines[start + 2].startswith("gold: The predictions have the gold label and the gold")
    assert "this is the gold file" in (Path(found["folder"]) / "report.md").read_text()[:400]


def test_a_sweep_by_any_name(place: Path) -> None:
    """Its out= file, its MLflow id, its points' ids, its folder: the same runs."""
    points = json.loads((place / "sweep.json").read_text())
    client, experiment = connect(config(place))
    ids = [point["mlflow_run_id"] for point in points]
    parent = client.get_run(ids[0]).data.tags["mlflow.parentRunId"]
    folder = client.get_run(parent).data.tags["claimflow.id"]
    for given in (
        [f"{place}/sweep.json"], [parent], ids, [folder], [f"{place}/outputs/{folder}"],
    ):  # fmt: skip
        runs = read(given, config(place))
        assert [run.axes for run in runs] == [{"retriever": "tfidf"}, {"retriever": "bm25s"}]
        assert all(len(run.per_claim) == 3 for run in runs)
        assert all(run.compute for run in runs)
        assert {run.data for run in runs} == {"scifact dev"}
        assert runs[0].texts["1"] == "Moss stays green in winter."
    away = config(place, f"outputs={place}/elsewhere")  # from the tracker alone
    assert [run.measures for run in read([parent], away)] == [run.measures for run in runs]
    assert experiment


def test_points_of_a_sweep_by_given_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = json.loads((place / "sweep.json").read_text())
    runs = f"runs={{baseline: {one['folder']}, ours: {other['folder']}}}"
    found = result(place, runs, "primary=mrr", "pair=[ours,baseline]")
    assert {run["name"] for run in found["runs"]} == {"baseline", "ours"}
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"(baseline|ours) (is ahead of|and) (ours|baseline) (are level )?on", printed)
    assert found["differs"] == [
        {"setting": "retriever", "values": {"baseline": "tfidf", "ours": "bm25s"}}
    ]
    assert re.search(r"They differ in retriever \((tfidf – bm25s|bm25s – tfidf)\): see", printed)
    text = (Path(found["folder"]) / "report.md").read_text()
    assert re.search(
        r"(?m)^\| choice or setting +\| (baseline +\| ours|ours +\| baseline) +\|$", text
    )
    assert len(re.findall(r"(?m)^\| retriever ", text)) == 1


ENCODER = {"_target_": "components.retrieve.encoder.Encoder", "model": "minilm", "threads": 2}


def run_of(
    name: str, sweep: str, axes: dict[str, str], *, llm: str = "smollm2", **more: Any
) -> Any:
    """A point of a sweep with a config of two slots, a model that one of them takes, and one that
    none does."""
    choices = {"retriever": "bm25s", "verdict": "head", "embedder": "minilm", "llm": llm}
    choices |= {key: str(value) for key, value in (axes | more).items() if key in choices}
    encoder = {**ENCODER, "model": choices["embedder"]}
    return Point(
        name=name, axes=axes, sweep=sweep, choices=choices,
        config={
            "pipeline": ["retriever", "verdict"], "limit": more.get("limit"), "seed": 13,
            "name": name, "outputs": sweep, "shown": [name], "embedder": encoder,
            "llm": {"_target_": "x.Engine", "model": llm},
            "retriever": {"bm25": {
                "_target_": f"x.{choices['retriever']}", "k": more.get("k", 300),
            }},
            "verdict": {"_target_": "x.Head", "encoder": encoder},
            "dataset": {"limit": more.get("limit")},
        },
    )  # fmt: skip


def named(points: list[Any]) -> dict[str, dict[str, str]]:
    return {row.setting: row.values for row in differing(points)}


def test_what_differs_between_runs_of_different_sweeps() -> None:
    one = run_of("a", "1", {"verdict": "head"})
    assert named([one, run_of("b", "2", {"verdict": "head"}, llm="openai")]) == {}  # none takes it
    other = run_of("b", "2", {"verdict": "head"}, retriever="tfidf", k=5)
    assert named([one, other]) == {"retriever": {"a": "bm25s", "b": "tfidf"}}  # its k goes with it
    other = run_of("b", "2", {"verdict": "head"}, k=5, limit=3)
    assert named([one, other]) == {
        "limit": {"a": "null", "b": "3"},  # once, not as the data set's, too
        "retriever.bm25.k": {"a": "300", "b": "5"},
    }
    other = run_of("b", "2", {"verdict": "head"}, embedder="e5")
    assert named([one, other]) == {"embedder": {"a": "minilm", "b": "e5"}}
    for point in (one, other):
        point.choices = {}  # as of params=FILE
    assert named([one, other]) == {"embedder.model": {"a": "minilm", "b": "e5"}}
    submission = Point(name="file")  # of which nothing is known
    assert named([one, submission]) == {}
    assert set(named([one, other, submission])) == {"embedder.model"}


def test_axes_that_say_it_all_are_enough() -> None:
    sweep = [run_of(x, "1", {"retriever": x}) for x in ("bm25s", "tfidf")]
    later = run_of("dense", "2", {"retriever": "dense"})
    assert named(sweep) == named([*sweep, later]) == {}
    alone = [msgspec.structs.replace(point, sweep="", axes={"seed": "1"}) for point in sweep]
    assert set(named(alone)) == {"retriever"}  # reproduced: they have axes, and no sweep
    assert set(named([*sweep, run_of("d", "2", {"retriever": "dense"}, limit=3)])) == {"limit"}
    for point in sweep:
        point.named = True  # no table has its axes
    assert set(named(sweep)) == {"retriever"}


def test_points_of_different_sweeps_have_the_same_axes() -> None:
    whole = run_of("a", "1", {"retriever": "tfidf", "verdict": "head"})
    part = run_of("b", "2", {"verdict": "head"})
    fill([whole, part])
    assert list(part.axes.items()) == [("retriever", "bm25s"), ("verdict", "head")]
    alike = [run_of("a", "1", {"verdict": "head"}), run_of("a", "2", {"verdict": "head"}, k=5)]
    fill(alike)
    assert [point.axes["retriever.bm25.k"] for point in alike] == ["300", "5"]
    twice = [run_of("a", "1", {"verdict": "head"}), run_of("a", "2", {"verdict": "head"})]
    fill(twice)
    assert all(point.axes == {"verdict": "head"} for point in twice)


def test_long_settings_are_shown_where_they_part() -> None:
    one, other = (run_of(x, x, {"verdict": "head"}) for x in "ab")
    sites = [f"site{n}.example" for n in range(40)]
    one.config["retriever"]["sites"], other.config["retriever"]["sites"] = sites, sites[:-1]
    values = named([one, other])["retriever.sites"]
    assert values["a"].endswith("site38.example,site39.example]")
    assert values["b"].endswith("site38.example]")
    assert all(value.startswith("…") and len(value) < 65 for value in values.values())


def test_it_is_a_run_of_its_own_in_mlflow(place: Path) -> None:
    found = result(place, f"runs={place}/sweep.json", "primary=mrr")
    assert [run["axes"]["retriever"] for run in found["runs"]]
    client, _ = connect(config(place))
    run = client.get_run(found["mlflow_run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.source.name"] == "flows.compare"
    assert run.data.tags["mlflow.note.content"].startswith("# Comparison of ")
    assert {"difference.mrr", "p.mrr", "difference.mrr_low"} <= set(run.data.metrics)
    assert run.data.params["primary"] == "mrr"
    assert "retriever" not in run.data.params
    files = {item.path for item in client.list_artifacts(found["mlflow_run_id"])}
    assert {"report.html", "report.md", "pairs.csv", "claims.csv", "plots"} <= files
    done = flow("compare", f"runs=[{found['mlflow_run_id']},{place}/sweep.json]", *places(place))
    assert done.returncode == 1
    assert "is a comparison itself" in done.stderr


def test_mistakes(place: Path) -> None:
    fever = place / "fever.jsonl"
    fever.write_text('{"id": 0, "predicted_label": "REFUTES", "predicted_evidence": []}\n')
    two, gold = f"[{place}/good.json,{place}/poor.json]", f"gold={place}/gold.json"
    for words, message in [
        ((), r"A comparison needs two runs, and none is here: runs=\[FILE,ID,…\]"),
        ((f"runs={place}/good.json", gold), "A comparison needs two runs, and good is here"),
        ((f"runs={two}",), "give gold=FILE to score them against"),
        ((f"runs=[{place}/none.json]",), "none.json: there is no such file or run"),
        ((f"runs=[{place}/good.json,{fever}]", gold), "fever.jsonl: This scorer .* of FEVER"),
        (("runs=[0123abcd]",), "No run 0123abcd below"),
        (
            (f"runs={two}", gold, "primary=score-at-0.25"),
            r"no measure 'score-at-0.25' \(primary\) of these runs\. Did you",
        ),
        ((f"runs={two}", gold, "shown=[qaa]"), r"no measure 'qaa' \(shown\).* Did you mean 'qa'"),
        ((f"runs={two}", gold, "pair=[good,pour]"), "no run is called pour. Did you mean 'poor'"),
        ((f"runs={two}", gold, "pair=[good,good]"), "takes the names of two runs"),
        ((f"runs=[{place}/good.json,{place}/sweep.json]", gold), "same ids but other texts"),
    ]:
        kept = set((place / "outputs").iterdir())
        with pytest.raises(ClaimflowError, match=message):
            main(config(place, *words))
        assert set((place / "outputs").iterdir()) == kept
    done = flow("compare", f"runs={two}", *places(place))
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_help_is_quick() -> None:
    start = time.perf_counter()
    done = command("flows.compare", "--help", fresh=True)
    assert time.perf_counter() - start < 2
    for key in ("runs:", "scorer\n", "* averitec ", "judge\n", "seed:", "out:", "official:"):
        assert f"  {key}" in done.stdout


@pytest.mark.slow
def test_the_published_submissions(tmp_path: Path) -> None:
    folder = DATA / "averitec"
    if not folder.is_dir():
        pytest.skip(f"no {DATA}")
    runs = [folder / "predictions_dev" / f"{n}.json" for n in ("baseline_2024", "hero_8b")]
    found = result(tmp_path, f"runs=[{runs[0]},{runs[1]}]", f"gold={folder}/dev.json")
    assert [run["name"] for run in found["runs"]] == ["hero_8b", "baseline_2024"]
    assert set(found["claims"].values()) == {500}
    by_measure = {pair["measure"]: pair for pair in found["pairs"]}
    assert by_measure["score_at_0.25"]["value"] == pytest.approx(0.524 - 0.092)
    assert by_measure["score_at_0.25"]["significant"]
    assert not by_measure["f1_not_enough_evidence"]["significant"]
    assert found["ranks"]["qa"]["order_changes"] == 0
