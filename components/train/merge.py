"""An adapter made part of its base model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.files import write_whole
from components.train.card import CARD, of_merged
from components.train.trainer import share_weights


def merge(folder: Path, base: Path, outputs: int | None, to: Path) -> None:
    """Write into `to` the model `base` with the adapter in `folder` merged into its weights,
    float32, and what else stands beside the adapter: it is used as the adapter is.

    outputs: of an encoder's head; None: a causal language model. Raises ClaimflowError where
    there is no adapter to merge.
    """
    if not (folder / "adapter_config.json").exists():
        raise ClaimflowError(f"{folder} holds a whole model: there is no adapter to merge.")
    import torch
    from peft import PeftModel
    from transformers import (
        AutoModelForCausalLM,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    load: dict[str, Any] = {"dtype": torch.float32, "local_files_only": True}
    if outputs is None:
        model: Any = AutoModelForCausalLM.from_pretrained(base, **load)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=outputs, ignore_mismatched_sizes=True, **load
        )
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("adapter_*", "manifest.json"))
    PeftModel.from_pretrained(model, folder).merge_and_unload().save_pretrained(to)
    share_weights(to)
    if (to / CARD).exists():
        write_whole(to / CARD, of_merged((to / CARD).read_text("utf-8")).encode())
    AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(to)
