"""LoRA adapters: folders that PEFT wrote, served side by side on one base model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components import weights
from components.errors import ClaimflowError
from components.step import identity

CONFIG = "adapter_config.json"


def name(folder: Path) -> str:
    """What engines and servers call the adapter in `folder`: the start of its digest."""
    return str(identity(folder))[:16]


def read(folder: Path) -> dict[str, Any]:
    """The adapter's own config. Raises ClaimflowError when `folder` holds no adapter."""
    file = folder / CONFIG
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        Path(config["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClaimflowError(
            f"{file} describes no adapter ({type(error).__name__}: {error}). Give a folder that "
            "PEFT or `python -m flows.train` wrote."
        ) from error
    return config


def check(folder: Path, model: Path) -> dict[str, Any]:
    """The adapter's own config.

    Raises ClaimflowError also for weights that are damaged or missing, and for an adapter of
    another base model: by the base's digest where
    training wrote one beside the weights (`base_digest`), else by its name.
    """
    config = read(folder)
    weights.trained(folder)
    base = Path(config["base_model_name_or_path"]).name
    trained_on = _base_digest(folder)
    fits = trained_on == identity(model) if trained_on else base == model.name
    if not fits:
        digests = (f" ({trained_on[:8]})", f" ({identity(model)[:8]})") if trained_on else ("", "")
        raise ClaimflowError(
            f"The adapter {folder} was trained on {base}{digests[0]}, and llm.model is "
            f"{model.name}{digests[1]}: give that model's folder."
        )
    return config


def _base_digest(folder: Path) -> str | None:
    for file in sorted(folder.glob("*.json")):
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(said, dict) and "base_digest" in said:
            return str(said["base_digest"])
    return None
