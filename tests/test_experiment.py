"""Whole experiments on the embedded data: real Prefect, real models, real files."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from components.datasets import fever
from components.datasets.gold import read_gold
from components.errors import ClaimflowError
from components.files import ROOT
from components.lint.check import lint
from components.records import AVERITEC_LABELS, read_lines
from flows.build import build_steps
from flows.stages import WITHOUT_TRAINING
from tests import fever_demo, scifact_demo
from tests.conftest import Ran, command, compose, swept
from tests.little import in_little, through

pytestmark = pytest.mark.slow

FAST = ("questioner=rules", "retriever=bm25s")
FASTEST = (*FAST, "verdict=majority", "trainer=tiny")  # without a model, or with little training
MEASURES = {
    "q", "qa", "accuracy", "f1_macro", "ndcg_at_10", "recall_at_10", "recall_at_100", "mrr", "ap",
    *(f"score_at_{level}" for level in ("0.10", "0.20", "0.25", "0.30", "0.40", "0.50")),
}  # fmt: skip


@pytest.mark.xdist_group("demo")
def test_the_default_experiment(experiment: Callable[..., Ran], demo_cache: Path) -> None:
    first = experiment(f"cache={demo_cache}")
    assert first.record.status == "finished"
    assert first.record.counts["claims"] == 24
    assert first.record.counts["train_claims"] == 36
    assert set(first.record.measures) >= MEASURES
    for name in MEASURES:
        measure = first.record.measures[name]
        assert 0 <= measure.low <= measure.value <= measure.high <= 1, name
    assert first.record.counts["dropped_later than the claim"] > 0
    predictions = [p for _, p in read_lines(first.folder / "predictions.jsonl", dict)]
    assert [p["id"] for p in predictions] == [str(i) for i in range(24)]
    assert all(1 <= len(p["evidence"]) <= 10 for p in predictions)
    assert all(abs(sum(p["probabilities"].values()) - 1) < 1e-3 for p in predictions)
    assert all(p["justification"] for p in predictions)
    for file in ("submission_2024.json", "submission_2025.csv"):
        assert lint(first.folder / file).errors == []
    again = experiment(f"cache={demo_cache}")
    assert again.computed() == {}
    assert again.predictions() == first.predictions()


def test_runners_give_the_same_bytes(experiment: Callable[..., Ran], tmp_path: Path) -> None:
    for runner, retriever in (("processes", "dense"), ("dask", "bm25s")):
        few = ("questioner=rules", f"retriever={retriever}", "verdict=majority", "runner.shard=2",
               "limit=4")  # fmt: skip
        threads = experiment(*few, f"cache={tmp_path}/{runner}-threads")
        other = experiment(*few, f"runner={runner}", f"cache={tmp_path}/{runner}")
        assert other.computed() == threads.computed(), runner
        assert other.predictions() == threads.predictions(), runner
        rankings = [(ran.folder / "rankings.jsonl").read_bytes() for ran in (threads, other)]
        assert rankings[0] == rankings[1], runner


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A copy of the demo data that a test may edit."""
    return Path(shutil.copytree(ROOT / "data" / "demo", tmp_path / "demo"))


def edit_document(demo: Path, claim: int, sentence: str) -> None:
    """Append a sentence to every page with text of a claim's store."""
    path = demo / "knowledge_store" / "dev" / f"{claim}.json"
    pages = [json.loads(line) for line in path.read_text().splitlines()]
    for page in pages:
        if page.get("url2text"):
            page["url2text"].append(sentence)
    path.write_text("".join(json.dumps(page) + "\n" for page in pages))


