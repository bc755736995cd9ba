"""Write params.yaml, the config that the stages of dvc.yaml read, from conf/.

    python -m flows.params                    the defaults
    python -m flows.params retriever=bm25s    other choices

`dvc repro` composes no Hydra config, so the composed one is a file under version control. A test
fails when it no longer says what conf/ says.
"""

from __future__ import annotations

from pathlib import Path

from components.files import ROOT, write_whole
from flows.cli import PLACES, composed, plain

HEADER = (
    "# Written by `python -m flows.params` from conf/: change it there, or with `dvc exp run -S`.\n"
)


def text(overrides: list[str]) -> str:
    """The composed config as YAML; interpolations stay, so one value stands in one place."""
    from omegaconf import OmegaConf, open_dict

    config = composed([*overrides, "name=dvc"])
    with open_dict(config):
        for key in PLACES:
            del config[key]
    return HEADER + OmegaConf.to_yaml(config)


def main(words: list[str], path: Path = ROOT / "params.yaml") -> None:
    """Compose and write."""
    write_whole(path, text(words).encode())
    print(f"wrote {path}")


if __name__ == "__main__":
    plain(main)
