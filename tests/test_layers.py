"""components/ stands alone: it can be used without the flows and the tools that run them."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
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


def test_every_package_that_is_imported_is_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    named = {canonical(re.split(r"[\[<>=!; ]", line)[0]) for line in lines}
    brings = importlib.metadata.packages_distributions()
    for path in [*MODULES, *sorted((ROOT / "flows").rglob("*.py"))]:
        for package in set(imported(path.read_text(encoding="utf-8"))):
            if package not in sys.stdlib_module_names | {"components", "flows"}:
                names = {canonical(name) for name in brings.get(package, [package])}
                assert names & named, f"{path.name} imports {package}: name it in pyproject.toml"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
