"""The main job: claims in; evidence, verdicts and scores out; one run or a sweep.

python -m flows.experiment                              the default system on the demo data
python -m flows.experiment retriever=bm25s limit=5      other choices
python -m flows.experiment +sweep=retrievers            a prepared sweep
python -m flows.experiment -m retriever=bm25s,dense chunker=sentence,window
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log
    from flows.record import RunRecord


def main(config: DictConfig) -> RunRecord:
    """One point: alone, or of the sweep that Hydra is going through."""
    from flows.publish import show
    from flows.record import write_out
    from flows.sweep import current

    if sweep := current():
        return sweep.point(config)
    record = run(config)
    show(record, config)
    write_out(config.out, [record])
    return record


def run(config: DictConfig, log: Log | None = None) -> RunRecord:
    """Run the system that `config` describes, and keep the run."""
    from prefect import flow

    from flows.build import build_steps
    from flows.log import Log
    from flows.publish import publish
    from flows.runners import task_runner
    from flows.stages import evaluate, predict, prepare

    with log or Log(config) as log:
        build_steps(config)  # what is missing or misspelt shows before any work is done

        @flow(name="experiment", flow_run_name=log.record.name.replace("{", "("))
        def experiment() -> None:
            data = prepare(config, log)
            cases = predict(config, data, log)
            scores = evaluate(config, data, cases, log)
            publish(config, data, cases, scores, log)

        experiment.with_options(task_runner=task_runner(config.runner))()
    return log.record


if __name__ == "__main__":
    entry(main)
