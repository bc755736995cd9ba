"""Fit what a system learns from the training split, and keep the models as folders.

    python -m flows.train +to=models/                     the default system's verdict head
    python -m flows.train verdict=head dataset=averitec +to=models/

An experiment fits what it needs by itself; this is for using a model elsewhere, and for the
train stage of dvc.yaml.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Fit every trained step of the pipeline and copy its folder to `to`/NAME."""
    from prefect import flow

    from components.errors import ClaimflowError
    from components.step import TrainedStep
    from flows.build import build, step_configs
    from flows.log import Log
    from flows.record import write_out
    from flows.runners import task_runner
    from flows.stages import context, fit, plain, prepare

    if not config.get("to"):
        raise ClaimflowError("Where to? Give a folder: +to=models")
    to = Path(config.to)
    with Log(config, keep=False) as log:

        @flow(name="train")
        def run() -> None:
            data = prepare(config, log)
            for name, node in step_configs(config).items():
                step = build(node)
                if not isinstance(step, TrainedStep):
                    continue
                with log.stage(f"fit {name}"):
                    fit(name, node, plain(data.scope))
                model = context(data.scope).model(step)
                shutil.rmtree(to / name, ignore_errors=True)
                shutil.copytree(model.path, to / name)
                print(f"{name}: {model.digest}, {to / name}")

        run.with_options(task_runner=task_runner(config.runner))()
    write_out(config, [log.record])


if __name__ == "__main__":
    entry(main)
