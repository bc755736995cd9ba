"""Verdicts by a fine-tuned model, which learns from the gold evidence of the training split."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import random
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from components import assets, weights
from components.cache import key_of
from components.engines.memory import check_weights
from components.errors import ClaimflowError
from components.files import write_whole
from components.reason.prompt import filled, prompt_file
from components.reason.verdict import (
    LEAST_HELD_OUT,
    check_labels,
    enough_to_calibrate,
    frequencies,
    verdict,
)
from components.records import AVERITEC_LABELS, NOT_ENOUGH, Case, Claim, Record, encode
from components.score.base import Measure
from components.step import Context, TrainedStep, identity
from components.text import well_formed
from components.train.card import CARD, card
from components.train.packing import attend_within_examples, joined
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

Pairs = list[tuple[str, str]]  # question and answer
NO_ANSWER = "No answer could be found."
ABOUT, PROMPT, CURVE = "verdict.json", "prompt.txt", "curve.json"


class Tuned(Record):
    """What stands beside the weights and says how they are used.

    base, base_digest: the model that was tuned. words: see `TunedVerdict`. temperature: what
    logits are divided by. frequencies: of the labels in training. trained, total: numbers of
    parameters. held_out: measures on the held-out part.
    """

    base: str
    base_digest: str
    words: dict[str, str] | None
    max_length: int
    frequencies: dict[str, float]
    temperature: float = 1.0
    trained: int = 0
    total: int = 0
    held_out: dict[str, Measure] = {}


@dataclasses.dataclass(kw_only=True)
class TunedVerdict(TrainedStep):
    """A language model or an encoder, fine-tuned whole or by LoRA, that judges claim and evidence.

    words: one for each label, one token long: a causal language model is asked `prompt` and says
    one of them, trained with the loss on that token alone; the probability of a label is the
    softmax, over the words, of their log-probabilities. None: an encoder with a classification
    head reads claim and evidence as a pair. Either way logits are float32 and divided by a
    temperature that is fitted on the part of the training split that is held out (Guo et al. 2017;
    1, with a warning, where that is fewer than 20 claims), which also decides when to stop.

    lora: None trains all weights. rate: peak learning rate. epochs: passes over the training
    claims; with 0 a language model judges as it is, zero-shot, at temperature 1. class_weight: a
    label weighs by its frequency to the power of minus this in the loss; 0: all claims alike, 1:
    all labels alike. shuffle: questions stand in another order in each pass, as their order
    decides nothing. adapter: a folder that training wrote, to use without fitting; one for another
    base model is an error. What the folder says of prompt, words, length and temperature holds
    then.

    Of evidence too long for trainer.max_length (or the model's own limit, if that is less) every
    question and answer stays, each text cut to the same number of characters, as many as fit; if
    nothing fits, the case fails. A claim without evidence has the frequencies of the labels in
    training; zero-shot it is Not Enough Evidence. Training leaves out claims without gold
    questions. On the CPU claims go through the model one by one, so that no verdict depends on the
    claims beside it.
    """

    reads: ClassVar = ("claim", "evidence")
    writes: ClassVar = ("verdict",)

    model: Path
    trainer: Training
    lora: Lora | None
    rate: float
    epochs: int
    class_weight: float = 0.5
    shuffle: bool = False
    words: dict[str, str] | None = None
    prompt: Path = Path("verdict.txt")
    adapter: Path | None = None

    def __post_init__(self) -> None:
        self.model = assets.model(self.model)
        check_weights(self.model)
        self.prompt = prompt_file(self.prompt)
        if self.words is not None and set(self.words) != set(AVERITEC_LABELS):
            raise ClaimflowError(f"verdict.words needs a word for each of {list(AVERITEC_LABELS)}.")
        if self.adapter is not None:
            self.adapter = Path(self.adapter).absolute()
        self.needs_train = not self.zero_shot  # type: ignore[misc]

    @property
    def zero_shot(self) -> bool:
        """Whether the model judges as it is, and nothing is learned."""
        return self.words is not None and self.epochs == 0

    def given(self) -> Path | None:
        if self.adapter is None:
            return None
        tuned, digest = about(self.adapter), identity(self.model)
        if tuned.base_digest != digest:
            raise ClaimflowError(
                f"{self.adapter} was trained on {tuned.base} ({tuned.base_digest[:8]}), and "
                f"verdict.model is {self.model.name} ({digest[:8]}): give that model's folder."
            )
        if has_weights(tuned):
            weights.trained(self.adapter)
        return self.adapter

    def fit(self, train: list[Claim], folder: Path, ctx: Context) -> None:
        from transformers import set_seed

        if self.zero_shot:
            judge = Judge(
                self.untrained({x: float(x == NOT_ENOUGH) for x in AVERITEC_LABELS}),
                self.model,
                self.prompt,
            )
            judge.tuned.total = sizes(judge.model)[1]
            shutil.copyfile(self.prompt, folder / PROMPT)
            write_whole(folder / ABOUT, encode(judge.tuned))
            return
        learned = [claim for claim in train if claim.label and claim.questions]
        check_labels(learned)
        labels = [str(claim.label) for claim in learned]
        seed = ctx.seed_for("tuned verdict")
        set_seed(seed)
        # A frozen language model is as good in the bfloat16 that it is kept in.
        half = self.trainer.half and bool(self.lora and self.words)
        judge = Judge(self.untrained(frequencies(learned)), self.model, self.prompt, half=half)
        model = self.lora.wrap(judge.model, judge.task) if self.lora else judge.model
        inside, outside = self.trainer.split(labels, seed)
        rng = random.Random(seed)

        def rows(part: list[int], mixed: bool) -> list[Row]:
            """The input of claims; those that can't fit are left out."""
            found = []
            for i in part:
                pairs = gold_pairs(learned[i])
                if mixed:
                    rng.shuffle(pairs)
                if row := judge.row(learned[i], pairs, labels[i]):
                    found.append(row)
            return found

        kept, held = rows(inside, self.shuffle), rows(outside, False)
        if not kept or not held:
            raise ClaimflowError(
                f"{len(kept)} training claims and {len(held)} held-out ones are too few: give more "
                "(trainer.limit, dataset.train_split), or a higher trainer.max_length, as those "
                "that don't fit are left out."
            )
        unfinished = ctx.cache.unfinished(ctx.fit_key(self))
        settings, packed = self.trainer, bool(self.words)
        passes = [rows(inside, True) if self.shuffle and n else kept for n in range(self.epochs)]
        curve = tune(
            model,
            settings.batches(passes, seed, packed),
            settings.batches([held], seed, packed),
            collate=functools.partial(
                judge.batch,
                padded=not settings.packing,
                least=settings.tokens if settings.packing and settings.compile else 0,
            ),
            log_probabilities=judge.log_probabilities,
            weights=balanced(
                [row["labels"] for row in kept], self.class_weight, len(AVERITEC_LABELS)
            ),
            settings=settings,
            rate=self.rate,
            epochs=self.epochs,
            seed=seed,
            folder=unfinished,
        )
        save(model, judge.tokenizer, self.model, folder)
        write_whole(folder / CURVE, encode(curve))
        if self.words:
            shutil.copyfile(self.prompt, folder / PROMPT)
        tuned = judge.tuned
        tuned.trained, tuned.total = sizes(model)
        write_whole(folder / ABOUT, encode(tuned))
        # From the folder, in float32: what is measured is what will be used.
        gold = [row["labels"] for row in held]
        scores = Judge.of(folder, self.model).scores(held)
        fitted = enough_to_calibrate(len(held))
        if fitted:
            tuned.temperature = temperature(scores, gold)
        tuned.held_out = measures(softmax(scores, tuned.temperature), gold)
        tuned.held_out["ece_before"] = measures(softmax(scores, 1.0), gold)["ece"]
        write_whole(folder / ABOUT, encode(tuned))
        data: dict[str, object] = {
            "claims": ctx.train_digest,
            "trained on": f"{len(kept)} claims",
            "held out": f"{len(held)} claims, by label, seed {seed}",
            "left out": f"{len(train) - len(kept) - len(held)} claims: no label, no gold question, "
            "over trainer.limit, or too long",
        }
        does = f"Judges a claim with questions and answers as {', '.join(tuned.frequencies)}."
        how = "fitted on" if fitted else f"as fewer than {LEAST_HELD_OUT} claims are in"
        data["temperature"] = f"{tuned.temperature}, {how} the held-out part"
        write_whole(folder / CARD, card("verdict", does, self, tuned, data).encode())
        shutil.rmtree(unfinished, ignore_errors=True)

    def run(self, cases: list[Case], ctx: Context) -> list[Case]:
        import torch

        model = ctx.model(self)
        torch.set_num_threads(self.trainer.threads)
        judge: Judge = ctx.loaded(
            key_of(__name__, model.digest),
            lambda: Judge.of(Path(model.path), self.model),
            large=True,
        )
        rows = {}
        for at, case in enumerate(cases):
            pairs = [(pair.question, pair.answer) for pair in case.evidence]
            if not pairs:
                case.verdict = verdict(judge.tuned.frequencies, "No evidence was found.")
            elif row := judge.row(case.claim, pairs):
                rows[at] = row
            else:
                case.failed = (
                    f"{len(pairs)} questions and answers don't fit into "
                    f"{judge.tuned.max_length} tokens"
                )
        scores = judge.scores(list(rows.values()))
        chances = softmax(scores, judge.tuned.temperature).tolist()
        for at, values in zip(rows, chances, strict=True):
            cases[at].verdict = verdict(dict(zip(AVERITEC_LABELS, values, strict=True)))
        return cases

    def untrained(self, known: dict[str, float]) -> Tuned:
        """What the model is before training: with words, a zero-shot judge."""
        from transformers import AutoConfig

        limit = AutoConfig.from_pretrained(self.model).max_position_embeddings
        return Tuned(
            base=self.model.name,
            base_digest=identity(self.model),
            words=self.words,
            max_length=min(self.trainer.max_length, limit),
            frequencies=known,
        )

    @property
    def head(self) -> int | None:
        """Outputs of the head; None: a language model, which has none."""
        return None if self.words else len(AVERITEC_LABELS)

    def trained(self, folder: Path) -> int:
        return about(folder).trained


def has_weights(tuned: Tuned) -> bool:
    """Whether weights stand beside it: a zero-shot judge has none."""
    return bool(tuned.trained or not tuned.words)


def about(folder: Path) -> Tuned:
    """What a folder that training wrote says of itself."""
    return weights.about(folder, ABOUT, Tuned, "verdict")


class Judge:
    """A model in memory, and how claims become its input. Threads may share it.

    folder: of trained weights; None: the base model as it is. half: weights in bfloat16.
    """

    _lock = threading.Lock()  # a tokeniser keeps state while it works

    def __init__(
        self,
        tuned: Tuned,
        base: Path,
        prompt: Path,
        folder: Path | None = None,
        half: bool = False,
    ) -> None:
        import torch
        from transformers import (
            AutoModelForCausalLM,
            AutoModelForSequenceClassification,
            AutoTokenizer,
        )

        quiet()
        self.tuned, self.prompt = tuned, prompt
        self.task = "CAUSAL_LM" if tuned.words else "SEQ_CLS"
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
        found = weights.trained(folder) if folder and has_weights(tuned) else None
        dtype = torch.bfloat16 if half else torch.float32
        load: dict[str, Any] = {"dtype": dtype, "local_files_only": True}
        source = folder if folder and found == weights.WHOLE else base
        if tuned.words:
            self.model: Any = AutoModelForCausalLM.from_pretrained(source, **load)
            self.columns = [self._token(tuned.words[label]) for label in AVERITEC_LABELS]
            float32_head(self.model.lm_head)
            attend_within_examples(self.model)
        else:
            self.model = AutoModelForSequenceClassification.from_pretrained(
                source,
                ignore_mismatched_sizes=source is base,  # it may have a head for other labels
                num_labels=len(AVERITEC_LABELS),
                id2label=dict(enumerate(AVERITEC_LABELS)),
                label2id={label: i for i, label in enumerate(AVERITEC_LABELS)},
                **load,
            )
            self.columns = list(range(len(AVERITEC_LABELS)))
            float32_head(self.model.classifier)
        if folder and found == weights.ADAPTER:
            from peft import PeftModel

            self.model = PeftModel.from_pretrained(self.model, folder)
        placed(self.model)

    @classmethod
    def of(cls, folder: Path, base: Path) -> Judge:
        """The judge that training wrote into `folder`."""
        return cls(about(folder), base, folder / PROMPT, folder)

    def row(self, claim: Claim, pairs: Pairs, label: str | None = None) -> Row | None:
        """The model's input for a claim, cut as `TunedVerdict` says; None when it can't fit."""
        limit = self.tuned.max_length
        with self._lock:
            row = self._encoded(claim, pairs, None)
            if len(row["input_ids"]) > limit:
                longest = max(map(len, [claim.text, *(text for pair in pairs for text in pair)]))
                size = bisect.bisect_right(
                    range(1, longest),
                    limit,
                    key=lambda n: len(self._encoded(claim, pairs, n)["input_ids"]),
                )
                if not size:
                    return None
                row = self._encoded(claim, pairs, size)
        return row if label is None else row | {"labels": AVERITEC_LABELS.index(label)}

    def _encoded(self, claim: Claim, pairs: Pairs, size: int | None) -> Row:
        """Token ids, every text cut to `size` characters."""

        def cut(text: object) -> str:
            return " ".join(well_formed(str(text)).split())[:size]

        values = {
            "claim": cut(claim.text),
            "speaker": cut(claim.speaker or "unknown"),
            "date": cut(claim.date or "unknown"),
        }
        if self.tuned.words:
            values["evidence"] = "\n".join(
                f"Question: {cut(q)}\nAnswer: {cut(a)}" for q, a in pairs
            )
            chat = [{"role": "user", "content": filled(self.prompt, **values)}]
            text = self.tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True
            )
            return dict(self.tokenizer(text, add_special_tokens=False))
        evidence = " ".join(f"{cut(q)} {cut(a)}" for q, a in pairs)
        return dict(self.tokenizer("{claim} ({speaker}, {date})".format(**values), evidence))

    def _token(self, word: str) -> int:
        ids = self.tokenizer(word, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            raise ClaimflowError(
                f"verdict.words: '{word}' is {len(ids)} tokens of {self.tuned.base}: choose a word "
                "that is one."
            )
        return int(ids[0])

    def batch(self, rows: list[Row], padded: bool = False, least: int = 0) -> dict[str, Any]:
        """Rows as tensors: of a language model one behind the other (see `joined`), of an encoder
        padded to the longest."""
        import torch

        if self.tuned.words:
            ids = [row["input_ids"] for row in rows]
            pad = self.tokenizer.pad_token_id or 0
            return joined(ids, pad, self.tuned.max_length, padded, least)
        inputs = [{name: x for name, x in row.items() if name != "labels"} for row in rows]
        padded_rows = self.tokenizer.pad(inputs, return_tensors="pt")
        return {name: torch.as_tensor(x) for name, x in padded_rows.items()}

    def log_probabilities(self, outputs: Any) -> Any:
        """(examples, labels), float32, of what the model gave."""
        logits = outputs.logits
        if self.tuned.words:
            logits = logits[0]
        return logits.float().log_softmax(-1)[:, self.columns]

    def scores(self, rows: list[Row]) -> np.ndarray:
        """Log-probabilities of the labels: (rows, labels), float32."""
        import numpy as np
        import torch
        from accelerate.utils import send_to_device
        from tqdm import tqdm

        found = np.zeros((len(rows), len(self.columns)), dtype=np.float32)
        device = self.model.device
        size = 1 if device.type == "cpu" else 32
        no_masks_by_cudnn()
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]["input_ids"]))
        with tqdm(total=len(rows), desc="verdicts", delay=2, leave=False, disable=None) as bar:
            for at in range(0, len(order), size):
                some = order[at : at + size]
                inputs = self.batch([rows[i] for i in some])
                with torch.inference_mode():
                    outputs = self.model(**send_to_device(inputs, device))
                    found[some] = self.log_probabilities(outputs).cpu().numpy()
                bar.update(len(some))
        return found


