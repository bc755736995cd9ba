"""A search service on this machine that speaks like Google, Brave or SearXNG, and misbehaves on
request."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
KEY = "s3cret-key"


class Service:
    """Answers a request by the next of `first`, then by the shape's own results.

    pages: (url, title, ISO date or None), all found by every query. asked: parameters and headers.
    """

    def __init__(self, shape: str, pages: list[tuple[str, str, str | None]]) -> None:
        self.shape, self.pages = shape, pages
        self.first: list[Answer] = []
        self.asked: list[tuple[dict[str, str], dict[str, str]]] = []
        self.url = ""

    def answer(self, params: dict[str, str], headers: dict[str, str]) -> Answer:
        self.asked.append((params, headers))
        if self.first:
            return self.first.pop(0)
        shape: Callable[..., Answer] = getattr(self, f"_{self.shape}")
        return shape(params, headers)

    def _google(self, params: dict[str, str], headers: dict[str, str]) -> Answer:
        if params.get("key") != KEY:
            error = {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}
            return reply(400, {"error": error})
        at = int(params["start"]) - 1
        items = [
            {
                "link": url,
                "title": title,
                "snippet": "…",
                "pagemap": {"metatags": [{"article:published_time": date}]},
            }
            for url, title, date in self.pages[at : at + int(params["num"])]
        ]
        return reply(200, {"kind": "customsearch#search", **({"items": items} if items else {})})

    def _brave(self, params: dict[str, str], headers: dict[str, str]) -> Answer:
        if headers.get("x-subscription-token") != KEY:
            return reply(422, {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}})
        if len(params["q"]) > 400 or len(params["q"].split()) > 50:
            return reply(422, {"error": {"code": "VALIDATION", "detail": "q is too long"}})
        at = int(params["offset"]) * int(params["count"])
        results = [
            {"url": url, "title": title, "description": "…", "page_age": date}
            for url, title, date in self.pages[at : at + int(params["count"])]
        ]
        return reply(200, {"type": "search", "web": {"results": results}})

    def _searxng(self, params: dict[str, str], headers: dict[str, str]) -> Answer:
        if params.get("format") != "json":
            return reply(403, b"<title>403 Forbidden</title>")
        at = 7 * (int(params["pageno"]) - 1)
        results = [
            {"url": url, "title": title, "content": "…", "publishedDate": date}
            for url, title, date in self.pages[at : at + 7]
        ]
        return reply(200, {"query": params["q"], "results": results, "unresponsive_engines": []})


def reply(status: int, body: Any, **headers: str) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return status, {name.replace("_", "-"): value for name, value in headers.items()}, data


@contextlib.contextmanager
def serving(answer: Callable[[str, dict[str, str], dict[str, str]], Answer]) -> Iterator[str]:
    """An HTTP server on this machine; `answer(path, params, headers)` says what it sends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            params = dict(urllib.parse.parse_qsl(parts.query))
            status, fields, body = answer(parts.path, params, headers)
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | fields).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def service(shape: str, pages: list[tuple[str, str, str | None]]) -> Iterator[Service]:
    made = Service(shape, pages)
    with serving(lambda path, params, headers: made.answer(params, headers)) as url:
        made.url = f"{url}/search"
        yield made
