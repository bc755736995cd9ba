"""The main job: claims in; evidence, verdicts and scores out; one run or a sweep.

python -m flows.experiment                              the default system on the demo data
python -m flows.experiment retriever=bm25s limit=5      other choices
python -m flows.experiment +sweep=retrievers            a prepared sweep
python -m flows.experiment -m retriever=bm25s,dense chunker=sentence,window
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from components.errors import ClaimflowError
from flows.cli import entry
from flows.runners import prefect_api

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log
    from flows.record import RunRecord


def main(config: DictConfig) -> RunRecord:
    """One point: alone, or of the sweep that Hydra is going through."""
    from flows.sweep import current

    if sweep := current():
        return sweep.point(config)
    record = run(config)  # first: it starts what gets ready beside it
    from flows.publish import show
    from flows.record import write_out

    show(record, config)
    write_out(config, [record])
    return record


@prefect_api()
def run(config: DictConfig, log: Log | None = None) -> RunRecord:
    """Run the system that `config` describes, and keep the run."""
    from flows.tracker import start

    start(config)  # it gets ready while this process does, as Prefect's server
    from prefect import flow

    from flows.log import Log
    from flows.publish import publish
    from flows.runners import task_runner
    from flows.stages import evaluate, predict, prepare

    if log is None:
        check(config)  # a run that can't start leaves nothing behind
        check_primary([config])
        log = Log(config)
    with log:
        if log.record.parent:
            check(config, several=True)  # a point of a sweep that can't start is kept as failed

        @flow(name="experiment", flow_run_name=lambda: log.record.name)  # a str is a template
        def experiment() -> None:
            data = prepare(config, log)
            cases = predict(config, data, log)
            scores = evaluate(config, data, cases, log)
            publish(config, data, cases, scores, log)

        experiment.with_options(task_runner=task_runner(config.runner))()
    return log.record


def check(config: DictConfig, several: bool = False) -> None:
    """Raise what is missing or misspelt before any work is done. several: other runs are scored by
    the same judge."""
    from flows.build import build, check_settings, scorer_configs
    from flows.runners import task_runner
    from flows.score import check_judges
    from flows.stages import steps_of, training

    check_settings(config)
    dataset = build(config.dataset)
    training(dataset, dataset.claims(), steps_of(config))
    scorers = [build(node) for node in scorer_configs(config).values()]
    check_judges(scorers if several else [])
    task_runner(config.runner)


def check_primary(points: list[DictConfig]) -> None:
    """Raise when `primary` is no measure of any of the points, or `shown` names unknown ones."""
    from components.report.compare import check_measures
    from flows.build import build
    from flows.stages import measures

    own: dict[str, None] = {}
    for point in points:
        with contextlib.suppress(ClaimflowError):  # its own affair
            own |= dict.fromkeys(measures(point, build(point.dataset).claims()))
        if points[0].primary in own:
            break
    if own:
        whose = "this run" if len(points) == 1 else "these points"
        check_measures(list(own), points[0].primary, points[0].shown or [], whose)


if __name__ == "__main__":
    entry(main)