def gold_pairs(claim: Claim) -> Pairs:
    """Gold questions and answers; yes or no with its explanation. One pair an answer."""
    return [
        (question.question, " ".join(filter(None, (answer.answer, answer.boolean_explanation))))
        for question in claim.questions
        for answer in question.answers
    ] or [(question.question, NO_ANSWER) for question in claim.questions]


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (rows, labels), float64, of log-probabilities over a temperature.

    Raises ClaimflowError for what is no number, as a model gives whose training diverged.
    """
    import numpy as np

    if not np.isfinite(scores).all():
        raise ClaimflowError(
            "The fine-tuned model gives scores that are no numbers: lower verdict.rate, or train "
            "with trainer.mixed=false."
        )
    powers = scores.astype(np.float64) / temperature
    powers = np.exp(powers - powers.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def temperature(scores: np.ndarray, gold: list[int]) -> float:
    """The temperature, from 1/4 to 4, of the lowest negative log-likelihood (Guo et al. 2017)."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    def loss(log: float) -> float:
        return float(-np.log(softmax(scores, float(np.exp(log)))[range(len(gold)), gold]).mean())

    return round(
        float(np.exp(minimize_scalar(loss, bounds=np.log([0.25, 4]), method="bounded").x)), 4
    )


def measures(chances: np.ndarray, gold: list[int]) -> dict[str, Measure]:
    """Accuracy, macro-F1 and expected calibration error (ten bins), each with its 95 % interval
    from 1,000 resamples."""
    from components.score import bootstrap, calibration

    guess = chances.argmax(axis=1)
    right = guess == gold
    weights = bootstrap.resamples(len(gold), 1000, 13)
    statistics = {
        "accuracy": bootstrap.mean(right),
        "f1_macro": bootstrap.f1(gold, guess.tolist(), range(len(AVERITEC_LABELS))),
        "ece": calibration.calibration_error(chances.max(axis=1).tolist(), right.tolist()),
    }
    return {name: bootstrap.measure(statistic, weights) for name, statistic in statistics.items()}
