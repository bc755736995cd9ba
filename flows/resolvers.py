"""Names that config files may use in `${…:}`."""

from __future__ import annotations

from omegaconf import OmegaConf

from components.files import ROOT, home


def register() -> None:
    """Make the resolvers known to OmegaConf; more than once does no harm."""
    OmegaConf.register_new_resolver("home", lambda: str(home()), replace=True)
    OmegaConf.register_new_resolver("root", lambda: str(ROOT), replace=True)
    OmegaConf.register_new_resolver("axes", _axes, replace=True)


def _axes() -> str:
    """What the command line chose, as a name: `retriever=bm25s,seed=2`, or `default`."""
    from hydra.core.hydra_config import HydraConfig

    if not HydraConfig.initialized():
        return "default"
    skip = ("sweep", "out", "outputs", "name", "tracking", "runner", "cache")
    chosen = [
        text.lstrip("+~")
        for text in HydraConfig.get().overrides.task
        if text.lstrip("+~").split("=")[0].split(".")[0] not in skip
    ]
    return ",".join(chosen) or "default"
