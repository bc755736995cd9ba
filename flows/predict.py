"""Predictions alone, without scores: for test splits, and for the stages of dvc.yaml.

    python -m flows.predict dataset=averitec split=test +to=predictions/
    python -m flows.predict params=params.yaml +to=pipeline/predictions +until=chunker

`to` gets predictions.jsonl, rankings.jsonl, the submission files and stages.json. `until` names
the last slot to run; the results stay in the cache, and stages.json says what was done.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Prepare the data, run the pipeline, write what it gave."""
    from omegaconf import OmegaConf
    from prefect import flow

    from components.errors import ClaimflowError, nearest
    from components.files import write_whole
    from components.records import encode
    from flows.log import Log
    from flows.publish import counts, write_predictions
    from flows.runners import task_runner
    from flows.stages import predict, prepare

    OmegaConf.set_struct(config, False)
    if not config.get("to"):
        raise ClaimflowError("Where to? Give a folder: +to=predictions")
    until = config.get("until")
    if until and until not in config.pipeline:
        raise ClaimflowError(f"No slot '{until}' in the pipeline.{nearest(until, config.pipeline)}")
    if until:
        config.pipeline = config.pipeline[: list(config.pipeline).index(until) + 1]
    to = Path(config.to)
    with Log(config, keep=False) as log:

        @flow(name="predict", flow_run_name=log.record.name.replace("{", "("))
        def run() -> None:
            data = prepare(config, log)
            refs = predict(config, data, log)
            if not until:
                write_predictions(to, data, refs)
            summary = {
                "data": {f"{d['name']} {d['split']}": d["digest"] for d in log.record.datasets},
                "counts": dict(sorted((log.record.counts | counts(data, refs)).items())),
                "cases": {ref.id: ref.fields for ref in refs},
            }
            write_whole(to / "stages.json", encode(summary))

        run.with_options(task_runner=task_runner(config.runner))()
    print(f"{log.record.counts['claims']} claims, written to {to}/")


if __name__ == "__main__":
    entry(main)
