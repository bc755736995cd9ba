"""How Hydra composes the points of a sweep: each once, and with the settings of their choices."""

from __future__ import annotations

import re
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, read_write

composed_ahead: dict[tuple[str, ...], DictConfig] = {}  # points that are still to be run


def compose_points() -> None:
    """Make Hydra compose so in this process."""
    if ConfigLoaderImpl.load_configuration.__module__ == __name__:
        return
    load, load_point = ConfigLoaderImpl.load_configuration, ConfigLoaderImpl.load_sweep_config

    def without(
        self: Any, config_name: str, overrides: list[str], run_mode: RunMode, *a: Any, **k: Any
    ) -> DictConfig:
        """The config that a sweep begins with has each group's default, and lacks settings that
        only the swept choices know: leave those to the points, which refuse what none knows."""
        left: list[str] = []
        while True:
            kept = [text for text in overrides if text not in left]
            try:
                config = load(self, config_name, kept, run_mode, *a, **k)
                break
            except ConfigCompositionException as error:
                found = re.match(r"Could not override '([\w.]+\.\w+)'", str(error))
                unknown = [text for text in kept if found and text.startswith(f"{found[1]}=")]
                if run_mode != RunMode.MULTIRUN or not unknown:
                    raise
                left += unknown
        if left:
            with read_write(config.hydra):
                config.hydra.overrides.task.extend(left)
        return config

    def once(self: Any, master_config: DictConfig, sweep_overrides: list[str]) -> DictConfig:
        """Hydra composes each point to see whether it can, and then anew to run it, which takes a
        quarter of a second: let the run take the first one."""
        key = tuple(sweep_overrides)
        if key in composed_ahead:
            return composed_ahead.pop(key)
        return composed_ahead.setdefault(key, load_point(self, master_config, sweep_overrides))

    ConfigLoaderImpl.load_configuration = without  # type: ignore[method-assign]
    ConfigLoaderImpl.load_sweep_config = once  # type: ignore[method-assign]
