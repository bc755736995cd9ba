"""Prefect task runners for `runner=`: threads, processes or Dask, with the same results."""

from __future__ import annotations

from typing import Any

from components.errors import ClaimflowError, nearest

KINDS = ("threads", "processes", "dask")


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
