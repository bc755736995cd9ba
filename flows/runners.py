"""Prefect: its task runners for `runner=`, with the same results, and where flows are reported."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from components.errors import ClaimflowError, nearest

KINDS = ("threads", "processes", "dask")


# Prefect would start the same server, but imports all of it into this process, too, and looks only
# then for its answer. This one ends when its input does: with this process, however that ends.
# Its transactions wait for one another: with SQLite, one that first reads and then writes fails at
# once where another has written meanwhile, and Prefect's client then sleeps for two seconds.
SERVER = """
import os, socket, sys, threading, uvicorn
from prefect.server.api.server import create_app
from prefect.server.database.configurations import AioSqliteConfiguration as SQLite
begin = SQLite.begin_transaction
SQLite.begin_transaction = lambda self, session, with_for_update=False: begin(self, session, True)
threading.Thread(target=lambda: os._exit(bool(sys.stdin.read())), daemon=True).start()
server = uvicorn.Server(uvicorn.Config(create_app(ephemeral=True, final=True), log_level="error"))
server.run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""


# It keeps flow runs and task runs, and not each event behind them, which would be most of its work.
QUIET = {"PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false"}


def listen() -> socket.socket:
    """A port of this machine that this machine reaches."""
    try:
        listening = socket.create_server(("127.0.0.1", 0))
        with socket.create_connection(listening.getsockname(), timeout=5):
            return listening
    except OSError as error:
        raise ClaimflowError(
            f"Prefect's own server needs 127.0.0.1, which can't be reached here ({error}): bring "
            "the loopback interface up (`ip link set lo up`) and let no firewall or sandbox block "
            "it, or name a server that runs elsewhere with PREFECT_API_URL."
        ) from error


@functools.cache
def own_server() -> str:
    """Start a Prefect server for the flows of this process; the URL of its API. Who asks it before
    it is ready waits for its answer."""
    with listen() as listening:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(listening.fileno())],
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the flow, which tells the server of it
            env=QUIET | os.environ,
        )
        atexit.register(process.kill)
        return f"http://127.0.0.1:{listening.getsockname()[1]}/api"


def limited() -> bool:
    """Whether a server may limit how many tasks of a tag run at once: nobody can set that on one of
    this process. Asking it makes a task wait for up to seconds beside sqlite."""
    from prefect.settings import get_current_settings

    started = own_server.cache_info().currsize
    return not started or get_current_settings().api.url != own_server()


@contextlib.contextmanager
def prefect_api() -> Iterator[None]:
    """Where flows are reported to: the server that Prefect's settings name, else one of this
    process, which gets ready while the process imports the rest: a flow enters this first."""
    from prefect.context import refresh_global_settings_context as refresh
    from prefect.settings import (
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        get_current_settings,
        temporary_settings,
    )

    if get_current_settings().api.url:
        yield
        return
    # By the environment, which threads and worker processes see, too. The server starts late on a
    # busy machine.
    given = {"PREFECT_API_URL": own_server(), "PREFECT_API_REQUEST_TIMEOUT": "180"}
    os.environ.update(given)
    refresh()
    try:
        # No heartbeats, where no lasting server watches for them: waiting for their thread costs
        # half a second at the end of every run.
        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
            yield
    finally:
        for name in given:
            del os.environ[name]
        refresh()


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
