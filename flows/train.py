"""Fit what a system learns from the training split, and keep the models as folders.

    python -m flows.train +to=models/                     the default system's verdict head
    python -m flows.train verdict=lora_llm dataset=averitec +to=models/
    python -m flows.train verdict=lora_encoder trainer=tiny +to=models/ +register=verdicts

An experiment fits what it needs by itself; this is for using a model elsewhere (then
verdict.adapter=models/verdict), and for the train stage of dvc.yaml. Killed and started again, a
fine-tuning goes on from its last checkpoint. Its loss and validation curves become an MLflow run
with the folder as artifact, unless tracking=none; `register` makes that a version of a model in
MLflow's registry.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from flows.log import Log


def main(config: DictConfig) -> None:
    """Fit every step of the pipeline that learns, and copy its folder to `to`/NAME."""
    from prefect import flow

    from components.errors import ClaimflowError
    from components.files import write_whole
    from components.step import TrainedStep
    from flows.build import build, step_configs
    from flows.log import Log
    from flows.record import write_out
    from flows.runners import task_runner
    from flows.stages import context, fit, plain, prepare
    from flows.tracking import track_training

    if not config.get("to"):
        raise ClaimflowError("Where to? Give a folder: +to=models")
    if config.get("register") and not config.tracking.uri:
        raise ClaimflowError("register needs a tracker: leave out tracking=none.")
    to = Path(config.to)
    with Log(config, keep=False) as log:

        @flow(name="train")
        def run() -> None:
            data = prepare(config, log)
            for name, node in step_configs(config).items():
                step = build(node)
                if not isinstance(step, TrainedStep) or step.given():
                    continue
                with log.stage(f"fit {name}"):
                    fit(name, node, plain(data.scope))
                model = context(data.scope).model(step)
                shutil.rmtree(to / name, ignore_errors=True)
                shutil.copytree(model.path, to / name)
                card = to / name / "README.md"
                if card.exists():
                    write_whole(card, (card.read_text("utf-8") + provenance(log)).encode())
                    track_training(name, node, to / name, log.record, config)
                print(f"{name}: {model.digest}, {to / name}")

        run.with_options(task_runner=task_runner(config.runner))()
    write_out(config, [log.record])


def provenance(log: Log) -> str:
    """What a model card has besides, that only the flow knows: data set, command, commit."""
    [train] = [data for data in log.record.datasets if data["context"] == "training"]
    words = shlex.join(sys.argv[1:])
    return (
        "\n## Made by\n\n"
        f"- Data: {train['name']} {train['split']}, digest {train['digest']}, less the claims "
        "that the evaluated split has word for word\n"
        f"- Command: `python -m flows.train {words}`\n"
        f"- Commit: {log.record.environment.get('git_commit')}\n"
    )


if __name__ == "__main__":
    entry(main)
