"""A process beside a run that logs it to MLflow: importing MLflow takes as long as many a run does,
and the points of a sweep are logged while the next ones run.

Requests go to it one after the other. It ends when its input does: with the run, however that ends,
and after the request that it was at.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.files import ROOT
from components.records import Record, decode, encode
from flows.log import say

if TYPE_CHECKING:
    from omegaconf import DictConfig

SERVE = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from flows.tracker import serve; serve()"


class Request(Record):
    """What to do with a run folder: `track`, `begin` or `end`; and where MLflow is."""

    do: str
    folder: str
    cwd: str
    outputs: str
    tracking: dict[str, str | None]


class Answer(Record):
    """The id of the MLflow run, if there is one."""

    run_id: str | None


class _Beside:
    """The process, and the thread that speaks with it."""

    def __init__(self) -> None:
        self.asked = False
        self.queue = ThreadPoolExecutor(1)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the run
        )

    def answer(self, request: Request) -> str | None:
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(encode(request) + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            say(
                f"  The process that logs to MLflow has ended. The run is kept in {request.folder}:"
                " `python -m flows.track` logs it later."
            )
            return None
        return decode(line, Answer).run_id


_beside = functools.cache(_Beside)


def _here() -> bool:
    """Whether MLflow is imported already, so that a process would save nothing."""
    return "mlflow" in sys.modules


def start(config: DictConfig) -> None:
    """Let the process get ready, where the run will need it."""
    if config.tracking.uri and not _here():
        _beside()


def ask(do: str, folder: Path, config: DictConfig) -> Future[str | None]:
    """Let a run folder be tracked: `track` logs it whole, `begin` opens the run of a sweep, `end`
    says that it goes on no more. The result is the id of the MLflow run; None without a tracker, or
    when it can't be reached, which is said then."""
    from omegaconf import OmegaConf

    done: Future[str | None] = Future()
    if not config.tracking.uri:
        done.set_result(None)
        return done
    tracking: Any = OmegaConf.to_container(config.tracking, resolve=True)
    request = Request(
        do=do,
        folder=str(folder),
        cwd=os.getcwd(),
        outputs=str(config.outputs),
        tracking={key: tracking[key] for key in ("uri", "experiment", "artifacts")},
    )
    if not _here():
        beside = _beside()
        if do != "end" or beside.asked:  # else there is nothing to end
            beside.asked = True
            return beside.queue.submit(beside.answer, request)
    done.set_result(_answer(request) if _here() else None)
    return done


def _answer(request: Request) -> str | None:
    from omegaconf import OmegaConf

    from flows.tracking import begin, end, track

    config = OmegaConf.create({"tracking": request.tracking, "outputs": request.outputs})
    do = {"begin": begin, "end": end, "track": track}[request.do]
    return do(Path(request.folder), config)


def serve() -> None:
    """Answer what comes in, a line a request."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the run decides what is still to be logged
        signal.signal(number, signal.SIG_IGN)
    os.nice(5)  # the run goes first
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints is no answer
    importlib.import_module("flows.cli")  # sets what the libraries read when they are imported
    importlib.import_module("mlflow.store.tracking.sqlalchemy_store")
    for line in sys.stdin.buffer:
        request = decode(line, Request)
        os.chdir(request.cwd)
        answers.write(encode(Answer(run_id=_answer(request))) + b"\n")
