"""An adapter made part of its base model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError
from components.files import whole_folder, write_whole
from components.train.card import CARD, of_merged
from components.train.trainer import quiet, share_weights


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

    quiet()
    load: dict[str, Any] = {"dtype": torch.float32, "local_files_only": True}
    if outputs is None:
        model: Any = AutoModelForCausalLM.from_pretrained(base, **load)
    else:
        model = AutoModelForSequenceClassification.from_pretrained(
            base, num_labels=outputs, ignore_mismatched_sizes=True, **load
        )
    left_out = shutil.ignore_patterns("adapter_*", "manifest.json")
    with whole_folder(to) as part:
        shutil.copytree(folder, part, ignore=left_out, dirs_exist_ok=True)
        PeftModel.from_pretrained(model, folder).merge_and_unload().save_pretrained(part)
        share_weights(part)
        AutoTokenizer.from_pretrained(base, local_files_only=True).save_pretrained(part)
        if (part / CARD).exists():
            write_whole(part / CARD, of_merged((part / CARD).read_text("utf-8")).encode())
