"""Encoders that read a claim and a text together: they rank documents, or find entailment."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ClaimflowError
from components.records import Claim, Document, Record, decode
from components.step import identity
from components.text import well_formed
from components.train.trainer import Lora, Row, Training, float32_head, no_masks_by_cudnn, quiet

if TYPE_CHECKING:
    import numpy as np

ABOUT, CARD, CURVE = "pairs.json", "README.md", "curve.json"
Pair = tuple[str, str]  # claim and text


class Candidates(Record):
    """A claim and the documents that a retriever found for it, best first, with their scores."""

    claim: Claim
    docs: list[str]
    scores: list[float]


class Trained(Record):
    """What stands beside the weights and says how they are used.

    task: nli or reranker. base, base_digest: the model that was tuned. labels: of the outputs, in
    their order. decision: of `nli`, as its `Decision` has it. held_out: measures on the held-out
    part.
    """

    task: str
    base: str
    base_digest: str
    labels: list[str]
    max_length: int
    decision: dict[str, float] = {}
    negatives: str = ""
    held_out: dict[str, float] = {}


def about(folder: Path, task: str, model: Path) -> Trained:
    """What a folder that training wrote says of itself; it must be of this task and base model."""
    try:
        found: Trained = decode((folder / ABOUT).read_bytes(), Trained)
    except FileNotFoundError:
        raise ClaimflowError(
            f"{folder} has no {ABOUT}: give a folder that `python -m flows.train task={task}` "
            "wrote."
        ) from None
    digest = identity(model)
    if found.task != task or found.base_digest != digest:
        raise ClaimflowError(
            f"{folder} was trained for {found.task} on {found.base} ({found.base_digest[:8]}), "
            f"not for {task} on {model.name} ({digest[:8]})."
        )
    return found


@dataclasses.dataclass(kw_only=True)
class PairTask:
    """How a cross-encoder is trained.

    model: any encoder. lora: None trains all weights. rate: peak learning rate. epochs: passes
    over the training claims. warm: passes over what else there is to learn from, before.
    """

    model: Path
    trainer: Training
    lora: Lora | None = None
    rate: float = 1e-4
    epochs: int = 5
    warm: int = 2

    def wrap(self, encoder: CrossEncoder) -> Any:
        """The model to train: with an adapter, or as it is."""
        return self.lora.wrap(encoder.model, "SEQ_CLS") if self.lora else encoder.model


class CrossEncoder:
    """A model in memory, with a head of `outputs` numbers for a pair of texts.

    folder: of trained weights; None: the base model, with a new head.
    """

    def __init__(
        self, base: Path, outputs: int, max_length: int, folder: Path | None = None
    ) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        quiet()
        adapter = folder if folder and (folder / "adapter_config.json").exists() else None
        source = base if adapter or not folder else folder
        self.max_length = max_length
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(
            source,
            num_labels=outputs,
            ignore_mismatched_sizes=source is base,
            dtype=torch.float32,
            local_files_only=True,
        )
        float32_head(self.model.classifier)
        if adapter:
            from peft import PeftModel

            self.model = PeftModel.from_pretrained(self.model, adapter)
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def row(self, pairs: list[Pair], label: int) -> Row:
        """The input for pairs that are judged together; `label` says which, or what, is right.

        Of a pair that is too long the text is cut, not the claim.
        """
        texts = [[well_formed(text) for text in pair] for pair in pairs]
        found = self.tokenizer(
            [claim for claim, _ in texts],
            [text for _, text in texts],
            truncation="only_second",
            max_length=self.max_length,
        )
        parts = [{name: found[name][i] for name in found} for i in range(len(pairs))]
        longest = max((part["input_ids"] for part in parts), key=len)
        return {"input_ids": longest, "parts": parts, "labels": label}

    def batch(self, rows: list[Row]) -> dict[str, Any]:
        """The pairs of all rows, one after the other, padded to the longest."""
        parts = [part for row in rows for part in row["parts"]]
        return dict(self.tokenizer.pad(parts, return_tensors="pt"))

    def scores(self, pairs: list[Pair]) -> np.ndarray:
        """Logits: (pairs, outputs), float32."""
        import numpy as np
        import torch
        from tqdm import tqdm

        rows = [self.row([pair], 0) for pair in pairs]
        found = np.zeros((len(rows), self.model.config.num_labels), dtype=np.float32)
        device = self.model.device
        size = 8 if device.type == "cpu" else 256
        no_masks_by_cudnn()
        self.model.eval()
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
        with tqdm(total=len(rows), desc="pairs", delay=2, leave=False, disable=None) as bar:
            for at in range(0, len(order), size):
                some = order[at : at + size]
                inputs = {k: x.to(device) for k, x in self.batch([rows[i] for i in some]).items()}
                with torch.inference_mode():
                    found[some] = self.model(**inputs).logits.float().cpu().numpy()
                bar.update(len(some))
        if not np.isfinite(found).all():
            raise ClaimflowError(
                "The fine-tuned encoder gives scores that are no numbers: lower task.rate, or "
                "train with trainer.mixed=false."
            )
        return found


def split(found: list[Candidates], trainer: Training, seed: int) -> tuple[list[int], list[int]]:
    """Positions of claims to train on, and of those held out; with and without evidence alike."""
    return trainer.split(["evidence" if one.claim.gold else "none" for one in found], seed)


def document_text(document: Document) -> str:
    """Title and sentences, as retrieval has them."""
    return " ".join([*filter(None, [document.title]), *document.sentences])
