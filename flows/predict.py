"""Predictions alone, without scores: for test splits, and for the stages of dvc.yaml.

    python -m flows.predict dataset=averitec split=test +to=predictions/
    python -m flows.predict params=params.yaml +to=pipeline/data +until=guard

`to` gets predictions.jsonl, rankings.jsonl, the submission files, and stages.json with digests of
all results. With `until`, the last slot to run, it gets stages.json alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry
from flows.runners import prefect_api

if TYPE_CHECKING:
    from omegaconf import DictConfig


@prefect_api()
def main(config: DictConfig) -> None:
    """Prepare the data, run the pipeline, write what it gave."""
    from prefect import flow

    from components.errors import ClaimflowError
    from flows.log import Log, number
    from flows.publish import write_predictions, write_stages
    from flows.record import write_out
    from flows.runners import task_runner
    from flows.stages import predict, prepare

    if not config.get("to"):
        raise ClaimflowError("Where to? Give a folder: +to=predictions")
    to, until = Path(config.to), config.get("until")
    with Log(config, keep=False) as log:

        @flow(name="predict", flow_run_name=lambda: log.record.name)  # a str is a template
        def run() -> None:
            data = prepare(config, log)
            refs = predict(config, data, log, until)
            if not until:
                write_predictions(to, data, refs, log)
            write_stages(to, data, refs, log, {})

        run.with_options(task_runner=task_runner(config.runner))()
    write_out(config, [log.record])
    print(f"{number(log.record.counts['claims'], 'claim')}, written to {to}/")


if __name__ == "__main__":
    entry(main)
