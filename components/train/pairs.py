"""Encoders that read a claim and a text together: they rank documents, or find entailment."""

from __future__ import annotations

import dataclasses
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components import assets, weights
from components.cache import key_of
from components.engines.memory import check_weights
from components.errors import ClaimflowError
from components.files import write_whole
from components.numbers import check_number
from components.records import Case, Claim, Document, Record, encode
from components.score.base import Measure
from components.step import Context, TrainedStep, identity
from components.text import well_formed
from components.train.card import CARD, card
from components.train.trainer import (
    Lora,
    Row,
    Training,
    balanced,
    float32_head,
    no_masks_by_cudnn,
    placed,
    quiet,
    save,
    sizes,
    tune,
)

if TYPE_CHECKING:
    import numpy as np

ABOUT, CURVE = "pairs.json", "curve.json"
Pair = tuple[str, str]  # claim and text


class Candidates(Record):
    """A claim and the documents that a retriever found for it, best first, with their scores."""

    claim: Claim
    docs: list[str]
    scores: list[float]


class Trained(Record):
    """What stands beside the weights and says how they are used.

    task: nli, rationale or reranker. base, base_digest: the model that was tuned. labels: of the
    outputs, in their order. threshold: see `Decision` and `Rationale`. depth, offset: see
    `Decision`. weight: there, and see `Reranker`. negatives: digest of those that were sampled.
    trained, total: numbers of parameters. held_out: measures on the held-out part.
    """

    task: str
    base: str
    base_digest: str
    labels: list[str]
    max_length: int
    threshold: float = 0.5
    depth: int = 10
    weight: float = 1.0
    offset: float = 0.0
    negatives: str = ""
    trained: int = 0
    total: int = 0
    held_out: dict[str, Measure] = {}


def about(folder: Path, task: str, model: Path) -> Trained:
    """What a folder that training wrote says of itself; it must be of this task and base model."""
    found = weights.about(folder, ABOUT, Trained, task)
    digest = identity(model)
    if found.task != task or found.base_digest != digest:
        raise ClaimflowError(
            f"{folder} was trained for {found.task} on {found.base} ({found.base_digest[:8]}), "
            f"not for {task} on {model.name} ({digest[:8]})."
        )
    return found


def log_softmax(out: Any, size: int | None = None) -> Any:
    """The log-probabilities of a head's outputs; size: they are one number for each pair, and so
    many pairs one after the other are judged together."""
    logits = out.logits.float()
    return (logits.view(-1, size) if size else logits).log_softmax(-1)


@dataclasses.dataclass(kw_only=True)
class PairTask(TrainedStep):
    """A step by a cross-encoder, and how that is trained.

    model: any encoder, or a causal language model. lora: None trains all weights. rate: peak
    learning rate. epochs: passes over the training claims. warm: passes over what else there is to
    learn from, before. adapter: a folder that training wrote, to use without fitting.
    """

    task: ClassVar[str] = ""
    does: ClassVar[str] = ""  # in a sentence, for the model card
    outputs: ClassVar[tuple[str, ...]] = ()

    model: Path
    trainer: Training
    lora: Lora | None = None
    rate: float = 1e-4
    epochs: int = 5
    warm: int = 2
    adapter: Path | None = None

    def __post_init__(self) -> None:
        self.model = assets.model(self.model)
        check_weights(self.model)
        check_number(self, "rate", 0)
        check_number(self, "epochs", 0)
        check_number(self, "warm", 0)
        if self.adapter is not None:
            self.adapter = Path(self.adapter).absolute()

    def given(self) -> Path | None:
        if self.adapter is not None:
            about(self.adapter, self.task, self.model)
            weights.trained(self.adapter)
        return self.adapter

    @property
    def head(self) -> int:
        """Outputs of the head."""
        return len(self.outputs)

    def trained(self, folder: Path) -> int:
        return about(folder, self.task, self.model).trained

    def encoder(self) -> CrossEncoder:
        """The base model with a new head."""
        return CrossEncoder(self.model, len(self.outputs), self.trainer.max_length)

    def opened(self, ctx: Context) -> tuple[CrossEncoder, Trained]:
        """`load` of what was trained, or given, once a process."""
        import torch

        torch.set_num_threads(self.trainer.threads)
        model = ctx.model(self)
        found: tuple[CrossEncoder, Trained] = ctx.loaded(
            key_of(repr(type(self)), model.digest), lambda: self.load(Path(model.path)), large=True
        )
        return found

    def load(self, folder: Path) -> tuple[CrossEncoder, Trained]:
        """The encoder that training wrote into `folder`, and how it is used."""
        found = about(folder, self.task, self.model)
        return CrossEncoder(self.model, len(self.outputs), found.max_length, folder), found

    def learn(
        self,
        encoder: CrossEncoder,
        passes: list[list[Row]],
        tested: list[Row],
        folder: Path,
        ctx: Context,
        *,
        seed: int,
        key: str,
        weights: list[float] | None = None,
        best: str = "f1_macro",
        log_probabilities: Callable[[Any], Any] = log_softmax,
    ) -> Trained:
        """Train the encoder and write it into `folder`; what stands there beside it, without the
        measures. key: where the checkpoints of this training are kept. weights: of the labels;
        None: all weigh alike, so that few positives don't drown. best: see `tune`; by accuracy, a
        model that says the frequent label of all is hard to beat."""
        trainer = self.trainer
        if weights is None:
            weights = balanced([row["labels"] for row in passes[-1]], 1.0, len(self.outputs))
        model = self.lora.wrap(encoder.model, "SEQ_CLS") if self.lora else encoder.model
        checkpoints = ctx.cache.unfinished(key)
        curve = tune(
            model,
            trainer.batches(passes, seed, packed=False),
            trainer.batches([tested], seed, packed=False),
            collate=encoder.batch,
            log_probabilities=log_probabilities,
            weights=weights,
            settings=trainer,
            rate=self.rate,
            epochs=len(passes),
            seed=seed,
            folder=checkpoints,
            best=best,
        )
        save(model, encoder.tokenizer, self.model, folder)
        write_whole(folder / CURVE, encode(curve))
        trained, total = sizes(model)
        return Trained(
            task=self.task,
            base=self.model.name,
            base_digest=identity(self.model),
            labels=list(self.outputs),
            max_length=trainer.max_length,
            trained=trained,
            total=total,
        )

    def finish(
        self, trained: Trained, folder: Path, ctx: Context, key: str, data: dict[str, object]
    ) -> None:
        """Write what stands beside the weights, and the card; drop the checkpoints."""
        write_whole(folder / ABOUT, encode(trained))
        data = {"claims": ctx.train_digest} | data
        if trained.negatives:
            data["negatives, digest"] = trained.negatives
        write_whole(folder / CARD, card(self.task, self.does, self, trained, data).encode())
        shutil.rmtree(ctx.cache.unfinished(key))


