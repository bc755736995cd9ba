"""Train a model on the training split, and keep it as a folder.

    python -m flows.train task=verdict                    on the demo data
    python -m flows.train task=verdict dataset=averitec trainer=gpu merge=true
    python -m flows.train task=nli dataset=scifact retriever=weighted verdict.negatives.ratio=10
    python -m flows.train task=reranker trainer=tiny reranker.lora=null to=elsewhere

Out comes to/TASK (to/NAME with name=NAME): the adapter, or the whole model, as safetensors with a
model card; used as `adapter=` of the same step (verdict.adapter=models/verdict) or of the engine
(llm.adapter=models/question). Its loss and validation curves become an MLflow run, and it a version
of the model `registry`, by default of that name, in MLflow's registry.
Killed and started again, a training goes on from its last checkpoint; what was trained before comes
from the cache, as an experiment's does, which trains what it needs by itself. Without a task every
step of the pipeline that learns is trained (the train stage of dvc.yaml).
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli import entry
from flows.runners import prefect_api

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from components.step import TrainedStep
    from flows.log import Log
    from flows.stages import Scope


@prefect_api()
def main(config: DictConfig) -> None:
    """Fit the step that `learn` names, or every step that learns, and copy it into `to`."""
    from prefect import flow

    from components.errors import ClaimflowError, nearest
    from components.step import TrainedStep
    from flows.build import build, step_configs
    from flows.log import Log
    from flows.record import write_out
    from flows.runners import task_runner
    from flows.stages import learning, prepare

    wanted, steps = config.get("learn"), step_configs(config)
    if wanted and wanted not in steps:
        raise ClaimflowError(
            f"learn={wanted} is no step here.{nearest(wanted, steps)} Steps: {', '.join(steps)}."
        )
    with Log(config, keep=False) as log:

        @flow(name="train")
        def run() -> None:
            data = prepare(config, log)
            for name, node in steps.items():
                step = build(node)
                if not isinstance(step, TrainedStep) or wanted not in (None, name):
                    continue
                if step.given():
                    if wanted:
                        raise ClaimflowError(
                            f"{name}.adapter leaves nothing to train: leave it out."
                        )
                    continue
                scope = learning(config, name, node, data.scope, log)
                train(name, node, step, scope, config, log)

        run.with_options(task_runner=task_runner(config.runner))()
    write_out(config, [log.record])


def train(
    name: str, node: dict[str, Any], step: TrainedStep, scope: Scope, config: DictConfig, log: Log
) -> None:
    """Fit a step, copy its folder, log it, and merge it if that is wanted."""
    from components.files import folder_digest, whole_folder, write_whole
    from components.train.card import CARD
    from components.train.merge import merge
    from flows.stages import context, fit, note_training, plain
    from flows.tracking import track_training

    with log.stage(f"fit {name}"):
        fit(name, node, plain(scope))
    note_training(name, node, scope, log)
    folder = Path(config.to) / (config.name if config.get("learn") else name.rpartition(".")[2])
    left_out = shutil.ignore_patterns("manifest.json")
    with whole_folder(folder) as part:
        shutil.copytree(context(scope).model(step).path, part, ignore=left_out, dirs_exist_ok=True)
        card = part / CARD
        if has_card := card.exists():
            write_whole(card, (card.read_text("utf-8") + provenance(log)).encode())
    print(f"{name}: {folder_digest(folder)}, {folder}")
    if has_card:
        track_training(name, node, folder, log.record, config)
    if config.get("merge"):
        merged = folder.with_name(f"{folder.name}-merged")
        merge(folder, step.model, step.head, merged)  # type: ignore[attr-defined]
        print(f"{name}, merged: {folder_digest(merged)}, {merged}")


def provenance(log: Log) -> str:
    """What a model card has besides, that only the flow knows: data set, command, commit."""
    from components.train.card import licence

    [train] = [data for data in log.record.datasets if data["context"] == "training"]
    words = shlex.join(sys.argv[1:])
    return (
        "\n## Made by\n\n"
        f"- Data: {train['name']} {train['split']}, digest {train['digest']}, less the claims "
        "that the evaluated split has word for word\n"
        f"- Licence of the data: {licence(train['name'])}; what is learned from them is bound by "
        "it and by that of the base model\n"
        f"- Command: `python -m flows.train {words}`\n"
        f"- Commit: {log.record.environment.get('git_commit')}\n"
    )


if __name__ == "__main__":
    entry(main, "train")
