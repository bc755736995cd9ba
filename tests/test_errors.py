"""What a user who made a mistake sees: one line with cause and remedy, exit code 1."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from components.errors import ClaimflowError
from components.files import ROOT
from tests.conftest import command

MISTAKES = {
    "retriever=bm52": ("No choice 'bm52' in group retriever", "Did you mean 'bm25s'"),
    "evidence=[claim_copies,nope]": ("No choice 'nope' in group evidence", "url_seen"),
    "evidence=[claim_copies,url_sen]": ("Did you mean 'url_seen'", "Choices: claim_copies, near"),
    "+sweep=retriever": ("No choice 'retriever' in group sweep", "'retrievers'"),
    "retriver=bm25s": ("No setting 'retriver'", "Did you mean 'retriever'"),
    "limitt=3": ("No setting 'limitt'", "Did you mean 'limit'"),
    "retriever.k=5": ("No setting 'retriever.k'", "retriever.bm25.k"),
    "retriever.depth=5": ("No setting 'retriever.depth'", " Steps have it: retriever.fuse.depth. "),
    "retriever.bm25.kk=5": ("No setting 'retriever.bm25.kk'", "'retriever.bm25.k'"),
    "retriever.bm25.k=many": ("k=many of Bm25s", "a whole number"),
    "+retriever.bm25.kk=5": ("Bm25s has no parameter 'kk'", "take it out"),
    "retriever.bm25=5": ("5 stands where a part with its parameters is due", "retriever=bm25s"),
    "retriever.mmr._target_=components.Mmr": ("there is no such class", "as in conf/"),
    "~embedder.model": ("Encoder needs 'model'", "set it"),
    "split=deb": ("no split 'deb'", "Did you mean 'dev'"),
    "ids=[99]": ("no claim 99", "ids run from 0 to 23"),
    "path=nowhere": ("nowhere", "looked for"),
    "embedder.model=nowhere": ("No model folder 'nowhere'", "make setup"),
    "runner.kind=treads": ("No runner kind 'treads'", "Did you mean 'threads'"),
    "answerer=null": ("A group takes the name of a choice", "answerer=none"),
    "retriever=": ("A group takes the name of a choice", "answerer=none"),
    "chunker.size=0": ("chunker.size is 0", "1 or more"),
    "runner.workers=0": ("runner.workers=0", "from 1 on"),
    "runner.shard=0": ("runner.shard=0", "from 1 on"),
    "seed=abc": ("seed=abc", "whole number"),
    "ids=[3,3]": ("ids=['3', '3']", "each once"),
    "limit=-1": ("limit=-1", "1 or more"),
    "llm.model=conf": ("conf holds no model", "config.json"),
    "dataset.train_split=null": (
        "questioner and verdict learn from",
        "verdict=rules (or verdict=llm",
    ),
    "primary=qaa": ("no measure 'qaa' (primary) of this run", "Did you mean 'qa'? Measures: q, qa"),
    "pipeline=[guard,retreiver]": ("pipeline names 'retreiver'", "Did you mean 'retriever'"),
    "pipeline=[]": ("pipeline=[] has no step", "leave it out"),
    "retriever.bm25.k1=-1": ("k1=-1", "0 or more"),
    "seed=[1": ("The setting seed=[1 can't be read", "wants quotes"),
    "path=größe daten": ("The setting path=größe daten can't be read", "quotes"),
    "verdict.temperature=false": ("No setting", "Choices that have it: verdict=calibrated."),
    "retriever=bm25s,tfidf": ("Ambiguous value", "-m"),
}


@pytest.mark.parametrize("words", MISTAKES, ids=str)
def test_a_mistake_on_the_command_line(words: str, tmp_path: Path) -> None:
    done = command("flows.experiment", words, f"outputs={tmp_path}/out", f"cache={tmp_path}/cache")
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    for part in MISTAKES[words]:
        assert part in lines[0]
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()  # nothing half-written


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("+limitt=3", "Nothing reads 'limitt', which +limitt=3 adds. Did you mean 'limit'?"),
        ("++foo.bar=1", "Nothing reads 'foo.bar'"),
        ("+to=folder", ""),
        ("+until=guard", ""),
        ("+guard.other=1", ""),
        ("+hydra.job.name=x", ""),
        ("+extra=5 retriever.bm25.k1=${extra}", ""),
        ("+extra.k1=5 retriever.bm25.k1=${extra.k1}", ""),
        ("+mine={_target_:x.Y} pipeline=[guard,mine]", ""),
    ],
)
def test_a_plus_adds_only_what_something_reads(word: str, said: str) -> None:
    from flows.cli import check_added
    from tests.conftest import compose

    words = word.split()
    outcome = pytest.raises(ClaimflowError, match=re.escape(said)) if said else nullcontext()
    with outcome:
        check_added(words[:1], compose(*words), "config")


def test_a_parameter_that_no_file_lists() -> None:
    """The class of a part has it, so a + sets it."""
    from flows.cli import config_mistake
    from tests.conftest import compose

    for key, said in (
        ("verdicts", " Guard has it, though no file lists it: +part.verdicts=… sets it."),
        ("verdcts", " Did you mean"),
    ):
        added = ("+part={_target_:components.store.guard.Guard}", f"part.{key}=false")
        with pytest.raises(Exception, match="Could not override") as error:
            compose(*added)
        assert f"No setting 'part.{key}'.{said}" in str(config_mistake(error.value))


def test_a_folder_that_takes_no_files() -> None:
    """Whoever is root may write in /proc, and yet can't; found before a run's first line."""
    done = command("flows.experiment", "cache=/proc/x", "limit=1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: cache=/proc/x: /proc can't be written to. Name another.\n"


@pytest.mark.parametrize(
    ("flow", "word", "said"),
    [
        ("setup", "foo=1", "Unknown word 'foo=1'"),
        ("cache", "cache={}/typo", "No cache in {}/typo"),
        ("cache", "cache={}", "No cache in {}"),
        ("cache", "size=1G", "age= and size= go with clean"),
    ],
)
def test_a_word_that_means_nothing(flow: str, word: str, said: str, tmp_path: Path) -> None:
    done = command(f"flows.{flow}", word.format(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {said.format(tmp_path)}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (b"a: 1\nb: [1\nc: 2\n", [], "/params.yaml, line 3: no YAML"),
        (b"a: 1\na: 2\n", [], "/params.yaml, line 2: no YAML (found duplicate key a)"),
        (b"a: caf\xe9\n", [], "/params.yaml, line 1: byte 0xe9 is no UTF-8"),
        (b"a: ${\n", [], "no viable alternative at input '${'"),
        (b"a: 1\n", ["a=[1"], "The setting a=[1 can't be read"),
    ],
)
def test_a_file_of_settings_that_cannot_be_read(
    text: bytes, words: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "params.yaml").write_bytes(text)
    done = command("flows.experiment", f"params={tmp_path}/params.yaml", *words)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_a_measure_that_no_point_of_a_sweep_has(tmp_path: Path) -> None:
    words = ("flows.experiment", "-m", "retriever=bm25s,tfidf", f"outputs={tmp_path}/out")
    done = command(*words, "scorer=retrieval", "primary=qa", f"cache={tmp_path}/cache")
    assert done.returncode == 1
    assert done.stderr.startswith("error: There is no measure 'qa' (primary) of these points.")
    assert done.stderr.endswith("Measures: ndcg_at_10, recall_at_10, recall_at_100, mrr, ap.\n")
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_runs_of_one_command_do_not_write_one_file_over(tmp_path: Path) -> None:
    gold = tmp_path / "gold.json"
    gold.write_text(json.dumps([{"claim": "A.", "label": "Refuted", "questions": []}]))
    words = ["flows.lint", "-m", f"predictions={gold}", "fix=true,false"]
    done = command(*words, f"out={tmp_path}/out.json", cwd=tmp_path)
    assert done.stderr == (
        f"error: out={tmp_path}/out.json: each run of -m would write it anew. Name it by what "
        "differs, as 'out=scores-${hydra:job.num}'.\n"
    )
    command(*words, f"out={tmp_path}/out-${{fix}}.json", cwd=tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"gold.json", "out-True.json", "out-False.json"}


def test_a_primary_measure_of_some_points_will_do() -> None:
    from flows.experiment import check_primary
    from tests.conftest import compose

    points = [compose("primary=qa", f"scorer={name}") for name in ("retrieval", "averitec_2024")]
    check_primary(points)


@pytest.mark.parametrize(
    ("flow", "word", "hint"),
    [
        ("score", "outputs", "out"),
        ("score", "prediction", "predictions"),
        ("score", "ofical", "official"),
        ("score", "scorer.levles", "scorer.levels"),
        ("score", "runner", None),  # a group, but none of this flow's
        ("lint", "outputs", "out"),
        ("lint", "fixed", "fix"),
        ("stress", "claim", "claims"),
        ("pool", "claim", "claims"),
        ("agreement", "rating", "ratings"),
        ("compare", "output", "outputs"),
        ("store", "output", "outputs"),
        ("pack", "outputs", "out"),
        ("reproduce", "freshh", "fresh"),
        ("config", "retriver", "retriever"),
    ],
)
def test_a_wrong_key_gets_a_key_of_its_flow(flow: str, word: str, hint: str | None) -> None:
    import hydra

    from flows.cli import CONF, config_mistake
    from flows.resolvers import register

    register()
    with (
        hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)),
        pytest.raises(Exception, match="override") as caught,
    ):
        hydra.compose(flow, [f"{word}=3"])
    said = config_mistake(caught.value, flow)
    assert said is not None
    if hint:
        assert f"Did you mean '{hint}'?" in said
    assert f"Did you mean '{word}'?" not in said


@pytest.mark.parametrize(
    ("flow", "word", "least"),
    [
        ("agreement", "draws=0", 1),
        ("agreement", "seed=abc", 0),
        ("compare", "draws=abc", 1),
        ("compare", "claims=-1", 0),
        ("dashboard", "port=x", 1),
        ("lint", "longest=1.5", 1),
        ("pack", "part=0", 1),
        ("pool", "annotators=null", 1),
        ("store", "parallel=true", 1),
        ("store", "seed=-1", 0),
        ("stress", "claims=abc", 1),
        ("train", "seed=abc", 0),
    ],
)
def test_a_number_that_is_none(flow: str, word: str, least: int) -> None:
    done = command(f"flows.{flow}", word, "task=verdict" if flow == "train" else "out=null")
    assert done.returncode == 1
    said = re.sub("true", "True", word) if flow == "store" else word.replace("null", "None")
    assert done.stderr.startswith(f"error: {said} is wrong: give a whole number from {least} on"), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("flow", "word", "due"),
    [
        ("lint", "fix=no", "true or false"),
        ("score", "official=yess", "true or false"),
        ("score", "on_error=ski", "stop or skip"),
        ("experiment", "on_error=null", "stop or skip"),
        ("reproduce", "fresh=1", "true or false"),
    ],
)
def test_a_value_of_another_kind(flow: str, word: str, due: str) -> None:
    done = command(f"flows.{flow}", word, "out=null")
    assert done.returncode == 1
    assert done.stderr == f"error: {word.replace('null', 'None')} is wrong: give {due}.\n"


@pytest.mark.parametrize(
    ("flow", "words"),
    [
        ("score", "out=/proc/x.json"),
        ("score", "to=/proc/x"),
        ("lint", "sarif=/sys/x"),
        ("lint", "fix=true"),
    ],
)
def test_a_place_that_takes_no_file(flow: str, words: str, tmp_path: Path) -> None:
    """Folders that root may write to by their mode, though nobody can."""
    if not Path("/proc/self").exists():
        pytest.skip("needs /proc")
    gold = '[{"claim": "A.", "label": "Refuted", "questions": [{"question": "Who?"}]}]'
    said = '[{"claim_id": 0, "pred_label": "Refuted", "evidence": []}]'
    (tmp_path / "gold.json").write_text(gold)
    (tmp_path / "said.json").write_text(said)
    predictions = tmp_path / "said.json"
    if flow == "lint" and "fix" in words:
        predictions.write_text(said.replace("Refuted", "refuted"))  # to be mended
        (tmp_path / "said.fixed.json").mkdir()  # where the repaired file would be
    done = command(f"flows.{flow}", f"predictions={predictions}", f"gold={tmp_path}/gold.json",
                   words, CLAIMFLOW_CACHE=str(tmp_path / "cache"))  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    place = words.split("=")[1] if "/" in words else "said.fixed.json"
    assert Path(place).name in done.stderr or str(Path(place).parent) in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.slow
def test_a_k_above_every_store(tmp_path: Path) -> None:
    done = command("flows.experiment", "retriever=bm25s", "retriever.bm25.k=5000", "limit=2",
                   "questioner=rules", "tracking=none", f"outputs={tmp_path}",
                   f"cache={tmp_path}/cache")  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    found = re.fullmatch(
        r"error: retriever\.bm25\.k=5000 asks for more passages a query than any claim has: the "
        r"largest store here, that of claim [01], has (\d+)\. Set retriever\.bm25\.k to (\d+) or "
        r"less, or leave it out: then a query gets what its store has, 300 at most\.",
        last,
    )
    assert found, last
    assert found[1] == found[2]


@pytest.mark.parametrize("key", ["cache", "outputs", "out"])
def test_a_place_below_a_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("flows.experiment", f"{key}={tmp_path}/file/x")
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {key}={tmp_path}/file/x: {tmp_path}/file can't be written to. Name another.\n"
    )


@pytest.mark.slow
def test_a_read_only_disk(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        done = command("flows.experiment", f"outputs={tmp_path}/out")
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
    assert done.returncode == 1
    assert done.stderr == (
        f"error: outputs={tmp_path}/out: {tmp_path} can't be written to. Name another.\n"
    )


def test_v_shows_the_traceback(tmp_path: Path) -> None:
    done = command("flows.experiment", "split=deb", "-v", f"outputs={tmp_path}")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_help_is_quick_and_shows_every_choice() -> None:
    import time

    from flows.cli import groups

    start = time.perf_counter()
    done = command("flows.experiment", "--help", fresh=True)
    assert time.perf_counter() - start < 2
    for group, choices in groups().items():
        if group == "task":  # of flows.train
            continue
        assert group in done.stdout
        for choice, line in choices.items():
            assert line, f"conf/{group}/{choice}.yaml has no comment that says what it is"
            assert line in done.stdout


@pytest.mark.parametrize("flow", ["cache", "dashboard", "params", "predict", "reproduce", "score",
                                  "setup", "track", "train", "index", "lint", "pack"])  # fmt: skip
def test_every_flow_has_a_help_page(flow: str) -> None:
    done = command(f"flows.{flow}", "--help")
    assert done.returncode == 0, done.stderr
    assert f"python -m flows.{flow}" in done.stdout


def test_a_reader_that_has_enough() -> None:
    shell = f"{sys.executable} -m flows.experiment --help | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{128 + signal.SIGPIPE}\n", "")


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], check=False
    ).returncode:
        pytest.skip("mounting needs root")
    try:
        done = command("flows.experiment", "questioner=rules", "retriever=bm25s", "tracking=none",
                       f"cache={disk}/cache", f"outputs={tmp_path}/out")  # fmt: skip
        assert done.returncode == 1
        assert "No space left" in done.stderr
        assert "Traceback" not in done.stderr
        for path in disk.glob("cache/blobs/*/*"):
            from components.files import digest

            assert digest(path.read_bytes()) == path.name
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.slow
def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = command("flows.dashboard", f"port={port}", f"tracking.uri=sqlite:///{tmp_path}/m.db")
    assert done.returncode == 1
    assert done.stderr.strip() == f"error: Port {port} is in use. Give another: port={port + 1}"


PROXIED = """
import sys, threading, urllib.request
import flows.cli, httpx, requests
from http.server import BaseHTTPRequestHandler, HTTPServer

