"""The dataset group: short keys on the command line, and overrides of other groups."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from components.errors import ClaimflowError
from components.files import ROOT
from flows.build import build
from flows.resolvers import register

CONF = ROOT / "conf"


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """conf/, with an empty choice for each one that config files name and that is not there."""
    copy = tmp_path_factory.mktemp("conf") / "conf"
    shutil.copytree(CONF, copy)
    for path in copy.rglob("*.yaml"):
        for group, choice in re.findall(r"(?m)^  - (?:override /)?(\w+): (\w+)", path.read_text()):
            file = copy / group / f"{choice}.yaml"
            if not file.exists() and group != "override":
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"# {choice}\nplaceholder: {choice}\n")
    return copy


def composed(conf: Path, *overrides: str) -> Any:
    register()
    with initialize_config_dir(str(conf), version_base="1.3"):
        return compose("config", overrides=[*overrides])


@pytest.mark.parametrize("name", ["demo", "averitec", "scifact", "fever"])
def test_short_keys_reach_the_data_set(conf: Path, name: str, tmp_path: Path) -> None:
    config = composed(
        conf, f"dataset={name}", "split=train", "limit=5", "ids=[3,17]", f"path={tmp_path}"
    )
    dataset = build(config.dataset)
    assert dataset.name == name
    assert (dataset.split, dataset.limit, dataset.train_split) == ("train", 5, "train")
    assert dataset.ids == [3, 17]
    assert dataset.folder == tmp_path


def test_defaults(conf: Path) -> None:
    dataset = build(composed(conf).dataset)
    assert (dataset.name, dataset.split, dataset.limit, dataset.ids) == ("demo", "dev", None, None)
    assert dataset.on_error == "stop"
    assert dataset.folder == ROOT / "data" / "demo"


def test_scifact_chooses_a_retrieval_pipeline(conf: Path) -> None:
    config = composed(conf, "dataset=scifact")
    with initialize_config_dir(str(conf), version_base="1.3"):
        plain = compose("config", overrides=["dataset=demo"])
    assert plain.guard._target_ == "components.store.guard.Guard"
    assert config.chunker._target_ == "components.store.chunk.WholeDocument"
    for group in ("guard", "questioner", "answerer", "verdict"):
        assert not config.get(group), group
    chosen = composed(conf, "dataset=scifact", "chunker=sentence")  # the command line wins
    assert chosen.chunker._target_ == "components.store.chunk.Sentences"
    hydra = _choices(conf, "dataset=scifact")
    assert (hydra["query"], hydra["scorer"]) == ("claim", "retrieval")


def test_fever_chooses_its_sentences_and_scorer(conf: Path) -> None:
    assert not composed(conf).get("findings")
    hydra = _choices(conf, "dataset=fever")
    assert (hydra["scorer"], hydra["findings"], hydra["query"]) == ("fever", "fever", "claim")
    assert _choices(conf, "dataset=fever", "system=athene_2018")["query"] == "noun_phrases"
    assert not composed(conf, "dataset=fever", "findings=none").get("findings")


def _choices(conf: Path, *overrides: str) -> dict[str, str]:
    with initialize_config_dir(str(conf), version_base="1.3"):
        config = compose("config", overrides=[*overrides], return_hydra_config=True)
    return OmegaConf.to_container(config.hydra.runtime.choices)  # type: ignore[return-value]


def test_data_set_mistakes_are_one_line(conf: Path) -> None:
    for override, message in {
        "limit=0": "limit=0 leaves no claim: give 1 or more.",
        "on_error=ignore": "on_error is stop or skip, not 'ignore'.",
    }.items():
        with pytest.raises(ClaimflowError) as caught:
            build(composed(conf, override).dataset)
        assert str(caught.value) == message
