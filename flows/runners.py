"""Prefect task runners for `runner=`: threads, processes or Dask, with the same results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from components.errors import ClaimflowError, nearest

KINDS = ("threads", "processes", "dask")


@contextlib.contextmanager
def heartbeats() -> Iterator[None]:
    """Leave out a flow's heartbeats when no lasting server watches for them: waiting for their
    thread costs half a second at the end of every run."""
    from prefect.settings import (
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        get_current_settings,
        temporary_settings,
    )

    if get_current_settings().api.url:
        yield
        return
    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


def task_runner(config: Any) -> Any:
    """The task runner that conf/runner describes."""
    if config.kind == "threads":
        from prefect.task_runners import ThreadPoolTaskRunner

        return ThreadPoolTaskRunner(max_workers=config.workers)
    if config.kind == "processes":
        from prefect.task_runners import ProcessPoolTaskRunner

        return ProcessPoolTaskRunner(max_workers=config.workers)
    if config.kind == "dask":
        from prefect_dask import DaskTaskRunner

        if config.address:
            return DaskTaskRunner(address=config.address)
        return DaskTaskRunner(
            cluster_kwargs={
                "n_workers": config.workers,
                "threads_per_worker": 1,
                "dashboard_address": None,
            }
        )
    raise ClaimflowError(
        f"No runner kind '{config.kind}'.{nearest(config.kind, KINDS)} Kinds: {', '.join(KINDS)}."
    )
