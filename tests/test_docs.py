"""The commands in README and docs/ are run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from components.files import ROOT
from components.store.pack import Packer
from tests.conftest import DATA, command

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, kind: str) -> list[str]:
    """The fenced blocks of one kind in a page."""
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```", path.read_text(encoding="utf-8"))


COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.splitlines()
        if line.startswith("python -m flows.")
    }
)
# Need what a page's reader has and a test does not: an id, a file of theirs, the published data.
FILLED = {
    "TEAM.json": str(DATA / "averitec" / "predictions_dev" / "baseline_2024.json"),
    "OURS.json": str(DATA / "averitec" / "predictions_dev" / "baseline_2024.json"),
    "THEIRS.json": str(DATA / "averitec" / "predictions_dev" / "hero_8b.json"),
    "=stores/knowledge_store_dev": f"={ROOT / 'data' / 'demo' / 'knowledge_store' / 'dev'}",
    "gold=dev.json": f"gold={DATA / 'averitec' / 'dev.json'}",
}
LONG = re.compile(
    r"run=ID|dataset=notes|retriever=overlap|experiment \+sweep=retrievers|dataset=scifact \+sweep=(?!retrievers)|flows\.dashboard|http://|base=MIRROR"
)  # tested elsewhere


def little_corpus(folder: Path) -> Path:
    """SciFact's first 20 claims of each split, and the abstracts that they cite."""
    real, small = DATA / "scifact", folder / "scifact"
    small.mkdir()
    cited: set[int] = set()
    for split in ("train", "dev"):
        lines = (real / f"claims_{split}.jsonl").read_text(encoding="utf-8").splitlines()[:20]
        (small / f"claims_{split}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        cited |= {doc for line in lines for doc in json.loads(line)["cited_doc_ids"]}
    with open(real / "corpus.jsonl", encoding="utf-8") as corpus:
        kept = [line for line in corpus if json.loads(line)["doc_id"] in cited]
    (small / "corpus.jsonl").write_text("".join(kept), encoding="utf-8")
    return small


def little_train(folder: Path) -> Path:
    """AVeriTeC with 100 of its training claims: the head learns from them in seconds."""
    real, small = DATA / "averitec", folder / "averitec"
    small.mkdir()
    for name in ("dev.json", "knowledge_store_dev"):
        (small / name).symlink_to((real / name).absolute())
    train = json.loads((real / "train.json").read_text(encoding="utf-8"))
    (small / "train.json").write_text(json.dumps(train[:100]), encoding="utf-8")
    return small


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if not LONG.search(line)], ids=str)
def test_a_command_of_the_docs(line: str, tmp_path: Path, demo_cache: Path) -> None:
    (tmp_path / "ratings.csv").write_text("id,rater,verdict\n1,a,S\n1,b,S\n2,a,R\n2,b,S\n")
    line = line.replace("RATINGS.csv", f"{tmp_path}/ratings.csv")
    line = re.sub(r" (out|to|judge\.asks)=", rf" \1={tmp_path}/", line)
    if re.search(r"(store|unpack)=dev\.pack", line):
        list(Packer(ROOT / "data" / "demo" / "knowledge_store" / "dev", tmp_path / "dev.pack"))
        line = line.replace("=dev.pack", f"={tmp_path}/dev.pack")
    for name, value in FILLED.items():
        line = line.replace(name, value)
    if "dataset=" in line or str(DATA) in line:
        if not DATA.is_dir():
            pytest.skip(f"no {DATA}")
        line = line.replace("limit=50", "limit=3")
        if "dataset=averitec" in line:
            line += f" path={little_train(tmp_path)}"
        if "dataset=scifact +sweep" in line:
            line += f" path={little_corpus(tmp_path)}"
    if "flows.experiment" in line and "--help" not in line:
        line += " tracking=none limit=3" if "limit=" not in line else " tracking=none"
        if "questioner" not in line:
            line += " questioner=rules"
    if "flows.compare" in line and "--help" not in line:
        line += f" tracking=none outputs={tmp_path}"
    done = command(*shlex.split(line)[2:], CLAIMFLOW_CACHE=str(demo_cache))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_experiment_on_claims_and_stores_of_ones_own(tmp_path: Path, demo_cache: Path) -> None:
    """The line of docs/stores.md, with the demo's claims as one's own, and none to train with."""
    demo = ROOT / "data" / "demo"
    (tmp_path / "dev.json").symlink_to(demo / "dev.json")
    (line,) = re.findall(
        r"(?m)^python -m (flows\.experiment .*path=FOLDER.*)$",
        "".join(blocks(ROOT / "docs" / "stores.md", "text")),
    )
    line = line.replace("FOLDER", str(tmp_path)).replace("OWN/", f"{demo}/knowledge_store/")
    line = line.replace("/knowledge_store_dev", "/dev")
    more = ["tracking=none", "limit=2", f"outputs={tmp_path}/outputs"]
    done = command(*shlex.split(line), *more, CLAIMFLOW_CACHE=str(demo_cache))
    assert done.returncode == 0, done.stderr


