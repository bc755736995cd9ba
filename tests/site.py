"""A web site on this machine for tests of what fetches."""

from __future__ import annotations

import contextlib
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Answer(NamedTuple):
    """What the site answers; headers stand beside Content-Length, which is right unless given."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}
    delay: float = 0.0


Route = Callable[[http.server.BaseHTTPRequestHandler], Answer | None]


class Site:
    """`routes` by path; other paths give a page that names itself. `log` has each request's path
    when it comes in, `seen` its headers. A route that returns None has answered by itself."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer | Route] = {"/robots.txt": Answer(status=404)}
        self.other = Answer(headers={"Content-Type": "text/html"})
        self.log: list[str] = []
        self.seen: dict[str, dict[str, str]] = {}
        self.most = 0  # requests at one time
        self._running = 0
        self._lock = threading.Lock()
        self.url = self.host = ""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        path = handler.path
        try:
            given = self._reply(handler, path)
            if given is None:
                handler.close_connection = True
                return
            body = given.body if given is not self.other else page(path)
            handler.send_response(given.status)
            for name, value in ({"Content-Length": str(len(body))} | given.headers).items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)
        except OSError:  # the other side left
            handler.close_connection = True

    def _reply(self, handler: http.server.BaseHTTPRequestHandler, path: str) -> Answer | None:
        """A request is under way until its reply begins: who has the reply may ask again before
        this thread goes on."""
        with self._lock:
            self.log.append(path)
            self.seen[path] = dict(handler.headers.items())
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            found = self.routes.get(path) or self.routes.get(path.partition("?")[0], self.other)
            given = found(handler) if callable(found) else found
            if given is not None:
                time.sleep(given.delay)
            return given
        finally:
            with self._lock:
                self._running -= 1


def page(path: str) -> bytes:
    text = f"The page {path} says that 412 passengers took the ferry. " * 5
    return f"<!DOCTYPE html><html><body><p>{text}</p></body></html>".encode()


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, *args: object) -> None:
        """Whoever left early is no news."""


@contextlib.contextmanager
def serve(site: Site, port: int = 0) -> Iterator[Site]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.answer(self)

        do_HEAD = do_GET  # noqa: N815 - a client reads no body then

        def log_message(self, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    site.host = f"127.0.0.1:{server.server_port}"
    site.url = f"http://{site.host}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
