"""Folders of weights that are not whole: said before anything is judged by them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from components import weights
from components.engines.memory import GIB, check_weights, need
from components.errors import ClaimflowError
from components.files import home, whole_folder
from components.reason.tuned import Judge
from components.train.pairs import CrossEncoder
from tests.test_tuned import llm as tuned_llm
from tests.test_tuned import models

__all__ = ["models"]  # a fixture
pytestmark = pytest.mark.skipif(not (home() / "models").is_dir(), reason="no models laid out")


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    """A whole model, as training writes it."""
    return shutil.copytree(models / "bert", tmp_path / "model")


def test_weights_that_are_whole(folder: Path) -> None:
    assert weights.trained(folder) == weights.WHOLE


@pytest.mark.parametrize("damage", ["cut", "empty", "gone"])
def test_weights_that_are_damaged_or_gone(folder: Path, damage: str) -> None:
    file = folder / "model.safetensors"
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[: 500 if damage == "cut" else 0])
    for use in (weights.trained, lambda f: CrossEncoder(f, 2, 48, f)):
        with pytest.raises(ClaimflowError, match=r"model\.safetensors is damaged or missing \("):
            use(folder)


def test_a_folder_without_weights_judges_nothing(models: Path, tmp_path: Path) -> None:
    """As a copy leaves it that was stopped, or a merge before it was written whole."""
    for name in ("verdict.json", "prompt.txt"):
        (tmp_path / name).write_text("{}" if name == "prompt.txt" else json.dumps(
            {"base": "bert", "base_digest": "0", "words": None, "max_length": 48,
             "frequencies": {"Refuted": 1.0}, "trained": 12}
        ), "utf-8")  # fmt: skip
    with pytest.raises(ClaimflowError, match=f"{tmp_path} has no weights: adapter_config"):
        Judge.of(tmp_path, models / "bert")


@pytest.mark.parametrize("text", ["", "{", '{"base": 3}', "[]"])
def test_what_stands_beside_weights_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdict.json").write_text(text, "utf-8")
    with pytest.raises(ClaimflowError, match=r"verdict\.json is damaged \("):
        Judge.of(tmp_path, tmp_path)


def test_a_model_too_large_to_judge_is_refused_before_its_digest(tmp_path: Path) -> None:
    config = {
        "num_hidden_layers": 80, "num_attention_heads": 64, "hidden_size": 8192,
        "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(700 * GIB)
    for use in (check_weights, lambda f: tuned_llm(tmp_path, model=f)):
        with pytest.raises(ClaimflowError, match=r"needs 1400\.0 GiB: .* in float32"):
            use(tmp_path)


def test_weights_are_counted_once(tmp_path: Path) -> None:
    config = {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ClaimflowError, match=r"holds no weights .* served by llama\.cpp"):
        need(tmp_path, "float32")
    for name in ("pytorch_model.bin", "consolidated.safetensors"):
        (tmp_path / name).write_bytes(b"x" * 64)
        assert need(tmp_path, "float32").weights == 64
    for n in (1, 2):
        (tmp_path / f"model-0000{n}-of-00002.safetensors").write_bytes(b"x" * 32)
    assert need(tmp_path, "float32").weights == 64
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ClaimflowError, match="does not describe a language model"):
        need(tmp_path, "float32")


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    to = tmp_path / "to" / "verdict"
    with whole_folder(to) as part:
        (part / "a").touch()

    def stopped() -> None:
        with whole_folder(to) as part:
            (part / "b").touch()
            assert [p.name for p in to.iterdir()] == ["a"]
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    assert [p.name for p in to.iterdir()] == ["a"]
    (to.parent / ".verdict.part").mkdir()  # of a run that was killed
    (to.parent / ".verdict.part" / "c").touch()
    with whole_folder(to) as part:
        (part / "d").touch()
    assert [p.name for p in to.parent.rglob("*")] == ["verdict", "d"]