def test_an_edit_computes_again_just_what_depends_on_it(
    experiment: Callable[..., Ran], demo: Path
) -> None:
    few = (*FASTEST, f"path={demo}", "limit=6")
    assert experiment(*few).computed()["chunker"] == 6
    assert experiment(*few).computed() == {}

    edit_document(demo, 2, "The mayor of Quillon opened the bridge in person.")
    computed = experiment(*few).computed()
    assert computed["guard"] == computed["chunker"] == computed["retriever.bm25"] == 1
    assert not {"questioner", "query"} & set(computed)  # they read no documents

    computed = experiment(*few, "retriever.bm25.k1=1.2").computed()  # a config number
    assert computed["retriever.bm25"] == 6
    assert not {"guard", "chunker", "questioner", "query"} & set(computed)

    claims = json.loads((demo / "dev.json").read_text())
    claims[4]["claim"] += " Or so it is said."
    (demo / "dev.json").write_text(json.dumps(claims))
    computed = experiment(*few).computed()
    assert computed["questioner"] == computed["query"] == 1

    train = json.loads((demo / "train.json").read_text())
    train[0]["label"] = "Refuted" if train[0]["label"] != "Refuted" else "Supported"
    (demo / "train.json").write_text(json.dumps(train))
    computed = experiment(*few).computed()
    assert computed["verdict"] == 6
    assert not {"chunker", "retriever.bm25", "answerer"} & set(computed)


def test_a_claim_without_evidence_is_named(
    experiment: Callable[..., Ran], demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = demo / "knowledge_store" / "dev" / "2.json"
    pages.write_text(
        json.dumps({"claim_id": 2, "url": "https://a.example", "url2text": ["Zyx."]}) + "\n"
    )
    notes = experiment(*FASTEST, f"path={demo}", "limit=4").record.notes
    assert "Claims that no evidence was found for (1): 2" in notes
    # The report, which is printed at the end, has what scorers say: it is not said twice.
    assert any("repeat a question" in note for note in notes)
    assert "repeat a question" not in capsys.readouterr().err


def test_no_claim_that_comes_through_is_an_error(demo: Path, tmp_path: Path) -> None:
    for number in (0, 1):
        (demo / "knowledge_store" / "dev" / f"{number}.json").unlink()
    done = command("flows.experiment", *FASTEST, f"path={demo}", "limit=2", "on_error=skip",
                   "tracking=none", *places(tmp_path))  # fmt: skip
    assert done.returncode == 1
    [line] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: No claim came through: all 2 failed, claim 0 as documents: No ")
    assert "not scored" not in done.stderr


def test_training_claims_are_needed_only_where_a_step_asks(
    experiment: Callable[..., Ran], demo: Path
) -> None:
    """A data set of one's own may have no train.json."""
    (demo / "train.json").unlink()
    own = (*FAST, f"path={demo}", "limit=2")
    ran = experiment(*own, "verdict=none")
    assert ran.record.counts["train_claims"] == 0
    assert {data["split"] for data in ran.record.datasets} == {"dev", "documents"}
    with pytest.raises(ClaimflowError) as caught:
        experiment(*own[1:])
    said = str(caught.value)
    assert said.startswith("questioner and verdict learn from training claims. No train.json or")
    assert "choose what needs none: questioner=rules verdict=rules (or verdict=llm, which" in said
    assert experiment(*own[1:], "questioner=rules", "verdict=rules").record.status == "finished"


def test_pages_kept_undecided_are_counted_aside(experiment: Callable[..., Ran], demo: Path) -> None:
    """Claims without a date: their pages that have one stay, and are none of those dropped."""
    claims = json.loads((demo / "dev.json").read_text())
    (demo / "dev.json").write_text(json.dumps([claim | {"claim_date": None} for claim in claims]))
    counts = experiment(*FAST, f"path={demo}", "limit=2", "verdict=none").record.counts
    assert counts["kept_undecided"] > 0
    assert {name for name in counts if name.startswith("dropped")} == {
        "dropped_fact-checking article of the claim"
    }


def test_what_an_error_names_in_the_place_of_training_needs_none() -> None:
    for choice in WITHOUT_TRAINING.values():
        slot = choice.split("=")[0]
        for name, step in build_steps(compose(choice, f"pipeline=[{slot}]")).items():
            assert not step.needs_train, name


def test_points_share_their_prefix(experiment: Callable[..., Ran]) -> None:
    few = ("questioner=rules", "verdict=majority", "limit=4")
    assert experiment(*few, "retriever=bm25s").computed()["retriever.bm25"] == 4
    hybrid = experiment(*few, "retriever=hybrid").computed()
    assert not {"guard", "chunker", "questioner", "query", "retriever.bm25"} & set(hybrid)
    assert hybrid["retriever.dense"] == 4
    mmr = experiment(*few, "retriever=hybrid_mmr").computed()
    assert mmr["retriever.mmr"] == 4
    assert not {"retriever.dense", "retriever.bm25", "retriever.fuse"} & set(mmr)


SWEEP = ("flows.experiment", "+sweep=retrievers", "questioner=rules", "verdict=majority", "limit=2")


def places(folder: Path) -> list[str]:
    return [f"outputs={folder}/outputs", f"cache={folder}/cache", f"out={folder}/out.json"]


def runs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "out.json").read_text())
    return found


