"""Our fetcher beside one request after the other: a local site of 100 pages that take 200 ms each.

`pages=N` also fetches N pages without delay, and says how far memory grew after the first 1,000.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import argument, finish, row, timed
from components.store.fetch import Fetcher

PAGES = 100
DELAY = 0.2  # seconds
TEXT = "The ferry between Ostrel and Vund carried {n} passengers on day {n}. " * 200


def main() -> None:
    count = int(argument("pages") or 0)
    if 0 < count < 1000:
        sys.exit(f"error: pages={count} is too few to see memory grow: give 1,000 or more.")
    with tempfile.TemporaryDirectory() as folder, site() as port:
        base = f"http://127.0.0.1:{port}"
        urls = [f"{base}/slow/{n}" for n in range(PAGES)]
        found, seconds = timed(lambda: fetched(Path(folder) / "slow", urls))
        plain, plain_seconds = timed(lambda: one_by_one(urls))
        assert found == plain
        rows = [row(f"{PAGES} pages of {DELAY * 1000:.0f} ms", seconds, "s", plain_seconds)]
        if count:
            rows += many(Path(folder) / "many", [f"{base}/fast/{n}" for n in range(count)])
    finish(rows, "pages")


def fetched(folder: Path, urls: list[str]) -> dict[str, bytes]:
    with Fetcher(folder=folder, allow=["127.0.0.1"], progress=False) as fetcher:
        return {result.url: fetcher.body(result) for result in fetcher.fetch(urls)}


def one_by_one(urls: list[str]) -> dict[str, bytes]:
    import httpx

    with httpx.Client() as client:
        return {url: client.get(url).content for url in urls}


def many(folder: Path, urls: list[str]) -> list[dict[str, Any]]:
    """Pages a second, and megabytes that the process grew by after the first 1,000."""
    import psutil

    process = psutil.Process()
    sizes = []

    def work() -> None:
        with Fetcher(folder=folder, allow=["127.0.0.1"], progress=False) as fetcher:
            for number, result in enumerate(fetcher.fetch(urls), 1):
                assert fetcher.body(result)
                if number % 1000 == 0:
                    sizes.append(process.memory_info().rss / 1e6)

    _, seconds = timed(work)
    return [
        row(f"{len(urls)} pages without delay", len(urls) / seconds, "pages/s"),
        row("memory after them", sizes[-1], "MB"),
        row("more than after the first 1,000", sizes[-1] - sizes[0], "MB"),
    ]


# The site, in a process of its own


@contextlib.contextmanager
def site() -> Iterator[int]:
    """The port of the site."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield int(ours.recv())
    finally:
        process.kill()
        process.join()


def serve(pipe: multiprocessing.connection.Connection) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                kind, _, number = path[1:].partition("/")
                if kind == "slow":
                    await asyncio.sleep(DELAY)
                body = TEXT.format(n=number).encode() if number else b""
                status = b"200 OK" if number else b"404 Not Found"
                writer.write(
                    b"HTTP/1.1 %b\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%b"
                    % (status, len(body), body)
                )
                await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=128)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


if __name__ == "__main__":
    main()
