"""Build a knowledge store for each claim: search, fetch, read, sort out, write.

    python -m flows.store                                  the demo's claims, over the demo's pages
    python -m flows.store dataset=averitec provider=brave fetcher=web to=FOLDER
    python -m flows.store split=train queries=averitec_2024 to=FOLDER
    python -m flows.store provider=recorded …               again, without a request

Stores are in the official layout: flows.experiment reads them by dataset.stores=FOLDER. What is
finished stays finished: start again to go on. A page or a query that fails costs itself.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from components.pipeline import CaseRef
    from components.records import Claim
    from components.store.build import Built
    from flows.log import Log


def main(config: DictConfig) -> None:
    """Build, print and write the report."""
    from prefect import flow

    from components.errors import ClaimflowError
    from flows.log import Log
    from flows.runners import heartbeats, task_runner

    check(config)
    with Log(config, keep=False) as log:
        stopped: list[ClaimflowError] = []
        stores: list[Built] = []

        @flow(name="store")
        def build_stores() -> None:
            stores.extend(run(config, log, stopped))

        with heartbeats():
            build_stores.with_options(task_runner=task_runner(config.runner))()
    report(config, log, stores)
    if stopped:
        raise stopped[0]


def check(config: DictConfig) -> None:
    """Raise what is missing or misspelt before any work is done."""
    from components.errors import ClaimflowError
    from components.store.providers.web import WebProvider
    from components.store.queries import check_gold
    from flows.build import build, build_steps, check_settings

    check_settings(config)
    if not isinstance(config.parallel, int) or config.parallel < 1:
        raise ClaimflowError(f"parallel={config.parallel}: give a whole number of at least 1.")
    dataset, queries, provider = (build(config[k]) for k in ("dataset", "queries", "provider"))
    if not config.get("fetcher") and not provider.has_text:
        raise ClaimflowError(
            "This provider gives addresses without text: say how pages are fetched, fetcher=web."
        )
    if isinstance(provider, WebProvider):
        provider.check()
    build_steps(config)
    evaluated = config.split != dataset.train_split
    check_gold(queries.kinds, dataset.claims(), evaluated, config.allow_gold)


def run(config: DictConfig, log: Log, stopped: list[Any]) -> list[Built]:
    """All stages. A provider that stops ends the search; what was found until then is built."""
    from components.cache import key_of, open_cache
    from components.pipeline import store as case_ref
    from components.records import Case, encode
    from components.store.queries import GOLD_PAGE
    from flows.build import build
    from flows.stages import Scope, context

    with log.stage("data"):
        dataset = build(config.dataset)
        cache = open_cache(str(config.cache))
        claims = dataset.claims()
        train, _ = dataset.train(claims)
        for bad in dataset.bad:
            log.note(f"skipped {bad}")
        scope = Scope(cache=str(config.cache), train=cache.put(encode(train)), seed=config.seed)
    kinds = list(config.queries.kinds)
    log.record.counts["claims"] = len(claims)
    if undated := sum(claim.date is None for claim in claims):
        log.note(f"{undated} claims without a date: nothing restricts their search.")
    if config.allow_gold:
        log.note("allow_gold=true: the stores may hold what gold queries found.")
    with contextlib.ExitStack() as stack:
        pages = Pages(config, scope, log)
        stack.enter_context(pages)
        refs = [case_ref(Case(claim=claim), ("claim",), cache) for claim in claims]
        if "similar_gold_paragraph" in kinds:
            refs = gold_pages(claims, refs, pages, log)
        queried = stage(config, "queries", refs, scope, log)
        made = Stores(config, scope, queried)
        todo = [ref for ref in queried if not ref.error and not made.known(ref)]
        found = searched(config, todo, scope, GOLD_PAGE in kinds, log, stopped)
        made.build(found, pages, log)
    return made.report(queried)