@pytest.mark.serverless
def test_a_sweep_twice(tmp_path: Path, demo_cache: Path) -> None:
    where = [*places(tmp_path), f"cache={demo_cache}", "tracking=none"]
    first = command(*SWEEP, *where, fresh=True)
    assert first.returncode == 0, first.stderr
    points = runs(tmp_path)
    assert len(points) >= 6
    assert {p["axes"]["retriever"] for p in points} >= {"rank_bm25", "bm25s", "tfidf", "dense"}
    for point in points:
        assert set(point["measures"]) >= MEASURES
        assert set(point["measures"]["qa"]) == {"value", "low", "high"}
    assert "behind the best" in first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 100
    assert re.search(r"points in [\d.]+ s in all, [\d.]+ s of them in stages", first.stderr)
    assert "Full report: " in first.stderr
    (parent,) = (
        p.parent for p in (tmp_path / "outputs").glob("*/run.json")
        if json.loads(p.read_text())["children"]
    )  # fmt: skip
    assert {"report.md", "report.html", "comparison.csv", "pairs.csv"} <= {
        p.name for p in parent.iterdir()
    }
    assert "system" not in json.loads((parent / "run.json").read_text())["choices"]
    assert (parent / "plots" / "measures.png").stat().st_size > 5_000
    again = command(*SWEEP, *where)
    assert again.returncode == 0, again.stderr
    assert [p["cache"]["misses"] for p in runs(tmp_path)] == [0] * len(points)
    assert [p["measures"] for p in runs(tmp_path)] == [p["measures"] for p in points]


def test_a_failing_point_leaves_the_others(tmp_path: Path) -> None:
    words = ("flows.experiment", "-m", "embedder.model=all-MiniLM-L6-v2,no-such-model",
             "chunker=sentence,window", "retriever=dense", "questioner=rules",
             "verdict=majority", "limit=2", "tracking=none")  # fmt: skip
    done = command(*words, *places(tmp_path))
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    points = runs(tmp_path)
    assert [p["status"] for p in points] == ["finished", "finished", "failed", "failed"]
    assert all("no-such-model" in p["error"] for p in points[2:])
    assert points[0]["axes"] == {"embedder.model": "all-MiniLM-L6-v2", "chunker": "sentence"}
    assert "failed" in done.stdout


MARKED = "{Supported:0.5,Refuted:0.5}"  # a setting with marks of format strings


