"""Parts that the tests of tracking, dashboard and reproduction share."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

from flows.cli import CONF
from flows.resolvers import register
from tests.conftest import command, serving

TEXTS = {
    11: ("On moss", ["Moss grows on the north side.", "It stays green in winter."]),
    12: ("On ferns", ["Ferns wilt in dry summers.", "Their spores drift for miles."]),
    13: ("On lichen", ["Lichen is a fungus with an alga.", "It grows a millimetre a year."]),
    14: ("On reeds", ["Reeds clean the water of ponds."]),
}
CLAIMS = {
    1: ("Moss stays green in winter.", 11),
    2: ("Fern spores drift for miles.", 12),
    3: ("Water stays green in dry summers.", 14),
}


def write_data(folder: Path) -> Path:
    """A data set in SciFact's layout."""
    folder.mkdir(parents=True)
    corpus = [{"doc_id": i, "title": t, "abstract": a} for i, (t, a) in TEXTS.items()]
    claims = [
        {"id": i, "claim": text, "evidence": {}, "cited_doc_ids": [doc]}
        for i, (text, doc) in CLAIMS.items()
    ]
    train = [{"id": 9, "claim": "Reeds clean ponds.", "evidence": {}, "cited_doc_ids": [14]}]
    for name, rows in (("corpus", corpus), ("claims_dev", claims), ("claims_train", train)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def settings(folder: Path) -> list[str]:
    """The command line of a run that keeps everything below `folder`."""
    return [
        "dataset=scifact",
        "retriever=tfidf",
        f"path={folder}/data",
        f"cache={folder}/cache",
        f"outputs={folder}/outputs",
        f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db",
        f"tracking.artifacts={folder}/mlruns/artifacts",
    ]


def config_of(folder: Path, *more: str, name: str = "config") -> DictConfig:
    """The composed config of such a run."""
    register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose(name, overrides=[*settings(folder), *more])


def flow(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m flows.NAME …`, to its end."""
    return command(f"flows.{name}", *arguments)


def server(folder: Path, port: int) -> Any:
    """A tracking server of its own, with its store below `folder`."""
    store = [f"--backend-store-uri=sqlite:///{folder}/server.db"]
    store += [f"--artifacts-destination={folder}/server"]
    where = ["--host=127.0.0.1", f"--port={port}", "--workers=1"]
    return serving(["mlflow", "server", *where, *store], port)
