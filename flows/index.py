"""Chunk the documents and build what the retrievers search: indexes and embeddings, in the cache.

    python -m flows.index dataset=scifact                    before a sweep, or overnight
    python -m flows.index params=params.yaml +to=pipeline/index

An experiment builds what it lacks by itself. `to` gets stages.json: what was indexed, by digest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry
from flows.runners import prefect_api

if TYPE_CHECKING:
    from omegaconf import DictConfig


@prefect_api()
def main(config: DictConfig) -> None:
    """Run the pipeline up to the chunker, then index every store that came out of it."""
    from prefect import flow

    from flows.log import Log
    from flows.publish import write_stages
    from flows.record import write_out
    from flows.runners import task_runner
    from flows.stages import predict, prepare

    with Log(config, keep=False) as log:

        @flow(name="index")
        def run() -> None:
            data = prepare(config, log)
            refs = predict(config, data, log, until="chunker")
            stores = build_indexes(config, refs, data.scope, log)
            if config.get("to"):
                write_stages(Path(config.to), data, refs, log, {"indexed": stores})

        run.with_options(task_runner=task_runner(config.runner))()
    write_out(config, [log.record])


def build_indexes(config: DictConfig, refs: list[Any], scope: Any, log: Any) -> dict[str, int]:
    """Index each store for each retriever of the pipeline; {retriever: stores}."""
    from components.retrieve.search import Search
    from flows.build import build, step_configs
    from flows.stages import index, plain

    done = {}
    one_each = {ref.fields["passages"]: ref for ref in refs if not ref.error}
    for name, node in step_configs(config).items():
        if not isinstance(build(node), Search):
            continue
        with log.stage(f"index {name}"):
            futures = [index.submit(name, node, digest, plain(scope)) for digest in one_each]
            done[name] = sum(1 for future in futures if future.result())
    return done


if __name__ == "__main__":
    entry(main)
