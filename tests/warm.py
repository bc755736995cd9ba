"""Commands of the tests, as forks of a process that has the libraries of the flows imported.

`python -m flows.NAME` spends seconds on importing Prefect, MLflow and torch; a fork has them. The
rest is as for a user: the command is a process with a folder, environment and streams of its own,
and imports the modules of this project afresh. Nothing but imports may happen before the fork: no
thread of Python's, no open database, no BLAS.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NoReturn

from components.files import ROOT

LIBRARIES = (
    "hydra._internal.hydra",
    "mlflow.store.tracking.sqlalchemy_store",
    "nltk",
    "prefect.flow_engine",
    "sentence_transformers",
)


@functools.cache
def parent() -> subprocess.Popen[str]:
    """The process that forks. It ends when its input does, with the process of the tests."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.warm"],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(words: list[str], cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`python -m WORDS`, to its end."""
    process = parent()
    assert process.stdin
    assert process.stdout
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("in", "out", "err")]
        for path in streams:
            path.touch()
        order = {"words": words, "cwd": str(cwd), "env": env, "streams": list(map(str, streams))}
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        try:
            code = int(process.stdout.readline())
        except BaseException:  # a timeout
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            parent.cache_clear()
            raise
        _, out, err = (path.read_text(encoding="utf-8") for path in streams)
    return subprocess.CompletedProcess(words, code, out, err)


def main() -> None:
    importlib.import_module("flows.cli")  # sets what the libraries read when they are imported
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    for line in iter(sys.stdin.readline, ""):
        child = os.fork()
        if not child:
            become(**json.loads(line))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(words: list[str], cwd: str, env: dict[str, str], streams: list[str]) -> NoReturn:
    """Go on as `python -m WORDS` does from its start."""
    from prefect.context import refresh_global_settings_context

    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDWR), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    server = os.environ.pop("PREFECT_API_URL", None)
    refresh_global_settings_context()
    for name in list(sys.modules):
        if name.split(".")[0] in ("components", "flows"):
            del sys.modules[name]
    sys.path[0] = cwd
    sys.argv = words
    if server:  # that of the tests stands for the one that a flow starts for itself
        runners = importlib.import_module("flows.runners")
        runners.own_server = functools.cache(lambda: server)  # type: ignore[attr-defined]
    code = 1
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
    # What an interpreter does at its end, but for tearing down what all forks share, which is slow.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