def test_a_name_is_no_format_string(tmp_path: Path, experiment: Callable[..., Ran]) -> None:
    few = ("verdict=calibrated", "verdict@verdict.verdict=majority", *FAST, "limit=2")
    ran = experiment(*few, f"verdict.prior={MARKED}", "name='{0} {} {x!r} %s %(a)d'")
    assert ran.record.name == "{0} {} {x!r} %s %(a)d"
    done = command("flows.predict", *few, f"verdict.prior={MARKED}", f"+to={tmp_path}/to",
                   *places(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"verdict.prior={MARKED}" in runs(tmp_path)[0]["name"]
    where = [f"outputs={tmp_path}/outputs", f"cache={tmp_path}/cache", "tracking=none"]
    points = swept("-m", *few, f"verdict.prior={MARKED},null", *where, out=tmp_path / "sweep.json")
    assert [point["axes"] for point in points] == [
        {"verdict.prior": MARKED}, {"verdict.prior": "null"},
    ]  # fmt: skip
    assert {point["status"] for point in points} == {"finished"}


def test_a_sweep_of_which_every_point_fails(tmp_path: Path) -> None:
    done = command("flows.experiment", "-m", "retriever=bm25s,tfidf", f"path={tmp_path}/none",
                   "tracking=none", *places(tmp_path))  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: 2 of 2 points failed")
    assert done.stdout.count("No dev.json") == 1  # for both points


def test_a_sweep_over_claims_without_gold(tmp_path: Path) -> None:
    """No measure and no plot; why, and what the points gave and took."""
    own = tmp_path / "own"
    (own / "knowledge_store_dev").mkdir(parents=True)
    (own / "dev.json").write_text(json.dumps([{"claim": "The Ostrel bridge closed in May."}]))
    page = {"url": "https://a.example/x", "url2text": ["The bridge closed in May.", "It rained."]}
    (own / "knowledge_store_dev" / "0.json").write_text(json.dumps(page))
    done = command(
        "flows.experiment", "-m", "dataset=averitec", f"path={own}", "dataset.train_split=null",
        "questioner=rules", "verdict=rules", "retriever=bm25s,tfidf,hashed", "tracking=none",
        *places(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "averitec_2024: the claims have no gold labels" in " ".join(done.stdout.split())
    assert re.search(r"\n bm25s +1 +1 +\d", done.stdout)
    assert "Full report: " in done.stderr
    assert len(runs(tmp_path)) == 3
    assert not list((tmp_path / "outputs").glob("*/plots"))


def test_a_setting_that_only_the_swept_choices_have(tmp_path: Path, demo_cache: Path) -> None:
    """The group's default lacks it; so each point has it, or says that there is none."""
    words = ("-m", "cutoff=store_order,score_order", "limit=1", "questioner=rules", "tracking=none",
             "verdict=majority", *places(tmp_path))  # fmt: skip
    done = command("flows.experiment", *words, "cutoff.n=20")
    assert done.returncode == 0, done.stderr
    configs = [yaml.safe_load(path.read_text()) for path in tmp_path.rglob("config.yaml")]
    assert [config["cutoff"]["n"] for config in configs] == [20, 20, 20]  # of the sweep, too
    done = command("flows.experiment", *words, "cutoff.m=20")
    assert done.returncode == 1
    assert done.stderr == (
        "error: No setting 'cutoff.m'. Did you mean 'cutoff.n'? `--help` lists them.\n"
    )


def test_kill_9_in_the_middle_of_a_sweep(tmp_path: Path) -> None:
    words = ("flows.experiment", "-m", "retriever=bm25s,tfidf", "chunker=sentence,window",
             "questioner=rules", "verdict=majority", "limit=2", "tracking=none")  # fmt: skip
    killed = subprocess.Popen(
        [sys.executable, "-m", *words, *places(tmp_path)],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert killed.stderr
    for line in killed.stderr:
        if line.startswith("[3]"):
            break
    time.sleep(0.2)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    resumed = command(*words, *places(tmp_path))
    assert resumed.returncode == 0, resumed.stderr
    assert runs(tmp_path)[0]["cache"]["misses"] == 0  # done before the kill
    clean = command(*words, *places(tmp_path / "clean"))
    assert clean.returncode == 0, clean.stderr
    keys = ("name", "axes", "measures", "status")
    assert [[p[k] for k in keys] for p in runs(tmp_path)] == [
        [p[k] for k in keys] for p in runs(tmp_path / "clean")
    ]


@pytest.mark.serverless
def test_a_killed_run_leaves_no_server_behind(tmp_path: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-m", "flows.predict", *FASTEST, f"+to={tmp_path}/to", *places(tmp_path)],
        cwd=ROOT, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    started: list[psutil.Process] = []
    while not any("prefect.server" in " ".join(p.cmdline()) for p in started):
        assert run.poll() is None
        time.sleep(0.05)
        started = psutil.Process(run.pid).children()
    time.sleep(0.2)  # until it is watched, too
    started = psutil.Process(run.pid).children()
    run.kill()
    run.wait()
    _, alive = psutil.wait_procs(started, timeout=30)
    assert not alive


@pytest.mark.parametrize("flow", ["index", "train", "predict"])
def test_every_flow_writes_out(tmp_path: Path, flow: str) -> None:
    done = command(f"flows.{flow}", *FASTEST, "limit=2", f"++to={tmp_path}/to", *places(tmp_path))
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    assert run["status"] == "finished"
    assert run["seconds"]["data"] > 0
    assert set(run) >= {"name", "axes", "measures", "cache", "mlflow_run_id"}


LEFT_OUT = {"dataset", "tracking", "runner", "scorer", "llm", "embedder", "system", "models"}
GROUPS = {
    str(name).removeprefix("optional ")
    for entry in yaml.safe_load((ROOT / "conf" / "config.yaml").read_text())["defaults"]
    if isinstance(entry, dict)
    for name in entry
}
CHOICES = [
    f"{path.parent.name}={path.stem}"
    for path in sorted((ROOT / "conf").glob("*/[!_]*.yaml"))
    if path.parent.name in GROUPS - LEFT_OUT
    # These learn from what the steps before them made of the training claims: see test_train.
    and f"{path.parent.name}={path.stem}"
    not in ("reranker=tuned", "verdict=nli", "verdict=nli_rationale")
]


# What keeps a choice quick on a CPU. No test asks here what a model says: that it works with a real
# one is shown by test_the_default_experiment, test_a_system_with_its_model and those of each step.
LITTLE = {
    "answerer=joint": ["answerer.n=1", "answerer.sources=2", "answerer.max_tokens=700"],
    "answerer=evidence_question": ["answerer.limit=2", "answerer.examples=1"],
    "answerer=best_pairs": ["answerer.question.limit=2", "answerer.question.examples=1"],
    "answerer=rewritten": ["answerer.question.limit=2", "answerer.question.examples=1"],
    "answerer=multi_hop": ["answerer.hops.rounds=2"],
    "answerer=graph_of_thoughts": ["answerer.rounds=2"],
    "verdict=calibrated": ["verdict@verdict.verdict=majority"],
    "verdict=stacked": ["verdict@verdict.members.first=majority"],
}


@pytest.mark.serverless
@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_runs(tmp_path: Path, choice: str, cross_encoder: Path) -> None:
    chosen = [w for w in FASTEST if w.split("=")[0] != choice.split("=")[0]]
    chosen += LITTLE.get(choice, [])
    if choice == "reranker=cross_encoder":  # none comes with the install
        chosen.append(f"reranker.model={cross_encoder}")
    if choice == "questioner=none":
        chosen.append("query=claim")
    cases = through(in_little(compose(*chosen, choice, "limit=2")), tmp_path)
    assert [case.claim.id for case in cases] == ["0", "1"]
    assert all(case.verdict for case in cases) == (choice != "verdict=none")


SYSTEMS = sorted(path.stem for path in (ROOT / "conf" / "system").glob("*.yaml"))


@pytest.mark.serverless
def test_every_system_has_its_models() -> None:
    models = {path.stem for path in (ROOT / "conf" / "system" / "models").glob("*.yaml")}
    assert models == {f"{name}_{which}" for name in SYSTEMS for which in ("paper", "tiny")}


@pytest.mark.serverless
@pytest.mark.parametrize(("system", "context"), [("ctu_aic_2025", 22_000), ("efc_2025", 10_000)])
def test_a_system_of_a_server_has_the_context_of_its_paper(system: str, context: int) -> None:
    assert compose(f"system={system}", "models=paper").llm.context == context


FEVERS = [name for name in SYSTEMS if name.endswith("_2018")]
SCIFACTS = [name for name in SYSTEMS if name.endswith("_2022")]


@pytest.mark.serverless
@pytest.mark.parametrize("system", [s for s in SYSTEMS if s not in (*FEVERS, *SCIFACTS)])
def test_every_system_runs(tmp_path: Path, system: str) -> None:
    """One claim, a training of one update, and a model that is quick."""
    config = compose(f"system={system}", "limit=1", "trainer.limit=12", "trainer.updates=1")
    if config.answerer.get("_target_", "").endswith("JointReasoning"):
        config.answerer.update({"n": 1, "max_tokens": 700})
    [case] = through(in_little(config), tmp_path)
    assert case.verdict
    assert case.verdict.label in AVERITEC_LABELS
    compose(f"system={system}", "models=paper")


@pytest.fixture(scope="module")
def other_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo data in the official layouts of FEVER and SciFact, and a cache for their runs."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, demo in (("fever", fever_demo), ("scifact", scifact_demo)):
        (folder / name).mkdir()
        demo.write(folder / name)
    return folder


@pytest.mark.xdist_group("tasks")
@pytest.mark.parametrize("system", [*FEVERS, *SCIFACTS])
def test_a_system_of_another_task(
    tmp_path: Path, system: str, other_tasks: Path, prefect_server: str
) -> None:
    """Its run has the measures of the task, and those of the submission that it wrote."""
    from flows.experiment import run

    task, file = ("fever", "paper_dev") if system in FEVERS else ("scifact", "claims_dev")
    path, gold = other_tasks / task, tmp_path / "gold.jsonl"
    some = (path / f"{file}.jsonl").read_text("utf-8").splitlines()[:4]
    gold.write_text("\n".join(some), "utf-8")
    places = [f"outputs={tmp_path}", f"cache={other_tasks}/cache", "tracking=none"]
    chosen = [f"system={system}", f"dataset={task}", f"path={path}"]
    record = run(in_little(compose(*places, *chosen, "trainer.updates=1", "limit=4")))
    compose(*chosen, "models=paper")
    assert record.counts["failed"] == 0
    folder = tmp_path / record.id
    submission = folder / f"submission_{task}.jsonl"
    assert lint(submission, read_gold(gold)).errors == []
    for _, said in read_lines(submission, dict):
        if task == "fever":
            assert said["predicted_label"] in fever.LABELS
            assert 1 <= len(said["predicted_evidence"]) <= 5
    out = tmp_path / "again.json"
    done = command("flows.score", f"predictions={submission}", f"gold={gold}", f"scorer={task}",
                   f"out={out}")  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = json.loads(out.read_text())[0]["measures"]
    assert again
    assert {n: m["value"] for n, m in again.items()} == {n: record.measures[n].value for n in again}


def test_a_system_with_its_model(experiment: Callable[..., Ran]) -> None:
    """The system of most calls, by SmolLM2; its trace can be read."""
    ran = experiment(
        "system=papelo_2024", "answerer.hops.rounds=1", "answerer.repeat.to=2",
        "answerer.paraphrases.steps.paraphrase.limit=1", "verdict.attempts=1", "limit=1",
    )  # fmt: skip
    assert ran.record.counts["failed"] == 0
    [said] = [p for _, p in read_lines(ran.folder / "predictions.jsonl", dict)]
    assert said["label"] in ("Supported", "Refuted")
    assert len(said["evidence"]) == 2
    text = (ran.folder / "traces.md").read_text(encoding="utf-8")
    assert f"## 0: {said['claim'][:40]}" in text
    assert "1. round 1, question: " in text
    assert f"Verdict: **{said['label']}**" in text


def test_filters_can_be_joined(experiment: Callable[..., Ran]) -> None:
    ran = experiment(*FASTEST, "evidence=[claim_copies,top_per_question]", "limit=2")
    assert {"evidence.claim_copies", "evidence.top_per_question"} <= {
        stage.name for stage in ran.record.stages
    }


def test_a_run_leaves_trec_files(experiment: Callable[..., Ran]) -> None:
    """TREC tools find the measures of the run in them."""
    ir_measures = pytest.importorskip("ir_measures")
    ran = experiment(*FASTEST, "limit=6")
    names = {"nDCG@10": "ndcg_at_10", "R@100": "recall_at_100", "RR": "mrr", "AP": "ap"}
    theirs = ir_measures.calc_aggregate(
        [ir_measures.parse_measure(name) for name in names],
        list(ir_measures.read_trec_qrels(str(ran.folder / "qrels.trec"))),
        list(ir_measures.read_trec_run(str(ran.folder / "run.trec"))),
    )
    ours = {name: measure.value for name, measure in ran.record.measures.items()}
    assert {names[str(m)]: value for m, value in theirs.items()} == pytest.approx(
        {name: ours[name] for name in names.values()}
    )
    out = ran.folder / "again.json"
    done = command("flows.score", f"rankings={ran.folder}/run.trec", "scorer=retrieval",
                   f"gold={ran.folder}/qrels.trec", f"out={out}")  # fmt: skip
    assert done.returncode == 0, done.stderr
    again = json.loads(out.read_text())[0]["measures"]
    assert {n: m["value"] for n, m in again.items()} == pytest.approx({n: ours[n] for n in again})


def test_any_judge_before_and_after_calibration(tmp_path: Path) -> None:
    words = (*FAST, f"outputs={tmp_path}/outputs", f"cache={tmp_path}/cache", "tracking=none")
    judge = "verdict@verdict.verdict=rules"
    points = swept("+sweep=calibration", judge, *words, "limit=6", out=tmp_path / "out.json")
    before, after = points
    assert before["axes"] == {"verdict.temperature": "False"}
    assert {"ece", "brier", "accuracy"} <= set(before["measures"]) & set(after["measures"])
    assert before["measures"]["accuracy"] == after["measures"]["accuracy"]
    learned = after["training"]["verdict"]
    assert learned["temperature"] != 1
    assert learned["ece_before"] == before["training"]["verdict"]["ece_before"]
    texts = [path.read_text() for path in tmp_path.glob("outputs/*/report.md")]
    [report] = [text for text in texts if "2 points" in text]
    assert "plots/calibration.png" in report
    shown = re.search(r"\| temperature True +\| verdict +\| temperature +\| (\S+)", report)
    assert shown
    assert float(shown[1]) == pytest.approx(learned["temperature"], abs=1e-3)
    own = (Path(after["folder"]) / "report.md").read_text()
    assert f"| temperature      | {shown[1]} " in own


ELSEWHERE = {"retrievers", "negative_sampling", "verdict_models", "models"}  # the last: test_train
SWEEPS = sorted({p.stem for p in (ROOT / "conf" / "sweep").glob("*.yaml")} - ELSEWHERE)


@pytest.mark.parametrize("sweep", SWEEPS)  # retrievers: test_a_sweep_twice
def test_every_sweep_runs(tmp_path: Path, sweep: str, demo_cache: Path) -> None:
    axis = yaml.safe_load((ROOT / "conf" / "sweep" / f"{sweep}.yaml").read_text())
    axes = {key.partition(".")[0] for key in axis["hydra"]["sweeper"]["params"]}
    held = [w for w in FASTEST if w.split("=")[0] not in axes]
    where = [f"outputs={tmp_path}", f"cache={demo_cache}", "tracking=none"]
    points = swept(f"+sweep={sweep}", *held, *where, "limit=2", out=tmp_path / "out.json")
    assert {point["status"] for point in points} == {"finished"}
    assert len({json.dumps(p["axes"]) for p in points}) == len(points) >= 2
