"""From resolved config to objects: the only place that instantiates components."""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from collections.abc import Mapping
from typing import Any

import msgspec
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from components.errors import ClaimflowError
from components.step import Step
from flows.adapters import with_folders

KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
}


def build(config: Any) -> Any:
    """The object that a config node with `_target_` describes."""
    check_types(config)
    try:
        return instantiate(config, _convert_="all")
    except InstantiationException as error:
        cause: BaseException = error
        while not isinstance(cause, ClaimflowError) and cause.__cause__:  # of a part inside
            cause = cause.__cause__
        if isinstance(cause, ClaimflowError):
            raise cause from error
        raise ClaimflowError(wrong_parameters(str(cause))) from error


def wrong_parameters(text: str) -> str:
    """What Python says of a call whose parameters don't fit, in words for those who wrote them."""
    text = " ".join(text.splitlines()[0].split())
    if found := re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", text):
        return f"{found[1]} has no parameter '{found[2]}': take it out. `--help` shows the choices."
    if found := re.search(r"(\w+)\.__init__\(\) missing \d+ required .*arguments?: (.*)", text):
        return (
            f"{found[1]} needs {found[2]}: set it, or choose another. `--help` shows the choices."
        )
    return f"A part of the config can't be set up: {text}. `-v` shows which."


def check_types(config: Any) -> None:
    """Raise for a parameter that is not of its type: Hydra takes any value."""
    if not isinstance(config, Mapping) or "_target_" not in config:
        raise ClaimflowError(
            f"{config!r} stands where a part with its parameters is due, as in conf/: give a name "
            "of a choice, as in retriever=bm25s, or set one of its parameters."
        )
    try:
        module, _, name = str(config["_target_"]).rpartition(".")
        target = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClaimflowError(
            f"_target_={module}.{name}: there is no such class ({error}). Give MODULE.CLASS, as in "
            "conf/."
        ) from error
    hints = typing.get_type_hints(target) if dataclasses.is_dataclass(target) else {}
    for name, value in config.items():
        hint = hints.get(name)
        kinds = typing.get_args(hint) or (hint,)
        if not set(kinds) <= KINDS.keys():
            continue
        try:
            msgspec.convert(value, hint)
        except msgspec.ValidationError:
            wanted = " or ".join(KINDS[kind] for kind in kinds)
            raise ClaimflowError(
                f"{name}={value} of {target.__name__} is none: give {wanted}."
            ) from None


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
