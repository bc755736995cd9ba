"""One claim's knowledge store of a real size, 1,000 pages and 11 MB, built from a site on this
machine: its pages are random sentences of the demo, one in ten nearly that before it.

Search by BM25 over all pages, fetch, read, guard, near-duplicates, write; then all but the fetching
again, as after a kill. `pages=1000` says how many pages.
"""

from __future__ import annotations

import contextlib
import html
import json
import random
import resource
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from benchmarks.common import argument, finish, row, timed

SENTENCES = 165  # of a page: 11 kB
WORKERS = 2


def main() -> None:
    from components.cache import Cache
    from components.datasets.averitec import Demo
    from components.files import ROOT
    from components.records import Case, decode
    from components.step import Context
    from components.store.build import Read, assemble, document, read_pages, search, write_store
    from components.store.duplicates import NearDuplicates
    from components.store.fetch import Fetcher
    from components.store.guard import Guard
    from components.store.providers.local import Local
    from components.store.queries import StoreQueries

    claims = {split: Demo(split=split).claims() for split in ("train", "dev")}
    texts = pages(int(argument("pages") or 1000), claims)
    claim = claims["dev"][0]
    guard = yaml.safe_load((ROOT / "conf" / "guard" / "strict.yaml").read_text())
    steps = [Guard(**{k: v for k, v in guard.items() if k != "_target_"}), NearDuplicates()]
    rows = []
    with tempfile.TemporaryDirectory() as name, site(texts) as address:
        folder = Path(name)
        index = [{"url": f"{address}/{n}", "url2text": text} for n, text in enumerate(texts)]
        (folder / "index.json").write_text("\n".join(map(json.dumps, index)))
        ctx = Context(Cache(folder / "cache"), claims["train"], 13)
        kinds = ["claim", "generated_question", "background", "named_entity", "similar_entities"]
        (case,) = StoreQueries(kinds=kinds).run([Case(claim=claim)], ctx)
        provider = Local(documents=folder / "index.json", n=len(texts))
        found, seconds = timed(lambda: search(claim, case.queries, provider, ctx, False, WORKERS))
        rows.append(row(f"search, {len(case.queries)} queries, with its index", seconds, "s"))
        urls = [page.url for page in found.found]
        archive = Fetcher(folder=folder / "pages", allow=[address.removeprefix("http://")])

        def read() -> dict[str, str]:
            with archive as fetcher:
                return {f.url: made for f, made in read_pages(urls, fetcher, ctx.cache, WORKERS)}

        made, seconds = timed(read)
        rows.append(row(f"fetch and read {len(urls)} pages", seconds, "s"))
        made, seconds = timed(read)
        rows.append(row("the same again, from archive and cache", seconds, "s"))

        def text(page: Any) -> Any:
            known = decode(ctx.cache.get(made[page.url]) or b"", Read)
            return document(page, known.page) if known.page else known.error

        (kept, counts), seconds = timed(lambda: assemble(claim, found, text, steps, ctx))
        rows.append(row("guard and near-duplicates", seconds, "s"))
        _, seconds = timed(lambda: write_store(folder / "0.json", claim, kept))
        rows.append(row("write", seconds, "s"))
        rows.append(row("size of the store", (folder / "0.json").stat().st_size / 1e6, "MB"))
        rows.append(row("pages kept", counts["kept"], "pages"))
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(each.ru_utime + each.ru_stime for each in used)
        rows.append(row("CPU time of all this, and of the site", cpu, "s"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(row("peak memory of this process", peak, "MiB"))
    finish(rows, "pages")


def pages(count: int, claims: dict[str, Any]) -> list[list[str]]:
    """Sentences of each page."""
    from components.datasets.averitec import Demo

    rng = random.Random(13)
    sentences = [
        sentence
        for split, known in claims.items()
        for claim in known
        for page in Demo(split=split).read_documents(claim)
        for sentence in page.sentences
        if len(sentence) > 30
    ]
    texts: list[list[str]] = []
    for n in range(count):
        if n % 10 == 9:
            texts.append([*texts[-1][:-2], "This page was printed.", "All rights are reserved."])
        else:
            texts.append(
                [
                    f"Note {n}: {s}" if i % 9 else s
                    for i, s in enumerate(rng.choices(sentences, k=SENTENCES))
                ]
            )
    return texts


@contextlib.contextmanager
def site(texts: list[list[str]]) -> Iterator[str]:
    """A web site of these pages."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            at = self.path.strip("/")
            known = at.isdecimal() and int(at) < len(texts)
            inner = (
                "".join(f"<p>{html.escape(text)}</p>" for text in texts[int(at)]) if known else ""
            )
            body = f"<!DOCTYPE html><html><body><article>{inner}</article></body></html>".encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


if __name__ == "__main__":
    main()
