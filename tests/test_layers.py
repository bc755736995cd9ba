"""components/ stands alone: it can be used without the flows and the tools that run them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = {"flows", "prefect", "hydra", "omegaconf", "mlflow", "dvc"}
MODULES = sorted((ROOT / "components").rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """Top-level names of every package that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
                yield str(first.value).split(".")[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_components_import_nothing_above(path: Path) -> None:
    assert not FORBIDDEN & set(imported(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "line",
    [
        "import mlflow",
        "import os, dvc.api as d",
        "from prefect.states import Completed",
        "def f():\n    from flows.build import build",
        "if TYPE_CHECKING:\n    from omegaconf import DictConfig",
        "importlib.import_module('hydra.utils')",
    ],
)
def test_every_way_to_import_is_seen(line: str) -> None:
    assert FORBIDDEN & set(imported(line))


def test_all_packages_are_looked_at() -> None:
    assert {p.parent.name for p in MODULES} >= {"components", "datasets", "score", "retrieve"}
