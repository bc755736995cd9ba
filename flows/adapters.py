"""Where trained models are: `adapter=` takes a folder, models:/NAME/VERSION of MLflow's registry,
or the digest that training printed (its first eight characters or more)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from components.cache import key_of, open_cache
from components.errors import ClaimflowError
from components.files import folder_digest
from components.records import Record

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from omegaconf import DictConfig

KEY = "adapter"  # of every config node that takes one
DIGEST, TRAINED = "claimflow.digest", "claimflow.training"  # tags of a registered version


class Found(Record, frozen=True):
    """A trained model: its folder, and the MLflow version and run that it is from, if any."""

    path: str
    version: str = ""
    run: str = ""


def resolve(reference: str | Path, config: DictConfig) -> Path:
    """The folder that a reference means, fetched from the tracker if need be. Raises ClaimflowError
    for one that leads nowhere."""
    return Path(find(reference, config).path)


def find(reference: str | Path, config: DictConfig) -> Found:
    """`resolve`, and where it was found."""
    text = str(reference)
    if Path(text).is_dir():
        return Found(path=str(Path(text).absolute()))
    tracking = config.get("tracking")
    uri = tracking.get("uri") if tracking else None
    if text.startswith("models:/"):
        if not uri:
            raise ClaimflowError(
                f"{text} is in MLflow's registry, and tracking=none names none: give the server or "
                "file that has it with tracking.uri=…"
            )
        return _registered(text, str(uri), str(config.cache))
    if re.fullmatch(r"[0-9a-f]{8,32}", text):
        for folder in Path().glob("models/*"):
            if folder.is_dir() and folder_digest(folder).startswith(text):
                return Found(path=str(folder.absolute()))
        if uri:
            return _of_digest(text, str(uri), str(config.cache))
    raise ClaimflowError(
        f"adapter={text}: no folder {Path(text).absolute()}. Give one that `python -m flows.train` "
        "wrote, models:/NAME/VERSION, or the digest that it printed."
    )


def references(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(dotted key, reference) of every adapter that a config node names."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == KEY and isinstance(value, (str, Path)):
                yield f"{path}{key}", str(value)
            else:
                yield from references(value, f"{path}{key}.")


def with_folders(node: Any, config: DictConfig) -> Any:
    """A config node with the folder in place of each reference to an adapter."""
    if isinstance(node, dict):
        return {
            key: str(resolve(value, config))
            if key == KEY and isinstance(value, (str, Path))
            else with_folders(value, config)
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [with_folders(item, config) for item in node]
    return node


@functools.lru_cache(maxsize=64)
def _registered(reference: str, uri: str, cache: str) -> Found:
    from mlflow.exceptions import MlflowException

    client = _client(uri)
    name, _, version = reference.removeprefix("models:/").partition("/")
    name, _, alias = name.partition("@")
    try:
        if alias:
            version = client.get_model_version_by_alias(name, alias).version
        if not version:
            known = client.search_model_versions(f"name = '{name}'")
            raise ClaimflowError(
                f"{reference} names no version. There are: "
                f"{', '.join(f'models:/{name}/{v.version}' for v in known) or 'none'}."
            )
        return _fetched(client, name, str(version), uri, cache)
    except MlflowException as error:
        raise ClaimflowError(
            f"{reference} in {uri}: {str(error).splitlines()[0]} `make dashboard` shows what is "
            "registered; tracking.uri=… names another registry."
        ) from error


@functools.lru_cache(maxsize=64)
def _of_digest(start: str, uri: str, cache: str) -> Found:
    from flows.tracking import one_line

    client = _client(uri)
    with one_line(uri):
        known = client.search_model_versions()
    found = [v for v in known if (v.tags or {}).get(DIGEST, "").startswith(start)]
    if not found:
        raise ClaimflowError(
            f"No model in {uri} has a digest that begins with {start}: give a folder that "
            "`python -m flows.train` wrote, models:/NAME/VERSION, or the digest that it printed."
        )
    return _fetched(client, found[0].name, str(found[0].version), uri, cache)


def _fetched(client: MlflowClient, name: str, version: str, uri: str, cache: str) -> Found:
    """The folder of a version: where it lies if that is on this machine, else downloaded once."""
    found = client.get_model_version(name, version)
    source = client.get_model_version_download_uri(name, version)
    parts = urlparse(source)
    path = Path(unquote(parts.path))
    if parts.scheme not in ("", "file"):

        def download(folder: Path) -> None:
            from mlflow.artifacts import download_artifacts

            download_artifacts(
                artifact_uri=source, dst_path=str(folder / "model"), tracking_uri=uri
            )

        made = open_cache(cache).artifact(key_of("adapter", uri, name, version, source), download)
        [path] = (p.parent for p in Path(made.path, "model").rglob("README.md"))
    if not path.is_dir():
        raise ClaimflowError(
            f"models:/{name}/{version} is registered, and {path} is gone: name another version, or "
            "train it again with `python -m flows.train`."
        )
    return Found(path=str(path), version=f"models:/{name}/{version}", run=found.run_id or "")


def _client(uri: str) -> MlflowClient:
    from mlflow import MlflowClient

    from flows.tracking import check_answers, one_line

    with one_line(uri):
        check_answers(uri)
        return MlflowClient(uri)
