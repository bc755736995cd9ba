"""Write params.yaml, the config that the stages of dvc.yaml read, from conf/.

    python -m flows.params                    the defaults
    python -m flows.params retriever=bm25s    other choices

`dvc repro` composes no Hydra config, so the composed one is a file under version control. A test
fails when it no longer says what conf/ says. What several places share stands there once; they name
it, as in `encoder: $(embedder)`, so that `dvc exp run -S embedder.max_length=128` reaches all of
them. (`dvc exp run` would resolve Hydra's own `${embedder}` into a copy for each place.)
"""

from __future__ import annotations

import re
from pathlib import Path

from components.files import ROOT, write_whole
from flows.cli import PLACES, composed, plain

HEADER = (
    "# Written by `python -m flows.params` from conf/: change it there, or with `dvc exp run -S`.\n"
)


def text(overrides: list[str]) -> str:
    """The composed config as YAML, with references as `$(…)`."""
    from omegaconf import OmegaConf, open_dict

    config = composed([*overrides, "name=dvc"])
    with open_dict(config):
        for key in PLACES:
            del config[key]
    return HEADER + re.sub(r"\$\{([^{}]*)\}", r"$(\1)", OmegaConf.to_yaml(config))


def interpolated(text: str) -> str:
    """What `text` wrote, with references as OmegaConf reads them."""
    return re.sub(r"\$\(([^()]*)\)", r"${\1}", text)


def main(words: list[str], path: Path = ROOT / "params.yaml") -> None:
    """Compose and write."""
    write_whole(path, text(words).encode())
    print(f"wrote {path}")


if __name__ == "__main__":
    plain(main)
