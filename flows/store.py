"""Build a knowledge store for each claim: search, fetch, read, sort out, write.

    python -m flows.store                                  the demo's claims, over the demo's pages
    python -m flows.store dataset=averitec provider=brave fetcher=web to=FOLDER
    python -m flows.store split=train queries=averitec_2024 to=FOLDER
    python -m flows.store provider=recorded …               again, without asking a search service

Stores are in the official layout; flows.experiment reads them by
dataset.store=FOLDER/knowledge_store_SPLIT. What is finished stays finished: start again to go on. A
page or a query that fails costs itself. Where a claim is left without a store the exit code is 1;
on_error=skip takes the rest for a success.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry
from flows.runners import prefect_api

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from components.errors import ClaimflowError
    from components.store.build import Built
    from flows.log import Log


@prefect_api()
def main(config: DictConfig) -> None:
    """Build, print and write the report. After that raises what stopped the search, or that claims
    have no store."""
    from prefect import flow

    from components.errors import ClaimflowError
    from flows.log import Log, number
    from flows.runners import task_runner
    from flows.storing import check, run

    check(config)
    stores: list[Built] = []
    stopped: list[ClaimflowError] = []
    with Log(config, keep=False) as log:

        @flow(name="store")
        def build_stores() -> None:
            stores.extend(run(config, log, stopped))

        build_stores.with_options(task_runner=task_runner(config.runner))()
    show(config, log, stores)
    if stopped:
        raise stopped[0]
    claims = log.record.counts["claims"]
    missing = claims - sum(not store.error for store in stores)
    if missing and config.on_error != "skip":
        raise ClaimflowError(
            f"Without a store: {missing} of {number(claims, 'claim')}, see above. Start again to "
            "go on; fetcher.retry_failed=true asks for failed pages too. on_error=skip takes the "
            "rest for a success."
        )


def show(config: DictConfig, log: Log, stores: list[Built]) -> None:
    """Print counts and what is missing, and write `out=`."""
    from components.files import write_whole
    from components.records import encode
    from flows.log import number
    from flows.record import public

    whole = [store for store in stores if not store.error]
    print(f"{len(whole)} of {number(log.record.counts['claims'], 'store')} in {config.to}/")
    for name, count in log.record.counts.items():
        if name != "claims":
            print(f"  {count:>7} pages {name}")
    for store in [store for store in stores if store.error][:10]:
        print(f"claim {store.id}: no store: {store.error}")
    problems = [f"claim {store.id}: {text}" for store in stores for text in store.problems]
    for text in problems[:10]:
        print(f"no reply: {text}")
    if len(problems) > 10:
        print(f"no reply: {len(problems) - 10} more (out=FILE.json has all)")
    if config.out:
        record = public(log.record, Path(config.outputs))
        told = {"counts": log.record.counts, "notes": log.record.notes, "stores": stores}
        write_whole(Path(config.out), encode([record | told]) + b"\n")


if __name__ == "__main__":
    entry(main, "store")
