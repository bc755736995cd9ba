"""Text of pages by strangers: in a process of its own, which can be stopped."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from types import TracebackType

from components.errors import ClaimflowError
from components.files import ROOT
from components.store.extract import Page, extract


@dataclasses.dataclass(kw_only=True)
class Extractor:
    """`extract` with limits; use it in `with`. One page at a time.

    time_limit: seconds a page. memory: bytes that the process may take for a page. pages: so many
    are done by one process, so that what parsers leave behind does not add up.
    """

    time_limit: float = 20.0
    memory: int = 2 * 2**30
    pages: int = 1000

    def __enter__(self) -> Extractor:
        self._process: subprocess.Popen[bytes] | None = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def extract(self, data: bytes, lang: str | None = None, type: str = "") -> Page:
        """As `extract`. Raises ClaimflowError for a page over a limit, too."""
        if self._process is None or self._left == 0:
            self._begin()
        self._left -= 1
        try:
            self._pipe.send((data, lang, type))
            if not self._pipe.poll(self.time_limit):
                raise ClaimflowError(f"its text is not there after {self.time_limit:g} s")
            found = self._pipe.recv()
        except (EOFError, OSError):
            self._end()
            raise ClaimflowError("its parser crashed, or took too much memory") from None
        except BaseException:
            self._end()
            raise
        if isinstance(found, str):
            raise ClaimflowError(found)
        page: Page = found
        return page

    def _begin(self) -> None:
        self._end()
        ours, theirs = socket.socketpair()
        with theirs:
            # Not by multiprocessing, which imports the caller's script a second time.
            self._process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, str(theirs.fileno()), str(self.memory)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            )
        self._pipe = Connection(ours.detach())
        self._left = self.pages
        with contextlib.suppress(EOFError):  # imports take seconds, and no page's time
            self._pipe.recv()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._pipe.close()
            self._process = None


def _work(pipe: Connection, memory: int) -> None:
    import psutil

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers it
    logging.disable()  # what parsers grumble about a page: the reason says it, once
    with contextlib.suppress(ClaimflowError):  # where language data is missing, every page says so
        extract(b"<html><body><p>All that a page needs is loaded now.</p></body></html>")
    limit = psutil.Process().memory_info().vms + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    pipe.send(None)
    while True:
        try:
            data, lang, type = pipe.recv()
            pipe.send(extract(data, lang, type))
        except ClaimflowError as error:
            pipe.send(str(error))
        except (EOFError, MemoryError):  # the parent is gone, or learns of it by the end
            return


if __name__ == "__main__":
    _work(Connection(int(sys.argv[1])), int(sys.argv[2]))