def test_the_readme_counts_the_retrievers_of_the_sweep() -> None:
    [count] = re.findall(r"`\+sweep=retrievers` has (\d+)", (ROOT / "README.md").read_text("utf-8"))
    sweep = (ROOT / "conf" / "sweep" / "retrievers.yaml").read_text("utf-8")
    [names] = re.findall(r"retriever: (.*)", sweep)
    assert int(count) == len(names.split(","))


def test_scoring_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = {"claim": "A.", "label": "Refuted", "questions": [{"question": "Who?", "answers": []}]}
    (tmp_path / "dev.json").write_text(json.dumps([claim]))
    (tmp_path / "TEAM.json").write_text('[{"claim_id": 0, "pred_label": "Refuted"}]')
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "docs" / "scoring.md", "python")
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["scores"].measures["accuracy"].value == 1
    assert len(block.split("\n\n")[-1].splitlines()) == 3


@pytest.mark.slow
def test_the_worked_example_of_a_retriever(tmp_path: Path) -> None:
    page = ROOT / "docs" / "extending.md"
    for folder in ("components", "flows", "conf", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "components" / "retrieve" / "overlap.py").write_text(blocks(page, "python")[0])
    (tmp_path / "conf" / "retriever" / "overlap.yaml").write_text(blocks(page, "yaml")[0])
    (line,) = blocks(page, "sh")[0].splitlines()
    home = os.environ.get("CLAIMFLOW_HOME", str(ROOT / ".claimflow"))
    places = {"CLAIMFLOW_HOME": home, "CLAIMFLOW_CACHE": str(tmp_path / "cache")}
    done = command(*line.split()[2:], "tracking=none", cwd=tmp_path, **places)
    assert done.returncode == 0, done.stderr
    assert " overlap" in done.stdout
    lines = blocks(page, "yaml")[0].splitlines()
    shown = command("flows.experiment", "--help", cwd=tmp_path).stdout
    assert lines[0].removeprefix("# ") in shown


@pytest.mark.slow
def test_the_worked_example_of_a_data_set(tmp_path: Path) -> None:
    page = ROOT / "docs" / "extending.md"
    for folder in ("components", "flows", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "components" / "datasets" / "notes.py").write_text(blocks(page, "python")[1])
    (tmp_path / "conf" / "dataset" / "notes.yaml").write_text(blocks(page, "yaml")[1])
    notes = tmp_path / "notes" / "dev"
    notes.mkdir(parents=True)
    (notes.parent / "dev.csv").write_text(blocks(page, "csv")[0])
    (notes / "1.txt").write_text("The bridge in Quillon opened in May 2019.\nIt rained.\n")
    (notes / "2.txt").write_text("Arvenport runs nine buses and two ferries.\n")
    (line,) = blocks(page, "sh")[1].splitlines()
    done = command(
        *line.split()[2:],
        "tracking=none",
        cwd=tmp_path,
        CLAIMFLOW_HOME=os.environ.get("CLAIMFLOW_HOME", str(ROOT / ".claimflow")),
        CLAIMFLOW_CACHE=str(tmp_path / "cache"),
        PYTHONPATH=str(tmp_path),
        fresh=True,
    )
    assert done.returncode == 0, done.stderr
    assert "label accuracy" in done.stdout
    [predictions] = tmp_path.glob("outputs/*/predictions.jsonl")
    said = [json.loads(row) for row in predictions.read_text().splitlines()]
    assert [row["id"] for row in said] == ["1", "2"]
    assert said[1]["evidence"][0]["answer"] == "Arvenport runs nine buses and two ferries."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_counts_the_presets() -> None:
    [count] = re.findall(r"It has (\d+) published", (ROOT / "README.md").read_text("utf-8"))
    assert int(count) == len(list((ROOT / "conf" / "system").glob("*.yaml")))
