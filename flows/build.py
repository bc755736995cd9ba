"""From resolved config to objects: the only place that instantiates components."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import msgspec
from hydra.errors import InstantiationException
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig, OmegaConf

from components.errors import ClaimflowError
from components.step import Step
from flows.adapters import with_folders


def build(config: Any) -> Any:
    """The object that a config node with `_target_` describes."""
    check_types(config)
    try:
        return instantiate(config, _convert_="all")
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, ClaimflowError):
            raise cause from error
        reason = str(cause or error).splitlines()[0]
        name = config.get("_target_", "?")
        raise ClaimflowError(f"Can't set up {name}: {reason}") from error


def check_types(config: Any) -> None:
    """Raise for a parameter that is not of its type: Hydra takes any value."""
    try:
        target = get_class(config["_target_"])
    except ImportError as error:
        raise ClaimflowError(str(error).splitlines()[0]) from error
    hints = typing.get_type_hints(target) if dataclasses.is_dataclass(target) else {}
    for name, value in config.items():
        hint = hints.get(name)
        if not set(typing.get_args(hint) or (hint,)) <= {int, float, bool, str, type(None)}:
            continue
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError as error:
            raise ClaimflowError(f"{target.__name__}: {name}={value!r}: {error}.") from None


def check_settings(config: DictConfig) -> None:
    """Raise for a setting of the run that is not the number it must be."""
    for key, least in (("seed", 0), ("runner.workers", 1), ("runner.shard", 1)):
        value = OmegaConf.select(config, key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ClaimflowError(f"{key}={value} is none: give a whole number of at least {least}.")


def step_configs(config: DictConfig) -> dict[str, dict[str, Any]]:
    """Name and config of each step of a run, in order: the filled slots of `config.pipeline`.

    A slot holds one step, an ordered mapping of steps, or null. Adapters are named by folder.
    """
    steps: dict[str, dict[str, Any]] = {}
    for slot in config.pipeline:
        node = OmegaConf.to_container(config[slot], resolve=True) if config.get(slot) else None
        if node is None:
            continue
        node = with_folders(node, config)
        if "_target_" in node:
            steps[slot] = node
        else:
            steps.update({f"{slot}.{name}": part for name, part in node.items() if part})
    return steps


def build_steps(config: DictConfig) -> dict[str, Step]:
    """The steps of a run by name, in order."""
    return {name: build(node) for name, node in step_configs(config).items()}


def scorer_configs(config: DictConfig) -> dict[str, dict[str, Any]]:
    """The scorers of a run by name: `config.scorer` holds one, or a mapping of several."""
    node: Any = with_folders(OmegaConf.to_container(config.scorer, resolve=True), config)
    if "_target_" in node:
        return {str(node["_target_"]).rpartition(".")[2].lower(): node}
    return {name: part for name, part in node.items() if part}
