"""Fine-tuning of classifiers by the Trainer of Hugging Face transformers, with LoRA by PEFT."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.files import write_whole
from components.numbers import check_number
from components.train.devices import on_devices
from components.train.packing import packs, register

# input_ids and what else the model takes, and `labels`: a class from 0; of text to be learned the
# token that comes next, for each of the last tokens in input_ids.
Row = dict[str, Any]
WHOLE = "whole"  # the mark of a checkpoint that is written
CURVE = ("step", "epoch", "loss", "learning_rate", "eval_loss", "eval_accuracy", "eval_f1_macro")


@dataclasses.dataclass(kw_only=True)
class Lora:
    """Low-rank adaptation (Hu et al. 2022): the rank r, its scale alpha / r, dropout before it.

    targets: names of the adapted modules, or "all-linear". rslora: scale by alpha / √r
    (Kalajdzievski 2023). dora: magnitude and direction apart (Liu et al. 2024).
    """

    r: int = 16
    alpha: int = 32
    dropout: float = 0.05
    targets: str | list[str] = "all-linear"
    rslora: bool = False
    dora: bool = False

    def wrap(self, model: Any, task: str) -> Any:
        """The PEFT model around `model`; task: CAUSAL_LM or SEQ_CLS, whose head is trained too.

        Its own weights are float32 also where the model's are bfloat16.
        """
        import torch
        from peft import LoraConfig, get_peft_model

        config = LoraConfig(
            task_type=task,
            r=self.r,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=self.targets,
            use_rslora=self.rslora,
            use_dora=self.dora,
        )
        half = model.dtype
        try:
            model = get_peft_model(model, config)
        except ValueError as error:  # no module has such a name
            raise ClaimflowError(
                f"LoRA with targets {self.targets}: {str(error).split('. ')[0]}."
            ) from error
        for module in model.modules():
            # Else PEFT makes float32 of what enters each layer, before autocast takes it back.
            if half == torch.bfloat16 and hasattr(module, "cast_input_dtype_enabled"):
                module.cast_input_dtype_enabled = False
        return model


@dataclasses.dataclass(kw_only=True)
class Training:
    """How a model is trained, whatever it is.

    limit: train on so many claims, chosen by seed (None: all). updates: at most so many (None: as
    many as the epochs take). held_out: share of them, by label,
    that is not trained on: it decides when to stop, which state is kept (the one of highest mean
    of accuracy and macro-F1) and the temperature.

    packing: of a language model, a step takes as many examples as `tokens` tokens hold, one behind
    the other without padding; otherwise, and of an encoder, `batch` examples of like length,
    padded to the longest. Both are on a device and times `accumulate` for one update. devices:
    GPUs (of a machine that has none, processes on its CPU) that share the batches of an update,
    which `accumulate` must allow: it is a multiple. The updates are those of one device; only the
    last bits, and what dropout drops, depend on it.
    evaluations: on the held-out part, an epoch; each is a checkpoint. patience: evaluations
    without a better one before training stops. warmup: share of all updates. max_length: tokens of
    an example. mixed: bfloat16 where the GPU has it; logits are float32, and so are the weights
    that are trained. compile: the layers of the model, by torch.compile: half a minute on a GPU,
    for faster steps. checkpointing: activations are computed again in the backward pass, for
    memory. threads: of the CPU; the last bits depend on it.
    """

    limit: int | None = None
    updates: int | None = None
    held_out: float = 0.1
    packing: bool = True
    tokens: int = 4096
    batch: int = 16
    accumulate: int = 1
    devices: int = 1
    warmup: float = 0.1
    schedule: str = "cosine"
    weight_decay: float = 0.01
    evaluations: int = 1
    patience: int = 3
    max_length: int = 1024
    mixed: bool = True
    compile: bool = False
    checkpointing: bool = False
    threads: int = 2

    def __post_init__(self) -> None:
        if not 0 < self.held_out < 1:
            raise ClaimflowError(
                f"trainer.held_out is a share between 0 and 1, not {self.held_out}."
            )
        check_number(self, "warmup", 0, 1)
        check_number(self, "weight_decay", 0)
        for name in ("limit", "updates", "max_length", "threads"):
            check_number(self, name, 1)
        counts = (self.tokens, self.batch, self.accumulate, self.evaluations, self.patience)
        if min(*counts, self.devices) < 1:
            raise ClaimflowError(
                "trainer.tokens, batch, accumulate, devices, evaluations and patience are 1 or "
                "more."
            )
        if self.accumulate % self.devices:
            raise ClaimflowError(
                f"trainer.devices={self.devices} share the batches of an update, and there are "
                f"trainer.accumulate={self.accumulate}: let that be a multiple, with lower tokens "
                "or batch for updates as large as before."
            )

    def split(self, labels: list[str], seed: int) -> tuple[list[int], list[int]]:
        """Positions to train on, and those held out: a share of each label, one at least in all.

        The same labels and seed give the same split.
        """
        import random

        rng = random.Random(seed)
        chosen = list(range(len(labels)))
        rng.shuffle(chosen)
        chosen = chosen[: self.limit]
        held: list[int] = []
        for label in sorted(set(labels)):
            those = [i for i in chosen if labels[i] == label]
            held += those[: round(len(those) * self.held_out)]
        held = held or chosen[:1]
        return sorted(set(chosen) - set(held)), sorted(held)

    def batches(self, passes: list[list[Row]], seed: int, packed: bool) -> list[list[Row]]:
        """The rows of each step, one pass after the other, in an order that the seed decides.

        packed: may a step have many rows one behind the other?
        """
        import random

        import torch
        from transformers.trainer_pt_utils import get_length_grouped_indices

        found: list[list[Row]] = []
        for n, rows in enumerate(passes):
            lengths = [len(row["input_ids"]) for row in rows]
            if packed and self.packing:
                groups = packs(lengths, self.tokens, random.Random(seed + n))
            else:
                grouped: Any = get_length_grouped_indices
                order = grouped(
                    lengths,
                    self.batch * self.accumulate,
                    generator=torch.Generator().manual_seed(seed + n),
                )
                groups = [order[at : at + self.batch] for at in range(0, len(rows), self.batch)]
            found += [[rows[i] for i in group] for group in groups]
        return found

    @property
    def half(self) -> bool:
        """Is bfloat16 asked for, and to be had?"""
        import torch

        return self.mixed and torch.cuda.is_available() and torch.cuda.is_bf16_supported()


def shared(
    batches: list[list[Row]], accumulate: int, devices: int
) -> list[tuple[list[Row], float]]:
    """Batches with their weights in the loss, for devices that take them in turn.

    Only an update that has fewer batches than `accumulate`, the last one, can lack some for all
    devices to have as many: then others stand in, without a weight.
    """
    found = [(batch, 1.0) for batch in batches]
    if lacking := -len(batches) % devices:
        start = len(batches) // accumulate * accumulate
        last = len(batches) - start
        found[start:] = [(batch, (last + lacking) / last) for batch in batches[start:]]
        found += [(batches[-1], 0.0)] * lacking
    return found


def tune(
    model: Any,
    batches: list[list[Row]],
    held: list[list[Row]],
    *,
    collate: Callable[[list[Row]], dict[str, Any]],
    log_probabilities: Callable[[Any], Any],
    weights: list[float] | None,
    settings: Training,
    rate: float,
    epochs: int,
    seed: int,
    folder: Path,
    best: str = "mean",
    callbacks: Sequence[Any] = (),
) -> list[dict[str, float]]:
    """Train `model` in place on `batches`; it ends in its best state on `held`. The loss by step.

    log_probabilities: what the model puts out to (examples, classes), float32; the loss is the
    negative one of the right class, times its weight, in the mean over a batch; an update goes by
    the mean over its batches. weights: None for text, whose classes are tokens: none weighs more,
    and there is no F1 over them. rate: the peak learning rate. epochs: how many `batches` are.
    folder: where checkpoints lie; one that was killed goes on from its last whole checkpoint, to
    the same weights on the CPU. best: what is highest in the best state: accuracy, f1_macro or
    their mean; or the loss, which is lowest. callbacks: more of the Trainer. With several devices
    model, functions and callbacks must be picklable.
    Raises ClaimflowError when the loss is no number, when there are fewer devices, or when one of
    the processes on them ends.
    """
    given = locals()
    import torch
    from tqdm import tqdm
    from transformers import (
        EarlyStoppingCallback,
        PrinterCallback,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    if not torch.distributed.is_initialized():  # else this is a process of on_devices
        if int(os.environ.get("WORLD_SIZE", 1)) > 1:
            raise ClaimflowError(
                "This command was started several times together (WORLD_SIZE), as by accelerate "
                "launch or torchrun: start it alone, with trainer.devices=N for N devices."
            )
        for checkpoint in folder.glob("checkpoint-*"):
            if not (checkpoint / WHOLE).exists():  # killed while it was written
                shutil.rmtree(checkpoint)
        if settings.devices > 1:
            return on_devices(tune, given, settings.devices, folder)
    weight = torch.tensor(weights or [])

    class _Trainer(Trainer):
        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return torch.utils.data.SequentialSampler(learned)

        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
            # All of it on each device: what the devices find is gathered, and each decides alike.
            return torch.utils.data.DataLoader(tested, collate_fn=only)

        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            labels = inputs["labels"]
            ours = ("labels", "share")
            outputs = model(**{name: x for name, x in inputs.items() if name not in ours})
            scores = log_probabilities(outputs)
            right = scores.gather(1, labels[:, None])[:, 0]
            if weights:
                right = right * weight.to(right.device)[labels]
            loss = -right.mean() * inputs["share"]
            return (loss, {"logits": scores}) if return_outputs else loss

    class _Watch(TrainerCallback):
        """A progress bar; and a mark in each checkpoint once all of it is written."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            done, total = state.global_step, state.max_steps
            self.bar = tqdm(
                total=total,
                initial=done,
                desc="train",
                delay=2,
                leave=False,
                disable=None if state.is_world_process_zero else True,
            )

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.bar.update()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if not math.isfinite(logs.get("loss", 0)):
                raise ClaimflowError(
                    f"The loss is no number at update {state.global_step}: lower the learning "
                    "rate, or train with trainer.mixed=false."
                )

        def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            known = more["metrics"]
            names = [n for n in ("loss", "accuracy", "f1_macro") if f"eval_{n}" in known]
            self.bar.set_postfix({name: f"{known[f'eval_{name}']:.3f}" for name in names})

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.bar.close()

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            args.distributed_state.wait_for_everyone()
            if state.is_world_process_zero:
                (folder / f"checkpoint-{state.global_step}" / WHOLE).touch()

    def measures(prediction: Any) -> dict[str, float]:
        from sklearn.metrics import accuracy_score, f1_score

        guess = prediction.predictions
        accuracy = accuracy_score(prediction.label_ids, guess)
        if not weights:
            return {"accuracy": accuracy}
        macro = f1_score(
            prediction.label_ids,
            guess,
            average="macro",
            labels=range(len(weights)),
            zero_division=0,
        )
        return {"accuracy": accuracy, "f1_macro": macro, "mean": (accuracy + macro) / 2}

    total = -(-len(batches) // settings.accumulate)
    every = -(-total // (epochs * settings.evaluations))
    total = over(folder) or min(settings.updates or total, total)
    # No more than it learns from: going on from its last update, the Trainer makes one more, unless
    # that ended an epoch.
    first = batches[: total * settings.accumulate]
    learned: Any = shared(first, settings.accumulate, settings.devices)
    tested: Any = shared(held, 1, 1)

    def only(batch: list[tuple[list[Row], float]]) -> dict[str, Any]:
        [(rows, share)] = batch
        # The first entry says how many examples a batch has.
        labels: list[int] = []
        for row in rows:
            labels += row["labels"] if isinstance(row["labels"], list) else [row["labels"]]
        return {"labels": torch.tensor(labels), "share": share} | collate(rows)

    register()
    if settings.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    if settings.compile:
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        for module in base.modules():
            if type(module).__name__ in (base._no_split_modules or ()):
                module.compile()
    no_masks_by_cudnn()
    arguments = TrainingArguments(
        str(folder),
        num_train_epochs=1,  # that has the batches of all
        max_steps=total,
        per_device_train_batch_size=1,
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=settings.accumulate // settings.devices,
        learning_rate=rate,
        lr_scheduler_type=settings.schedule,
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        bf16=settings.half,
        eval_strategy="steps",
        eval_steps=every,
        save_strategy="steps",
        save_steps=every,
        save_total_limit=1,  # and the best one
        logging_steps=max(1, min(10, total // 20)),  # each one waits for the GPU
        logging_nan_inf_filter=False,  # which waits at every step, and hides them
        load_best_model_at_end=True,
        metric_for_best_model=best,
        greater_is_better=best != "loss",
        restore_callback_states_from_checkpoint=True,
        remove_unused_columns=False,
        label_names=["labels"],  # which a PEFT model's signature does not show
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,  # ours instead: theirs prints every step's loss
        seed=seed,
        use_cpu=settings.devices > 1 and not torch.cuda.is_available(),  # else it takes no gloo
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several have a process each
    arguments.seed ^= arguments.process_index  # other activations are dropped
    torch.set_num_threads(settings.threads)
    trainer = _Trainer(
        model,
        arguments,
        data_collator=only,
        train_dataset=learned,
        eval_dataset=tested,
        compute_metrics=measures,
        preprocess_logits_for_metrics=lambda scores, _: scores.argmax(-1),  # much less to keep
        callbacks=[EarlyStoppingCallback(settings.patience), _Watch(), *callbacks],
    )
    trainer.model_accepts_loss_kwargs = False  # ours is the mean of a batch, also in accumulation
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")))
    curve = [
        {name: float(entry[name]) for name in CURVE if name in entry}
        for entry in trainer.state.log_history
        if {"loss", "eval_loss"} & entry.keys()
    ]
    # Not the Trainer's own epoch, for which what `shared` adds counts.
    share = settings.accumulate / len(batches)
    return [
        entry | {"epoch": round(min(entry["step"] * share, 1.0) * epochs, 4)} for entry in curve
    ]


def over(folder: Path) -> int | None:
    """The update that a training ended with, early or not, whose last checkpoint lies in `folder`;
    None: it goes on from there, or has none."""
    states = folder.glob("checkpoint-*/trainer_state.json")
    known = [json.loads(path.read_bytes()) for path in states]
    last = max(known, key=lambda state: state["global_step"], default=None)
    if last and last["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"]:
        return int(last["global_step"])
    return None


def save(model: Any, tokenizer: Any, base: Path, folder: Path) -> None:
    """Write the adapter of a PEFT model, or a whole model with its tokenizer, into `folder`: the
    same weights give the same files, wherever the base model lies."""
    model.save_pretrained(folder)
    share_weights(folder)
    path = folder / "adapter_config.json"
    if not path.exists():
        tokenizer.save_pretrained(folder)
        return
    config = json.loads(path.read_text())
    config["base_model_name_or_path"] = base.name  # not where it lies here
    config["target_modules"] = sorted(config["target_modules"])  # a set: in any order
    write_whole(path, json.dumps(config, indent=2).encode())


def share_weights(folder: Path) -> None:
    """Give the weights in `folder` the mode of any new file: safetensors makes its files for their
    owner alone, and others on a machine use the models too."""
    new = folder / ".new"
    new.touch()
    mode = new.stat().st_mode & 0o777
    new.unlink()
    for path in folder.glob("*.safetensors"):
        path.chmod(mode)


def sizes(model: Any) -> tuple[int, int]:
    """(parameters that are trained, all parameters)."""
    found = [(weight.numel(), weight.requires_grad) for weight in model.parameters()]
    return sum(size for size, learns in found if learns), sum(size for size, _ in found)


def balanced(labels: list[int], power: float, classes: int) -> list[float]:
    """The weight of each class in the loss: frequency ** -power; the mean over examples is 1."""
    counts = collections.Counter(labels)
    raw = {label: count**-power for label, count in counts.items()}
    scale = len(labels) / sum(raw[label] for label in labels)
    return [raw.get(i, 0.0) * scale for i in range(classes)]


def placed(model: Any) -> None:
    """Put a model on the device that there is, ready for use."""
    import torch

    model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def no_masks_by_cudnn() -> None:
    """Keep cuDNN from attention: of bfloat16 with a mask, its backward pass gives NaN for some
    lengths on H100 and H200 (https://github.com/pytorch/pytorch/issues/196678)."""
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def quiet() -> None:
    """Let transformers and PEFT speak of errors alone."""
    import warnings

    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    warnings.filterwarnings("ignore", r"`\w*gradient_checkpointing", FutureWarning)  # PEFT 0.21


def float32_head(head: Any) -> None:
    """Let the last linear layer of a head compute in float32 also under mixed precision, as
    labels tie in bfloat16."""
    import torch

    from components.train.head import Float32Linear

    linear = [module for module in head.modules() if isinstance(module, torch.nn.Linear)]
    linear[-1].__class__ = Float32Linear
