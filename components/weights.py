"""Weights of models as they lie in a folder: are they there, and whole?"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from components.errors import ClaimflowError
from components.records import Record, decode

ADAPTER, WHOLE = "adapter", "whole"
_About = TypeVar("_About", bound=Record)


def files(folder: Path) -> list[Path]:
    """The files of a model's weights, safetensors or, where there are none, PyTorch's; a copy of
    all of them under another name (consolidated.safetensors) counts once."""
    for pattern in ("model*.safetensors", "*.safetensors", "pytorch_model*.bin"):
        if found := sorted(folder.glob(pattern)):
            return found
    return []


def check_file(file: Path) -> None:
    """Raise ClaimflowError for a safetensors file that is not there, cut off or damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise ClaimflowError(
            f"{file} is damaged or missing ({error}): copy the folder again, or train anew."
        ) from error


def trained(folder: Path) -> str:
    """What training wrote into a folder: an ADAPTER or a WHOLE model.

    Raises ClaimflowError where its weights are missing or damaged, as in a copy that was stopped.
    """
    if (folder / "adapter_config.json").exists():
        check_file(folder / "adapter_model.safetensors")
        return ADAPTER
    if (folder / "config.json").exists():
        for file in files(folder) or [folder / "model.safetensors"]:
            check_file(file)
        return WHOLE
    raise ClaimflowError(
        f"{folder} has no weights: adapter_config.json and adapter_model.safetensors, or "
        "config.json and model.safetensors, are missing. Copy the folder again, or train anew."
    )


def about(folder: Path, name: str, kind: type[_About], task: str) -> _About:
    """What a folder that training wrote says of itself, in the file `name`; task: who writes it."""
    file = folder / name
    try:
        return decode(file.read_bytes(), kind)
    except FileNotFoundError:
        raise ClaimflowError(
            f"{folder} has no {name}: give a folder that `python -m flows.train task={task}` wrote."
        ) from None
    except ValueError as error:
        raise ClaimflowError(
            f"{file} is damaged ({error}): copy the folder again, or train anew."
        ) from error
