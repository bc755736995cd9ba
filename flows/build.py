"""From resolved config to objects: the only place that instantiates components."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import re
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
from omegaconf import MISSING, DictConfig, OmegaConf

from components.errors import ClaimflowError, nearest
from components.step import Step, code_version
from flows.adapters import with_folders
from flows.cli import CONF

KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
}


def build(config: Any) -> Any:
    """The object that a config node with `_target_` describes, and those inside it.

    As Hydra's `instantiate`, for what stands in conf/: it takes milliseconds for each call, and a
    sweep makes hundreds.
    """
    node = OmegaConf.to_container(config, resolve=True) if OmegaConf.is_config(config) else config
    if not isinstance(node, dict) or "_target_" not in node:
        raise ClaimflowError(
            f"{node!r} stands where a part with its parameters is due, as in conf/: give a name "
            "of a choice, as in retriever=bm25s, or set one of its parameters."
        )
    return _built(node)


def _built(node: Any) -> Any:
    if isinstance(node, list):
        return [_built(item) for item in node]
    if not isinstance(node, dict):
        return node
    values = {name: _built(value) for name, value in node.items() if name != "_target_"}
    if "_target_" not in node:
        return values
    target, hints = _class(str(node["_target_"]))
    for name, value in values.items():
        check_type(target.__name__, name, value, hints.get(name))
        values[name] = with_paths(value, hints.get(name))
    try:
        return target(**values)
    except ClaimflowError:
        raise
    except Exception as error:
        raise ClaimflowError(wrong_parameters(str(error))) from error


@functools.cache
def _class(target: str) -> tuple[Any, dict[str, Any]]:
    """(class, types of its parameters) of a `_target_`."""
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClaimflowError(
            f"_target_={target}: there is no such class ({error}). Give MODULE.CLASS, as in conf/."
        ) from error
    if not dataclasses.is_dataclass(found):
        return found, {}
    try:
        # Now: what is edited in the middle of a run is none of its code.
        code_version(found.__module__)
        return found, typing.get_type_hints(found)
    except (NameError, SyntaxError) as error:
        raise ClaimflowError(f"{target}: what it is made of can't be read: {error}.") from error


def wrong_parameters(text: str) -> str:
    """What Python says of a call whose parameters don't fit, in words for those who wrote them."""
    text = " ".join(text.split())
    if found := re.search(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'", text):
        return f"{found[1]} has no parameter '{found[2]}': take it out. `--help` shows the choices."
    if found := re.search(r"(\w+)\.__init__\(\) missing \d+ required .*arguments?: (.*)", text):
        return (
            f"{found[1]} needs {found[2]}: set it, or choose another. `--help` shows the choices."
        )
    return f"A part of the config can't be set up: {text}. `-v` shows which."


def with_paths(value: Any, hint: Any) -> Any:
    """`value` with a Path, whose content enters cache keys, for each text that is to be one."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    for kind in typing.get_args(hint) if union else (hint,):
        of = [part for part in typing.get_args(kind) if part is not ...]
        if isinstance(value, str) and kind is Path:
            return Path(value)
        if isinstance(value, dict) and len(of) == 2:
            return {key: with_paths(item, of[1]) for key, item in value.items()}
        if isinstance(value, list) and of:
            return [with_paths(item, of[min(i, len(of) - 1)]) for i, item in enumerate(value)]
    return value


def _kind(hint: Any) -> str | None:
    """A type in words; None for one that is more than plain values and lists of them."""
    if hint in KINDS:
        return KINDS[hint]
    parts = [_kind(part) for part in typing.get_args(hint)]
    kinds = [kind for kind in parts if kind]
    if not kinds or len(kinds) < len(parts):
        return None
    if typing.get_origin(hint) is list:
        return f"a list, each of it {kinds[0]}"
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    kinds.sort(key=lambda kind: kind.startswith("a list"))  # last, as it has parts
    return " or ".join(kinds) if union else None


def check_type(owner: str, name: str, value: Any, hint: Any) -> None:
    """Raise for a parameter without a value, or that is not of its type."""
    if value == MISSING:
        raise ClaimflowError(f"{name} of {owner} has no value: set it.")
    wanted = _kind(hint)
    if not wanted:
        return
    try:
        msgspec.convert(value, hint)
    except msgspec.ValidationError:
        raise ClaimflowError(f"{name}={value} of {owner} is wrong: give {wanted}.") from None


def check_settings(config: DictConfig) -> None:
    """Raise for a setting of the run that is not the number it must be."""
    for key in ("workers", "shard"):
        value = config.runner[key]
        if type(value) is not int or value < 1:
            raise ClaimflowError(f"runner.{key}={value} is wrong: give a whole number from 1 on.")


def step_configs(config: DictConfig) -> dict[str, dict[str, Any]]:
    """Name and config of each step of a run, in order: the filled slots of `config.pipeline`.

    A slot holds one step, an ordered mapping of steps, or null. Adapters are named by folder.
    """
    steps: dict[str, dict[str, Any]] = {}
    for slot in config.pipeline:
        if slot not in config and not (CONF / slot).is_dir():
            raise ClaimflowError(
                f"pipeline names '{slot}', which is no group.{nearest(slot, map(str, config))} A "
                f"new slot of yours is a folder conf/{slot}."
            )
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