class CrossEncoder:
    """A model in memory, with a head of `outputs` numbers for a pair of texts. Threads may share
    it.

    An encoder reads the claim, then the text. A causal language model reads the text, then the
    claim: its head sees the last token alone, and what comes late has seen all before.
    folder: of trained weights; None: the base model, with a new head.
    """

    _lock = threading.Lock()  # a tokeniser keeps state while it works

    def __init__(
        self, base: Path, outputs: int, max_length: int, folder: Path | None = None
    ) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        quiet()
        kind = weights.trained(folder) if folder else None
        source = folder if folder and kind == weights.WHOLE else base
        self.max_length = max_length
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
        self.model: Any = AutoModelForSequenceClassification.from_pretrained(
            source,
            num_labels=outputs,
            ignore_mismatched_sizes=source is base,
            dtype=torch.float32,
            local_files_only=True,
        )
        self.causal = hasattr(self.model, "score")  # what the heads of those are called
        if self.causal:
            self.tokenizer.padding_side = "right"
            self.model.config.pad_token_id = self.tokenizer.pad_token_id
            self.model.config.use_cache = False
        float32_head(self.model.score if self.causal else self.model.classifier)
        if folder and kind == weights.ADAPTER:
            from peft import PeftModel

            self.model = PeftModel.from_pretrained(self.model, folder)
        placed(self.model)

    def row(self, pairs: list[Pair], label: int) -> Row:
        """The input for pairs that are judged together; `label` says which, or what, is right.

        Of a pair that is too long the text is cut; and the claim too where it has more than half of
        `max_length`, which then is left to the text as far as that needs it.
        """
        claims, texts = ([well_formed(pair[i]) for pair in pairs] for i in (0, 1))
        first, second = claims, texts
        if self.causal:
            first, second = texts, [f"\nClaim: {claim}\n" for claim in claims]
        with self._lock:
            found = self.tokenizer(
                first,
                second,
                truncation="longest_first",  # which leaves both half, or more if one needs less
                max_length=self.max_length,
            )
        parts = [{name: found[name][i] for name in found} for i in range(len(pairs))]
        longest = max((part["input_ids"] for part in parts), key=len)
        return {"input_ids": longest, "parts": parts, "labels": label}

    def batch(self, rows: list[Row]) -> dict[str, Any]:
        """The pairs of all rows, one after the other, padded to the longest."""
        parts = [part for row in rows for part in row["parts"]]
        found = dict(self.tokenizer.pad(parts, return_tensors="pt"))
        if self.causal:
            del found["attention_mask"]  # no token sees the padding to the right of it
        return found

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


def candidates(case: Case) -> Candidates:
    """The documents of a case's hits, by the best score of a passage of theirs."""
    scores: dict[str, float] = {}
    for hit in case.hits:
        scores[hit.doc] = max(hit.score, scores.get(hit.doc, hit.score))
    docs = sorted(scores, key=lambda doc: -scores[doc])
    return Candidates(claim=case.claim, docs=docs, scores=[scores[doc] for doc in docs])


def corpus(cases: list[Case]) -> dict[str, Document]:
    """The documents of all cases by id. Cases that share one corpus have the same digest of it."""
    found: dict[str, Document] = {}
    seen: set[str] = set()
    for case in cases:
        known = case.digests.get("documents")
        if known is None or known not in seen:
            seen |= {known} if known else set()
            found |= {document.id: document for document in case.documents}
    return found


def document_text(document: Document) -> str:
    """Title and sentences, as retrieval has them."""
    return " ".join([*filter(None, [document.title]), *document.sentences])