class Says(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"here")

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Says)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/"
print(httpx.get(url).text, requests.get(url).text, urllib.request.urlopen(url).read().decode())
print(sorted(httpx._utils.get_environment_proxies()), file=sys.stderr)
"""


@pytest.mark.parametrize("given", [{}, {"NO_PROXY": "a.example"}, {"no_proxy": "*"}], ids=str)
def test_what_answers_on_this_machine_is_asked_without_a_proxy(given: dict[str, str]) -> None:
    dead = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    env = {key: value for key, value in os.environ.items() if key.lower() != "no_proxy"}
    done = subprocess.run([sys.executable, "-c", PROXIED], cwd=ROOT, env=env | dead | given,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "here here here\n", done.stderr
    assert ("a.example" in done.stderr) == ("NO_PROXY" in given)  # what was given still holds
    assert ("http://" in done.stderr) == ("no_proxy" not in given)


def test_a_loopback_interface_that_is_down() -> None:
    code = "from flows.runners import own_server; own_server()"
    apart = ["unshare", "-rn", sys.executable, "-c", code]
    if subprocess.run(["unshare", "-rn", "true"], check=False).returncode:
        pytest.skip("needs a network namespace of its own")
    done = subprocess.run(apart, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert "ClaimflowError: Prefect's own server needs 127.0.0.1, which can't be reached" in last
    assert "`ip link set lo up`" in last


def test_disk_errors_other_than_full_pass_through(tmp_path: Path) -> None:
    from components.files import disk_error

    error = OSError(errno.EACCES, os.strerror(errno.EACCES))
    assert disk_error(error, tmp_path) is error


def test_a_part_is_what_hydra_makes_of_it() -> None:
    """`build` is quicker than Hydra's `instantiate`, and gives the same."""
    from hydra.utils import instantiate

    from flows.build import build, step_configs
    from tests.conftest import compose

    for words in ("system=papelo_2024", "verdict=stacked", "chunker=semantic"):
        for name, node in step_configs(compose(words)).items():
            assert repr(build(node)) == repr(instantiate(node, _convert_="all")), name


def test_each_point_is_composed_once() -> None:
    import hydra
    from hydra.core.global_hydra import GlobalHydra
    from hydra.types import RunMode

    from flows.cli import CONF
    from flows.compose import compose_points
    from flows.resolvers import register

    register()
    compose_points()
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", [], RunMode.MULTIRUN)
        checked = loader.load_sweep_config(master, ["retriever=bm25s"])
        other = loader.load_sweep_config(master, ["retriever=tfidf"])
        assert loader.load_sweep_config(master, ["retriever=bm25s"]) is checked
        assert other.retriever != checked.retriever
        again = loader.load_sweep_config(master, ["retriever=bm25s"])
        assert again is not checked  # a sweep that names a point twice runs each as its own
        assert again == checked


def test_a_second_ctrl_c_ends_at_once() -> None:
    """The first one waits for what is at work."""
    code = """
import time
from flows.cli import plain
def main(words):
    try:
        print("at work", flush=True)
        time.sleep(60)
    finally:
        time.sleep(60)
plain(main)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stderr
    assert process.stdout.readline() == "at work\n"
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline().startswith("Ending after the cases at work")
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
